"""The calendar: Julian days, and the broken-down time that parsing, printing and date arithmetic share.

PostgreSQL's calendar is the Gregorian one in both directions, from 4714 BC on; year 0 is 1 BC. Days and microseconds
count from 2000-01-01. One constant stands for infinity in all date/time types.
"""

from __future__ import annotations

from dataclasses import dataclass

INFINITY = 2**63 - 1

EPOCH_JULIAN = 2451545  # 2000-01-01
UNIX_EPOCH_JULIAN = 2440588
UNIX_EPOCH_DAYS = UNIX_EPOCH_JULIAN - EPOCH_JULIAN
DATE_END_JULIAN = 2147483494
MIN_TIMESTAMP = -211813488000000000
END_TIMESTAMP = 9223371331200000000

USECS_PER_SEC = 1_000_000
USECS_PER_MINUTE = 60 * USECS_PER_SEC
USECS_PER_HOUR = 60 * USECS_PER_MINUTE
USECS_PER_DAY = 24 * USECS_PER_HOUR
SECS_PER_DAY = 86400
UNIX_EPOCH_USECS = UNIX_EPOCH_DAYS * USECS_PER_DAY

MONTHS = tuple("January February March April May June July August September October November December".split())
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


@dataclass(slots=True)
class Fields:
    """A broken-down date and time (pg_tm). year counts astronomically (0 is 1 BC); zone is in seconds west of
    Greenwich."""

    year: int = 0
    month: int = 0
    day: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0
    usec: int = 0
    yday: int = 0
    zone: int = 0
    isdst: int = -1
    abbreviation: str | None = None


def julian(year: int, month: int, day: int) -> int:
    """The Julian day of a date, as date2j counts: day 0 is 4714-11-24 BC. Months and days may run over."""
    if month > 2:
        month, year = month + 1, year + 4800
    else:
        month, year = month + 13, year + 4799
    century = year // 100
    days = year * 365 - 32167
    days += year // 4 - century + century // 4
    return days + 7834 * month // 256 + day


def from_julian(day: int) -> tuple[int, int, int]:
    """Year, month, day of a Julian day."""
    shifted = day + 32044  # days since 4801-03-01 BC
    cycle = (4 * shifted + 3) // 146097
    rest = shifted - 146097 * cycle // 4
    year = (4 * rest + 3) // 1461
    rest -= 1461 * year // 4
    month = (5 * rest + 2) // 153
    return 100 * cycle + year - 4800 + month // 10, month + 3 - 12 * (month // 10), rest - (153 * month + 2) // 5 + 1


def weekday(julian_day: int) -> int:
    """The day of the week; 0 is Sunday."""
    return (julian_day + 1) % 7


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def is_valid_julian(year: int, month: int) -> bool:
    """Whether a date is in the range of PostgreSQL's Julian day routines (IS_VALID_JULIAN)."""
    return (year > -4713 or (year == -4713 and month >= 11)) and (year < 5874898 or (year == 5874898 and month < 6))


def is_valid_timestamp(value: int) -> bool:
    return MIN_TIMESTAMP <= value < END_TIMESTAMP


def is_valid_date(days: int) -> bool:
    return -EPOCH_JULIAN <= days < DATE_END_JULIAN - EPOCH_JULIAN


def split_day(value: int) -> tuple[int, int]:
    """Microseconds since 2000-01-01 as days and microseconds of the day."""
    return divmod(value, USECS_PER_DAY)


def fields_of_date(days: int) -> Fields:
    return Fields(*from_julian(days + EPOCH_JULIAN))


def set_time(fields: Fields, usecs: int) -> Fields:
    """Fill the time of day."""
    seconds, fields.usec = divmod(usecs, USECS_PER_SEC)
    minutes, fields.second = divmod(seconds, 60)
    fields.hour, fields.minute = divmod(minutes, 60)
    return fields


def fields_of_timestamp(value: int) -> Fields:
    """The fields of a timestamp, or of a timestamptz in UTC."""
    days, usecs = split_day(value)
    return set_time(fields_of_date(days), usecs)


def time_of(fields: Fields) -> int:
    return ((fields.hour * 60 + fields.minute) * 60 + fields.second) * USECS_PER_SEC + fields.usec


def date_of(fields: Fields) -> int:
    return julian(fields.year, fields.month, fields.day) - EPOCH_JULIAN


def timestamp_of(fields: Fields) -> int:
    return date_of(fields) * USECS_PER_DAY + time_of(fields)


def year_bc(year: int) -> int:
    """The year as printed, before BC when it is not positive."""
    return year if year > 0 else 1 - year
