"""Replica identity: what the publisher's log has of a row that was updated or deleted (ExtractReplicaIdentity).

Of a deleted row, and of an updated one whose key has changed, that is the key; with REPLICA IDENTITY FULL it is the
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
    """`whole`: REPLICA IDENTITY FULL. `columns`: the numbers of those in the identity's index."""

    whole: bool
    columns: frozenset[int]

    @classmethod
    def of(cls, session: Session, table: Relation) -> ReplicaIdentity:
        return cls(table.replident == "f", identity_key_columns(session, table))

    def covers(self, number: int) -> bool:
        """Whether the log has the old value of a column."""
        return self.whole or number in self.columns

    def image(self, old: Row, new: Row | None) -> Row | None:
        """The old row as the log has it, columns that are not covered as NULL; None: the log has nothing of it. `new`:
        what it was updated to."""
        if self.whole:
            return old
        if not self.columns or (new is not None and not self._is_changed(old, new)):
            return None
        return tuple([value if number in self.columns else None for number, value in enumerate(old, 1)])

    def _is_changed(self, old: Row, new: Row) -> bool:
        return any(old[number - 1] != new[number - 1] for number in self.columns)

    def have_image(self, deleted: Flags, updated: Flags, has_changed: Callable[[Flags], Flags]) -> Flags:
        """Of which of many changes the log has something of the old row. `has_changed` says it of the keys of those
        updated."""
        if self.whole:
            return deleted | updated
        if not self.columns:
            return deleted & False
        return deleted | has_changed(updated) if updated.any() else deleted


def differing(olds: Iterable[pa.Array], news: Iterable[pa.Array], count: int) -> Flags:
    """Which of `count` keys are not the same, by the columns of old and new ones."""
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
