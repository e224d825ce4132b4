"""Play a suite of others: `python -m tests.foreign NAME [SOURCE]`, which tests/foreign/run calls.

The suite runs in a virtual environment of its own (PGREPL_FOREIGN names the folder of these, to keep them), in a copy
of its tests, against a new catalog. The exit code is 0 if exactly what is known to fail fails, 1 if there is news, and
2 if the suite cannot be played.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tests.foreign import known
from tests.foreign.suites import PLUGIN, SUITES, Suite
from tests.harness.serving import Serving, serving

_TOOLS = ("pytest", "pytest-timeout")
_DATABASE = "foreign_suite"
_PLAYED = (0, 1)  # pytest's exit codes when tests were played


def main() -> int:
    options = argparse.ArgumentParser(prog="tests/foreign/run", description="Play a test suite of others.")
    options.add_argument("name", choices=SUITES)
    options.add_argument("source", type=Path, nargs="?", help="a folder with the suite's source (default: pip's)")
    options.add_argument("-k", dest="only", default="", help="play a part, as pytest's -k")
    options.add_argument("--update", action="store_true", help="write the list of what is known to fail anew")
    given = options.parse_args()
    suite = SUITES[given.name]
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(os.environ.get("PGREPL_FOREIGN", folder))
        python = python_of(suite, kept / given.name)
        source = given.source or source_of(suite, python, Path(folder))
        outcomes = played(suite, source, python, Path(folder), given.only)
    file = known.FOLDER / f"{given.name}.txt"
    before = known.read(file.read_text("utf-8")) if file.exists() else known.Known(0, {})
    if given.update:
        file.write_text(known.write(before, outcomes), "utf-8")
    found = known.news(before, outcomes, whole=not given.only)
    print("\n".join(found))
    counted = Counter(outcomes.values())
    print(", ".join(f"{counted[each]} {each}" for each in ("passed", "failed", "skipped")))
    return 1 if found else 0


def python_of(suite: Suite, folder: Path) -> Path:
    """The interpreter of an environment with what the suite needs."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *_TOOLS, *suite.needs], check=True)
    return python


def source_of(suite: Suite, python: Path, folder: Path) -> Path:
    """The unpacked source distribution of the release that is installed."""
    name = suite.needs[0].partition("[")[0]
    if not suite.is_distributed:
        raise SystemExit(f"{name} is distributed without its tests: name a folder with its source")
    code = f"from importlib.metadata import version; print(version({name!r}))"
    release = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    download = ["pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", folder, f"{name}=={release}"]
    subprocess.run([python, "-m", *download], check=True)
    (archive,) = folder.glob(f"{name}-*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def played(suite: Suite, source: Path, python: Path, folder: Path, only: str) -> dict[str, str]:
    """The outcome of each test: passed, failed or skipped."""
    there = folder / "suite"
    there.mkdir()
    (there / f"{PLUGIN}.py").write_text(suite.plugin)
    for name in suite.takes:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, there / name)
    report = folder / "report.xml"
    with serving(folder / "lake", "-c", "max_prepared_transactions=10") as lake:
        prepare(lake, suite)
        uri = f"postgresql+psycopg://postgres:trusted@127.0.0.1:{lake.port}/{_DATABASE}"
        places = {"host": "127.0.0.1", "port": lake.port, "database": _DATABASE, "uri": uri}
        command = [python, "-m", "pytest", "-q", "--tb=line", "-p", PLUGIN, "--timeout=120",
                   f"--junit-xml={report}", *(word.format(**places) for word in suite.arguments)]  # fmt: skip
        variables = {name: text.format(**places) for name, text in suite.variables.items()}
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PG", "PYTEST"))}
        ended = subprocess.run(
            [*command, *(["-k", only] if only else [])], cwd=there, env=kept | variables, check=False
        )
    if ended.returncode not in _PLAYED:
        raise SystemExit(2)
    return outcomes_of(report.read_text("utf-8"))


def prepare(lake: Serving, suite: Suite) -> None:
    lake.ask(f"CREATE DATABASE {_DATABASE}")
    with lake.connect(dbname=_DATABASE) as connection:
        for schema in suite.schemas:
            connection.execute(f"CREATE SCHEMA {schema}")


def outcomes_of(report: str) -> dict[str, str]:
    """From pytest's report in JUnit's format; a test that fails and one whose set-up fails are the same here."""
    found: dict[str, str] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        name = f"{case.get('classname')}::{case.get('name')}"
        if found.get(name) != "failed":
            found[name] = outcome
    return found


if __name__ == "__main__":
    sys.exit(main())
