"""Parameters whose types follow from where they stand: what PREPARE and Parse find out (parse_param.c).

A parameter without a type is as a string literal of unknown type. The first cast of it to a type settles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from pgrepl.errors import PgError
from pgrepl.expr.tree import Const
from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.names import format_type

if TYPE_CHECKING:
    from pgrepl.catalog.session import Parameter


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
