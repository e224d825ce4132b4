"""Columns of numbers, dates and times in binary form, as PostgreSQL sends them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from pgrepl.ground.lazy import np, pa
from pgrepl.types import oids

NUMBERS = {
    oids.INT2: ">i2", oids.INT4: ">i4", oids.INT8: ">i8", oids.FLOAT4: ">f4", oids.FLOAT8: ">f8", oids.DATE: ">i4",
    oids.TIME: ">i8", oids.TIMESTAMP: ">i8", oids.TIMESTAMPTZ: ">i8",
}  # fmt: skip
_DAY = 86_400_000_000
_EPOCH = 10_957  # days from 1970 to 2000
_FIRST, _LAST = -730_119, 2_921_939  # the days of the years 1 to 9999, from 2000
_BOUNDS = {
    oids.DATE: (_FIRST, _LAST),
    oids.TIMESTAMP: (_FIRST * _DAY, (_LAST + 1) * _DAY - 1),
    oids.TIMESTAMPTZ: (_FIRST * _DAY, (_LAST + 1) * _DAY - 1),
    oids.TIME: (0, _DAY - 1),
}


def from_any_byte(raw: npt.NDArray[np.uint8], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Values of a type, one from each byte on: a third of the time of windows."""
    kind = np.dtype(kind)
    values: npt.NDArray[Any] = np.ndarray((max(len(raw) - kind.itemsize + 1, 0),), kind, raw, 0, (1,))
    return values


def native_numbers(raw: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], typoid: int) -> npt.NDArray[Any]:
    """The numbers of one of the NUMBERS at these places; those of NULLs are arbitrary."""
    found: npt.NDArray[Any] = from_any_byte(raw, NUMBERS[typoid])[at]
    return found.astype(found.dtype.newbyteorder("="))


def number_array(
    typoid: int, values: npt.NDArray[Any], present: npt.NDArray[np.bool_], kind: pa.DataType
) -> pa.Array | None:
    """Numbers as an Arrow array of a type; None: Arrow lacks such a value (infinity, a year before Christ)."""
    bounds = _BOUNDS.get(typoid)
    if bounds is None:
        array = pa.array(values, mask=~present, from_pandas=False)
        return array if array.type == kind else array.cast(kind)
    known = values[present]
    if len(known) and (known.min() < bounds[0] or known.max() > bounds[1]):
        return None
    shift = {oids.DATE: _EPOCH, oids.TIME: 0}.get(typoid, _EPOCH * _DAY)
    shifted = np.where(present, values, 0) + values.dtype.type(shift)
    return pa.array(shifted, mask=~present, from_pandas=False).view(kind)
