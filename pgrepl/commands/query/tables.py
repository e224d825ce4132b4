"""User tables as a query sees them: a table, or all below a parent, with system columns.

A scan of a parent reads every table of its tree: partitions in the order of their bounds, children by their level. Each
has column numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.inheritance import children
from pgrepl.catalog.relation import Relation, relation
from pgrepl.expr.range_table import TABLEOID
from pgrepl.expr.tree import PLACE, PinnedRow, Rte, RteKind
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.place import Place

_STORED = frozenset("rm")
_CTID, _XMIN = -1, -2
# rows of a page, as far as ctid can tell: offsets have 16 bits
PAGE = 65535
# what the other system columns say of a row that everybody sees (FrozenTransactionId)
SETTLED = {_XMIN: 2, -3: 0, -4: 0, -5: 0}


@frozen
class Member:
    """A table that has rows, in the scan of itself or of a parent."""

    relation: Relation
    numbers: dict[int, int]  # the scanned table's attnum → its own

    def bounds(self, bounds: Sequence[Bound]) -> list[Bound]:
        return [replace(bound, attnum=self.numbers[bound.attnum]) for bound in bounds]


def is_user_table(entry: Rte) -> bool:
    """Whether its rows are in the lake."""
    from pgrepl.catalog.classes import FIRST_NORMAL_OID

    return entry.kind is RteKind.RELATION and entry.relkind in ("r", "p", "m") and entry.relid >= FIRST_NORMAL_OID


def members(session: Session, relid: int, inh: bool) -> list[Member]:
    """The tables that a scan reads, in its order; with `inh` False (ONLY) those below are left out."""
    top = relation(session, relid)
    found = [top]
    if inh and top.kind == "p":
        from pgrepl.expr.partition_order import leaf_partitions

        found = list(leaf_partitions(session, top.oid))
    elif inh:
        for parent in found:
            found += [relation(session, child) for child in children(session, parent.oid)]
        found = list({each.oid: each for each in found}.values())
    return [Member(each, _numbers(top, each)) for each in found if each.kind in _STORED]


def _numbers(top: Relation, member: Relation) -> dict[int, int]:
    if top.oid == member.oid:
        return {a.num: a.num for a in top.columns}
    own = {a.name: a.num for a in member.columns}
    return {a.num: own[a.name] for a in top.columns}


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


def _system_column(relid: int, attnum: int) -> Callable[[Place], Any]:
    if attnum == PLACE:
        return lambda place: place
    if attnum == _CTID:
        return lambda place: ctid(place.row)
    value = system_value(relid, attnum)
    return lambda place: value


def ctid(row: int) -> tuple[int, int]:
    """A row's number as (page, place on it), counted from (0,1)."""
    return row // PAGE, row % PAGE + 1
