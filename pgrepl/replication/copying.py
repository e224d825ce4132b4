"""The initial copy of one table of a subscription (tablesync.c).

A table goes from i (to be copied) to d while a copy is under way, and with the commit that brings its rows to s, caught
up to the LSN of the copy; the main stream makes it r. Each attempt has its own slot and takes the publisher's table as
it is then; an attempt that failed or was killed leaves d and its slot, and the next begins anew.

The rows of a copy are checked as those of COPY: constraints yes, foreign keys and triggers no.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.store import Row as CatalogRow
from pgrepl.catalog.subscription import sync_slot_name
from pgrepl.errors import PgError
from pgrepl.replication import subscription_state as state
from pgrepl.replication.applying.overlay import Overlay
from pgrepl.replication.applying.play import Player
from pgrepl.replication.applying.progress import Progress
from pgrepl.replication.applying.roles import acting_for, check_target_privilege
from pgrepl.replication.applying.target import WIRE_STYLE, Target
from pgrepl.replication.applying.writing import write
from pgrepl.replication.origins import advance_origin, create_origin, drop_origin, origin_or_none
from pgrepl.replication.publisher import Publisher, PublisherError, TableCopy
from pgrepl.replication.sending.wire import Row
from pgrepl.rows.routing import Router
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_PORTION = 5000  # rows looked up together
_SHOWN = 100  # bytes of a line that a CONTEXT shows


def begin_copy(session: Session, subscription: CatalogRow, relid: int, publisher: Publisher) -> None:
    """The table is being copied: say so, with a slot of its own. A transaction by itself."""
    slot = sync_slot_name(session, subscription.oid, relid)
    current, _ = state.table_states(session, subscription.oid)[relid]
    if current == catalog.DATASYNC:  # an attempt before this one
        with suppress(PublisherError):
            publisher.drop_slot(slot)
    state.set_table_state(session, subscription.oid, relid, catalog.DATASYNC, None)
    origin = catalog.origin_name(subscription.oid, relid)
    if origin_or_none(session, origin) is None:
        create_origin(session, origin)
    try:
        lsn = publisher.create_slot(slot, two_phase=False, failover=subscription.subfailover)
    except PublisherError as error:
        raise PgError("08006", f'could not create replication slot "{slot}": {error}') from None
    advance_origin(session, origin, lsn)


def finish_copy(session: Session, subscription: CatalogRow, relid: int, publisher: Publisher) -> int:
    """Copy the rows and say so; how many there were. A transaction by itself."""
    table = relation(session, relid)
    source = _source(table, subscription, publisher)
    player = Player(session, subscription, Progress(catalog.origin_name(subscription.oid)), lambda relid, lsn: True)
    with acting_for(session, subscription, table):
        check_target_privilege(session, table, "INSERT")
        count = _load(session, player, table, source)
    write(session, player, catalog.origin_name(subscription.oid, relid))
    state.set_table_state(session, subscription.oid, relid, catalog.SYNC_DONE, source.lsn)
    drop_origin(session, catalog.origin_name(subscription.oid, relid), missing_ok=True)
    with suppress(PublisherError):
        publisher.drop_slot(sync_slot_name(session, subscription.oid, relid))
    return count


def _source(table: Relation, subscription: CatalogRow, publisher: Publisher) -> TableCopy:
    try:
        return publisher.copy(table.schema, table.name, subscription.subpublications)
    except PublisherError as error:
        text = f'could not start initial contents copy for table "{table.qualified_name}": {error}'
        raise PgError("08006", text) from None


def _load(session: Session, player: Player, table: Relation, source: TableCopy) -> int:
    """The rows, in the order of the source, into the table or the leaves of a partitioned one."""
    progress = Progress("")
    target = Target(session, replace(source.relation, schema=table.schema, name=table.name), progress)
    router = Router(session, table) if table.kind == "p" else None
    number = 0
    while portion := list(islice(source.rows, _PORTION)):
        placed = []
        for line, row in enumerate(portion, number + 1):
            try:
                stored = target.complete(target.store(row))
            except PgError as error:
                raise _of_column(error, table, line, progress.column, source, row) from None
            try:
                leaf, there = (table, stored) if router is None else router.route(stored)
            except PgError as error:
                raise _of_line(error, table, line, source, row) from None
            placed.append((line, row, player.overlay(leaf), there))
        _insert(placed, table, source)
        number += len(portion)
    return number


def _insert(placed: list[tuple[int, Row, Overlay, Row]], table: Relation, source: TableCopy) -> None:
    by_overlay: dict[Overlay, list[Row]] = {}
    for _, _, overlay, row in placed:
        by_overlay.setdefault(overlay, []).append(row)
    for overlay, rows in by_overlay.items():
        overlay.prefetch_keys(rows)
    for line, sent, overlay, row in placed:
        try:
            overlay.insert(row)
        except PgError as error:
            if error.sqlstate == "23505":  # rows go to the indexes in portions, when the line is gone
                raise _with_context(error, f"COPY {table.name}, line {line}") from None
            raise _of_line(error, table, line, source, sent) from None


def _of_line(error: PgError, table: Relation, line: int, source: TableCopy, row: Row) -> PgError:
    text = "\t".join(_field(value, column.type) for value, column in zip(row, source.relation.columns, strict=True))
    return _with_context(error, f'COPY {table.name}, line {line}: "{_limited(text)}"')


def _of_column(error: PgError, table: Relation, line: int, name: str | None, source: TableCopy, row: Row) -> PgError:
    for value, column in zip(row, source.relation.columns, strict=True):
        if column.name == name:
            shown = _limited(write_text(value, column.type, WIRE_STYLE))
            return _with_context(error, f'COPY {table.name}, line {line}, column {name}: "{shown}"')
    return _with_context(error, f"COPY {table.name}, line {line}")


def _field(value: object, typoid: int) -> str:
    return "\\N" if value is None else write_text(value, typoid, WIRE_STYLE)


def _limited(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= _SHOWN else raw[:_SHOWN].decode(errors="ignore") + "..."


def _with_context(error: PgError, context: str) -> PgError:
    error.report = replace(error.report, context=context, position=None)
    return error


def tables_to_copy(session: Session, subid: int) -> Iterator[int]:
    for relid, (current, _) in sorted(state.table_states(session, subid).items()):
        if current in (catalog.INIT, catalog.DATASYNC):
            yield relid
