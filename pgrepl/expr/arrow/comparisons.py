"""= <> < <= > >=, IS DISTINCT FROM and membership by columns.

Texts compare by their UTF-8 bytes, which is the order of code points; char(n) without its trailing blanks. A float
NaN equals itself and is greater than all other floats. Decimals are cast to one scale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import Columnar, Columns, NotColumnar, Run, boolean, columnar
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid

_KERNELS = {
    "=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip
_FLOATS = (oids.FLOAT4, oids.FLOAT8)
_TEXTS = (oids.TEXT, oids.NAME)
_FEW = 64  # the longest list whose items are compared one after another

Compare = Callable[[Any, Any], Any]


def sign_of(op: int) -> str:
    """The name of a comparison operator, such as `<=`."""
    operator = operator_by_oid(op)
    if operator is None or operator.name not in _KERNELS:
        raise NotColumnar("an operator")
    families = (oids.INTEGERS, _FLOATS, _TEXTS)
    together = any(operator.left in each and operator.right in each for each in families)
    if operator.left != operator.right and not together:
        raise NotColumnar("operands of two kinds")
    return operator.name


def compared(sign: str, left: Columnar, right: Columnar) -> Columnar:
    one, other, compare = _pair(sign, left, right)
    return boolean(lambda columns: compare(one(columns), other(columns)))


def _pair(sign: str, left: Columnar, right: Columnar) -> tuple[Run, Run, Compare]:
    """Both sides cast to one Arrow type, and the function that compares them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    compare: Compare = getattr(pc, _KERNELS[sign])
    types = {left.typoid, right.typoid}
    if types == {oids.BPCHAR}:
        return _trimmed(left), _trimmed(right), compare
    if types <= {*_FLOATS}:
        wide = pa.float64() if left.type != right.type else left.type
        return _cast(left, wide), _cast(right, wide), _of_floats(sign)
    if types == {oids.NUMERIC}:
        kind = _common(left.type, right.type)
        return _cast(left, kind), _cast(right, kind), compare
    if types == {oids.BOOL} and sign not in ("=", "<>"):
        return _cast(left, pa.int8()), _cast(right, pa.int8()), compare
    if types == {oids.UUID}:
        return _cast(left, pa.binary()), _cast(right, pa.binary()), compare
    if types <= oids.INTEGERS and left.type != right.type:
        wide = max(left.type, right.type, key=lambda kind: kind.bit_width)
        return _cast(left, wide), _cast(right, wide), compare
    if left.type != right.type or (left.typoid != right.typoid and not types <= {oids.VARCHAR, *_TEXTS}):
        raise NotColumnar("operands of two kinds")
    return left.run, right.run, compare


def _cast(value: Columnar, kind: Any) -> Run:
    import pyarrow.compute as pc

    run = value.run
    return run if value.type == kind else lambda columns: pc.cast(run(columns), kind)


def _trimmed(value: Columnar) -> Run:
    import pyarrow.compute as pc

    run = value.run
    return lambda columns: pc.utf8_rtrim(run(columns), characters=" ")


def _common(one: Any, other: Any) -> Any:
    """A decimal that holds the values of both."""
    import pyarrow as pa

    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    if precision > 38:
        raise NotColumnar("numerics of too many digits")
    return pa.decimal128(precision, scale)


def _of_floats(sign: str) -> Compare:
    import pyarrow.compute as pc

    def equal(a: Any, b: Any) -> Any:
        return pc.or_(pc.equal(a, b), pc.and_(pc.is_nan(a), pc.is_nan(b)))

    def less(a: Any, b: Any) -> Any:
        return pc.or_(pc.less(a, b), pc.and_(pc.is_nan(b), pc.invert(pc.is_nan(a))))

    return {
        "=": equal,
        "<>": lambda a, b: pc.invert(equal(a, b)),
        "<": less,
        ">": lambda a, b: less(b, a),
        "<=": lambda a, b: pc.invert(less(b, a)),
        ">=": lambda a, b: pc.invert(less(a, b)),
    }[sign]


@columnar.register
def _(node: tree.DistinctExpr) -> Columnar:
    import pyarrow.compute as pc

    if sign_of(node.op) != "=":
        raise NotColumnar("an operator")
    one, other, compare = _pair("=", columnar(node.args[0]), columnar(node.args[1]))

    def run(columns: Columns) -> Any:
        a, b = one(columns), other(columns)
        neither = pc.and_(pc.is_null(a, nan_is_null=False), pc.is_null(b, nan_is_null=False))
        return pc.invert(pc.coalesce(compare(a, b), neither))

    return boolean(run)


# --- ANY and ALL ------------------------------------------------------------------------------------------------------


@columnar.register
def _(node: tree.ScalarArrayOpExpr) -> Columnar:
    import pyarrow.compute as pc

    scalar, array = node.args
    sign = sign_of(node.op)
    items = _items(array)
    left = columnar(scalar)
    if not items:
        return _always(left, not node.use_or)
    values = [columnar(item) for item in items]
    if (sign, node.use_or) in (("=", True), ("<>", False)) and left.typoid in (*oids.INTEGERS, *_TEXTS, oids.VARCHAR):
        return _member(left, values, negated=not node.use_or)
    if len(values) > _FEW:
        raise NotColumnar("a long list")
    tests = [compared(sign, left, value).run for value in values]
    join = pc.or_kleene if node.use_or else pc.and_kleene
    return boolean(lambda columns: reduce(join, (test(columns) for test in tests)))


def _items(array: tree.Expr) -> list[tree.Const]:
    if isinstance(array, tree.ArrayExpr) and not array.multidims:
        found = [item for item in array.elements if isinstance(item, tree.Const)]
        if len(found) == len(array.elements):
            return found
    if not isinstance(array, tree.Const) or array.value is None:
        raise NotColumnar("no list of constants")
    return [tree.Const(array.value.elemtype, value=item) for item in array.value.items]


def _always(value: Columnar, answer: bool) -> Columnar:
    """ANY or ALL of an empty list, which is not NULL even for a NULL value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return boolean(lambda columns: pc.if_else(pc.is_null(value.run(columns)), pa.scalar(answer), pa.scalar(answer)))


def _member(left: Columnar, values: list[Columnar], *, negated: bool) -> Columnar:
    """Whether a value is in a list. NULL for a NULL value, and for one not found in a list that contains NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    one, _, _ = _pair("=", left, values[0])
    kind = _pair_type(left, values[0])
    known = [value.run({}) for value in values]
    listed = pa.array([item.as_py() for item in known if item.is_valid], kind)
    if len(listed) < len(known):
        beside = pa.scalar(None, pa.bool_())
    else:
        beside = pa.scalar(False)

    def run(columns: Columns) -> Any:
        value = one(columns)
        found = pc.if_else(pc.is_in(value, value_set=listed), pa.scalar(True), beside)
        found = pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))
        return pc.invert(found) if negated else found

    return boolean(run)


def _pair_type(left: Columnar, right: Columnar) -> Any:
    if left.typoid in oids.INTEGERS and right.typoid in oids.INTEGERS:
        return max(left.type, right.type, key=lambda kind: kind.bit_width)
    return left.type


__all__ = ["compared", "sign_of"]
