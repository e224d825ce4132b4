"""Names that a statement of a routine may refer to beside columns: variables and parameters.

`Session.variables` has them while the statement runs; the analysis of the statement asks them for every name, as
PostgreSQL's p_pre_columnref_hook, p_post_columnref_hook and p_paramref_hook do. Stored expressions, views and the
bodies of other routines see none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeVar

from pgrepl.errors import PgError
from pgrepl.expr.tree import Expr

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
    conflict: Conflict,
    variable: Callable[[bool], Expr | None],
    column: Callable[[], Found],
    name: str,
    location: int,
) -> Expr | Found | None:
    """The meaning of a name: the variable that the first function finds, or what the second finds in the query."""
    if conflict is Conflict.VARIABLE:
        found = variable(False)
        return column() if found is None else found
    try:
        meant = column()
    except PgError as missing:
        if missing.sqlstate not in _ABSENT:
            raise
        found = variable(True)
        if found is None:
            raise
        return found
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


__all__ = ["Conflict", "Variables", "chosen", "resolved"]
