"""The kinds of expressions, by where they stand (ParseExprKind), and PostgreSQL's errors for what one must not have."""

from __future__ import annotations

from enum import Enum

from pgrepl.errors import PgError
from pgrepl.frozen import frozen


@frozen
class ExprKindRules:
    """The rules for expressions of a kind. `name` is the kind's as in "not allowed in NAME"; `plural` and `subquery`
    replace it where PostgreSQL's message has other words."""

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
    OTHER = ExprKindRules("extension expression", aggregates_allowed=True, windows_allowed=True, sets_allowed=True)
    JOIN_ON = ExprKindRules("JOIN/ON", "JOIN conditions")
    JOIN_USING = ExprKindRules("JOIN/USING", "JOIN conditions")
    FROM_SUBSELECT = ExprKindRules("sub-SELECT in FROM", aggregates="FROM clause of their own query level")
    FROM_FUNCTION = ExprKindRules("function in FROM", "functions in FROM", sets_allowed=True)
    WHERE = ExprKindRules("WHERE")
    HAVING = ExprKindRules("HAVING", aggregates_allowed=True)
    FILTER = ExprKindRules("FILTER")
    WINDOW_PARTITION = ExprKindRules("window PARTITION BY", aggregates_allowed=True, windows=_WINDOW, sets_allowed=True)
    WINDOW_ORDER = ExprKindRules("window ORDER BY", aggregates_allowed=True, windows=_WINDOW, sets_allowed=True)
    WINDOW_FRAME_RANGE = ExprKindRules("window RANGE", windows=_WINDOW, sets=_WINDOW)
    WINDOW_FRAME_ROWS = ExprKindRules("window ROWS", windows=_WINDOW, sets=_WINDOW)
    WINDOW_FRAME_GROUPS = ExprKindRules("window GROUPS", windows=_WINDOW, sets=_WINDOW)
    SELECT_TARGET = ExprKindRules("SELECT", aggregates_allowed=True, windows_allowed=True, sets_allowed=True)
    INSERT_TARGET = ExprKindRules("INSERT", sets_allowed=True)
    UPDATE_SOURCE = ExprKindRules("UPDATE")
    GROUP_BY = ExprKindRules("GROUP BY", sets_allowed=True)
    ORDER_BY = ExprKindRules("ORDER BY", aggregates_allowed=True, windows_allowed=True, sets_allowed=True)
    DISTINCT_ON = ExprKindRules("DISTINCT ON", aggregates_allowed=True, windows_allowed=True, sets_allowed=True)
    LIMIT = ExprKindRules("LIMIT")
    OFFSET = ExprKindRules("OFFSET")
    RETURNING = ExprKindRules("RETURNING")
    MERGE_RETURNING = ExprKindRules("RETURNING")
    MERGE_WHEN = ExprKindRules("MERGE WHEN", "MERGE WHEN conditions")
    VALUES = ExprKindRules("VALUES")
    VALUES_SINGLE = ExprKindRules("VALUES", sets_allowed=True)
    CHECK = ExprKindRules("CHECK", "check constraints", "check constraint")
    DOMAIN_CHECK = ExprKindRules("CHECK", "check constraints", "check constraint")
    DEFAULT = ExprKindRules("DEFAULT", "DEFAULT expressions", "DEFAULT expression")
    INDEX_EXPRESSION = ExprKindRules("index expression", "index expressions", "index expression")
    INDEX_PREDICATE = ExprKindRules("index predicate", "index predicates", "index predicate")
    USING = ExprKindRules("USING", "transform expressions", "transform expression")  # ALTER COLUMN TYPE … USING
    PARTITION_BOUND = ExprKindRules("partition bound", "partition bound", "partition bound")
    PARTITION_KEY = ExprKindRules("PARTITION BY", "partition key expressions", "partition key expression")
    COPY_WHERE = ExprKindRules("WHERE", "COPY FROM WHERE conditions", "COPY FROM WHERE condition")
    GENERATED = ExprKindRules("GENERATED AS", "column generation expressions", "column generation expression")
    TRIGGER_WHEN = ExprKindRules("WHEN", "trigger WHEN conditions", "trigger WHEN condition")
    CYCLE_MARK = ExprKindRules("CYCLE")
    EXECUTE_PARAMETER = ExprKindRules("EXECUTE", "EXECUTE parameters", "EXECUTE parameter")
    CALL_ARGUMENT = ExprKindRules("CALL", "CALL arguments", "CALL argument")
    FUNCTION_DEFAULT = ExprKindRules("DEFAULT", "DEFAULT expressions", "DEFAULT expression", "DEFAULT expressions")

    @property
    def rules(self) -> ExprKindRules:
        rules: ExprKindRules = self.value
        return rules

    @property
    def title(self) -> str:
        """The name of the kind as ParseExprKindName gives it."""
        return self.rules.name


def aggregate_refused(kind: ExprKind, what: str, location: int) -> PgError | None:
    """The error for aggregates; `what` is "aggregate functions" or "grouping operations"
    (check_agglevels_and_constraints)."""
    rules = kind.rules
    if rules.aggregates_allowed:
        return None
    where = rules.aggregates or rules.plural or rules.name
    return PgError("42803", f"{what} are not allowed in {where}", location=location)


def window_refused(kind: ExprKind, location: int) -> PgError | None:
    """The error for window functions, as in transformWindowFuncCall."""
    rules = kind.rules
    if rules.windows_allowed:
        return None
    where = rules.windows or rules.plural or rules.name
    return PgError("42P20", f"window functions are not allowed in {where}", location=location)


def set_refused(kind: ExprKind, location: int) -> PgError | None:
    """The error for set-returning functions, as in check_srf_call_placement."""
    rules = kind.rules
    if rules.sets_allowed:
        return None
    where = rules.sets or rules.plural or rules.name
    return PgError("0A000", f"set-returning functions are not allowed in {where}", location=location)


def subquery_refused(kind: ExprKind, location: int) -> PgError | None:
    """The error for subqueries, as in transformSubLink."""
    where = kind.rules.subquery
    return PgError("0A000", f"cannot use subquery in {where}", location=location) if where is not None else None
