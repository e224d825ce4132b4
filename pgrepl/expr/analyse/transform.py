"""The base of the analysis: `transform_expr` dispatches on the raw node's class; and errors for names that are
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import singledispatch
from typing import Any

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.coerce import coerce_to_boolean
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import NsItem, Scope, find_cte, find_item, match_column
from pgrepl.expr.tree import Expr, Rte, RteKind
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql import nodes


def same_text(one: Any, other: Any) -> bool:
    """Whether two raw trees are equal apart from their locations."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(same_text(a, b) for a, b in zip(one, other, strict=True))
    if is_dataclass(one) and type(one) is type(other):
        return all(same_text(getattr(one, f.name), getattr(other, f.name)) for f in fields(one) if f.name != "location")
    return bool(one == other)


# --- transform --------------------------------------------------------------------------------------------------------


def analyze_where(scope: Scope, node: nodes.Expr, kind: ExprKind, construct: str) -> Expr:
    """A WHERE condition, cast to boolean (transformWhereClause). Collations are assigned later."""
    return coerce_to_boolean(scope, transform(scope, node, kind), construct)


def transform(scope: Scope, node: nodes.Expr, kind: ExprKind) -> Expr:
    """Analyse a raw expression as transformExpr does, with the scope's ExprKind set meanwhile."""
    saved, scope.kind = scope.kind, kind
    try:
        return transform_expr(node, scope)
    finally:
        scope.kind = saved


@singledispatch
def transform_expr(node: nodes.Expr, scope: Scope) -> Expr:
    raise unsupported(type(node).__name__, location=getattr(node, "location", None))


# --- missing ----------------------------------------------------------------------------------------------------------


MAX_DISTANCE = 3  # MAX_FUZZY_DISTANCE


def levenshtein(one: str, other: str) -> int:
    """The Levenshtein distance of two strings."""
    previous = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        current = [i]
        for j, b in enumerate(other, 1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b)))
        previous = current
    return previous[-1]


@dataclass(slots=True)
class _Guess:
    """The one or two closest column names; three equally close ones give no HINT (FuzzyAttrMatchState)."""

    distance: int = MAX_DISTANCE + 1
    first: tuple[Rte, int] | None = None
    second: tuple[Rte, int] | None = None
    exact: tuple[Rte, ...] = ()

    def consider(self, penalty: int, rte: Rte, attnum: int, candidate: str, wanted: str) -> None:
        if penalty > self.distance or not candidate:
            return
        distance = levenshtein(candidate, wanted)
        if distance > len(wanted.encode()) // 2:
            return
        distance += penalty
        if distance < self.distance:
            self.distance, self.first, self.second = distance, (rte, attnum), None
        elif distance == self.distance:
            if self.second is not None:
                self.first = self.second = None
            elif self.first is not None:
                self.second = (rte, attnum)


def _guess(scope: Scope, alias: str | None, name: str, location: int) -> _Guess:
    """As searchRangeTableForCol does: every range table up to the outermost, joins left out."""
    guess = _Guess()
    level: Scope | None = scope
    while level is not None:
        for rte in level.rtable:
            if rte.kind is RteKind.JOIN:
                continue
            penalty = 0 if alias is None else min(levenshtein(alias, rte.name), MAX_DISTANCE + 2)
            names = tuple(c.name for c in rte.columns)
            for attnum, candidate in enumerate(names, 1):
                guess.consider(penalty, rte, attnum, candidate, name)
            if penalty == 0 and match_column(rte, names, name, location):
                guess.exact = (*guess.exact[:1], rte)
        level = level.parent
    return guess


def missing_column(scope: Scope, relation: str | None, name: str, location: int) -> PgError:
    """The error for a column that does not exist, with a hint (errorMissingColumn)."""
    message = f"column {relation}.{name} does not exist" if relation is not None else f'column "{name}" does not exist'
    guess = _guess(scope, relation, name, location)
    detail = hint = None
    if len(guess.exact) > 1:
        detail = (
            f'There are columns named "{name}", but they are in tables that cannot be referenced '
            "from this part of the query."
        )
        hint = "Try using a table-qualified name." if relation is None else None
    elif guess.exact:
        rte = guess.exact[0]
        detail = (
            f'There is a column named "{name}" in table "{rte.name}", but it cannot be referenced '
            "from this part of the query."
        )
        if _visible_if_lateral(scope, rte):
            hint = "To reference that column, you must mark this subquery with LATERAL."
        elif relation is None and _visible_if_qualified(scope, rte):
            hint = "To reference that column, you must use a table-qualified name."
    elif guess.first is not None:
        hint = f'Perhaps you meant to reference the column "{_column(guess.first)}"'
        hint += f' or the column "{_column(guess.second)}".' if guess.second is not None else "."
    return PgError("42703", message, detail=detail, hint=hint, location=location)


def _column(place: tuple[Rte, int]) -> str:
    rte, attnum = place
    return f"{rte.name}.{rte.columns[attnum - 1].name}"


def named_item(scope: Scope, names: Sequence[str], dotted: str, location: int) -> tuple[NsItem, int]:
    """The namespace item of a qualified name, and how many levels up it is. `dotted`: the whole reference."""
    if len(names) > 3:
        message = f"improper qualified name (too many dotted names): {dotted}"
        raise PgError("42601", message, location=location)
    if len(names) == 3 and names[0] != scope.session.database.name:
        raise PgError("0A000", f"cross-database references are not implemented: {dotted}", location=location)
    schema = names[-2] if len(names) > 1 else None
    item = find_item(scope, schema, names[-1], location)
    if item is None:
        raise missing_relation(scope, schema, names[-1], location)
    return item


def missing_relation(scope: Scope, schema: str | None, name: str, location: int) -> PgError:
    """The error for a relation that is not in FROM, with a hint (errorMissingRTE)."""
    rte = _search_relation(scope, schema, name)
    if rte is None:
        return PgError("42P01", f'missing FROM-clause entry for table "{name}"', location=location)
    message = f'invalid reference to FROM-clause entry for table "{name}"'
    if rte.alias is not None and rte.name != name:
        item = find_item(scope, None, rte.name, location)
        if item is not None and item[0].rte is rte:
            hint = f'Perhaps you meant to reference the table alias "{rte.name}".'
            return PgError("42P01", message, hint=hint, location=location)
    detail = f'There is an entry for table "{rte.name}", but it cannot be referenced from this part of the query.'
    lateral = "To reference that table, you must mark this subquery with LATERAL."
    hint_if_so = lateral if _visible_if_lateral(scope, rte) else None
    return PgError("42P01", message, detail=detail, hint=hint_if_so, location=location)


def _search_relation(scope: Scope, schema: str | None, name: str) -> Rte | None:
    """A range table entry that the name may mean, visible or not (searchRangeTableForRel)."""
    cte = find_cte(scope, name) if schema is None else None
    relid = 0 if cte is not None else lookup.relid(scope.session, nodes.RangeVar(name, schema))
    levels = 0
    level: Scope | None = scope
    while level is not None:
        for rte in level.rtable:
            if rte.kind is RteKind.RELATION and relid and rte.relid == relid:
                return rte
            if rte.kind is RteKind.CTE and cte is not None and rte.cte_levelsup + levels == cte[1] and rte.cte == name:
                return rte
            if rte.name == name:
                return rte
        level = level.parent
        levels += 1
    return None


def _item_of_rte(scope: Scope, rte: Rte) -> NsItem | None:
    level: Scope | None = scope
    while level is not None:
        for item in level.namespace:
            if item.rte is rte:
                return item
        level = level.parent
    return None


def _visible_if_lateral(scope: Scope, rte: Rte) -> bool:
    if scope.lateral_active:
        return False
    item = _item_of_rte(scope, rte)
    return item is not None and item.lateral_only and item.lateral_ok


def _visible_if_qualified(scope: Scope, rte: Rte) -> bool:
    item = _item_of_rte(scope, rte)
    return item is not None and item.rel_visible and not item.cols_visible
