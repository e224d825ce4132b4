"""Grouping keys and sort keys: the value itself where Spark compares it as PostgreSQL does, else a key derived from
it.

numeric kept as text   equal: '1.5' of 1.50; order: '60000001' + '15', the digits of negative numbers are inverted
character(n)           the text without trailing blanks
interval, jsonb, inet, arrays, ranges …   bytes that sort like the values, made in Python
"""

from __future__ import annotations

from pgrepl.expr import tree
from pgrepl.expr.spark.compiler import NOT_CONSTANT, Compiler, Names
from pgrepl.expr.spark.sql import Sql, cast, decimal_size, let, numeric_text
from pgrepl.expr.spark.statement import Statement
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, element_type

# types whose lake form Spark orders, and finds equal, as PostgreSQL does
NATURAL = frozenset(
    {
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.XID, oids.CID, oids.REGPROC, oids.REGPROCEDURE,
        oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE, oids.REGROLE, oids.REGNAMESPACE,
        oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY, oids.FLOAT4, oids.FLOAT8, oids.TEXT, oids.VARCHAR,
        oids.NAME, oids.CHAR, oids.UNKNOWN, oids.BYTEA, oids.UUID, oids.DATE, oids.TIME, oids.TIMESTAMP,
        oids.TIMESTAMPTZ, oids.BIT, oids.VARBIT, oids.MACADDR, oids.MACADDR8,
    }
)  # fmt: skip
# types whose equal values have equal texts
_ONE_TEXT = NATURAL | {oids.TIMETZ, oids.INET, oids.CIDR, oids.PG_LSN, oids.XID8, oids.TID, oids.JSON}


def equal_key(expr: tree.Expr, names: Names, statement: Statement) -> str:
    return equal_key_of(expr, Compiler(names, statement))


def sort_item(expr: tree.Expr, key: tree.SortGroup, names: Names, statement: Statement) -> str:
    return sort_item_of(expr, key, Compiler(names, statement))


def equal_key_of(expr: tree.Expr, compiler: Compiler) -> str:
    if isinstance(expr, tree.RowExpr) and expr.args:
        return f"struct({', '.join(equal_key_of(arg, compiler) for arg in expr.args)})"
    typoid = base_type(expr.type)
    if typoid == oids.NUMERIC:
        value = compiler.value(expr)
        if decimal_size(value.type) is not None:
            return value.text
        return numeric_equal_key(numeric_text(value))
    if typoid == oids.BPCHAR:
        return f"rtrim({compiler.text(expr)})"
    element = element_type(typoid)
    if typoid in _ONE_TEXT or (element and base_type(element) in _ONE_TEXT):
        return compiler.text(expr)
    return _made(expr, compiler)


def sort_key_of(expr: tree.Expr, compiler: Compiler) -> str:
    typoid = base_type(expr.type)
    if typoid == oids.NUMERIC:
        value = compiler.value(expr)
        if decimal_size(value.type) is not None:
            return value.text
        return numeric_order_key(Sql(numeric_text(value), "STRING"))
    if typoid == oids.BPCHAR:
        return f"rtrim({compiler.text(expr)})"
    if typoid in NATURAL:
        return compiler.text(expr)
    return _made(expr, compiler)


def sort_item_of(expr: tree.Expr, key: tree.SortGroup, compiler: Compiler) -> str:
    text = sort_key_of(expr, compiler)
    return f"{text} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _made(expr: tree.Expr, compiler: Compiler) -> str:
    from pgrepl.expr.spark.fallback import fall_back
    from pgrepl.expr.spark.order_bytes import order_bytes

    value = compiler.constant(expr)
    if value is None:
        return cast("NULL", "BINARY")
    if value is not NOT_CONSTANT:
        return compiler.statement.bind(order_bytes(value, expr.type))

    return fall_back(expr, compiler, key=True).text


def numeric_equal_key(text: str) -> str:
    """The text of a numeric without trailing zeros."""
    return let(
        [Sql(text, "STRING")],
        lambda n: f"CASE WHEN contains({n}, '.') THEN rtrim('.', rtrim('0', {n})) ELSE {n} END",
    )


USUAL_DECIMAL = "DECIMAL(28,10)"


def scale_of(text: str) -> str:
    """The scale of a numeric stored as text."""
    return f"CASE WHEN instr({text}, '.') = 0 THEN 0 ELSE char_length({text}) - instr({text}, '.') END"


def usual_numeric(text: str) -> str:
    """Whether a numeric stored as text fits USUAL_DECIMAL exactly: no NaN or infinity, not too many digits on either
    side."""
    return f"octet_length({text}) <= 18 AND right({text}, 1) <= '9' AND {scale_of(text)} <= 10"


def numeric_order_key(value: Sql) -> str:
    """A text that sorts as the numbers do: sign, number of digits before the decimal point, digits."""

    def body(n: str) -> str:
        whole = f"ltrim('0', ltrim('-', substring_index({n}, '.', 1)))"
        digits = f"rtrim('0', concat({whole}, split_part({n}, '.', 2)))"
        size = f"concat(lpad(CAST(char_length({whole}) AS STRING), 6, '0'), {digits})"
        return (
            f"CASE WHEN {n} IN ('NaN', 'Infinity', '-Infinity') THEN decode({n}, 'NaN', '9', 'Infinity', '8', '0')"
            f" WHEN rtrim('0', ltrim('0', replace({n}, '.', ''))) = '' THEN '5'"
            f" WHEN startswith({n}, '-') THEN concat('4', translate({size}, '0123456789', '9876543210'), '~')"
            f" ELSE concat('6', {size}) END"
        )

    return let([value], body)
