"""The kinds of places that an expression can stand in, and PostgreSQL's errors for what is not allowed there
(ParseExprKind)."""

from __future__ import annotations

from enum import Enum

from pgrepl.errors import PgError
from pgrepl.frozen import frozen


@frozen
class Place:
    """A kind of place: `name` as in "not allowed in NAME". `plural` and `subquery` replace it where PostgreSQL's
    message has other words."""

    name: str
    plural: str | None = None
    subquery: str | None = None  # "cannot use subquery in …"
    aggregates: str | None = None  # "aggregate functions are not allowed in …": differs from plural
    windows: str | None = None
    sets: str | None = None
    aggregates_allowed: bool = False
    windows_allowed: bool = False
    sets_allowed: bool = False


_WINDOW = "window definitions"


class ExprKind(Enum):
    OTHER = Place("extension expression", aggregates_allowed=True, windows_allowed=True, sets_allowed=True)
    JOIN_ON = Place("JOIN/ON", "JOIN conditions")
    JOIN_USING = Place("JOIN/USING", "JOIN conditions")
    FROM_SUBSELECT = Place("sub-SELECT in FROM", aggregates="FROM clause of their own query level")
    FROM_FUNCTION = Place("function in FROM", "functions in FROM", sets_allowed=True)
    WHERE = Place("WHERE")
    HAVING = Place("HAVING", aggregates_allowed=True)
    FILTER = Place("FILTER")
    WINDOW_PARTITION = Place("window PARTITION BY", aggregates_allowed=True, windows=_WINDOW, sets_allowed=True)
    WINDOW_ORDER = Place("window ORDER BY", aggregates_allowed=True, windows=_WINDOW, sets_allowed=True)
    WINDOW_FRAME_RANGE = Place("window RANGE", windows=_WINDOW, sets=_WINDOW)
    WINDOW_FRAME_ROWS = Place("window ROWS", windows=_WINDOW, sets=_WINDOW)
    WINDOW_FRAME_GROUPS = Place("window GROUPS", windows=_WINDOW, sets=_WINDOW)
    SELECT_TARGET = Place("SELECT", aggregates_allowed=True, windows_allowed=True, sets_allowed=True)
    INSERT_TARGET = Place("INSERT", sets_allowed=True)
    UPDATE_SOURCE = Place("UPDATE")
    GROUP_BY = Place("GROUP BY", sets_allowed=True)
    ORDER_BY = Place("ORDER BY", aggregates_allowed=True, windows_allowed=True, sets_allowed=True)
    DISTINCT_ON = Place("DISTINCT ON", aggregates_allowed=True, windows_allowed=True, sets_allowed=True)
    LIMIT = Place("LIMIT")
    OFFSET = Place("OFFSET")
    RETURNING = Place("RETURNING")
    MERGE_RETURNING = Place("RETURNING")
    MERGE_WHEN = Place("MERGE WHEN", "MERGE WHEN conditions")
    VALUES = Place("VALUES")
    VALUES_SINGLE = Place("VALUES", sets_allowed=True)
    CHECK = Place("CHECK", "check constraints", "check constraint")
    DOMAIN_CHECK = Place("CHECK", "check constraints", "check constraint")
    DEFAULT = Place("DEFAULT", "DEFAULT expressions", "DEFAULT expression")
    INDEX_EXPRESSION = Place("index expression", "index expressions", "index expression")
    INDEX_PREDICATE = Place("index predicate", "index predicates", "index predicate")
    USING = Place("USING", "transform expressions", "transform expression")  # ALTER COLUMN TYPE … USING
    PARTITION_BOUND = Place("partition bound", "partition bound", "partition bound")
    PARTITION_KEY = Place("PARTITION BY", "partition key expressions", "partition key expression")
    COPY_WHERE = Place("WHERE", "COPY FROM WHERE conditions", "COPY FROM WHERE condition")
    GENERATED = Place("GENERATED AS", "column generation expressions", "column generation expression")
    TRIGGER_WHEN = Place("WHEN", "trigger WHEN conditions", "trigger WHEN condition")
    CYCLE_MARK = Place("CYCLE")
    EXECUTE_PARAMETER = Place("EXECUTE", "EXECUTE parameters", "EXECUTE parameter")
    CALL_ARGUMENT = Place("CALL", "CALL arguments", "CALL argument")
    FUNCTION_DEFAULT = Place("DEFAULT", "DEFAULT expressions", "DEFAULT expression", "DEFAULT expressions")

    @property
    def place(self) -> Place:
        place: Place = self.value
        return place

    @property
    def title(self) -> str:
        """The name of the place as ParseExprKindName gives it."""
        return self.place.name


def aggregate_refused(kind: ExprKind, what: str, location: int) -> PgError | None:
    """The error for aggregates; `what` is "aggregate functions" or "grouping operations"
    (check_agglevels_and_constraints)."""
    place = kind.place
    if place.aggregates_allowed:
        return None
    where = place.aggregates or place.plural or place.name
    return PgError("42803", f"{what} are not allowed in {where}", location=location)


def window_refused(kind: ExprKind, location: int) -> PgError | None:
    """The error for window functions, as in transformWindowFuncCall."""
    place = kind.place
    if place.windows_allowed:
        return None
    where = place.windows or place.plural or place.name
    return PgError("42P20", f"window functions are not allowed in {where}", location=location)


def set_refused(kind: ExprKind, location: int) -> PgError | None:
    """The error for set-returning functions, as in check_srf_call_placement."""
    place = kind.place
    if place.sets_allowed:
        return None
    where = place.sets or place.plural or place.name
    return PgError("0A000", f"set-returning functions are not allowed in {where}", location=location)


def subquery_refused(kind: ExprKind, location: int) -> PgError | None:
    """The error for subqueries, as in transformSubLink."""
    where = kind.place.subquery
    return PgError("0A000", f"cannot use subquery in {where}", location=location) if where is not None else None
