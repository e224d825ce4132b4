"""Logical decoding for people and programs: the output of a slot's plugin between two LSNs, and the SQL functions that
peek at it or get it (logicalfuncs.c).

A slot made with the plugin test_decoding returns every change of its database as readable text (decoding_text.py),
whatever publications there are; one made with pgoutput returns the messages of the replication protocol, to the
functions that return bytea. The texts and bytes are those of PostgreSQL's plugins; publisher/lake reads the changes.

Only committed changes are returned, apart from the caller's transaction; what get_changes returns is confirmed at
once. A walsender keeps one stream for its connection, so that each relation is described once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.engine import choice
from pgrepl.expr.functions.registry import Family
from pgrepl.ground.errors import PgError
from pgrepl.replication.decoding_text import Given, decoded, protocol_options, text_options
from pgrepl.replication.decoding_text import lines as text_lines
from pgrepl.replication.publisher import slots
from pgrepl.replication.publisher.lake.definitions import redefined
from pgrepl.replication.publisher.lake.stream import ChangeError, MessageStream
from pgrepl.replication.publisher.lake.stream_columns import lake_batches
from pgrepl.replication.publisher.lake.transactions import changed_rows
from pgrepl.replication.publisher.standby_slots import sendable_lsn
from pgrepl.replication.wire.pgoutput_write import Encoder, message_columns
from pgrepl.types.input_checks import UTF8, of_client
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.functions.registry import Call
    from pgrepl.replication.wire.batch import WireBatch
    from pgrepl.replication.wire.pgoutput_write import MessageColumn
    from pgrepl.types.style import TextStyle

Line = tuple[int, int, bytes]  # lsn, xid, data
Portion = tuple[int, Iterable[Line]]  # the LSN behind a transaction, and its lines
While = Callable[[], AbstractContextManager[None]]
_MOST = 1_000_000  # changed rows of a batch, about: until they have been read, the subscriber hears nothing


class SlotDecoder:
    """The decoder of one slot. `session` reads the catalog of its database, `client` asks for the changes."""

    def __init__(
        self, session: Session, row: tables.pg_replication_slot, given: Given, style: TextStyle, client: Session
    ) -> None:
        self._session = session
        self._row = row
        self._style = style
        self.is_binary = row.plugin == slots.PLUGIN
        with callback(row, "startup"):
            if self.is_binary:
                self.protocol = protocol_options(given)
                self.asks_two_phase = self.protocol.two_phase
            else:
                self.text = text_options(given)
                self.is_binary = self.text.force_binary
                self.asks_two_phase = False
        self._encoder: Encoder | None = None
        self._encoding = UTF8  # of texts that are sent
        if row.plugin == slots.PLUGIN:
            settings = client.settings
            self._encoding = of_client(settings.get("client_encoding"), settings.get("server_encoding"))
            self._encoder = Encoder(session.text_style, binary=self.protocol.binary, encoding=self._encoding)

    def changes(
        self, start: int, end: int, two_phase_at: int | None, while_read: While = nullcontext
    ) -> Iterator[MessageColumn | Portion]:
        """Many changes by whole columns, as far as they can be written so, and `portions` of the others. `while_read`:
        what is done while a batch is read, which may take long."""
        for batch, behind in self._batches(start, end, while_read):
            if batch is None:
                yield from self.portions(start, behind, two_phase_at)
            else:
                yield from self._columns(batch)
            start = behind
        yield from self.portions(start, end, two_phase_at)

    def _columns(self, batch: WireBatch) -> Iterator[MessageColumn]:
        assert self._encoder is not None
        choice.done(self._session, "changes sent", choice.Engine.COLUMNS)
        try:
            yield from message_columns(self._encoder, batch)
        finally:
            batch.discard()

    def _batches(self, start: int, end: int, while_read: While) -> Iterator[tuple[WireBatch | None, int]]:
        """The batches of lake_batches; nothing if no change is sent by columns."""
        session = self._session
        if self._encoder is None or start >= end or session.settings.get("server_encoding") != "UTF8":
            return
        options = self.protocol
        if options.binary or options.messages or not self._is_worth(changed_rows(session, start, end)):
            return
        if options.definitions:
            end = min([end, *(at for at, _, _ in redefined(session, start, end))])
        batches = lake_batches(
            session,
            options.publications,
            start,
            end,
            local_only=options.local_only,
            two_phase=True,
            most=_MOST,
            is_worth=self._is_worth,
        )
        while True:
            with while_read():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _is_worth(self, rows: int) -> bool:
        return self._encoding == UTF8 and choice.choose_sent(self._session, rows).engine is not choice.Engine.LOCAL

    def portions(self, start: int, end: int, two_phase_at: int | None) -> Iterator[Portion]:
        if self._encoder is not None:
            yield from self._messages(self._encoder, start, end, two_phase_at)
            return
        only_local = self.text.only_local
        for transaction in decoded(self._session, start, end, local_only=only_local, two_phase_at=two_phase_at):
            lines = text_lines(transaction, self.text, self._style)
            yield transaction.end_lsn, [(lsn, xid, data.encode()) for lsn, xid, data in lines]

    def _messages(self, encoder: Encoder, start: int, end: int, two_phase_at: int | None) -> Iterator[Portion]:
        options = self.protocol
        stream = MessageStream(
            self._session,
            options.publications,
            local_only=options.local_only,
            with_emitted=options.messages,
            two_phase_at=two_phase_at,
            tells=options.definitions,
        )
        try:
            for transaction in stream.transactions(start, end):
                yield transaction.end_lsn, encoder.lines(transaction)
        except ChangeError as failure:
            with callback(self._row, failure.callback, failure.lsn):
                raise failure.error from failure


@contextmanager
def callback(row: tables.pg_replication_slot, what: str, lsn: int = 0) -> Iterator[None]:
    """Add the CONTEXT of an output plugin to errors, as output_plugin_error_callback does."""
    try:
        yield
    except PgError as error:
        where = f", associated LSN {lsn_text(lsn)}" if lsn else ""
        context = f'slot "{row.slot_name}", output plugin "{row.plugin}", in the {what} callback{where}'
        raise error.with_context(context) from error


# --- functions --------------------------------------------------------------------------------------------------------


implements = Family()

_Found = list[tuple[int, int, Any]]
_TRIES = 5


@implements("pg_logical_slot_peek_changes", context=True)
def peek_changes(call: Call, name: str | None, lsn: int | None, count: int | None, options: Any) -> _Found:
    return _decoded(call, name, lsn, count, options, "pg_logical_slot_peek_changes")[0]


@implements("pg_logical_slot_get_changes", context=True)
def get_changes(call: Call, name: str | None, lsn: int | None, count: int | None, options: Any) -> _Found:
    return _get(call, name, lsn, count, options, "pg_logical_slot_get_changes")


@implements("pg_logical_slot_peek_binary_changes", context=True)
def peek_binary_changes(call: Call, name: str | None, lsn: int | None, count: int | None, options: Any) -> _Found:
    return _decoded(call, name, lsn, count, options, None)[0]


@implements("pg_logical_slot_get_binary_changes", context=True)
def get_binary_changes(call: Call, name: str | None, lsn: int | None, count: int | None, options: Any) -> _Found:
    return _get(call, name, lsn, count, options, None)


def _get(
    call: Call, name: str | None, lsn: int | None, count: int | None, options: Any, function: str | None
) -> _Found:
    for _ in range(_TRIES):
        lines, start, reached = _decoded(call, name, lsn, count, options, function)
        assert name is not None
        with slots.at_once(call.session) as there:
            if slots.acquire(there, name).confirmed_flush_lsn == start:  # no other call has got them
                slots.confirm(there, name, reached)
                return lines
    raise PgError("55006", f'replication slot "{name}" is being used by others')


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
    call: Call, name: str | None, upto: int | None, count: int | None, options: Any, function: str | None
) -> tuple[_Found, int, int]:
    """The lines, and the LSNs between which they are complete. `function`: the name of the one that returns text."""
    changes: _Found = []
    session = call.session
    slots.check_slot_permissions(session)
    slots.check_decoding_requirements(session)
    if name is None:
        raise PgError("22004", "slot name must not be null")
    if options is None:
        raise PgError("22004", "options array must not be null")
    given = _pairs(options)
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
                changes += portion if function is None else [(lsn, xid, data.decode()) for lsn, xid, data in portion]
                size = sum(len(data) for _, _, data in portion)
                statistics.count(session, statistics.SLOT, name, total_txns=1, total_bytes=size)
                if count and len(changes) >= count:
                    return changes, start, next_lsn
    finally:
        apart.close()
    return changes, start, end


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
