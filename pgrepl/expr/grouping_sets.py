"""GROUP BY: its keys, and the expansion of ROLLUP, CUBE and GROUPING SETS (parse_clause.c, parse_agg.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from pgrepl.errors import PgError
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.rawplaces import raw_location
from pgrepl.expr.scope import Scope
from pgrepl.expr.sorting import (
    TargetList,
    add_group_key,
    find_by_expression,
    find_by_name_or_position,
    in_sort_list,
)
from pgrepl.expr.tree import GroupingSets, GroupSet, SortGroup
from pgrepl.frozen import frozen
from pgrepl.sql import nodes
from pgrepl.sql.nodes import GroupingKind, GroupingSet, RowExpr

MAX_SETS = 4096

# an item after flattening: an expression, a list of them (columns that belong together), or a grouping set
_Item = object


@frozen
class _Set:
    kind: GroupingKind
    content: tuple[_Item, ...]
    location: int


class _Reader:
    def __init__(
        self, scope: Scope, targets: TargetList, sort: Sequence[SortGroup], kind: ExprKind, by_expression: bool
    ) -> None:
        self.scope, self.targets, self.sort, self.kind = scope, targets, sort, kind
        self.find = find_by_expression if by_expression else find_by_name_or_position
        self.keys: list[SortGroup] = []

    def key(self, node: nodes.Expr, seen: set[int], *, top: bool) -> int:
        """The resno of a grouping expression; 0: it is in the list already (transformGroupClauseExpr)."""
        target = self.find(self.scope, node, self.targets, self.kind)
        if target.resno in seen:
            return 0
        if in_sort_list(target.resno, 0, self.keys):
            return target.resno
        for known in self.sort:
            if known.resno == target.resno:
                self.keys.append(known if top else replace(known, nulls_first=False))
                return target.resno
        add_group_key(self.scope, target, self.keys, self.targets, raw_location(node))
        return target.resno

    def group(self, item: _Item) -> GroupSet:
        """As transformGroupingSet does."""
        if isinstance(item, _Set):
            content = tuple(self.group(part) for part in item.content)
            if item.kind is GroupingKind.CUBE and len(content) > 12:
                raise PgError("54011", "CUBE is limited to 12 elements", location=item.location)
            return GroupSet(item.kind, content)
        parts = item if isinstance(item, tuple) else (item,)
        seen: set[int] = set()
        resnos: list[int] = []
        for part in parts:
            resno = self.key(part, seen, top=False)
            if resno:
                seen.add(resno)
                resnos.append(resno)
        return GroupSet(None, tuple(resnos))


def transform_group(
    scope: Scope,
    group_by: Sequence[nodes.Expr],
    targets: TargetList,
    sort: Sequence[SortGroup],
    kind: ExprKind,
    *,
    by_expression: bool = False,
) -> tuple[list[SortGroup], tuple[GroupSet, ...] | None]:
    """The keys, and the grouping sets if there are any (transformGroupClause)."""
    reader = _Reader(scope, targets, sort, kind, by_expression)
    flat, has_sets = _flatten_top(group_by)
    if not flat and has_sets:
        return [], (GroupSet(GroupingKind.EMPTY),)
    sets: list[GroupSet] = []
    seen: set[int] = set()
    for item in flat:
        if isinstance(item, _Set):
            sets.append(GroupSet(GroupingKind.EMPTY) if item.kind is GroupingKind.EMPTY else reader.group(item))
            continue
        assert isinstance(item, nodes.Expr)
        resno = reader.key(item, seen, top=True)
        if resno:
            seen.add(resno)
            if has_sets:
                sets.append(GroupSet(None, (resno,)))
    return reader.keys, tuple(sets) if has_sets else None


def _flatten_top(group_by: Sequence[nodes.Expr]) -> tuple[list[_Item], bool]:
    """Flatten the top level: (a, b) is a and b; () beside other items is nothing (flatten_grouping_sets)."""
    result: list[_Item] = []
    has_sets = False
    for node in group_by:
        if isinstance(node, GroupingSet):
            has_sets = True
            if node.kind is not GroupingKind.EMPTY:
                result.append(_Set(node.kind, tuple(_contents(node)), node.location))
        elif isinstance(node, RowExpr) and not node.explicit:
            result += _flat_list(node)
        else:
            result.append(node)
    return result, has_sets


def _contents(node: GroupingSet) -> list[_Item]:
    """The contents of a set; nested GROUPING SETS are flattened by one level."""
    result: list[_Item] = []
    for part in node.content:
        if isinstance(part, GroupingSet):
            if part.kind is GroupingKind.SETS:
                result += _contents(part)
            else:
                result.append(_Set(part.kind, tuple(_contents(part)), part.location))
        elif isinstance(part, RowExpr) and not part.explicit:
            result.append(tuple(_flat_list(part)))
        else:
            result.append(part)
    return result


def _flat_list(node: RowExpr) -> list[nodes.Expr]:
    result: list[nodes.Expr] = []
    for part in node.args:
        if isinstance(part, RowExpr) and not part.explicit:
            result += _flat_list(part)
        else:
            result.append(part)
    return result


# --- expansion ----------------------------------------------------------------------------------------------------


def expand(clause: Sequence[GroupSet], distinct: bool, location: int) -> GroupingSets:
    """All sets of columns that the clause asks for, smallest first (expand_grouping_sets)."""
    result: list[tuple[int, ...]] = [()]
    for item in clause:
        own = _expanded(item)
        if len(result) * len(own) > MAX_SETS:
            message = f"too many grouping sets present (maximum {MAX_SETS})"
            raise PgError("54001", message, location=location)
        result = [_union(one, other) for one in result for other in own]
    if distinct:
        result = sorted({tuple(sorted(s)) for s in result})
    result.sort(key=len)
    return GroupingSets(tuple(result), tuple(clause))


def _union(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return one + tuple(resno for n, resno in enumerate(other) if resno not in one and resno not in other[:n])


def _expanded(item: GroupSet) -> list[tuple[int, ...]]:
    if item.kind is None:
        return [item.content]
    if item.kind is GroupingKind.EMPTY:
        return [()]
    if item.kind is GroupingKind.SETS:
        return [s for part in item.content for s in _expanded(part)]
    parts = [part.content for part in item.content]
    if item.kind is GroupingKind.ROLLUP:
        chosen = [parts[:size] for size in range(len(parts), -1, -1)]
    else:
        chosen = [list(some) for size in range(len(parts) + 1) for some in combinations(parts, size)]
    return [tuple(resno for part in some for resno in part) for some in chosen]
