"""The rows of user tables with their system columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.expr.range_table import TABLEOID
from pgrepl.expr.tree import PLACE, PinnedRow, Rte, RteKind
from pgrepl.rows.members import Member
from pgrepl.types.tid import ctid

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.ctid import RowPlace

_CTID, _XMIN = -1, -2
# the values of the other system columns for a row that is visible to all transactions (FrozenTransactionId)
SETTLED = {_XMIN: 2, -3: 0, -4: 0, -5: 0}


def is_user_table(entry: Rte) -> bool:
    """Whether the entry's rows are in the lake."""
    from pgrepl.catalog.classes import FIRST_NORMAL_OID

    return entry.kind is RteKind.RELATION and entry.relkind in ("r", "p", "m") and entry.relid >= FIRST_NORMAL_OID


def table_rows(
    session: Session, scanned: Sequence[Member], attnums: Sequence[int], bounds: Sequence[Bound] = ()
) -> Iterator[tuple[Any, ...]]:
    """The rows of a scan: these columns, those below zero (system columns) last."""
    for member in scanned:
        yield from _member_rows(session, member, attnums, bounds)


def _member_rows(
    session: Session, member: Member, attnums: Sequence[int], bounds: Sequence[Bound]
) -> Iterator[tuple[Any, ...]]:
    from pgrepl.lake import local
    from pgrepl.lake.table import lake_table

    table = lake_table(session, member.relation.oid)
    own = [member.numbers[n] for n in attnums if n > 0]
    system = [n for n in attnums if n < 0]
    below = member.bounds(bounds)
    if not system:
        return iter(local.rows(session, table, own, bounds=below))
    if _CTID not in system and PLACE not in system:
        fixed = tuple([system_value(member.relation.oid, n) for n in system])
        return ((*row, *fixed) for row in local.rows(session, table, own, bounds=below))
    makers = [_system_column(member.relation.oid, n) for n in system]
    return (
        (*row[:-1], *[make(row[-1]) for make in makers])
        for row in local.rows(session, table, own, bounds=below, places=True)
    )


def pinned_row(pinned: PinnedRow, attnums: Sequence[int]) -> tuple[Any, ...]:
    return tuple([pinned.row[n - 1] if n > 0 else _system_column(pinned.table, n)(pinned.place) for n in attnums])


def system_value(relid: int, attnum: int) -> int:
    """A system column that is the same for all rows of a table."""
    return relid if attnum == TABLEOID else SETTLED[attnum]


def _system_column(relid: int, attnum: int) -> Callable[[RowPlace], Any]:
    if attnum == PLACE:
        return lambda place: place
    if attnum == _CTID:
        return lambda place: ctid(place.row)
    value = system_value(relid, attnum)
    return lambda place: value
