"""Aggregates without an equivalent in Spark: a group's rows are gathered in an array of structs, and PostgreSQL's
accumulator runs over them in Python, with the aggregate's own ORDER BY and DISTINCT."""

from __future__ import annotations

from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.spark.compiler import Compiler
from pgrepl.expr.spark.fallback import argument_form, call, carried_types
from pgrepl.expr.spark.sql import Sql, form_type
from pgrepl.expr.stored import to_json
from pgrepl.expr.without_session import style_fields
from pgrepl.types import oids


def gathered(node: tree.Aggref | tree.WindowFunc, compiler: Compiler, over: str) -> Sql:
    """An array of structs: a row's members are the arguments, then the ORDER BY keys."""
    order = node.order if isinstance(node, tree.Aggref) else ()
    direct = node.direct_args if isinstance(node, tree.Aggref) else ()
    members = [argument_form(expr, compiler.value(expr)) for expr in (*node.args, *[key.expr for key in order])]
    fields = [f"'m{number}', {text}" for number, (_, text) in enumerate(members)] or ["'m0', 1"]
    row = f"named_struct({', '.join(fields)})"
    if node.filter is not None:
        row = f"CASE WHEN {compiler.text(node.filter)} THEN {row} END"
    given = [argument_form(expr, compiler.value(expr)) for expr in direct]
    program: dict[str, Any] = {
        "aggregate": to_json(_without_expressions(node)),
        **carried_types(node),
        "members": [form for form, _ in members],
        "arguments": [form for form, _ in given],
        "result": [node.type, node.typmod],
        "style": style_fields(compiler.statement.context.style),
    }
    texts = [f"collect_list({row}){over}", *[text for _, text in given]]
    return call(compiler, program, texts, form_type(node.type, node.typmod))


def finished(step: str, compiler: Compiler, values: list[tuple[int, Sql]]) -> Sql:
    """A numeric that a last step in Python (accumulate.FINISHES) computes from Spark's sums, the `values`."""
    given = [argument_form(tree.Const(typoid), sql) for typoid, sql in values]
    program: dict[str, Any] = {
        "finish": step,
        "arguments": [form for form, _ in given],
        "result": [oids.NUMERIC, -1],
        "style": style_fields(compiler.statement.context.style),
    }
    return call(compiler, program, [text for _, text in given], "STRING")


def _without_expressions(node: tree.Aggref | tree.WindowFunc) -> tree.Aggref:
    """The aggregate over the members of a gathered row, in place of the original arguments."""
    args = tuple(_member(arg, number) for number, arg in enumerate(node.args))
    if isinstance(node, tree.WindowFunc):
        return tree.Aggref(
            node.type,
            typmod=node.typmod,
            collation=node.collation,
            func=node.func,
            args=args,
            star=node.star,
            input_collation=node.input_collation,
        )
    from dataclasses import replace

    order = tuple(replace(key, expr=_member(key.expr, len(args) + number)) for number, key in enumerate(node.order))
    direct = tuple(_member(arg, number) for number, arg in enumerate(node.direct_args))
    return replace(node, args=args, order=order, direct_args=direct, filter=None)


def _member(expr: tree.Expr, number: int) -> tree.Var:
    return tree.Var(expr.type, typmod=expr.typmod, collation=expr.collation, attnum=number + 1)
