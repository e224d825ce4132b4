"""The changes of single rows by INSERT, UPDATE, DELETE, MERGE and ON CONFLICT, and the tables that a scan of a parent
reads.
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


# --- changes ----------------------------------------------------------------------------------------------------------


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
