"""Values of results as Python's types, as psycopg gives them, and results as Arrow tables and DataFrames.

Types are those that other programs know; what has no type there is text. A numeric without precision becomes a
decimal that holds all of the result's values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo

from pgrepl.api.exceptions import DataError
from pgrepl.engine import spark
from pgrepl.ground.errors import PgError
from pgrepl.ground.lazy import pa
from pgrepl.query.result import ResultColumn
from pgrepl.sql.keywords import quote_identifier
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import element_type
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form, is_row_type
from pgrepl.types.style import DEFAULT_STYLE, TextStyle
from pgrepl.types.text import writer
from pgrepl.types.times.dates import INFINITY, USECS_PER_DAY
from pgrepl.types.times.interval import Interval, write_interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.query.result import Result

Load: TypeAlias = Callable[[Any], Any]

_AS_THEY_ARE = frozenset(
    {
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.TEXT,
        oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.UNKNOWN, oids.UUID, oids.BYTEA, oids.CSTRING,
    }
)  # fmt: skip
_DAY = date(2000, 1, 1).toordinal()
_MOMENT = datetime(2000, 1, 1)
_UTC_MOMENT = datetime(2000, 1, 1, tzinfo=timezone.utc)
_SECOND = 1_000_000


def loaders(columns: Sequence[ResultColumn], style: TextStyle) -> list[Load | None]:
    """The functions that convert each column's values that are not NULL; None: values stay as they are."""
    return [loader(column.type, style) for column in columns]


def loaded(rows: Iterable[tuple[Any, ...]], loads: Sequence[Load | None]) -> Iterator[tuple[Any, ...]]:
    """Each row when it is asked for. A value that Python cannot hold is an error of its row only."""
    if not any(loads):
        return iter(rows)

    def row_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([v if v is None or load is None else load(v) for load, v in zip(loads, row, strict=True)])

    return map(row_of, rows)


def loader(typoid: int, style: TextStyle) -> Load | None:
    if typoid in _AS_THEY_ARE:
        return None
    if typoid == oids.DATE:
        return _date
    if typoid == oids.TIME:
        return _time
    if typoid == oids.TIMETZ:
        return _timetz
    if typoid == oids.TIMESTAMP:
        return _timestamp
    if typoid == oids.TIMESTAMPTZ:
        return _zoned(style.timezone)
    if typoid == oids.INTERVAL:
        return _interval
    if typoid in (oids.JSON, oids.JSONB):
        return lambda value: json.loads(str(value))
    element = element_type(typoid)
    if typoid in (oids.INT2VECTOR, oids.OIDVECTOR):
        return lambda value: list(value.items)
    if element:
        return _array(loader(element, style))
    write = writer(typoid)
    return lambda value: write(value, style)


def _date(days: int) -> date:
    try:
        return date.fromordinal(_DAY + days)
    except (ValueError, OverflowError):
        raise _out_of_range("date") from None


def _time(usecs: int) -> time:
    if usecs >= USECS_PER_DAY:
        raise DataError("time 24:00:00 is not a time of Python's; select it as text: column::text")
    seconds, usec = divmod(usecs, _SECOND)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, usec)


def _timetz(value: Any) -> time:
    usecs, west = value
    return _time(usecs).replace(tzinfo=timezone(timedelta(seconds=-west)))


def _timestamp(usecs: int) -> datetime:
    try:
        return _MOMENT + timedelta(microseconds=usecs)
    except OverflowError:
        raise _out_of_range("timestamp") from None


def _zoned(name: str) -> Load:
    zone = _zone(name)

    def load(usecs: int) -> datetime:
        try:
            return (_UTC_MOMENT + timedelta(microseconds=usecs)).astimezone(zone)
        except OverflowError:
            raise _out_of_range("timestamp with time zone") from None

    return load


def _zone(name: str) -> tzinfo:
    """The session's time zone; one that only PostgreSQL knows (`<+03>-03`) becomes UTC."""
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        return timezone.utc


def _interval(value: Any) -> timedelta:
    """A month counts as 30 days and a year as 365, as in psycopg."""
    months, days, usecs = value
    years, months = (abs(months) // 12, abs(months) % 12) if months >= 0 else (-(-months // 12), -(-months % 12))
    try:
        return timedelta(days=years * 365 + months * 30 + days, microseconds=usecs)
    except OverflowError:
        raise _out_of_range("interval") from None


def _array(load: Load | None) -> Load:
    def made(value: PgArray) -> list[Any]:
        items = list(value.items) if load is None else [None if v is None else load(v) for v in value.items]
        for size in reversed(value.dims[1:]):
            items = [items[at : at + size] for at in range(0, len(items), size)]
        return items

    return made


def _out_of_range(what: str) -> DataError:
    return DataError(f"{what} out of range of Python's; select it as text: column::text")


# --- columns ----------------------------------------------------------------------------------------------------------


_DATES = (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)


def arrow_table(result: Result, session: Session) -> pa.Table:
    """All rows of a result. Those that Spark computes are fetched as columns."""
    columns = result.columns or ()
    if result.values is not None and result.values.frame is not None:
        with spark.pg_errors():
            table: pa.Table = spark_frame(result, session).toArrow()
        return table
    rows = list(result.rows if result.values is None else result.values)
    arrays = [arrow_array(column, [row[n] for row in rows], session) for n, column in enumerate(columns)]
    return pa.table(arrays, names=[column.name for column in columns])


def arrow_array(column: ResultColumn, values: Sequence[Any], session: Session) -> pa.Array:
    """Python values of a PostgreSQL type (types/text.py) as an Arrow array."""
    if column.type == oids.NUMERIC and form(oids.NUMERIC, column.typmod).lake == "varchar":
        return _decimals(column, values)
    if column.type == oids.INTERVAL:
        intervals = [None if v is None else pa.MonthDayNano([v[0], v[1], v[2] * 1000]) for v in values]
        return pa.array(intervals, pa.month_day_nano_interval())
    if _is_text(column.type):
        write, style = writer(column.type), session.text_style
        return pa.array([None if v is None else write(v, style) for v in values], pa.string())
    _check_times(column, values)
    kind = form(column.type, column.typmod)
    array = plain_array(kind.to_array(list(values)))
    return array.cast(kind.arrow()) if array.type != kind.arrow() else array


def _check_times(column: ResultColumn, values: Sequence[Any]) -> None:
    """Raise for a time or date, in an array as well, that Arrow lacks."""
    element = element_type(column.type)
    typoid = element or column.type
    if typoid not in (*_DATES, oids.TIME):
        return
    known = [v for value in values if value is not None for v in (value if element else [value]) if v is not None]
    if typoid == oids.TIME:
        if USECS_PER_DAY in known:
            raise _has(column, "time 24:00:00")
    elif any(abs(v) == INFINITY for v in known):
        raise _has(column, "infinity")


def _has(column: ResultColumn, what: str) -> DataError:
    as_text = f"{quote_identifier(column.name)}::text"
    return DataError(f'column "{column.name}" has {what}, which Arrow has not; select it as text: {as_text}')


def _is_text(typoid: int) -> bool:
    """Types whose values other programs get as text: as they are printed, not as the lake keeps them."""
    if typoid in (oids.UUID, oids.JSONB) or is_row_type(typoid):
        return True
    element = element_type(typoid)
    if element:
        return element in (oids.NUMERIC, oids.UUID, oids.JSONB, oids.INTERVAL) or _is_text(element)
    if typoid in _PLAIN:
        return False
    return typoid in _REG or form_or_none(typoid)


_PLAIN = (oids.OID, oids.NUMERIC, oids.TEXT, oids.VARCHAR, oids.NAME, oids.UNKNOWN)
_REG = (
    oids.REGCLASS, oids.REGTYPE, oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR, oids.REGROLE,
    oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY, oids.XID, oids.CID,
)  # fmt: skip


def form_or_none(typoid: int) -> bool:
    """Whether a type has no form of its own in the lake, and so is text."""
    try:
        return form(typoid).lake == "varchar"
    except PgError:
        return True


def _decimals(column: ResultColumn, values: Sequence[Decimal | None]) -> pa.Array:
    known = [v for v in values if v is not None]
    special = next((v for v in known if not v.is_finite()), None)
    if special is not None:
        raise _has(column, "NaN" if special.is_nan() else "infinity")
    scale = max((-int(v.as_tuple().exponent) for v in known), default=0)
    scale = max(scale, 0)
    whole = max((v.adjusted() + 1 for v in known), default=1)
    digits = max(whole, 1) + scale
    if digits <= 38:
        return pa.array(values, pa.decimal128(38, scale))
    if digits <= 76:
        return pa.array(values, pa.decimal256(76, scale))
    raise _has(column, "a numeric of more than 76 digits")


def polars_table(table: pa.Table) -> pa.Table:
    """Types that Polars has not, as text: intervals with months, and decimals of more than 38 digits."""
    for n, column in enumerate(table.columns):
        if pa.types.is_interval(column.type):
            array = texts(column, interval_text)
        elif pa.types.is_decimal256(column.type):
            array = texts(column, decimal_text)
        else:
            continue
        table = table.set_column(n, table.field(n).name, array)
    return table


# --- Spark -----------------------------------------------------------------------------------------------------------


def spark_frame(result: Result, session: Session) -> DataFrame:
    """The rows as a DataFrame, computed by Spark where the result is Spark's."""
    columns = result.columns or ()
    frame = None if result.values is None else result.values.frame
    with spark.pg_errors():
        if frame is not None:
            return frame.selectExpr(*[_shown(column, n) for n, column in enumerate(columns, 1)])
        spark_session = spark.session()
        table = _for_spark(arrow_table(result, session), columns)
        return spark_session.createDataFrame(table)


def _shown(column: ResultColumn, number: int) -> str:
    name = "`" + column.name.replace("`", "``") + "`"
    if column.type == oids.UUID:
        digits = f"lower(hex(c{number}))"
        parts = [f"substr({digits}, {start}, {length})" for start, length in _UUID_PARTS]
        return f"concat_ws('-', {', '.join(parts)}) AS {name}"
    return f"c{number} AS {name}"


_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


def _for_spark(table: pa.Table, columns: Sequence[ResultColumn]) -> pa.Table:
    """Types that Spark has not, as text; decimals of no declared precision as the text that PostgreSQL prints."""
    arrays = []
    for column, array in zip(columns, table.columns, strict=True):
        kind = array.type
        plain = column.type == oids.NUMERIC and form(oids.NUMERIC, column.typmod).lake == "varchar"
        if plain:
            array = texts(array, decimal_text)
        elif pa.types.is_interval(kind):
            array = texts(array, interval_text)
        elif pa.types.is_time(kind):
            array = array.cast(pa.string())
        arrays.append(array)
    return pa.table(arrays, names=table.column_names)


# --- text -------------------------------------------------------------------------------------------------------------


def texts(column: pa.ChunkedArray, text_of: Callable[[Any], str]) -> pa.Array:
    """The values of an Arrow column as text."""
    return pa.array([None if v is None else text_of(v) for v in column.to_pylist()], pa.string())


def decimal_text(value: Decimal) -> str:
    return format(value, "f")


def interval_text(value: Any) -> str:
    """The text of a timedelta, or of months, days and nanoseconds."""
    if isinstance(value, timedelta):
        interval = Interval(0, value.days, value.seconds * 1_000_000 + value.microseconds)
    else:
        months, days, nanoseconds = value
        interval = Interval(months, days, nanoseconds // 1000)
    return write_interval(interval, DEFAULT_STYLE)
