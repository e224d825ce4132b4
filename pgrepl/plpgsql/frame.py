"""`Code`, a function made ready to run (PLpgSQL_function), and `Frame`, the state of one call of it
(PLpgSQL_execstate): the values of its variables, by number, and the statement that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.plpgsql.datums import Column

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.plpgsql.compilation import Function
    from pgrepl.plpgsql.nodes import Statement


class AnalysedSql(Protocol):
    """A piece of SQL that keeps its analysis (expr.py)."""

    def forget(self) -> None: ...


class Code:
    """A function made ready to run."""

    def __init__(self, session: Session, function: Function) -> None:
        self.function = function
        self.session = session
        self.context = RoutineContext(session)
        self.columns: Sequence[Column] = ()  # of the result
        self.pieces: list[AnalysedSql] = []  # the SQL of the body
        self.casts: dict[Any, Callable[[Any], Any]] = {}
        self.row_types: dict[int, list[Column]] = {}  # the columns of named row types
        self.layout: Any = None  # of a trigger's relation (call.py)
        self.run: Callable[[Frame], ReturnCode | None] = _unmade
        self._state: object = None

    def refresh(self) -> None:
        """Forget what has been analysed when definitions or the search path have changed since."""
        session = self.session
        self.context.renew()
        now = (session.derived.setdefault(("plpgsql",), object()), session.settings.found(("search_path",)))
        if self._state != now:
            self._state = now
            self.casts.clear()
            self.row_types.clear()
            for piece in self.pieces:
                piece.forget()


class RoutineContext(Context):
    """The context of compiled expressions, which live longer than a statement."""

    def renew(self) -> None:
        """Read the settings anew, which a statement may have changed."""
        self._style = None


def _unmade(frame: Frame) -> None:
    raise AssertionError("the body has not been compiled")


class Frame(list[Any]):
    """The values of variables; a list, so that compiled expressions take them by index.

    A record variable has a Record, or None: not assigned yet, or NULL of a named row type.
    """

    __slots__ = (
        "atomic",
        "code",
        "error",
        "is_alone",
        "line",
        "phase",
        "read_only",
        "returned",
        "row_count",
        "rows",
        "session",
        "statement",
    )

    def __init__(
        self, code: Code, session: Session, *, atomic: bool, read_only: bool = False, is_alone: bool = False
    ) -> None:
        super().__init__([None] * len(code.function.datums))
        self.code = code
        self.session = session
        self.atomic = atomic  # COMMIT and ROLLBACK are errors
        self.is_alone = is_alone  # of DO or CALL: no query of the client runs around it
        self.read_only = read_only  # of a function that is not volatile
        self.statement: Statement | None = None  # the running one
        self.line = 0  # of a variable that is being initialized
        self.phase = ""  # what is done outside of statements
        self.row_count = 0
        self.error: PgError | None = None  # the one that is being handled
        self.returned: Any = None  # the value of RETURN, and its type
        self.rows: list[tuple[Any, ...]] = []  # of RETURN NEXT and RETURN QUERY

    def where(self) -> str:
        """The line of CONTEXT for the frame (plpgsql_exec_error_callback)."""
        signature, statement = self.code.function.signature, self.statement
        line = self.line or (statement.line if statement is not None else 0)
        if self.phase:
            return f"PL/pgSQL function {signature} " + (f"line {line} " if line else "") + self.phase
        if statement is not None and line:
            return f"PL/pgSQL function {signature} line {line} at {statement.kind}"
        return f"PL/pgSQL function {signature}"


ExecStmt = Callable[[Frame], "ReturnCode | None"]  # a compiled statement; None (PLPGSQL_RC_OK): the next one follows


class ReturnCode:
    """A statement's return code: control leaves the statements around it (PLPGSQL_RC_…)."""

    __slots__ = ("label",)

    def __init__(self, label: str | None = None) -> None:
        self.label = label


class RcExit(ReturnCode):
    """EXIT."""


class RcContinue(ReturnCode):
    """CONTINUE."""


class RcReturn(ReturnCode):
    """RETURN."""


RC_RETURN = RcReturn()
