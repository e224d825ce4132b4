r"""`\e`: the query buffer, or a file, in the person's editor."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass

from pgrepl.shell.shell import Shell


@dataclass(frozen=True, slots=True)
class Edited:
    text: str
    changed: bool


def edit_query(shell: Shell, text: str, file: str | None, line: int | None) -> Edited | None:
    """The edited text; None, after a message: the editor failed."""
    if file is not None:
        return _edit(shell, file, line)
    folder = os.environ.get("TMPDIR", "/tmp")
    name = f"{folder}/pgrepl.edit.{os.getpid()}.sql"
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        shell.error(f'could not open temporary file "{name}": {error.strerror}')
        return None
    try:
        with open(descriptor, "wb") as draft:
            draft.write((text + "\n" if text and not text.endswith("\n") else text).encode("utf-8", "surrogateescape"))
        # a time in the past, so that an edit within the file system's clock tick changes it, too
        past = time.time() - 2
        os.utime(name, (past, past))
        return _edit(shell, name, line)
    except OSError as error:
        shell.error(f"{name}: {error.strerror}")
        return None
    finally:
        try:
            os.unlink(name)
        except OSError as error:  # the editor has removed it
            shell.error(f"{name}: {error.strerror}")


def _edit(shell: Shell, name: str, line: int | None) -> Edited | None:
    try:
        before = os.stat(name)
        if not _run_editor(shell, name, line):
            return None
        after = os.stat(name)
        if (before.st_size, int(before.st_mtime)) == (after.st_size, int(after.st_mtime)):
            return Edited("", changed=False)
        with open(name, "rb") as file:
            return Edited(file.read().decode("utf-8", "surrogateescape").replace("\0", ""), changed=True)
    except OSError as error:
        shell.error(f"{name}: {error.strerror}")
        return None


def _run_editor(shell: Shell, name: str, line: int | None) -> bool:
    environment = os.environ
    editor = environment.get("PSQL_EDITOR") or environment.get("EDITOR") or environment.get("VISUAL") or "vi"
    place = f" {environment.get('PSQL_EDITOR_LINENUMBER_ARG', '+')}{line}" if line is not None else ""
    shell.stdout.flush()
    # EDITOR may hold options, so it is not quoted.
    return subprocess.run(f"exec {editor}{place} '{name}'", shell=True, check=False).returncode == 0
