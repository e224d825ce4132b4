"""WITH RECURSIVE before analysis: which query refers to which, and whether the recursion is allowed (parse_cte.c)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.rawplaces import first_raw_location, raw_location
from pgrepl.sql.nodes import (
    CommonTableExpr,
    JoinExpr,
    JoinType,
    Node,
    RangeVar,
    SelectStmt,
    SetOp,
    SubLink,
    WithClause,
)


def _parts(node: Any) -> Iterator[Node]:
    """The direct children of a node, without WITH, which is handled on its own."""
    if isinstance(node, tuple):
        for item in node:
            if isinstance(item, Node):
                yield item
            elif isinstance(item, tuple):
                yield from _parts(item)
    elif is_dataclass(node):
        for f in fields(node):
            part = getattr(node, f.name)
            if isinstance(part, WithClause):
                continue
            if isinstance(part, Node):
                yield part
            elif isinstance(part, tuple):
                yield from _parts(part)


def references(cte: CommonTableExpr, ctes: Sequence[CommonTableExpr]) -> set[str]:
    """The WITH queries of the same list that a query refers to (makeDependencyGraph)."""
    wanted = {c.name for c in ctes}
    found: set[str] = set()

    def walk(node: Any, hidden: frozenset[str]) -> None:
        if isinstance(node, RangeVar):
            if node.schema is None and node.name in wanted and node.name not in hidden:
                found.add(node.name)
            return
        clause = getattr(node, "with_", None)
        if isinstance(clause, WithClause):
            hidden = _walk_with(clause, hidden)
        for part in _parts(node):
            walk(part, hidden)

    def _walk_with(clause: WithClause, hidden: frozenset[str]) -> frozenset[str]:
        if clause.recursive:
            hidden |= {c.name for c in clause.ctes}
            for inner in clause.ctes:
                walk(inner.query, hidden)
            return hidden
        for inner in clause.ctes:
            walk(inner.query, hidden)
            hidden |= {inner.name}
        return hidden

    walk(cte.query, frozenset())
    return found


def in_order(ctes: Sequence[CommonTableExpr], uses: Sequence[set[str]]) -> list[CommonTableExpr]:
    """The queries in dependency order (TopologicalSort)."""
    waiting = [(cte, used - {cte.name}) for cte, used in zip(ctes, uses, strict=True)]
    result: list[CommonTableExpr] = []
    for number in range(len(waiting)):
        ready = next((n for n in range(number, len(waiting)) if not waiting[n][1]), None)
        if ready is None:
            message = "mutual recursion between WITH items is not implemented"
            raise PgError("0A000", message, location=waiting[number][0].location)
        waiting[number], waiting[ready] = waiting[ready], waiting[number]
        done = waiting[number][0]
        result.append(done)
        for _, used in waiting[number + 1 :]:
            used.discard(done.name)
    return result


_WITHIN = {
    "nonrecursive": "its non-recursive term",
    "subquery": "a subquery",
    "outer join": "an outer join",
    "intersect": "INTERSECT",
    "except": "EXCEPT",
}
_OK = "ok"


def check_recursion(ctes: Sequence[CommonTableExpr], recursive: set[str]) -> None:
    """Check the form of a recursive query: `one UNION other`, where only the right term refers to it, once, and not in
    an outer join or subquery (checkWellFormedRecursion)."""
    for cte in ctes:
        if cte.name not in recursive:
            continue
        stmt = cte.query
        if not isinstance(stmt, SelectStmt):
            message = f'recursive query "{cte.name}" must not contain data-modifying statements'
            raise PgError("42P19", message, location=cte.location)
        if stmt.op is not SetOp.UNION:
            message = (
                f'recursive query "{cte.name}" does not have the form non-recursive-term UNION [ALL] recursive-term'
            )
            raise PgError("42P19", message, location=cte.location)
        checker = _Checker(cte.name)
        if stmt.with_ is not None:
            for inner in stmt.with_.ctes:
                checker.walk(inner, "subquery", frozenset())
        _refuse(stmt.order_by, "ORDER BY", first_raw_location(stmt.order_by))
        _refuse(stmt.offset, "OFFSET", raw_location(stmt.offset))
        _refuse(stmt.limit, "LIMIT", raw_location(stmt.limit))
        _refuse(stmt.locking, "FOR UPDATE/SHARE", -1)
        checker.walk(stmt.left, "nonrecursive", frozenset())
        checker.walk(stmt.right, _OK, frozenset())


def _refuse(part: object, what: str, location: int) -> None:
    if part:
        raise PgError("0A000", f"{what} in a recursive query is not implemented", location=location)


class _Checker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def walk(self, node: Any, where: str, hidden: frozenset[str]) -> None:
        if isinstance(node, RangeVar):
            self.refer(node, where, hidden)
        elif isinstance(node, SelectStmt):
            self.select(node, where, hidden)
        elif isinstance(node, JoinExpr):
            outer = "outer join" if where == _OK else where
            left = outer if node.kind in (JoinType.RIGHT, JoinType.FULL) else where
            right = outer if node.kind in (JoinType.LEFT, JoinType.FULL) else where
            self.walk(node.left, left, hidden)
            self.walk(node.right, right, hidden)
            self.walk(node.quals, where, hidden)
        elif isinstance(node, SubLink):
            self.walk(node.subselect, "subquery", hidden)
            self.walk(node.test, where, hidden)
        elif node is not None:
            for part in _parts(node):
                self.walk(part, where, hidden)

    def refer(self, node: RangeVar, where: str, hidden: frozenset[str]) -> None:
        if node.schema is not None or node.name != self.name or node.name in hidden:
            return
        if where != _OK:
            message = f'recursive reference to query "{self.name}" must not appear within {_WITHIN[where]}'
            raise PgError("42P19", message, location=node.location)
        self.count += 1
        if self.count > 1:
            message = f'recursive reference to query "{self.name}" must not appear more than once'
            raise PgError("42P19", message, location=node.location)

    def select(self, node: SelectStmt, where: str, hidden: frozenset[str]) -> None:
        if node.with_ is not None:
            names = frozenset(c.name for c in node.with_.ctes)
            if node.with_.recursive:
                hidden |= names
            for inner in node.with_.ctes:
                self.walk(inner.query, where, hidden)
                hidden |= {inner.name}
        if where != _OK or node.op in (None, SetOp.UNION):
            for part in _parts(node):
                self.walk(part, where, hidden)
            return
        intersect = node.op is SetOp.INTERSECT
        left = ("intersect" if intersect else "except") if node.all else where
        right = left if intersect else "except"
        self.walk(node.left, left, hidden)
        self.walk(node.right, right, hidden)
        for item in (*node.order_by, node.offset, node.limit):
            self.walk(item, where, hidden)
