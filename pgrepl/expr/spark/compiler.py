"""The compiler of typed trees to Spark SQL.

`native` dispatches on the node's class. A node without native SQL is computed by the fall-back, with everything inside
it. Constant nodes are evaluated at compile time; their errors are raised only if Spark evaluates them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.spark.constants import constant
from pgrepl.expr.spark.fallback import fall_back
from pgrepl.expr.spark.sql import Sql, cast, form_type, numeric_text, raised
from pgrepl.expr.spark.statement import Statement
from pgrepl.expr.walk import children
from pgrepl.expr.without_session import calls_volatile
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
