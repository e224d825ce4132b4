"""What was typed in earlier sessions: one statement a line in ~/.pgrepl_history, which only its owner can read.

Statements with a password in them are recalled in their own session, but never written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from prompt_toolkit.history import History

from pgrepl.shell.shell import Shell

_NEWLINE = "\x01"  # stands for a line end inside a statement, as in psql's history
_SECRET = re.compile(r"\bpassword\s*(?:=|e?'|u&'|\$|\s(?!required|null))", re.IGNORECASE)


def history_file(shell: Shell) -> str | None:
    """HISTFILE, PGREPL_HISTORY, or the usual place; None where nothing is to be kept."""
    name = shell.variables.get("HISTFILE") or os.environ.get("PGREPL_HISTORY") or "~/.pgrepl_history"
    name = os.path.expanduser(name)
    return None if name == os.devnull or name.startswith("~") else name


def holds_password(statement: str) -> bool:
    return _SECRET.search(statement) is not None


class StatementHistory(History):
    """prompt_toolkit's history, kept by psql's rules: HISTCONTROL, HISTSIZE."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell
        self.name = history_file(shell)
        self._added: list[str] = []

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        return reversed(self._read())

    def append_string(self, string: str) -> None:
        control = self.shell.variables.word("HISTCONTROL")
        if not string.strip() or (control in ("ignorespace", "ignoreboth") and string.startswith(" ")):
            return
        entries = self.get_strings()
        if control in ("ignoredups", "ignoreboth") and entries and entries[-1] == string:
            return
        super().append_string(string)

    def store_string(self, string: str) -> None:
        if not holds_password(string):
            self._added.append(string)

    def save(self) -> None:
        """Append what this session typed; the file keeps HISTSIZE entries."""
        if self.name is None or not self._added:
            return
        limit = self.shell.variables.number("HISTSIZE")
        entries = self._read() + self._added
        kept = entries[max(len(entries) - limit, 0) :] if limit >= 0 else entries
        text = "".join(entry.replace("\n", _NEWLINE) + "\n" for entry in kept)
        try:
            descriptor = os.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            self.shell.error(f'could not save history to file "{self.name}": {error.strerror}')

    def _read(self) -> list[str]:
        if self.name is None:
            return []
        try:
            with open(self.name, "rb") as file:
                lines = file.read().decode("utf-8", "surrogateescape").split("\n")
        except OSError:
            return []
        return [line.replace(_NEWLINE, "\n") for line in lines if line]
