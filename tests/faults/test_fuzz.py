"""Bad input through the whole program: mutated statements where the good ones stand in their scripts, random bytes,
and both through the command line. What comes back is PostgreSQL's error or an answer, never a defect; and what failed
or was rolled back leaves no trace: not in the catalog, not in the session, not in what the rest of the script prints.
"""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgrepl.backend import open_session
from pgrepl.catalog.facts.sequences import move
from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.connection import Catalog
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_sequence
from pgrepl.ground.errors import PgError, Report
from pgrepl.statements.run import run
from tests.harness import forked
from tests.harness.dose import dose
from tests.harness.programs import environment

TESTS = Path(__file__).resolve().parents[1]
SCRIPTS = sorted([path for room in ("postgres", "query", "statements") for path in TESTS.glob(f"{room}/scripts/*.sql")])
TOKEN = re.compile(r"\s+|\w+|'(?:[^']|'')*'|\"[^\"]*\"|.", re.S)
NOISE = [
    "'",
    '"',
    "\\",
    "(",
    ")",
    "$$",
    "/*",
    "--",
    ";",
    "::",
    "=",
    ",",
    "\0",
    "\udcff",
    "é",
    "\U0001f418",
    "NULL",
    "-1",
]
LASTING = re.compile(r"slot|origin|stat_reset|nextval|setval", re.I)  # functions whose work no rollback takes back
LIMITED = "SET LOCAL statement_timeout = '2s'"  # some mutants of WITH RECURSIVE never end, as in PostgreSQL
CONTROL = re.compile(r"\b(BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE|PREPARE)\b", re.I)


def steps(script: Path) -> Iterator[str]:
    r"""The statements of a script and its `\c DATABASE [ROLE]`; other backslash commands are psql's own."""
    buffer = ""
    for line in script.read_text("utf-8").splitlines():
        if re.match(r"\\c(onnect)? \w+( \w+)?$", line):
            yield line
        elif not line.startswith("\\"):
            buffer += line.replace("\\;", ";") + "\n"
            if line.rstrip().endswith(";"):
                yield buffer
                buffer = ""


STATEMENTS = [step for script in SCRIPTS for step in steps(script) if not step.startswith("\\")]
WORDS = sorted({token for text in STATEMENTS for token in TOKEN.findall(text) if not token.isspace()})


def mutated(dice: random.Random, text: str) -> str:
    """Tokens dropped, doubled, exchanged, replaced, put in; or the end cut off."""
    tokens = TOKEN.findall(text)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        at = dice.randrange(len(tokens))
        match dice.randrange(7):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[at])
            case 2:
                other = dice.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = dice.choice(WORDS)
            case 4:
                tokens.insert(at, f" {dice.choice(WORDS)} ")
            case 5:
                tokens.insert(at, dice.choice(NOISE))
            case 6:
                del tokens[at:]
        if not tokens:
            return ""
    return "".join(tokens)


def answer(session: Session, text: str) -> list[object]:
    """The tags and rows, and the error that ended them; anything but a PgError is a defect and fails the test."""
    answers: list[object] = []
    try:
        for result in run(session, text):
            answers.append(result.tag if result.columns is None else list(result.rows))
    except PgError as error:
        assert error.message and re.fullmatch("[0-9A-Z]{5}", error.sqlstate)
        assert not re.match('internal error|catalog "', error.message), error.message
        answers.append(error.report)
    return answers


class Watch:
    """Sees whether anything has been committed to a catalog file, from a connection of its own. Sequences move on even
    when the transaction is taken back; here they are put back."""

    def __init__(self, catalog: Catalog) -> None:
        assert catalog.path is not None
        self._link = sqlite3.connect(catalog.path, isolation_level=None)
        self.look()

    def look(self) -> None:
        self._version = self._link.execute("PRAGMA data_version").fetchone()
        self._sequences = self._link.execute("SELECT seqrelid, last_value, is_called FROM pg_sequence").fetchall()

    def unchanged(self) -> bool:
        if self._link.execute("PRAGMA data_version").fetchone() == self._version:
            return True
        now = self._link.execute("SELECT seqrelid, last_value, is_called FROM pg_sequence").fetchall()
        moved = [before for before, after in zip(self._sequences, now, strict=False) if before != after]
        self._link.executemany(
            "UPDATE pg_sequence SET last_value = ?, is_called = ? WHERE seqrelid = ?",
            [(last, called, oid) for oid, last, called in moved],
        )
        return bool(moved) and len(now) == len(self._sequences)

    def close(self) -> None:
        self._link.close()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that COPY starts may leave files where they are started."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(tmp_path / "catalog.db")
    yield opened
    opened.close()


def connected(catalog: Catalog, session: Session | None, step: str) -> Session:
    """`\\c`: another session, if it is let in."""
    _, database, *user = step.split()
    try:
        new = open_session(catalog, database, *user)
    except PgError:
        if session is None:
            raise
        return session
    if session is not None:
        session.close()
    return new


def play(folder: Path, script: Path, mutants: int, seed: int) -> tuple[list[object], int]:
    """What the statements of the script answer while mutants of each run in vain before it; how many these were."""
    dice = random.Random(f"{seed} {script.stem}")
    catalog = open_catalog(folder / "catalog.db")
    setup = open_session(catalog)
    for database in ("test_pub", "test_sub"):
        answer(setup, f"CREATE DATABASE {database}")
    setup.close()
    session = connected(catalog, None, r"\c test_pub")
    watch = Watch(catalog)
    answers: list[object] = []
    tried = 0
    for step in steps(script):
        if step.startswith("\\"):
            session = connected(catalog, session, step)
            continue
        for _ in range(mutants):
            tried += try_in_vain(session, watch, mutated(dice, step))
        answers.append(answer(session, step))
    watch.close()
    session.close()
    catalog.close()
    return answers, tried


def try_in_vain(session: Session, watch: Watch, text: str) -> bool:
    """Run a text and take back what it did. False: it cannot be taken back here, so it was not run."""
    block = session.transaction.block
    if block is Block.ABORTED or LASTING.search(text) or CONTROL.search(text):
        return False
    watch.look()
    if block is Block.NONE and "\0" not in text and len(text) % 2:
        answer(session, f"{LIMITED}; {text}\n; SELECT 1/0")  # one implicit transaction; a comment ends before
    elif block is Block.EXPLICIT:
        sequences = rows(session, pg_sequence)
        answer(session, "SAVEPOINT fuzz")
        answer(session, LIMITED)
        answer(session, text)
        answer(session, "ROLLBACK TO fuzz")
        answer(session, "RELEASE fuzz")
        if session.transaction.is_writing:  # otherwise the sequences moved beside it, and `watch` sees to them
            for row in set(sequences) - set(rows(session, pg_sequence)):
                move(session, row.seqrelid, row.last_value, row.is_called)
    else:
        answer(session, "BEGIN")
        answer(session, LIMITED)
        answer(session, text)
        answer(session, "ROLLBACK")
    assert session.transaction.block is block, text
    assert watch.unchanged(), text
    return True


def without_oids(answers: list[object]) -> str:
    """OIDs, LSNs and such are taken and not given back, as in PostgreSQL."""
    return re.sub(r"pg_temp_\d+(_\d+)?|\d{5,}|0/[0-9A-F]+", "N", repr(answers))


def check(script: Path, folder: Path, mutants: int, seed: int) -> None:
    (folder / "calm").mkdir()
    (folder / "noisy").mkdir()
    calm, _ = play(folder / "calm", script, 0, seed)
    noisy, tried = play(folder / "noisy", script, mutants, seed)
    assert tried * 8 > len(calm)
    assert without_oids(noisy) == without_oids(calm)


@pytest.mark.parametrize("script", dose(SCRIPTS, 48, 5), ids=lambda path: path.stem)
def test_mutants_in_a_script_leave_no_trace(script: Path, tmp_path: Path) -> None:
    check(script, tmp_path, mutants=1, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_many_more_mutants_leave_no_trace(script: Path, tmp_path: Path, seed: int) -> None:
    check(script, tmp_path, mutants=50, seed=seed)


PIECES = st.one_of(
    st.sampled_from(STATEMENTS),
    st.sampled_from(WORDS),
    st.sampled_from(NOISE),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.binary(max_size=8).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


def random_statements(folder: Path, examples: int) -> None:
    """Pieces of statements, words and bytes in any order, each alone and all in one transaction."""
    catalog = open_catalog(folder / "catalog.db")
    session = open_session(catalog)
    for statement in ("CREATE TABLE t (a int PRIMARY KEY, b text)", "CREATE PUBLICATION p FOR TABLE t WHERE (a > 5)"):
        answer(session, statement)
    watch = Watch(catalog)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(PIECES, min_size=1, max_size=6).map(" ".join))
    def check_one(text: str) -> None:
        try_in_vain(session, watch, text)

    check_one()
    watch.close()
    session.close()
    catalog.close()


def test_random_pieces_leave_no_trace(tmp_path: Path) -> None:
    random_statements(tmp_path, examples=120)


@pytest.mark.slow
def test_many_more_random_pieces_leave_no_trace(tmp_path: Path) -> None:
    random_statements(tmp_path, examples=100_000)


LONG = "1" * 5000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT '{LONG}'::int", f'value "{LONG}" is out of range for type integer'),
        (f"SELECT '{LONG}'::oid", f'value "{LONG}" is out of range for type oid'),
        (f"SELECT '1e{LONG}'::numeric", "value overflows numeric format"),
        (f"SET work_mem = {LONG}", f'invalid value for parameter "work_mem": "{LONG}"'),
        (f"SET timezone = '{LONG}'", f'invalid value for parameter "TimeZone": "{LONG}"'),
        (f"SELECT format('%{LONG}s', 1)", "number is out of range"),
        (f"SELECT 'a' ~ 'a{{{LONG}}}'", "invalid regular expression: invalid repetition count(s)"),
    ],
    ids=lambda text: text[:24],
)
def test_numbers_of_thousands_of_digits_are_out_of_range(catalog: Catalog, text: str, message: str) -> None:
    session = open_session(catalog)
    (report,) = answer(session, text)
    session.close()
    assert isinstance(report, Report) and report.message == message


def test_numerics_have_thousands_of_digits(catalog: Catalog) -> None:
    session = open_session(catalog)
    quotient = str(10**5000 // 7)
    assert answer(session, "SELECT trunc(1e5000 / 7)") == [[(quotient,)]]
    session.close()


def test_queries_in_queries_take_no_longer_than_their_text(catalog: Catalog) -> None:
    session = open_session(catalog)
    started = time.process_time()
    assert answer(session, f"SELECT {'(SELECT ' * 60}1{')' * 60}") == [[("1",)]]
    session.close()
    assert time.process_time() - started < 5


def noise(dice: random.Random) -> bytes:
    """A script of statements, backslash commands and bytes, many of them broken."""
    commands = (
        "d d+ dt du l dp dRp+ dRs+ di dn+ x a t pset set unset gset g gx if elif else endif echo qecho warn timing"
    )
    commands += " p r h ? c conninfo f errverbose crosstabview gexec gdesc bind encoding prompt copyright z r s nosuch"
    arguments = [
        "",
        "p",
        "*",
        '"',
        "'",
        ":x",
        ":'a",
        "(",
        "[a-",
        "?",
        "public.t",
        "a.b.c.d",
        "-1",
        "9" * 20,
        "on",
        "\\",
    ]
    lines = []
    for _ in range(150):
        kind = dice.randrange(4)
        if kind == 0:
            line = mutated(dice, dice.choice(STATEMENTS)).encode("utf-8", "surrogateescape")
        elif kind == 1:
            line = f"\\{dice.choice(commands.split())} {dice.choice(arguments)}".encode()
        elif kind == 2:
            line = bytearray(dice.choice(STATEMENTS).encode())
            line[dice.randrange(len(line))] = dice.randrange(256)
        else:
            line = dice.randbytes(dice.randrange(40))
        lines.append(bytes(line))
    return b"\n".join(lines).replace(b"`", b"'").replace(b"|", b"/")  # no programs


@pytest.mark.parametrize("options", [[], ["-a"], ["-x", "-e"], ["-1"], ["--csv", "-b"], ["-v", "ON_ERROR_STOP=1"]])
def test_broken_scripts_end_with_psqls_exit_codes(options: list[str], tmp_path: Path) -> None:
    script = noise(random.Random(str(options)))
    done = forked.run(["pgrepl", "-X", *options], input=script, cwd=tmp_path, env=environment(tmp_path))
    assert done.returncode in (0, 2, 3)  # 2: a \\c that fails leaves a script without a connection
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr
