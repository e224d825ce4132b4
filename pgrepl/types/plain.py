"""Input and output functions that depend on the value only: numbers, strings, bits, uuid, json."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from pgrepl.errors import PgError
from pgrepl.types import json, numbers, numeric, oids, strings
from pgrepl.types.arrays import vector_of, write_vector
from pgrepl.types.errors import invalid_text
from pgrepl.types.lsn import lsn_text, parse_lsn
from pgrepl.types.snapshots import read_snapshot
from pgrepl.types.style import TextStyle

_TID = re.compile(r"[^(,)]*\(\s*([0-9]*),\s*([0-9]*)\)", re.ASCII)


def _read_tid(text: str, typmod: int, style: TextStyle) -> tuple[int, int]:
    """A tid as tidin reads it; text behind the parenthesis is ignored."""
    found = _TID.match(text)
    block, offset = (int(digits or 0) for digits in found.groups()) if found else (-1, -1)
    if not 0 <= block < 2**32 or not 0 <= offset < 2**16:
        raise invalid_text("tid", text)
    return block, offset


def _read_void(text: str, typmod: int, style: TextStyle) -> str:
    return ""


def _read_node_tree(text: str, typmod: int, style: TextStyle) -> str:
    raise PgError("0A000", "cannot accept a value of type pg_node_tree")


def _plain(read: Callable[[str], Any]) -> Callable[[str, int, TextStyle], Any]:
    return lambda text, typmod, style: read(text)


READ: dict[int, Callable[[str, int, TextStyle], Any]] = {
    oids.BOOL: _plain(numbers.read_bool),
    oids.INT2: _plain(numbers.read_int2),
    oids.INT4: _plain(numbers.read_int4),
    oids.INT8: _plain(numbers.read_int8),
    oids.OID: _plain(numbers.read_oid),
    oids.XID: _plain(numbers.read_xid),
    oids.CID: _plain(numbers.read_cid),
    oids.XID8: _plain(numbers.read_xid8),
    oids.FLOAT4: _plain(numbers.read_float4),
    oids.FLOAT8: _plain(numbers.read_float8),
    oids.NUMERIC: lambda text, typmod, style: numeric.read_numeric(text, typmod),
    oids.TEXT: _plain(str),
    oids.UNKNOWN: _plain(str),
    oids.CSTRING: _plain(str),
    oids.REFCURSOR: _plain(str),
    oids.XML: _plain(str),
    oids.PG_SNAPSHOT: _plain(read_snapshot),
    oids.TXID_SNAPSHOT: _plain(read_snapshot),
    oids.PG_NODE_TREE: _read_node_tree,
    oids.VOID: _read_void,
    oids.VARCHAR: lambda text, typmod, style: strings.read_varchar(text, typmod),
    oids.BPCHAR: lambda text, typmod, style: strings.read_bpchar(text, typmod),
    oids.NAME: _plain(strings.read_name),
    oids.CHAR: _plain(strings.read_char),
    oids.BYTEA: _plain(strings.read_bytea),
    oids.BIT: lambda text, typmod, style: strings.read_bits(text, typmod, varying=False),
    oids.VARBIT: lambda text, typmod, style: strings.read_bits(text, typmod, varying=True),
    oids.UUID: lambda text, typmod, style: UUID(strings.uuid_digits(text)),
    oids.JSON: _plain(json.read_json),
    oids.JSONB: _plain(json.read_jsonb),
    oids.PG_LSN: _plain(parse_lsn),
    oids.TID: _read_tid,
    oids.OIDVECTOR: lambda text, typmod, style: vector_of(oids.OID, numbers.read_oids(text)),
    oids.INT2VECTOR: lambda text, typmod, style: vector_of(oids.INT2, numbers.read_shorts(text)),
}

WRITE: dict[int, Callable[[Any, TextStyle], str]] = {
    oids.BOOL: lambda value, style: "t" if value else "f",
    oids.FLOAT4: numbers.write_float4,
    oids.FLOAT8: numbers.write_float8,
    oids.NUMERIC: lambda value, style: numeric.write_numeric(value),
    oids.CHAR: lambda value, style: strings.write_char(value),
    oids.BYTEA: lambda value, style: strings.write_bytea(value, style.bytea_output),
    oids.PG_LSN: lambda value, style: lsn_text(value),
    oids.TID: lambda value, style: f"({value[0]},{value[1]})",
    oids.OIDVECTOR: lambda value, style: write_vector(value),
    oids.INT2VECTOR: lambda value, style: write_vector(value),
    oids.VOID: lambda value, style: "",
}
