"""The send functions of types: the binary form of values (types/binary.py), texts in the encoding of the client."""

from __future__ import annotations

from typing import Any

from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.types.binary import sender

implements = Family()

_SOURCES = """
    array_send anyarray_send anycompatiblearray_send bit_send boolsend bpcharsend byteasend charsend cidr_send cidsend
    cstring_send date_send enum_send float4send float8send inet_send int2send int2vectorsend int4send int8send
    interval_send json_send jsonb_send jsonpath_send macaddr8_send macaddr_send multirange_send namesend numeric_send
    oidsend oidvectorsend pg_lsn_send pg_node_tree_send pg_snapshot_send range_send record_send regclasssend
    regcollationsend regconfigsend regdictionarysend regnamespacesend regoperatorsend regopersend regproceduresend
    regprocsend regrolesend regtypesend textsend tidsend time_send timestamp_send timestamptz_send timetz_send
    txid_snapshot_send unknownsend uuid_send varbit_send varcharsend void_send xid8send xidsend xml_send
""".split()


@implements(*_SOURCES, context=True)
def send(call: Call, value: Any) -> bytes:
    return sender(call.argtypes[0], call.style.encoding)(value)
