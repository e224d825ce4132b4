"""Bytes that are no UTF-8, wherever they come in: an error in PostgreSQL's words, and nothing else happens."""

from __future__ import annotations

import os

import pytest

from pgrepl.shell.shell import ask_on_terminal
from tests.shell.conftest import Run

CONNECT = 'connection to catalog "catalog.db" failed: FATAL: '
INVALID = 'ERROR:  invalid byte sequence for encoding "UTF8": '
BAD = os.fsdecode(b"\xff")
NO_CATALOG = 'DETAIL:  There is no catalog "catalog.db".\n'


def test_patterns_are_refused_as_the_server_refuses_what_libpq_sends(pgrepl: Run) -> None:
    script = b"".join(b"\\" + command + b' "a\xff*"\n' for command in (b"d", b"dt", b"du", b"l", b"dRp+", b"dn", b"dp"))
    assert pgrepl(script=script).stdout.decode() == (INVALID + "0xc0 0x20\n") * 7


def test_a_bad_pattern_aborts_the_transaction(pgrepl: Run) -> None:
    printed = pgrepl("-q", script=b"BEGIN;\n\\dt \xff\nSELECT 1;\nROLLBACK;\n").stdout.decode()
    aborted = "ERROR:  current transaction is aborted, commands ignored until end of transaction block\n"
    assert printed == INVALID + "0xc0 0x20\n" + aborted


def test_statements_name_the_bytes(pgrepl: Run) -> None:
    printed = pgrepl(script=b"SELECT '\xe2\x28';\nCREATE TABLE \xb5 (a int);\n").stdout.decode()
    assert printed == INVALID + "0xe2 0x28 0x27\n" + INVALID + "0xb5\n"


@pytest.mark.parametrize(
    ("arguments", "variables", "printed"),
    [
        (("-d", BAD), {}, f'pgrepl: error: {CONNECT} database "{BAD}" does not exist\n{NO_CATALOG}'),
        (("-U", BAD), {}, f'pgrepl: error: {CONNECT} role "{BAD}" does not exist\n{NO_CATALOG}'),
        ((), {"PGUSER": BAD}, f'pgrepl: error: {CONNECT} role "{BAD}" does not exist\n{NO_CATALOG}'),
        (
            (),
            {"PGOPTIONS": f"-c search_path={BAD}"},
            f'pgrepl: error: {CONNECT} invalid byte sequence in the value of parameter "search_path"\n',
        ),
    ],
)
def test_no_connection_under_such_names(
    pgrepl: Run, arguments: tuple[str, ...], variables: dict[str, str], printed: str
) -> None:
    done = pgrepl(*arguments, "-c", "SELECT 1", **variables)
    assert (os.fsdecode(done.stdout), done.returncode) == (printed, 2)


def test_the_environment_sets_what_libpq_lets_it_set(pgrepl: Run) -> None:
    show = ("-At", "-c", "SHOW application_name", "-c", "SHOW datestyle", "-c", "SHOW timezone", "-c", "SHOW geqo")
    done = pgrepl(*show, PGAPPNAME="night job", PGDATESTYLE="German", PGTZ="Asia/Tokyo", PGGEQO="off")
    assert done.stdout.decode() == "night job\nGerman, DMY\nAsia/Tokyo\noff\n"


def test_no_character_set_without_conversion_is_promised(pgrepl: Run) -> None:
    printed = pgrepl("-q", script="SET client_encoding = euc_tw;\nSHOW client_encoding;\n", apart=True)
    assert printed.stderr.decode() == (
        'ERROR:  invalid value for parameter "client_encoding": "euc_tw"\n'
        "DETAIL:  Conversion between EUC_TW and UTF8 is not supported.\n"
    )
    assert printed.stdout.decode() == " client_encoding \n-----------------\n UTF8\n(1 row)\n\n"


def test_a_prompt_asks_with_its_bytes() -> None:
    (answers, answer), (questions, question) = os.pipe(), os.pipe()
    os.write(answer, b"yes\n")
    with open(answers, "rb", buffering=0) as reader:
        assert ask_on_terminal(reader, question, os.fsdecode(b"\xff? "), echo=True) == "yes"
    assert os.read(questions, 10) == b"\xff? "
    for descriptor in (answer, questions, question):
        os.close(descriptor)
