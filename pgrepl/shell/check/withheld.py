r"""Backslash commands with effects outside: what a check does instead. `\i`, `\set` and `\if` work as ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.shell.backslash.command import COMMANDS, BackslashCommand
from pgrepl.shell.backslash.copying import wanted_copy
from pgrepl.shell.execute import send_query
from pgrepl.shell.outcome import Outcome
from pgrepl.shell.slash_lexer import Argument

UNKNOWN = "\ufdd0unknown\ufdd0"  # a value that only carrying out the script could tell

Own = Callable[[BackslashCommand], "Outcome | bool"]


def _note(c: BackslashCommand, text: str) -> None:
    c.shell.note(text)  # type: ignore[attr-defined]  # it is a CheckingShell


def _not_done(rest: Argument | None) -> Own:
    def withhold(c: BackslashCommand) -> bool:
        _note(c, f"\\{c.name} is not carried out")
        if rest is not None:
            c.word(rest)
        else:
            c.words(semicolon=True)
        return True

    return withhold


def _send(c: BackslashCommand) -> Outcome | bool:
    r"""`\g FILE`: the query is checked, and nothing written."""
    outcome = COMMANDS[c.name].run(c)
    c.shell.next.output = None
    return outcome


def _prompt(c: BackslashCommand) -> bool:
    words = c.words()
    _note(c, "\\prompt is not carried out: nobody is asked")
    return not words or c.shell.variables.set(words[-1], UNKNOWN)


def _watch(c: BackslashCommand) -> Outcome:
    c.words(semicolon=True)
    return Outcome.SEND


def _copy(c: BackslashCommand) -> bool:
    r"""`\copy` is checked as the COPY that it sends; no file is opened, and no program run."""
    wanted = wanted_copy(c)
    if wanted is None:
        return False
    way = "FROM STDIN" if wanted.is_from else "TO STDOUT"
    follows = wanted.is_from and wanted.file is None and not wanted.program and not wanted.own_streams
    return send_query(c.shell, f"COPY {wanted.before} {way} {wanted.after}", int(follows))


WITHHELD: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("!",), _not_done(Argument.WHOLE_LINE)),
    **dict.fromkeys(("o", "out", "w", "write"), _not_done(Argument.FILE_OR_PIPE)),
    **dict.fromkeys(("apply", "e", "edit", "password", "s", "setenv", "sync"), _not_done(None)),
    **dict.fromkeys(("g", "gx"), _send),
    "copy": _copy,
    "prompt": _prompt,
    "watch": _watch,
}
