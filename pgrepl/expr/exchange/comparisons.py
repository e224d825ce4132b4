"""= <> < <= > >=, row comparisons and membership: on lake forms that Spark compares as PostgreSQL does, else on
keys."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.expr import tree
from pgrepl.expr.arrow import comparisons as arrow
from pgrepl.expr.arrow.compiler import NotColumnar
from pgrepl.expr.exchange.aggregates import (
    NATURAL,
    USUAL_DECIMAL,
    equal_key,
    numeric_equal_key,
    numeric_order_key,
    sort_key_of,
    usual_numeric,
)
from pgrepl.expr.exchange.arithmetic import called
from pgrepl.expr.exchange.compiler import NOT_CONSTANT, Compiler
from pgrepl.expr.exchange.compiler import native as native_node
from pgrepl.expr.exchange.moments import length
from pgrepl.expr.exchange.sql import Sql, cast, decimal_size, numeric_text
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type, operator_by_oid

SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FLOATS = (oids.FLOAT4, oids.FLOAT8)
_WIDTH = {"SMALLINT": 1, "INT": 2, "BIGINT": 3}
Operands = tuple[str, str]


def comparable(left: tree.Expr, right: tree.Expr, compiler: Compiler, *, equality: bool) -> Operands | None:
    """Two SQL texts that Spark compares as PostgreSQL compares the values; None for pairs of types without such a
    form."""
    one, other = base_type(left.type), base_type(right.type)
    if one == other == oids.NUMERIC:
        return _numerics(compiler.value(left), compiler.value(right), equality=equality)
    if one == other == oids.BPCHAR:
        return _padded(left, right, compiler, equality=equality)
    if one in NATURAL and other in NATURAL:
        pair = _natural(compiler.value(left), compiler.value(right))
        return _with_plain_zeros(pair, left, right, compiler) if pair is not None and one in _FLOATS else pair
    if one == other == oids.INTERVAL:
        lengths = length(left, compiler), length(right, compiler)
        if lengths[0] is not None and lengths[1] is not None:
            return lengths[0], lengths[1]
    if one != other and {one, other} != {oids.INET, oids.CIDR}:
        return None
    key = equal_key if equality and one == other else sort_key_of
    return key(left, compiler), key(right, compiler)


def _with_plain_zeros(pair: Operands, left: tree.Expr, right: tree.Expr, compiler: Compiler) -> Operands:
    """Floats that are compared with 0. Spark equates 0 and -0, but leaves out row groups by statistics and
    dictionaries that tell them apart: it is not to see the column itself."""
    return (
        f"({pair[0]} + 0S)" if compiler.constant(right) == 0 else pair[0],
        f"({pair[1]} + 0S)" if compiler.constant(left) == 0 else pair[1],
    )


def _natural(left: Sql, right: Sql) -> Operands | None:
    if left.type == right.type:
        return left.text, right.text
    if left.type in _WIDTH and right.type in _WIDTH:
        wide = max(left.type, right.type, key=_WIDTH.__getitem__)
    elif {left.type, right.type} == {"FLOAT", "DOUBLE"}:
        wide = "DOUBLE"
    else:
        return None
    return tuple(value.text if value.type == wide else cast(value.text, wide) for value in (left, right))  # type: ignore[return-value]


def _numerics(left: Sql, right: Sql, *, equality: bool) -> Operands:
    one, other = decimal_size(left.type), decimal_size(right.type)
    if one is not None and other is not None:
        scale = max(one[1], other[1])
        if max(one[0] - one[1], other[0] - other[1]) + scale <= 38:
            return left.text, right.text
    texts = numeric_text(left), numeric_text(right)
    if equality:
        return numeric_equal_key(texts[0]), numeric_equal_key(texts[1])
    return numeric_order_key(Sql(texts[0], "STRING")), numeric_order_key(Sql(texts[1], "STRING"))


def _padded(left: tree.Expr, right: tree.Expr, compiler: Compiler, *, equality: bool) -> Operands:
    """char(n): two columns of one length compare as stored; a constant is padded to the column's length."""
    if equality:
        if left.typmod == right.typmod >= 4:
            return compiler.text(left), compiler.text(right)
        for column, constant, turned in ((left, right, False), (right, left, True)):
            value = compiler.constant(constant)
            if column.typmod >= 4 and isinstance(value, str) and len(value.rstrip(" ")) <= column.typmod - 4:
                text = compiler.statement.bind(value.rstrip(" ").ljust(column.typmod - 4))
                pair = (compiler.text(column), text)
                return (pair[1], pair[0]) if turned else pair
    return f"rtrim({compiler.text(left)})", f"rtrim({compiler.text(right)})"


def compared(sign: str, left: tree.Expr, right: tree.Expr, compiler: Compiler) -> Sql | None:
    if base_type(left.type) == base_type(right.type) == oids.NUMERIC:
        one, other = compiler.number(left), compiler.number(right)
        sql = _special_compared(sign, one, other) or _usual_compared(sign, one, other)
        if sql is not None:
            return sql
    pair = comparable(left, right, compiler, equality=sign in ("=", "<>"))
    return None if pair is None else Sql(f"({pair[0]} {sign} {pair[1]})", "BOOLEAN")


def _special_compared(sign: str, left: Sql, right: Sql) -> Sql | None:
    """A comparison of a decimal that may be infinite with one that may not."""
    if left.special is None and right.special is not None:
        left, right, sign = right, left, arrow.TURNED[sign]
    if left.special is None or right.special is not None or decimal_size(right.type) is None:
        return None
    pair = _numerics(Sql(left.text, left.type), right, equality=sign in ("=", "<>"))
    above = "false" if sign == "=" else "true" if sign == "<>" else f"{left.special} {sign[0]} '0'"  # '-' < '0' < 'I'
    return Sql(
        f"CASE WHEN {left.special} IS NULL OR {right.text} IS NULL THEN {pair[0]} {sign} {pair[1]} ELSE {above} END",
        "BOOLEAN",
    )


def _usual_compared(sign: str, left: Sql, right: Sql) -> Sql | None:
    """The order of numerics stored as text: short ones are compared as decimals."""
    sides = [_as_usual(value) for value in (left, right)]
    if sign in ("=", "<>") or any(side is None for side in sides) or "STRING" not in (left.type, right.type):
        return None
    (usual1, number1), (usual2, number2) = (side for side in sides if side is not None)
    keys = _numerics(Sql(left.text, left.type), Sql(right.text, right.type), equality=False)
    usual = " AND ".join(test for test in (usual1, usual2) if test)
    return Sql(f"CASE WHEN {usual} THEN {number1} {sign} {number2} ELSE {keys[0]} {sign} {keys[1]} END", "BOOLEAN")


def _as_usual(value: Sql) -> tuple[str, str] | None:
    size = decimal_size(value.type)
    if size is not None:
        return ("", value.text) if size[0] - size[1] <= 18 and size[1] <= 20 else None
    if value.special is not None or len(value.text) > 60:
        return None
    return usual_numeric(value.text), cast(value.text, USUAL_DECIMAL)


def equal_pair(op: int, args: Sequence[tree.Expr], compiler: Compiler) -> Operands | None:
    """The operands of an = operator, in a form that Spark compares."""
    if sign_of(op) != "=":
        return None
    return comparable(args[0], args[1], compiler, equality=True)


def sign_of(op: int) -> str | None:
    """The comparison that an operator stands for; None for other operators (and for ~=, = of boxes)."""
    operator = operator_by_oid(op)
    try:
        sign = arrow.sign_of(op)
    except NotColumnar:
        return None
    assert operator is not None
    return sign if operator.left != operator.right or operator.left in NATURAL | _KEYED else None


_KEYED = frozenset(
    {
        oids.NUMERIC, oids.BPCHAR, oids.INTERVAL, oids.TIMETZ, oids.JSONB, oids.INET, oids.PG_LSN, oids.XID8,
        oids.ANYARRAY, oids.ANYRANGE, oids.ANYMULTIRANGE,
    }
)  # fmt: skip


@native_node.register
def _(node: tree.OpExpr, compiler: Compiler) -> Sql | None:
    operator, sign = operator_by_oid(node.op), sign_of(node.op)
    if operator is None:
        return None
    if sign is None:
        return called(operator.code, node, node.args, compiler)
    left, right = node.args
    return compared(sign, left, right, compiler)


@native_node.register
def _(node: tree.RowCompareExpr, compiler: Compiler) -> Sql | None:
    """A row comparison: the first unequal pair decides; a NULL before it makes the result NULL."""
    whens = []
    strict = node.kind.rstrip("=")
    for left, right in zip(node.left, node.right, strict=True):
        pair = comparable(left, right, compiler, equality=False)
        if pair is None:
            return None
        a, b = pair
        whens.append(f"WHEN {a} IS NULL OR {b} IS NULL THEN NULL WHEN {a} <> {b} THEN {a} {strict} {b}")
    return Sql(f"CASE {' '.join(whens)} ELSE {'true' if node.kind.endswith('=') else 'false'} END", "BOOLEAN")


# ------------------------------------------------------------------------------------------------------- ANY and ALL

_FEW = 64


@native_node.register
def _(node: tree.ScalarArrayOpExpr, compiler: Compiler) -> Sql | None:
    if node.func:
        return None
    scalar, array = node.args
    items = listed(array, compiler)
    sign = sign_of(node.op)
    if items is None:
        return _in_array(node, sign, compiler)
    if not items:
        return Sql("false" if node.use_or else "true", "BOOLEAN")
    if (sign, node.use_or) in (("=", True), ("<>", False)):
        return _in_list(scalar, items, compiler, negated=not node.use_or)
    if len(items) > _FEW:
        return None
    tests = []
    for item in items:
        operation = tree.OpExpr(node.type, op=node.op, args=(scalar, item), input_collation=node.input_collation)
        tests.append(compiler.text(operation))
    return Sql("(" + (" OR " if node.use_or else " AND ").join(tests) + ")", "BOOLEAN")


def listed(array: tree.Expr, compiler: Compiler) -> list[tree.Expr] | None:
    """The elements of an ARRAY[…] or of a constant array."""
    if compiler.named(array) is not None:
        return None
    if isinstance(array, tree.ArrayExpr) and not array.multidims:
        return list(array.elements)
    value = compiler.constant(array)
    if value is NOT_CONSTANT or value is None:
        return None
    return [tree.Const(value.elemtype, value=item) for item in value.items]


def _in_list(scalar: tree.Expr, items: list[tree.Expr], compiler: Compiler, *, negated: bool) -> Sql | None:
    pairs = []
    for item in items:
        pair = comparable(scalar, item, compiler, equality=True)
        if pair is None:
            return None
        pairs.append(pair)
    word = "NOT IN" if negated else "IN"
    if len({left for left, _ in pairs}) == 1:
        return Sql(f"({pairs[0][0]} {word} ({', '.join(right for _, right in pairs)}))", "BOOLEAN")
    sign, joint = (" <> ", " AND ") if negated else (" = ", " OR ")
    return Sql("(" + joint.join(f"{left}{sign}{right}" for left, right in pairs) + ")", "BOOLEAN")


def _in_array(node: tree.ScalarArrayOpExpr, sign: str | None, compiler: Compiler) -> Sql | None:
    """Membership in an array column. An empty array contains nothing, not even NULL."""
    scalar, array = node.args
    element = element_type(array.type)
    if (sign, node.use_or) not in (("=", True), ("<>", False)) or element not in NATURAL:
        return None
    items, value = compiler.value(array), compiler.value(scalar)
    if items.type != f"ARRAY<{value.type}>":
        return None
    contains = f"array_contains({items.text}, {value.text})"
    if node.use_or:
        return Sql(f"CASE WHEN size({items.text}) = 0 THEN false ELSE {contains} END", "BOOLEAN")
    return Sql(f"CASE WHEN size({items.text}) = 0 THEN true ELSE NOT {contains} END", "BOOLEAN")
