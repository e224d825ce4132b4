"""CASE and its like, arrays, rows, assignments to parts of a value, and set-returning functions, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.polymorphic import resolve
from pgrepl.expr.evaluate.compiler import (
    Compiled,
    Compiler,
    Special,
    arguments,
    as_record,
    compile_node,
    field_index,
    function_of,
    named_row_type,
    out_columns,
    plain_function,
    proc_of,
)
from pgrepl.expr.functions.arrays import array_element, array_of_arrays, array_slice
from pgrepl.expr.functions.registry import Call, Context
from pgrepl.expr.walk import functions_used, returns_set
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.builtin import Proc, operator_by_oid, procs_by_name, type_by_oid
from pgrepl.types.style import Record
from pgrepl.types.values import comparer

_ABSENT = object()


def compile_element(node: tree.SubscriptingRef, compiler: Compiler) -> Compiled:
    """A subscripted assignment (ExecEvalSubscriptingRefAssign)."""
    from pgrepl.expr.functions.containers import set_element, set_jsonb, set_slice

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


# --- compile composites -----------------------------------------------------------------------------------------------


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
    from pgrepl.expr.functions.documents.json import jsonb_subscript

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
    from pgrepl.expr.functions.times.datetime import sql_value

    context, typmod = compiler.context, node.typmod
    name = {"current_role": "current_user", "user": "current_user", "current_catalog": "current_database"}.get(
        node.name, node.name
    )
    if name in ("current_user", "session_user", "current_database", "current_schema"):
        (proc,) = procs_by_name(name)
        function = function_of(proc, Call(context, (), proc.rettype))
        return lambda env: function()
    return lambda env: sql_value(context, name, typmod)


# --- evaluate sets ----------------------------------------------------------------------------------------------------


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
    if columns is not None and not lookup.POLYMORPHIC.isdisjoint(columns[0]) and context.has_session:
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
        from pgrepl.expr.evaluate.json import compile_json_table

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
    row = type_by_oid(lookup.base(expr.type))
    return row is None or row.typtype == "c"
