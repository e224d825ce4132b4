"""Casts from and to text: Spark casts values in the usual spelling, the fall-back all others.

`'42'::int` is an easy cast in Spark, ` 0x_2A` and the error for `4x` are not. In the cast of a column Spark casts the
usual values; Python casts the others, and gets NULL in place of the usual ones.
"""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.expr import tree
from pgrepl.expr.spark.compiler import Compiler
from pgrepl.expr.spark.fallback import fall_back
from pgrepl.expr.spark.moments import is_utc
from pgrepl.expr.spark.sql import Sql, quoted
from pgrepl.types import oids
from pgrepl.types.builtin import base_type

Spelling = tuple[str, str]  # the condition that usual values meet, and their cast

_TEXT = frozenset({oids.TEXT, oids.VARCHAR, oids.UNKNOWN})


def cast_mostly(node: tree.CoerceViaIO, compiler: Compiler) -> Sql | None:
    """None when the cast has no usual spelling, or when the value has to be computed first: Spark computes arguments
    of fall-backs beforehand, and errors in them would come too early."""
    arg = node.arg
    if arg is None:
        return None
    column = compiler.named(arg)
    if column is None:
        return None
    source, target = base_type(arg.type), base_type(node.type)
    spelling: Spelling | None = None
    if source in _TEXT and target in _FROM_TEXT:
        spelling = _FROM_TEXT[target](column.text)
    elif source in _TEXT and target in (oids.TIMESTAMP, oids.TIMESTAMPTZ):
        spelling = _moment(column.text, target, compiler)
    elif source == oids.FLOAT8 and target in _TEXT and compiler.statement.context.style.extra_float_digits > 0:
        spelling = _whole_float(column.text)
    if spelling is None or spelling[0] == "":
        return None
    usual, native = spelling
    rest = fall_back(node, compiler, unless=usual)
    return Sql(f"CASE WHEN {usual} THEN {native} ELSE {rest.text} END", rest.type)


def _matches(text: str, pattern: str) -> str:
    return f"{text} RLIKE {quoted(pattern)}"


def _integer(digits: int, spark_type: str) -> Callable[[str], Spelling]:
    return lambda text: (_matches(text, rf"^-?[0-9]{{1,{digits}}}\z"), f"CAST({text} AS {spark_type})")


def _numeric(text: str) -> Spelling:
    """Usual are numbers as PostgreSQL writes them: their text is the result."""
    return _matches(text, r"^(?:-?[1-9][0-9]{0,30}|0)(?:\.[0-9]{1,30})?\z"), text


def _float8(text: str) -> Spelling:
    return _matches(text, r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?\z"), f"CAST({text} AS DOUBLE)"


def _boolean(text: str) -> Spelling:
    true, false = "'t', 'true', 'y', 'yes', 'on', '1'", "'f', 'false', 'n', 'no', 'off', '0'"
    return f"lower({text}) IN ({true}, {false})", f"lower({text}) IN ({true})"


def _date(text: str) -> Spelling:
    shape = _matches(text, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z")
    return f"({shape} AND try_cast({text} AS DATE) >= DATE'0001-01-01')", f"try_cast({text} AS DATE)"


def _moment(text: str, target: int, compiler: Compiler) -> Spelling:
    shape = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    if target == oids.TIMESTAMP:
        usual, spark_type, first = shape + r"\z", "TIMESTAMP_NTZ", "TIMESTAMP_NTZ'0001-01-01 00:00:00'"
    else:
        zone = r"(?:[+-][0-9]{2}:[0-9]{2})" + ("?" if is_utc(compiler) else "")
        usual, spark_type, first = shape + zone + r"\z", "TIMESTAMP", "TIMESTAMP'0001-01-02 00:00:00'"
    made = f"try_cast({text} AS {spark_type})"
    return f"({_matches(text, usual)} AND {made} >= {first})", made


def _uuid(text: str) -> Spelling:
    digit = "[0-9a-fA-F]"
    shape = rf"^{digit}{{8}}-{digit}{{4}}-{digit}{{4}}-{digit}{{4}}-{digit}{{12}}\z"
    return _matches(text, shape), f"unhex(replace({text}, '-', ''))"


def _whole_float(text: str) -> Spelling:
    whole = f"abs({text}) < 1E15D AND {text} = floor({text}) AND {text} <> 0D"
    return f"({whole})", f"CAST(CAST({text} AS BIGINT) AS STRING)"


_FROM_TEXT: dict[int, Callable[[str], Spelling]] = {
    oids.INT2: _integer(4, "SMALLINT"),
    oids.INT4: _integer(9, "INT"),
    oids.INT8: _integer(18, "BIGINT"),
    oids.NUMERIC: _numeric,
    oids.FLOAT8: _float8,
    oids.BOOL: _boolean,
    oids.DATE: _date,
    oids.UUID: _uuid,
}
