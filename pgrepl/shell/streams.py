"""Where text goes: standard output and error, files, pipes and the pager, kept in the order in which it was said.

Text is UTF-8; bytes that are not travel through the shell as lone surrogates and leave it as the bytes they were.
Standard output is buffered; whatever writes elsewhere flushes it first, so that both in one file read as they happened.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

_FLUSH_AT = 1 << 16

# More lines than any screen has: the pager is wanted for another reason.
MANY_LINES = 1 << 31


class Stream:
    """A file descriptor written to in text. `error` keeps the last failure, as C's ferror does."""

    def __init__(self, fd: int, *, buffered: bool = True) -> None:
        self.fd = fd
        self.buffered = buffered
        self.error: OSError | None = None
        self._pending: list[str] = []
        self._size = 0

    @property
    def is_stdout(self) -> bool:
        return self.fd == 1

    @property
    def is_pipe(self) -> bool:
        return False

    def is_terminal(self) -> bool:
        return os.isatty(self.fd)

    def write(self, text: str) -> None:
        if not text:
            return
        self._pending.append(text)
        self._size += len(text)
        if not self.buffered or self._size >= _FLUSH_AT:
            self.flush()

    def write_bytes(self, data: bytes) -> None:
        """At once, behind the text written so far."""
        self.flush()
        self._write(data)

    def flush(self) -> None:
        if not self._pending:
            return
        data = "".join(self._pending).encode("utf-8", "surrogateescape")
        self._pending, self._size = [], 0
        self._write(data)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self.fd, left) :]
        except BrokenPipeError as broken:
            self._broken(broken)
        except OSError as error:
            self.error = error

    def _broken(self, broken: OSError) -> None:
        """Nobody reads standard output any more: leave as any filter does, by the signal."""
        if hasattr(signal, "SIGPIPE"):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        os._exit(1)

    def close(self) -> int:
        """Flush and let go; the exit status of what was behind it."""
        self.flush()
        if self.fd > 2:
            try:
                os.close(self.fd)
            except OSError as error:
                self.error = error
        return 0


class PipeStream(Stream):
    """The standard input of a command. That it stops reading is its own business."""

    def __init__(self, command: str) -> None:
        # popen(3): /bin/sh runs it
        self.process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE)
        assert self.process.stdin is not None
        super().__init__(self.process.stdin.fileno())

    @property
    def is_pipe(self) -> bool:
        return True

    def _broken(self, broken: OSError) -> None:
        self.error = broken

    def close(self) -> int:
        self.flush()
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()


def open_output(name: str) -> Stream:
    """A file to write, or after `|` a command to feed. OSError if it cannot be opened."""
    if name.startswith("|"):
        return PipeStream(name[1:])
    return Stream(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666))


def claim_standard_descriptors() -> None:
    """A closed descriptor 0, 1 or 2 must not become the number of a file that we open."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def screen_size() -> os.terminal_size | None:
    try:
        return os.get_terminal_size(1)
    except OSError:
        return None


def both_terminals() -> bool:
    return os.isatty(0) and os.isatty(1)


def pager(lines: int, setting: int, min_lines: int) -> PipeStream | None:
    """The pager, if so many lines on this terminal with these settings ask for it, as PageOutput decides."""
    if not setting or not both_terminals():
        return None
    size = screen_size()
    if size is not None and setting < 2 and not (lines >= size.lines and lines >= min_lines):
        return None
    program = os.environ.get("PSQL_PAGER", os.environ.get("PAGER"))
    if program is None:
        program = "more"
    elif not program.strip(" \t\r\n"):
        return None
    sys.stdout.flush()
    return PipeStream(program)
