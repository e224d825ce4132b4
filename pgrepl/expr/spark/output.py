"""Output functions in the session's text style, and input from text, as Spark SQL."""

from __future__ import annotations

from pgrepl.expr import tree
from pgrepl.expr.spark.compiler import Compiler, native
from pgrepl.expr.spark.sql import Sql, form_type, let, numeric_text
from pgrepl.types import oids
from pgrepl.types.builtin import base_type

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


_TEXT = frozenset({oids.TEXT, oids.VARCHAR, oids.UNKNOWN, oids.CSTRING})


@native.register
def _(node: tree.CoerceViaIO, compiler: Compiler) -> Sql | None:
    from pgrepl.expr.spark.mostly import cast_mostly

    assert node.arg is not None
    if base_type(node.type) in _TEXT and form_type(node.type) == "STRING":
        written = output_text(node.arg, compiler)
        if written is not None:
            return Sql(written, "STRING")
    return cast_mostly(node, compiler)
