"""`pgrepl check`, with the shell that reads a script in order to check it; `pgrepl run`: scripts are run, and what they
print is compared with the expected output beside them."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

import click

from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.frozen import frozen
from pgrepl.shell.commands.findings import FORMATS, UNKNOWN, WITHHELD, Finding, LineColumn, PlacedBuffer
from pgrepl.shell.commands.subcommand import BAD_CONNECTION, FAILURE, OK, connection, is_given
from pgrepl.shell.connection import (
    CATALOG_FILE,
    DEFAULT_DATABASE,
    DEFAULT_USER,
    ConnectFailure,
    Connection,
    ConnectTarget,
    check_catalog,
    failure_of,
    startup_settings,
)
from pgrepl.shell.scripts.lexer import Lexer
from pgrepl.shell.scripts.mainloop import run_file
from pgrepl.shell.shell import Severity, Shell
from pgrepl.shell.streams import Stream
from pgrepl.shell.variables import Variables
from pgrepl.sql.keywords import quote_identifier
from pgrepl.statements.rehearse import Rehearsal, copy_without_rows, empty_catalog
from pgrepl.types.plain import xml_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter
    from pgrepl.query.result import Result
    from pgrepl.statements.run import Execute

_TOLD = ("ERROR", "FATAL", "PANIC", "WARNING")


class CheckingVariables(Variables):
    """psql's variables in a check. Those that steer a script's way are fixed: each statement is looked at, whatever
    came before it."""

    _FIXED = {
        "AUTOAPPLY": "off",
        "ON_STALE": "off",
        "FETCH_COUNT": "0",
        "ON_ERROR_ROLLBACK": "on",
        "ON_ERROR_STOP": "off",
        "SINGLESTEP": "off",
    }

    def on(self, name: str) -> bool:
        return self._FIXED[name] == "on" if name in self._FIXED else super().on(name)

    def word(self, name: str) -> str:
        return self._FIXED.get(name) or super().word(name)

    def number(self, name: str) -> int:
        return int(self._FIXED[name]) if name in self._FIXED else super().number(name)


class CheckingShell(Shell):
    """Reads scripts; `findings` are in the order of the scripts' lines as they were read."""

    def __init__(self) -> None:
        super().__init__()
        nowhere = os.open(os.devnull, os.O_RDWR)
        self.stdout = self.query_out = Stream(nowhere)
        self.stderr = Stream(nowhere, buffered=False)
        self.variables = CheckingVariables(self.error)
        self._set_up_variables()
        self.not_terminal = True
        self.own_commands = dict(WITHHELD)
        self.backticks = self._without_program
        self.findings: list[Finding] = []
        self.rehearsal = Rehearsal()
        self.file = ""  # the script, before and after it is read
        self.catalog_name = ""  # for messages: the copy's name tells nobody anything

    def read(self, name: str, target: ConnectTarget) -> None:
        """Read a script in a session of its own. The working folder is as before, whatever the script does."""
        self.file = "<stdin>" if name == "-" else name
        self.defaults = target
        self.connection = CheckedConnection(target, self)
        self.sync_variables()
        folder = os.getcwd()
        try:
            run_file(self, name)
        finally:
            os.chdir(folder)
            if self.connection is not None:
                self.connection.close()
                self.connection = None

    def prepare_lexer(self, lexer: Lexer) -> None:
        lexer.query = PlacedBuffer(lexer, lambda: self.line_number)

    def connect(self, target: ConnectTarget) -> Connection:
        if os.path.abspath(os.path.join(target.folder, target.catalog)) != self.defaults.catalog:
            raise ConnectFailure(f"{UNKNOWN}the script goes on in another catalog")
        return CheckedConnection(target, self)

    def _without_program(self, text: str) -> str:
        self.note("a program in backticks is not run")
        return UNKNOWN

    # --- what is found -----------------------------------------------------------------------------------------------

    def report(self, report: Report, query: str | None) -> None:
        if report.severity in _TOLD:
            place = self._place(report.position, query)
            self._find(
                place, report.severity, report.sqlstate, report.message, report.detail, report.hint, report.context
            )

    def log(self, severity: Severity, text: str, *, label: str | None = None) -> None:
        if severity == "info":
            return
        if UNKNOWN in text:
            self.note("what depends on it is not checked: the value is not known here")
            return
        place = LineColumn(self.line_number or 1, 1)
        text = text.removesuffix("\n").replace("\n", " ").replace(self.defaults.catalog, self.catalog_name)
        self._find(place, severity.upper(), None, text)

    def note(self, text: str) -> None:
        """Tell what is not carried out."""
        self._find(self._place(None, None), "NOTICE", None, text)

    def _find(
        self,
        place: LineColumn,
        severity: str,
        sqlstate: str | None,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
        context: str | None = None,
    ) -> None:
        file = self.source_name or self.file
        finding = Finding(file, place.line, place.column, severity, sqlstate, message, detail, hint, context)
        self.findings.append(finding)

    def _place(self, position: int | None, query: str | None) -> LineColumn:
        buffer = self.query_buffer
        if isinstance(buffer, PlacedBuffer):
            place = buffer.start
            if position is not None and query is not None and query == buffer.text:
                place = buffer.place(position - 1)
            if place is not None:
                return place
        return LineColumn(self.line_number or 1, 1)


class CheckedConnection(Connection):
    """A connection to the copy, whose statements are rehearsed."""

    def __init__(self, target: ConnectTarget, shell: CheckingShell) -> None:
        super().__init__(target, shell.on_notice)
        self.catalog.is_rehearsal = True
        self._shell = shell

    def run(
        self, text: str, parameters: Sequence[Parameter] | None = None, *, execute: Execute | None = None
    ) -> Iterator[Result]:
        shell, rehearsal = self._shell, self._shell.rehearsal
        if UNKNOWN in text:
            shell.note("the statement is not checked: it has a value in it that is not known here")
            shell.next.set_prefix, shell.next.execute, shell.next.crosstab = None, False, None
            return
        rehearsal.wants_rows = shell.next.set_prefix is not None or shell.next.execute
        rehearsal.notes.clear()
        for result in super().run(text, parameters, execute=execute or rehearsal.execute):
            if rehearsal.unknown is not None and rehearsal.wants_rows:
                self._leave_open(tuple(column.name for column in rehearsal.unknown))
            shell.next.crosstab = None
            yield result
        for note in rehearsal.notes:
            shell.note(note)

    def _leave_open(self, columns: tuple[str, ...]) -> None:
        r"""The rows for `\gset` or `\gexec` are not known."""
        shell = self._shell
        if shell.next.execute:
            shell.note("\\gexec: the queries are not checked, because they depend on rows")
        prefix = shell.next.set_prefix
        if prefix is not None:
            for column in columns:
                if not shell.variables.special(prefix + column):
                    shell.variables.set(prefix + column, UNKNOWN)
        shell.next.set_prefix, shell.next.execute = None, False


# --- command ----------------------------------------------------------------------------------------------------------


NOT_CHECKED = BAD_CONNECTION


@click.command("check", short_help="look for errors in scripts, without running them")
@click.argument("file", nargs=-1, required=True)
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True, help="how to tell errors"
)
@click.option("--empty", is_flag=True, help="check against an empty catalog, whatever there is here")
@click.option("-v", "--set", "--variable", "variables", metavar="NAME=VALUE", multiple=True, help="set a variable")
@click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role")
@click.option("-d", "--dbname", envvar="PGDATABASE", default=DEFAULT_DATABASE, help="the database to begin in")
@click.option("--catalog", envvar="PGREPL_CATALOG", help="the catalog's file (default: catalog.db, if there is one)")
def check_command(
    file: tuple[str, ...],
    form: str,
    empty: bool,
    variables: tuple[str, ...],
    username: str,
    dbname: str,
    catalog: str | None,
) -> int:
    """Look for errors in psql scripts (-: standard input), one after the other, without changing anything.

    Definitions are made in a copy of the catalog, without its rows, that is thrown away: a later statement, or a later
    FILE, sees what an earlier one defined. Statements about rows are analysed, but not run. All errors are told, not
    only the first. Nothing is written or contacted: no table, no slot, no server, no program. A NOTICE says what was
    not carried out and could not be checked.

    Without a catalog, or with --empty, scripts are checked against an empty one, in which the database exists.

    Exits with 0 if there is no error, with 1 if there is one, with 2 if something could not be checked at all, such as
    a file that cannot be read.

    \b
    pgrepl check schema.sql publications.sql -d shop
    pgrepl check --format github migrations/*.sql
    pgrepl check --format junit --empty schema.sql > report.xml
    """

    for name in file:
        if name != "-" and not can_read(name):
            return NOT_CHECKED
    with rehearsal(None if empty else _named(catalog), dbname, username) as target:
        shell = CheckingShell()
        shell.defaults, shell.catalog_name = target, catalog or CATALOG_FILE
        for variable in variables:
            name, equals, value = variable.partition("=")
            if not shell.variables.set(name, value if equals else None):
                raise click.UsageError(shell.findings[-1].message)
        for name in file:
            shell.read(name, target)
    sys.stdout.write(FORMATS[form](file, shell.findings))
    return FAILURE if any(finding.is_error for finding in shell.findings) else OK


def can_read(name: str) -> bool:
    try:
        with open(name, "rb") as file:
            file.peek(1)
    except OSError as problem:
        sys.stderr.write(f"pgrepl: error: {name}: {problem.strerror}\n")
        return False
    return True


def _named(catalog: str | None) -> str | None:
    if catalog is None and not os.path.lexists(CATALOG_FILE):
        return None
    return catalog or CATALOG_FILE


@contextmanager
def rehearsal(catalog: str | None, database: str, user: str) -> Iterator[ConnectTarget]:
    """A copy of the catalog, or an empty one with the database, for as long as it is wanted."""
    settings = {**startup_settings(os.environ.get("PGOPTIONS", "")), "pgrepl.engine": "local"}
    with tempfile.TemporaryDirectory(prefix="pgrepl-check-") as folder:
        place = Path(folder).resolve()
        try:
            if catalog is None:
                path = empty_catalog(place)
                _make_database(path, database)
            else:
                check_catalog(ConnectTarget(catalog, database, user, makes=False))
                path = copy_without_rows(catalog, place)
        except PgError as problem:
            raise failure_of(catalog or CATALOG_FILE, problem) from problem
        target = ConnectTarget(str(path), database, user, settings)
        try:
            yield target
        except ConnectFailure as failure:
            raise ConnectFailure(str(failure).replace(str(path), catalog or CATALOG_FILE)) from failure


def _make_database(path: Path, name: str) -> None:
    if name != DEFAULT_DATABASE:
        with connection(str(path), DEFAULT_DATABASE, DEFAULT_USER) as opened:
            list(opened.run(f"CREATE DATABASE {quote_identifier(name)}"))


_NOT_RUN = BAD_CONNECTION


@frozen
class Outcome:
    script: str
    seconds: float
    problem: str | None = None  # in a few words
    text: str = ""  # the difference, or what went wrong
    could_run: bool = True


@click.command("run", short_help="run scripts and compare what they print with what is expected")
@click.argument("script", nargs=-1, required=True)
@click.option("--junit", metavar="FILE", help="write a report as JUnit's XML")
@click.option("--update", is_flag=True, help="write what they print as what is expected")
@click.option("--temp", is_flag=True, help="each in an empty catalog of its own, which is removed again")
@click.option("-v", "--set", "--variable", "variables", metavar="NAME=VALUE", multiple=True, help="set a variable")
@click.option("-U", "--username", envvar="PGUSER", default=DEFAULT_USER, help="act as this role")
@click.option("-d", "--dbname", envvar="PGDATABASE", default=DEFAULT_DATABASE, help="the database to begin in")
@click.option("--catalog", envvar="PGREPL_CATALOG", default=CATALOG_FILE, help="the catalog's file or URL")
def run_command(
    script: tuple[str, ...], junit: str | None, update: bool, temp: bool, variables: tuple[str, ...], username: str,
    dbname: str, catalog: str,
) -> int:  # fmt: skip
    """Run each SCRIPT, one after the other, as `pgrepl -X -a -q < SCRIPT` does: commands, results and messages are
    compared with SCRIPT's expected output, which stands beside it: orders.out for orders.sql.

    Differences are shown as `diff -u` shows them. Exits with 0 if there is none, with 1 if there are some or an
    expected output is missing, with 2 if a script could not be run.

    \b
    pgrepl run --temp tests/*.sql
    pgrepl run --temp --update tests/orders.sql     then look at tests/orders.out
    pgrepl run --temp --junit report.xml tests/*.sql
    """
    if temp and is_given("catalog"):
        raise click.UsageError("--temp and --catalog exclude each other")
    outcomes = []
    for name in script:
        with _catalog(temp, dbname, catalog) as used:
            arguments = ["--catalog", used, "-d", dbname, "-U", username]
            arguments += [word for variable in variables for word in ("-v", variable)]
            outcome = _run(name, arguments, update)
        outcomes.append(outcome)
        sys.stdout.write(f"{'ok' if outcome.problem is None else 'not ok'} - {name}\n")
        if outcome.problem is not None:
            sys.stdout.write(outcome.text if outcome.could_run else f"{outcome.problem}: {outcome.text}")
        sys.stdout.flush()
    if junit is not None:
        try:
            Path(junit).write_text(_junit(outcomes), "utf-8")
        except OSError as problem:
            sys.stderr.write(f"pgrepl: error: {junit}: {problem.strerror}\n")
            return _NOT_RUN
    if not all(outcome.could_run for outcome in outcomes):
        return _NOT_RUN
    return FAILURE if any(outcome.problem is not None for outcome in outcomes) else OK


@contextmanager
def _catalog(temp: bool, database: str, catalog: str) -> Iterator[str]:
    if not temp:
        yield catalog
        return
    with rehearsal(None, database, DEFAULT_USER) as target:
        yield target.catalog


def _run(name: str, arguments: Sequence[str], update: bool) -> Outcome:
    begin = time.monotonic()

    def done(problem: str | None = None, text: str = "", could_run: bool = True) -> Outcome:
        return Outcome(name, time.monotonic() - begin, problem, text, could_run)

    expected = Path(name).with_suffix(".out")
    try:
        with open(name, "rb") as source, tempfile.TemporaryFile() as printed:
            command = [sys.executable, "-m", "pgrepl", "-X", "-a", "-q", *arguments]
            variables = {**os.environ, "COLUMNS": ""}
            code = subprocess.call(command, stdin=source, stdout=printed, stderr=printed, env=variables)
            printed.seek(0)
            output = printed.read()
        if code == BAD_CONNECTION or code < 0:
            return done("could not be run", output.decode("utf-8", "replace"), could_run=False)
        if update:
            if not expected.exists() or expected.read_bytes() != output:
                expected.write_bytes(output)
            return done()
        known = expected.read_bytes() if expected.exists() else None
    except OSError as problem:
        return done("could not be run", f"{problem.filename}: {problem.strerror}\n", could_run=False)
    if known is None:
        return done("no expected output", f"{expected} is missing: --update writes it\n")
    if known == output:
        return done()
    return done("another output than expected", _difference(expected, name, known, output))


def _difference(expected: Path, name: str, known: bytes, output: bytes) -> str:
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (known, output))
    lines = difflib.unified_diff(before, after, str(expected), f"{name} as it is now", lineterm="")
    text = "".join(line + "\n" for line in lines)
    return text or "They differ in their line ends only.\n"


def _junit(outcomes: Sequence[Outcome]) -> str:
    failed = sum(outcome.problem is not None and outcome.could_run for outcome in outcomes)
    errors = sum(not outcome.could_run for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    head = f'tests="{len(outcomes)}" failures="{failed}" errors="{errors}" time="{seconds:.3f}"'
    cases = "".join(map(_case, outcomes))
    suite = f'  <testsuite name="pgrepl run" {head}>\n{cases}  </testsuite>\n'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{suite}</testsuites>\n'


def _case(outcome: Outcome) -> str:
    start = f'    <testcase classname="pgrepl.run" name={quoteattr(outcome.script)} time="{outcome.seconds:.3f}"'
    if outcome.problem is None:
        return f"{start}/>\n"
    word = "failure" if outcome.could_run else "error"
    text = escape(xml_text(outcome.text))
    return f"{start}>\n      <{word} message={quoteattr(outcome.problem)}>{text}</{word}>\n    </testcase>\n"
