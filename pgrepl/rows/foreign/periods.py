"""Foreign keys with PERIOD: the periods of the referenced rows must together cover that of the referencing row. Their
other columns are equal, as those of any foreign key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import relation
from pgrepl.expr.functions.containers import in_common, overlaps
from pgrepl.rows.foreign import lookup
from pgrepl.rows.foreign.key import ForeignKey
from pgrepl.rows.foreign.lookup import EqualValues, Key, Look, RowsOfKeys, newest_rows, rows_at_snapshot
from pgrepl.rows.foreign.statements import check_statement
from pgrepl.rows.locking import Standing
from pgrepl.rows.periods import Cover, Period

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

PeriodsOfKeys = dict[Key, list[tuple[Period, Standing]]]


def present(session: Session, key: ForeignKey, values: Sequence[Key]) -> set[int]:
    """The numbers of the keys of the referencing table whose periods are covered (RI_FKey_check)."""
    covers = _covers(_referenced(session, key, values))
    return {number for number, (*others, period) in enumerate(values) if covers[tuple(others)].covers(period)}


def references(session: Session, key: ForeignKey, values: Sequence[Key], *, restrict: bool) -> RowsOfKeys:
    """The rows that reference keys of the referenced table for a time that no row covers now (ri_restrict)."""
    keys = _others(values)
    covers = _covers(_periods(session, key.referenced, key.referenced_columns, keys, None, newest_rows))
    convert = lookup.converters(session, key, to_referenced=False)[:-1]
    used = _periods(session, key.referencing, key.columns, keys, convert, newest_rows)
    bare = {each: [found for found in rows if not covers[each].covers(found[0])] for each, rows in used.items()}
    found: RowsOfKeys = {}
    for number, (*others, period) in enumerate(values):
        cover = covers[tuple(others)]
        for one, row in bare[tuple(others)]:
            if overlaps(one, period) and not cover.covers(in_common(one, period)):
                found.setdefault(number, []).append(row)
    return found


def lock_referenced(session: Session, key: ForeignKey, values: Sequence[Key]) -> None:
    """Lock the rows whose periods cover parts of those of the keys."""
    wanted: dict[Key, list[Period]] = {}
    for *others, period in values:
        wanted.setdefault(tuple(others), []).append(period)
    there = _referenced(session, key, values, rows_at_snapshot)
    rows = []
    for each, periods in wanted.items():
        asked = Cover(periods)
        rows += [row for period, row in there[each] if asked.meets(period)]
    lookup.lock_key_share(session, key, rows, check_statement)


def _referenced(session: Session, key: ForeignKey, values: Sequence[Key], look: Look | None = None) -> PeriodsOfKeys:
    """The referenced rows, by keys of the referencing table."""
    partitioned = relation(session, key.referenced).kind == "p"
    look = look or (newest_rows if partitioned else rows_at_snapshot)
    convert = lookup.converters(session, key, to_referenced=True)[:-1]
    return _periods(session, key.referenced, key.referenced_columns, _others(values), convert, look)


def _others(values: Sequence[Key]) -> list[Key]:
    """The keys without their periods, each once."""
    return list(dict.fromkeys(each[:-1] for each in values))


def _covers(found: PeriodsOfKeys) -> dict[Key, Cover]:
    return {each: Cover(period for period, _ in there) for each, there in found.items()}


def _periods(
    session: Session,
    table: int,
    columns: Sequence[int],
    keys: Sequence[Key],
    convert: Sequence[EqualValues] | None,
    look: Look,
) -> PeriodsOfKeys:
    """The periods of the rows of one side, by the other columns of the key."""
    wanted, numbers = lookup.converted(keys, convert)
    found: PeriodsOfKeys = {each: [] for each in keys}
    for member in lookup.tables_of(session, table):
        *others, last = [member.numbers[number] for number in columns]
        for n, (period, place) in look(session, member.relation.oid, others, wanted, [last]):
            if period is not None:
                found[keys[numbers[n]]].append((period, Standing(member.relation.oid, place)))
    return found
