"""Set-returning functions: in a target list, where several run side by side, and in FROM, where rows have columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from itertools import zip_longest
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.compiler import Compiled, Special, arguments, as_record, out_columns
from pgrepl.expr.context import Call, Context
from pgrepl.expr.evaluate import compile
from pgrepl.expr.functions import implementation
from pgrepl.expr.walk import returns_set, rewrite
from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, operator_by_oid, proc_by_oid, type_by_oid


@frozen
class _Element(tree.Typed):
    """Stands for what a set-returning function gives in the present round."""

    cell: Any = field(default=None, compare=False)


def compile_set(
    expr: tree.Expr, context: Context | None = None, special: Special | None = None
) -> Callable[[Any], Iterable[Any]]:
    """The values of an expression that has set-returning functions in it, one for each round."""
    context = context or Context()
    if isinstance(expr, (tree.FuncExpr, tree.OpExpr)) and expr.retset:
        return _calls(expr, context, special)
    sets: list[tuple[list[Any], Callable[[Any], Iterable[Any]]]] = []

    def element(node: tree.Expr) -> tree.Expr | None:
        if not (isinstance(node, (tree.FuncExpr, tree.OpExpr)) and node.retset):
            return None
        cell: list[Any] = [None]
        sets.append((cell, _calls(node, context, special)))
        return _Element(node.type, typmod=node.typmod, collation=node.collation, cell=cell)

    value = compile(rewrite(expr, element), context, _with_elements(special))

    def rounds(env: Any) -> Iterator[Any]:
        for values in zip_longest(*[source(env) for _, source in sets]):
            for (cell, _), item in zip(sets, values, strict=True):
                cell[0] = item
            yield value(env)

    return rounds


def _with_elements(special: Special | None) -> Special:
    def compile_special(node: tree.Expr) -> Compiled | None:
        if isinstance(node, _Element):
            cell = node.cell
            return lambda env: cell[0]
        return special(node) if special is not None else None

    return compile_special


def _calls(
    expr: tree.FuncExpr | tree.OpExpr, context: Context, special: Special | None
) -> Callable[[Any], Iterable[Any]]:
    """One set-returning call; a set among its arguments calls it again for each of its values."""
    proc, args, variadic = _called(expr)
    call = Call(context, tuple(arg.type for arg in args), expr.type, expr.input_collation, variadic)
    found = implementation(proc)
    function = found.function
    compiled: list[Callable[[Any], Iterable[Any]]] = []
    for arg in args:
        if returns_set(arg):
            compiled.append(compile_set(arg, context, special))
        else:
            compiled.append(_single(compile(arg, context, special)))
    nested = [returns_set(arg) for arg in args]

    columns = out_columns(proc)

    def run(values: tuple[Any, ...]) -> Iterable[Any]:
        if proc.strict and None in values:
            return ()
        result: Iterable[Any] = function(call, *values) if found.wants_call else function(*values)
        return result if columns is None else [as_record(row, columns) for row in result]

    def rows(env: Any) -> Iterable[Any]:
        if not any(nested):
            return run(tuple([next(iter(arg(env))) for arg in compiled]))
        return _every(run, [list(arg(env)) for arg in compiled], nested)

    return rows


def _every(
    run: Callable[[tuple[Any, ...]], Iterable[Any]], columns: list[list[Any]], nested: list[bool]
) -> Iterator[Any]:
    count = max(len(column) for column, many in zip(columns, nested, strict=True) if many)
    for number in range(count):
        values = [
            (column[number] if number < len(column) else None) if many else column[0]
            for column, many in zip(columns, nested, strict=True)
        ]
        yield from run(tuple(values))


def _single(value: Compiled) -> Callable[[Any], Iterable[Any]]:
    return lambda env: (value(env),)


def _called(expr: tree.FuncExpr | tree.OpExpr) -> tuple[Proc, list[tree.Expr], bool]:
    if isinstance(expr, tree.FuncExpr):
        proc = proc_by_oid(expr.func)
        assert proc is not None
        return proc, arguments(expr), expr.variadic
    operator = operator_by_oid(expr.op)
    assert operator is not None
    proc = proc_by_oid(operator.code)
    assert proc is not None
    return proc, list(expr.args), False


def compile_rows(
    expr: tree.Expr, context: Context | None = None, special: Special | None = None
) -> Callable[[Any], Iterator[tuple[Any, ...] | None]]:
    """A function in FROM: the tuples of its columns. None: a row that is NULL as a whole."""
    composite = gives_rows(expr)
    if returns_set(expr):
        values = compile_set(expr, context, special)
    else:
        values = _single(compile(expr, context, special))

    def rows(env: Any) -> Iterator[tuple[Any, ...] | None]:
        for value in values(env):
            yield value if composite else (value,)

    return rows


def gives_rows(expr: tree.Expr) -> bool:
    """Whether a value of the expression is a row of columns."""
    if expr.type == oids.RECORD:
        return True
    row = type_by_oid(expr.type)
    return row is None or row.typtype == "c"
