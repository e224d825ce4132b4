"""Set-returning functions: one call in a target list, or one in FROM, where rows have columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pgrepl.expr import tree, typefacts
from pgrepl.expr.compiler import Compiled, Compiler, Special, arguments, as_record, out_columns, plain_function, proc_of
from pgrepl.expr.context import Call, Context
from pgrepl.expr.polymorphic import resolve
from pgrepl.expr.walk import functions_used, returns_set
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, type_by_oid


def compile_set(
    expr: tree.Expr,
    context: Context | None = None,
    special: Special | None = None,
    defined: tuple[tree.Column, ...] | None = None,
) -> Callable[[Any], Iterable[Any]]:
    """The values of one call, a set or a single one. Its arguments contain no set-returning calls. `defined`: the
    columns of its column definition list."""
    assert isinstance(expr, (tree.FuncExpr, tree.OpExpr))
    context = context or Context()
    proc, args, variadic = _called(expr, context)
    call = Call(context, tuple(arg.type for arg in args), expr.type, expr.input_collation, variadic, defined)
    function = plain_function(proc, call)
    compiled = [Compiler(context, special).compile(arg) for arg in args]
    columns = out_columns(proc)
    if columns is not None and not typefacts.POLYMORPHIC.isdisjoint(columns[0]) and context.has_session:
        kinds = [resolve(call.session, call.argtypes, proc.argtypes, kind)[1] for kind in columns[0]]
        columns = tuple(kinds), columns[1]

    def values(env: Any) -> Iterable[Any]:
        given = [arg(env) for arg in compiled]
        if proc.strict and None in given:
            return () if proc.retset else (None,)
        result: Iterable[Any] = function(*given) if proc.retset else (function(*given),)
        return result if columns is None else (as_record(row, columns) for row in result)

    return values


def _single(value: Compiled) -> Callable[[Any], Iterable[Any]]:
    return lambda env: (value(env),)


def _called(expr: tree.FuncExpr | tree.OpExpr, context: Context) -> tuple[Proc, list[tree.Expr], bool]:
    if isinstance(expr, tree.FuncExpr):
        return proc_of(expr.func, context), arguments(expr, context), expr.variadic
    (function,) = functions_used(expr)
    return proc_of(function, context), list(expr.args), False


def compile_rows(
    expr: tree.Expr,
    context: Context | None = None,
    special: Special | None = None,
    defined: tuple[tree.Column, ...] | None = None,
) -> Callable[[Any], Iterator[tuple[Any, ...] | None]]:
    """A function in FROM: the tuples of its columns. None stands for a row that is NULL as a whole."""
    if isinstance(expr, tree.JsonTableExpr):
        from pgrepl.expr.compile_json_table import compile_json_table

        return compile_json_table(expr, context or Context(), special)
    composite = gives_rows(expr)
    if returns_set(expr) or (defined is not None and isinstance(expr, tree.FuncExpr)):
        values = compile_set(expr, context, special, defined)
    else:
        values = _single(Compiler(context or Context(), special).compile(expr))

    def rows(env: Any) -> Iterator[tuple[Any, ...] | None]:
        for value in values(env):
            yield value if composite else (value,)

    return rows


def gives_rows(expr: tree.Expr) -> bool:
    """Whether a value of the expression is a row of columns, be it of a domain over a composite type."""
    if expr.type == oids.RECORD:
        return True
    row = type_by_oid(typefacts.base(expr.type))
    return row is None or row.typtype == "c"
