"""Runs command lines, each in a process that has nothing of pgrepl loaded but what the command itself loads.

`python -m tests.statements.alone cold|warm FOLDER` reads a JSON list of argument lists and writes one of the answers.
The folder is put back as it was before each. A cold process is forked from one that has only other people's
modules; a warm one from one that has every module of pgrepl.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import click  # noqa: F401  what takes long to load, and knows nothing of us
import pyarrow.parquet  # noqa: F401
import sqlalchemy.dialects.sqlite  # noqa: F401

from tests.harness.forked import load_everything


def _forked(arguments: list[str], output: int) -> int:
    """The exit code of a child that runs the command."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 70
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        from pgrepl.cli import run

        code = run(arguments)
        sys.stdout.flush()
    finally:
        os._exit(code)


def main(how: str, folder: str) -> None:
    commands = json.load(sys.stdin)
    if how == "warm":
        load_everything()
    else:
        assert not any(name.startswith("pgrepl") for name in sys.modules)
    here = Path(folder)
    saved = here.with_name("saved")
    answers = []
    for arguments in commands:
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(saved, here)
        os.chdir(here)
        with tempfile.TemporaryFile() as output:
            code = _forked(arguments, output.fileno())
            output.seek(0)
            answers.append(f"{output.read().decode()}exit code {code}\n")
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
