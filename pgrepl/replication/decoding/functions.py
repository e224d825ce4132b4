"""pg_logical_slot_peek_changes, pg_logical_slot_get_changes and their binary variants (logicalfuncs.c).

Only committed changes are returned, as in PostgreSQL: they are read apart from the caller's transaction. What
get_changes returns is confirmed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import statistics, tables
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.expr.functions.registry import Family
from pgrepl.replication.decoding.plugin_options import Given
from pgrepl.replication.decoding.stream import SlotDecoder
from pgrepl.replication.publisher import slots
from pgrepl.replication.publisher.standby_slots import sendable_lsn

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Call

implements = Family()

_Found = list[tuple[int, int, Any]]
_TRIES = 5


@implements("pg_logical_slot_peek_changes", context=True)
def peek_changes(call: Call, name: str | None, lsn: int | None, count: int | None, options: Any) -> _Found:
    return _read(call, name, lsn, count, options, "pg_logical_slot_peek_changes")


@implements("pg_logical_slot_get_changes", context=True)
def get_changes(call: Call, name: str | None, lsn: int | None, count: int | None, options: Any) -> _Found:
    return _get(call, name, lsn, count, options, "pg_logical_slot_get_changes")


@implements("pg_logical_slot_peek_binary_changes", context=True)
def peek_binary_changes(call: Call, name: str | None, lsn: int | None, count: int | None, options: Any) -> _Found:
    return _read(call, name, lsn, count, options, None)


@implements("pg_logical_slot_get_binary_changes", context=True)
def get_binary_changes(call: Call, name: str | None, lsn: int | None, count: int | None, options: Any) -> _Found:
    return _get(call, name, lsn, count, options, None)


def _read(
    call: Call, name: str | None, lsn: int | None, count: int | None, options: Any, function: str | None
) -> _Found:
    """`function`: the name of the function that returns text."""
    given = _checked(call.session, name, options)
    assert name is not None
    return _decoded(call, name, lsn, count, given, function)[0]


def _get(
    call: Call, name: str | None, lsn: int | None, count: int | None, options: Any, function: str | None
) -> _Found:
    given = _checked(call.session, name, options)
    assert name is not None
    for _ in range(_TRIES):
        found, start, reached = _decoded(call, name, lsn, count, given, function)
        with slots.at_once(call.session) as there:
            if slots.acquire(there, name).confirmed_flush_lsn == start:  # no other call has got them
                slots.confirm(there, name, reached)
                return found
    raise PgError("55006", f'replication slot "{name}" is being used by others')


def _checked(session: Session, name: str | None, options: Any) -> Given:
    slots.check_slot_permissions(session)
    slots.check_decoding_requirements(session)
    if name is None:
        raise PgError("22004", "slot name must not be null")
    if options is None:
        raise PgError("22004", "options array must not be null")
    return _pairs(options)


def _pairs(options: Any) -> Given:
    if len(options.dims) > 1:
        raise PgError("0A000", "array must be one-dimensional")
    words: Sequence[str | None] = list(options.items)
    if None in words:
        raise PgError("0A000", "array must not contain nulls")
    if len(words) % 2:
        raise PgError("0A000", "array must have even number of elements")
    return list(zip(words[::2], words[1::2], strict=True))  # type: ignore[arg-type]


def _decoded(
    call: Call, name: str, upto: int | None, count: int | None, given: Given, function: str | None
) -> tuple[_Found, int, int]:
    """The lines, and the LSNs between which they are complete."""
    found: _Found = []
    session = call.session
    apart = session.elsewhere(session.database_oid, session.role, apart=True)
    try:
        with reading(apart):
            row = slots.acquire(apart, name)
            slots.check_decodable(apart, row)
            start = row.confirmed_flush_lsn or 0
            end, held_back = sendable_lsn(apart, row)
            if held_back is not None:
                session.report(held_back)
            if upto:
                end = max(start, min(end, upto))
            decoder = _decoder(call, apart, row, given, function)
            if decoder.asks_two_phase:
                row = slots.enable_two_phase(session, row, start)
            for next_lsn, lines in decoder.portions(start, end, slots.two_phase_at(row)):
                portion = list(lines)
                found += portion if function is None else [(lsn, xid, data.decode()) for lsn, xid, data in portion]
                size = sum(len(data) for _, _, data in portion)
                statistics.count(session, statistics.SLOT, name, total_txns=1, total_bytes=size)
                if count and len(found) >= count:
                    return found, start, next_lsn
    finally:
        apart.close()
    return found, start, end


def _decoder(
    call: Call, apart: Session, row: tables.pg_replication_slot, given: Given, function: str | None
) -> SlotDecoder:
    decoder = SlotDecoder(apart, row, given, call.style, call.session)
    if decoder.is_binary and function is not None:
        raise PgError(
            "0A000",
            f'logical decoding output plugin "{row.plugin}" produces binary output, '
            f'but function "{function}(name,pg_lsn,integer,text[])" expects textual data',
        )
    return decoder
