"""Values on the wire: their text, and whether this session reads it as it was written; and the binary form
(`binary = true`), one by one and as columns of numbers, dates and times.

The subscriber's column reads the bytes with its own receive function, whatever the publisher's type meant by them
(slot_store_data). Texts are the same in both forms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import Declined
from pgrepl.ground.lazy import np, pa
from pgrepl.types import oids
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session


TEXTS = frozenset((oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.JSON))
_FIRST_OF_USERS = 16384  # FirstNormalObjectId
_GREENWICH = ("GMT", "UTC", "Etc/UTC")
# the style of values on the wire, whatever the session's settings (walsender and apply worker call set_config_option)
WIRE_STYLE = TextStyle(datestyle="ISO, MDY", timezone="GMT", intervalstyle="postgres", extra_float_digits=3)
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


class BinaryValue(bytes):
    """A value in the binary form of the publisher's type."""


def binary_value(typoid: int, data: bytes) -> str | BinaryValue:
    """A value of the publisher's type as it was sent; a text as such."""
    return data.decode() if typoid in TEXTS else BinaryValue(data)


def as_text(value: Any, typoid: int) -> Any:
    """A value of the publisher's type as if it had been sent as text; Declined: only the publisher knows the type."""
    if not isinstance(value, BinaryValue):
        return value
    from pgrepl.types.binary import receives
    from pgrepl.types.binary_scalars import BinaryMessage

    receive = receives(typoid) if typoid < _FIRST_OF_USERS else None
    if receive is None:
        raise Declined("a binary value of a type that only the publisher knows")
    return write_text(receive(BinaryMessage(value), -1, WIRE_STYLE), typoid, WIRE_STYLE)


def wire_style(session: Session) -> TextStyle:
    """WIRE_STYLE with the names of the session's catalog."""
    return replace(WIRE_STYLE, lookup=session.text_style.lookup)


def checking_style(session: Session) -> TextStyle:
    """The same, and the session checks the values of domains."""
    ours = session.text_style
    return replace(wire_style(session), check_domain=ours.check_domain, check_domains=ours.check_domains)


def reads_as_written(session: Session) -> bool:
    """Whether this session's settings read a text as the publisher wrote it. The subscription's owner, or its database,
    may have another time zone, or another order of day and month."""
    ours = session.text_style
    return (ours.datestyle, ours.intervalstyle) == (WIRE_STYLE.datestyle, WIRE_STYLE.intervalstyle) and (
        ours.timezone in _GREENWICH
    )


# --- numbers in binary form -------------------------------------------------------------------------------------------


def from_any_byte(raw: npt.NDArray[np.uint8], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Values of a type, one from each byte on: a third of the time of windows."""
    kind = np.dtype(kind)
    values: npt.NDArray[Any] = np.ndarray((max(len(raw) - kind.itemsize + 1, 0),), kind, raw, 0, (1,))
    return values


def native_numbers(raw: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], typoid: int) -> npt.NDArray[Any]:
    """The numbers of one of the NUMBERS at these places; those of NULLs are arbitrary."""
    numbers: npt.NDArray[Any] = from_any_byte(raw, NUMBERS[typoid])[at]
    return numbers.astype(numbers.dtype.newbyteorder("="))


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
