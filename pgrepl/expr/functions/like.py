"""LIKE and ILIKE. `%` divides a pattern into pieces of fixed length, and each piece is searched only once: the time is
at most the text's length times the pattern's."""

from __future__ import annotations

import re
from functools import lru_cache

from pgrepl.expr.functions.registry import Family
from pgrepl.expr.functions.strings import lower
from pgrepl.ground.errors import PgError

implements = Family()


class _Piece:
    """The characters of a pattern between two %; None stands for _ (any character)."""

    def __init__(self, chars: list[str | None]) -> None:
        self.length = len(chars)
        self.text: str | None = None
        self.regex: re.Pattern[str] | None = None
        if None in chars:
            self.regex = re.compile("".join("." if char is None else re.escape(char) for char in chars), re.DOTALL)
        else:
            self.text = "".join(char for char in chars if char is not None)

    def stands_at(self, text: str, at: int) -> bool:
        if self.text is not None:
            return text.startswith(self.text, at)
        assert self.regex is not None
        return self.regex.match(text, at) is not None

    def find(self, text: str, start: int, stop: int) -> int:
        """The index of the first match that ends at `stop` or before; -1 if there is none."""
        if self.text is not None:
            return text.find(self.text, start, stop)
        assert self.regex is not None
        found = self.regex.search(text, start, stop)
        return -1 if found is None else found.start()


class _Pattern:
    def __init__(self, pattern: str) -> None:
        pieces: list[list[str | None]] = [[]]
        chars = iter(pattern)
        for char in chars:
            if char == "%":
                pieces.append([])
            elif char == "_":
                pieces[-1].append(None)
            elif char == "\\":
                following = next(chars, None)
                if following is None:
                    raise PgError("22025", "LIKE pattern must not end with escape character")
                pieces[-1].append(following)
            else:
                pieces[-1].append(char)
        self.first = _Piece(pieces[0])
        self.last = _Piece(pieces[-1]) if len(pieces) > 1 else None
        self.inner = [_Piece(piece) for piece in pieces[1:-1] if piece]

    def matches(self, text: str) -> bool:
        at, last = self.first.length, self.last
        if not self.first.stands_at(text, 0):
            return False
        if last is None:
            return at == len(text)
        stop = len(text) - last.length
        if stop < at or not last.stands_at(text, stop):
            return False
        for piece in self.inner:
            at = piece.find(text, at, stop)
            if at < 0:
                return False
            at += piece.length
        return True


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> _Pattern:
    return _Pattern(pattern)


def like(text: str, pattern: str, ignore_case: bool = False) -> bool:
    if ignore_case:
        text, pattern = lower(text), lower(pattern)
    try:
        return _compiled(pattern).matches(text)
    except PgError:
        # a lone escape at the end is an error only if matching reaches it
        if not _compiled(pattern[:-1] + "_%").matches(text):
            return False
        raise


implements("textlike", "namelike")(lambda text, pattern: like(text, pattern))
implements("textnlike", "namenlike")(lambda text, pattern: not like(text, pattern))
implements("texticlike", "nameiclike")(lambda text, pattern: like(text, pattern, True))
implements("texticnlike", "nameicnlike")(lambda text, pattern: not like(text, pattern, True))


def _bytes_as_text(value: bytes) -> str:
    return value.decode("latin-1")


implements("bytealike")(lambda value, pattern: like(_bytes_as_text(value), _bytes_as_text(pattern)))
implements("byteanlike")(lambda value, pattern: not like(_bytes_as_text(value), _bytes_as_text(pattern)))


@implements("like_escape")
def like_escape(pattern: str, escape: str) -> str:
    """The pattern with backslash as its escape, as do_like_escape makes it."""
    if not escape:
        return pattern.replace("\\", "\\\\")
    if len(escape) > 1:
        raise PgError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    if escape == "\\":
        return pattern
    out = []
    escaped = False
    for char in pattern:
        if char == escape and not escaped:
            out.append("\\")
            escaped = True
            continue
        out.append("\\\\" if char == "\\" and not escaped else char)
        escaped = False
    return "".join(out)
