"""A backslash command that is run, and the register of all commands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pgrepl.ground.frozen import frozen
from pgrepl.shell.scripts.lexer import Lexer, QueryBuffer
from pgrepl.shell.scripts.slash_lexer import Argument, SlashLexer, UnterminatedQuote, Word
from pgrepl.shell.shell import Shell

if TYPE_CHECKING:
    from pgrepl.shell.scripts.slash_lexer import Outcome


class HasHistory(Protocol):
    def history(self, *, for_file: bool) -> list[str] | None: ...


class Loop(Protocol):
    """The loop that reads the commands (mainloop.MainLoop)."""

    @property
    def query(self) -> QueryBuffer: ...
    @property
    def previous(self) -> str: ...
    @property
    def person(self) -> HasHistory | None: ...


class RunFile(Protocol):
    """Run a script in a loop of its own; returns its exit code (mainloop.run_file)."""

    def __call__(self, shell: Shell, name: str | None, *, relative: bool = False) -> int: ...


class BackslashCommand:
    """A command's name, and its arguments one by one."""

    def __init__(self, shell: Shell, lexer: Lexer, loop: Loop | None, run_file: RunFile) -> None:
        self.shell = shell
        self.lexer = lexer
        self.loop = loop
        self.run_file = run_file
        self.slash = SlashLexer(lexer, lambda: shell.backticks if self.active else None)
        self.name = self.slash.command()

    @property
    def active(self) -> bool:
        return self.shell.conditionals.active

    @property
    def query(self) -> QueryBuffer | None:
        return self.loop.query if self.loop is not None else None

    def argument(self, kind: Argument = Argument.NORMAL, *, semicolon: bool = False) -> Word | None:
        try:
            return self.slash.argument(kind, semicolon=semicolon)
        except UnterminatedQuote:
            self.shell.error("unterminated quoted string")
            return None

    def word(self, kind: Argument = Argument.NORMAL, *, semicolon: bool = False) -> str | None:
        argument = self.argument(kind, semicolon=semicolon)
        return argument.text if argument is not None else None

    def words(self, *, semicolon: bool = False) -> list[str]:
        words = []
        while (word := self.word(semicolon=semicolon)) is not None:
            words.append(word)
        return words

    def missing_argument(self) -> bool:
        self.shell.error(f"\\{self.name}: missing required argument")
        return False


Run = Callable[[BackslashCommand], "Outcome | bool"]


@frozen
class Entry:
    run: Run
    rest: Argument | None  # how an inactive branch skips its argument, if not word by word
    always: bool  # runs in inactive branches, too


COMMANDS: dict[str, Entry] = {}


def command(*names: str, rest: Argument | None = None, always: bool = False) -> Callable[[Run], Run]:
    """Register a function under its names."""

    def register(run: Run) -> Run:
        for name in names:
            COMMANDS[name] = Entry(run, rest, always)
        return run

    return register


def expand_tilde(name: str) -> str:
    """The path with `~` or `~user` at its beginning expanded, if there is such a user."""
    return os.path.expanduser(name) if re.match("~", name) else name
