"""Functions of uuid: random ones, those in the order of time (version 7), and what is in one."""

from __future__ import annotations

import secrets
import time
from uuid import UUID

from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.functions.times.date_arithmetic import timestamptz_pl_interval
from pgrepl.types.times.interval import Interval

implements = Family()

_STEP = 245  # nanoseconds: the least that 12 bits of a millisecond tell apart
_UNIX_EPOCH = 946_684_800_000_000  # microseconds from 1970 to 2000
_GREGORIAN_EPOCH = (2451545 - 2299161) * 86_400_000_000  # microseconds from the calendar's first day to 2000
_last = 0


@implements("gen_random_uuid")
def gen_random_uuid() -> UUID:
    return UUID(bytes=secrets.token_bytes(16), version=4)


def _later_nanoseconds() -> int:
    """The time since 1970, later with each call of this process (get_real_time_ns_ascending)."""
    global _last
    _last = max(time.time_ns(), _last + _STEP)
    return _last


def _made(nanoseconds: int) -> UUID:
    """48 bits of milliseconds, 12 of a fraction of one, the rest at random (generate_uuidv7)."""
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    fraction = rest * 4096 // 1_000_000
    head = (milliseconds & ((1 << 48) - 1)) << 16 | 7 << 12 | fraction
    return UUID(int=head << 64 | 2 << 62 | secrets.randbits(62))


@implements("uuidv7")
def uuidv7() -> UUID:
    return _made(_later_nanoseconds())


@implements("uuidv7_interval", context=True)
def uuidv7_interval(call: Call, shift: Interval) -> UUID:
    now = _later_nanoseconds()
    moved = timestamptz_pl_interval(call, now // 1000 - _UNIX_EPOCH, shift)
    return _made((moved + _UNIX_EPOCH) * 1000 + now % 1000)


def _is_rfc(value: UUID) -> bool:
    return value.bytes[8] & 0xC0 == 0x80


@implements("uuid_extract_version")
def uuid_extract_version(value: UUID) -> int | None:
    return value.bytes[6] >> 4 if _is_rfc(value) else None


@implements("uuid_extract_timestamp", context=True)
def uuid_extract_timestamp(call: Call, value: UUID) -> int | None:
    """The timestamp of a uuid: version 1 counts 100 nanoseconds since the Gregorian calendar began, version 7, which 17
    does not know, milliseconds since 1970."""
    version = uuid_extract_version(value)
    if version == 1:
        return value.time // 10 - _GREGORIAN_EPOCH
    if version == 7 and call.context.release >= 18:
        return (value.int >> 80) * 1000 - _UNIX_EPOCH
    return None
