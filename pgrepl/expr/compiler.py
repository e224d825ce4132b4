"""The base of the evaluator: how a node of the typed tree becomes a Python closure, and how functions are called.

`compile_node` dispatches on the node's class; `compile_logic`, `compile_coercions` and `compile_composites` register
their nodes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, singledispatch
from typing import Any

from pgrepl.catalog.routines import INTERNAL_LANGUAGE, is_user_routine
from pgrepl.errors import unsupported
from pgrepl.expr import tree
from pgrepl.expr.context import Call, Context
from pgrepl.expr.default_types import with_default_types
from pgrepl.expr.functions import implementation
from pgrepl.expr.routines import default_arguments
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, base_type, operator_by_oid, type_by_oid
from pgrepl.types.record import Record, RowType
from pgrepl.types.text import read_text
from pgrepl.types.user_types import composite_type

Compiled = Callable[[Any], Any]
Special = Callable[[tree.Expr], "Compiled | None"]


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
        """The closure of a function call over argument expressions."""
        proc = proc_of(oid, self.context)
        call = Call(self.context, tuple(arg.type for arg in args), expr.type, collation, variadic)
        return apply(function_of(proc, call), self.all(args), proc.strict)


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


def _strict(function: Callable[..., Any], strict: bool) -> Callable[..., Any]:
    if not strict:
        return function
    return lambda *values: None if None in values else function(*values)


def proc_of(oid: int, context: Context) -> Proc:
    proc = context.proc(oid)
    if proc is None:
        raise unsupported(f"function {oid}")
    return proc


def function_of(proc: Proc, call: Call) -> Callable[..., Any]:
    function = plain_function(proc, call)
    columns = out_columns(proc)
    if columns is None or proc.retset:
        return function
    return lambda *values: as_record(function(*values), columns)


def plain_function(proc: Proc, call: Call) -> Callable[..., Any]:
    """A routine as a function of its arguments."""
    if is_user_routine(proc.oid) and proc.lang != INTERNAL_LANGUAGE:  # the constructors of ranges
        routine: Callable[..., Any] = call.session.hooks.routine(call.session, proc, call)
        return routine
    found = implementation(proc, call.context)
    return partial(found.function, call) if found.wants_call else found.function


def out_columns(proc: Proc) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """Types and names of the OUT parameters of a function that returns rows."""
    if proc.rettype != oids.RECORD or proc.allargtypes is None or proc.argmodes is None:
        return None
    out = [number for number, mode in enumerate(proc.argmodes) if mode in "obt"]
    names = proc.argnames or ()
    return tuple(proc.allargtypes[n] for n in out), tuple(names[n] for n in out)


def as_record(row: Any, columns: tuple[tuple[int, ...], tuple[str, ...]]) -> Any:
    return row if row is None or isinstance(row, Record) else Record(row, *columns)


def named_row_type(typoid: int, compiler: Compiler) -> RowType | None:
    """The named row type of a type; None: the type is no row type."""
    composite = composite_type(base_type(typoid))
    if composite is not None:
        return composite
    known = type_by_oid(typoid)
    if (known is not None and not known.relid) or compiler.context.style.lookup is None:
        return None
    return compiler.context.style.lookup.row_type(typoid)


def field_index(typoid: int, fieldnum: int, compiler: Compiler) -> int | None:
    """The index, in values of the row type, of the column with this attnum; None: it has been dropped."""
    row = named_row_type(typoid, compiler)
    return fieldnum - 1 if row is None else row.index(fieldnum)


def operator_function(oid: int, context: Context | None = None, operand: int = 0) -> Callable[..., Any]:
    """An operator as a Python function of values, of which an enum's operator must know the type. A strict operator
    returns NULL for a NULL argument."""
    operator = operator_by_oid(oid)
    if operator is None:
        raise unsupported(f"operator {oid}")
    operands = (operator.left, operator.right) if operator.left else (operator.right,)
    if operand and operator.left == oids.ANYENUM:
        operands = (operand, operand)
    context = context or Context()
    proc = proc_of(operator.code, context)
    call = Call(context, operands, operator.result)
    return _strict(function_of(proc, call), proc.strict)


def arguments(node: tree.FuncExpr, context: Context) -> list[tree.Expr]:
    """The arguments in parameter order, with defaults filled in (as expand_function_arguments does)."""
    proc = proc_of(node.func, context)
    given: dict[int, tree.Expr] = {}
    filled: set[int] = set()
    for position, arg in enumerate(node.args):
        if isinstance(arg, tree.NamedArg):
            assert arg.arg is not None
            given[arg.argnumber] = arg.arg
        else:
            given[position] = arg
    if len(given) < proc.nargs:
        first = proc.nargs - proc.ndefaults
        own = default_arguments(context.session, proc.oid) if is_user_routine(proc.oid) else None
        for number in range(first, proc.nargs):
            if number in given:
                continue
            if own is not None:
                given[number] = own[number - first]
                filled.add(number)
            else:
                typoid = proc.argtypes[number]
                given[number] = tree.Const(typoid, value=_default(proc.defaults[number - first], typoid))
    found = [given[number] for number in sorted(given)]
    return with_default_types(context.session, proc.argtypes, found, filled) if filled else found


def _default(text: str, typoid: int) -> Any:
    """The default of a parameter. Built-in functions have only plain constants as defaults."""
    word = text.partition("::")[0]
    if word == "NULL":
        return None
    return read_text(word.strip("'"), typoid)
