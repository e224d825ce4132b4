"""The periods of rows that agree in the other columns of a key WITHOUT OVERLAPS, or of a FOREIGN KEY with PERIOD."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from functools import cmp_to_key
from itertools import combinations, pairwise
from typing import Any

from pgrepl.expr.functions.containers import contains, overlaps, parts
from pgrepl.types.ranges import PgMultirange, PgRange, compare_ranges, lower_key, make_multirange

Period = PgRange | PgMultirange


def is_empty(value: Period) -> bool:
    return not parts(value)


def first_clash(found: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Two rows' values whose last ones overlap. Ranges in order need be compared with their neighbours only."""
    if any(isinstance(values[-1], PgMultirange) for values in found):
        return next((pair for pair in combinations(found, 2) if overlaps(pair[0][-1], pair[1][-1])), None)
    ordered = sorted(found, key=lambda values: cmp_to_key(compare_ranges)(values[-1]))
    return next((pair for pair in pairwise(ordered) if overlaps(pair[0][-1], pair[1][-1])), None)


class Periods:
    """Names of rows by their periods. While no two ranges overlap, a range is compared with its neighbours alone."""

    def __init__(self) -> None:
        self._periods: dict[Any, Period] = {}
        self._order: list[tuple[Any, int, Any]] = []  # the key of the lower bound, a number, the row's name
        self._places: dict[Any, tuple[Any, int, Any]] = {}
        self._is_plain = True
        self._count = 0

    def add(self, name: Any, period: Period) -> None:
        self._is_plain = self._is_plain and isinstance(period, PgRange) and not self.rivals(period)
        self._periods[name] = period
        if self._is_plain and isinstance(period, PgRange):
            self._count += 1
            place = self._places[name] = (lower_key(period), self._count, name)
            insort(self._order, place)

    def remove(self, name: Any) -> None:
        del self._periods[name]
        place = self._places.pop(name, None)
        if place is not None:
            del self._order[bisect_left(self._order, place)]

    def rivals(self, period: Period) -> list[Any]:
        """The rows whose periods overlap with this one."""
        if not self._is_plain or not isinstance(period, PgRange):
            return [name for name, other in self._periods.items() if overlaps(period, other)]
        at = bisect_left(self._order, (lower_key(period),))
        found = [self._order[at - 1][2]] if at and self._overlaps(at - 1, period) else []
        while at < len(self._order) and self._overlaps(at, period):
            found.append(self._order[at][2])
            at += 1
        return found

    def _overlaps(self, at: int, period: Period) -> bool:
        return overlaps(self._periods[self._order[at][2]], period)


class Cover:
    """The union of periods (range_agg), and whether others lie in it or meet it."""

    def __init__(self, periods: Iterable[Period]) -> None:
        ranges = [part for period in periods for part in parts(period)]
        self._ranges = make_multirange(ranges[0].subtype, ranges).ranges if ranges else ()
        self._lowest = [lower_key(one) for one in self._ranges]

    def covers(self, period: Period) -> bool:
        """Whether a period lies in the union; an empty one does not."""
        found = parts(period)
        return bool(found) and all(any(contains(one, part) for one in self._near(part)) for part in found)

    def meets(self, period: Period) -> bool:
        return any(overlaps(one, part) for part in parts(period) for one in self._near(part))

    def _near(self, part: PgRange) -> tuple[PgRange, ...]:
        """The last range that does not begin behind this one, and the next: if this one meets any, it meets these."""
        after = bisect_right(self._lowest, lower_key(part))
        return self._ranges[max(after - 1, 0) : after + 1]
