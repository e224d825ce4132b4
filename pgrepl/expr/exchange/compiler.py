"""The compiler of typed trees to Spark SQL.

`native` dispatches on the node's class. A node without SQL is computed by the fall-back with everything inside it.
Constants are evaluated at compile time; their errors are raised only if Spark evaluates them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.without_session import calls_volatile, style_fields
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.exchange.sql import Sql, cast, form_type, numeric_text, raised
from pgrepl.expr.exchange.statement import Statement, argument_form, call, carried_types, constant, fall_back
from pgrepl.expr.stored import to_json
from pgrepl.expr.walk import children
from pgrepl.ground.errors import PgError
from pgrepl.types import oids

Names = Callable[[tree.Expr], "str | Sql | None"]

NOT_CONSTANT = object()
_OF_ROWS = (
    tree.Var,
    tree.Param,
    tree.Aggref,
    tree.WindowFunc,
    tree.GroupingFunc,
    tree.SubLink,
    tree.NextValueExpr,
    tree.SetToDefault,
)


class Compiler:
    """The compiler of one statement's nodes over the same input columns."""

    def __init__(self, names: Names, statement: Statement) -> None:
        self.names = names
        self.statement = statement

    def named(self, expr: tree.Expr) -> Sql | None:
        """The column that holds a node's value."""
        found = self.names(expr)
        return Sql(found, form_type(expr.type, expr.typmod)) if isinstance(found, str) else found

    def value(self, expr: tree.Expr) -> Sql:
        found = self.number(expr)
        return found if found.special is None else Sql(numeric_text(found), "STRING")

    def number(self, expr: tree.Expr) -> Sql:
        """The SQL of a numeric, for callers that can handle a `special`."""
        found = self.named(expr)
        if found is not None:
            return found
        if self.is_constant(expr):
            try:
                return constant(evaluate(expr, (), self.statement.context), expr.type, expr.typmod, self.statement)
            except PgError as error:
                spark_type = form_type(expr.type, expr.typmod)
                return Sql(cast(raised(error), spark_type), spark_type)
        return native(expr, self) or fall_back(expr, self)

    def text(self, expr: tree.Expr) -> str:
        """The SQL of a node in its lake form."""
        return to_form(self.value(expr), expr.type, expr.typmod)

    def is_constant(self, expr: tree.Expr) -> bool:
        """Whether a node has the same value for all rows and at every evaluation."""
        return not self._varies(expr, tested=False)

    def constant(self, expr: tree.Expr) -> Any:
        """The value of a constant (None: NULL); NOT_CONSTANT for other nodes and for constants whose evaluation
        fails."""
        if self.named(expr) is not None or not self.is_constant(expr):
            return NOT_CONSTANT
        try:
            return evaluate(expr, (), self.statement.context)
        except PgError:
            return NOT_CONSTANT

    def _varies(self, expr: tree.Expr, tested: bool) -> bool:
        if isinstance(expr, _OF_ROWS) or (isinstance(expr, tree.CaseTestExpr) and not tested):
            return True
        if calls_volatile(expr) or self.names(expr) is not None:
            return True
        inside = (
            tested
            or isinstance(expr, tree.ArrayCoerceExpr)
            or (isinstance(expr, tree.CaseExpr) and expr.arg is not None)
        )
        return any(self._varies(child, inside) for child in children(expr))


@singledispatch
def native(expr: tree.Expr, compiler: Compiler) -> Sql | None:
    """A node as Spark SQL; None when the fall-back has to compute it."""
    return None


def to_value(expr: tree.Expr, names: Names, statement: Statement) -> Sql:
    return Compiler(names, statement).value(expr)


def to_sql(expr: tree.Expr, names: Names, statement: Statement) -> str:
    return Compiler(names, statement).text(expr)


def to_form(sql: Sql, typoid: int, typmod: int = -1) -> str:
    """The text of a value in the lake form of a type. Only numerics can have another form before."""
    wanted = form_type(typoid, typmod)
    if sql.type == wanted and sql.special is None:
        return sql.text
    if typoid == oids.NUMERIC and wanted == "STRING":
        return numeric_text(sql)
    return cast(sql.text, wanted)


# --- gathered ---------------------------------------------------------------------------------------------------------


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
    order = tuple(replace(key, expr=_member(key.expr, len(args) + number)) for number, key in enumerate(node.order))
    direct = tuple(_member(arg, number) for number, arg in enumerate(node.direct_args))
    return replace(node, args=args, order=order, direct_args=direct, filter=None)


def _member(expr: tree.Expr, number: int) -> tree.Var:
    return tree.Var(expr.type, typmod=expr.typmod, collation=expr.collation, attnum=number + 1)
