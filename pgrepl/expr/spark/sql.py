"""Pieces of Spark SQL: typed texts, string constants, errors, and values used more than once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pgrepl.errors import PgError, marked
from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.lake_forms import form


@frozen
class Sql:
    """A Spark SQL expression that can be used anywhere, also as an operand.

    `type` is its Spark type as in DDL. For numeric it is STRING (PostgreSQL's text), or a decimal whose scale is the
    display scale of every value. `special` belongs to a decimal: the SQL of a text for values that no decimal holds
    (NaN, Infinity), NULL for all others; None if there are no such values.
    """

    text: str
    type: str
    null: bool = False  # it is the constant NULL
    special: str | None = None
    unchecked: Unchecked | None = None


@frozen
class Unchecked:
    """Float arithmetic whose overflow check is made once for a whole nest of operations (see arithmetic.py)."""

    plain: str  # the operations alone
    fine: tuple[str, ...]  # what else than a finite result is true when none of them failed
    checked: str  # the value, or the error, with every operation checked


_SAFE = re.compile(r"[A-Za-z0-9 _.,:;=<>()+*/@#%\"\[\]!?|~^&-]")


def quoted(text: str) -> str:
    """A string constant. Everything but plain characters is written by its number, so nothing in it can end it."""
    out = []
    for char in text:
        code = ord(char)
        if _SAFE.match(char):
            out.append(char)
        elif code < 0x10000:
            out.append(f"\\u{code:04x}")
        else:
            out.append(f"\\U{code:08x}")
    return "'" + "".join(out) + "'"


_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def decimal_type(precision: int, scale: int) -> str:
    return f"DECIMAL({precision},{scale})"


def decimal_size(spark_type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for any other type."""
    found = _DECIMAL.fullmatch(spark_type)
    return (int(found[1]), int(found[2])) if found is not None else None


def decimal_typmod(precision: int, scale: int) -> int:
    return (precision << 16 | scale) + 4


_AS_TEXT = frozenset({oids.UNKNOWN, oids.CSTRING, oids.VOID})


def form_type(typoid: int, typmod: int = -1) -> str:
    """The Spark type of columns of a PostgreSQL type."""
    return "STRING" if typoid in _AS_TEXT else form(typoid, typmod).spark


def cast(text: str, spark_type: str) -> str:
    return f"CAST({text} AS {spark_type})"


def null_of(spark_type: str) -> Sql:
    return Sql(cast("NULL", spark_type), spark_type, null=True)


def as_float(value: Sql) -> Sql:
    """A number as double precision."""
    number = cast(value.text, "DOUBLE")
    if value.special is None:
        return Sql(number, "DOUBLE")
    return Sql(f"coalesce(CAST({value.special} AS DOUBLE), {number})", "DOUBLE")


def numeric_text(sql: Sql) -> str:
    """A numeric as PostgreSQL's text."""
    if sql.type == "STRING":
        return sql.text
    assert decimal_size(sql.type) is not None
    written = cast(sql.text, "STRING")
    return written if sql.special is None else f"coalesce({sql.special}, {written})"


def raised(error: PgError) -> str:
    """An expression that raises an error when evaluated; it has whatever type its context needs."""
    return f"raise_error({quoted(marked(error).replace(_USUAL, '{'))})"


_USUAL = '{"severity": "ERROR", '


def calls_python(text: str) -> bool:
    """Whether the SQL calls a fall-back function; Spark does not allow one in a lambda."""
    return FUNCTION_PREFIX in text


FUNCTION_PREFIX = "pgrepl_"
_LONG = 1500


def let(values: Sequence[Sql], body: Callable[..., str]) -> str:
    """The SQL of `body` over the SQL of some values, which it may use several times.

    When that gets long, the values are computed once, in a struct that a lambda is given: otherwise a nest of such
    bodies would double with each level. A lambda runs slower than plain SQL, so what is short is simply repeated. The
    body may call no fall-back function.
    """
    repeated = body(*[value.text for value in values])
    if len(repeated) <= _LONG or all(_NAME.fullmatch(value.text) for value in values):
        return repeated
    name = f"v{_depth(values)}"
    named = ", ".join(f"'a{n}', {value.text}" for n, value in enumerate(values))
    fields = [f"{name}.a{n}" for n in range(len(values))]
    return f"element_at(transform(array(named_struct({named})), {name} -> {body(*fields)}), 1)"


_NAME = re.compile(r"[\w.:`]+|CAST\([\w.:`']+ AS [A-Z0-9_(),]+\)")  # a column, a parameter, a constant
_LAMBDA = re.compile(r"\bv(\d+) -> ")


def _depth(values: Sequence[Sql]) -> int:
    """A number that no lambda inside these texts has."""
    return 1 + max((int(n) for value in values for n in _LAMBDA.findall(value.text)), default=0)
