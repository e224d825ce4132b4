"""Dates and timestamps: comparison, arithmetic, date_trunc, the casts between them, and fields (extract, date_part).

Functions that depend on the session's time zone are native if the zone is UTC, or if they only convert a moment to
local time. The other direction follows PostgreSQL's rules around changes of the clock and is left to the fall-back.
A field of an infinite moment is infinite if the field grows without limit (year, epoch), otherwise NULL. `extract` is
a decimal with the infinities beside it (`special`), so that `extract(year from d) = 2024` needs no text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pgrepl.expr.exchange.arithmetic import SparkFunctionCall
from pgrepl.expr.exchange.comparisons import SIGNS
from pgrepl.expr.exchange.moments import (
    DATE_INFINITY,
    INFINITE,
    days,
    from_micros,
    is_infinite,
    is_infinite_date,
    is_utc,
    local_clock,
    micros,
    within_limits,
    zone_of,
)
from pgrepl.expr.exchange.sql import Sql, as_float, cast, decimal_type, let, raised
from pgrepl.expr.functions.registry import in_spark
from pgrepl.expr.functions.times.date_fields import (
    DATE_UNITS,
    MONOTONIC,
    TIME_UNITS,
    moment_unit,
    timestamp_trunc,
    unit_of,
)
from pgrepl.expr.functions.times.datetime import date_as_timestamp, date_out_of_range, move_timestamp
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.lake.forms import form
from pgrepl.types.times.dates import DATE_END_JULIAN, END_TIMESTAMP, UNIX_EPOCH_JULIAN, UNIX_EPOCH_USECS, USECS_PER_DAY
from pgrepl.types.times.datetime import fit_timestamp
from pgrepl.types.times.interval import Interval, is_finite

_FIRST_DAY, _LAST_DAY = -UNIX_EPOCH_JULIAN, DATE_END_JULIAN - UNIX_EPOCH_JULIAN - 1
_LAST_OF_LAKE = (2**63 - 1) // USECS_PER_DAY  # the last day with timestamps in a lake
_LAST_TIMESTAMP = (END_TIMESTAMP - UNIX_EPOCH_USECS) // USECS_PER_DAY - 1  # the last day with timestamps in PostgreSQL


# --------------------------------------------------------------------------------------------------------------- dates


def _plus(sign: str) -> Callable[[SparkFunctionCall], Sql]:
    def make(call: SparkFunctionCall) -> Sql:
        order = (1, 0) if call.args[0].type == oids.INT4 else (0, 1)
        return Sql(let([call.value(position) for position in order], body), "DATE")

    def body(date: str, number: str) -> str:
        day = f"CAST({days(date)} AS BIGINT) {sign} {number}"
        return (
            f"CASE WHEN {number} IS NULL THEN NULL WHEN {is_infinite_date(date)} THEN {date}"
            f" WHEN {day} < {_FIRST_DAY} OR {day} > {_LAST_DAY} THEN {raised(date_out_of_range())}"
            f" ELSE date_from_unix_date(CAST({day} AS INT)) END"
        )

    return make


in_spark("date_pli", "integer_pl_date(integer,date)")(_plus("+"))
in_spark("date_mii")(_plus("-"))


@in_spark("date_mi")
def date_mi(call: SparkFunctionCall) -> Sql:
    error = raised(PgError("22008", "cannot subtract infinite dates"))

    def body(a: str, b: str) -> str:
        known = f"{a} IS NOT NULL AND {b} IS NOT NULL"
        infinite = f"({is_infinite_date(a)} OR {is_infinite_date(b)})"
        return f"CASE WHEN {known} AND {infinite} THEN {error} ELSE {days(a)} - {days(b)} END"

    return Sql(let(call.values(), body), "INT")


in_spark("date_finite")(lambda call: Sql(f"(abs({days(call.text(0))}) <> {DATE_INFINITY})", "BOOLEAN"))


@in_spark("timestamp_finite")
def timestamp_finite(call: SparkFunctionCall) -> Sql:
    value = call.value(0)
    return Sql(f"(NOT {is_infinite(value.text, value.type)})", "BOOLEAN")


# --------------------------------------------------------------------------------------------------------------- casts


def midnight(date: Sql, spark_type: str, late: str = "") -> Sql:
    """The cast date::timestamp. `late`: the value of days after the last one, instead of an error."""
    errors = [(day, raised(_error_of_day(day + 1))) for day in (_LAST_TIMESTAMP, _LAST_OF_LAKE)]

    def body(a: str) -> str:
        number = f"CAST({days(a)} AS BIGINT)"
        beyond = "".join(
            f" WHEN {number} > {day} THEN {then}" for day, then in ([(_LAST_OF_LAKE, late)] if late else errors)
        )
        return (
            f"CASE WHEN {number} = {DATE_INFINITY}L THEN {from_micros(INFINITE, spark_type)}"
            f" WHEN {number} = -{DATE_INFINITY}L THEN {from_micros('-' + INFINITE, spark_type)}"
            f"{beyond} ELSE CAST({a} AS {spark_type}) END"
        )

    return Sql(let([date], body), spark_type)


def _error_of_day(day: int) -> PgError:
    try:
        form(oids.TIMESTAMP).to_arrow(date_as_timestamp(day + UNIX_EPOCH_USECS // USECS_PER_DAY))
    except PgError as error:
        return error
    raise AssertionError(day)


@in_spark("date_timestamp")
def date_timestamp(call: SparkFunctionCall) -> Sql:
    return midnight(call.value(0), "TIMESTAMP_NTZ")


@in_spark("date_timestamptz")
def date_timestamptz(call: SparkFunctionCall) -> Sql | None:
    return midnight(call.value(0), "TIMESTAMP") if is_utc(call.compiler) else None


def _day_of(moment: Sql, clock: Callable[[str], str]) -> Sql:
    def body(a: str) -> str:
        return (
            f"CASE {a} WHEN {from_micros(INFINITE, moment.type)} THEN date_from_unix_date({DATE_INFINITY})"
            f" WHEN {from_micros('-' + INFINITE, moment.type)} THEN date_from_unix_date(-{DATE_INFINITY})"
            f" ELSE CAST({clock(a)} AS DATE) END"
        )

    return Sql(let([moment], body), "DATE")


@in_spark("timestamp_date")
def timestamp_date(call: SparkFunctionCall) -> Sql:
    return _day_of(call.value(0), lambda a: a)


@in_spark("timestamptz_date")
def timestamptz_date(call: SparkFunctionCall) -> Sql | None:
    zone = zone_of(call.compiler)
    if local_clock("", zone) is None:
        return None
    return _day_of(call.value(0), lambda a: local_clock(a, zone) or a)


@in_spark("timestamp_timestamptz", "timestamp_at_local")
def timestamp_timestamptz(call: SparkFunctionCall) -> Sql | None:
    return Sql(f"CAST({call.text(0)} AS TIMESTAMP)", "TIMESTAMP") if is_utc(call.compiler) else None


@in_spark("timestamptz_timestamp", "timestamptz_at_local")
def timestamptz_timestamp(call: SparkFunctionCall) -> Sql | None:
    return Sql(f"CAST({call.text(0)} AS TIMESTAMP_NTZ)", "TIMESTAMP_NTZ") if is_utc(call.compiler) else None


@in_spark("timestamp_scale", "timestamptz_scale")
def timestamp_scale(call: SparkFunctionCall) -> Sql | None:
    """timestamp(p): rounded half away from 2000-01-01, PostgreSQL's epoch."""
    digits = call.constant(1)
    if not isinstance(digits, int) or not 0 <= digits <= 6:
        return None
    value = call.value(0)
    if digits == 6:
        return value
    unit = 10 ** (6 - digits)

    def write(a: str) -> str:
        number = f"({micros(a, value.type)} - {-UNIX_EPOCH_USECS}L)"
        rounded = f"((abs({number}) + {unit // 2}L) div {unit}L * {unit}L)"
        return from_micros(
            f"CASE WHEN {number} < 0 THEN - {rounded} ELSE {rounded} END + {-UNIX_EPOCH_USECS}L", value.type
        )

    return within_limits(value, lambda moment: fit_timestamp(moment, digits), write)


# ---------------------------------------------------------------------------------------------------------- comparing


def _cross(sign: str) -> Callable[[SparkFunctionCall], Sql | None]:
    """Comparison of different types: a date counts as its midnight, a timestamp as local time of the session's zone."""

    def make(call: SparkFunctionCall) -> Sql | None:
        kinds = [arg.type for arg in call.args]
        zoned = oids.TIMESTAMPTZ in kinds
        if zoned and not is_utc(call.compiler):
            return None
        spark_type = "TIMESTAMP" if zoned else "TIMESTAMP_NTZ"
        sides = [_as_moment(value, spark_type) for value in call.values()]
        return Sql(f"({sides[0]} {sign} {sides[1]})", "BOOLEAN")

    return make


def _as_moment(value: Sql, spark_type: str) -> str:
    if value.type != "DATE":
        return value.text if value.type == spark_type else f"CAST({value.text} AS {spark_type})"
    late = from_micros(f"{2**63 - 2}L", spark_type)  # days that have no timestamps are above all that have
    return midnight(value, spark_type, late).text


for _word, _sign in SIGNS.items():
    for _one in ("date", "timestamp", "timestamptz"):
        for _other in ("date", "timestamp", "timestamptz"):
            if _one != _other:
                in_spark(f"{_one}_{_word}_{_other}")(_cross(_sign))


# ---------------------------------------------------------------------------------------------------------- reckoning


def _moved(value: Sql, span: Interval, sign: int, utc: bool) -> Sql | None:
    """A timestamp plus a constant interval: months first, then days, then the rest."""
    span = Interval(sign * span.months, sign * span.days, sign * span.usecs)
    if not utc and (span.months or span.days):
        return None
    rest = span.days * USECS_PER_DAY + span.usecs
    if abs(rest) >= 2**62 or span.days * span.usecs < 0 or span.months * rest < 0:
        return None

    def write(a: str) -> str:
        months = f"({a} + make_ym_interval(0, {span.months}))" if span.months else a
        return from_micros(f"{micros(months, value.type)} + {rest}L", value.type) if rest else months

    return within_limits(value, lambda moment: move_timestamp(moment, span, 1), write)


def _reckoning(sign: int, *, zoned: bool = False, date: bool = False) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        place = 0 if call.args[0].type == oids.INTERVAL else 1
        span = call.constant(place)
        if not isinstance(span, Interval) or not is_finite(span):
            return None
        value = call.value(1 - place)
        if date:
            value = midnight(value, "TIMESTAMP_NTZ")
        return _moved(value, span, sign, not zoned or is_utc(call.compiler))

    return make


in_spark("timestamp_pl_interval", "interval_pl_timestamp(interval,timestamp without time zone)")(_reckoning(1))
in_spark("timestamp_mi_interval")(_reckoning(-1))
in_spark("timestamptz_pl_interval", "interval_pl_timestamptz(interval,timestamp with time zone)")(
    _reckoning(1, zoned=True)
)
in_spark("timestamptz_mi_interval")(_reckoning(-1, zoned=True))
in_spark("date_pl_interval", "interval_pl_date(interval,date)")(_reckoning(1, date=True))
in_spark("date_mi_interval")(_reckoning(-1, date=True))


# --------------------------------------------------------------------------------------------------------- date_trunc

_MONDAY = 4 * USECS_PER_DAY  # the first one after 1970 began
_UNITS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": USECS_PER_DAY,
}


@in_spark("timestamp_trunc", "timestamptz_trunc")
def date_trunc(call: SparkFunctionCall) -> Sql | None:
    word = call.constant(0)
    value = call.value(1)
    if not isinstance(word, str) or (value.type == "TIMESTAMP" and not is_utc(call.compiler)):
        return None
    try:
        unit = moment_unit(word)
    except PgError:
        return None

    def write(a: str) -> str:
        number = micros(a, value.type)
        if unit in _UNITS:
            return from_micros(f"{number} - pmod({number}, {_UNITS[unit]}L)", value.type)
        if unit == "week":
            return from_micros(f"{number} - pmod({number} - {_MONDAY}L, {7 * USECS_PER_DAY}L)", value.type)
        cut = f"date_trunc('{unit}', {a})"
        return cut if value.type == "TIMESTAMP" else f"CAST({cut} AS TIMESTAMP_NTZ)"

    if unit not in _UNITS and unit not in ("week", "month", "quarter", "year"):
        return None
    return within_limits(value, lambda moment: timestamp_trunc(unit, moment), write)


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


def _extracted(
    call: SparkFunctionCall, units: set[str], typename: str, more: Mapping[str, Field]
) -> tuple[str, Field] | None:
    """The field that the first argument names."""
    word = call.constant(0)
    if not isinstance(word, str):
        return None
    try:
        unit = unit_of(word, units, typename)
    except PgError:
        return None
    field = more.get(unit) or _field(unit)
    return None if field is None else (unit, field)


def _of_moment(call: SparkFunctionCall, value: Sql) -> Sql | None:
    named_field = _extracted(call, DATE_UNITS | TIME_UNITS, "timestamp", {})
    zone = zone_of(call.compiler)
    if named_field is None:
        return None
    zoned = value.type == "TIMESTAMP"
    if zoned and local_clock("", zone) is None:
        return None
    unit, (write, precision, scale) = named_field
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
    named_field = _extracted(call, DATE_UNITS, "date", _DAYS)
    if named_field is None:
        return None
    unit, (write, precision, _) = named_field
    result = decimal_type(precision, 0)

    def body(a: str) -> str:
        return f"CASE WHEN abs({days(a)}) <> {DATE_INFINITY} THEN {cast(write(a, days(a)), result)} END"

    def special(a: str) -> str:
        return f"CASE {days(a)} WHEN {DATE_INFINITY} THEN 'Infinity' WHEN -{DATE_INFINITY} THEN '-Infinity' END"

    return Sql(let([value], body), result, special=let([value], special) if unit in MONOTONIC else None)


def _part(extract: Callable[[SparkFunctionCall], Sql | None]) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        extracted = extract(call)
        return None if extracted is None else as_float(extracted)

    return make


in_spark("timestamp_part", "timestamptz_part")(_part(lambda call: _of_moment(call, call.value(1))))
in_spark("date_part(text,date)")(_part(lambda call: _of_moment(call, midnight(call.value(1), "TIMESTAMP_NTZ"))))
