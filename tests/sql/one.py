"""One statement as its node."""

from __future__ import annotations

import dataclasses
from typing import Any

from pgrepl.sql.nodes import AConst, AConstKind, AExpr, AExprKind, ColumnRef, Expr, Statement, TypeName
from pgrepl.sql.parser import parse

INT4 = TypeName(("pg_catalog", "int4"))
TEXT = TypeName(("text",))


def node(text: str) -> Statement:
    [raw] = parse(text)
    return raw.stmt


def plain(text: str) -> Statement:
    """The node with every location forgotten."""
    statement = _without_locations(node(text))
    assert isinstance(statement, Statement)
    return statement


def _without_locations(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_without_locations(item) for item in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dataclasses.replace(
        value, **{name: -1 if name.endswith("location") else _without_locations(item) for name, item in fields.items()}
    )


def integer(value: int) -> AConst:
    return AConst(AConstKind.INTEGER, value)


def string(value: str) -> AConst:
    return AConst(AConstKind.STRING, value)


def column(name: str) -> ColumnRef:
    return ColumnRef((name,))


def operation(left: Expr, operator: str, right: Expr) -> AExpr:
    return AExpr(AExprKind.OP, (operator,), left, right)
