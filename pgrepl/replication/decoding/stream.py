"""The output of a slot's plugin for the transactions between two LSNs: pgoutput's messages, test_decoding's lines.

The functions of slots read it from the beginning each time; a walsender keeps one for its connection, so that each
relation is described once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from pgrepl import engine
from pgrepl.catalog import tables
from pgrepl.errors import PgError
from pgrepl.replication.decoding.all_changes import decoded
from pgrepl.replication.decoding.plugin_options import Given, protocol_options, text_options
from pgrepl.replication.decoding.text import lines as text_lines
from pgrepl.replication.publisher import slots
from pgrepl.types.encodings import UTF8, of_client
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.wire.batch import WireBatch
    from pgrepl.replication.wire.pgoutput_write import Encoder
    from pgrepl.replication.wire.pgoutput_write_columns import MessageColumn
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
            from pgrepl.replication.wire.pgoutput_write import Encoder

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
        from pgrepl.replication.wire.pgoutput_write_columns import message_columns

        assert self._encoder is not None
        engine.done(self._session, "changes sent", engine.Engine.COLUMNS)
        try:
            yield from message_columns(self._encoder, batch)
        finally:
            batch.discard()

    def _batches(self, start: int, end: int, while_read: While) -> Iterator[tuple[WireBatch | None, int]]:
        """As lake_batches; nothing if no change is sent by columns."""
        from pgrepl.replication.publisher.lake.size import changed_rows
        from pgrepl.replication.publisher.lake.stream_columns import lake_batches

        session = self._session
        if self._encoder is None or start >= end or session.settings.get("server_encoding") != "UTF8":
            return
        options = self.protocol
        if options.binary or options.messages or not self._is_worth(changed_rows(session, start, end)):
            return
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
                found = next(batches, None)
            if found is None:
                return
            yield found

    def _is_worth(self, rows: int) -> bool:
        return self._encoding == UTF8 and engine.choose_sent(self._session, rows).engine is not engine.Engine.LOCAL

    def portions(self, start: int, end: int, two_phase_at: int | None) -> Iterator[Portion]:
        if self._encoder is not None:
            yield from self._messages(self._encoder, start, end, two_phase_at)
            return
        only_local = self.text.only_local
        for transaction in decoded(self._session, start, end, local_only=only_local, two_phase_at=two_phase_at):
            lines = text_lines(transaction, self.text, self._style)
            yield transaction.end_lsn, [(lsn, xid, data.encode()) for lsn, xid, data in lines]

    def _messages(self, encoder: Encoder, start: int, end: int, two_phase_at: int | None) -> Iterator[Portion]:
        from pgrepl.replication.publisher.lake.stream import ChangeError, MessageStream

        options = self.protocol
        stream = MessageStream(
            self._session,
            options.publications,
            local_only=options.local_only,
            with_emitted=options.messages,
            two_phase_at=two_phase_at,
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
