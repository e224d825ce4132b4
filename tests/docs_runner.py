"""Runs the examples of a Markdown file: each ```console block is a session, `$ ` lines are typed, the rest is printed.

Blocks of one file share a folder, so that a later one sees what an earlier one made. A block that starts with
`<!-- not run -->` on the line before is only shown; if that ends in a word, a test that asks for the word runs it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.harness.programs import QUICK_CONF, QUICK_SUBMIT

BLOCK = re.compile(r"(?P<skip><!-- not run[^>]*-->\n)?```console\n(?P<text>.*?)```\n", re.DOTALL)
HEREDOC = re.compile(r"<<'?(\w+)'?$")


@dataclass
class Step:
    line: int
    command: str
    printed: str = ""


def steps(text: str, word: str = "") -> list[Step]:
    found: list[Step] = []
    for block in BLOCK.finditer(text):
        if f": {word} -->" in (block["skip"] or "") if word else not block["skip"]:
            line = text.count("\n", 0, block.start("text")) + 1
            found += _steps_of(block["text"].splitlines(), line)
    return found


def _steps_of(rows: list[str], line: int) -> list[Step]:
    found: list[Step] = []
    until: str | None = None  # the word that ends the here-document being read
    for number, row in enumerate(rows, line):
        if until is not None:
            found[-1].command += "\n" + row
            until = None if row == until else until
        elif row.startswith("$ "):
            found.append(Step(number, row[2:]))
            heredoc = HEREDOC.search(row)
            until = heredoc[1] if heredoc else None
        elif found[-1].printed == "" and _continues(found[-1].command):
            found[-1].command += "\n" + row
        else:
            found[-1].printed += row + "\n"
    return found


def _continues(command: str) -> bool:
    """A backslash at the end, or a quote that is still open."""
    return command.endswith("\\") or command.count('"') % 2 == 1


def play(text: str, folder: Path, programs: Path, word: str = "") -> list[tuple[Step, str]]:
    """Each step with what it really printed; programs of that folder come first."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    environment["PATH"] = os.pathsep.join([str(programs), str(Path(sys.executable).parent), environment["PATH"]])
    environment["HOME"] = str(folder)
    environment |= {**QUICK_CONF, **QUICK_SUBMIT}
    results = []
    for step in steps(text, word):
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=900,  # a busy machine
            check=False,
        )
        results.append((step, done.stdout.decode()))
    return results
