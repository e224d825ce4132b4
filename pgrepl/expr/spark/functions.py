"""Functions and operators as Spark SQL, registered by pg_proc.prosrc like the evaluator's.

    @native("textlen")
    def textlen(call: SparkFunctionCall) -> Sql | None: …

The SQL must have the value that the evaluator gives, NULL and errors included. None leaves the call to the fall-back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.catalog.routines import is_user_routine
from pgrepl.expr import tree
from pgrepl.expr.compiler import arguments
from pgrepl.expr.functions.registry import source_of
from pgrepl.expr.spark.compiler import Compiler
from pgrepl.expr.spark.compiler import native as native_node
from pgrepl.expr.spark.sql import Sql, cast, form_type, null_of
from pgrepl.types.builtin import operator_by_oid, proc_by_oid


class SparkFunctionCall:
    """One call: its argument expressions, whose SQL is made on demand."""

    def __init__(self, node: tree.Typed, args: tuple[tree.Expr, ...], compiler: Compiler) -> None:
        self.node = node
        self.args = args
        self.compiler = compiler
        self._values: dict[int, Sql] = {}

    def value(self, position: int) -> Sql:
        if position not in self._values:
            self._values[position] = self.compiler.value(self.args[position])
        return self._values[position]

    def number(self, position: int) -> Sql:
        """The SQL of a numeric argument, which may have a `special`."""
        return self.compiler.number(self.args[position])

    def text(self, position: int) -> str:
        return self.value(position).text

    def values(self) -> list[Sql]:
        return [self.value(position) for position in range(len(self.args))]

    def constant(self, position: int) -> Any:
        return self.compiler.constant(self.args[position])

    @property
    def result(self) -> str:
        """The Spark type of the result's lake form."""
        return form_type(self.node.type, self.node.typmod)


Native = Callable[[SparkFunctionCall], "Sql | None"]
NATIVE: dict[str, Native] = {}


def native(*sources: str) -> Callable[[Native], Native]:
    def register(function: Native) -> Native:
        for source in sources:
            NATIVE[source] = function
        return function

    return register


def template(source: str, result: str, write: Callable[..., str]) -> None:
    """Register a function whose SQL is a template of its arguments' SQL."""
    NATIVE[source] = lambda call: Sql(write(*[value.text for value in call.values()]), result)


def called(oid: int, node: tree.Typed, args: tuple[tree.Expr, ...], compiler: Compiler) -> Sql | None:
    proc = proc_by_oid(oid)
    make = None if proc is None else NATIVE.get(source_of(proc))
    if make is None or proc is None:
        return None
    call = SparkFunctionCall(node, args, compiler)
    if proc.strict and any(call.constant(position) is None for position in range(len(args))):
        return null_of(call.result)
    return make(call)


@native_node.register
def _(node: tree.FuncExpr, compiler: Compiler) -> Sql | None:
    if node.retset or node.variadic or is_user_routine(node.func):
        return None
    return called(node.func, node, tuple(arguments(node, compiler.statement.context)), compiler)


@native_node.register
def _(node: tree.OpExpr, compiler: Compiler) -> Sql | None:
    operator = operator_by_oid(node.op)
    return None if operator is None else called(operator.code, node, node.args, compiler)


def widened(value: Sql, spark_type: str) -> str:
    return value.text if value.type == spark_type else cast(value.text, spark_type)
