"""Assignments to a part of a value, compiled: UPDATE … SET a[1] = and SET r.field =."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.compiler import Compiled, Compiler, compile_node, field_index, named_row_type
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.record import Record

_ABSENT = object()


def compile_element(node: tree.SubscriptingRef, compiler: Compiler) -> Compiled:
    """A subscripted assignment (ExecEvalSubscriptingRefAssign)."""
    from pgrepl.expr.functions.array_assign import set_element, set_jsonb, set_slice
    from pgrepl.expr.functions.arrays import array_element

    assert node.container is not None and node.assign is not None
    container, assign = compiler.compile(node.container), compiler.compile(node.assign)
    uppers, lowers = _bounds(node.upper, compiler), _bounds(node.lower, compiler)
    known = type_by_oid(node.type)
    element = known.elem if known is not None else 0
    if node.type == oids.JSONB:
        return lambda env: set_jsonb(container(env), _values(uppers, env, "jsonb"), assign(env))
    if not node.is_slice:
        tested = compiler.tested

        def set_one(env: Any) -> Any:
            """The new value may refer to the element's old value (CaseTestExpr)."""
            array, places = container(env), _values(uppers, env)
            saved, tested[0] = tested[0], None if array is None else array_element(array, places)
            try:
                return set_element(array, element, places, assign(env))
            finally:
                tested[0] = saved

        return set_one

    def slice_(env: Any) -> Any:
        low, high = _values(lowers, env), _values(uppers, env)
        return set_slice(
            container(env),
            element,
            [None if v is _ABSENT else v for v in low],
            [None if v is _ABSENT else v for v in high],
            assign(env),
        )

    return slice_


def _bounds(exprs: Sequence[tree.Expr | None], compiler: Compiler) -> list[Compiled]:
    return [(lambda env: _ABSENT) if expr is None else compiler.compile(expr) for expr in exprs]


def _values(bounds: list[Compiled], env: Any, kind: str = "array") -> list[Any]:
    values = [bound(env) for bound in bounds]
    if None in values:
        raise PgError("22004", f"{kind} subscript in assignment must not be null")
    return values


@compile_node.register
def _(node: tree.FieldStore, compiler: Compiler) -> Compiled:
    """A row with new values in some fields; a new value may refer to the field's old value (CaseTestExpr)."""
    assert node.arg is not None
    arg = compiler.compile(node.arg)
    parts: list[tuple[int, Callable[[Any], Any]]] = []
    for number, value in zip(node.fieldnums, node.values, strict=True):
        index = field_index(node.type, number, compiler)
        if index is not None:
            parts.append((index, compiler.compile(value)))
    row_type = named_row_type(node.type, compiler)
    assert row_type is not None
    types, names = row_type.types, row_type.names
    tested = compiler.tested

    def stored(env: Any) -> Any:
        row = arg(env)
        values = list(row) if row is not None else [None] * len(types)
        for index, value in parts:
            saved, tested[0] = tested[0], values[index]
            try:
                values[index] = value(env)
            finally:
                tested[0] = saved
        return Record(values, types, names)

    return stored
