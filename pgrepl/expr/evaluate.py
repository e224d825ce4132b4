"""What an expression is worth: the typed tree compiled into Python closures.

    value = compile(expr, context)           # once
    value(row)                               # for each row

A closure takes an environment. Here it is a row, and a `Var` is its attnum-th member; a query passes `special`, which
compiles the nodes that only a query can answer (`Var`, `SubLink`, slots of aggregates) for environments of its own.

Logic is three-valued with None for NULL, strict functions are not called with NULL, CASE, COALESCE and AND are lazy,
and all arguments of a function are computed before NULLs among them are looked at, as PostgreSQL does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, singledispatch
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError, unsupported
from pgrepl.expr import tree
from pgrepl.expr.context import Call, Context
from pgrepl.expr.functions import implementation
from pgrepl.expr.values import comparer, hashable, sorted_values
from pgrepl.sql.nodes import BoolOp, BoolTestType, NullTestType
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import Proc, operator_by_oid, proc_by_oid, procs_by_name
from pgrepl.types.record import Record
from pgrepl.types.text import read_text, reader, writer

if TYPE_CHECKING:
    from pgrepl.expr.functions.aggregates import Accumulator

__all__ = [
    "Context",
    "accumulator",
    "compile",
    "compile_rows",
    "compile_set",
    "evaluate",
    "hashable",
    "operator_function",
    "ordered_set",
    "sorted_values",
]

Compiled = Callable[[Any], Any]
Special = Callable[[tree.Expr], "Compiled | None"]


def evaluate(expr: tree.Expr, row: Sequence[Any] = (), context: Context | None = None) -> Any:
    """The value of an expression over one row."""
    return compile(expr, context)(row)


def compile(expr: tree.Expr, context: Context | None = None, special: Special | None = None) -> Compiled:
    return Compiler(context or Context(), special).compile(expr)


def operator_function(oid: int, context: Context | None = None) -> Callable[..., Any]:
    """An operator as a function of values; with NULL among them it gives NULL when it is strict."""
    operator = operator_by_oid(oid)
    if operator is None:
        raise unsupported(f"operator {oid}")
    operands = (operator.left, operator.right) if operator.left else (operator.right,)
    proc = _proc(operator.code)
    call = Call(context or Context(), operands, operator.result)
    return _strict(_function(proc, call), proc.strict)


def compile_set(
    expr: tree.Expr, context: Context | None = None, special: Special | None = None
) -> Callable[[Any], Iterable[Any]]:
    """The values of an expression with set-returning functions in it."""
    from pgrepl.expr import evaluate_sets

    return evaluate_sets.compile_set(expr, context, special)


def compile_rows(
    expr: tree.Expr, context: Context | None = None, special: Special | None = None
) -> Callable[[Any], Iterator[tuple[Any, ...] | None]]:
    """The rows of a function in FROM."""
    from pgrepl.expr import evaluate_sets

    return evaluate_sets.compile_rows(expr, context, special)


def accumulator(node: tree.Aggref | tree.WindowFunc, context: Context) -> Accumulator:
    """A fresh state of an aggregate: `add(*values)` for each row, then `result()`."""
    from pgrepl.expr.functions.aggregates import new_accumulator

    return new_accumulator(node, context)


def ordered_set(node: tree.Aggref, direct: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> Any:
    """An ordered-set or hypothetical-set aggregate over rows that are sorted already."""
    from pgrepl.expr.functions.ordered_sets import ordered_set

    return ordered_set(node, direct, rows)


def _strict(function: Callable[..., Any], strict: bool) -> Callable[..., Any]:
    if not strict:
        return function
    return lambda *values: None if None in values else function(*values)


def _proc(oid: int) -> Proc:
    proc = proc_by_oid(oid)
    if proc is None:
        raise unsupported(f"function {oid}")
    return proc


def _function(proc: Proc, call: Call) -> Callable[..., Any]:
    found = implementation(proc)
    function = partial(found.function, call) if found.wants_call else found.function
    columns = out_columns(proc)
    if columns is None or proc.retset:
        return function
    return lambda *values: as_record(function(*values), columns)


def out_columns(proc: Proc) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """Types and names of the columns of a function that gives rows by OUT parameters."""
    if proc.rettype != oids.RECORD or proc.allargtypes is None or proc.argmodes is None:
        return None
    out = [number for number, mode in enumerate(proc.argmodes) if mode in "obt"]
    names = proc.argnames or ()
    return tuple(proc.allargtypes[n] for n in out), tuple(names[n] for n in out)


def as_record(row: Any, columns: tuple[tuple[int, ...], tuple[str, ...]]) -> Any:
    return None if row is None or isinstance(row, Record) else Record(row, *columns)


class Compiler:
    """Compiles the nodes of one expression."""

    def __init__(self, context: Context, special: Special | None) -> None:
        self.context = context
        self.special = special
        self.tested: list[Any] = [None]  # where the CaseTestExpr of the innermost CASE finds its value

    def compile(self, expr: tree.Expr) -> Compiled:
        if self.special is not None:
            found = self.special(expr)
            if found is not None:
                return found
        return compile_node(expr, self)

    def all(self, exprs: Sequence[tree.Expr]) -> list[Compiled]:
        return [self.compile(expr) for expr in exprs]

    def call(self, oid: int, args: Sequence[tree.Expr], expr: tree.Typed, collation: int, variadic: bool) -> Compiled:
        """A function applied to argument expressions."""
        proc = _proc(oid)
        call = Call(self.context, tuple(arg.type for arg in args), expr.type, collation, variadic)
        return apply(_function(proc, call), self.all(args), proc.strict)


def apply(function: Callable[..., Any], args: list[Compiled], strict: bool) -> Compiled:
    if not strict:
        return lambda env: function(*[arg(env) for arg in args])
    if len(args) == 1:
        (only,) = args

        def one(env: Any) -> Any:
            value = only(env)
            return None if value is None else function(value)

        return one
    if len(args) == 2:
        first, second = args

        def two(env: Any) -> Any:
            a, b = first(env), second(env)
            return None if a is None or b is None else function(a, b)

        return two

    def many(env: Any) -> Any:
        values = [arg(env) for arg in args]
        return None if None in values else function(*values)

    return many


@singledispatch
def compile_node(node: tree.Expr, compiler: Compiler) -> Compiled:
    raise unsupported(f"{type(node).__name__} in this place")


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
    args = arguments(node)
    return compiler.call(node.func, args, node, node.input_collation, node.variadic)


def arguments(node: tree.FuncExpr) -> list[tree.Expr]:
    """The arguments in the order of the parameters, defaults filled in (as expand_function_arguments does)."""
    proc = _proc(node.func)
    given: dict[int, tree.Expr] = {}
    for position, arg in enumerate(node.args):
        if isinstance(arg, tree.NamedArg):
            assert arg.arg is not None
            given[arg.argnumber] = arg.arg
        else:
            given[position] = arg
    if len(given) < proc.nargs:
        first = proc.nargs - proc.ndefaults
        for number in range(first, proc.nargs):
            if number not in given:
                typoid = proc.argtypes[number]
                given[number] = tree.Const(typoid, value=_default(proc.defaults[number - first], typoid))
    return [given[number] for number in sorted(given)]


def _default(text: str, typoid: int) -> Any:
    """A parameter's default; those of built-in functions are all plain constants."""
    word = text.partition("::")[0]
    if word == "NULL":
        return None
    return read_text(word.strip("'"), typoid)


@compile_node.register
def _(node: tree.NamedArg, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    return compiler.compile(node.arg)


@compile_node.register
def _(node: tree.OpExpr, compiler: Compiler) -> Compiled:
    operator = operator_by_oid(node.op)
    if operator is None:
        raise unsupported(f"operator {node.op}")
    return compiler.call(operator.code, node.args, node, node.input_collation, False)


@compile_node.register
def _(node: tree.DistinctExpr, compiler: Compiler) -> Compiled:
    equal = operator_function(node.op, compiler.context)
    left, right = compiler.all(node.args)

    def distinct(env: Any) -> bool:
        a, b = left(env), right(env)
        if a is None or b is None:
            return a is not b
        return not equal(a, b)

    return distinct


@compile_node.register
def _(node: tree.NullIfExpr, compiler: Compiler) -> Compiled:
    equal = operator_function(node.op, compiler.context)
    left, right = compiler.all(node.args)

    def nullif(env: Any) -> Any:
        a, b = left(env), right(env)
        return None if a is not None and b is not None and equal(a, b) is True else a

    return nullif


_MANY = 8  # from so many constants on, IN looks them up in a set


@compile_node.register
def _(node: tree.ScalarArrayOpExpr, compiler: Compiler) -> Compiled:
    operator = operator_by_oid(node.op)
    if operator is None:
        raise unsupported(f"operator {node.op}")
    proc = _proc(operator.code)
    call = Call(compiler.context, (node.args[0].type, operator.right), node.type, node.input_collation)
    test = _function(proc, call)
    scalar, array = compiler.all(node.args)
    decisive, otherwise = node.use_or, not node.use_or
    if operator.name == "=" and decisive and isinstance(node.args[1], tree.Const) and node.args[1].value is not None:
        items = node.args[1].value.items
        if len(items) >= _MANY and operator.left == operator.right and operator.canhash:
            return _member(scalar, items)

    def any_or_all(env: Any) -> bool | None:
        value, found = scalar(env), array(env)
        if found is None:
            return None
        if not found.items:
            return otherwise
        if value is None and proc.strict:
            return None
        unknown = False
        for item in found.items:
            answer = None if item is None and proc.strict else test(value, item)
            if answer is decisive:
                return not otherwise
            if answer is None:
                unknown = True
        return None if unknown else otherwise

    return any_or_all


def _member(scalar: Compiled, items: Sequence[Any]) -> Compiled:
    known = {hashable(item) for item in items if item is not None}
    otherwise = None if any(item is None for item in items) else False

    def member(env: Any) -> bool | None:
        value = scalar(env)
        if value is None:
            return None
        return hashable(value) in known or otherwise

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


# ----------------------------------------------------------------------------------------------------------- coercions

_UNSIGNED = frozenset(
    {
        oids.OID, oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE,
        oids.REGROLE, oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY, oids.XID,
    }
)  # fmt: skip


@compile_node.register
def _(node: tree.RelabelType, compiler: Compiler) -> Compiled:
    """The same bits under another type; only signed and unsigned differ in Python."""
    assert node.arg is not None
    arg = compiler.compile(node.arg)
    if node.type in _UNSIGNED and node.arg.type == oids.INT4:
        return lambda env: None if (value := arg(env)) is None else value & 0xFFFFFFFF
    if node.type == oids.INT4 and node.arg.type in _UNSIGNED:
        return lambda env: None if (value := arg(env)) is None else value - (value >> 31 << 32)
    return arg


@compile_node.register
def _(node: tree.CoerceViaIO, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    arg = compiler.compile(node.arg)
    write, read = writer(node.arg.type), reader(node.type)
    context = compiler.context

    def convert(env: Any) -> Any:
        value = arg(env)
        if value is None:
            return None
        style = context.style
        return read(write(value, style), -1, style)

    return convert


@compile_node.register
def _(node: tree.ArrayCoerceExpr, compiler: Compiler) -> Compiled:
    assert node.arg is not None and node.elem is not None
    arg = compiler.compile(node.arg)
    outer, compiler.tested = compiler.tested, [None]
    cell, element = compiler.tested, compiler.compile(node.elem)
    compiler.tested = outer
    element_type = node.elem.type

    def convert(env: Any) -> PgArray | None:
        array = arg(env)
        if array is None:
            return None
        items = []
        for item in array.items:
            cell[0] = item
            items.append(element(env))
        return PgArray(element_type, array.dims, array.lbounds, tuple(items))

    return convert


@compile_node.register
def _(node: tree.CaseTestExpr, compiler: Compiler) -> Compiled:
    cell = compiler.tested
    return lambda env: cell[0]


@compile_node.register(tree.CollateExpr)
@compile_node.register(tree.ConvertRowtypeExpr)
@compile_node.register(tree.CoerceToDomain)
def _(node: tree.CollateExpr | tree.ConvertRowtypeExpr | tree.CoerceToDomain, compiler: Compiler) -> Compiled:
    assert node.arg is not None
    return compiler.compile(node.arg)


# -------------------------------------------------------------------------------------------------------- conditionals


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


# ------------------------------------------------------------------------------------------------ arrays, rows, others


@compile_node.register
def _(node: tree.ArrayExpr, compiler: Compiler) -> Compiled:
    from pgrepl.expr.functions.arrays import array_of_arrays, array_of_values

    elements = compiler.all(node.elements)
    make = array_of_arrays if node.multidims else array_of_values
    element_type = node.element_type
    return lambda env: make(element_type, [element(env) for element in elements])


@compile_node.register
def _(node: tree.SubscriptingRef, compiler: Compiler) -> Compiled:
    from pgrepl.expr.functions.arrays import array_element, array_slice
    from pgrepl.expr.functions.json import jsonb_subscript

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
    fields = compiler.all(node.args)
    types, names = tuple(arg.type for arg in node.args), node.names
    return lambda env: Record([field(env) for field in fields], types, names)


@compile_node.register
def _(node: tree.RowCompareExpr, compiler: Compiler) -> Compiled:
    """As ExecEvalRowCompare…: the first pair that is not equal decides, a NULL before it makes the result NULL."""
    compares = []
    for left, op in zip(node.left, node.ops, strict=True):
        operator = operator_by_oid(op)
        same = operator is not None and operator.left == operator.right
        compares.append(comparer(operator.left if same and operator is not None else left.type))
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
    arg, index = compiler.compile(node.arg), node.fieldnum - 1
    return lambda env: None if (row := arg(env)) is None else row[index]


@compile_node.register
def _(node: tree.NextValueExpr, compiler: Compiler) -> Compiled:
    (proc,) = procs_by_name("nextval")
    function = _function(proc, Call(compiler.context, proc.argtypes, proc.rettype))
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
        function = _function(proc, Call(context, (), proc.rettype))
        return lambda env: function()
    return lambda env: sql_value(context, name, typmod)
