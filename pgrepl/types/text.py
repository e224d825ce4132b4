"""Input and output functions of all types.

    >>> read_text("0x1F", oids.INT4), write_text(True, oids.BOOL), write_text(array_of(oids.TEXT, ["a b", None]), 1009)
    (31, 't', '{"a b",NULL}')

Each family of types is a module, loaded when one of its types is first met. Values are plain Python objects:

| type | Python |
| --- | --- |
| smallint … bigint, oid, xid, pg_lsn, reg* | int |
| numeric, real and double precision, boolean | Decimal, float, bool |
| text, varchar, char(n) (padded), name, "char", unknown, json, jsonpath, bit strings (digits), inet, macaddr | str |
| jsonb, bytea, uuid | Jsonb, bytes, UUID |
| date, time, timestamp, timestamptz | int: days or microseconds, from 2000-01-01 |
| timetz, interval | TimeTz, Interval |
| arrays, vectors, ranges, multiranges, records | PgArray, PgArray from 0, PgRange, PgMultirange, Record |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError, unsupported
from pgrepl.types import oids
from pgrepl.types.arrays import read_array, write_array
from pgrepl.types.builtin import base_type_and_typmod, element_type, range_by_oid, range_of_multirange, type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.ranges import read_multirange, read_range, write_multirange, write_range
from pgrepl.types.style import DEFAULT_STYLE, Record, TextStyle, split_record, write_record
from pgrepl.types.user_types import (
    composite_type,
    described,
    labels_of_stored,
    order_of_labels,
    stored_labels,
    tests_null,
)

if TYPE_CHECKING:
    from pgrepl.types.arrays import PgArray

Reader = Callable[[str, int, TextStyle], Any]  # text, typmod, style
Writer = Callable[[Any, TextStyle], str]

# The modules that have the types' functions, in their tables READ and WRITE.
_FAMILIES = {
    "plain": (
        oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.XID, oids.CID, oids.XID8, oids.FLOAT4, oids.FLOAT8,
        oids.NUMERIC, oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.CHAR, oids.UNKNOWN, oids.CSTRING,
        oids.BYTEA, oids.BIT, oids.VARBIT, oids.UUID, oids.JSON, oids.JSONB, oids.PG_LSN, oids.TID, oids.XML,
        oids.OIDVECTOR, oids.INT2VECTOR, oids.REFCURSOR, oids.PG_NODE_TREE, oids.VOID, oids.PG_SNAPSHOT,
        oids.TXID_SNAPSHOT,
    ),
    "names": (
        oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE, oids.REGROLE,
        oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY, oids.ACLITEM,
    ),
    "times.datetime": (oids.DATE, oids.TIME, oids.TIMETZ, oids.TIMESTAMP, oids.TIMESTAMPTZ),
    "times.interval": (oids.INTERVAL,),
    "jsonpath.parser": (oids.JSONPATH,),
    "network": (oids.INET, oids.CIDR, oids.MACADDR, oids.MACADDR8),
}  # fmt: skip
_MODULES = {typoid: module for module, typoids in _FAMILIES.items() for typoid in typoids}
_READERS = _MODULES | {oids.INTERVAL: "times.interval_input"}  # output does not need the larger input module

# Types whose text is str() of the value.
_AS_IS = frozenset(
    {
        oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.UNKNOWN, oids.CSTRING, oids.JSON, oids.JSONB, oids.INT2,
        oids.INT4, oids.INT8, oids.OID, oids.XID, oids.CID, oids.XID8, oids.BIT, oids.VARBIT, oids.UUID, oids.REFCURSOR,
        oids.PG_NODE_TREE, oids.XML, oids.PG_SNAPSHOT, oids.TXID_SNAPSHOT, oids.JSONPATH,
    }
)  # fmt: skip


@cache
def reader(typoid: int) -> Reader:
    """The input function of a type."""
    module = _READERS.get(typoid)
    if module is not None:
        read: Reader = import_module(f"{__package__}.{module}").READ[typoid]
        return read
    ranges = range_by_oid(typoid) or range_of_multirange(typoid)
    if ranges is not None:
        return _range_reader(typoid, ranges.subtype)
    element = element_type(typoid)
    if element:
        return _array_reader(element)
    row = type_by_oid(typoid)
    if row is not None and row.typtype == "d":
        return _domain_reader(typoid)
    if row is not None and row.typtype == "e":
        return _enum_reader(typoid)
    if typoid == oids.RECORD:
        return _refuse_record
    if row is None or row.typtype == "c":
        return _row_reader(typoid)
    if row is not None and row.typtype == "p":
        refused = PgError("0A000", f"cannot accept a value of type {format_type(typoid)}")
        refused.is_hard = True
        raise refused
    raise unsupported(f"type {format_type(typoid)}")


def _row_reader(typoid: int) -> Reader:
    """The input function of a named row type; the style's lookup knows its fields."""

    def read(text: str, typmod: int, style: TextStyle) -> Any:
        row = composite_type(typoid) or (style.lookup.row_type(typoid) if style.lookup is not None else None)
        if row is None:
            raise unsupported(f"type {format_type(typoid)}")
        words = split_record(text, len(row.fields))  # a field is read before the next one is looked for
        values: list[Any] = []
        for word, field in zip(words, row.fields, strict=True):
            if word is None:
                read_null(field.type, style)
            values.append(None if word is None else reader(field.type)(word, field.typmod, style))
        return Record(values, row.types, row.names)

    return read


def read_null(typoid: int, style: TextStyle) -> None:
    """The input functions of domains see NULL, too: neither domain_in nor domain_recv is strict."""
    check_domain(typoid, None, style)


def check_domain(typoid: int, value: Any, style: TextStyle) -> None:
    """Test a value, NULL included, if the type is a domain with constraints; what was stored has been tested."""
    if style.check_domain is not None and not style.stored and tests_null(typoid):
        style.check_domain(typoid, value)


def _domain_reader(typoid: int) -> Reader:
    """As domain_in: the base type's input function, then the constraints, unless the value was stored before."""
    base_type, typmod = base_type_and_typmod(typoid, -1)
    base = reader(base_type)
    if not tests_null(typoid):
        return lambda text, _, style: base(text, typmod, style)

    def read(text: str, _: int, style: TextStyle) -> Any:
        value = base(text, typmod, style)
        if style.check_domain is not None and not style.stored:
            style.check_domain(typoid, value)
        return value

    return read


def _enum_reader(typoid: int) -> Reader:
    """The input function of an enum, whose values are its labels (enum_in)."""
    of_stored = labels_of_stored(typoid)
    labels, known = order_of_labels(typoid), described(typoid)
    unsafe = () if known is None else known.unsafe

    def read(text: str, typmod: int, style: TextStyle) -> str:
        if style.stored and of_stored:
            text = of_stored.get(text, text)
        if text in unsafe and not style.stored:
            raise PgError(
                "55P04",
                f'unsafe use of new value "{text}" of enum type {_shown(typoid, style)}',
                hint="New enum values must be committed before they can be used.",
            )
        if text not in labels:
            raise PgError("22P02", f'invalid input value for enum {_shown(typoid, style)}: "{text}"')
        return text

    return read


def _shown(typoid: int, style: TextStyle) -> str:
    """The type as format_type prints it in the session, if there is one."""
    return format_type(typoid) if style.lookup is None else style.lookup.text_of(oids.REGTYPE, typoid)


def _refuse_record(text: str, typmod: int, style: TextStyle) -> Any:
    raise PgError("0A000", "input of anonymous composite types is not implemented")


@cache
def writer(typoid: int) -> Writer:
    """The output function of a type."""
    if typoid in _AS_IS:
        return lambda value, style: str(value)
    module = _MODULES.get(typoid)
    if module is not None:
        write: Writer = import_module(f"{__package__}.{module}").WRITE[typoid]
        return write
    ranges = range_by_oid(typoid) or range_of_multirange(typoid)
    if ranges is not None:
        return _range_writer(typoid, ranges.subtype)
    element = element_type(typoid)
    if element:
        return _array_writer(element)
    row = type_by_oid(typoid)
    if row is not None and row.typtype == "d":
        return writer(row.basetype)
    if row is not None and row.typtype == "e":
        stored = stored_labels(typoid)
        return lambda value, style: stored[value] if style.stored and stored else str(value)
    if typoid in (oids.ANYARRAY, oids.RECORD_ARRAY):
        return lambda value, style: _array_writer(value.elemtype)(value, style)
    if typoid == oids.RECORD or row is None or row.typtype == "c":
        return _write_record
    if row.typtype == "p":
        raise PgError("0A000", f"cannot display a value of type {format_type(typoid)}")
    raise unsupported(f"type {format_type(typoid)}")


def read_text(text: str, typoid: int, typmod: int = -1, style: TextStyle = DEFAULT_STYLE) -> Any:
    return reader(typoid)(text, typmod, style)


def write_text(value: Any, typoid: int, style: TextStyle = DEFAULT_STYLE) -> str:
    return writer(typoid)(value, style)


def _delimiter(element: int) -> str:
    row = type_by_oid(element)
    return row.delim if row is not None else ","


def _array_reader(element: int) -> Reader:
    read_element, delimiter = reader(element), _delimiter(element)
    tested = tests_null(element)

    def read(text: str, typmod: int, style: TextStyle) -> PgArray:
        null = (lambda: read_null(element, style)) if tested else None
        return read_array(text, element, lambda word: read_element(word, typmod, style), delimiter, null)

    return read


def _array_writer(element: int) -> Writer:
    write_element, delimiter = writer(element), _delimiter(element)
    return lambda value, style: write_array(value, lambda item: write_element(item, style), delimiter)


def _range_reader(typoid: int, subtype: int) -> Reader:
    import pgrepl.types.values  # noqa: F401 -- ranges of users ask it for the order of their bounds

    read = read_range if range_by_oid(typoid) else read_multirange
    read_bound = reader(subtype)
    return lambda text, typmod, style: read(text, subtype, lambda word: read_bound(word, -1, style))


def _range_writer(typoid: int, subtype: int) -> Writer:
    write: Callable[..., str] = write_range if range_by_oid(typoid) else write_multirange
    write_bound = writer(subtype)
    return lambda value, style: write(value, lambda bound: write_bound(bound, style))


def _write_record(value: Any, style: TextStyle) -> str:
    return write_record(value, lambda item, typoid: write_text(item, typoid, style))
