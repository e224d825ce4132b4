"""Operators and the syntax built on them: ANY, IN, BETWEEN, IS DISTINCT FROM, NULLIF, row comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.coerce import all_coercible, coerce_to_boolean, coerce_to_common, common_type_or_none
from pgrepl.expr.analyse.operators import Name, make_array_operator, make_operator
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.sorting import btree_meanings
from pgrepl.expr.analyse.transform import transform_expr
from pgrepl.expr.walk import has_vars, returns_set
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.nodes import AConst, AConstKind, AExpr, AExprKind, BoolOp, NullTestType, SubLink, SubLinkType
from pgrepl.types import oids

_MEANING_ORDER = ("<", "<=", "=", ">=", ">", "<>")


@transform_expr.register
def _(node: AExpr, scope: Scope) -> tree.Expr:
    kind = node.kind
    if kind in (AExprKind.OP_ANY, AExprKind.OP_ALL):
        left, right = transform_expr(_one(node.lexpr), scope), transform_expr(_one(node.rexpr), scope)
        return make_array_operator(scope, node.name, kind is AExprKind.OP_ANY, left, right, node.location)
    if kind in (AExprKind.DISTINCT, AExprKind.NOT_DISTINCT):
        return _distinct(scope, node)
    if kind is AExprKind.NULLIF:
        return _nullif(scope, node)
    if kind is AExprKind.IN:
        return _in(scope, node)
    if kind in _BETWEEN:
        return transform_expr(_between(node), scope)
    return _operator(scope, node)


def _one(side: nodes.Expr | tuple[nodes.Expr, ...] | None) -> nodes.Expr:
    assert isinstance(side, nodes.Expr)
    return side


def _is_null(node: object) -> bool:
    return isinstance(node, AConst) and node.kind is AConstKind.NULL


def _operator(scope: Scope, node: AExpr) -> tree.Expr:
    """An operator with one operand or two; `x = NULL` and rows among them (transformAExprOp)."""
    left, right, location = node.lexpr, _one(node.rexpr), node.location
    if node.name == ("=",) and (_is_null(left) or _is_null(right)) and _null_equals(scope):
        arg = right if _is_null(left) else _one(left)
        return transform_expr(nodes.NullTest(arg, NullTestType.IS_NULL, location), scope)
    if isinstance(left, nodes.RowExpr):
        if isinstance(right, SubLink) and right.kind is SubLinkType.EXPR:
            compare = replace(right, kind=SubLinkType.ROWCOMPARE, test=left, operator=node.name, location=location)
            return transform_expr(compare, scope)
        if isinstance(right, nodes.RowExpr):
            one, other = transform_expr(left, scope), transform_expr(right, scope)
            assert isinstance(one, tree.RowExpr) and isinstance(other, tree.RowExpr)
            return compare_rows(scope, node.name, one.args, other.args, location)
    left_expr = transform_expr(left, scope) if left is not None else None
    return make_operator(scope, node.name, left_expr, transform_expr(right, scope), location)


def _null_equals(scope: Scope) -> bool:
    return scope.session.settings.get("transform_null_equals") == "on"


def compare_rows(
    scope: Scope, name: Name, left: Sequence[tree.Expr], right: Sequence[tree.Expr], location: int
) -> tree.Expr:
    """A row comparison: = and <> column by column, < and its like as a RowCompareExpr (make_row_comparison_op)."""
    if len(left) != len(right):
        raise PgError("42601", "unequal number of entries in row expressions", location=location)
    if not left:
        raise PgError("0A000", "cannot compare rows of zero length", location=location)
    pairs = [_row_operator(scope, name, a, b, location) for a, b in zip(left, right, strict=True)]
    if len(pairs) == 1:
        return pairs[0]
    meanings = [btree_meanings(pair.op, scope.session) for pair in pairs]
    shared = set.intersection(*[{symbol for _, symbol in families} for families in meanings])
    kind = next((symbol for symbol in _MEANING_ORDER if symbol in shared), None)
    if kind is None:
        raise PgError(
            "0A000",
            f"could not determine interpretation of row comparison operator {name[-1]}",
            hint="Row comparison operators must be associated with btree operator families.",
            location=location,
        )
    if kind in ("=", "<>"):
        op = BoolOp.AND if kind == "=" else BoolOp.OR
        return tree.BoolExpr(oids.BOOL, op=op, args=tuple(pairs), location=location)
    return tree.RowCompareExpr(
        oids.BOOL,
        kind=kind,
        ops=tuple(pair.op for pair in pairs),
        left=tuple(pair.args[0] for pair in pairs),
        right=tuple(pair.args[1] for pair in pairs),
    )


def _row_operator(scope: Scope, name: Name, left: tree.Expr, right: tree.Expr, location: int) -> tree.OpExpr:
    pair = make_operator(scope, name, left, right, location)
    if pair.type != oids.BOOL:
        text = lookup.type_text(scope.session, pair.type)
        message = f"row comparison operator must yield type boolean, not type {text}"
        raise PgError("42804", message, location=location)
    if returns_set(pair):
        raise PgError("42804", "row comparison operator must not return a set", location=location)
    return pair


def _distinct(scope: Scope, node: AExpr) -> tree.Expr:
    """IS [NOT] DISTINCT FROM, as transformAExprDistinct does."""
    negated = node.kind is AExprKind.NOT_DISTINCT
    left, right = _one(node.lexpr), _one(node.rexpr)
    if _is_null(right) or _is_null(left):
        arg = transform_expr(left if _is_null(right) else right, scope)
        kind = NullTestType.IS_NULL if negated else NullTestType.IS_NOT_NULL
        return tree.NullTest(oids.BOOL, arg=arg, kind=kind, location=node.location)
    one, other = transform_expr(left, scope), transform_expr(right, scope)
    if isinstance(one, tree.RowExpr) and isinstance(other, tree.RowExpr):
        result = _distinct_rows(scope, node, one, other)
    else:
        result = _distinct_pair(scope, node, one, other)
    if not negated:
        return result
    return tree.BoolExpr(oids.BOOL, op=BoolOp.NOT, args=(result,), location=node.location)


def _distinct_pair(scope: Scope, node: AExpr, left: tree.Expr, right: tree.Expr) -> tree.Expr:
    pair = make_operator(scope, node.name, left, right, node.location)
    _require_boolean(pair, "IS DISTINCT FROM", node.location)
    return tree.DistinctExpr(
        oids.BOOL, op=pair.op, args=pair.args, location=node.location, func=pair.func, volatile=pair.volatile
    )


def _distinct_rows(scope: Scope, node: AExpr, left: tree.RowExpr, right: tree.RowExpr) -> tree.Expr:
    if len(left.args) != len(right.args):
        raise PgError("42601", "unequal number of entries in row expressions", location=node.location)
    result: tree.Expr | None = None
    for a, b in zip(left.args, right.args, strict=True):
        pair = _distinct_pair(scope, node, a, b)
        if result is None:
            result = pair
        else:
            result = tree.BoolExpr(oids.BOOL, op=BoolOp.OR, args=(result, pair), location=node.location)
    return result if result is not None else tree.Const(oids.BOOL, value=False)


def _require_boolean(pair: tree.OpExpr, construct: str, location: int) -> None:
    if pair.type != oids.BOOL:
        raise PgError("42804", f"{construct} requires = operator to yield boolean", location=location)
    if pair.retset:
        raise PgError("42804", f"{construct} must not return a set", location=location)


def _nullif(scope: Scope, node: AExpr) -> tree.Expr:
    left, right = transform_expr(_one(node.lexpr), scope), transform_expr(_one(node.rexpr), scope)
    pair = make_operator(scope, node.name, left, right, node.location)
    _require_boolean(pair, "NULLIF", node.location)
    first = pair.args[0]
    return tree.NullIfExpr(
        first.type, typmod=first.typmod, op=pair.op, args=pair.args, location=node.location, func=pair.func,
        volatile=pair.volatile,
    )  # fmt: skip


def _in(scope: Scope, node: AExpr) -> tree.Expr:
    """x IN (list): one comparison with an array of the items without columns, and one comparison for each other item
    (transformAExprIn)."""
    use_or = node.name != ("<>",)
    left = transform_expr(_one(node.lexpr), scope)
    assert isinstance(node.rexpr, tuple)
    items = [transform_expr(item, scope) for item in node.rexpr]
    fixed = [item for item in items if not has_vars(item)]
    result: tree.Expr | None = None
    if len(fixed) > 1:
        scalar = common_type_or_none(scope, [left, *fixed])
        if scalar and not all_coercible(scope, [left, *fixed], scalar):
            scalar = 0
        array = lookup.array_over(scalar) if scalar and scalar != oids.RECORD else 0
        if array:
            elements = tuple(coerce_to_common(scope, item, scalar, "IN") for item in fixed)
            listed = tree.ArrayExpr(array, element_type=scalar, elements=elements)
            result = make_array_operator(scope, node.name, use_or, left, listed, node.location)
            items = [item for item in items if has_vars(item)]
    for item in items:
        if isinstance(left, tree.RowExpr) and isinstance(item, tree.RowExpr):
            one = compare_rows(scope, node.name, left.args, item.args, node.location)
        else:
            one = make_operator(scope, node.name, left, item, node.location)
        one = coerce_to_boolean(scope, one, "IN")
        if result is None:
            result = one
        else:
            op = BoolOp.OR if use_or else BoolOp.AND
            result = tree.BoolExpr(oids.BOOL, op=op, args=(result, one), location=node.location)
    assert result is not None
    return result


_BETWEEN = {
    AExprKind.BETWEEN: (">=", "<=", BoolOp.AND, BoolOp.OR, False),
    AExprKind.NOT_BETWEEN: ("<", ">", BoolOp.OR, BoolOp.AND, False),
    AExprKind.BETWEEN_SYM: (">=", "<=", BoolOp.AND, BoolOp.OR, True),
    AExprKind.NOT_BETWEEN_SYM: ("<", ">", BoolOp.OR, BoolOp.AND, True),
}


def _between(node: AExpr) -> nodes.Expr:
    """BETWEEN as the comparisons that it abbreviates."""
    at_low, at_high, inner, outer, symmetric = _BETWEEN[node.kind]
    assert isinstance(node.rexpr, tuple)
    low, high = node.rexpr

    def within(one: nodes.Expr, other: nodes.Expr) -> nodes.Expr:
        sides = (
            AExpr(AExprKind.OP, (at_low,), node.lexpr, one, node.location),
            AExpr(AExprKind.OP, (at_high,), node.lexpr, other, node.location),
        )
        return nodes.BoolExpr(inner, sides, node.location)

    if not symmetric:
        return within(low, high)
    return nodes.BoolExpr(outer, (within(low, high), within(high, low)), node.location)
