"""A fast reader of dates and timestamps in plain ISO form, whose meaning does not depend on DateStyle.

`2024-02-29`, `2024-02-29 12:30:00.5`, `2024-02-29T12:30:00+02`. Other texts are left to datetime_input.
"""

from __future__ import annotations

import re
from datetime import date

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    _DATE.pattern + r"[ T]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?"
    r"(?:([+-])(0[0-9]|1[0-4])(?::?([0-5][0-9]))?)?"
)
_EPOCH = date(2000, 1, 1).toordinal()


def plain_date(text: str) -> int | None:
    """Days since 2000-01-01; None: the text is not in plain form, or not a valid date."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _EPOCH
    except ValueError:
        return None


def plain_timestamp(text: str, *, zoned: bool) -> int | None:
    """Microseconds since 2000-01-01; None: not in plain form, or not valid. `zoned`: the text must have a UTC
    offset."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    if zoned and sign is None:
        return None
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    seconds = days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    if zoned:
        offset = int(hours) * 3600 + int(minutes or 0) * 60
        seconds -= offset if sign == "+" else -offset
    return seconds * 1_000_000 + (int(fraction.ljust(6, "0")) if fraction else 0)
