"""The execution of one query: its results are printed as they come (psql's ExecQueryAndProcessResults).

A result is printed when the next one is known, so that notices on the way to that come before it, as in psql.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import user_request
from pgrepl.query.result import StreamedRows
from pgrepl.shell import shell as interrupt
from pgrepl.shell.formats.table import JSON_FORMATS, PrintOptions, result_table
from pgrepl.shell.scripts.results import (
    CopiedTo,
    CopyTraffic,
    count_copies,
    print_portions,
    remember_error,
    row_count,
    set_error_variables,
    set_success_variables,
    table_of,
)
from pgrepl.shell.shell import NextQuery, Shell, check_connection
from pgrepl.shell.streams import Stream, open_output
from pgrepl.types.names import format_type
from pgrepl.types.oids import TEXT, UNKNOWN

if TYPE_CHECKING:
    from pgrepl.query.result import Result

_SAVEPOINT_ENDS = frozenset({"COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK"})
_RETURNING = ("INSERT", "UPDATE", "DELETE", "MERGE")


@contextmanager
def statement_bar(shell: Shell, watched: bool = False) -> Iterator[None]:
    """Show a bar on a terminal while a statement takes long."""
    if watched or not (shell.stdout.is_terminal() and shell.stderr.is_terminal()):
        yield
        return
    from pgrepl.shell.progress import StatementBar

    shell.bar = StatementBar(sys.stderr)
    try:
        with shell.bar:
            yield
    finally:
        shell.bar = None


class QueryRun:
    """The execution of one query: its results, its `\\g` output, its time."""

    def __init__(
        self,
        shell: Shell,
        query: str,
        send: Callable[[Shell, str], bool],
        *,
        options: PrintOptions | None = None,
        stream: Stream | None = None,
    ) -> None:
        """`send` sends the queries of `\\gexec`."""
        assert shell.connection is not None
        self.shell = shell
        self.connection = shell.connection
        self.query = query
        self._send = send
        self.options = options  # \watch: instead of the shell's
        self.stream = stream  # \watch: its pager
        self.elapsed = 0.0
        self.savepoint_gone = False
        self.watched = options is not None
        self._started = time.monotonic()
        self._file: Stream | None = None
        self._ok = True  # so far
        self._pending: Result | None = None  # the result that is printed when the next one is known

    def execute(self, copies: int | None, min_rows: int = 0) -> int:
        """1 after success, 0 if it was cancelled or had too few rows for `\\watch`, -1 after an error."""
        shell = self.shell
        if copies is None:
            copies = count_copies(shell, self.query)
        traffic = CopyTraffic(shell, copies, self._copy_target, self._show_pending)
        results = self._results(traffic)
        current, failure = next(results)
        stop_early = bool(min_rows) and current is not None and len(current.rows) < min_rows
        if current is None and failure is None and not self.watched:
            set_success_variables(shell, "0")
        while current is not None:
            self._pending = current
            streamed, failure = self._show_streamed(current)
            following, failure = next(results) if failure is None else (None, failure)
            self.elapsed = (time.monotonic() - self._started) * 1000
            self.savepoint_gone = self.savepoint_gone or (current.tag or "") in _SAVEPOINT_ENDS
            last = following is None and failure is None
            chunked = self._show_pending(last) or streamed
            if last and not self.watched and not chunked:
                if self._ok:
                    set_success_variables(shell, row_count(current))
                else:
                    set_error_variables(shell, None)
            current = following
        if failure is not None:
            self._fail(failure)
        self._close_file()
        traffic.skip_rest()
        if shell.cancelled or stop_early:
            return 0
        return 1 if self._ok else -1

    def _results(self, traffic: CopyTraffic) -> Iterator[tuple[Result | None, PgError | None]]:
        """Each result, then (None, the error) or (None, None)."""
        iterator = self._run_query()
        shell, session = self.shell, self.connection.session
        while True:
            session.client = traffic
            session.streams = self._takes_portions()
            try:
                with interrupt.cancels_query(), statement_bar(shell, self.watched):
                    result = next(iterator, None)
            except PgError as error:
                traffic.end_of_statement()
                yield None, error
                return
            finally:
                session.streams = False
            copied = traffic.end_of_statement()
            if copied is CopiedTo.NOWHERE:
                self._ok = False
            elif copied is CopiedTo.OUTPUT:
                assert result is not None
                result = replace(result, tag=None)
            yield result, None
            if result is None:
                return

    def _copy_target(self) -> Stream | None:
        """The target of COPY TO STDOUT; None: its file cannot be opened."""
        shell = self.shell
        if self.watched:
            return self.stream or shell.query_out
        if shell.next.copy_stream is not None:
            return shell.next.copy_stream
        if shell.next.output is not None:
            return self._file if self._open_file() else None
        return shell.query_out

    def _show_pending(self, last: bool = False) -> bool:
        """Print the pending result, if any; whether it was printed in portions."""
        result, self._pending = self._pending, None
        if result is None or not self._ok:
            return False
        self.shell.end_bar()
        self._ok, chunked = self._show(result, last)
        return chunked

    def _show_streamed(self, result: Result) -> tuple[bool, PgError | None]:
        """Print a result whose rows are fetched while they are printed, without waiting for the next result."""
        if not isinstance(result.rows, StreamedRows):
            return False, None
        try:
            return self._show_pending(), None
        except PgError as error:
            return True, error

    def _run_query(self) -> Iterator[Result]:
        if self.shell.cancelled:  # Ctrl-C came when the query was typed, but had not begun
            raise user_request()
        values = self.shell.next.bind
        yield from self.connection.run(self.query, None if values is None else [(UNKNOWN, value) for value in values])

    def _fail(self, error: PgError) -> None:
        self._ok = False
        self.elapsed = (time.monotonic() - self._started) * 1000
        remember_error(self.shell, error, self.query)
        self.shell.report(error.report, self.query)
        if not self.watched:
            set_error_variables(self.shell, error)
        check_connection(self.shell, error)

    # --- printing ----------------------------------------------------------------------------------------------------

    def _show(self, result: Result, last: bool) -> tuple[bool, bool]:
        """Print a result, or do with the last one what the command (`\\gset`, …) says. Success, and whether it was
        printed in portions."""
        shell, wanted = self.shell, self.shell.next
        shown = last or shell.variables.on("SHOW_ALL_RESULTS")
        ok, chunked = True, False
        if result.columns is not None:
            if not self._open_file():
                return False, False
            if last and wanted.set_prefix is not None:
                ok = self._store(result, wanted.set_prefix)
            elif last and wanted.execute:
                ok = self._execute_cells(result)
            elif last and wanted.crosstab is not None:
                from pgrepl.shell.backslash.formatting import print_crosstab

                ok = print_crosstab(shell, result, wanted.crosstab)
            elif shown:
                chunk = self._chunk_size()
                chunked = chunk > 0 and bool(result.rows)
                ok = self._print_portions(result, chunk) if chunked else self._print(result)
        if shown:
            self._print_tag(result)
        return ok, chunked

    def _chunk_size(self) -> int:
        if self.watched or not self.shell.variables.on("SHOW_ALL_RESULTS"):
            return 0
        return max(self.shell.variables.number("FETCH_COUNT"), 0)

    def _takes_portions(self) -> bool:
        """May results be printed in portions: is FETCH_COUNT set, and no command that needs the whole result?"""
        wanted = self.shell.next
        return self._chunk_size() > 0 and wanted.set_prefix is None and not wanted.execute and wanted.crosstab is None

    def _target(self) -> Stream:
        return self._file or self.stream or self.shell.query_out

    def _print(self, result: Result) -> bool:
        options = self.options or self.shell.options
        return self.shell.print_table(table_of(result, options), options, self._target())

    def _print_portions(self, result: Result, size: int) -> bool:
        ok = print_portions(self.shell, result, self.options or self.shell.options, self._target(), size)
        set_success_variables(self.shell, str(len(result.rows)))
        return ok

    def _print_tag(self, result: Result) -> None:
        shell = self.shell
        if result.tag is None or (result.columns is not None and not result.tag.startswith(_RETURNING)):
            return
        # the tag goes to the query output, even if \g sends the rows elsewhere
        stream = self.stream or shell.query_out
        if not shell.quiet and shell.options.format not in JSON_FORMATS:
            if shell.options.format == "html":
                stream.write(f"<p>{result.tag}</p>\n")
            else:
                stream.write(result.tag + "\n")
            stream.flush()
        if shell.log_file is not None:
            shell.log_file.write(result.tag + "\n")
        shell.variables.set("LASTOID", "0")

    def _store(self, result: Result, prefix: str) -> bool:
        """`\\gset`: set a variable to each column of the one row; NULL unsets it."""
        shell = self.shell
        if len(result.rows) != 1:
            shell.error("no rows returned for \\gset" if not result.rows else "more than one row returned for \\gset")
            return False
        for column, value in zip(result.columns or (), result.rows[0], strict=True):
            name = prefix + column.name
            if shell.variables.special(name):
                shell.warning(f'attempt to \\gset into specially treated variable "{name}" ignored')
            elif not shell.variables.set(name, value):
                return False
        return True

    def _execute_cells(self, result: Result) -> bool:
        """`\\gexec`: run each value as a query."""
        shell = self.shell
        ok = True
        for value in (value for row in result.rows for value in row if value is not None):
            if shell.cancelled:
                return ok
            if shell.variables.word("ECHO") == "all" and not shell.variables.on("SINGLESTEP"):
                shell.say(value)
                shell.stdout.flush()
            kept, shell.next = shell.next, NextQuery()
            try:
                done = self._send(shell, value)
            finally:
                shell.next = kept
            if not done:
                ok = False
                if shell.variables.on("ON_ERROR_STOP"):
                    break
        return ok

    def _open_file(self) -> bool:
        name = self.shell.next.output
        if name is None or self._file is not None:
            return True
        self.shell.stdout.flush()
        try:
            self._file = open_output(name)
        except OSError as error:
            self.shell.error(f"{name}: {error.strerror}")
            return False
        return True

    def _close_file(self) -> None:
        if self._file is not None:
            status = self._file.close()
            if self._file.is_pipe:
                self.shell.set_shell_result(status)

    # --- \gdesc ------------------------------------------------------------------------------------------------------

    def describe(self) -> bool:
        """The names and types of the result's columns, without executing the query."""
        from pgrepl.statements.describe import prepare

        shell = self.shell
        try:
            with interrupt.cancels_query():
                columns = prepare(self.connection.session, self.query).columns
        except PgError as error:
            self._fail(error)
            return False
        self.elapsed = (time.monotonic() - self._started) * 1000
        if not columns:
            shell.query_out.write("The command has no result, or the result has no columns.\n")
            set_success_variables(shell, "0")
            return True
        rows = [(column.name, format_type(column.type, column.typmod)) for column in columns]
        ok = shell.print_table(result_table(("Column", "Type"), (TEXT, TEXT), rows, shell.options))
        set_success_variables(shell, str(len(rows)))
        return ok
