"""`pgrepl run`: scripts are run, and what they print is compared with the expected output beside them."""

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
from xml.sax.saxutils import escape, quoteattr

import click

from pgrepl.ground.frozen import frozen
from pgrepl.shell.commands.check import rehearsal
from pgrepl.shell.commands.subcommand import BAD_CONNECTION, FAILURE, OK, is_given, run
from pgrepl.shell.connection import CATALOG_FILE, DEFAULT_DATABASE, DEFAULT_USER
from pgrepl.types.plain import xml_text

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
            found = printed.read()
        if code == BAD_CONNECTION or code < 0:
            return done("could not be run", found.decode("utf-8", "replace"), could_run=False)
        if update:
            if not expected.exists() or expected.read_bytes() != found:
                expected.write_bytes(found)
            return done()
        known = expected.read_bytes() if expected.exists() else None
    except OSError as problem:
        return done("could not be run", f"{problem.filename}: {problem.strerror}\n", could_run=False)
    if known is None:
        return done("no expected output", f"{expected} is missing: --update writes it\n")
    return done() if known == found else done("another output than expected", _difference(expected, name, known, found))


def _difference(expected: Path, name: str, known: bytes, found: bytes) -> str:
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (known, found))
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


def run_scripts(arguments: Sequence[str]) -> int:
    return run(run_command, arguments)
