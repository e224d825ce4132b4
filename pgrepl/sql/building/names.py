"""Names, relations, types, constants, lists, operators, options, and the statements of a query string."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import AtCurrentToken, build
from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    AIndices,
    AStar,
    DefElem,
    Expr,
    FloatText,
    RangeVar,
    RawStmt,
    Statement,
    TypeName,
)

Indirection = list["str | AStar | AIndices"]
Names = tuple[str, ...]

INTERVAL_FULL_RANGE = 0x7FFF
_INTERVAL_BITS = {"year": 2, "month": 1, "day": 3, "hour": 10, "minute": 11, "second": 12}
_SYSTEM_TYPES = {
    "int": "int4", "integer": "int4", "smallint": "int2", "bigint": "int8", "real": "float4", "boolean": "bool",
    "double": "float8", "float": "float8", "decimal": "numeric", "dec": "numeric", "numeric": "numeric",
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ names


@build
def dotted_name(location: int, name: str, attributes: list[str]) -> Names:
    return (name, *attributes)


def _only_names(indirection: Indirection) -> list[str]:
    """Refuse subscripts and `*` in a name, which the grammar cannot tell apart in time (check_qualified_name,
    check_func_name)."""
    if not all(isinstance(part, str) for part in indirection):
        raise AtCurrentToken("syntax error")
    return indirection  # type: ignore[return-value]


@build
def qualified_func_name(location: int, name: str, indirection: Indirection) -> Names:
    return (name, *_only_names(indirection))


@build
def qualified_operator(location: int, schema: str, name: Names) -> Names:
    return (schema, *name)


# ------------------------------------------------------------------------------------------------ relations


def relation(location: int, name: str) -> RangeVar:
    return RangeVar(name, location=location)


@build
def qualified_relation(location: int, name: str, indirection: Indirection) -> RangeVar:
    return relation_of((name, *_only_names(indirection)), location)


def relation_of(names: Names, location: int) -> RangeVar:
    """A RangeVar from the parts of a name."""
    if len(names) > 3:
        message = f"improper qualified name (too many dotted names): {'.'.join(names)}"
        raise PgError("42601", message, location=location)
    name, schema, catalog = (*reversed(names), None, None)[:3]
    assert name is not None
    return RangeVar(name, schema, catalog, location=location)


# ------------------------------------------------------------------------------------------------ types


def system_type_name(name: str, location: int = -1, typmods: tuple[Expr, ...] = ()) -> TypeName:
    """A type of pg_catalog by its internal name."""
    return TypeName(("pg_catalog", name), typmods, location=location)


def integer_constant(value: int, location: int = -1) -> AConst:
    return AConst(AConstKind.INTEGER, value, location)


@build
def array_bound(location: int, bound: int | None) -> int:
    return -1 if bound is None else bound


@build
def qualified_type(location: int, name: str, attributes: list[str], modifiers: list[Expr] | None) -> TypeName:
    return TypeName((name, *attributes), tuple(modifiers or ()), location=location)


@build
def type_of_column(location: int, name: str, attributes: list[str]) -> TypeName:
    return TypeName((name, *attributes), pct_type=True, location=location)


@build
def setof_type_of_column(location: int, name: str, attributes: list[str]) -> TypeName:
    return TypeName((name, *attributes), pct_type=True, setof=True, location=location)


@build
def system_type(location: int, word: str, *_: str) -> TypeName:
    return system_type_name(_SYSTEM_TYPES[word], location)


@build
def float_type(location: int, word: str, name: str) -> TypeName:
    return system_type_name(name, location)


@build
def float_precision(location: int, bits: int) -> str:
    if bits < 1:
        raise PgError("22023", "precision for type float must be at least 1 bit", location=location)
    if bits > 53:
        raise PgError("22023", "precision for type float must be less than 54 bits", location=location)
    return "float4" if bits <= 24 else "float8"


@build
def decimal_type(location: int, word: str, modifiers: list[Expr]) -> TypeName:
    return system_type_name("numeric", location, tuple(modifiers))


@build
def bit_type(location: int, varying: bool, modifiers: list[Expr]) -> TypeName:
    return system_type_name("varbit" if varying else "bit", location, tuple(modifiers))


@build
def bit_type_unbounded(location: int, varying: bool) -> TypeName:
    if varying:
        return system_type_name("varbit", location)
    return system_type_name("bit", location, (integer_constant(1),))


@build
def character_type(locations: tuple[int, int], varying: bool, length: int) -> TypeName:
    name = "varchar" if varying else "bpchar"
    return system_type_name(name, locations[0], (integer_constant(length, locations[1]),))


@build
def character_type_unbounded(location: int, varying: bool) -> TypeName:
    if varying:
        return system_type_name("varchar", location)
    return system_type_name("bpchar", location, (integer_constant(1),))


@build
def timestamp_type(location: int, with_zone: bool) -> TypeName:
    return system_type_name("timestamptz" if with_zone else "timestamp", location)


@build
def time_type(location: int, with_zone: bool) -> TypeName:
    return system_type_name("timetz" if with_zone else "time", location)


@build
def timestamp_with_precision(locations: tuple[int, int], precision: int, with_zone: bool) -> TypeName:
    return replace(timestamp_type(locations[0], with_zone), typmods=(integer_constant(precision, locations[1]),))


@build
def time_with_precision(locations: tuple[int, int], precision: int, with_zone: bool) -> TypeName:
    return replace(time_type(locations[0], with_zone), typmods=(integer_constant(precision, locations[1]),))


@build
def json_type(location: int) -> TypeName:
    return system_type_name("json", location)


@build
def interval_type(location: int) -> TypeName:
    return system_type_name("interval", location)


@build
def interval_with_precision(location: int, interval: TypeName, precision: int) -> TypeName:
    return replace(interval, typmods=(integer_constant(INTERVAL_FULL_RANGE), integer_constant(precision, location)))


def _interval_mask(first: str, last: str) -> int:
    """The bit mask of an interval's fields from one to another: YEAR TO MONTH, DAY TO SECOND …"""
    order = list(_INTERVAL_BITS)
    return sum(1 << _INTERVAL_BITS[field] for field in order[order.index(first) : order.index(last) + 1])


@build
def interval_range(location: int, first: str, to: str | None = None, last: str | None = None) -> tuple[AConst, ...]:
    return (integer_constant(_interval_mask(first, last or first), location),)


@build
def interval_second(location: int) -> tuple[AConst, ...]:
    return (integer_constant(_interval_mask("second", "second"), location),)


@build
def interval_second_precision(locations: tuple[int, int], precision: int) -> tuple[AConst, ...]:
    return (*interval_second(locations[0]), integer_constant(precision, locations[1]))


@build
def interval_range_to_second(location: int, first: str, to: str, seconds: tuple[AConst, ...]) -> tuple[AConst, ...]:
    return (integer_constant(_interval_mask(first, "second"), location), *seconds[1:])


# ------------------------------------------------------------------------------------------------ constants


@build
def negative(location: int, value: int) -> int:
    return -value


@build
def negative_float_text(location: int, text: str) -> FloatText:
    return FloatText("-" + text)


# ------------------------------------------------------------------------------------------------ options


@build
def option(location: int, name: str, value: Any) -> DefElem:
    return DefElem(name, tuple(value) if isinstance(value, list) else value, location)


@build
def analyze_word(location: int, word: str) -> str:
    """ANALYSE as ANALYZE."""
    return "analyze"


# --- common -----------------------------------------------------------------------------------------------------------


@build
def empty(location: int) -> list[Any]:
    return []


@build
def first(location: int, item: Any) -> list[Any]:
    """A list of one item."""
    return [item]


@build
def more(location: int, items: list[Any], item: Any) -> list[Any]:
    """A list with one more item."""
    items.append(item)
    return items


@build
def children(location: int, *items: Any) -> tuple[Any, ...]:
    """The children as they are, with None for what is absent."""
    return items


Statements = list["tuple[Statement | None, int, int]"]


@build
def first_statement(location: int, statement: Statement | None) -> Statements:
    return [(statement, 0, 0)]


@build
def next_statement(location: int, statements: Statements, statement: Statement | None) -> Statements:
    """A semicolon: it ends a statement, and the next one begins behind it (updateRawStmtEnd)."""
    last, start, _ = statements[-1]
    statements[-1] = (last, start, location - start)
    statements.append((statement, location + 1, 0))
    return statements


@build
def all_statements(location: int, statements: Statements) -> list[RawStmt]:
    return [RawStmt(statement, start, length) for statement, start, length in statements if statement is not None]
