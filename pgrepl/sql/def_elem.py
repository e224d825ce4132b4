"""Options: reading the value of an option of a `WITH (…)` list or a sequence clause (define.c).

A getter raises PostgreSQL's error for a value that is not of its type.
"""

from __future__ import annotations

from typing import NoReturn

from pgrepl.errors import PgError
from pgrepl.sql.nodes import DefElem, FloatText, TypeName
from pgrepl.types.numbers import read_oid

INT8_MIN, INT8_MAX = -(2**63), 2**63 - 1


def type_name_to_string(name: TypeName) -> str:
    """A type as it was written, `pg_catalog.int4`, `t.a%TYPE`, `foo[]`, as TypeNameToString does."""
    text = ".".join(name.names)
    if name.pct_type:
        text += "%TYPE"
    return text + ("[]" if name.array_bounds else "")


def get_string(option: DefElem) -> str:
    value = option.value
    if value is None:
        raise PgError("42601", f"{option.name} requires a parameter")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, FloatText):
        return value.text
    if isinstance(value, TypeName):
        return type_name_to_string(value)
    if isinstance(value, tuple):
        return ".".join(str(part) for part in value)
    return str(value)


def get_boolean(option: DefElem) -> bool:
    value = option.value
    if value is None:
        return True
    if isinstance(value, int) and not isinstance(value, bool):
        if value in (0, 1):
            return bool(value)
    else:
        word = get_string(option).lower()
        if word in ("true", "on"):
            return True
        if word in ("false", "off"):
            return False
    raise PgError("42601", f"{option.name} requires a Boolean value")


def get_streaming(option: DefElem) -> str:
    """f, t or p: a boolean, or the word `parallel` (defGetStreamingMode)."""
    modes: dict[object, str] = {"false": "f", "off": "f", "true": "t", "on": "t", "parallel": "p", 0: "f", 1: "t"}
    value = option.value
    if value is None:
        return "t"
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    mode = modes.get(value if is_integer else get_string(option).lower())
    if mode is None:
        raise PgError("42601", f'{option.name} requires a Boolean value or "parallel"')
    return mode


def get_int64(option: DefElem) -> int:
    value = option.value
    if isinstance(value, FloatText):
        return _int8(value.text)
    if isinstance(value, int) and not isinstance(value, bool):
        if not INT8_MIN <= value <= INT8_MAX:
            raise PgError("22003", f'value "{value}" is out of range for type bigint')
        return value
    raise PgError("42601", f"{option.name} requires a numeric value")


def get_int32(option: DefElem) -> int:
    value = option.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PgError("42601", f"{option.name} requires an integer value")


def get_object_id(option: DefElem) -> int:
    value = option.value
    if isinstance(value, FloatText):
        return read_oid(value.text)
    if isinstance(value, int) and not isinstance(value, bool):
        return value % 2**32
    raise PgError("42601", f"{option.name} requires a numeric value")


def _int8(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise PgError("22P02", f'invalid input syntax for type bigint: "{text}"') from None
    if not INT8_MIN <= number <= INT8_MAX:
        raise PgError("22003", f'value "{text}" is out of range for type bigint')
    return number


def get_qualified_name(option: DefElem) -> tuple[str, ...]:
    value = option.value
    if value is None:
        raise PgError("42601", f"{option.name} requires a parameter")
    if isinstance(value, TypeName):
        return value.names
    if isinstance(value, tuple):
        return value
    if isinstance(value, str):
        return (value,)
    raise PgError("42601", f"argument of {option.name} must be a name")


def get_type_name(option: DefElem) -> TypeName:
    value = option.value
    if value is None:
        raise PgError("42601", f"{option.name} requires a parameter")
    if isinstance(value, TypeName):
        return value
    if isinstance(value, str):
        return TypeName((value,))
    raise PgError("42601", f"argument of {option.name} must be a type name")


def conflicting(option: DefElem) -> NoReturn:
    """The error for an option given twice (errorConflictingDefElem)."""
    raise PgError("42601", "conflicting or redundant options", location=option.location)
