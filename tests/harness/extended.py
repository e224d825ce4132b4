"""Scripts of the extended protocol, played alike on a server and on pgrepl."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import pq

from pgrepl.types.oids import FIRST_USER_OID

_FIELDS = (
    pq.DiagnosticField.SQLSTATE,
    pq.DiagnosticField.MESSAGE_PRIMARY,
    pq.DiagnosticField.MESSAGE_DETAIL,
    pq.DiagnosticField.MESSAGE_HINT,
    pq.DiagnosticField.STATEMENT_POSITION,
)


def play(connection: psycopg.Connection[Any], script: str) -> list[str]:
    """What is answered to each line: `name = statement` prepares one, `name: value | value` executes it, `name:b` with
    results in binary form, `name?` describes it; any other line is a query string."""
    asked = connection.pgconn
    told = []
    for line in filter(None, map(str.strip, script.splitlines())):
        word, _, rest = line.partition(" ")
        if rest.startswith("= "):
            found = asked.prepare(word.encode(), rest[2:].encode())
        elif word.endswith(":"):
            values = [value.strip().encode() for value in rest.split("|")] if rest else []
            found = asked.exec_prepared(word[:-1].encode(), values)
        elif word.endswith(":b"):
            found = asked.exec_prepared(word[:-2].encode(), [], result_format=pq.Format.BINARY)
        elif word.endswith("?"):
            found = asked.describe_prepared(word[:-1].encode())
        else:
            found = asked.exec_(line.encode())
        told.append(f"{line}\n    {_told(found)}")
    return told


def _told(found: Any) -> str:
    if found.status == pq.ExecStatus.FATAL_ERROR:
        return " | ".join([text.decode() for text in map(found.error_field, _FIELDS) if text])
    columns = [(found.fname(n), _type(found.ftype(n)), found.fmod(n)) for n in range(found.nfields)]
    parameters = [_type(found.param_type(n)) for n in range(found.nparams)]
    rows = [[found.get_value(row, n) for n in range(found.nfields)] for row in range(found.ntuples)]
    return f"{found.command_status} {columns} {parameters} {rows}"


def _type(oid: int) -> object:
    return "own" if oid >= FIRST_USER_OID else oid
