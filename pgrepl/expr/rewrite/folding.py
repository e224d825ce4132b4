"""Constant folding: expressions of constants are computed once, before any row is read (eval_const_expressions).

An error in such an expression is therefore raised even when there is no row. Arguments that CASE, COALESCE, AND and OR
never evaluate are not folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.expr import tree
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.walk import children, contains_mutable_functions, functions_used, map_children, query_exprs, walk
from pgrepl.sql.nodes import BoolOp, SubLinkType
from pgrepl.types.builtin import proc_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_COMPUTED = (
    tree.FuncExpr, tree.OpExpr, tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOpExpr, tree.RelabelType,
    tree.CoerceViaIO, tree.MinMaxExpr, tree.ArrayExpr, tree.SubscriptingRef, tree.NullTest, tree.BooleanTest,
    tree.BoolExpr,
)  # fmt: skip


# casts of a number to a wider type: int8, int4, numeric, float8
_SAFE = frozenset((481, 754, 313, 1740, 1781, 1782, 316, 482, 235, 311))
_BOOL_EQ, _BOOL_NE = 91, 85
_FAILING = (
    tree.FuncExpr,
    tree.OpExpr,
    tree.DistinctExpr,
    tree.NullIfExpr,
    tree.ScalarArrayOpExpr,
    tree.CoerceViaIO,
    tree.SubscriptingRef,
)


def check(session: Session, query: tree.Query) -> None:
    """Raise the error of a constant part of a query, as planning it does. What a FROM item or a query of WITH returns
    may be asked by nobody, and is not looked at."""
    for expr in planned_exprs(query):
        if has_constant_part(expr):
            folded(session, expr)


def may_fail(query: tree.Query) -> bool:
    """Whether `check` has anything to compute."""
    return any(map(has_constant_part, planned_exprs(query)))


def planned_exprs(query: tree.Query) -> Iterator[tree.Expr]:
    arms = set(_arms(query.set_operation))
    for number, entry in enumerate(query.rtable, 1):
        if entry.subquery is not None:
            yield from planned_exprs(entry.subquery if number in arms else replace(entry.subquery, targets=()))
    for expr in query_exprs(query, joins=False):
        if expr is query.limit or expr is query.offset:  # computed before the first row in any case
            continue
        yield expr
        for node in walk(expr):
            if isinstance(node, tree.SubLink) and node.query is not None:
                inner = node.query
                yield from planned_exprs(replace(inner, targets=()) if node.kind is SubLinkType.EXISTS else inner)


def _arms(operation: tree.SetOperation | tree.RangeRef | None) -> Iterator[int]:
    if isinstance(operation, tree.RangeRef):
        yield operation.varno
    elif operation is not None:
        yield from _arms(operation.left)
        yield from _arms(operation.right)


def has_constant_part(expr: tree.Expr) -> bool:
    """Whether a call with nothing but constants is in the expression."""
    has_part = False

    def visit(node: tree.Expr) -> bool:
        """Whether the node is constant."""
        nonlocal has_part
        if isinstance(node, tree.Const):
            return True
        constant = True
        for child in children(node):
            constant &= visit(child)
        if not constant or not isinstance(node, _COMPUTED) or not _is_immutable(node):
            return False
        if isinstance(node, _FAILING) and not (isinstance(node, tree.FuncExpr) and node.func in _SAFE):
            has_part = True
        return True

    visit(expr)
    return has_part


def folded(session: Session, expr: tree.Expr) -> tree.Expr:
    context = Context(session)

    def visit(node: tree.Expr) -> tree.Expr:
        if isinstance(node, (tree.Const, tree.SubLink)):
            return node
        if isinstance(node, tree.BoolExpr) and node.op is not BoolOp.NOT:
            return _connective(node)
        if isinstance(node, tree.CaseExpr):
            return _case(node)
        if isinstance(node, tree.CoalesceExpr):
            return _coalesce(node)
        if isinstance(node, tree.ArrayCoerceExpr) and node.arg is not None:
            node = replace(node, arg=visit(node.arg))
            return computed(node) if isinstance(node.arg, tree.Const) and _casts_alike(node) else node
        node = map_children(node, visit)
        if isinstance(node, (tree.FuncExpr, tree.OpExpr)) and _is_null(node):
            return tree.Const(node.type, typmod=node.typmod, collation=node.collation, location=node.location)
        if not isinstance(node, _COMPUTED) or not _is_constant(node):
            return _without_boolean(node)
        return computed(node)

    def computed(node: tree.Typed) -> tree.Const:
        value = evaluate.evaluate(node, (), context)
        return tree.Const(node.type, typmod=node.typmod, collation=node.collation, location=node.location, value=value)

    def _connective(node: tree.BoolExpr) -> tree.Expr:
        """Fold AND or OR. Arguments behind a deciding constant are not evaluated; other constants decide nothing
        (simplify_or_arguments, simplify_and_arguments)."""
        decides = node.op is BoolOp.OR
        args: list[tree.Expr] = []
        unknown: tree.Expr | None = None
        for arg in node.args:
            arg = visit(arg)
            if not isinstance(arg, tree.Const):
                args.append(arg)
            elif arg.value is decides:
                return arg
            elif arg.value is None:
                unknown = arg
        if not args:
            return unknown or tree.Const(node.type, value=not decides)
        if unknown is not None:
            args.append(unknown)
        return args[0] if len(args) == 1 else replace(node, args=tuple(args))

    def _case(node: tree.CaseExpr) -> tree.Expr:
        tested = None if node.arg is None else visit(node.arg)
        node = replace(node, arg=tested)
        whens: list[tuple[tree.Expr, tree.Expr]] = []
        for condition, result in node.whens:
            test = visit(_testing(condition, tested) if isinstance(tested, tree.Const) else condition)
            if isinstance(test, tree.Const) and test.value is not True:
                continue
            if isinstance(test, tree.Const):
                if not whens:
                    return visit(result)
                return replace(node, whens=tuple(whens), default=visit(result))
            whens.append((test, visit(result)))
        default = visit(node.default) if node.default is not None else None
        if not whens:
            return default or tree.Const(
                node.type, typmod=node.typmod, collation=node.collation, location=node.location
            )
        return replace(node, whens=tuple(whens), default=default)

    def _coalesce(node: tree.CoalesceExpr) -> tree.Expr:
        args: list[tree.Expr] = []
        for arg in node.args:
            arg = visit(arg)
            if isinstance(arg, tree.Const) and arg.value is None:
                continue
            args.append(arg)
            if isinstance(arg, tree.Const):
                break
        if not args:
            return tree.Const(node.type, typmod=node.typmod, collation=node.collation)
        return args[0] if isinstance(args[0], tree.Const) else replace(node, args=tuple(args))

    return visit(expr)


def _casts_alike(node: tree.ArrayCoerceExpr) -> bool:
    """Whether the elements' cast gives the same at any time; a domain may change."""
    elem = node.elem
    if elem is None or contains_mutable_functions(elem):
        return False
    return not any(isinstance(part, tree.CoerceToDomain) for part in walk(elem))


def _without_boolean(node: tree.Expr) -> tree.Expr:
    """x for x = true, NOT x for x = false (simplify_boolean_equality)."""
    if not isinstance(node, tree.OpExpr) or node.op not in (_BOOL_EQ, _BOOL_NE):
        return node
    for constant, other in (node.args, node.args[::-1]):
        if isinstance(constant, tree.Const) and constant.value is not None:
            kept = constant.value is (node.op == _BOOL_EQ)
            return other if kept else tree.BoolExpr(node.type, op=BoolOp.NOT, args=(other,))
    return node


def _testing(condition: tree.Expr, value: tree.Const) -> tree.Expr:
    """The condition of CASE x WHEN … with the value of x."""
    if isinstance(condition, tree.CaseTestExpr):
        return value
    if not isinstance(condition, _COMPUTED):
        return condition
    return map_children(condition, lambda child: _testing(child, value))


def _is_null(node: tree.FuncExpr | tree.OpExpr) -> bool:
    """Whether a strict function has a constant NULL argument; then its other arguments are not evaluated."""
    if node.retset or not any(isinstance(arg, tree.Const) and arg.value is None for arg in node.args):
        return False
    proc = proc_by_oid(next(functions_used(node)))
    return proc is not None and proc.strict


def _is_constant(node: tree.Expr) -> bool:
    """Whether a call is immutable and has only constant arguments."""
    return all(isinstance(child, tree.Const) for child in children(node)) and _is_immutable(node)


def _is_immutable(node: tree.Expr) -> bool:
    if isinstance(node, (tree.FuncExpr, tree.OpExpr)) and node.retset:
        return False
    if isinstance(node, tree.SubscriptingRef) and node.assign is not None:
        return False
    return all(proc is not None and proc.volatile == "i" for proc in map(proc_by_oid, functions_used(node)))
