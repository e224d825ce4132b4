"""Comparisons by columns, IS DISTINCT FROM, membership, ANY and ALL.

Texts compare by their UTF-8 bytes, char(n) without its trailing blanks. A NaN equals itself and is greater than all
floats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pgrepl.expr import tree
from pgrepl.expr.arrow.compiler import PLAIN, Columnar, Columns, NotColumnar, Run, boolean, columnar, with_rows
from pgrepl.expr.arrow.sort_keys import sort_key
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type, operator_by_oid

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[Any]

Compare = Callable[[Any, Any], Any]
_SIGNS: dict[str, Compare] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SHORT = 4  # elements of a list, of which all are compared with one value sooner than the first ones are taken


@frozen
class _Lists:
    """`values`: those of all lists; each has so many (`counts`) from a place (`starts`) on. `one`: all rows have the
    same list."""

    values: Any
    starts: Numbers
    counts: Numbers
    one: bool

    def items(self, at: Numbers, place: int) -> Any:
        """The elements of some lists that stand at a place."""
        return self.values[place] if self.one else self.values.take(pa.array(self.starts[at] + place))


def compared_lists(sign: str, a: Any, b: Any, equal: Compare, less: Compare) -> Any:
    """Compare lists as array_cmp does: by the first elements that differ, NULL behind all others, then by their
    lengths. `equal` and `less` compare elements. Either may be a scalar for all rows."""
    if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
        return compared_lists(sign, pa.array([a.as_py()], a.type), b, equal, less)[0]
    count = len(b) if isinstance(a, pa.Scalar) else len(a)
    valid = pc.and_(pc.is_valid(a), pc.is_valid(b))
    if isinstance(valid, pa.Scalar):
        valid = pa.repeat(valid, count)
    at = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
    order = np.zeros(count, np.int8)
    if len(at):
        ours, theirs = _lists(a, count), _lists(b, count)
        order = np.sign(ours.counts - theirs.counts).astype(np.int8)
        if sign in ("=", "<>"):
            at = at[order[at] == 0]
        _compare(ours, theirs, at, order, equal, less if sign not in ("=", "<>") else None)
    return pc.if_else(valid, pa.array(_SIGNS[sign](order, 0)), None)


def _lists(array: Any, count: int) -> _Lists:
    if isinstance(array, pa.Scalar):
        return _Lists(array.values, np.zeros(count, np.int64), np.full(count, len(array.values), np.int64), True)
    offsets = array.offsets.to_numpy().astype(np.int64)
    first = offsets[0]
    values = array.values.slice(first, offsets[-1] - first)
    return _Lists(values, offsets[:-1] - first, np.diff(offsets), False)


def _compare(a: _Lists, b: _Lists, at: Numbers, order: Numbers, equal: Compare, less: Compare | None) -> None:
    """Write into `order` how the rows `at` compare that do not only differ in length. Without `less` any number tells
    that they differ."""
    shorter = np.minimum(a.counts, b.counts)
    place = 0
    while True:
        at = at[shorter[at] > place]
        if not len(at):
            return
        same = _same_items(a, b, at, place, equal)
        differ = at[~same]
        if less is None:
            order[differ] = 1
        elif len(differ):
            ours, theirs = a.items(differ, place), b.items(differ, place)
            below = pc.coalesce(less(ours, theirs), pc.is_null(theirs)).to_numpy(zero_copy_only=False)
            order[differ] = np.where(below, -1, 1)
        at = at[same]
        place += 1


def _same_items(a: _Lists, b: _Lists, at: Numbers, place: int, equal: Compare) -> Numbers:
    same: Numbers
    for lists, other in ((a, b), (b, a)):
        if other.one and not lists.one and len(lists.values) <= _SHORT * len(at):
            same = _alike(lists.values, other.values[place], equal)
            same = same[lists.starts[at] + place]
            return same
    return _alike(a.items(at, place), b.items(at, place), equal)


def _alike(a: Any, b: Any, equal: Compare) -> Numbers:
    both = pc.and_(pc.is_null(a), pc.is_null(b))
    same: Numbers = pc.coalesce(equal(a, b), both).to_numpy(zero_copy_only=False)
    return same


def among(value: Any, lists: Any, compare: Compare, *, use_or: bool) -> Any:
    """`value compare ANY (lists)`, or ALL: NULL where only a NULL could decide, and for a NULL array."""
    parents = pc.list_parent_indices(lists)
    one = value if isinstance(value, pa.Scalar) else value.take(parents)
    holds = compare(lists.flatten(), one)
    row = parents.to_numpy(zero_copy_only=False).astype(np.int64)
    unknown = np.bincount(row[holds.is_null().to_numpy(zero_copy_only=False)], minlength=len(lists)) > 0
    decided = pc.fill_null(holds if use_or else pc.invert(holds), False).to_numpy(zero_copy_only=False)
    decided = np.bincount(row[decided], minlength=len(lists)) > 0
    known = pa.array(decided | ~unknown)
    answer = pa.array(decided if use_or else ~decided)
    return pc.if_else(pc.and_(known, pc.is_valid(lists)), answer, None)


# --- comparisons ------------------------------------------------------------------------------------------------------


_KERNELS = {
    "=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip
TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # with the sides exchanged
_FLOATS = (oids.FLOAT4, oids.FLOAT8)
_TEXTS = (oids.TEXT, oids.NAME)
_FEW = 64  # the longest list whose items are compared one after another


def sign_of(op: int) -> str:
    """The name of a comparison operator, such as `<=`."""
    operator = operator_by_oid(op)
    if operator is None or operator.name not in _KERNELS:
        raise NotColumnar("an operator")
    families = (oids.INTEGERS, _FLOATS, _TEXTS)
    together = any(operator.left in family and operator.right in family for family in families)
    if operator.left != operator.right and not together:
        raise NotColumnar("operands of two kinds")
    return operator.name


def compared(sign: str, left: Columnar, right: Columnar) -> Columnar:
    one, other, compare = _pair(sign, left, right)
    return boolean(lambda columns: compare(one(columns), other(columns)))


def _pair(sign: str, left: Columnar, right: Columnar) -> tuple[Run, Run, Compare]:
    """Both sides cast to one Arrow type, and the function that compares them."""
    compare: Compare = getattr(pc, _KERNELS[sign])
    types = {left.typoid, right.typoid}
    if left.fields or right.fields:
        return left.run, right.run, _of_rows(sign, left, right)
    if len(types) == 1 and left.type == right.type:
        if pa.types.is_list(left.type):
            return left.run, right.run, _of_lists(sign, left)
        key = sort_key(left.typoid)
        keys = None if key is None else key.of(sign)
        if keys is not None:
            return _keyed(left, keys), _keyed(right, keys), compare
    if types == {oids.BPCHAR}:
        return _trimmed(left), _trimmed(right), compare
    if types <= {*_FLOATS}:
        wide = pa.float64() if left.type != right.type else left.type
        return _cast(left, wide), _cast(right, wide), _of_floats(sign)
    if types == {oids.NUMERIC} and pa.types.is_decimal(left.type) and pa.types.is_decimal(right.type):
        kind = _common(left.type, right.type)
        return _cast(left, kind), _cast(right, kind), compare
    if types == {oids.BOOL} and sign not in ("=", "<>"):
        return _cast(left, pa.int8()), _cast(right, pa.int8()), compare
    if types == {oids.UUID}:
        return _cast(left, pa.binary()), _cast(right, pa.binary()), compare
    if types <= oids.INTEGERS and left.type != right.type:
        wide = max(left.type, right.type, key=lambda kind: kind.bit_width)
        return _cast(left, wide), _cast(right, wide), compare
    if not types <= PLAIN:
        raise NotColumnar("a type that is kept as text")
    if left.type != right.type or (left.typoid != right.typoid and not types <= {oids.VARCHAR, *_TEXTS}):
        raise NotColumnar("operands of two kinds")
    return left.run, right.run, compare


def _keyed(value: Columnar, keys: Callable[[Any], Any]) -> Run:
    """The keys of the values."""
    run = value.run

    def made(columns: Columns) -> Any:
        column = run(columns)
        return keys(pa.array([column.as_py()], column.type))[0] if isinstance(column, pa.Scalar) else keys(column)

    return made


def _of_lists(sign: str, value: Columnar) -> Compare:
    equal = elements_compared("=", value)
    less = equal if sign in ("=", "<>") else elements_compared("<", value)
    return lambda a, b: compared_lists(sign, a, b, equal, less)


def _of_rows(sign: str, left: Columnar, right: Columnar) -> Compare:
    """= and <> of rows (record_eq): NULL beside NULL is equal in a field, not outside of it."""
    if sign not in ("=", "<>") or left.typoid != right.typoid:
        raise NotColumnar("rows of two types, or their order")
    pairs = [_pair("=", one, other) for one, other in zip(left.fields, right.fields, strict=True)]
    unknown = pa.scalar(None, pa.bool_())

    def equal(a: Any, b: Any) -> Any:
        same = reduce(
            pc.and_, [_comparisons_alike(one({0: a}), other({0: b}), compare) for one, other, compare in pairs]
        )
        if sign == "<>":
            same = pc.invert(same)
        return pc.if_else(pc.and_(pc.is_valid(a), pc.is_valid(b)), same, unknown)

    return equal


def _comparisons_alike(a: Any, b: Any, compare: Compare) -> Any:
    """Whether two values are not distinct."""
    neither = pc.and_(pc.is_null(a, nan_is_null=False), pc.is_null(b, nan_is_null=False))
    return pc.coalesce(compare(a, b), neither)


def elements_compared(sign: str, lists: Columnar) -> Compare:
    """The function that compares two columns of elements of such arrays."""
    typoid, kind = base_type(element_type(lists.typoid)), lists.type.value_type
    one, other = [Columnar(typoid, kind, run) for run in (lambda columns: columns[1], lambda columns: columns[2])]
    first, second, compare = _pair(sign, one, other)

    def compared_items(a: Any, b: Any) -> Any:
        columns = {1: a, 2: b}
        return compare(first(columns), second(columns))

    return compared_items


def _cast(value: Columnar, kind: Any) -> Run:
    run = value.run
    return run if value.type == kind else lambda columns: pc.cast(run(columns), kind)


def _trimmed(value: Columnar) -> Run:
    run = value.run
    return lambda columns: pc.utf8_rtrim(run(columns), characters=" ")


def _common(one: Any, other: Any) -> Any:
    """A decimal that holds the values of both."""
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    if precision > 38:
        raise NotColumnar("numerics of too many digits")
    return pa.decimal128(precision, scale)


def _of_floats(sign: str) -> Compare:
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
    if sign_of(node.op) != "=":
        raise NotColumnar("an operator")
    one, other, compare = _pair("=", columnar(node.args[0]), columnar(node.args[1]))

    return boolean(lambda columns: pc.invert(_comparisons_alike(one(columns), other(columns), compare)))


# --- ANY and ALL ------------------------------------------------------------------------------------------------------


@columnar.register
def _(node: tree.ScalarArrayOpExpr) -> Columnar:
    scalar, array = node.args
    sign = sign_of(node.op)
    left = columnar(scalar)
    if not isinstance(array, (tree.Const, tree.ArrayExpr)):
        return _among(sign, left, columnar(array), use_or=node.use_or)
    items = _items(array)
    if not items:
        return _always(left, not node.use_or)
    values = [columnar(item) for item in items]
    listable = left.typoid in (*oids.INTEGERS, *_TEXTS, oids.VARCHAR) or sort_key(left.typoid) is not None
    if (sign, node.use_or) in (("=", True), ("<>", False)) and listable:
        return _member(left, values, negated=not node.use_or)
    if len(values) > _FEW:
        raise NotColumnar("a long list")
    tests = [compared(sign, left, value).run for value in values]
    join = pc.or_kleene if node.use_or else pc.and_kleene
    return boolean(lambda columns: reduce(join, (test(columns) for test in tests)))


def _among(sign: str, value: Columnar, lists: Columnar, *, use_or: bool) -> Columnar:
    if not pa.types.is_list(lists.type) or lists.type.value_type != value.type:
        raise NotColumnar("an array of another type")
    if base_type(element_type(lists.typoid)) != value.typoid:
        raise NotColumnar("an array of another type")
    compare = elements_compared(TURNED[sign], lists)
    return boolean(lambda columns: among(value.run(columns), lists.run(columns), compare, use_or=use_or))


def _items(array: tree.Expr) -> Sequence[tree.Expr]:
    if isinstance(array, tree.ArrayExpr) and not array.multidims:
        constants = [item for item in array.elements if isinstance(item, (tree.Const, tree.RowExpr))]
        if len(constants) == len(array.elements):
            return constants
    if not isinstance(array, tree.Const) or array.value is None:
        raise NotColumnar("no list of constants")
    return [with_rows(tree.Const(array.value.elemtype, value=item)) for item in array.value.items]


def _always(value: Columnar, answer: bool) -> Columnar:
    """ANY or ALL of an empty list, which is not NULL even for a NULL value."""
    return boolean(lambda columns: pc.if_else(pc.is_null(value.run(columns)), pa.scalar(answer), pa.scalar(answer)))


def _member(left: Columnar, values: list[Columnar], *, negated: bool) -> Columnar:
    """Whether a value is in a list. NULL for a NULL value, and for one not found in a list that contains NULL."""
    pairs = [_pair("=", left, value) for value in values]
    try:
        one, known = pairs[0][0], [other({}) for _, other, _ in pairs]
    except pa.ArrowInvalid as problem:  # a value without a key
        raise NotColumnar(str(problem)) from problem
    listed = pa.array([item.as_py() for item in known if item.is_valid], known[0].type)
    if len(listed) < len(known):
        beside = pa.scalar(None, pa.bool_())
    else:
        beside = pa.scalar(False)

    def run(columns: Columns) -> Any:
        value = one(columns)
        among_them = pc.if_else(pc.is_in(value, value_set=listed), pa.scalar(True), beside)
        among_them = pc.if_else(pc.is_valid(value), among_them, pa.scalar(None, pa.bool_()))
        return pc.invert(among_them) if negated else among_them

    return boolean(run)
