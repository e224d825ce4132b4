"""Output streams (standard output and error, files, pipes, the pager), and the lines of a script as C's fgets cuts
them.

Text is written in the client's encoding. A write to another stream flushes standard output, so that both in one file
are in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import IO, BinaryIO

from pgrepl.ground.frozen import frozen
from pgrepl.shell import connection
from pgrepl.shell.formats.aligned import aligned, expanded, extra_lines, lay_out
from pgrepl.shell.formats.table import PrintOptions, TableContent

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
        self._pending.append(connection.encoded(text))
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


# --- input ------------------------------------------------------------------------------------------------------------


_CHUNK = 1023  # the size of psql's reads; a NUL hides the rest of its chunk


class ReadFailure(Exception):
    """The operating system's reason why no line could be read."""


class LineReader:
    """A file of commands, in the client's encoding."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def read_line(self) -> str | None:
        """The next line without its line end; None at the end of the file."""
        line = b""
        while True:
            try:
                read = self.file.readline()
            except OSError as error:
                raise ReadFailure(error.strerror or str(error)) from error
            if not read:
                return connection.decoded(line) if line else None
            if b"\0" in read:
                read = b"".join(read[at : at + _CHUNK].partition(b"\0")[0] for at in range(0, len(read), _CHUNK))
            line += read
            if line.endswith(b"\n"):
                return connection.decoded(line[:-1])


_STDIN: list[LineReader] = []


def standard_input() -> LineReader:
    """The one reader of standard input, so that its buffer is shared."""
    if not _STDIN:
        file = sys.stdin.buffer if sys.stdin is not None else open(0, "rb", closefd=False)  # noqa: SIM115
        _STDIN.append(LineReader(file))
    return _STDIN[0]


@frozen
class CopySource:
    """The source of the rows of COPY FROM STDIN."""

    file: IO[bytes]
    own: bool  # it is the source of the commands, too, so that its lines are counted
    path: str | None = None

    @property
    def is_terminal(self) -> bool:
        return self.file.isatty()


# --- output -----------------------------------------------------------------------------------------------------------


# COLUMNS at the start: line editing may set it later
_ENVIRONMENT_COLUMNS = os.environ.get("COLUMNS", "")


def print_table(
    table: TableContent, options: PrintOptions, stream: Stream, *, is_pager: bool = False, log: Stream | None = None
) -> None:
    """Print a table (printTable). `is_pager`: the stream is a pager already; `log` gets an aligned copy."""
    if log is not None:
        log.write(_aligned(table, options, log, False)[0])
    stream.error = None
    if options.format in ("aligned", "wrapped"):
        if options.expanded == "on" or (options.expanded == "auto" and is_pager):
            text, lines = _expanded(table, options, stream, is_pager)
        else:
            text, lines = _aligned(table, options, stream, is_pager)
    else:
        from pgrepl.shell.formats.export import FORMATS

        is_expanded = options.expanded == "on"
        text = FORMATS[options.format][is_expanded](table, options)
        lines = _line_count(table, options, is_expanded)
    target: Stream = stream
    if stream.is_stdout and not is_pager:
        target = pager(lines, options.pager, options.pager_min_lines) or stream
    if target is not stream:
        stream.flush()
    target.write(text)
    if target is not stream:
        target.close()


def _line_count(table: TableContent, options: PrintOptions, expanded: bool) -> int:
    """The lines on the screen as IsPagerNeeded counts them: a footer is one line."""
    lines = (len(table.headers) + 1) * len(table.rows) if expanded else len(table.rows) + 1
    return lines if options.tuples_only else lines + len(table.own_footers())


def _columns(options: PrintOptions, stream: Stream, is_pager: bool) -> int:
    r"""The width to print for: `\pset columns`, or on a terminal COLUMNS or the screen; 0 if there is none."""
    if options.columns > 0:
        return options.columns
    if not is_pager and not (stream.is_stdout and stream.is_terminal()):
        return 0
    if _ENVIRONMENT_COLUMNS.isdecimal() and int(_ENVIRONMENT_COLUMNS) > 0:
        return int(_ENVIRONMENT_COLUMNS)
    size = screen_size()
    return size.columns if size is not None else 0


def _aligned(table: TableContent, options: PrintOptions, stream: Stream, is_pager: bool) -> tuple[str, int]:
    columns = _columns(options, stream, is_pager)
    layout = lay_out(table, options, columns)
    if options.expanded == "auto" and len(table.headers) > 1 and layout.exceeds(columns):
        return _expanded(table, options, stream, is_pager)
    if layout.exceeds(columns):
        lines = MANY_LINES
    elif stream.is_stdout and both_terminals():
        lines = _line_count(table, options, False) + extra_lines(layout)
    else:
        lines = 0
    return aligned(table, options, layout), lines


def _expanded(table: TableContent, options: PrintOptions, stream: Stream, is_pager: bool) -> tuple[str, int]:
    return expanded(table, options, _columns(options, stream, is_pager)), _line_count(table, options, True)
