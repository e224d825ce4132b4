"""Runs the examples of a Markdown file: each ```console block is a session, its `$ ` lines are typed, the rest is printed.

Blocks of one file share a folder, so that a later one sees what an earlier one made. A block that starts with
`<!-- not run -->` on the line before is only shown.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"(?P<skip><!-- not run[^>]*-->\n)?```console\n(?P<text>.*?)```\n", re.DOTALL)
HEREDOC = re.compile(r"<<'?(\w+)'?$")


@dataclass(frozen=True)
class Step:
    line: int
    command: str
    printed: str


def steps(text: str) -> list[Step]:
    found = []
    for block in BLOCK.finditer(text):
        if block["skip"]:
            continue
        line = text.count("\n", 0, block.start("text")) + 1
        command: list[str] = []
        printed: list[str] = []
        until: str | None = None
        start = line

        def close() -> None:
            if command:
                found.append(Step(start, "\n".join(command), "".join(p + "\n" for p in printed)))  # noqa: B023

        for number, row in enumerate(block["text"].splitlines(), line):
            if until is not None:
                command.append(row)
                until = None if row == until else until
            elif row.startswith("$ "):
                close()
                command, printed, start = [row[2:]], [], number
                heredoc = HEREDOC.search(row)
                until = heredoc[1] if heredoc else None
            elif command and command[-1].endswith("\\") and not printed:
                command.append(row)
            else:
                printed.append(row)
        close()
    return found


def play(text: str, folder: Path) -> list[tuple[Step, str]]:
    """Each step with what it really printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["HOME"] = str(folder)
    results = []
    for step in steps(text):
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        results.append((step, done.stdout.decode()))
    return results
