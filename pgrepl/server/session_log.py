"""What the server's log says of a session: connections, statements, durations, errors (log_statement and its like)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.expr.analyse.kinds import quoted
from pgrepl.ground.errors import PgError, Report
from pgrepl.replication.log import LogOf, ServerLog, reaches
from pgrepl.sql.location import get_boolean
from pgrepl.sql.parser import parse
from pgrepl.sql.passwords import holds_password
from pgrepl.sql.statements import command_tag

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter, Session
    from pgrepl.sql.nodes import Statement
    from pgrepl.statements.prepared import PreparedStatement

_NONE, _DDL, _MOD, _ALL = range(4)
_RANKS = {"none": _NONE, "ddl": _DDL, "mod": _MOD, "all": _ALL}
_MODIFYING = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE TABLE")
_DEFINING = ("CREATE ", "ALTER ", "DROP ", "GRANT", "REVOKE", "COMMENT", "SECURITY LABEL", "REFRESH ", "REASSIGN ")
_HIDDEN = "<not shown: it may hold a password>"


class _Wanted(NamedTuple):
    """What is to be logged of statements."""

    statements: int
    durations: bool
    least: int  # milliseconds from which on a statement is logged with its duration; -1: none is


class SessionLog:
    """The log of a session's server. A message of the client begins, and may end."""

    def __init__(self, log: ServerLog, session: Session) -> None:
        self._log = LogOf(log, session)
        self._session = session
        self._began = 0.0
        self._is_logged = False  # the statement, so that only its duration is left

    # --- reports --------------------------------------------------------------------------------------------------

    def report(self, report: Report) -> None:
        """An error or a notice, and the statement that it comes of."""
        if self._log.hears(report.severity):
            least = self._session.settings.get("log_min_error_statement")
            text = self._session.query if reaches(report.severity, least) else ""
            self._log.report(report, _shown(text) if text else None)

    def command(self, text: str) -> None:
        """A replication command has come."""
        self._of_replication(f"received replication command: {_shown(text)}")

    def slot(self, done: str, name: str) -> None:
        """The session has acquired a slot, or released it."""
        self._of_replication(f'{done} logical replication slot "{name}"')

    def _of_replication(self, said: str) -> None:
        wanted = self._session.settings.value("log_replication_commands")
        self.report(Report("LOG" if wanted else "DEBUG1", "00000", said))

    # --- statements -----------------------------------------------------------------------------------------------

    def begins(self) -> None:
        """A message has come."""
        self._began = time.perf_counter()
        self._is_logged = False

    def query(self, text: str) -> None:
        """A query string is going to run."""
        wanted = self._wanted()
        if wanted is None or not wanted.statements:
            return
        statements = self._parsed(text)
        if statements is None:  # its error is what is logged
            return
        if wanted.statements == _ALL or any(self._rank(statement) <= wanted.statements for statement in statements):
            self._log.log(f"statement: {_shown(text)}", detail=self._prepared(statements))
            self._is_logged = True

    def query_ends(self, text: str) -> None:
        self._ends(lambda: (f"statement: {_shown(text)}", self._prepared(self._parsed(text) or ())))

    def parse_ends(self, name: str, text: str) -> None:
        self._ends(lambda: (f"parse {name or '<unnamed>'}: {_shown(text)}", None))

    def bind_ends(self, prepared: PreparedStatement, portal: str, parameters: Sequence[Parameter]) -> None:
        self._ends(lambda: (f"bind {_named(prepared, portal)}", self._parameters(parameters)))

    def execute(
        self, prepared: PreparedStatement, portal: str, parameters: Sequence[Parameter], *, fetches: bool
    ) -> None:
        """A portal is going to run, or, if it `fetches`, to go on."""
        wanted = self._wanted()
        if wanted is None or not wanted.statements:
            return
        if wanted.statements == _ALL or (prepared.stmt and self._rank(prepared.stmt) <= wanted.statements):
            self._log.log(_executed(prepared, portal, fetches=fetches), detail=self._parameters(parameters))
            self._is_logged = True

    def execute_ends(
        self, prepared: PreparedStatement, portal: str, parameters: Sequence[Parameter], *, fetches: bool
    ) -> None:
        self._ends(lambda: (_executed(prepared, portal, fetches=fetches), self._parameters(parameters)))

    def _wanted(self) -> _Wanted | None:
        """None: nothing is, as most sessions have it; so this costs next to nothing."""
        return self._session.settings.derived("logged statements", self._read_wanted)

    def _read_wanted(self) -> _Wanted | None:
        value = self._session.settings.value
        wanted = _Wanted(
            _RANKS[str(value("log_statement"))], bool(value("log_duration")), int(value("log_min_duration_statement"))
        )
        return None if wanted == (_NONE, False, -1) else wanted

    def _ends(self, tell: Callable[[], tuple[str, str | None]]) -> None:
        """A message ends: its duration, and if it was slow and is not logged yet what it was (check_log_duration)."""
        wanted = self._wanted()
        if wanted is None:
            return
        took = (time.perf_counter() - self._began) * 1000
        is_slow = 0 <= wanted.least <= took
        if is_slow and not self._is_logged:
            what, detail = tell()
            self._log.log(f"duration: {took:.3f} ms  {what}", detail=detail)
        elif is_slow or wanted.durations:
            self._log.log(f"duration: {took:.3f} ms")

    def _parsed(self, text: str) -> Sequence[Statement] | None:
        try:
            return [raw.stmt for raw in parse(text, lambda _: None, self._session.settings.string_rules)]
        except PgError:
            return None

    def _rank(self, stmt: Statement) -> int:
        """The least log_statement with which a statement is logged (GetCommandLogLevel)."""
        told: Any = stmt
        match type(stmt).__name__:
            case "ExplainStmt":
                analyzes = any(o.name == "analyze" and get_boolean(o) for o in told.options)
                return self._rank(told.query) if analyzes else _ALL
            case "PrepareStmt":
                return self._rank(told.query)
            case "ExecuteStmt":
                prepared = self._session.prepared.get(told.name)
                return _ALL if prepared is None or prepared.stmt is None else self._rank(prepared.stmt)
            case "CopyStmt":
                return _MOD if told.is_from else _ALL
            case "SelectStmt" if told.into is not None:
                return _DDL
        tag = command_tag(stmt)
        if tag in _MODIFYING:
            return _MOD
        return _DDL if tag.startswith(_DEFINING) or tag == "CLUSTER" else _ALL

    def _prepared(self, statements: Sequence[Statement]) -> str | None:
        """The statement that EXECUTE runs (errdetail_execute)."""
        for statement in statements:
            if type(statement).__name__ == "ExecuteStmt":
                prepared = self._session.prepared.get(statement.name)  # type: ignore[attr-defined]
                return None if prepared is None else f"prepare: {_shown(prepared.text)}"
        return None

    def _parameters(self, parameters: Sequence[Parameter]) -> str | None:
        longest = int(self._session.settings.value("log_parameter_max_length"))
        if not parameters or not longest:
            return None
        values = [f"${number} = {quoted(text, longest)}" for number, (_, text) in enumerate(parameters, 1)]
        return "Parameters: " + ", ".join(values)


def _shown(text: str) -> str:
    return _HIDDEN if holds_password(text) else text


def _named(prepared: PreparedStatement, portal: str) -> str:
    return f"{prepared.name or '<unnamed>'}{'/' if portal else ''}{portal}: {_shown(prepared.text)}"


def _executed(prepared: PreparedStatement, portal: str, *, fetches: bool) -> str:
    return f"{'execute fetch from' if fetches else 'execute'} {_named(prepared, portal)}"
