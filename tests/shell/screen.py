"""A terminal's screen, as far as a prompt uses one: what a program has written to it, as lines of text."""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[=>78]|\x1b\][^\x07]*\x07|(\r)|(\n)|(\x08)|(\x07)|([^\x1b\r\n\x08\x07]+)"
)


class Screen:
    """Endlessly high: lines that have scrolled away stay."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.row = self.column = 0
        self._rest = ""

    def write(self, text: str) -> None:
        text = self._rest + text
        at = 0
        while at < len(text):
            found = _SEQUENCE.match(text, at)
            if found is None:
                break  # the rest of a sequence is to come
            at = found.end()
            self._do(found)
        self._rest = text[at:]

    def _do(self, found: re.Match[str]) -> None:
        parameters, command, back, feed, left, _bell, plain = found.groups()
        if plain is not None:
            self._put(plain)
        elif back is not None:
            self.column = 0
        elif feed is not None:
            self._down(1)
        elif left is not None:
            self.column -= 1
        elif command is not None and not parameters.startswith("?"):
            self._move(command, int(parameters) if parameters.isdigit() else 1, parameters)

    def _move(self, command: str, count: int, parameters: str) -> None:
        if command == "A":
            self.row = max(self.row - count, 0)
        elif command == "B":
            self._down(count)
        elif command == "C":
            self.column += count
        elif command == "D":
            self.column = max(self.column - count, 0)
        elif command == "K":
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif command == "J" and parameters in ("", "0"):
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]

    def _down(self, count: int) -> None:
        self.row += count
        self.lines += [""] * (self.row + 1 - len(self.lines))

    def _put(self, text: str) -> None:
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + text + line[self.column + len(text) :]
        self.column += len(text)

    def text(self, since: int) -> str:
        return "\n".join(line.rstrip() for line in self.lines[since:]) + "\n"
