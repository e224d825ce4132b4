"""The history of statements: one statement a line in ~/.pgrepl_history, which only its owner can read.

A statement that may contain a password is recalled in its own session, but never written. In doubt it is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import IO

from prompt_toolkit.history import History

from pgrepl.shell.shell import Shell
from pgrepl.sql.passwords import holds_password

_NEWLINE = "\x01"  # stands for a line end inside a statement, as in psql's history
_SECRET_NAME = re.compile(r"pass|pwd|\bpw|_pw|secret|token|credential", re.IGNORECASE)
_SET = re.compile(r"\s*\\(?:set|setenv|prompt)\s+(\S+)\s+\S", re.IGNORECASE)
_VARIABLE = re.compile(r":['\"]?([A-Za-z0-9_\x80-\U0010ffff]+)")


def history_file(shell: Shell) -> str | None:
    """The file of HISTFILE or PGREPL_HISTORY, or the default; None: no history is kept."""
    name = shell.variables.get("HISTFILE") or os.environ.get("PGREPL_HISTORY") or "~/.pgrepl_history"
    name = os.path.expanduser(name)
    return None if name == os.devnull or name.startswith("~") else name


def is_secret(statement: str) -> bool:
    """May the statement contain a password, or set a variable that is named like one?"""
    variable = _SET.match(statement)
    return holds_password(statement) or (variable is not None and _SECRET_NAME.search(variable[1]) is not None)


def _set_variable(statement: str) -> str | None:
    """The variable that `\\set` gives a value."""
    found = _SET.match(statement)
    return None if found is None else found[1]


class StatementHistory(History):
    """prompt_toolkit's history with psql's rules: HISTCONTROL, HISTSIZE."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell
        self.name = history_file(shell)
        self._added: list[str] = []

    def load_history_strings(self) -> Iterable[str]:
        """The entries of the file, newest first."""
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
        if not is_secret(string):
            self._added.append(string)
            return
        used = set(_VARIABLE.findall(string))  # their values were passwords, too
        self._added = [entry for entry in self._added if _set_variable(entry) not in used]

    def without_passwords(self) -> list[str]:
        """The entries that may be written to a file."""
        hidden = set(self.get_strings()).difference(self._added, self._read())
        return [entry for entry in self.get_strings() if entry not in hidden]

    def save(self) -> None:
        """Append this session's entries; the file keeps HISTSIZE entries."""
        if self.name is None or not self._added:
            return
        limit = self.shell.variables.number("HISTSIZE")
        try:
            with open(os.open(self.name, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                _lock(file)  # several shells may end together
                entries = _entries(file) + self._added
                kept = entries[max(len(entries) - limit, 0) :] if limit >= 0 else entries
                text = "".join(entry.replace("\n", _NEWLINE) + "\n" for entry in kept)
                file.seek(0)
                file.write(text.encode("utf-8", "surrogateescape"))
                file.truncate()
        except OSError as error:
            self.shell.error(f'could not save history to file "{self.name}": {error.strerror}')

    def _read(self) -> list[str]:
        if self.name is None:
            return []
        try:
            with open(self.name, "rb") as file:
                return _entries(file)
        except OSError:
            return []


def _entries(file: IO[bytes]) -> list[str]:
    lines = file.read().decode("utf-8", "surrogateescape").split("\n")
    entries = [line.replace(_NEWLINE, "\n") for line in lines if line]
    return [entry for entry in entries if not is_secret(entry)]


def _lock(file: IO[bytes]) -> None:
    """The end of the file's use is the end of the lock."""
    with suppress(ImportError):  # not on this system
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
