"""Operators and functions by columns: arithmetic and casts of whole numbers, and casts through texts.

Arrow's checked kernels raise where PostgreSQL reports an error, and also for rows that it may not evaluate: the
caller then evaluates row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.comparisons import compared, sign_of
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar, Run, columnar
from pgrepl.expr.arrow.values import made, of_operator
from pgrepl.expr.functions.numbers.arithmetic import INTEGERS
from pgrepl.expr.walk import rewrite
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, operator_by_oid, proc_by_oid
from pgrepl.types.lake.arrays import Form, storage_type
from pgrepl.types.lake.column_casts import through_text
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    from pgrepl.expr.tree import Expr

_TYPES = {16: oids.INT2, 32: oids.INT4, 64: oids.INT8}
_CHECKED = {"pl": "add_checked", "mi": "subtract_checked", "mul": "multiply_checked", "div": "divide_checked"}
_OF_ONE = {"um": "negate_checked", "abs": "abs_checked", "not": "bit_wise_not"}
_OF_BITS = {"and": "bit_wise_and", "or": "bit_wise_or", "xor": "bit_wise_xor"}
_CASTS = {"i2toi4", "i4toi2", "int48", "int84", "int28", "int82"}
_TO_FLOAT = ("i2tod", "i4tod")
_TO_NUMERIC = {"int2_numeric": 5, "int4_numeric": 10, "int8_numeric": 19}


@columnar.register
def _(node: tree.OpExpr) -> Columnar:
    operator = operator_by_oid(node.op)
    if operator is None or node.retset:
        raise NotColumnar("an operator")
    found = _whole_numbers(operator.code, node.args)
    proc = proc_by_oid(operator.code)
    if found is None and proc is not None:
        found = of_operator(proc.name, proc.src, node.args)
    if found is not None:
        return found
    left, right = _both(node.args)
    return compared(sign_of(node.op), columnar(left), columnar(right))


@columnar.register
def _(node: tree.FuncExpr) -> Columnar:
    proc = proc_by_oid(node.func)
    found = _whole_numbers(node.func, node.args)
    if found is None and proc is not None:
        found = made(proc.src, node.args)
    if found is not None:
        return found
    if proc is None or len(node.args) != 1 or proc.src not in (*_CASTS, *_TO_FLOAT, *_TO_NUMERIC, "i8tod"):
        raise NotColumnar("a function")
    value = columnar(node.args[0])
    if proc.src in _TO_NUMERIC:
        return Columnar(oids.NUMERIC, *_cast(value, pa.decimal128(_TO_NUMERIC[proc.src], 0)))
    if proc.src == "i8tod":
        return Columnar(oids.FLOAT8, *_cast(value, pa.float64(), safe=False))
    if proc.src in _TO_FLOAT:
        return Columnar(oids.FLOAT8, *_cast(value, pa.float64()))
    return Columnar(node.type, *_cast(value, _integer(_BITS[node.type])))


_BITS = {typoid: bits for bits, typoid in _TYPES.items()}


def _both(args: Sequence[tree.Expr]) -> tuple[tree.Expr, tree.Expr]:
    if len(args) != 2:
        raise NotColumnar("an operator")
    return args[0], args[1]


def _integer(bits: int) -> Any:
    return {16: pa.int16, 32: pa.int32, 64: pa.int64}[bits]()


def _cast(value: Columnar, kind: Any, *, safe: bool = True) -> tuple[Any, Run]:
    run = value.run
    return kind, run if value.type == kind else lambda columns: pc.cast(run(columns), kind, safe=safe)


def _whole_numbers(func: int, args: Sequence[tree.Expr]) -> Columnar | None:
    """A call of a function of whole-number arithmetic; None: the function is none."""
    proc = proc_by_oid(func)
    if proc is None:
        return None
    prefix = max((each for each in INTEGERS if proc.src.startswith(each)), key=len, default="")
    word = proc.src.removeprefix(prefix)
    if not prefix or word not in (*_CHECKED, *_OF_ONE, *_OF_BITS, "mod", "up"):
        return None
    bits = INTEGERS[prefix]
    kind = _integer(bits)
    values = [columnar(arg) for arg in args]
    if any(value.typoid not in _BITS for value in values):
        return None
    runs = [_cast(value, kind)[1] for value in values]
    if word == "up":
        return Columnar(_TYPES[bits], kind, runs[0])
    if word in _OF_ONE:
        of_one, only = getattr(pc, _OF_ONE[word]), runs[0]
        return Columnar(_TYPES[bits], kind, lambda columns: of_one(only(columns)))
    one, other = runs
    if word == "mod":
        return Columnar(_TYPES[bits], kind, _modulo(one, other, args[1]))
    of_two = getattr(pc, {**_CHECKED, **_OF_BITS}[word])
    return Columnar(_TYPES[bits], kind, lambda columns: of_two(one(columns), other(columns)))


def _modulo(dividend: Run, divisor: Run, by: tree.Expr) -> Run:
    """The remainder, with the sign of the dividend."""
    value = by.value if isinstance(by, tree.Const) else None
    if value is not None and value > 0 and value & (value - 1) == 0:
        return _by_power_of_two(dividend, divisor, value)

    def run(columns: Columns) -> Any:
        a, b = dividend(columns), divisor(columns)
        if value is None:  # the least integer / -1 is out of range, but the remainder is 0
            b = pc.if_else(pc.equal(b, -1), pa.scalar(1, b.type), b)
        elif value == -1:
            b = pa.scalar(1, b.type)
        return pc.subtract(a, pc.multiply(pc.divide_checked(a, b), b))

    return run


def _by_power_of_two(dividend: Run, divisor: Run, value: int) -> Run:
    def run(columns: Columns) -> Any:
        a, b = dividend(columns), divisor(columns)
        rest = pc.bit_wise_and(a, pa.scalar(value - 1, b.type))
        least = pc.min(a).as_py() if isinstance(a, (pa.Array, pa.ChunkedArray)) else a.as_py()
        if least is None or least >= 0:
            return rest
        below = pc.and_(pc.less(a, 0), pc.not_equal(rest, 0))
        return pc.if_else(below, pc.subtract(rest, b), rest)

    return run


__all__ = ["columnar"]


# --- casts ------------------------------------------------------------------------------------------------------------


@frozen
class CastByText(tree.Typed):
    """CoerceViaIO where the settings are known. `kind`: the form of the result; `given`: that of the argument, if this
    is a column of rows."""

    arg: Expr
    style: TextStyle
    kind: Form
    given: Form | None = None


def with_casts(expr: Expr, style: TextStyle, own: Form | None = None, forms: Mapping[int, Form] | None = None) -> Expr:
    """The expression with its casts by text as such nodes, where Arrow has no cast for them. `own`: the form of its
    value, if that is a row; `forms`: of the columns, by attnum."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, tree.CoerceViaIO) or node.arg is None:
            return None
        node = replace(node, arg=rewrite(node.arg, visit))
        try:
            columnar(node)
        except NotColumnar:
            return _by_text(node, style, own, forms or {})
        return node

    return rewrite(expr, visit)


def _by_text(node: tree.CoerceViaIO, style: TextStyle, own: Form | None, forms: Mapping[int, Form]) -> Expr:
    assert node.arg is not None
    given = None
    if is_row_type(node.arg.type):
        given = forms.get(node.arg.attnum) if isinstance(node.arg, tree.Var) else None
        if given is None:
            return node
    if is_row_type(node.type) and own is None:
        return node
    kind = own if own is not None and is_row_type(node.type) else form(node.type, -1)
    return CastByText(node.type, arg=node.arg, style=style, kind=kind, given=given)


@columnar.register
def _(node: CastByText) -> Columnar:
    given = form(node.arg.type, node.arg.typmod) if node.given is None else node.given
    source, target = (base_type(node.arg.type), node.arg.typmod), base_type(node.type)
    kind = storage_type(node.kind.arrow())
    argument = _argument(node)
    if target == oids.NUMERIC and not pa.types.is_decimal(kind):
        raise NotColumnar("a numeric that is kept as text")

    def run(columns: Columns) -> Any:
        value = argument(columns)
        one = isinstance(value, pa.Scalar)
        array = pa.array([value.as_py()], value.type) if one else value
        try:
            made = through_text(array, source, given, (node.type, -1), node.kind, node.style)
        except PgError as problem:  # raised again for the row that it is about
            raise pa.ArrowInvalid(problem.message) from problem
        return made[0] if one else made

    return Columnar(target, kind, run)


def _argument(node: CastByText) -> Callable[[Columns], Any]:
    if node.given is None:
        return columnar(node.arg).run
    assert isinstance(node.arg, tree.Var)
    attnum = node.arg.attnum
    return lambda columns: columns[attnum]
