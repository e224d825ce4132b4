"""DISTINCT, ORDER BY, LIMIT over the rows of a query's targets, and the removal of junk columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.tree import Query, SortGroup
from pgrepl.instrument import counted
from pgrepl.query.local.env import Env, Row
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.local.sorting import SortKey, same_keys, sort
from pgrepl.types.values import first_of_each, row_hash_form


class Finish:
    """The last steps of a query. Rows have a value for each target, at its place, and perhaps values of the caller
    behind."""

    def __init__(self, query: Query, evaluator: Evaluator) -> None:
        place = {t.resno: i for i, t in enumerate(query.targets)}
        types = {t.resno: t.expr.type for t in query.targets}
        self._keep = [place[t.resno] for t in query.targets if not t.junk]
        self._everything = len(self._keep) == len(query.targets)
        self._order = _keys(query.sort, place, types)
        self._distinct = None if query.distinct is None else _keys(query.distinct, place, types)
        # DISTINCT ON keeps the first row in the query's order; DISTINCT goes by a sorted Unique
        self._distinct_order = self._order if query.distinct_on and self._order else self._distinct
        self._limit, self._offset = evaluator.compile_optional(query.limit), evaluator.compile_optional(query.offset)
        self._ties = self._order if query.with_ties else None
        self._nodes = {step: evaluator.node(step) for step in ("unique", "sort", "limit")}

    def ordered(self, rows: Iterable[Row]) -> Iterable[Row]:
        """DISTINCT and ORDER BY."""
        if self._distinct is not None:
            keys, found = self._distinct, rows
            rows = counted(self._nodes["unique"], lambda: _unique(sort(found, self._distinct_order or ()), keys))
        return counted(self._nodes["sort"], lambda: sort(rows, self._order)) if self._order else rows

    def wanted(self, env: Env) -> int | None:
        """The number of rows that LIMIT and OFFSET need; None: all, or as many as there are ties."""
        limit, offset = self._limit(env), self._offset(env)
        return None if limit is None or self._ties else max(limit, 0) + max(offset or 0, 0)

    def limited(self, rows: Iterable[Row], env: Env) -> Iterable[Row]:
        """Apply LIMIT and OFFSET, and drop junk columns."""
        offset, limit = self._offset(env), self._limit(env)
        if offset is not None or limit is not None:
            found = rows
            rows = counted(self._nodes["limit"], lambda: _limited(found, offset, limit, self._ties))
        return rows if self._everything else (tuple([row[i] for i in self._keep]) for row in rows)


def _keys(groups: Iterable[SortGroup], place: dict[int, int], types: dict[int, int]) -> list[SortKey]:
    return [
        SortKey(lambda row, i=place[g.resno]: row[i], g.sortop, g.nulls_first, types[g.resno])  # type: ignore[misc]
        for g in groups
    ]


def _unique(rows: Iterable[Row], keys: list[SortKey]) -> list[Row]:
    form = row_hash_form(key.type for key in keys)
    return first_of_each(rows, lambda row: form([key.value(row) for key in keys]))


def _limited(found: Iterable[Row], offset: Any, limit: Any, ties: list[SortKey] | None) -> Iterable[Row]:
    """The rows within LIMIT and OFFSET. Rows behind the limit are not computed, except the first that is no tie."""
    if offset is not None and offset < 0:
        raise PgError("2201X", "OFFSET must not be negative")
    if limit is not None and limit < 0:
        raise PgError("2201W", "LIMIT must not be negative")
    if limit is None and not offset:
        return found
    first = offset or 0
    if limit is None:
        return _after(found, first)
    if not ties or not limit:
        return islice(found, min(first, MOST), min(first + limit, MOST))
    return _with_ties(_after(found, first), limit, ties)


MOST = 2**63 - 1  # rows that islice can count


def _after(found: Iterable[Row], first: int) -> Iterator[Row]:
    return islice(found, first, None)


def _with_ties(rows: Iterable[Row], limit: int, ties: list[SortKey]) -> Iterator[Row]:
    last: Row = ()
    for number, row in enumerate(rows):
        if number >= limit and not same_keys(ties, last, row):
            return
        if number < limit:
            last = row
        yield row
