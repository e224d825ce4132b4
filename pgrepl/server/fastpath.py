"""Calls of one function by its OID, which libpq's PQfn sends (fastpath.c)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.namespace import routine
from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.transaction import aborted, reading
from pgrepl.expr.analyse.lookup import read_value
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.server import messages
from pgrepl.server.messages import counted, formats_for, text_of
from pgrepl.sql.keywords import quote_identifier
from pgrepl.statements.describe import prepare
from pgrepl.statements.run import run_prepared
from pgrepl.types.text import read_null

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter
    from pgrepl.server.channel import Body
    from pgrepl.server.extended import Client
    from pgrepl.types.builtin import Proc

_INT32 = struct.Struct("!i")
_NULL = _INT32.pack(-1)


def call_function(client: Client, body: Body) -> None:
    """Answer a FunctionCall message."""
    transaction = client.session.transaction
    if transaction.block is Block.ABORTED:
        raise aborted()
    oid = body.uint32()
    with reading(client.session):
        called = _function(client, oid)
        parameters = _arguments(client, called, body)
    form = body.int16()
    body.end()
    text = _computed(client, called, parameters)
    if form not in (0, 1):
        raise PgError("22023", f"unsupported format code: {form}")
    client.channel.send(b"V", _NULL if text is None else _sent(client, text, called.rettype, form))
    if transaction.block is Block.IMPLICIT:
        transaction.end_implicit()


def _function(client: Client, oid: int) -> Proc:
    """The function of an OID, which must be one that can be called so (fetch_fp_info)."""
    proc = routine(client.session, oid)
    if proc is None:
        raise PgError("42883", f"function with OID {oid} does not exist")
    if proc.kind != "f" or proc.retset:
        raise PgError("0A000", f'cannot call function "{proc.name}" via fastpath interface')
    return proc


def _arguments(client: Client, called: Proc, body: Body) -> list[Parameter]:
    """The arguments of a function call, from text or binary form (parse_fcall_arguments)."""
    formats = [body.int16() for _ in range(counted(body))]
    count = counted(body)
    if count != called.nargs:
        raise PgError("08P01", f"function call message contains {count} arguments but function requires {called.nargs}")
    if len(formats) > 1 and len(formats) != count:
        raise PgError("08P01", f"function call message contains {len(formats)} argument formats but {count} arguments")
    session = client.session
    style = session.text_style
    parameters: list[Parameter] = []
    for number, (named, form) in enumerate(zip(called.argtypes, formats_for(formats, count), strict=True), 1):
        typoid, size = session.type_of(named), body.int32()
        if size < -1:
            raise PgError("08P01", f"invalid argument size {size} in function call message")
        text = (
            None if size < 0 else text_of(client, body.take(size), typoid, form, style, f"function argument {number}")
        )
        if text is None:
            read_null(typoid, style)
        else:
            read_value(session, text, typoid, -1)
        parameters.append((typoid, text))
    return parameters


def _computed(client: Client, called: Proc, parameters: Sequence[Parameter]) -> str | None:
    """The text of what the function returns, with its value."""
    session = client.session
    words = [f"${number}" for number in range(1, len(parameters) + 1)]
    if called.variadic:
        words[-1] = f"VARIADIC {words[-1]}"
    name = f"{quote_identifier(called.schema)}.{quote_identifier(called.name)}"
    prepared = prepare(session, f"SELECT {name}({', '.join(words)})", [int(typoid) for typoid, _ in parameters])
    client.begin(prepared.text)
    session.result_formats = (0, 1)

    def found() -> Iterator[Result]:
        yield run_prepared(session, prepared, parameters)

    try:
        result = next(client.results(found()))
    except PgError as error:
        error.report = replace(error.report, position=None)
        raise
    finally:
        session.result_formats = ()
    return result.rows[0][0]


def _sent(client: Client, text: str, typoid: int, form: int) -> bytes:
    encode = messages.binary_form(typoid, client.session.text_style, client.encode) if form else client.encode
    sent = encode(text)
    return _INT32.pack(len(sent)) + sent
