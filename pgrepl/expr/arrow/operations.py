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
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar, Run, argument, columnar, storage_of
from pgrepl.expr.arrow.values import TEXTS, Make
from pgrepl.expr.functions import columns_form
from pgrepl.expr.functions.registry import in_columns, source_of
from pgrepl.expr.walk import rewrite
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, base_type, operator_by_oid, proc_by_oid
from pgrepl.types.lake.arrays import Form, storage_type
from pgrepl.types.lake.column_values import through_text
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.style import TextStyle

if TYPE_CHECKING:
    from pgrepl.expr.tree import Expr


@columnar.register
def _(node: tree.OpExpr) -> Columnar:
    operator = operator_by_oid(node.op)
    if operator is None or node.retset:
        raise NotColumnar("an operator")
    found = _called(proc_by_oid(operator.code), node.args)
    if found is not None:
        return found
    if len(node.args) != 2:
        raise NotColumnar("an operator")
    left, right = node.args
    return compared(sign_of(node.op), columnar(left), columnar(right))


@columnar.register
def _(node: tree.FuncExpr) -> Columnar:
    found = _called(proc_by_oid(node.func), node.args)
    if found is None:
        raise NotColumnar("a function")
    return found


def _called(proc: Proc | None, args: Sequence[tree.Expr]) -> Columnar | None:
    """A call of a function that has a form of columns."""
    form = None if proc is None else columns_form(source_of(proc))
    if form is None or proc is None:
        return None
    return _kernel(form, proc, args) if isinstance(form, str) else form(args)


def _kernel(name: str, proc: Proc, args: Sequence[tree.Expr]) -> Columnar:
    """A call that one of Arrow's kernels computes. Whole numbers are cast to the result's type before, if that is a
    number; `cast` does nothing else."""
    kind = storage_of(proc.rettype, -1)
    runs = []
    for arg, declared in zip(args, proc.argtypes, strict=True):
        value = argument(arg, TEXTS if declared in TEXTS else (declared,))
        is_cast = declared in oids.INTEGERS and pa.types.is_primitive(kind)
        runs.append(_cast(value, kind, safe=not pa.types.is_floating(kind)) if is_cast else value.run)
    if name == "cast":
        return Columnar(proc.rettype, kind, runs[0])
    compute = getattr(pc, name)
    return Columnar(proc.rettype, kind, lambda columns: compute(*[run(columns) for run in runs]))


def _cast(value: Columnar, kind: Any, *, safe: bool = True) -> Run:
    run = value.run
    return run if value.type == kind else lambda columns: pc.cast(run(columns), kind, safe=safe)


def _to_numeric(digits: int) -> Make:
    def make(args: Sequence[tree.Expr]) -> Columnar:
        kind = pa.decimal128(digits, 0)
        return Columnar(oids.NUMERIC, kind, _cast(argument(args[0], oids.INTEGERS), kind))

    return make


for _bytes, _digits in {2: 5, 4: 10, 8: 19}.items():
    in_columns(f"int{_bytes}_numeric")(_to_numeric(_digits))


@in_columns("int2mod", "int4mod", "int8mod")
def _remainder(args: Sequence[tree.Expr]) -> Columnar:
    one, other = [argument(arg, oids.INTEGERS) for arg in args]
    return Columnar(one.typoid, one.type, _modulo(one.run, other.run, args[1]))


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
    found = cast_by_text(node)
    if found.typoid == oids.NUMERIC and not pa.types.is_decimal(found.type):
        raise NotColumnar("a numeric that is kept as text")
    return found


def cast_by_text(node: CastByText) -> Columnar:
    """The cast, also to a numeric that is kept as text, with which Arrow computes no further."""
    given = form(node.arg.type, node.arg.typmod) if node.given is None else node.given
    source, target = (base_type(node.arg.type), node.arg.typmod), base_type(node.type)
    kind = storage_type(node.kind.arrow())
    argument = _argument(node)

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
