"""Which column of the publisher is which: the numbers (attnum) of the columns that the stream describes.

A lake sends the numbers. A server does not: it tells the numbers that columns have now, which may be some ALTER TABLEs
later than the stream. Columns are described in the order of their numbers, so that they are aligned with those of the
table: by their present names, by the names under which they were followed last, and between these by their types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgrepl.replication.publisher.definition import RemoteAttribute
from pgrepl.replication.subscriber.schema_changes.known import KnownColumn
from pgrepl.replication.wire.messages import SentColumn

_NAMED, _TYPED, _PASSED = 100, 3, -2  # for an equal name, an equal type, a column that is left out though it was sent


def attnums(
    columns: Sequence[SentColumn], known: Mapping[int, KnownColumn], present: Sequence[RemoteAttribute]
) -> list[int]:
    """For each column its number; 0: it cannot be told. `known`: as followed last, by number."""
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
    """The numbers that rise from column to column and agree best with what is known. If the table is gone, columns keep
    the numbers of their names."""
    if len(present) < len(columns):
        before = {column.name: column.num for column in known.values()}
        return [before.get(column.name, 0) for column in columns]
    width = len(present)
    worst = -(1 << 30)
    best = [[0] * (width + 1)]  # best[n][m]: n columns among the first m attributes
    for attribute in present:
        best[0][attribute.num] = best[0][attribute.num - 1] + _passed(attribute, known)
    for number, column in enumerate(columns, 1):
        row = [worst] * (width + 1)
        for attribute in present[number - 1 :]:
            taken = best[number - 1][attribute.num - 1] + _agreement(column, attribute, known)
            row[attribute.num] = max(taken, row[attribute.num - 1] + _passed(attribute, known))
        best.append(row)
    found = [0] * len(columns)
    place = width
    for number in range(len(columns), 0, -1):
        while best[number][place] == best[number][place - 1] + _passed(present[place - 1], known):
            place -= 1
        found[number - 1] = place
        place -= 1
    return found


def _passed(attribute: RemoteAttribute, known: Mapping[int, KnownColumn]) -> int:
    before = known.get(attribute.num)
    return _PASSED if before is not None and before.is_sent and not attribute.dropped else 0


def _agreement(column: SentColumn, attribute: RemoteAttribute, known: Mapping[int, KnownColumn]) -> int:
    before = known.get(attribute.num)
    score = 0
    if not attribute.dropped:
        score += 1 + _NAMED * (attribute.name == column.name) + _TYPED * (attribute.type == column.sent_as)
    if before is not None:
        score += _NAMED * (before.name == column.name) + _TYPED * (before.type == column.sent_as)
    elif attribute.dropped:
        score += 1  # it was added and is dropped again
    return score
