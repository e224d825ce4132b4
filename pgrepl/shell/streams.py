"""Output streams: standard output and error, files, pipes and the pager.

Text is written in the client's encoding (charset.py). Standard output is buffered; a write to another stream flushes it
first, so that both in one file are in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from pgrepl.shell import charset

_FLUSH_AT = 1 << 16

# a number of lines that needs the pager
MANY_LINES = 1 << 31


class Stream:
    """A file descriptor to which text is written. `error` is the last failure, as in C's ferror."""

    def __init__(self, fd: int, *, buffered: bool = True) -> None:
        self.fd = fd
        self.buffered = buffered
        self.error: OSError | None = None
        self._pending: list[bytes] = []
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
        self._pending.append(charset.encoded(text))
        self._size += len(text)
        if not self.buffered or self._size >= _FLUSH_AT:
            self.flush()

    def write_bytes(self, data: bytes) -> None:
        """Write bytes at once, after the text written so far."""
        self.flush()
        self._write(data)

    def flush(self) -> None:
        if not self._pending:
            return
        data = b"".join(self._pending)
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
        """End the program by SIGPIPE, as standard output has no reader any more."""
        if hasattr(signal, "SIGPIPE"):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        os._exit(1)

    def close(self) -> int:
        """Flush and close; returns the exit status of a pipe's command."""
        self.flush()
        if self.fd > 2:
            try:
                os.close(self.fd)
            except OSError as error:
                self.error = error
        return 0


class PipeStream(Stream):
    """The standard input of a command, which may stop reading at any time."""

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
    """A stream to a file, or after `|` to a command. OSError if it cannot be opened."""
    if name.startswith("|"):
        return PipeStream(name[1:])
    return Stream(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666))


def claim_standard_descriptors() -> None:
    """Open closed descriptors 0, 1 and 2 on /dev/null, so that no other file gets their numbers."""
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
    """The pager, if the number of lines and the settings need one (PageOutput)."""
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
