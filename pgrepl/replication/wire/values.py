"""Values that a server sends in binary form (`binary = true`), one by one; binary_columns.py has whole columns.

The subscriber's column reads the bytes with its own receive function, whatever the publisher's type meant by them
(slot_store_data). Texts are the same in both forms.
"""

from __future__ import annotations

from typing import Any

from pgrepl.ground.errors import Declined
from pgrepl.replication.wire.text import WIRE_STYLE
from pgrepl.types import oids
from pgrepl.types.binary import receives
from pgrepl.types.binary_scalars import BinaryMessage
from pgrepl.types.text import write_text

TEXTS = frozenset((oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.JSON))
_FIRST_OF_USERS = 16384  # FirstNormalObjectId


class BinaryValue(bytes):
    """A value in the binary form of the publisher's type."""


def binary_value(typoid: int, data: bytes) -> str | BinaryValue:
    """A value of the publisher's type as it was sent; a text as such."""
    return data.decode() if typoid in TEXTS else BinaryValue(data)


def as_text(value: Any, typoid: int) -> Any:
    """A value of the publisher's type as if it had been sent as text; Declined: only the publisher knows the type."""
    if not isinstance(value, BinaryValue):
        return value
    receive = receives(typoid) if typoid < _FIRST_OF_USERS else None
    if receive is None:
        raise Declined("a binary value of a type that only the publisher knows")
    return write_text(receive(BinaryMessage(value), -1, WIRE_STYLE), typoid, WIRE_STYLE)
