"""The extended-query protocol: Parse, Bind, Describe, Execute, Close, Flush, Sync (exec_parse_message and its like).

All between two Sync messages is one transaction, unless BEGIN or COMMIT are among it. A statement that is followed by
Sync at once, as most are, runs as one in a query string does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.transaction import aborted, reading, statement
from pgrepl.expr.analyse.kinds import not_read, portal_name, quoted
from pgrepl.expr.analyse.lookup import existing_type, read_value
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.ground.errors import PgError
from pgrepl.query.portal import Declared, PassingRows, Portal, PortalRow, close_portal, reads_table
from pgrepl.query.result import Result, ResultColumn, StreamedRows
from pgrepl.server import messages
from pgrepl.server.messages import counted, formats_for, text_of
from pgrepl.sql.nodes import FetchStmt
from pgrepl.statements.describe import described, prepare
from pgrepl.statements.prepared import (
    PreparedStatement,
    check_constants,
    find_prepared,
    is_unchanged,
    keep_prepared,
    revalidate,
)
from pgrepl.statements.run import portal_moment, run_prepared, run_within
from pgrepl.statements.transaction import fetched_columns
from pgrepl.types import oids
from pgrepl.types.text import read_null

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter, Session
    from pgrepl.server.channel import Body, Channel
    from pgrepl.server.session_log import SessionLog

_UINT32 = struct.Struct("!I")
# statements that run in no transaction block (PreventInTransactionBlock)
_OUTSIDE_BLOCKS = frozenset(
    {
        "ALTER DATABASE", "ALTER SUBSCRIPTION", "ALTER SYSTEM", "CREATE DATABASE", "CREATE SUBSCRIPTION", "DISCARD ALL",
        "DROP DATABASE", "DROP SUBSCRIPTION", "REINDEX", "VACUUM",
    }
)  # fmt: skip
_PORTION = 1000  # rows that are fetched together
# types whose values are read without the catalog
_PLAIN = oids.INTEGERS | {
    oids.BOOL, oids.BYTEA, oids.DATE, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.TEXT, oids.TIMESTAMP,
    oids.TIMESTAMPTZ, oids.UUID, oids.VARCHAR,
}  # fmt: skip


@dataclass(eq=False, slots=True, kw_only=True)
class BoundPortal(Portal):
    """A bound statement, and what is left of its rows once it has run."""

    prepared: PreparedStatement
    parameters: Sequence[Parameter]
    formats: Sequence[int]
    shown: tuple[ResultColumn, ...] | None  # None: the statement returns no rows
    result: Result | None = None
    at: int = 0  # rows that were taken of a result that is in memory
    is_done: bool = False
    only_reads: bool | None = None  # None: it has not been looked at, or runs as soon as it is bound
    snapshot: int | None = None  # at which it reads; None: as things are
    stays: bool = True  # the snapshot shows the same whatever this session changes
    error: PgError | None = None  # of its first row, which is told when that is wanted

    @property
    def kept_formats(self) -> Sequence[int]:
        """The formats for which rows are kept: FETCH, which knows the name, may ask for any."""
        return (0, 1) if self.name else self.formats or (0,)

    def reads(self, session: Session, relid: int) -> bool:
        """A query keeps its tables in use until the portal is closed."""
        tree = self.prepared.tree
        return tree is not None and reads_table(session, expand_views(session, tree), relid)

    def take(self, size: int, *, before_error: bool = False) -> Sequence[tuple[str | None, ...]]:
        """The next rows, fewer than `size` at the end, or `before_error`."""
        result = self.result
        assert result is not None
        if isinstance(result.rows, StreamedRows):
            rows: Sequence[tuple[str | None, ...]] = result.rows.portion(size, before_error=before_error)
            self.is_done = len(rows) < size and not result.rows.fails
            return rows
        rows = result.rows[self.at : self.at + size]
        self.at += len(rows)
        self.is_done = len(rows) < size
        return rows

    def passed(self, count: int) -> None:
        """Execute has sent so many rows."""
        if isinstance(self.rows, PassingRows):
            self.rows.gone += count
            self.position = self.rows.gone + self.is_done


class Client(Protocol):
    """The backend, as the extended protocol needs it."""

    channel: Channel
    session: Session
    log: SessionLog

    def encode(self, text: str) -> bytes: ...

    def decode(self, data: bytes) -> str: ...

    def begin(self, text: str) -> None: ...

    def running(self) -> AbstractContextManager[None]: ...

    def results(self, results: Iterator[Result]) -> Iterator[Result]: ...

    def complete(self, tag: str) -> None: ...


class Extended:
    """The messages of one session, and its prepared statement without a name."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.unnamed: PreparedStatement | None = None
        self._executed = 0  # statements since the last Sync

    def message(self, kind: bytes, body: Body) -> None:
        match kind:
            case b"P":
                with self._client.running():
                    self._parse(body)
            case b"B":
                with self._client.running():
                    self._bind(body)
            case b"D":
                with self._client.running():
                    self._describe(body)
            case b"E":
                self._execute(body)
            case b"C":
                self._close(body)
            case _:  # Flush
                self._client.channel.flush()

    def forget_unnamed(self) -> None:
        """A simple query drops the unnamed statement and portal."""
        self.unnamed = None
        self._client.session.transaction.portals.pop("", None)

    def _forget_portals(self) -> None:
        """Portals end with their transaction, even if it has done nothing."""
        transaction = self._client.session.transaction
        if transaction.block is Block.NONE and transaction.portals:
            kept = {n: portal for n, portal in transaction.portals.items() if not isinstance(portal, BoundPortal)}
            transaction.portals = kept

    def sync(self) -> None:
        session = self._client.session
        self._executed = 0
        session.transaction.begins_pipeline = False
        if session.transaction.block is Block.IMPLICIT:
            session.transaction.end_implicit()
        elif session.transaction.block is Block.EXPLICIT:
            for portal in self._waiting():
                self._look_at(portal)
        self._forget_portals()

    def _waiting(self, but: BoundPortal | None = None) -> list[BoundPortal]:
        """The portals of queries that have not run yet."""
        portals = self._client.session.transaction.portals.values()
        bound = [portal for portal in portals if isinstance(portal, BoundPortal) and portal is not but]
        return [
            portal for portal in bound if portal.result is None and portal.shown is not None and not portal.has_failed
        ]

    def _look_at(self, portal: BoundPortal) -> None:
        """Note what a query is to see that is executed later: what there is now (PortalStart)."""
        if portal.only_reads is None:
            moment = portal_moment(self._client.session, portal.prepared, portal.parameters)
            portal.only_reads = moment is not None
            portal.snapshot, portal.stays = moment or (None, True)

    def before_change(self) -> None:
        """Run the waiting queries to whose rows a change by this session makes a difference."""
        session = self._client.session
        if session.transaction.block is Block.ABORTED:
            return
        for portal in self._waiting():
            if not portal.stays and portal.error is None:
                with self._client.running(), statement(session, looks=True):
                    self._run_early(portal)

    def _run_early(self, portal: BoundPortal) -> None:
        """Compute the first row, which fixes what is read. An error is of that row, and waits for it."""
        session = self._client.session
        session.streams = True
        try:
            with portal.running():
                self._begin(portal)
                assert portal.result is not None
                bool(portal.result.rows)
        except PgError as error:
            if error.sqlstate.startswith("57"):
                raise
            portal.result, portal.error, portal.has_failed = None, error, False
        finally:
            session.streams = False

    def _begin(self, portal: BoundPortal) -> None:
        """Begin the portal's query as part of the running statement."""
        session = self._client.session
        before = session.result_formats, session.keeps_values
        session.result_formats, session.keeps_values = portal.kept_formats, False
        try:
            portal.result = run_within(session, portal.prepared, portal.parameters)
        finally:
            session.result_formats, session.keeps_values = before

    # --- Parse ----------------------------------------------------------------------------------------------------

    def _parse(self, body: Body) -> None:
        client = self._client
        name = client.decode(body.string())
        text = client.decode(body.string())
        given = [body.uint32() for _ in range(counted(body))]
        body.end()
        if not name:
            self.unnamed = None
        prepared = prepare(client.session, text, given, name)
        if name:
            keep_prepared(client.session, prepared)
        else:
            self.unnamed = prepared
        client.log.parse_ends(name, text)
        client.channel.send(b"1")

    def _statement(self, name: str) -> PreparedStatement:
        if name:
            return find_prepared(self._client.session, name)
        if self.unnamed is None:
            raise PgError("26000", "unnamed prepared statement does not exist")
        return self.unnamed

    def _portal(self, name: str) -> Portal:
        """The portal, of Bind or of DECLARE."""
        portal: Portal | None = self._client.session.transaction.portals.get(name)
        if portal is None:
            raise PgError("34000", f'portal "{name}" does not exist')
        return portal

    # --- Bind -----------------------------------------------------------------------------------------------------

    def _bind(self, body: Body) -> None:
        client = self._client
        portal, statement = client.decode(body.string()), client.decode(body.string())
        formats = [body.int16() for _ in range(counted(body))]
        count = counted(body)
        if len(formats) > 1 and len(formats) != count:
            raise PgError("08P01", f"bind message has {len(formats)} parameter formats but {count} parameters")
        values = [_value(body) for _ in range(count)]
        results = [body.int16() for _ in range(counted(body))]
        body.end()
        prepared = self._statement(statement)
        client.session.query = prepared.text  # of which an error speaks
        if count != len(prepared.types):
            raise PgError(
                "08P01",
                f'bind message supplies {count} parameters, but prepared statement "{statement}" requires '
                f"{len(prepared.types)}",
            )
        self._check_not_aborted(prepared)
        portals = client.session.transaction.portals
        if portal and portal in portals:
            raise PgError("42P03", f'cursor "{portal}" already exists')
        pairs = zip(values, formats_for(formats, count), strict=True)
        columns, parameters = self._bound(prepared, portal, list(pairs))
        if columns is not None:
            messages.check_count(results, len(columns))
        client.session.transaction.portals[portal] = self._opened(portal, prepared, parameters, results, columns)
        client.log.bind_ends(prepared, portal, parameters)
        client.channel.send(b"2")

    def _opened(
        self,
        name: str,
        prepared: PreparedStatement,
        parameters: Sequence[Parameter],
        formats: Sequence[int],
        shown: tuple[ResultColumn, ...] | None,
    ) -> BoundPortal:
        transaction = self._client.session.transaction
        transaction.string_at = datetime.now(timezone.utc)
        portal = BoundPortal(
            name, (), (), False, 0, Declared(prepared.text), transaction.statement_now, returns_rows=shown is not None,
            prepared=prepared, parameters=parameters, formats=formats, shown=shown,
        )  # fmt: skip
        if name and shown is not None:  # FETCH may read from it
            portal.columns = [(column.name, column.type, column.typmod) for column in shown]
            portal.declared = Declared(prepared.text, origins=[column.origin for column in shown])
            portal.rows = PassingRows(partial(self._values, portal))
        return portal

    def _values(self, portal: BoundPortal, size: int) -> Sequence[PortalRow]:
        """The portal's next rows, for FETCH, which may be the first to run it."""
        session = self._client.session
        if portal.error is not None:
            raise portal.error
        with session.reading_at(portal.snapshot):
            if portal.result is None:
                self._begin(portal)
            rows = portal.take(size)
        style = session.text_style
        types = [typoid for _, typoid, _ in portal.columns]
        return [
            [
                None if text is None else messages.value_of(text, typoid, style)
                for typoid, text in zip(types, row, strict=True)
            ]
            for row in rows
        ]

    def _bound(
        self, prepared: PreparedStatement, portal: str, values: Sequence[tuple[bytes | None, int]]
    ) -> tuple[tuple[ResultColumn, ...] | None, Sequence[Parameter]]:
        """The columns that the statement returns now, and its parameters, which their types have read."""
        if not values and not prepared.is_analyzed:
            return prepared.sent_columns, ()
        unchanged = self._is_unchanged(prepared)
        if not values and unchanged:
            return prepared.sent_columns, ()
        session = self._client.session
        parameters: list[Parameter] = []
        with nullcontext() if unchanged else reading(session):
            if prepared.is_analyzed and not unchanged:
                revalidate(session, prepared)
            if not values:
                check_constants(session, prepared, ())
                return prepared.sent_columns, ()
            style = session.text_style
            for number, (value, form) in enumerate(values, 1):
                text: str | None = None
                try:
                    typoid = existing_type(session, prepared.types[number - 1])
                    if value is None:
                        read_null(typoid, style)
                    else:
                        text = text_of(self._client, value, typoid, form, style, f"bind parameter {number}")
                        read_value(session, text, typoid, -1)
                except PgError as error:
                    shown = self._shown(text) if text is not None and form == 0 else None
                    raise not_read(error, number, portal, shown) from None
                parameters.append((typoid, text))
            try:
                check_constants(session, prepared, parameters)
            except PgError as error:
                raise self._with_parameters(error, portal, parameters) from None
        return prepared.sent_columns, parameters

    def _is_unchanged(self, prepared: PreparedStatement) -> bool:
        """Whether a statement is as it was checked last, and can be bound without the catalog."""
        if prepared.has_constants or not _PLAIN.issuperset(prepared.types):
            return False
        return is_unchanged(self._client.session, prepared)

    def _shown(self, text: str | None) -> str:
        """A parameter's value in the context of an error."""
        return quoted(text, int(self._client.session.settings.value("log_parameter_max_length_on_error")))

    def _check_not_aborted(self, prepared: PreparedStatement) -> None:
        if self._client.session.transaction.block is Block.ABORTED and not prepared.ends_block:
            raise aborted()

    # --- Describe -------------------------------------------------------------------------------------------------

    def _describe(self, body: Body) -> None:
        kind, name = body.byte(), self._client.decode(body.string())
        body.end()
        channel = self._client.channel
        if kind == b"S":
            prepared = self._statement(name)
            formats: Sequence[int] = ()
            self._check_describable(prepared)
            columns = self._described(prepared)
            types = b"".join(_UINT32.pack(typoid) for typoid in prepared.types)
            count = len(prepared.types) & 0xFFFF  # of more than Bind can give the rest of the number is lost, as there
            channel.send(b"t", count.to_bytes(2, "big") + types)
        elif kind == b"P":
            portal = self._portal(name)
            if isinstance(portal, BoundPortal):
                columns, formats = portal.shown, portal.formats
                self._check_describable(portal.prepared)
            else:
                columns, formats = self._columns(portal), ()
        else:
            raise PgError("08P01", f"invalid DESCRIBE message subtype {kind[0]}")
        if columns is None:
            channel.send(b"n")
        else:
            channel.send(b"T", messages.description(columns, formats, self._client.encode))

    def _described(self, prepared: PreparedStatement) -> tuple[ResultColumn, ...] | None:
        return None if prepared.columns is None else described(self._client.session, prepared)

    def _columns(self, cursor: Portal) -> tuple[ResultColumn, ...]:
        return fetched_columns(self._client.session, cursor)

    def _check_describable(self, prepared: PreparedStatement) -> None:
        if prepared.columns is not None:
            self._check_not_aborted(prepared)

    # --- Execute --------------------------------------------------------------------------------------------------

    def _execute(self, body: Body) -> None:
        client = self._client
        name, limit = client.decode(body.string()), body.int32()
        body.end()
        portal = self._portal(name)
        if not isinstance(portal, BoundPortal):
            self._execute_cursor(portal, limit)
            return
        prepared = portal.prepared
        if prepared.tag is None:
            client.channel.send(b"I")
            return
        self._check_not_aborted(prepared)
        self._before_execute(portal)
        fetches = portal.result is not None
        client.log.execute(prepared, name, portal.parameters, fetches=fetches)
        try:
            with portal.running(), client.session.reading_at(portal.snapshot):
                if portal.error is not None:
                    raise portal.error
                if portal.result is None:
                    if not self._run(portal):
                        return
                elif portal.is_done and portal.shown is None:
                    raise PgError("55000", f'portal "{name}" cannot be run')
                elif isinstance(portal.result.rows, StreamedRows):
                    portal.result.rows.time_anew()
                self._send(portal, limit if limit > 0 else None)
        except PgError as error:
            raise self._with_parameters(error, name, portal.parameters) from None
        client.log.execute_ends(prepared, name, portal.parameters, fetches=fetches)

    def _before_execute(self, portal: BoundPortal) -> None:
        """Let other portals keep what they see, if this one may change it."""
        others = self._waiting(but=portal)
        if not others or portal.prepared.ends_block:
            return
        for other in others:
            self._look_at(other)
        if not all(other.stays for other in others):
            if portal.result is None:
                self._look_at(portal)
            if not portal.only_reads:
                self.before_change()

    def _execute_cursor(self, cursor: Portal, limit: int) -> None:
        """Execute a cursor of DECLARE: send the rows as FETCH finds them, in text format whatever DECLARE says, as only
        FETCH heeds BINARY."""
        transaction = self._client.session.transaction
        fetch = FetchStmt(cursor.name, count=limit if limit > 0 else None)
        prepared = PreparedStatement("", cursor.declared.text, fetch, transaction.statement_now, from_sql=False)
        self._check_not_aborted(prepared)
        portal = self._opened("", prepared, (), (), self._columns(cursor))
        if not self._run(portal):
            return
        assert portal.result is not None
        portal.result = replace(portal.result, tag="SELECT 0")
        self._send(portal, limit if limit > 0 else None)

    def _with_parameters(self, error: PgError, portal: str, parameters: Sequence[Parameter]) -> PgError:
        """The error of a statement, with the values that it had, if the user wants them (ParamsErrorCallback)."""
        if not parameters or not int(self._client.session.settings.value("log_parameter_max_length_on_error")):
            return error
        values = [f"${number} = {self._shown(text)}" for number, (_, text) in enumerate(parameters, 1)]
        return error.with_context(f"{portal_name(portal)} with parameters: {', '.join(values)}")

    def _run(self, portal: BoundPortal) -> bool:
        """Run the portal's statement; whether there is a result."""
        client = self._client
        session, prepared = client.session, portal.prepared
        self._executed += 1
        client.begin(prepared.text)
        first = self._executed == 1 and session.transaction.block is Block.NONE
        alone = first and self._ends_itself(prepared)
        session.transaction.begins_pipeline = first
        session.streams = portal.shown is not None
        session.result_formats = () if portal.shown is None else portal.kept_formats

        def found() -> Iterator[Result]:
            yield run_prepared(session, prepared, portal.parameters, implicit=not alone)

        try:
            portal.result = next(client.results(found()), None)
        finally:
            session.streams = False
            session.result_formats = ()
        if session.transaction.block is Block.NONE:  # it has ended the transaction: the next one is the first again
            self._executed = 0
        return portal.result is not None

    def _ends_itself(self, prepared: PreparedStatement) -> bool:
        """Whether the statement's transaction may end with it: it is one that runs in no block, or nothing but Sync has
        been sent behind it."""
        concurrently = prepared.tag in ("CREATE INDEX", "DROP INDEX") and getattr(prepared.stmt, "concurrently", False)
        return prepared.tag in _OUTSIDE_BLOCKS or concurrently or self._client.channel.next_is(b"S")

    def _send(self, portal: BoundPortal, limit: int | None) -> None:
        client, result = self._client, portal.result
        assert result is not None
        if result.columns is None:
            portal.is_done = True
            client.complete(result.tag or "")
            return
        encoder = messages.RowEncoder(result.columns, portal.formats, client.session.text_style, client.encode)
        sent = 0
        while limit is None or sent < limit:
            with client.running():
                size = _PORTION if limit is None else min(limit - sent, _PORTION)
                portion = portal.take(size, before_error=True)
            portal.passed(len(portion))
            for message in encoder.messages(portion):
                client.channel.send_raw(message)
            sent += len(portion)
            if portal.is_done:
                break
        if sent == limit:  # PostgreSQL does not look ahead: there may be no row left
            client.channel.send(b"s")
            return
        words = (result.tag or "").split()
        if words[0] == "SELECT" or words[-1].isdigit():  # of these rows only
            words = [*words[: 2 if words[0] == "INSERT" else 1], str(sent)]
        client.complete(" ".join(words))

    def _close(self, body: Body) -> None:
        kind, name = body.byte(), self._client.decode(body.string())
        body.end()
        if kind == b"S" and name:
            self._client.session.prepared.pop(name, None)
        elif kind == b"S":
            self.unnamed = None
        elif kind == b"P":
            if name in self._client.session.transaction.portals:
                close_portal(self._client.session, name)
        else:
            raise PgError("08P01", f"invalid CLOSE message subtype {kind[0]}")
        self._client.channel.send(b"3")


def _value(body: Body) -> bytes | None:
    length = body.int32()
    if length < -1:
        raise PgError("08P01", "invalid message format")
    return None if length < 0 else body.take(length)
