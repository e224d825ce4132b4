r"""The lines of a COPY file, as CopyReadLine cuts them.

The first line end decides for the whole file what a line end is; another kind outside of quotes is an error. A
backslash takes the next character with it, also a line end, in text format; `\.` ends the data: in 18 only alone on its
line, and not in CSV format. In CSV format a line goes on while a quote is open.

Most stretches of most files have no such characters and are simply split; the others are searched for one special
character after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgrepl.ground.errors import PgError
from pgrepl.writing.copy.copy_options import CopyOptions


class CopyLines:
    """Reads lines from pieces of text. `number` and `line` are the current ones, for messages; `line` is None while
    it is being read."""

    def __init__(self, pieces: Iterator[str], options: CopyOptions, *, from_client: bool = False) -> None:
        r"""Text that a client sends behind `\.` is dropped; a file goes on there if the marker ended a line of data."""
        self.number = 0
        self.line: str | None = None
        self.line_end = ""  # "\n", "\r" or "\r\n" once there was one
        self._pieces = pieces
        self._from_client = from_client
        self._csv = options.csv
        self._newer = options.release >= 18
        self._quote = options.quote
        # An escape that is the quote itself needs no care: the quote is just seen twice.
        self._escape = "" if options.escape == options.quote else options.escape
        marks = re.escape(self._quote + self._escape) if options.csv else r"\\"
        self._special = re.compile(f"[\r\n{marks}]")
        self._buffer = ""
        self._at = 0  # where the next line begins
        self._careful_until = 0

    def __iter__(self) -> Iterator[str]:
        """All lines, up to the end of the data. An error leaves `number` and `line` where it happened."""
        while True:
            yield from self._split()
            ended = self.read()
            assert self.line is not None
            if ended and not self.line:
                return
            yield self.line

    def read(self) -> bool:
        """Read one line with care. True if the data ended instead of a line."""
        self.number += 1
        self.line = None
        length, whole, ended = self._walk_csv() if self._csv else self._walk_text()
        self.line = self._buffer[self._at : self._at + length]
        self._at += whole
        if ended and self._from_client:
            self._buffer, self._at, self._pieces = "", 0, iter(())
        return ended

    def _load(self) -> bool:
        """Read the next piece behind what is left of the buffer; False at the end of the file."""
        piece = next(self._pieces, "")
        if piece:
            self._buffer = self._buffer[self._at :] + piece
            self._careful_until = max(self._careful_until - self._at, 0)
            self._at = 0
        return bool(piece)

    # --- whole stretches ---------------------------------------------------------------------------------------------

    def _split(self) -> Iterator[str]:
        """The lines up to the next one that needs care."""
        while self.line_end in ("\n", "\r\n") and self._at >= self._careful_until:
            end = self._buffer.rfind("\n", self._at) + 1
            if not end:
                return
            stretch = self._buffer[self._at : end]
            if not self._plain(stretch):
                self._careful_until = end
                return
            self._at = end
            lines = stretch.split(self.line_end)
            lines.pop()
            if self._csv and self._quote in stretch:
                yield from self._joined(lines)
                continue
            for line in lines:
                self.number += 1
                self.line = line
                yield line

    def _plain(self, stretch: str) -> bool:
        """Whether every line end in these lines ends a line, but for those in quotes."""
        returns = stretch.count("\r")
        if self.line_end == "\n":
            if returns:
                return False
        elif not stretch.count("\n") == stretch.count("\r\n") == returns:
            return False
        if self._csv:
            if self._quote in stretch and (self._escape or self._quote == "\\"):
                return False
            return self._newer or (not stretch.startswith("\\.") and "\n\\." not in stretch)
        return "\\" not in stretch or not ("\\\n" in stretch or "\\\r" in stretch or "\\." in stretch)

    def _joined(self, lines: list[str]) -> Iterator[str]:
        """Lines of CSV, with those inside quotes joined. A line still open at the end is left in the buffer."""
        quote = self._quote
        opened: list[str] = []
        for line in lines:
            odd = line.count(quote) & 1
            if opened:
                opened.append(line)
                if not odd:
                    continue
                self.number += len(opened) - 1
                line = self.line_end.join(opened)
                opened = []
            elif odd:
                opened.append(line)
                continue
            self.number += 1
            self.line = line
            yield line
        if opened:
            self._at -= len(self.line_end.join(opened)) + len(self.line_end)
            self._careful_until = self._at + 1

    # --- with care ---------------------------------------------------------------------------------------------------

    def _peek(self, offset: int) -> str:
        """The character at this offset from the beginning of the line; "" at the end of the file."""
        while self._at + offset >= len(self._buffer):
            if not self._load():
                return ""
        return self._buffer[self._at + offset]

    def _walk_text(self) -> tuple[int, int, bool]:
        """The length of the line without and with its end, and whether the data ended."""
        offset = 0
        while True:
            match = self._special.search(self._buffer, self._at + offset)
            if match is None:
                offset = len(self._buffer) - self._at
                if not self._load():
                    return offset, offset, True
                continue
            offset = match.start() - self._at
            if match[0] != "\\":
                return offset, offset + self._line_end(match[0], offset), False
            following = self._peek(offset + 1)
            if following == ".":
                marked = self._marker(offset)
                if offset and self._newer:
                    raise self._corrupt()
                return offset, offset + marked, True
            offset += 2 if following else 1

    def _walk_csv(self) -> tuple[int, int, bool]:
        offset = 0
        quoted = escaped = False
        quote, escape = self._quote, self._escape
        if self._peek(0) == "\\" and not self._newer:
            marked = self._marker(0)
            if marked:
                return 0, marked, True
        while True:
            match = self._special.search(self._buffer, self._at + offset)
            if match is None:
                offset, before = len(self._buffer) - self._at, offset
                escaped = escaped and offset == before
                if not self._load():
                    return offset, offset, True
                continue
            here = match.start() - self._at
            escaped = escaped and here == offset
            offset, char = here, match[0]
            # An escape counts only in quotes, and the second of two does not.
            if quoted and char == escape:
                escaped = not escaped
            if char == quote and not escaped:
                quoted = not quoted
            if char != escape:
                escaped = False
            if char == "\r":
                self._peek(offset + 1)  # invalid bytes behind it are noticed before it is
            if quoted:
                if char == ("\n" if self.line_end == "\n" else "\r"):
                    self.number += 1
            elif char in "\r\n":
                return offset, offset + self._line_end(char, offset), False
            offset += 1

    def _line_end(self, char: str, offset: int) -> int:
        """The length of the line end that begins here, if it is of the file's kind."""
        if char == "\n":
            if self.line_end in ("\r", "\r\n"):
                raise self._stray("newline", "\\n")
            self.line_end = "\n"
            return 1
        if self.line_end == "\n":
            raise self._stray("carriage return", "\\r")
        if self.line_end != "\r":
            if self._peek(offset + 1) == "\n":
                self.line_end = "\r\n"
                return 2
            if self.line_end == "\r\n":
                raise self._stray("carriage return", "\\r")
            self.line_end = "\r"
        return 1

    def _stray(self, what: str, escape: str) -> PgError:
        if self._csv:
            hint = f"Use quoted CSV field to represent {what}."
        else:
            hint = f'Use "{escape}" to represent {what}.'
        return PgError("22P04", f"{'unquoted' if self._csv else 'literal'} {what} found in data", hint=hint)

    def _marker(self, offset: int) -> int:
        r"""The length of the `\.` that begins here, with the line end that must follow. In CSV, where such text may be
        data as well, 0 if more stands on the line."""
        if self._peek(offset + 1) != ".":
            return 0
        at = offset + 2
        char = self._peek(at)
        if self.line_end == "\r\n":
            if char != "\r":
                if self._csv:
                    return 0
                raise _style_differs() if char == "\n" else self._corrupt()
            at += 1
            char = self._peek(at)
        if char not in ("\r", "\n"):
            if self._csv:
                return 0
            raise self._corrupt()
        if self.line_end and char != self.line_end[-1]:
            raise _style_differs()
        return at + 1 - offset

    def _corrupt(self) -> PgError:
        return PgError("22P04", f"end-of-copy marker {'is not alone on its line' if self._newer else 'corrupt'}")


def _style_differs() -> PgError:
    return PgError("22P04", "end-of-copy marker does not match previous newline style")
