r"""Printing a result, whole or with FETCH_COUNT in portions; the variables that tell about the last query; COPY's data.

In a script the rows of COPY follow the statement, up to `\.` on a line of its own, even when it fails. A person is
asked for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum, auto
from itertools import chain
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.query.result import StreamedRows
from pgrepl.shell import shell as interrupt
from pgrepl.shell import streams
from pgrepl.shell.formats.table import PrintOptions, TableContent, result_table
from pgrepl.shell.prompt.prompt import prompt_text
from pgrepl.shell.scripts.lexer import Lexer, Prompt, Stop
from pgrepl.shell.shell import NO_CONNECTION, Shell
from pgrepl.shell.streams import CopySource, Stream, print_table, standard_input
from pgrepl.types.lake.arrays import content

if TYPE_CHECKING:
    from pgrepl.query.result import Result

_COUNTED = re.compile(r"(?:INSERT [0-9]+|UPDATE|DELETE|SELECT|MOVE|FETCH|COPY|MERGE) ([0-9]+)")


def remember_error(shell: Shell, error: PgError, query: str) -> None:
    shell.last_error = (error.report, query)


def set_error_variables(shell: Shell, error: PgError | None) -> None:
    """Set the variables after an error; None: an error of the shell, not of the session."""
    sqlstate, message = (error.sqlstate, error.message) if error is not None else ("", "")
    for name, value in (
        ("ERROR", "true"),
        ("SQLSTATE", sqlstate),
        ("ROW_COUNT", "0"),
        ("LAST_ERROR_SQLSTATE", sqlstate),
        ("LAST_ERROR_MESSAGE", message),
    ):
        shell.variables.set(name, value)


def set_success_variables(shell: Shell, row_count: str) -> None:
    for name, value in (("ERROR", "false"), ("SQLSTATE", "00000"), ("ROW_COUNT", row_count)):
        shell.variables.set(name, value)


def row_count(result: Result | None) -> str:
    """The number in a command tag (PQcmdTuples)."""
    match = _COUNTED.fullmatch(result.tag or "") if result is not None else None
    return match[1] if match else "0"


# --- portions ---------------------------------------------------------------------------------------------------------


def table_of(result: Result, options: PrintOptions) -> TableContent:
    columns = result.columns or ()
    return result_table([column.name for column in columns], [column.type for column in columns], result.rows, options)


def print_portions(shell: Shell, result: Result, options: PrintOptions, target: Stream, size: int) -> bool:
    """Print `size` rows at a time, and then the footer, all through one pager."""
    pager = None
    if target.is_stdout:
        target.flush()
        pager = streams.pager(streams.MANY_LINES, options.pager, options.pager_min_lines)
    stream: Stream = pager or target
    ok, begin = True, 0
    try:
        options = shell.spoken(options)
        for rows in chain(_portions(result, size), [()]):
            portion = replace(options, start_table=begin == 0, stop_table=not rows, prior_records=begin)
            table = table_of(replace(result, rows=rows), portion)
            print_table(table, portion, stream, is_pager=pager is not None, log=shell.log_file)
            stream.flush()
            ok = ok and stream.error is None
            begin += len(rows)
    finally:
        if pager is not None:
            pager.close()
    return ok


def _portions(result: Result, size: int) -> Iterator[Sequence[tuple[str | None, ...]]]:
    rows = result.rows
    if not isinstance(rows, StreamedRows):
        for begin in range(0, len(rows), size):
            yield rows[begin : begin + size]
        return
    while True:
        with interrupt.cancels_query():
            portion = rows.portion(size)
        if not portion:
            return
        yield portion


# --- copydata ---------------------------------------------------------------------------------------------------------


_CHUNK = 8192  # the size of psql's buffer
_MARKERS = (b"\\.\n", b"\\.\r\n")
_PLAIN_FILE = 1 << 20  # bytes from which on COPY reads a plain file by its path


def command_source(shell: Shell) -> CopySource:
    """The source of the commands: the script, or standard input."""
    return CopySource((shell.source or standard_input()).file, own=True)


def count_copies(shell: Shell, query: str) -> int:
    """The number of COPY … FROM STDIN in a query that no lexer has read yet: -c, `\\gexec`, `\\g` after `\\e`."""
    if "copy" not in query.lower():
        return 0
    lexer = Lexer(shell.lookup, shell.warning, shell.standard_strings)
    lexer.begin(query)
    stop, _ = lexer.scan()
    while stop is Stop.SEMICOLON:
        stop, _ = lexer.scan()
    return lexer.count_copies() if stop is Stop.END_OF_LINE else 0


def skip_copy_data(shell: Shell) -> None:
    """Read past the rows of a COPY that failed. A person is not asked for any."""
    source = command_source(shell)
    if not source.is_terminal:
        for _ in _lines(shell, source, prompt=False):
            pass


class ShellData:
    """The rows of one COPY FROM STDIN (handleCopyIn)."""

    def __init__(self, shell: Shell, source: CopySource, *, binary: bool) -> None:
        self._shell = shell
        self._source = source
        self._binary = binary

    @property
    def path(self) -> str | None:
        path = self._source.path
        if path is None or os.path.getsize(path) < _PLAIN_FILE:
            return None
        return path if self._binary or _is_plain(path) else None

    def __iter__(self) -> Iterator[bytes]:
        shell, prompt = self._shell, self._source.is_terminal
        if prompt and not shell.quiet:
            shell.say("Enter data to be copied followed by a newline.")
            shell.say("End with a backslash and a period on a line by itself, or an EOF signal.")
        try:
            if self._binary:
                yield from self._all(prompt)
            else:
                yield from _lines(shell, self._source, prompt=prompt)
        except KeyboardInterrupt:
            raise PgError("57014", "COPY from stdin failed: canceled by user") from None
        except OSError:
            raise PgError("57014", "COPY from stdin failed: aborted because of read failure") from None

    def _all(self, prompt: bool) -> Iterator[bytes]:
        if prompt:
            _ask(self._shell)
        while True:
            with interrupt.stops_waiting():
                piece = self._source.file.read(_CHUNK)
            if not piece:
                return
            yield piece


def _ask(shell: Shell) -> None:
    shell.stdout.write(prompt_text(shell, Prompt.COPY))
    shell.stdout.flush()


def _lines(shell: Shell, source: CopySource, *, prompt: bool) -> Iterator[bytes]:
    r"""Pieces of whole lines, the last one `\.` if there is one; the rest stays unread. psql 18 does not send the `\.`,
    which ends only data in the script. The rest of a line after a NUL is lost, as C's fgets loses it."""
    file, newer = source.file, shell.spoken(shell.options).release >= 18
    buffered: Callable[[int], bytes] | None = None if prompt else getattr(file, "peek", None)
    buffer = bytearray()
    at_line_begin = True
    done = False
    while not done:
        if at_line_begin and buffered is not None:
            whole = _whole_lines(buffered(1))
            if whole:
                if buffer:
                    yield bytes(buffer)
                    buffer.clear()
                if source.own:
                    shell.line_number += whole.count(b"\n")
                yield file.read(len(whole))
                continue
        if at_line_begin and prompt:
            _ask(shell)
        with interrupt.stops_waiting():
            line = file.readline(_CHUNK - len(buffer) - 1)
        if not line:
            done = True
        else:
            line = line.partition(b"\0")[0]
            buffer += line
            if buffer.endswith(b"\n"):
                done = at_line_begin and line in _MARKERS and (source.own or not newer)
                if done and newer:
                    del buffer[-len(line) :]
                if source.own:
                    shell.line_number += 1
                at_line_begin = True
            else:
                at_line_begin = False
        if buffer and (done or len(buffer) >= _CHUNK - 5):
            yield bytes(buffer)
            buffer.clear()


def _whole_lines(ahead: bytes) -> bytes:
    r"""The whole lines of the buffered bytes; nothing if they have a NUL or a `\.`."""
    if b"\0" in ahead or b"\\." in ahead:
        return b""
    return ahead[: ahead.rfind(b"\n") + 1]


def _is_plain(path: str) -> bool:
    r"""Has the file neither a NUL nor a line `\.`, so that its bytes are the data?"""
    last = b"\n"
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            seen = last + piece
            if b"\0" in piece or b"\n\\.\n" in seen or b"\n\\.\r\n" in seen:
                return False
            last = seen[-4:]
    return True


class ShellSink:
    """The target of COPY TO STDOUT (handleCopyOut); without a stream the data are dropped."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def write(self, data: bytes) -> None:
        if self.stream is not None:
            self.stream.write_bytes(data)

    def write_rows(self, rows: Sequence[bytes]) -> None:
        self.write(b"".join(rows))

    def write_lines(self, lines: Any) -> None:
        self.write(bytes(content(lines)))


class CopyTraffic:
    """The shell as the client of COPY, for one query."""

    def __init__(
        self, shell: Shell, copies: int, output: Callable[[], Stream | None], pause: Callable[[], object]
    ) -> None:
        """`copies` is the number of COPY FROM STDIN in the query; `output` gives the target of COPY TO STDOUT; `pause`
        prints the results before the rows."""
        self.copies = copies
        self._shell = shell
        self._output = output
        self._pause = pause
        self._sink: ShellSink | None = None

    def copy_in(self, *, binary: bool, columns: int) -> ShellData:
        self._pause()
        shell = self._shell
        if self.copies <= 0:
            # psql ends here, too: it does not know where the rows begin
            shell.info("unexpected COPY_IN result, aborting connection")
            raise SystemExit(NO_CONNECTION)
        self.copies -= 1
        source = shell.next.copy_source or command_source(shell)
        if source.is_terminal:
            shell.end_bar()
        return ShellData(shell, source, binary=binary)

    def copy_out(self, *, binary: bool, columns: int) -> ShellSink:
        self._pause()
        self._sink = ShellSink(self._output())
        if self._sink.stream is not None and self._sink.stream.is_terminal():
            self._shell.end_bar()
        return self._sink

    def end_of_statement(self) -> CopiedTo | None:
        """The output of the rows of the statement that has just ended, if it was a COPY TO STDOUT."""
        sink, self._sink = self._sink, None
        if sink is None:
            return None
        if sink.stream is None:
            return CopiedTo.NOWHERE
        sink.stream.flush()
        if sink.stream.error is not None:
            self._shell.error(f"could not write COPY data: {sink.stream.error.strerror}")
            return CopiedTo.NOWHERE
        return CopiedTo.OUTPUT if sink.stream is self._shell.query_out else CopiedTo.ELSEWHERE

    def skip_rest(self) -> None:
        """Read past the rows of the COPY FROM STDIN that a failed query did not reach."""
        source = self._shell.next.copy_source
        if source is None or source.own:
            for _ in range(self.copies):
                skip_copy_data(self._shell)


class CopiedTo(Enum):
    OUTPUT = auto()  # the target of command tags: the tag of this COPY is not printed
    ELSEWHERE = auto()
    NOWHERE = auto()  # the target failed, with a message
