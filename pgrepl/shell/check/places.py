"""The lines and columns of a script at which the characters of a query stand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from pgrepl.frozen import frozen
from pgrepl.shell.lexer import Lexer, QueryBuffer


@frozen
class LineColumn:
    """A position in a script."""

    line: int
    column: int  # both from 1


class PlacedBuffer(QueryBuffer):
    """A query buffer that notes from where each piece of it came."""

    __slots__ = ("_at", "_column", "_lexer", "_line", "_line_number", "_places")

    def __init__(self, lexer: Lexer, line_number: Callable[[], int]) -> None:
        super().__init__()
        self._lexer = lexer
        self._line_number = line_number
        self._at: list[int] = []  # where the pieces begin in the query
        self._places: list[LineColumn] = []
        self._line = self._column = 0  # how far the pieces reach

    def append(self, text: str) -> None:
        if self._lexer.sources:
            self._note(text)
        super().append(text)

    def _note(self, text: str) -> None:
        line = self._line_number()
        if line != self._line:
            self._line, self._column = line, 0
        source = self._lexer.sources[0]
        # the lexer has passed a token, or is about to pass the inside of a quoted one
        found = [
            at
            for at in sorted((source.at - len(text), source.at))
            if at >= self._column and source.text.startswith(text, at)
        ]
        if found and len(self._lexer.sources) == 1:
            column = found[0]
            self._column = column + len(text)
        else:  # a variable's value
            column = max(source.text.rfind(":", 0, max(source.at, 1)), 0)
            self._column = max(self._column, source.at)
        self._at.append(len(self))
        self._places.append(LineColumn(line, column + 1))

    @property
    def start(self) -> LineColumn | None:
        return self._places[0] if self._places else None

    def place(self, offset: int) -> LineColumn | None:
        """The place of the character at an offset of the query."""
        number = bisect_right(self._at, offset) - 1
        if number < 0:
            return self.start
        place = self._places[number]
        end = self._at[number + 1] if number + 1 < len(self._at) else len(self)
        inside = offset - self._at[number]
        return LineColumn(place.line, place.column + min(inside, max(end - self._at[number], 0)))

    @property
    def text(self) -> str:
        return QueryBuffer.text.fget(self)  # type: ignore[attr-defined, no-any-return]

    @text.setter
    def text(self, text: str) -> None:
        before = self.text
        QueryBuffer.text.fset(self, text)  # type: ignore[attr-defined]
        if not text or not before.startswith(text):
            self._at, self._places = [], []


__all__ = ["LineColumn", "PlacedBuffer"]
