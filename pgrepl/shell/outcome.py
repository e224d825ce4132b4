"""The result of a backslash command, which tells the main loop how to go on (backslashResult)."""

from __future__ import annotations

from enum import Enum, auto


class Outcome(Enum):
    SEND = auto()
    NEXT = auto()
    QUIT = auto()
    EDITED = auto()  # the query buffer holds new text to be scanned
    FAILED = auto()
    UNKNOWN = auto()
