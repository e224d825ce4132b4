"""Dates and times as numbers in Spark SQL: days and microseconds since 1970, infinities, limits, the session's local
time.

A lake's `infinity` is the largest number of its type, `-infinity` its negative. For Spark they are ordinary values, so
all arithmetic of moments tests for them first.
"""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.errors import PgError
from pgrepl.expr.spark.compiler import Compiler
from pgrepl.expr.spark.sql import Sql, let, raised
from pgrepl.types import oids
from pgrepl.types.dates import END_TIMESTAMP, INFINITY, MIN_TIMESTAMP, UNIX_EPOCH_USECS, USECS_PER_SEC
from pgrepl.types.datetime_decoding import session_zone
from pgrepl.types.lake_forms import form
from pgrepl.types.timezone import Zone

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
    made = f"timestamp_micros({number})"
    return made if spark_type == "TIMESTAMP" else f"CAST({made} AS TIMESTAMP_NTZ)"


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
    found: Limits = []
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
        found.append((bad - UNIX_EPOCH_USECS, last))
        before = failure(good)
        if before is None:
            break
        edge, good = good, 0
    return list(reversed(found))


def _same(one: PgError | None, other: PgError) -> bool:
    return one is not None and one.report == other.report
