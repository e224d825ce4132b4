"""The tables that a scan reads: a table, or all below a parent.

A scan of a parent reads every table of its tree: partitions in the order of their bounds, children by their level. Each
has column numbers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.inheritance import children
from pgrepl.catalog.relation import Relation, relation
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound

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
