"""Replica identity: the old row of an UPDATE or DELETE in the publisher's WAL (ExtractReplicaIdentity).

For a deleted row, and for an updated one whose key has changed, that is the key; with REPLICA IDENTITY FULL it is the
whole row. The rule stands here once, for single rows and for whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.indexes import identity_key_columns
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session

    Flags = npt.NDArray[Any]

Row = tuple[Any, ...]


@frozen
class ReplicaIdentity:
    """`whole`: REPLICA IDENTITY FULL. `columns`: the numbers of the identity index's columns."""

    whole: bool
    columns: frozenset[int]

    @classmethod
    def of(cls, session: Session, table: Relation) -> ReplicaIdentity:
        return cls(table.replident == "f", identity_key_columns(session, table))

    def covers(self, number: int) -> bool:
        """Whether the old value of a column is logged."""
        return self.whole or number in self.columns

    def image(self, old: Row, new: Row | None) -> Row | None:
        """The old row as it is logged, with NULL in columns that are not covered; None: no old row is logged. `new`:
        the new row of an UPDATE."""
        if self.whole:
            return old
        if not self.columns or (new is not None and not self._is_changed(old, new)):
            return None
        return tuple([value if number in self.columns else None for number, value in enumerate(old, 1)])

    def _is_changed(self, old: Row, new: Row) -> bool:
        return any(old[number - 1] != new[number - 1] for number in self.columns)

    def have_image(self, deleted: Flags, updated: Flags, has_changed: Callable[[Flags], Flags]) -> Flags:
        """A mask of the changes for which an old row is logged. `has_changed` says whether the key of an updated row
        has changed."""
        if self.whole:
            return deleted | updated
        if not self.columns:
            return deleted & False
        return deleted | has_changed(updated) if updated.any() else deleted


def differing(olds: Iterable[pa.Array], news: Iterable[pa.Array], count: int) -> Flags:
    """A mask of the keys that differ, by the columns of `count` old and new ones."""
    import numpy as np
    import pyarrow.compute as pc

    found = np.zeros(count, np.bool_)
    for old, new in zip(olds, news, strict=True):
        if old.equals(new):
            continue
        differs = pc.fill_null(pc.not_equal(old, new), True).to_numpy(zero_copy_only=False)
        if old.null_count and new.null_count:
            nothing = pc.and_(pc.is_null(old), pc.is_null(new)).to_numpy(zero_copy_only=False)
            differs = differs & ~nothing
        found |= differs
    return found
