"""CASE and its like, arrays and subscripts, rows and fields, and session values (CURRENT_USER …), compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.compile_assignments import compile_element
from pgrepl.expr.compiler import Compiled, Compiler, compile_node, field_index, function_of, named_row_type
from pgrepl.expr.context import Call
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid, procs_by_name
from pgrepl.types.record import Record
from pgrepl.types.values import comparer


@compile_node.register
def _(node: tree.CaseExpr, compiler: Compiler) -> Compiled:
    arg = compiler.compile(node.arg) if node.arg is not None else None
    outer = compiler.tested
    compiler.tested = cell = [None] if arg is not None else outer
    conditions = [compiler.compile(condition) for condition, _ in node.whens]
    compiler.tested = outer
    whens = list(zip(conditions, [compiler.compile(result) for _, result in node.whens], strict=True))
    default = compiler.compile(node.default) if node.default is not None else (lambda env: None)

    def case(env: Any) -> Any:
        if arg is not None:
            cell[0] = arg(env)
        for condition, result in whens:
            if condition(env) is True:
                return result(env)
        return default(env)

    return case


@compile_node.register
def _(node: tree.CoalesceExpr, compiler: Compiler) -> Compiled:
    args = compiler.all(node.args)

    def coalesce(env: Any) -> Any:
        for arg in args:
            value = arg(env)
            if value is not None:
                return value
        return None

    return coalesce


@compile_node.register
def _(node: tree.MinMaxExpr, compiler: Compiler) -> Compiled:
    args = compiler.all(node.args)
    compare = comparer(node.type)
    sign = 1 if node.greatest else -1

    def extreme(env: Any) -> Any:
        best = None
        for arg in args:
            value = arg(env)
            if value is not None and (best is None or compare(value, best) * sign > 0):
                best = value
        return best

    return extreme


@compile_node.register
def _(node: tree.ArrayExpr, compiler: Compiler) -> Compiled:
    from pgrepl.expr.functions.arrays import array_of_arrays
    from pgrepl.types.arrays import array_of

    elements = compiler.all(node.elements)
    make = array_of_arrays if node.multidims else array_of
    element_type = node.element_type
    values = [element.value for element in node.elements if isinstance(element, tree.Const)]
    if not node.multidims and len(values) == len(elements):
        constant = array_of(element_type, values)
        return lambda env: constant
    return lambda env: make(element_type, [element(env) for element in elements])


@compile_node.register
def _(node: tree.SubscriptingRef, compiler: Compiler) -> Compiled:
    from pgrepl.expr.functions.arrays import array_element, array_slice
    from pgrepl.expr.functions.json import jsonb_subscript

    if node.assign is not None:
        return compile_element(node, compiler)
    assert node.container is not None
    container = compiler.compile(node.container)
    absent = object()

    def bounds(exprs: Sequence[tree.Expr | None]) -> list[Compiled]:
        return [(lambda env: absent) if expr is None else compiler.compile(expr) for expr in exprs]

    upper, lower = bounds(node.upper), bounds(node.lower)
    is_slice = node.is_slice
    fetch = jsonb_subscript if node.container.type == oids.JSONB else array_element

    def subscript(env: Any) -> Any:
        value = container(env)
        if value is None:
            return None
        uppers, lowers = [bound(env) for bound in upper], [bound(env) for bound in lower]
        if None in uppers or None in lowers:
            return None
        if not is_slice:
            return fetch(value, uppers)
        return array_slice(
            value, [None if b is absent else b for b in lowers], [None if b is absent else b for b in uppers]
        )

    return subscript


@compile_node.register
def _(node: tree.RowExpr, compiler: Compiler) -> Compiled:
    row = named_row_type(node.type, compiler)
    if row is not None:  # columns that were dropped are not in values, those that were added since are NULL
        args = dict(enumerate(node.args))
        fields = [compiler.compile(args.get(field.place, tree.Const(field.type))) for field in row.fields]
        types, names = row.types, row.names
    else:
        fields = compiler.all(node.args)
        types, names = tuple(arg.type for arg in node.args), node.names
    return lambda env: Record([field(env) for field in fields], types, names)


@compile_node.register
def _(node: tree.RowCompareExpr, compiler: Compiler) -> Compiled:
    """A row comparison as ExecEvalRowCompare…: the first unequal pair decides; a NULL before it makes the result
    NULL."""
    compares = []
    for left, op in zip(node.left, node.ops, strict=True):
        operator = operator_by_oid(op)
        same = operator is not None and operator.left == operator.right
        declared = operator.left if same and operator is not None else left.type
        compares.append(comparer(left.type if declared == oids.ANYENUM else declared))
    pairs = list(zip(compiler.all(node.left), compiler.all(node.right), compares, strict=True))
    kind = node.kind

    def compare(env: Any) -> bool | None:
        order = 0
        for left, right, test in pairs:
            a, b = left(env), right(env)
            if a is None or b is None:
                return None
            order = test(a, b)
            if order:
                break
        return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[kind]

    return compare


@compile_node.register
def _(node: tree.FieldSelect, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    arg, index = compiler.compile(node.arg), field_index(node.arg.type, node.fieldnum, compiler)
    if index is None:  # the attribute has been dropped
        return lambda env: None
    return lambda env: None if (row := arg(env)) is None else row[index]


@compile_node.register
def _(node: tree.NextValueExpr, compiler: Compiler) -> Compiled:
    (proc,) = procs_by_name("nextval")
    proc = proc._replace(src="nextval_identity")  # an identity column needs no privileges on its sequence
    function = function_of(proc, Call(compiler.context, proc.argtypes, proc.rettype))
    sequence = node.sequence
    return lambda env: function(sequence)


@compile_node.register
def _(node: tree.SQLValueFunction, compiler: Compiler) -> Compiled:
    from pgrepl.expr.functions.datetime import sql_value

    context, typmod = compiler.context, node.typmod
    name = {"current_role": "current_user", "user": "current_user", "current_catalog": "current_database"}.get(
        node.name, node.name
    )
    if name in ("current_user", "session_user", "current_database", "current_schema"):
        (proc,) = procs_by_name(name)
        function = function_of(proc, Call(context, (), proc.rettype))
        return lambda env: function()
    return lambda env: sql_value(context, name, typmod)
