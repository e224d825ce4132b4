"""Bitmaps of row positions: one bit for each row of a file, 64 in a long.

Spark tests a bit for each row where a join with the positions would cost several scans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def pack(positions: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64]:
    """The bitmap of a file with `rows` rows, with the bits at these positions set."""
    import numpy as np

    bits = np.zeros(-(-rows // 64) * 64, np.uint8)
    bits[positions] = 1
    packed: npt.NDArray[np.int64] = np.packbits(bits, bitorder="little").view("<i8")
    return packed


def test(bitmap: str, position: str) -> str:
    """The Spark SQL for the bit of a position, 0 or 1."""
    return f"getbit({bitmap}[CAST(shiftright({position}, 6) AS INT)], CAST({position} & 63 AS INT))"
