"""The kinds of expressions by where they stand (ParseExprKind), parameters whose types follow from that, and names of a
routine.

`Session.variables` has a routine's variables while a statement of it runs (p_pre_columnref_hook and its like).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from pgrepl.expr.tree import Const, Expr
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.names import format_type

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter


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


# --- parameters -------------------------------------------------------------------------------------------------------


class InferredParameters(Sequence["Parameter"]):
    """The parameters of a statement that is being prepared, without values."""

    def __init__(self, types: Sequence[int], count: int) -> None:
        """`types`: those that are given, 0 or unknown for one that is not."""
        given = [oids.UNKNOWN if typoid in (0, oids.UNKNOWN) else typoid for typoid in types]
        self.types = given + [oids.UNKNOWN] * (count - len(given))

    def __len__(self) -> int:
        return len(self.types)

    @overload
    def __getitem__(self, index: int) -> Parameter: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Parameter]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [(typoid, None) for typoid in self.types[index]]
        return self.types[index], None

    def settle(self, number: int, typoid: int, location: int) -> None:
        """A parameter has been cast to a type (variable_coerce_param_hook)."""
        known = self.types[number - 1]
        if known not in (oids.UNKNOWN, typoid):
            raise PgError(
                "42P08",
                f"inconsistent types deduced for parameter ${number}",
                detail=f"{format_type(known)} versus {format_type(typoid)}",
                location=location,
            )
        self.types[number - 1] = typoid

    def check(self) -> None:
        """Raise if the type of a parameter is still unknown (check_variable_parameters)."""
        for number, typoid in enumerate(self.types, 1):
            if typoid == oids.UNKNOWN:
                raise PgError("42P18", f"could not determine data type of parameter ${number}")


@frozen
class UnknownParam(Const):
    """A parameter of unknown type."""

    number: int = 0
    inferred: InferredParameters | None = None

    def settle(self, typoid: int) -> None:
        assert self.inferred is not None
        self.inferred.settle(self.number, typoid, self.location)


@frozen
class TypedParam(Const):
    """A parameter that has its type and no value yet. It equals no other one: `coalesce(a, $1)` is not in the list of
    `SELECT DISTINCT coalesce(a, $2)`, whatever both are bound to."""

    number: int = 0


@frozen
class BoundText(Const):
    """The text that is bound to a parameter of unknown type."""

    number: int = 0


def not_read(error: PgError, number: int, portal: str = "", value: str | None = "'...'") -> PgError:
    """The error of a parameter's value, as Bind tells it: which parameter, not where it stands in the statement
    (bind_param_error_callback). An interrupt that comes meanwhile is no error of the value."""
    if error.sqlstate.startswith("57"):
        return error
    return error.with_context(f"{portal_name(portal)} parameter ${number}" + ("" if value is None else f" = {value}"))


def quoted(text: str | None, longest: int) -> str:
    """A parameter's value in a message, of at most so many bytes; -1: the whole (appendStringInfoStringQuoted)."""
    if text is None:
        return "NULL"
    if 0 <= longest < len(text.encode()):
        text = text.encode()[:longest].decode(errors="ignore") + "..."
    return "'" + text.replace("'", "''") + "'"


def portal_name(name: str) -> str:
    return f'portal "{name}"' if name else "unnamed portal"


# --- variables --------------------------------------------------------------------------------------------------------


Names = tuple[str, ...]
Found = TypeVar("Found")


class Conflict(Enum):
    """The meaning of a name that is a variable's and a column's (plpgsql.variable_conflict)."""

    ERROR = "error"
    VARIABLE = "use_variable"
    COLUMN = "use_column"


class Variables(Protocol):
    @property
    def conflict(self) -> Conflict: ...

    def named(self, names: Names, location: int, *, must_have_field: bool) -> Expr | None:
        """The value of a name; None: no variable. `must_have_field`: a missing field of a record is an error."""

    def number_at(self, location: int) -> int:
        """The number, as a parameter, of the variable that was found last for this place."""

    def starred(self, names: Names, location: int) -> Expr | None:
        """The record whose fields `names.*` stands for; None: no variable."""

    def numbered(self, number: int, location: int) -> Expr | None:
        """The value of $n; None: there is no such parameter."""


def resolved(variables: Variables, names: Names, location: int, column: Callable[[], Expr | None]) -> Expr | None:
    """The meaning of a name. `column` looks it up among the columns, or raises the error for its absence."""

    def variable(must_have_field: bool) -> Expr | None:
        return variables.named(names, location, must_have_field=must_have_field)

    return chosen(variables.conflict, variable, column, ".".join(names), location)


def chosen(
    conflict: Conflict, variable: Callable[[bool], Expr | None], column: Callable[[], Found], name: str, location: int
) -> Expr | Found | None:
    """The meaning of a name: the variable that the first function finds, or what the second finds in the query."""
    if conflict is Conflict.VARIABLE:
        meant_variable = variable(False)
        return column() if meant_variable is None else meant_variable
    try:
        meant = column()
    except PgError as missing:
        if missing.sqlstate not in _ABSENT:
            raise
        meant_variable = variable(True)
        if meant_variable is None:
            raise
        return meant_variable
    if conflict is Conflict.ERROR and variable(False) is not None:
        raise ambiguous(name, location)
    return meant


# errors of a name that is no column: undefined column, undefined table, no field of a scalar, no such schema
_ABSENT = frozenset({"42703", "42P01", "42809", "3F000", "0A000"})


def ambiguous(name: str, location: int) -> PgError:
    return PgError(
        "42702",
        f'column reference "{name}" is ambiguous',
        detail="It could refer to either a PL/pgSQL variable or a table column.",
        location=location,
    )
