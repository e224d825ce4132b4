"""Columns of bytes (Arrow's large binaries) that are made of parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa


def records(made: npt.NDArray[Any]) -> pa.LargeBinaryArray:
    """Records of fixed width as bytes."""
    import numpy as np
    import pyarrow as pa

    width = made.dtype.itemsize
    ends = np.arange(0, (len(made) + 1) * width, width, dtype=np.int64)
    return pa.Array.from_buffers(pa.large_binary(), len(made), [None, pa.py_buffer(ends), pa.py_buffer(made.tobytes())])


def joined(parts: Iterable[Any]) -> pa.LargeBinaryArray:
    """The bytes of several columns, and of constants, one behind the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    empty = pa.scalar(b"", pa.large_binary())
    given = [pa.scalar(each, pa.large_binary()) if isinstance(each, bytes) else each for each in parts]
    return pc.binary_join_element_wise(*given, empty)
