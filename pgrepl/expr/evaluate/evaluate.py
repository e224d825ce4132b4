"""The evaluator: the typed tree compiled into Python closures.

    value = compile(expr, context)           # once
    value(row)                               # for each row

A closure takes an environment: here a row; a query passes `special`, which compiles the nodes that only a query can
answer. Logic is three-valued with None for NULL, strict functions are not called with NULL; CASE, COALESCE and AND
are lazy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.expr import tree
from pgrepl.expr.evaluate import compiler, composites
from pgrepl.expr.evaluate.compiler import (
    Compiled,
    Compiler,
    Special,
    arguments,
    compile_node,
    function_of,
    operator_function,
    proc_of,
)
from pgrepl.expr.functions.registry import Call, Context
from pgrepl.expr.walk import functions_used
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql.nodes import BoolOp, BoolTestType, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type, operator_by_oid
from pgrepl.types.values import as_it_is, first_of_each, hash_form, order_key, row_hash_form

if TYPE_CHECKING:
    from pgrepl.expr.functions.aggregates import Accumulator


@compile_node.register
def _(node: tree.Const, compiler: Compiler) -> Compiled:
    value = node.value
    return lambda env: value


@compile_node.register
def _(node: tree.Var, compiler: Compiler) -> Compiled:
    if node.attnum <= 0:
        return lambda env: env
    index = node.attnum - 1
    return lambda env: env[index]


@compile_node.register
def _(node: tree.FuncExpr, compiler: Compiler) -> Compiled:
    if node.retset:
        raise PgError("0A000", "set-valued function called in context that cannot accept a set", location=node.location)
    args = arguments(node, compiler.context)
    return compiler.call(node.func, args, node, node.input_collation, node.variadic)


@compile_node.register
def _(node: tree.SqlJson, compiler: Compiler) -> Compiled:
    from pgrepl.expr.evaluate.json import compile_json  # large, and seldom used

    return compile_json(node, compiler)


@compile_node.register
def _(node: tree.NamedArg, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    return compiler.compile(node.arg)


@compile_node.register
def _(node: tree.OpExpr, compiler: Compiler) -> Compiled:
    return compiler.call(_function(node), node.args, node, node.input_collation, False)


def _function(node: tree.OpExpr | tree.DistinctExpr | tree.NullIfExpr | tree.ScalarArrayOpExpr) -> int:
    """The function that an operator's node calls."""
    (function,) = functions_used(node)
    if not function:
        raise unsupported(f"operator {node.op}")
    return function


def _equality(node: tree.DistinctExpr | tree.NullIfExpr, compiler: Compiler) -> Callable[[Any, Any], Any]:
    """The = operator of a node as a function of values."""
    if not node.func:
        return operator_function(node.op, compiler.context)
    operands = tuple([arg.type for arg in node.args])
    call = Call(compiler.context, operands, oids.BOOL, node.input_collation)
    return function_of(proc_of(node.func, compiler.context), call)


@compile_node.register
def _(node: tree.DistinctExpr, compiler: Compiler) -> Compiled:
    equal = _equality(node, compiler)
    left, right = compiler.all(node.args)

    def distinct(env: Any) -> bool:
        a, b = left(env), right(env)
        if a is None or b is None:
            return a is not b
        return not equal(a, b)

    return distinct


@compile_node.register
def _(node: tree.NullIfExpr, compiler: Compiler) -> Compiled:
    equal = _equality(node, compiler)
    left, right = compiler.all(node.args)

    def nullif(env: Any) -> Any:
        a, b = left(env), right(env)
        return None if a is not None and b is not None and equal(a, b) is True else a

    return nullif


_MANY = 8  # an IN list of at least this many constants is looked up in a set


@compile_node.register
def _(node: tree.ScalarArrayOpExpr, compiler: Compiler) -> Compiled:
    proc = proc_of(_function(node), compiler.context)
    operator = operator_by_oid(node.op)
    item = element_type(base_type(node.args[1].type)) if operator is None else operator.right
    call = Call(compiler.context, (node.args[0].type, item), node.type, node.input_collation)
    test = function_of(proc, call)
    scalar, array = compiler.all(node.args)
    decisive, otherwise = node.use_or, not node.use_or
    items = _constants(node.args[1])
    if operator is not None and operator.name == "=" and decisive and items is not None:
        form = hash_form(operator.left)
        if operator.left == operator.right and operator.canhash and (len(items) >= _MANY or form is as_it_is):
            return _member(scalar, items, form)

    def any_or_all(env: Any) -> bool | None:
        value, elements = scalar(env), array(env)
        if elements is None:
            return None
        if not elements.items:
            return otherwise
        if value is None and proc.strict:
            return None
        unknown = False
        for item in elements.items:
            answer = None if item is None and proc.strict else test(value, item)
            if answer is decisive:
                return not otherwise
            if answer is None:
                unknown = True
        return None if unknown else otherwise

    return any_or_all


def _constants(array: tree.Expr) -> Sequence[Any] | None:
    """The items of a constant array with items."""
    if isinstance(array, tree.Const) and array.value is not None:
        return array.value.items or None
    if isinstance(array, tree.ArrayExpr) and not array.multidims:
        values = [element.value for element in array.elements if isinstance(element, tree.Const)]
        return values if values and len(values) == len(array.elements) else None
    return None


def _member(scalar: Compiled, items: Sequence[Any], key: Callable[[Any], Any]) -> Compiled:
    known = {key(item) for item in items if item is not None}
    otherwise = None if any(item is None for item in items) else False

    def member(env: Any) -> bool | None:
        value = scalar(env)
        if value is None:
            return None
        return key(value) in known or otherwise

    return member


@compile_node.register
def _(node: tree.BoolExpr, compiler: Compiler) -> Compiled:
    args = compiler.all(node.args)
    if node.op is BoolOp.NOT:
        (arg,) = args

        def negate(env: Any) -> bool | None:
            value = arg(env)
            return None if value is None else not value

        return negate
    decisive = node.op is BoolOp.OR
    otherwise = not decisive

    def join(env: Any) -> bool | None:
        unknown = False
        for arg in args:
            value = arg(env)
            if value is decisive:
                return not otherwise
            if value is None:
                unknown = True
        return None if unknown else otherwise

    return join


@compile_node.register
def _(node: tree.NullTest, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    arg = compiler.compile(node.arg)
    is_null = node.kind is NullTestType.IS_NULL
    if node.argisrow:

        def row_test(env: Any) -> bool:
            value = arg(env)
            if value is None:
                return is_null
            return all((field is None) is is_null for field in value)

        return row_test
    return (lambda env: arg(env) is None) if is_null else (lambda env: arg(env) is not None)


_BOOLEAN_TESTS: dict[BoolTestType, tuple[bool | None, bool]] = {
    BoolTestType.IS_TRUE: (True, True),
    BoolTestType.IS_NOT_TRUE: (True, False),
    BoolTestType.IS_FALSE: (False, True),
    BoolTestType.IS_NOT_FALSE: (False, False),
    BoolTestType.IS_UNKNOWN: (None, True),
    BoolTestType.IS_NOT_UNKNOWN: (None, False),
}


@compile_node.register
def _(node: tree.BooleanTest, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    arg = compiler.compile(node.arg)
    wanted, answer = _BOOLEAN_TESTS[node.kind]
    return lambda env: (arg(env) is wanted) is answer


# --- evaluate ---------------------------------------------------------------------------------------------------------

NODES = (compiler, composites)  # importing them registers every node


def evaluate(expr: tree.Expr, row: Sequence[Any] = (), context: Context | None = None) -> Any:
    """The value of an expression over one row."""
    return compile(expr, context)(row)


def compile(expr: tree.Expr, context: Context | None = None, special: Special | None = None) -> Compiled:
    return Compiler(context or Context(), special).compile(expr)


def compile_set(
    expr: tree.Expr, context: Context | None = None, special: Special | None = None
) -> Callable[[Any], Iterable[Any]]:
    """The values of an expression that contains set-returning functions."""
    return composites.compile_set(expr, context, special)


def compile_rows(
    expr: tree.Expr,
    context: Context | None = None,
    special: Special | None = None,
    defined: tuple[tree.Column, ...] | None = None,
) -> Callable[[Any], Iterator[tuple[Any, ...] | None]]:
    """The rows of a function in FROM."""
    return composites.compile_rows(expr, context, special, defined)


def accumulator(node: tree.Aggref | tree.WindowFunc, context: Context) -> Accumulator:
    """A new state of an aggregate: `add(*values)` for each row, then `result()`."""
    from pgrepl.expr.functions.aggregates import new_accumulator

    return new_accumulator(node, context)


def of_gathered(node: tree.Aggref, direct: Sequence[Any], rows: Sequence[tuple[Any, ...]], context: Context) -> Any:
    """The aggregate of its arguments' rows, which have been sorted as its ORDER BY says."""
    if node.distinct:
        types = [argument.type for argument in node.args]
        rows = first_of_each(rows, row_hash_form(types))
        for place in () if node.order else reversed(range(len(types))):  # DISTINCT sorts its values
            rows = sorted(rows, key=_order_of(place, order_key(types[place])))
    if node.kind != "n":
        from pgrepl.expr.functions.statistics import ordered_set

        return ordered_set(node, direct, rows)
    state = accumulator(node, context)
    for values in rows:
        state.add(*values)
    return state.result()


def _order_of(place: int, order: Callable[[Any], Any] | None) -> Callable[[tuple[Any, ...]], Any]:
    def key(values: tuple[Any, ...]) -> Any:
        value = values[place]
        return (True, 0) if value is None else (False, value if order is None else order(value))

    return key
