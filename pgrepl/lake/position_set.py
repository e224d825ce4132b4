"""Sets of the positions that a write deletes from a data file, in little memory.

Positions are added in portions, in any order, also twice. Few take four bytes each; many a bit for each row up to the
last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.lake.ctid import once

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Positions = npt.NDArray[np.int64]

_BITS = 32  # of a position in the list


class PositionSet:
    """A set of positions."""

    def __init__(self) -> None:
        self._listed: list[Any] = []
        self._count = 0  # of positions in the list
        self._top = 0  # behind the last position
        self._bits: Any = None  # eight rows in a byte

    @classmethod
    def of(cls, positions: Positions) -> PositionSet:
        found = cls()
        found.add(positions)
        return found

    def add(self, positions: Positions) -> None:
        import numpy as np

        if not len(positions):
            return
        self._top = max(self._top, int(positions.max()) + 1)
        if self._bits is not None:
            self._set(positions)
            return
        self._listed.append(positions.astype(np.uint32 if self._top <= 1 << _BITS else np.int64))
        self._count += len(positions)
        if self._count * _BITS > self._top:
            self._bits = np.zeros(0, np.uint8)
            listed, self._listed, self._count = self._listed, [], 0
            for each in listed:
                self._set(each.astype(np.int64))

    def _set(self, positions: Positions) -> None:
        import numpy as np

        missing = -(-self._top // 8) - len(self._bits)
        if missing > 0:
            self._bits = np.concatenate([self._bits, np.zeros(missing, np.uint8)])
        first = int(positions.min()) // 8
        flags = np.zeros(int(positions.max()) + 1 - 8 * first, np.uint8)
        flags[positions - 8 * first] = 1
        packed = np.packbits(flags)
        self._bits[first : first + len(packed)] |= packed

    @property
    def positions(self) -> Positions:
        """The distinct positions, ascending."""
        import numpy as np

        if self._bits is not None:
            return np.flatnonzero(np.unpackbits(self._bits))
        return once(np.concatenate([np.empty(0, np.int64), *self._listed]))

    def __len__(self) -> int:
        return len(self.positions)
