"""Constants as Spark SQL: numbers and moments as literals, text and bytes as parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pgrepl.errors import PgError
from pgrepl.expr.spark.sql import Sql, cast, decimal_size, decimal_type, form_type, null_of, quoted, raised
from pgrepl.expr.spark.statement import Statement
from pgrepl.types import oids
from pgrepl.types.lake_arrays import Form
from pgrepl.types.lake_forms import form
from pgrepl.types.numbers import write_float4
from pgrepl.types.numeric import display_scale, write_numeric

MAX_DECIMAL = 38


def constant(value: Any, typoid: int, typmod: int, statement: Statement) -> Sql:
    """The SQL of a constant; PgError when the lake cannot store it."""
    if value is None:
        return null_of(_type_of_null(typoid, typmod))
    if typoid == oids.NUMERIC:
        return numeric_constant(value, statement)
    spark_type = form_type(typoid, typmod)
    if spark_type == "STRING":
        text = str(value) if typoid in (oids.UNKNOWN, oids.CSTRING, oids.VOID) else form(typoid, typmod).to_arrow(value)
        return Sql(statement.bind(text), spark_type)
    if spark_type == "BINARY":
        return Sql(statement.bind(form(typoid, typmod).to_arrow(value)), spark_type)
    return Sql(literal(form(typoid, typmod).to_arrow(value), form(typoid, typmod)), spark_type)


def _type_of_null(typoid: int, typmod: int) -> str:
    return "DECIMAL(1,0)" if typoid == oids.NUMERIC and typmod < 0 else form_type(typoid, typmod)


def numeric_constant(value: Decimal, statement: Statement) -> Sql:
    """A numeric constant, as a decimal of its display scale where it fits."""
    spark_type = type_of_decimal(value)
    if spark_type is None:
        return Sql(statement.bind(write_numeric(value)), "STRING")
    return Sql(cast(quoted(write_numeric(value)), spark_type), spark_type)


def type_of_decimal(value: Decimal) -> str | None:
    if not value.is_finite():
        return None
    scale = display_scale(value)
    whole = max(value.adjusted() + 1, 0) if value else 0
    precision = max(whole + scale, 1)
    return decimal_type(precision, scale) if precision <= MAX_DECIMAL else None


def literal(plain: Any, of: Form) -> str:
    """A value in Arrow form as an SQL literal."""
    if of.element is not None:
        items = [cast("NULL", of.element.spark) if item is None else literal(item, of.element) for item in plain]
        return f"array({', '.join(items)})" if items else cast("array()", of.spark)
    if decimal_size(of.spark) is not None:
        return cast(quoted(write_numeric(plain)), of.spark)
    return _LITERALS[of.spark](plain)


def float8_literal(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return cast(f"'{word}'", "DOUBLE")
    return f"{value!r}D" if "e" in repr(value) or "." in repr(value) else f"{value!r}.0D"


def _float4(value: float) -> str:
    if math.isfinite(value):
        return cast(f"'{write_float4(value)}'", "FLOAT")
    return cast(float8_literal(value), "FLOAT")


def _bigint(value: int) -> str:
    return f"{value}L" if value > -(2**63) else "(-9223372036854775807L - 1L)"


def _time(usecs: int) -> str:
    if usecs >= 86_400_000_000:
        return cast(raised(PgError("0A000", "time 24:00:00 in a column on Spark is not supported")), "TIME(6)")
    seconds, fraction = divmod(usecs, 1_000_000)
    return f"TIME'{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}'"


_LITERALS: dict[str, Callable[[Any], str]] = {
    "BOOLEAN": lambda v: "true" if v else "false",
    "SMALLINT": lambda v: f"{v}S" if v > -32768 else cast("-32768", "SMALLINT"),
    "INT": str,
    "BIGINT": _bigint,
    "FLOAT": _float4,
    "DOUBLE": float8_literal,
    "DATE": lambda v: f"date_from_unix_date({v})",
    "TIMESTAMP": lambda v: f"timestamp_micros({_bigint(v)})",
    "TIMESTAMP_NTZ": lambda v: cast(f"timestamp_micros({_bigint(v)})", "TIMESTAMP_NTZ"),
    "TIME(6)": _time,
    "STRING": quoted,
    "BINARY": lambda v: f"X'{v.hex()}'",
}
