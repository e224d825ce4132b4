"""Type names with their modifiers: `format_type`, and the modifier of a written type; types whose text names a catalog
object (reg*) or roles (aclitem).

    >>> format_type(1043, 44), format_type(1007), format_type(1186, 0x7FFF0003 & 0x1C08FFFF)
    ('character varying(40)', 'integer[]', ...)

A type modifier is one int32 and -1 means "none": a length plus 4 for character types, precision and scale packed into
one word for numeric, a mask of fields and a precision for interval. The style's `lookup` resolves names of objects;
without it only OIDs, `-` (0) and the names of built-in types and functions (regtype, regproc) are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import PgType, element_type, proc_by_oid, procs_by_name, type_by_name, type_by_oid
from pgrepl.types.numbers import read_int4, read_oid
from pgrepl.types.style import TextStyle

MAX_PRECISION = 1000
MIN_SCALE, MAX_SCALE = -1000, 1000
MAX_FRACTION_DIGITS = 6
MAX_ATTR_SIZE = 10 * 1024 * 1024

INTERVAL_MONTH, INTERVAL_YEAR, INTERVAL_DAY = 1 << 1, 1 << 2, 1 << 3
INTERVAL_HOUR, INTERVAL_MINUTE, INTERVAL_SECOND = 1 << 10, 1 << 11, 1 << 12
INTERVAL_FULL_RANGE = 0x7FFF
INTERVAL_FULL_PRECISION = 0xFFFF

INTERVAL_FIELDS = {
    INTERVAL_YEAR: " year",
    INTERVAL_MONTH: " month",
    INTERVAL_DAY: " day",
    INTERVAL_HOUR: " hour",
    INTERVAL_MINUTE: " minute",
    INTERVAL_SECOND: " second",
    INTERVAL_YEAR | INTERVAL_MONTH: " year to month",
    INTERVAL_DAY | INTERVAL_HOUR: " day to hour",
    INTERVAL_DAY | INTERVAL_HOUR | INTERVAL_MINUTE: " day to minute",
    INTERVAL_DAY | INTERVAL_HOUR | INTERVAL_MINUTE | INTERVAL_SECOND: " day to second",
    INTERVAL_HOUR | INTERVAL_MINUTE: " hour to minute",
    INTERVAL_HOUR | INTERVAL_MINUTE | INTERVAL_SECOND: " hour to second",
    INTERVAL_MINUTE | INTERVAL_SECOND: " minute to second",
    INTERVAL_FULL_RANGE: "",
}

# Types with names in the SQL grammar: the name, and the name before a modifier ("": no modifier).
_SQL_NAMES = {
    oids.BIT: ("bit", "bit"),
    oids.BOOL: ("boolean", ""),
    oids.BPCHAR: ("character", "character"),
    oids.FLOAT4: ("real", ""),
    oids.FLOAT8: ("double precision", ""),
    oids.INT2: ("smallint", ""),
    oids.INT4: ("integer", ""),
    oids.INT8: ("bigint", ""),
    oids.NUMERIC: ("numeric", "numeric"),
    oids.INTERVAL: ("interval", "interval"),
    oids.TIME: ("time without time zone", "time"),
    oids.TIMETZ: ("time with time zone", "time"),
    oids.TIMESTAMP: ("timestamp without time zone", "timestamp"),
    oids.TIMESTAMPTZ: ("timestamp with time zone", "timestamp"),
    oids.VARBIT: ("bit varying", "bit varying"),
    oids.VARCHAR: ("character varying", "character varying"),
    oids.JSON: ("json", ""),
}

_PLAIN_NAME = re.compile("[a-z_][a-z0-9_$]*")
_QUOTED = {"char": '"char"', "bit": '"bit"', "any": '"any"'}


def format_type(
    oid: int, typmod: int | None = None, other_type: Callable[[int], str | None] | None = None, *, qualify: bool = False
) -> str:
    """As format_type_extended does. typmod None is "not given", which differs from -1: `character` and `bpchar`.

    other_type gives the name of a type that is not built in: a user's type or a table's row type.
    qualify puts `pg_catalog.` before names that are not words of the SQL grammar.
    """
    if oid == 0:
        return "-"
    row = type_by_oid(oid)
    if row is None:
        return (other_type(oid) if other_type is not None else None) or "???"
    brackets = ""
    if row.subscript == "array_subscript_handler" and row.storage != "p":
        brackets = "[]"
        element = type_by_oid(row.elem)
        if element is None:  # the row type of a table
            return ((other_type(row.elem) if other_type is not None else None) or "???") + brackets
        row = element
    if row.oid >= oids.FIRST_USER_OID:
        return ((other_type(row.oid) if other_type is not None else None) or _name_of(row)) + brackets
    modifier = typmod_out(row.oid, typmod) if typmod is not None and typmod >= 0 else ""
    if row.oid in _SQL_NAMES and not (typmod == -1 and row.oid in (oids.BIT, oids.BPCHAR)):
        plain, modified = _SQL_NAMES[row.oid]
        if typmod is None or typmod < 0 or not modified:
            return plain + brackets
        return modified + modifier + brackets
    name = _QUOTED.get(row.name, row.name)
    if qualify or row.schema != "pg_catalog":
        name = f"{row.schema}.{name}"
    return name + modifier + brackets


def _name_of(row: PgType) -> str:
    """The name of a user's type where no session knows the search path."""
    name = row.name if _PLAIN_NAME.fullmatch(row.name) else '"' + row.name.replace('"', '""') + '"'
    return name if row.schema == "public" else f"{row.schema}.{name}"


def typmod_out(oid: int, typmod: int) -> str:
    """A non-negative modifier as text: `(10,2)`, `(3) with time zone`, ` year to month`."""
    if oid == oids.NUMERIC:
        return "({},{})".format(*numeric_precision_scale(typmod)) if typmod >= 4 else ""
    if oid in (oids.BPCHAR, oids.VARCHAR):
        return f"({typmod - 4})" if typmod > 4 else ""
    if oid in (oids.TIME, oids.TIMESTAMP):
        return f"({typmod}) without time zone"
    if oid in (oids.TIMETZ, oids.TIMESTAMPTZ):
        return f"({typmod}) with time zone"
    if oid == oids.INTERVAL:
        precision = typmod & 0xFFFF
        fields = INTERVAL_FIELDS[typmod >> 16 & 0x7FFF]
        return fields if precision == INTERVAL_FULL_PRECISION else f"{fields}({precision})"
    return f"({typmod})"


def numeric_precision_scale(typmod: int) -> tuple[int, int]:
    """Precision and scale of a numeric type modifier; the scale is signed, in 11 bits."""
    return (typmod - 4) >> 16 & 0xFFFF, ((typmod - 4 & 0x7FF) ^ 1024) - 1024


def numeric_typmod(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


Warn = Callable[[str, str], None]  # (sqlstate, message)


def typmod_in(oid: int, modifiers: list[str], warn: Warn | None = None) -> int:
    """The modifier of `(10, 2)` as the type's typmodin function computes it; too large a precision is reduced with a
    warning."""
    read = _TYPMOD_IN.get(oid)
    if read is None:
        raise PgError("42601", f'type modifier is not allowed for type "{format_type(oid)}"')
    numbers = [read_int4(text) for text in modifiers]
    return read(oid, numbers, warn or (lambda sqlstate, message: None))


def _invalid(message: str) -> PgError:
    return PgError("22023", message)


def _numeric_typmod_in(oid: int, numbers: list[int], warn: Warn) -> int:
    if len(numbers) not in (1, 2):
        raise _invalid("invalid NUMERIC type modifier")
    precision, scale = (numbers + [0])[:2]
    if not 1 <= precision <= MAX_PRECISION:
        raise _invalid(f"NUMERIC precision {precision} must be between 1 and {MAX_PRECISION}")
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise _invalid(f"NUMERIC scale {scale} must be between {MIN_SCALE} and {MAX_SCALE}")
    return numeric_typmod(precision, scale)


def _length_typmod_in(oid: int, numbers: list[int], warn: Warn) -> int:
    if len(numbers) != 1:
        raise _invalid("invalid type modifier")
    (length,) = numbers
    bits = oid in (oids.BIT, oids.VARBIT)
    name = {oids.BIT: "bit", oids.VARBIT: "varbit", oids.BPCHAR: "char", oids.VARCHAR: "varchar"}[oid]
    most = MAX_ATTR_SIZE * 8 if bits else MAX_ATTR_SIZE
    if length < 1:
        raise _invalid(f"length for type {name} must be at least 1")
    if length > most:
        raise _invalid(f"length for type {name} cannot exceed {most}")
    return length if bits else length + 4


def _time_typmod_in(oid: int, numbers: list[int], warn: Warn) -> int:
    if len(numbers) != 1:
        raise _invalid("invalid type modifier")
    return time_precision(oid, numbers[0], warn)


def time_precision(oid: int, precision: int, warn: Warn) -> int:
    """The precision of a time or timestamp, with a WARNING if it is too large (anytime_typmod_check,
    anytimestamp_typmod_check)."""
    name = "TIME" if oid in (oids.TIME, oids.TIMETZ) else "TIMESTAMP"
    zone = " WITH TIME ZONE" if oid in (oids.TIMETZ, oids.TIMESTAMPTZ) else ""
    return _fraction_digits(f"{name}({precision}){zone}", precision, warn)


def _interval_typmod_in(oid: int, numbers: list[int], warn: Warn) -> int:
    if len(numbers) not in (1, 2) or numbers[0] not in INTERVAL_FIELDS:
        raise _invalid("invalid INTERVAL type modifier")
    fields = numbers[0]
    if len(numbers) == 1:
        return -1 if fields == INTERVAL_FULL_RANGE else fields << 16 | INTERVAL_FULL_PRECISION
    return fields << 16 | _fraction_digits(f"INTERVAL({numbers[1]})", numbers[1], warn)


def _fraction_digits(what: str, digits: int, warn: Warn) -> int:
    if digits < 0:
        raise _invalid(f"{what} precision must not be negative")
    if digits > MAX_FRACTION_DIGITS:
        warn("22023", f"{what} precision reduced to maximum allowed, {MAX_FRACTION_DIGITS}")
        return MAX_FRACTION_DIGITS
    return digits


_TYPMOD_IN: dict[int, Callable[[int, list[int], Warn], int]] = {
    oids.NUMERIC: _numeric_typmod_in,
    oids.BPCHAR: _length_typmod_in,
    oids.VARCHAR: _length_typmod_in,
    oids.BIT: _length_typmod_in,
    oids.VARBIT: _length_typmod_in,
    oids.TIME: _time_typmod_in,
    oids.TIMETZ: _time_typmod_in,
    oids.TIMESTAMP: _time_typmod_in,
    oids.TIMESTAMPTZ: _time_typmod_in,
    oids.INTERVAL: _interval_typmod_in,
}


_REG = (
    oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE, oids.REGROLE,
    oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY,
)  # fmt: skip


def _reader(typoid: int) -> Callable[[str, int, TextStyle], int]:
    """How a type such as regclass reads a text: `-` is none, digits are an OID (parseDashOrOid), all else a name."""

    def read(text: str, typmod: int, style: TextStyle) -> int:
        if text == "-":
            return 0
        if text[:1].isdigit() and text.strip("0123456789") == "":
            return read_oid(text)
        if style.lookup is not None:
            return style.lookup.oid_of(typoid, text)
        return _builtin_oid(typoid, text)

    return read


def _writer(typoid: int) -> Callable[[int, TextStyle], str]:
    def write(oid: int, style: TextStyle) -> str:
        if oid == 0:
            return "-" if typoid != oids.REGOPER and typoid != oids.REGOPERATOR else "0"
        if style.lookup is not None:
            return style.lookup.text_of(typoid, oid)
        return _builtin_text(typoid, oid)

    return write


def _builtin_oid(typoid: int, text: str) -> int:
    if typoid == oids.REGTYPE:
        row = type_by_name(text)
        if row is None:
            raise PgError("42704", f'type "{text}" does not exist')
        return row.oid
    if typoid == oids.REGPROC:
        procs = procs_by_name(text)
        if not procs:
            raise PgError("42883", f'function "{text}" does not exist')
        if len(procs) > 1:
            raise PgError("42725", f'more than one function named "{text}"')
        return procs[0].oid
    return read_oid(text)


def _builtin_text(typoid: int, oid: int) -> str:
    if typoid == oids.REGTYPE and type_by_oid(oid) is not None:
        return format_type(oid)
    if typoid == oids.REGPROC and (proc := proc_by_oid(oid)) is not None:
        return proc.name
    return str(oid)


def _read_aclitem(text: str, typmod: int, style: TextStyle) -> str:
    return text


READ: dict[int, Callable[[str, int, TextStyle], Any]] = {
    **{typoid: _reader(typoid) for typoid in _REG},
    oids.ACLITEM: _read_aclitem,
}
WRITE: dict[int, Callable[[Any, TextStyle], str]] = {
    **{typoid: _writer(typoid) for typoid in _REG},
    oids.ACLITEM: lambda value, style: str(value),
}


def asks_catalog(typoid: int) -> bool:
    """Whether reading or writing a value of the type needs the catalog: it names an object, or the type is in none of
    PostgreSQL's own catalogs."""
    return typoid >= _FIRST_OF_USERS or typoid in READ or element_type(typoid) in READ


_FIRST_OF_USERS = 16384  # FirstNormalObjectId
