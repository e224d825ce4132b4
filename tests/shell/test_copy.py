r"""Where the data of COPY come from and go to, by whatever way the commands came; the outputs are those of psql 17."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgrepl.shell.backslash.copying import SlashCopy, parse
from pgrepl.shell.scripts import results
from pgrepl.shell.shell import Shell
from pgrepl.shell.streams import CopySource
from tests.harness.programs import PATIENCE, environment
from tests.shell.conftest import Run

BAD = 'ERROR:  invalid input syntax for type integer: "x"\nCONTEXT:  COPY t, line 2, column a: "x"\n'
LARGE = b"1\n" * (1 << 19)  # from here on a plain file is read by its path
ONE = " ?column? \n----------\n        1\n(1 row)\n\n"


@pytest.fixture
def table(pgrepl: Run) -> Run:
    """A program with a table t (a int)."""
    assert pgrepl("-qc", "CREATE TABLE t (a int)").stdout == b""
    return pgrepl


def shown(run: Run, *arguments: str, script: str | bytes = "") -> tuple[str, int]:
    done = run(*arguments, script=script)
    return done.stdout.decode(), done.returncode


def counted(number: int) -> str:
    return f" count \n-------\n{number:6}\n(1 row)\n\n"


# --- the command line ------------------------------------------------------------------------------------------------


def test_a_command_reads_standard_input_up_to_the_marker(table: Run) -> None:
    printed = shown(table, "-c", "copy t from stdin", "-c", "select count(*) from t", script="1\n2\n\\.\nselect 5;\n")
    assert printed == ("COPY 2\n" + counted(2), 0)


def test_what_one_command_left_of_standard_input_is_the_next_ones(table: Run) -> None:
    commands = ("-c", "copy t from stdin; select 1", "-c", "\\copy t from stdin", "-c", "copy t from stdin")
    assert shown(table, *commands, script="1\n\\.\n2\n3") == ("COPY 1\n" + ONE + "COPY 2\nCOPY 0\n", 0)


def test_a_malformed_line(table: Run) -> None:
    assert shown(table, "-c", "copy t from stdin", "-c", "select 1", script="1\nx\n") == (BAD + ONE, 0)
    stopping = ("-v", "ON_ERROR_STOP=1", "-c", "\\copy t from stdin", "-c", "select 1")
    assert shown(table, *stopping, script="1\nx\n") == (BAD, 1)
    assert shown(table, "-c", "select count(*) from t") == (counted(0), 0)


def test_what_stands_behind_a_nul_is_lost(table: Run) -> None:
    assert shown(table, "-c", "copy t from stdin", "-c", "copy t to stdout", script=b"1\0zz\n2\n") == (
        "COPY 1\n12\n",
        0,
    )


def test_rows_go_where_the_output_goes(table: Run, tmp_path: Path) -> None:
    assert shown(table, "-o", "out.txt", "-c", "copy (select 1) to stdout", "-c", "select 1") == ("", 0)
    assert (tmp_path / "out.txt").read_text() == "1\n" + ONE


# --- scripts ---------------------------------------------------------------------------------------------------------


def test_an_error_in_the_data_is_where_they_end(table: Run, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text("copy t from stdin;\n1\nx\n\\.\nselect 1;\n")
    assert shown(table, "-f", "s.sql") == (f"psql:s.sql:4: {BAD}{ONE}", 0)
    assert shown(table, "-v", "ON_ERROR_STOP=1", "-f", "s.sql") == (f"psql:s.sql:4: {BAD}", 3)


def test_the_data_of_a_statement_that_failed_are_no_commands(table: Run, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text("copy nix from stdin;\n1\n\\.\nselec;\n")
    printed = (
        'psql:s.sql:1: ERROR:  relation "nix" does not exist\n'
        'psql:s.sql:4: ERROR:  syntax error at or near "selec"\nLINE 1: selec;\n        ^\n'
    )
    assert shown(table, "-f", "s.sql") == (printed, 0)


def test_a_script_may_end_with_data_or_without(table: Run, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text("copy t from stdin;\n1\n")
    assert shown(table, "-f", "s.sql") == ("COPY 1\n", 0)
    (tmp_path / "s.sql").write_text("copy t from stdin")
    assert shown(table, "-f", "s.sql", script="9\n") == ("COPY 0\n", 0)


def test_each_script_has_its_own_data_and_pstdin_is_the_programs(table: Run, tmp_path: Path) -> None:
    (tmp_path / "inner.sql").write_text("\\copy t from stdin\n3\n\\.\n\\copy t from pstdin\n")
    (tmp_path / "outer.sql").write_text(
        "copy t from stdin; select 1;\n1\n\\.\n\\copy t from stdin\n2\n\\.\n\\i inner.sql\nselect count(*) from t;\n"
        "\\copy t from pstdin\nselec;\n"
    )
    printed = (
        f"COPY 1\n{ONE}COPY 1\nCOPY 1\nCOPY 1\n{counted(4)}COPY 1\n"
        'psql:outer.sql:10: ERROR:  syntax error at or near "selec"\nLINE 1: selec;\n        ^\n'
    )
    assert shown(table, "-f", "outer.sql", script="7\n\\.\n8\n") == (printed, 0)


def test_lines_of_data_count_as_lines_of_the_script(table: Run, tmp_path: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(5000))
    (tmp_path / "s.sql").write_text(f"copy t from stdin;\n{lines}\\.\nselec;\n")
    printed = 'COPY 5000\npsql:s.sql:5003: ERROR:  syntax error at or near "selec"\nLINE 1: selec;\n        ^\n'
    assert shown(table, "-f", "s.sql") == (printed, 0)


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        (b"1\n2\n", None),
        (b"1\n\\.x\n2\n", None),
        (b"1\n\\.\n2\n", b"1\n\\.\n"),
        (b"\\.\r\n2\n", b"\\.\r\n"),
        (b"1\n7\0zz\n8\n", b"1\n78\n"),
        (b"1\n\\.", None),
    ],
)
def test_a_large_file_is_read_where_it_is_unless_psql_would_send_something_else(
    tmp_path: Path, content: bytes, sent: bytes | None
) -> None:
    content, sent = LARGE + content, None if sent is None else LARGE + sent
    path = tmp_path / "data"
    path.write_bytes(content)
    with path.open("rb") as file:
        data = results.ShellData(Shell(), CopySource(file, own=False, path=str(path)), binary=False)
        assert data.path == (str(path) if sent is None else None)
        assert b"".join(data) == (content if sent is None else sent)


# --- the words of \copy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("t from stdin", SlashCopy(" t", "", True)),
        ('s . "T" ( a , "b c" )from STDIN csv', SlashCopy(' s."T" ( a , "b c" )', "csv", True)),
        ("binary t to stdout", SlashCopy("binary t", "", False)),
        ("t to 'it''s' with (format csv)", SlashCopy(" t", "with (format csv)", False, "it's")),
        ("t to file;", SlashCopy(" t", ";", False, "file")),
        ("(select ')' , (1)) to pstdout", SlashCopy(" ( select ')' , ( 1 ) )", "", False, own_streams=True)),
        ("(select E'\\')' ) to x", SlashCopy(" ( select E'\\')' )", "", False, "x")),
        ("t from program 'a ''b'' c' csv", SlashCopy(" t", "csv", True, "a 'b' c", program=True)),
        ("t from pstdin where a > 1", SlashCopy(" t", "where a > 1", True, own_streams=True)),
    ],
)
def test_the_parts_of_copy(text: str, wanted: SlashCopy) -> None:
    assert parse(text, standard_strings=True) == wanted


# --- a person --------------------------------------------------------------------------------------------------------


def test_a_person_is_asked_for_rows(table: Run, tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    import sys

    variables = {**environment(tmp_path), "TERM": "dumb", "PGOPTIONS": "-c pgrepl.engine=local"}
    child = pexpect.spawn(
        sys.executable, ["-m", "pgrepl", "-X", "-n"], cwd=tmp_path, env=variables, encoding="utf-8", timeout=PATIENCE
    )

    def say(text: str, answer: str) -> str:
        child.sendline(text)
        child.expect_exact(answer)
        return str(child.before)

    child.expect_exact("postgres=# ")
    asked = (
        "Enter data to be copied followed by a newline.\r\n"
        "End with a backslash and a period on a line by itself, or an EOF signal.\r\n"
    )
    assert say("copy t from stdin;", ">> ") == f"copy t from stdin;\r\n{asked}"
    say("1", ">> ")
    say("2", ">> ")
    assert say("\\.", "postgres=# ") == "\\.\r\nCOPY 2\r\n"
    say("copy t from stdin;", ">> ")
    say("3", ">> ")
    child.sendintr()
    child.expect_exact("postgres=# ")
    assert child.before.endswith("ERROR:  COPY from stdin failed: canceled by user\r\nCONTEXT:  COPY t, line 1\r\n")
    say("copy t from stdin;", ">> ")
    say("4", ">> ")
    child.sendeof()
    child.expect_exact("postgres=# ")
    assert child.before == "COPY 1\r\n"
    assert say("copy nix from stdin;", "postgres=# ").endswith('ERROR:  relation "nix" does not exist\r\n')
    say("\\set QUIET on", "postgres=# ")
    say("\\set PROMPT3 'row: '", "postgres=# ")
    assert say("copy t from stdin;", "row: ") == "copy t from stdin;\r\n"
    say("x", "row: ")
    child.sendeof()
    child.expect_exact("postgres=# ")
    assert child.before.endswith('CONTEXT:  COPY t, line 1, column a: "x"\r\n')
    assert "     3\r\n" in say("select count(*) from t;", "postgres=# ")
    child.sendline("\\q")
    child.expect_exact(pexpect.EOF)
