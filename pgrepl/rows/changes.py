"""The changes of single rows by INSERT, UPDATE, DELETE, MERGE and ON CONFLICT, and how they become writes of the lake;
and the tables that a scan of a parent reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import children
from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.read.data_file import RowPlace
    from pgrepl.lake.write.statement import Write

_STORED = frozenset("rm")


@frozen
class Member:
    """A table that has rows, in the scan of itself or of a parent."""

    relation: Relation
    numbers: dict[int, int]  # the scanned table's attnum → its own

    def bounds(self, bounds: Sequence[Bound]) -> list[Bound]:
        numbers = self.numbers
        return [b if (own := numbers[b.attnum]) == b.attnum else replace(b, attnum=own) for b in bounds]


def members(session: Session, relid: int, inh: bool) -> list[Member]:
    """The tables that a scan reads, in its order; with `inh` False (ONLY), the table alone."""
    top = relation(session, relid)
    relations = [top]
    if inh and top.kind == "p":
        from pgrepl.expr.partition_constraint import leaf_partitions

        relations = list(leaf_partitions(session, top.oid))
    elif inh:
        for parent in relations:
            relations += [relation(session, child) for child in children(session, parent.oid)]
        relations = list({rel.oid: rel for rel in relations}.values())
    return [Member(rel, _numbers(top, rel)) for rel in relations if rel.kind in _STORED]


def _numbers(top: Relation, member: Relation) -> dict[int, int]:
    if top.oid == member.oid:
        return {a.num: a.num for a in top.columns}
    own = {a.name: a.num for a in member.columns}
    return {a.num: own[a.name] for a in top.columns}


Row = tuple[Any, ...]  # column n of a table stands at n - 1


class ModifyKind(Enum):
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    MERGE = "MERGE"


@frozen
class ModifiedRow:
    """The change of one row.

    An INSERT fills `table` (the relation it names) and `new` (in that relation's layout). UPDATE and DELETE fill the
    table where the row stands (a leaf, or a child by inheritance), its place, and the whole old row; UPDATE also the
    whole new row. Both rows are in the layout of that table. `RowChecks.local` returns changes whose `to` is the table
    of the new row, and whose `new` is in the layout of that one.
    """

    table: int
    place: RowPlace | None = None
    old: Row | None = None
    new: Row | None = None  # None: the row is deleted
    to: int = 0


@frozen
class ConflictAction:
    """ON CONFLICT's action for a row whose key exists already.

    `arbiters` are unique indexes of the relation the statement names (empty: all of them). `update` gets the table, the
    existing row and the proposed row, both in that table's layout, and returns the row's new version, or None when its
    WHERE is not true. `update` None is DO NOTHING. `RowChecks.local` returns an updated row as a change with a place,
    and nothing for a row that was left alone.
    """

    arbiters: frozenset[int] = frozenset()
    update: Callable[[Relation, Row, Row], Row | None] | None = None
    modified: frozenset[int] = frozenset()  # the columns that DO UPDATE sets, by the named relation


def write_changes(session: Session, changes: Sequence[ModifiedRow]) -> None:
    """Write what `RowChecks.local` returned, at the running statement's snapshot; the session holds the write lock."""
    from pgrepl.lake import commit

    writes = _by_table(session, changes)
    if not writes:
        return
    for write in writes.values():
        write.keeps_places |= bool(session.unsettled)
    commit.record_writes(session, list(writes.values()))
    if session.unsettled:
        for table, write in writes.items():
            for place in write.inserted:
                _touch(session, table, place.row)


def _touch(session: Session, table: int, row: int) -> None:
    """Note that a row was changed or inserted while statements around this one run."""
    session.touches += 1
    session.touched[table, row] = session.touches


def _by_table(session: Session, changes: Sequence[ModifiedRow]) -> dict[int, Write]:
    """One write for each table, in the order in which the changes come to the tables."""
    from pgrepl.lake.table import lake_table
    from pgrepl.lake.write.statement import Write

    writes: dict[int, Write] = {}
    arriving: dict[int, list[Row]] = {}

    def of(table: int) -> Write:
        write = writes.get(table)
        if write is None:
            write = writes[table] = Write(session, lake_table(session, table))
        return write

    for change in changes:
        if session.unsettled and change.place is not None:
            _touch(session, change.table, change.place.row)
        if change.new is not None and change.place is not None and change.to == change.table:
            write = of(change.table)
            write.update(change.place, write.table.lake_row(change.new))
            continue
        if change.place is not None:
            of(change.table).delete([change.place])
        if change.new is not None:
            write = of(change.to)
            arriving.setdefault(change.to, []).append(write.table.lake_row(change.new))
    for table, rows in arriving.items():
        of(table).insert(rows)
    return writes


def define_now(session: Session) -> None:
    """Bring the running statement's changes of definitions into the lake, before rows are read or written."""
    if session.transaction.numbering.definition_changes:
        session.define_in_lake()


def next_snapshot(session: Session) -> None:
    """Later writes of the running statement belong to a further snapshot."""
    session.transaction.numbering.store_snapshot()
