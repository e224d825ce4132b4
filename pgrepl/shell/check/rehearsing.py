"""The shell that reads a script in order to check it: it prints nothing, and notes what is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.errors import Report
from pgrepl.shell.check.findings import Finding
from pgrepl.shell.check.places import LineColumn, PlacedBuffer
from pgrepl.shell.check.withheld import UNKNOWN, WITHHELD
from pgrepl.shell.connection import ConnectFailure, Connection, ConnectTarget
from pgrepl.shell.lexer import Lexer
from pgrepl.shell.shell import Severity, Shell
from pgrepl.shell.streams import Stream
from pgrepl.shell.variables import Variables
from pgrepl.statements.rehearsal.execute import Rehearsal

if TYPE_CHECKING:
    from pgrepl.catalog.session import Parameter
    from pgrepl.query.result import Result
    from pgrepl.statements.run import Execute

_TOLD = ("ERROR", "FATAL", "PANIC", "WARNING")


class CheckingVariables(Variables):
    """psql's variables in a check. Those that steer a script's way are fixed: each statement is looked at, whatever
    came before it."""

    _FIXED = {
        "AUTOAPPLY": "off",
        "ON_STALE": "off",
        "FETCH_COUNT": "0",
        "ON_ERROR_ROLLBACK": "on",
        "ON_ERROR_STOP": "off",
        "SINGLESTEP": "off",
    }

    def on(self, name: str) -> bool:
        return self._FIXED[name] == "on" if name in self._FIXED else super().on(name)

    def word(self, name: str) -> str:
        return self._FIXED.get(name) or super().word(name)

    def number(self, name: str) -> int:
        return int(self._FIXED[name]) if name in self._FIXED else super().number(name)


class CheckingShell(Shell):
    """Reads scripts; `findings` are in the order of the scripts' lines as they were read."""

    def __init__(self) -> None:
        super().__init__()
        nowhere = os.open(os.devnull, os.O_RDWR)
        self.stdout = self.query_out = Stream(nowhere)
        self.stderr = Stream(nowhere, buffered=False)
        self.variables = CheckingVariables(self.error)
        self._set_up_variables()
        self.not_terminal = True
        self.own_commands = dict(WITHHELD)
        self.backticks = self._without_program
        self.findings: list[Finding] = []
        self.rehearsal = Rehearsal()
        self.file = ""  # the script, before and after it is read
        self.catalog_name = ""  # for messages: the copy's name tells nobody anything

    def read(self, name: str, target: ConnectTarget) -> None:
        """Read a script in a session of its own. The working folder is as before, whatever the script does."""
        from pgrepl.shell.mainloop import run_file

        self.file = "<stdin>" if name == "-" else name
        self.defaults = target
        self.connection = CheckedConnection(target, self)
        self.sync_variables()
        folder = os.getcwd()
        try:
            run_file(self, name)
        finally:
            os.chdir(folder)
            if self.connection is not None:
                self.connection.close()
                self.connection = None

    def prepare_lexer(self, lexer: Lexer) -> None:
        lexer.query = PlacedBuffer(lexer, lambda: self.line_number)

    def connect(self, target: ConnectTarget) -> Connection:
        if os.path.abspath(os.path.join(target.folder, target.catalog)) != self.defaults.catalog:
            raise ConnectFailure(f"{UNKNOWN}the script goes on in another catalog")
        return CheckedConnection(target, self)

    def _without_program(self, text: str) -> str:
        self.note("a program in backticks is not run")
        return UNKNOWN

    # --- what is found -----------------------------------------------------------------------------------------------

    def report(self, report: Report, query: str | None) -> None:
        if report.severity in _TOLD:
            place = self._place(report.position, query)
            self._find(
                place, report.severity, report.sqlstate, report.message, report.detail, report.hint, report.context
            )

    def log(self, severity: Severity, text: str, *, label: str | None = None) -> None:
        if severity == "info":
            return
        if UNKNOWN in text:
            self.note("what depends on it is not checked: the value is not known here")
            return
        place = LineColumn(self.line_number or 1, 1)
        text = text.removesuffix("\n").replace("\n", " ").replace(self.defaults.catalog, self.catalog_name)
        self._find(place, severity.upper(), None, text)

    def note(self, text: str) -> None:
        """Tell what is not carried out."""
        self._find(self._place(None, None), "NOTICE", None, text)

    def _find(
        self,
        place: LineColumn,
        severity: str,
        sqlstate: str | None,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
        context: str | None = None,
    ) -> None:
        file = self.source_name or self.file
        found = Finding(file, place.line, place.column, severity, sqlstate, message, detail, hint, context)
        self.findings.append(found)

    def _place(self, position: int | None, query: str | None) -> LineColumn:
        buffer = self.query_buffer
        if isinstance(buffer, PlacedBuffer):
            found = buffer.start
            if position is not None and query is not None and query == buffer.text:
                found = buffer.place(position - 1)
            if found is not None:
                return found
        return LineColumn(self.line_number or 1, 1)


class CheckedConnection(Connection):
    """A connection to the copy, whose statements are rehearsed."""

    def __init__(self, target: ConnectTarget, shell: CheckingShell) -> None:
        super().__init__(target, shell.on_notice)
        self.catalog.is_rehearsal = True
        self._shell = shell

    def run(
        self, text: str, parameters: Sequence[Parameter] | None = None, *, execute: Execute | None = None
    ) -> Iterator[Result]:
        shell, rehearsal = self._shell, self._shell.rehearsal
        if UNKNOWN in text:
            shell.note("the statement is not checked: it has a value in it that is not known here")
            shell.next.set_prefix, shell.next.execute, shell.next.crosstab = None, False, None
            return
        rehearsal.wants_rows = shell.next.set_prefix is not None or shell.next.execute
        rehearsal.notes.clear()
        for result in super().run(text, parameters, execute=execute or rehearsal.execute):
            if rehearsal.unknown is not None and rehearsal.wants_rows:
                self._leave_open(tuple(column.name for column in rehearsal.unknown))
            shell.next.crosstab = None
            yield result
        for note in rehearsal.notes:
            shell.note(note)

    def _leave_open(self, columns: tuple[str, ...]) -> None:
        r"""The rows for `\gset` or `\gexec` are not known."""
        shell = self._shell
        if shell.next.execute:
            shell.note("\\gexec: the queries are not checked, because they depend on rows")
        prefix = shell.next.set_prefix
        if prefix is not None:
            for column in columns:
                if not shell.variables.special(prefix + column):
                    shell.variables.set(prefix + column, UNKNOWN)
        shell.next.set_prefix, shell.next.execute = None, False


__all__ = ["CheckedConnection", "CheckingShell"]
