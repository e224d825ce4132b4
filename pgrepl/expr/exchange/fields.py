"""extract and date_part: fields of dates and timestamps.

A field of an infinite moment is infinite if the field grows without limit (year, epoch), otherwise NULL. `extract` is
a decimal with the infinities beside it (`special`), so that `extract(year from d) = 2024` needs no text.
"""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.expr.exchange.arithmetic import SparkFunctionCall
from pgrepl.expr.exchange.dates import midnight
from pgrepl.expr.exchange.moments import (
    DATE_INFINITY,
    INFINITE,
    days,
    from_micros,
    is_infinite,
    local_clock,
    micros,
    zone_of,
)
from pgrepl.expr.exchange.sql import Sql, as_float, cast, decimal_type, let
from pgrepl.expr.functions.registry import in_spark
from pgrepl.expr.functions.times.date_fields import DATE_UNITS, MONOTONIC, TIME_UNITS, unit_of
from pgrepl.ground.errors import PgError
from pgrepl.types.times.dates import UNIX_EPOCH_JULIAN

_WHOLE = {
    "month": "month({a})",
    "day": "day({a})",
    "quarter": "quarter({a})",
    "hour": "hour({a})",
    "minute": "minute({a})",
    "dow": "(dayofweek({a}) - 1)",
    "isodow": "(weekday({a}) + 1)",
    "doy": "dayofyear({a})",
    "week": "weekofyear({a})",
}


def _years(year: str, unit: str) -> str:
    """Years, decades and centuries before Christ count down from -1."""
    if unit in ("year", "isoyear"):
        return f"CASE WHEN {year} > 0 THEN {year} ELSE {year} - 1 END"
    if unit == "decade":
        return f"CASE WHEN {year} >= 0 THEN {year} div 10 ELSE - ((8 - ({year} - 1)) div 10) END"
    size = 100 if unit == "century" else 1000
    before = f"- (({size - 1} - ({year} - 1)) div {size})"
    return f"CASE WHEN {year} > 0 THEN ({year} + {size - 1}) div {size} ELSE {before} END"


Field = tuple[Callable[[str, str], str], int, int]  # of clock and microseconds; precision and scale of the result


def _field(unit: str) -> Field | None:
    if unit in _WHOLE:
        return lambda clock, number: _WHOLE[unit].replace("{a}", clock), 10, 0
    if unit in ("year", "decade", "century", "millennium"):
        return lambda clock, number: _years(f"year({clock})", unit), 10, 0
    if unit == "isoyear":
        return lambda clock, number: _years(f"extract(YEAROFWEEK FROM {clock})", unit), 10, 0
    seconds = "pmod({n}, 60000000L)"
    if unit == "microsecond":
        return lambda clock, number: seconds.replace("{n}", number), 10, 0
    if unit == "millisecond":
        return lambda clock, number: f"({seconds.replace('{n}', number)} * 0.001BD)", 11, 3
    if unit == "second":
        return lambda clock, number: f"({seconds.replace('{n}', number)} * 0.000001BD)", 11, 6
    if unit == "epoch":
        return lambda clock, number: f"({number} * 0.000001BD)", 20, 6
    return None


def _extracted(call: SparkFunctionCall) -> tuple[str, Field] | None:
    word = call.constant(0)
    if not isinstance(word, str):
        return None
    try:
        unit = unit_of(word, DATE_UNITS | TIME_UNITS, "timestamp")
    except PgError:
        return None
    found = _field(unit)
    return None if found is None else (unit, found)


def _of_moment(call: SparkFunctionCall, value: Sql) -> Sql | None:
    found = _extracted(call)
    zone = zone_of(call.compiler)
    if found is None:
        return None
    zoned = value.type == "TIMESTAMP"
    if zoned and local_clock("", zone) is None:
        return None
    unit, (write, precision, scale) = found
    result = decimal_type(precision, scale)

    def clock(a: str) -> str:
        return (local_clock(a, zone) or a) if zoned else a

    def body(a: str) -> str:
        number = micros(clock(a) if unit != "epoch" else a, value.type)
        return f"CASE WHEN NOT {is_infinite(a, value.type)} THEN {cast(write(clock(a), number), result)} END"

    def special(a: str) -> str:
        last, first = from_micros(INFINITE, value.type), from_micros("-" + INFINITE, value.type)
        return f"CASE {a} WHEN {last} THEN 'Infinity' WHEN {first} THEN '-Infinity' END"

    return Sql(let([value], body), result, special=let([value], special) if unit in MONOTONIC else None)


in_spark("extract_timestamp")(lambda call: _of_moment(call, call.value(1)))
in_spark("extract_timestamptz")(lambda call: _of_moment(call, call.value(1)))


_DAYS: dict[str, Field] = {
    "epoch": (lambda date, number: f"(CAST({number} AS BIGINT) * 86400)", 15, 0),
    "julian": (lambda date, number: f"(CAST({number} AS BIGINT) + {UNIX_EPOCH_JULIAN})", 15, 0),
}


@in_spark("extract_date")
def extract_date(call: SparkFunctionCall) -> Sql | None:
    value = call.value(1)
    word = call.constant(0)
    if not isinstance(word, str):
        return None
    try:
        unit = unit_of(word, DATE_UNITS, "date")
    except PgError:
        return None
    found = _DAYS.get(unit) or _field(unit)
    if found is None:
        return None
    write, precision, _ = found
    result = decimal_type(precision, 0)

    def body(a: str) -> str:
        return f"CASE WHEN abs({days(a)}) <> {DATE_INFINITY} THEN {cast(write(a, days(a)), result)} END"

    def special(a: str) -> str:
        return f"CASE {days(a)} WHEN {DATE_INFINITY} THEN 'Infinity' WHEN -{DATE_INFINITY} THEN '-Infinity' END"

    return Sql(let([value], body), result, special=let([value], special) if unit in MONOTONIC else None)


def _part(extract: Callable[[SparkFunctionCall], Sql | None]) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        found = extract(call)
        return None if found is None else as_float(found)

    return make


in_spark("timestamp_part", "timestamptz_part")(_part(lambda call: _of_moment(call, call.value(1))))
in_spark("date_part(text,date)")(_part(lambda call: _of_moment(call, midnight(call.value(1), "TIMESTAMP_NTZ"))))
