"""Columns of the target that are not sent, as if they were: an INSERT sends the default, an UPDATE leaves the value
unchanged (see unchanged.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.lake.kernels.part import repeated
from pgrepl.replication.subscriber.apply.columns.described import DescribedTable
from pgrepl.replication.wire.batch import FIRST_STORED, UPDATE, Kept, RelationChanges

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[Any]


def with_unsent(described: DescribedTable, changes: RelationChanges) -> RelationChanges:
    return _Completed(changes, described.defaults, None) if described.defaults else changes


class _Completed:
    """RelationChanges with more places than are sent. `defaults`: an array of one for each of them."""

    def __init__(
        self, sent: RelationChanges, defaults: Mapping[int, pa.Array], kept: Mapping[int, Kept] | None
    ) -> None:
        """`kept` None: where unchanged values come from is not known yet."""
        self.relation, self.count = sent.relation, sent.count
        self.seq, self.op, self.has_old = sent.seq, sent.op, sent.has_old
        updates = self.op == UPDATE
        self.unchanged: Mapping[int, Numbers] = {**sent.unchanged}
        if kept is None and updates.any():
            self.unchanged |= dict.fromkeys(defaults, updates)
        self._sent = sent
        self._defaults = defaults
        self._kept = kept or {}

    def with_kept(self, kept: Mapping[int, Kept]) -> RelationChanges:
        sent = {place: each for place, each in kept.items() if place not in self._defaults}
        own = {place: each for place, each in kept.items() if place in self._defaults}
        return _Completed(self._sent.with_kept(sent), self._defaults, own)

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        sent = iter(self._sent.pick(self._sent_ones(places), messages, old=old))
        return [self._value(place, messages) if place in self._defaults else next(sent) for place in places]

    def _value(self, place: int, messages: Numbers) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        default, kept = self._defaults[place], self._kept.get(place)
        if kept is None:
            return repeated(default, len(messages))
        source = kept.source[messages]
        at = np.where(source < 0, 1 + FIRST_STORED - source, 0)
        return pa.concat_arrays([repeated(default, 1), kept.stored]).take(pa.array(at))

    def prepare(self, places: Sequence[int], most: int) -> None:
        self._sent.prepare(self._sent_ones(places), most)

    def fits(self, places: Sequence[int], most: int) -> bool:
        own = sum(each.size for each in self._kept.values())
        return self._sent.fits(self._sent_ones(places), most - own)

    def _sent_ones(self, places: Sequence[int]) -> list[int]:
        return [place for place in places if place not in self._defaults]
