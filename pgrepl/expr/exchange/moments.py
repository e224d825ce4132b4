"""Dates, times and spans as numbers in Spark SQL, and casts to text.

A lake's `infinity` is the largest number of its type, an ordinary value for Spark: all arithmetic tests for it first.
"""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.expr import tree
from pgrepl.expr.exchange.arithmetic import SparkFunctionCall
from pgrepl.expr.exchange.compiler import NOT_CONSTANT, Compiler
from pgrepl.expr.exchange.compiler import native as compiler_native
from pgrepl.expr.exchange.sql import Sql, as_float, form_type, let, numeric_text, raised
from pgrepl.expr.functions.registry import in_spark
from pgrepl.expr.walk import functions_used
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, proc_by_oid
from pgrepl.types.lake.forms import form
from pgrepl.types.times.dates import (
    END_TIMESTAMP,
    INFINITY,
    MIN_TIMESTAMP,
    UNIX_EPOCH_USECS,
    USECS_PER_DAY,
    USECS_PER_SEC,
)
from pgrepl.types.times.datetime_decoding import session_zone
from pgrepl.types.times.interval import Interval, is_finite, out_of_range
from pgrepl.types.times.timezone import Zone
from pgrepl.types.values import interval_key

DATE_INFINITY = 2**31 - 1
INFINITE = f"{2**63 - 1}L"


def days(date: str) -> str:
    return f"unix_date({date})"


def is_infinite_date(date: str) -> str:
    return f"abs({days(date)}) = {DATE_INFINITY}"


def micros(moment: str, spark_type: str) -> str:
    """Microseconds since 1970. Spark's session time zone is UTC, where both kinds of timestamps are the same number."""
    return f"unix_micros({moment})" if spark_type == "TIMESTAMP" else f"unix_micros(CAST({moment} AS TIMESTAMP))"


def from_micros(number: str, spark_type: str) -> str:
    moment = f"timestamp_micros({number})"
    return moment if spark_type == "TIMESTAMP" else f"CAST({moment} AS TIMESTAMP_NTZ)"


def is_infinite(moment: str, spark_type: str) -> str:
    return f"{moment} IN ({from_micros(INFINITE, spark_type)}, {from_micros('-' + INFINITE, spark_type)})"


def zone_of(compiler: Compiler) -> Zone:
    return session_zone(compiler.statement.context.style)


def is_utc(compiler: Compiler) -> bool:
    return zone_of(compiler).fixed_offset() == 0


def local_clock(moment: str, zone: Zone) -> str | None:
    """A TIMESTAMP whose fields in UTC are the local time in a zone; None for a zone that Java may not know."""
    offset = zone.fixed_offset()
    if offset is not None:
        return moment if offset == 0 else f"timestamp_micros(unix_micros({moment}) + {offset * USECS_PER_SEC}L)"
    if "/" not in zone.name:
        return None
    return f"from_utc_timestamp({moment}, '{zone.name}')"


def within_limits(value: Sql, compute: Callable[[int], int], write: Callable[[str], str]) -> Sql | None:
    """A moment computed by the SQL of `write`, with the errors of `compute`, the same function in Python. `compute`
    keeps the order of moments, so that bisection finds where it begins to fail. Infinities stay."""
    try:
        low, high = limits(compute)
    except PgError:  # not even the year 2000 is within them
        return None

    def at(number: str) -> str:
        return from_micros(number, value.type)

    def body(moment: str) -> str:
        whens = [f"WHEN {moment} IN ({at(INFINITE)}, {at('-' + INFINITE)}) THEN {moment}"]
        whens += [f"WHEN {moment} >= {at(f'{edge}L')} THEN {raised(error)}" for edge, error in reversed(high)]
        whens += [f"WHEN {moment} <= {at(f'{edge}L')} THEN {raised(error)}" for edge, error in reversed(low)]
        return f"CASE {' '.join(whens)} ELSE {write(moment)} END"

    return Sql(let([value], body), value.type)


Limits = list[tuple[int, PgError]]


def limits(compute: Callable[[int], int]) -> tuple[Limits, Limits]:
    """The moments (microseconds since 1970) from which a computation fails, downwards and upwards, and its errors."""
    top = 2**63 - 2 + UNIX_EPOCH_USECS  # the last moment a lake holds, from 2000
    return _edges(compute, MIN_TIMESTAMP, -1), _edges(compute, min(top, END_TIMESTAMP - 1), 1)


def _edges(compute: Callable[[int], int], edge: int, sign: int) -> Limits:
    """The nearest failing moment on one side, and further moments where the error changes."""
    failing: Limits = []
    good = 0
    compute(good)
    to_lake = form(oids.TIMESTAMP).to_arrow

    def failure(value: int) -> PgError | None:
        try:
            result = compute(value)
            if abs(result) != INFINITY:
                to_lake(result)
        except PgError as error:
            return error
        return None

    while (last := failure(edge)) is not None:
        bad = edge
        while abs(bad - good) > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if _same(failure(middle), last) else (middle, bad)
        failing.append((bad - UNIX_EPOCH_USECS, last))
        before = failure(good)
        if before is None:
            break
        edge, good = good, 0
    return list(reversed(failing))


def _same(one: PgError | None, other: PgError) -> bool:
    return one is not None and one.report == other.report


# --- spans ------------------------------------------------------------------------------------------------------------


def difference(expr: tree.Expr) -> tuple[tree.Expr, tree.Expr] | None:
    """The two timestamps whose difference an interval is."""
    proc = proc_by_oid(next(functions_used(expr), 0))
    if proc is None or proc.src != "timestamp_mi" or not isinstance(expr, (tree.OpExpr, tree.FuncExpr)):
        return None
    return expr.args[0], expr.args[1]


def span(one: Sql, other: Sql, infinite: str, body: str) -> str:
    """Microseconds between two moments, put into `body` for {n}; an infinite moment decides (`infinite`, for {sign}, 1
    or -1)."""
    error = raised(out_of_range())

    def write(a: str, b: str) -> str:
        x, y = micros(a, one.type), micros(b, other.type)
        first, second = f"abs({x}) = {INFINITE}", f"abs({y}) = {INFINITE}"
        number = f"coalesce(try_subtract({x}, {y}), {error})"
        return (
            f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL WHEN {first} AND {x} = {y} THEN {error}"
            f" WHEN {first} THEN {infinite.replace('{sign}', f'sign({x})')}"
            f" WHEN {second} THEN {infinite.replace('{sign}', f'(- sign({y}))')}"
            f" ELSE {body.replace('{n}', number)} END"
        )

    return let([one, other], write)


@in_spark("timestamp_mi")
def timestamp_mi(call: SparkFunctionCall) -> Sql:
    """`1 day 02:03:04.5`, `-00:00:01`: days of 24 hours and the rest, both of one sign."""
    one, other = call.values()
    number = Sql(span(one, other, f"CAST({{sign}} AS BIGINT) * {2**63 - 1}L", "{n}"), "BIGINT")

    def body(n: str) -> str:
        days, rest = f"({n} div {USECS_PER_DAY}L)", f"abs({n} % {USECS_PER_DAY}L)"
        parts = [
            f"lpad(CAST({rest} div 3600000000L AS STRING), 2, '0')",
            f"lpad(CAST({rest} div 60000000L % 60 AS STRING), 2, '0')",
            f"lpad(CAST({rest} div 1000000L % 60 AS STRING), 2, '0')",
        ]
        fraction = f"lpad(CAST({rest} % 1000000L AS STRING), 6, '0')"
        tail = f"CASE WHEN {rest} % 1000000L = 0 THEN '' ELSE concat('.', rtrim('0', {fraction})) END"
        clock = f"concat(CASE WHEN {n} < 0 THEN '-' ELSE '' END, {parts[0]}, ':', {parts[1]}, ':', {parts[2]}, {tail})"
        word = f"concat(CAST({days} AS STRING), CASE WHEN {days} = 1 THEN ' day' ELSE ' days' END)"
        return (
            f"CASE WHEN {n} = {2**63 - 1}L THEN 'infinity' WHEN {n} = -{2**63 - 1}L THEN '-infinity'"
            f" WHEN {days} = 0 THEN {clock} WHEN {rest} = 0 THEN {word} ELSE concat({word}, ' ', {clock}) END"
        )

    return Sql(let([number], body), "STRING")


_LONGEST = 10**30


def length(expr: tree.Expr, compiler: Compiler) -> str | None:
    """An interval's length in microseconds as a decimal, for differences and constants; None when it needs the
    interval's text."""
    value = compiler.constant(expr)
    if isinstance(value, Interval):
        number = interval_key(value) if is_finite(value) else _LONGEST if value.months > 0 else -_LONGEST
        return f"CAST('{number}' AS DECIMAL(38,0))"
    sides = difference(expr) if value is NOT_CONSTANT and compiler.named(expr) is None else None
    if sides is None:
        return None
    infinite = f"CAST({{sign}} AS DECIMAL(1,0)) * CAST('{_LONGEST}' AS DECIMAL(37,0))"
    one, other = (compiler.value(side) for side in sides)
    return f"CAST({span(one, other, infinite, 'CAST({n} AS DECIMAL(38,0))')} AS DECIMAL(38,0))"


@in_spark("extract_interval")
def extract_interval(call: SparkFunctionCall) -> Sql | None:
    """extract of a difference, for its seconds only."""
    sides = difference(call.args[1])
    if sides is None or call.constant(0) != "epoch" or call.compiler.named(call.args[1]) is not None:
        return None
    one, other = (call.compiler.value(side) for side in sides)
    seconds = span(one, other, "NULL", "CAST({n} * 0.000001BD AS DECIMAL(20,6))")
    special = span(one, other, "CASE WHEN {sign} > 0 THEN 'Infinity' ELSE '-Infinity' END", "NULL")
    return Sql(f"CAST({seconds} AS DECIMAL(20,6))", "DECIMAL(20,6)", special=f"CAST({special} AS STRING)")


@in_spark("interval_part")
def interval_part(call: SparkFunctionCall) -> Sql | None:
    seconds = extract_interval(call)
    return None if seconds is None else as_float(seconds)


# --- output -----------------------------------------------------------------------------------------------------------


_STRINGS = frozenset({oids.TEXT, oids.VARCHAR, oids.NAME, oids.JSON, oids.JSONB, oids.UNKNOWN, oids.BIT, oids.VARBIT})
_WHOLE = frozenset({oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.XID, oids.CID})


def output_text(expr: tree.Expr, compiler: Compiler, *, as_cast: bool = False) -> str | None:
    """The SQL of a value's text; None where only the fall-back can write it. `as_cast`: the text of a ::text cast,
    which differs for boolean and char(n)."""
    typoid = base_type(expr.type)
    value = compiler.value(expr)
    if typoid in _STRINGS:
        return value.text
    if typoid == oids.BPCHAR:
        return f"rtrim({value.text})" if as_cast else value.text
    if typoid in _WHOLE:
        return f"CAST({value.text} AS STRING)"
    if typoid == oids.BOOL:
        if as_cast:
            return f"CAST({value.text} AS STRING)"
        return let([value], lambda a: f"CASE {a} WHEN true THEN 't' WHEN false THEN 'f' END")
    if typoid == oids.NUMERIC:
        return numeric_text(value)
    style = compiler.statement.context.style
    if typoid == oids.DATE and style.date_format == "ISO":
        return let([value], date_text)
    if typoid == oids.TIMESTAMP and style.date_format == "ISO":
        return let([value], timestamp_text)
    if typoid == oids.UUID:
        return let([value], uuid_text)
    if typoid == oids.BYTEA and style.bytea_output == "hex":
        return f"concat('\\\\x', lower(hex({value.text})))"
    return None


def _years(a: str) -> str:
    """The printed year: at least four digits, positive also for years BC."""
    year = f"abs(CASE WHEN year({a}) > 0 THEN year({a}) ELSE 1 - year({a}) END)"
    return f"CASE WHEN {year} < 10000 THEN lpad(CAST({year} AS STRING), 4, '0') ELSE CAST({year} AS STRING) END"


def _written(a: str, usual: str, rest: str, number: str, most: int) -> str:
    """The text of a date or time: by Spark where `usual` is true, else infinity or the fields one by one."""
    era = f"CASE WHEN year({a}) > 0 THEN '' ELSE ' BC' END"
    return (
        f"CASE WHEN {usual} THEN CAST({a} AS STRING) WHEN {number} = {most}L THEN 'infinity'"
        f" WHEN {number} = -{most}L THEN '-infinity' ELSE concat({_years(a)}, {rest}, {era}) END"
    )


def date_text(a: str) -> str:
    usual = f"{a} BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'"
    parts = [f"lpad(CAST({part}({a}) AS STRING), 2, '0')" for part in ("month", "day")]
    return _written(a, usual, f"'-', {parts[0]}, '-', {parts[1]}", f"unix_date({a})", 2**31 - 1)


def timestamp_text(a: str) -> str:
    usual = f"{a} BETWEEN TIMESTAMP_NTZ'0001-01-01 00:00:00' AND TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"
    clock = f"date_format({a}, '-MM-dd HH:mm:ss.SSSSSS')"
    return _written(a, usual, f"rtrim('.', rtrim('0', {clock}))", f"unix_micros(CAST({a} AS TIMESTAMP))", 2**63 - 1)


def uuid_text(a: str) -> str:
    digits = f"lower(hex({a}))"
    parts = [f"substring({digits}, {start}, {size})" for start, size in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    return f"CASE WHEN {a} IS NOT NULL THEN concat_ws('-', {', '.join(parts)}) END"


_OUTPUT_TEXT = frozenset({oids.TEXT, oids.VARCHAR, oids.UNKNOWN, oids.CSTRING})


@compiler_native.register
def _(node: tree.CoerceViaIO, compiler: Compiler) -> Sql | None:
    """A cast to text. A cast from text is the fall-back's: by whole columns it is no slower than in Spark's SQL, which
    has to test each spelling first."""
    assert node.arg is not None
    if base_type(node.type) not in _OUTPUT_TEXT or form_type(node.type) != "STRING":
        return None
    written = output_text(node.arg, compiler)
    return None if written is None else Sql(written, "STRING")
