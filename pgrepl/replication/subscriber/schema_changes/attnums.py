"""The numbers (attnum), at the publisher, of the columns that the stream describes.

A lake sends the numbers. A server does not: it tells the numbers that columns have now, which may be some ALTER TABLEs
later than the stream. Columns are described in the order of their numbers, so that they are aligned with those of the
table: by their present names, by the names under which they were followed last, and between these by their types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgrepl.replication.publisher.definition import RemoteAttribute
from pgrepl.replication.subscriber.schema_changes.known import KnownColumn
from pgrepl.replication.wire.messages import SentColumn

_NAMED, _KNOWN, _ADDED = 100, 3, 2  # for an equal name, the type that it was followed with, a new column
_LEFT_OUT, _IMPOSSIBLE = -20, -(1 << 30)


def attnums(
    columns: Sequence[SentColumn], known: Mapping[int, KnownColumn], present: Sequence[RemoteAttribute]
) -> list[int]:
    """The number of each column; 0: it cannot be told. `known`: as followed last, by number."""
    if all(column.attnum for column in columns):
        return [column.attnum for column in columns]
    found = _by_name(columns, known, present)
    return found if found is not None else _aligned(columns, known, present)


def _by_name(
    columns: Sequence[SentColumn], known: Mapping[int, KnownColumn], present: Sequence[RemoteAttribute]
) -> list[int] | None:
    """The usual case: all columns have their present names, and those that were followed kept theirs."""
    numbers = {each.name: each.num for each in present if not each.dropped}
    found = [numbers.get(column.name, 0) for column in columns]
    if 0 in found or found != sorted(found):
        return None
    before = {column.name: column.num for column in known.values() if column.is_sent}
    is_sure = all(before.get(column.name, number) == number for column, number in zip(columns, found, strict=True))
    return found if is_sure else None


def _aligned(
    columns: Sequence[SentColumn], known: Mapping[int, KnownColumn], present: Sequence[RemoteAttribute]
) -> list[int]:
    """The numbers that rise from column to column and agree best with what is known, the lowest of several. If the
    table is gone, columns keep the numbers of their names."""
    if len(present) < len(columns):
        before = {column.name: column.num for column in known.values()}
        return [before.get(column.name, 0) for column in columns]
    width, count = len(present), len(columns)
    best = [[0] * (width + 1)]  # best[n][m]: n columns among the first m attributes
    passing = [[_passed(each, known, is_behind=number == count) for each in present] for number in range(count + 1)]
    for place in range(width):
        best[0][place + 1] = best[0][place] + passing[0][place]
    for number, column in enumerate(columns, 1):
        row = [_IMPOSSIBLE] * (width + 1)
        for place in range(number - 1, width):
            taken = best[number - 1][place] + _agreement(column, present[place], known)
            row[place + 1] = max(taken, row[place] + passing[number][place])
        best.append(row)
    found = [0] * count
    place = width
    for number in range(count, 0, -1):
        while best[number][place] == best[number][place - 1] + passing[number][place - 1]:
            place -= 1
        found[number - 1] = place
        place -= 1
    return found


def _passed(attribute: RemoteAttribute, known: Mapping[int, KnownColumn], *, is_behind: bool) -> int:
    """For an attribute that is not described. One that is there now was there already, if one behind it was: unless a
    column list leaves it out. `is_behind`: none behind it is described."""
    if attribute.dropped:
        return 0
    before = known.get(attribute.num)
    return _LEFT_OUT if not is_behind or (before is not None and before.is_sent) else 0


def _agreement(column: SentColumn, attribute: RemoteAttribute, known: Mapping[int, KnownColumn]) -> int:
    before = known.get(attribute.num)
    if before is None and attribute.dropped:
        return _ADDED  # and dropped since
    score = 0
    if not attribute.dropped:
        score += 1 + _NAMED * (attribute.name == column.name) + (attribute.type == column.sent_as)
    if before is not None:
        score += 1 + _NAMED * (before.name == column.name) + _KNOWN * (before.type == column.sent_as)
    return score
