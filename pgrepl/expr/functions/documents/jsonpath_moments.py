"""Dates and times in a path: .datetime() and its kin, their text, how they compare; and predicates, which are true,
false or unknown (None).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.expr.analyse.lookup import warner
from pgrepl.expr.functions.casts import numeric_int4
from pgrepl.expr.functions.documents.jsonpath_run import Found, Moment, PathError, Run, handles, is_string
from pgrepl.expr.functions.times.date_formats import given_zone, parse_fields
from pgrepl.expr.functions.times.datetime import (
    date_timestamp,
    date_timestamptz,
    time_timetz,
    timestamp_date,
    timestamp_time,
    timestamp_to_timestamptz,
    timestamptz_date,
    timestamptz_time,
    timestamptz_timestamp,
    timestamptz_timetz,
    timetz_time,
)
from pgrepl.expr.functions.times.templates import parse_template
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.jsonpath.parser import regex_flags
from pgrepl.types.jsonpath.scanner import BOOLEANS, COMPARISONS, Item
from pgrepl.types.names import time_precision
from pgrepl.types.regex.matching import compile_regex
from pgrepl.types.text import write_text
from pgrepl.types.times.dates import (
    EPOCH_JULIAN,
    INFINITY,
    USECS_PER_SEC,
    fields_of_timestamp,
    is_valid_date,
    is_valid_julian,
    is_valid_timestamp,
    julian,
    time_of,
    timestamp_of,
)
from pgrepl.types.times.datetime import TimeTz, fit_time, fit_timestamp, write_zone
from pgrepl.types.times.datetime_decoding import session_zone
from pgrepl.types.values import comparer

METHODS = {
    "datetime": 0,
    "date": oids.DATE,
    "time": oids.TIME,
    "time_tz": oids.TIMETZ,
    "timestamp": oids.TIMESTAMP,
    "timestamp_tz": oids.TIMESTAMPTZ,
}
_INVALID = "22031"
_DAY = "yyyy-mm-dd"
_CLOCKS = ("HH24:MI:SS.USTZ", "HH24:MI:SSTZ", "HH24:MI:SS.US", "HH24:MI:SS")
# ISO 8601, with a blank or a T between date and time; those with a time zone first
_TEMPLATES = (
    _DAY,
    *_CLOCKS,
    *(
        f"{_DAY}{between}{clock}"
        for clocks in (_CLOCKS[:2], _CLOCKS[2:])
        for between in (" ", '"T"')
        for clock in clocks
    ),
)


def moment(run: Run, item: Item, value: Any) -> Moment:
    """The moment that a text is, by `.datetime()` or its kin (executeDateTimeMethod)."""
    name: str = item.value
    if not is_string(value):
        raise PathError(_INVALID, f"jsonpath item method .{name}() can only be applied to a string")
    if name == "datetime" and item.args and item.args[0] is not None:
        try:
            return _parsed(value, item.args[0].value)
        except PgError as error:
            report = error.report
            raise PathError(report.sqlstate, report.message, detail=report.detail, hint=report.hint) from None
    parsed = _recognized(name, value)
    target = METHODS[name]
    if not target:
        return parsed
    converted = _cast(run, parsed, target)
    if converted is None:
        raise _not_recognized(name, value)
    if item.args and item.args[0] is not None:
        return _with_precision(run, item, converted)
    return converted


def _not_recognized(name: str, text: str) -> PathError:
    hint = "Use a datetime template argument to specify the input data format." if name == "datetime" else None
    return PathError(_INVALID, f'{name} format is not recognized: "{text}"', hint=hint)


def _recognized(name: str, text: str) -> Moment:
    for template in _TEMPLATES:
        try:
            return _parsed(text, template)
        except PgError as error:
            if not error.is_of_data:
                raise
    raise _not_recognized(name, text)


_DATED = frozenset("AD BC MONTH MON DAY DY DDD IDDD DD D ID WW IW W CC Q RM J Y YYYY YYY YY IYYY IYY IY I".split())
_TIMED = frozenset("AM PM HH HH12 HH24 MI SS MS US FF1 FF2 FF3 FF4 FF5 FF6 SSSS SSSSS".split())
_ZONED = frozenset({"TZ", "OF", "TZH", "TZM"})


def _parsed(text: str, template: str) -> Moment:
    """A value of the type that the template's fields make (parse_datetime)."""
    fields, tmfc = parse_fields(text, template, standard=True)
    words = {node.word.upper().replace(".", "").replace(",", "") for node in parse_template(template, standard=True)}
    dated, timed, zoned = (bool(words & kind) for kind in (_DATED, _TIMED, _ZONED))
    zone = given_zone(fields, tmfc)
    digits = tmfc.digits or -1
    if zoned and timed and zone is None:
        name = "timestamptz" if dated else "timetz"
        raise PgError("22007", f"missing time zone in input string for type {name}")
    if dated and timed:
        value = timestamp_of(fields) + (zone or 0) * USECS_PER_SEC if zoned else timestamp_of(fields)
        if not is_valid_julian(fields.year, fields.month) or not is_valid_timestamp(value):
            raise PgError("22008", f"{'timestamptz' if zoned else 'timestamp'} out of range")
        return Moment(
            fit_timestamp(value, digits), oids.TIMESTAMPTZ if zoned else oids.TIMESTAMP, (zone or 0) if zoned else 0
        )
    if dated:
        if zoned:
            raise PgError("22007", "datetime format is zoned but not timed")
        days = julian(fields.year, fields.month, fields.day) - EPOCH_JULIAN
        if not is_valid_julian(fields.year, fields.month) or not is_valid_date(days):
            raise PgError("22008", f'date out of range: "{text}"')
        return Moment(days, oids.DATE)
    if timed:
        usecs = fit_time(time_of(fields), digits)
        return Moment(TimeTz(usecs, zone or 0), oids.TIMETZ, zone or 0) if zoned else Moment(usecs, oids.TIME)
    raise PgError("22007", "datetime format is not dated and not timed")


# --- conversions ------------------------------------------------------------------------------------------------------

_D, _T, _TZ, _TS, _TSTZ = oids.DATE, oids.TIME, oids.TIMETZ, oids.TIMESTAMP, oids.TIMESTAMPTZ
_NAMES = {_D: "date", _T: "time", _TZ: "timetz", _TS: "timestamp", _TSTZ: "timestamptz"}
_CASTS: dict[tuple[int, int], Callable[[Run, Any], Any]] = {
    (_TS, _D): lambda run, value: timestamp_date(value),
    (_TSTZ, _D): lambda run, value: timestamptz_date(run.call, value),
    (_TZ, _T): lambda run, value: timetz_time(value),
    (_TS, _T): lambda run, value: timestamp_time(value),
    (_TSTZ, _T): lambda run, value: timestamptz_time(run.call, value),
    (_T, _TZ): lambda run, value: time_timetz(run.call, value),
    (_TSTZ, _TZ): lambda run, value: timestamptz_timetz(run.call, value),
    (_D, _TS): lambda run, value: date_timestamp(value),
    (_TSTZ, _TS): lambda run, value: timestamptz_timestamp(run.call, value),
    (_D, _TSTZ): lambda run, value: date_timestamptz(run.call, value),
    (_TS, _TSTZ): lambda run, value: timestamp_to_timestamptz(run.call, value),
}
_ZONED_TYPES = (_TZ, _TSTZ)


def _cast(run: Run, given: Moment, target: int) -> Moment | None:
    """The value as another type; None: there is no such cast. One that depends on the time zone needs a function
    with _tz in its name."""
    if given.type == target:
        return given
    cast = _CASTS.get((given.type, target))
    if cast is None:
        return None
    if (given.type in _ZONED_TYPES) != (target in _ZONED_TYPES):
        _check_zone_is_used(run, given.type, target)
    value = cast(run, given.value)
    if target == _TZ:
        return Moment(value, target, given.zone if given.type == _TSTZ else value.zone)
    zone = session_zone(run.call.style).of_local(fields_of_timestamp(_local(given))) if target == _TSTZ else 0
    return Moment(value, target, zone)


def _local(given: Moment) -> int:
    value: int = date_timestamp(given.value) if given.type == _D else given.value
    return value


def _check_zone_is_used(run: Run, source: int, target: int) -> None:
    """Refuse a cast that depends on the session's zone, unless a *_tz() function allows it; `silent` does not suppress
    this error (checkTimezoneIsUsedForCast)."""
    if not run.use_tz:
        message = f"cannot convert value from {_NAMES[source]} to {_NAMES[target]} without time zone usage"
        raise PgError("0A000", message, hint="Use *_tz() function for time zone support.")


def _with_precision(run: Run, item: Item, given: Moment) -> Moment:
    arg = item.args[0]
    assert arg is not None
    try:
        precision = numeric_int4(arg.value)
    except PgError:
        message = f"time precision of jsonpath item method .{item.value}() is out of range for type integer"
        raise PathError(_INVALID, message) from None
    context = run.call.context
    warn: Callable[[str, str], None] = lambda sqlstate, message: None  # noqa: E731
    if context.has_session:
        warn = warner(context.session)
    precision = time_precision(given.type, precision, warn)
    if given.type == _T:
        return given._replace(value=fit_time(given.value, precision))
    if given.type == _TZ:
        return given._replace(value=given.value._replace(usecs=fit_time(given.value.usecs, precision)))
    return given._replace(value=fit_timestamp(given.value, precision))


# --- text, order ------------------------------------------------------------------------------------------------------


def moment_text(given: Moment) -> str:
    """The text of a moment in ISO 8601, with the time zone that the value was given in (JsonEncodeDateTime)."""
    if given.type == _TSTZ:
        local = write_text(given.value - given.zone * USECS_PER_SEC, _TS).replace(" ", "T", 1)
        local, era = (local[:-3], " BC") if local.endswith(" BC") else (local, "")
        return local + _zone_text(given.zone) + era
    if given.type == _TZ:
        return write_text(given.value.usecs, _T) + _zone_text(given.value.zone)
    return write_text(given.value, given.type).replace(" ", "T", 1 if given.type == _TS else 0)


def _zone_text(west: int) -> str:
    text = write_zone(west)
    return text if ":" in text else text + ":00"


def _comparable(run: Run, given: Moment, common: int) -> Moment | None:
    """The value as a type that it is compared in; what that type cannot hold is beyond all its values."""
    try:
        return _cast(run, given, common)
    except PgError as error:
        if error.sqlstate != "22008":
            raise
        return Moment(INFINITY if given.value > 0 else -INFINITY, common)


def compare_moments(run: Run, one: Moment, other: Moment) -> int | None:
    """The order of two dates or times; None: their types do not compare (compareDatetime)."""
    if one.type == other.type:
        return comparer(one.type)(one.value, other.value)
    for common in (_TSTZ, _TS, _TZ):
        if common in (one.type, other.type):
            left, right = _comparable(run, one, common), _comparable(run, other, common)
            if left is None or right is None or ({one.type, other.type} & {_T, _TZ} and common != _TZ):
                return None
            return comparer(common)(left.value, right.value)
    return None


# --- predicates -------------------------------------------------------------------------------------------------------


Test = Callable[[Any, Any], bool | None]


@handles(*BOOLEANS)
def predicate(run: Run, item: Item, value: Any, matches: Found, unwrap: bool) -> bool:
    """A predicate as a value (appendBoolResult)."""
    result = truth(run, item, value)
    if item.next is None and matches is None:
        return True
    return run.next(item, result, matches)


def truth(run: Run, item: Item, value: Any) -> bool | None:
    """Whether a predicate is true; None: unknown (executeBoolItem)."""
    kind = item.kind
    first = item.args[0]
    assert first is not None
    if kind in ("&&", "||"):
        second = item.args[1]
        assert second is not None
        decisive = kind == "||"
        left = truth(run, first, value)
        if left is decisive:
            return decisive
        right = truth(run, second, value)
        return left if right is not decisive and right is not None else right
    if kind == "!":
        inner = truth(run, first, value)
        return None if inner is None else not inner
    if kind == "is unknown":
        return truth(run, first, value) is None
    if kind == "exists":
        return _exists(run, first, value)
    if kind == "like_regex":
        pattern, flags = item.value
        regex = compile_regex(pattern, regex_flags(flags))
        return _any(run, first, None, value, lambda text, _: regex.matches(text) if is_string(text) else None, False)
    if kind == "starts with":
        return _any(run, first, item.args[1], value, _starts_with, False)
    return _any(run, first, item.args[1], value, lambda a, b: compare(run, kind, a, b), True)


def _exists(run: Run, item: Item, value: Any) -> bool | None:
    try:
        if run.lax:
            return run.execute(item, value, None)
        matches: list[Any] = []  # in strict mode all values are computed, to see whether one is an error
        run.execute(item, value, matches)
        return bool(matches)
    except PathError:
        return None


def _any(run: Run, left: Item, right: Item | None, value: Any, test: Test, unwrap_right: bool) -> bool | None:
    """Whether a test holds for any pair of what the two sides find (executePredicate)."""
    try:
        lefts = run.sequence(left, value, unwrap=True)
        rights = [None] if right is None else run.sequence(right, value, unwrap=unwrap_right)
    except PathError:
        return None
    holds = unknown = False
    for one in lefts:
        for other in rights:
            result = test(one, other)
            if result is None:
                if not run.lax:
                    return None
                unknown = True
            elif result:
                if run.lax:
                    return True
                holds = True
    return True if holds else None if unknown else False


def _starts_with(whole: Any, initial: Any) -> bool | None:
    return whole.startswith(initial) if is_string(whole) and is_string(initial) else None


def compare(run: Run, operator: str, one: Any, other: Any) -> bool | None:
    """The result of comparing two items; None: unknown (compareItems)."""
    order = _order(run, one, other)
    if order is None:
        return None
    if not isinstance(order, int):
        return operator == "!="
    return _COMPARE[operator](order)


_COMPARE: dict[str, Callable[[int], bool]] = dict(
    zip(
        COMPARISONS,
        (lambda n: n == 0, lambda n: n != 0, lambda n: n < 0, lambda n: n > 0, lambda n: n <= 0, lambda n: n >= 0),
        strict=True,
    )
)


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _order(run: Run, one: Any, other: Any) -> int | str | None:
    """-1, 0 or 1; None: they do not compare; "differ": one of them is null."""
    if one is None or other is None:
        return 0 if one is other else "differ"
    for kind in (bool, Decimal, str):
        if isinstance(one, kind) and isinstance(other, kind):
            return _sign(one, other)
    if isinstance(one, Moment) and isinstance(other, Moment):
        return compare_moments(run, one, other)
    return None
