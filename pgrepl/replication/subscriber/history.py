"""The history of subscribed tables (the subscription parameter history): logs of their changes, in the commit of the
rows. catalog/facts/history.py says what a log is.

A log begins with the rows that its table has then: when the parameter is set, or the table's copy is done. Whoever is
about to write to a table makes its log, or adds the columns that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import history
from pgrepl.catalog.facts import subscription as subscriptions
from pgrepl.catalog.facts.history import COPY, OLD, OPTION, OWN, VALIDITY
from pgrepl.catalog.facts.relation import Relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import partition_ancestors
from pgrepl.catalog.facts.subscription import HISTORIES
from pgrepl.catalog.session.transaction import LockNeeded
from pgrepl.catalog.store import tables
from pgrepl.expr.partition_constraint import leaf_partitions
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.lake import commit
from pgrepl.lake.commit import LockedByOthers
from pgrepl.lake.read import local
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.lake.write.file_writer import DataFileWriter
from pgrepl.lake.write.statement import Write
from pgrepl.replication.subscriber import state
from pgrepl.replication.subscriber.apply.progress import Emptied, Entry, Journal
from pgrepl.replication.subscriber.schema_changes.columns import type_name
from pgrepl.replication.wire.messages import WireTransaction
from pgrepl.replication.wire.pgoutput import now
from pgrepl.rows.checks_table import converter
from pgrepl.sql.keywords import quote_identifier, quote_qualified

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.wire.messages import Row


_FIRST = -(2**62)  # the change that ends all that a log knew before
_FEW = 1000  # rows that are written one by one


def kept_of(session: Session, subscription: tables.pg_subscription, table: Relation) -> str:
    """What is kept of a table's past: none, changes or versions. Its own parameter goes before the subscription's."""
    own = next((text.partition("=")[2] for text in table.options or () if text.startswith(f"{OPTION}=")), None)
    return own.lower() if own is not None else HISTORIES[subscription.subhistory]


# --- definition -------------------------------------------------------------------------------------------------------


@frozen
class Log:
    """A table and its log. `sources`: for each column of the log one of its own, an old one, or one of the table, with
    the name of the table's column."""

    table: Relation
    relation: Relation
    lake: LakeTable
    sources: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, session: Session, table: Relation, relation_of_log: Relation) -> Log:
        own = {name for name, _ in OWN}
        lake = lake_table(session, relation_of_log.oid)
        named = [relation_of_log.attributes[column.attnum - 1].name for column in lake.columns]
        keys = {OLD + name for name in history.key_names(session, table)[0]}
        sources = [
            ("own", name) if name in own else ("old", name.removeprefix(OLD)) if name in keys else ("new", name)
            for name in named
        ]
        return cls(table, relation_of_log, lake, tuple(sources))

    def keeps_as(self, lake: LakeTable, names: Mapping[str, int]) -> bool:
        """Does the log keep the columns of a table as that table does? `names`: with their numbers there."""
        return all(
            kind == "own" or name not in names or column.kept_alike == lake.column(names[name]).kept_alike
            for column, (kind, name) in zip(self.lake.columns, self.sources, strict=True)
        ) and not (self.lake.has_dimensions or lake.has_dimensions)

    def row(
        self, operation: str, at: tuple[int, int, int, int], old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> list[Any]:
        """A row of the log in the lake's order. `at`: LSN, time, xid, change."""
        own = dict(zip((name for name, _ in OWN), (operation, *at), strict=True))
        sides = {"own": own, "old": old, "new": new}
        return [sides[kind].get(name) for kind, name in self.sources]


def settled_log(session: Session, subscription: tables.pg_subscription, table: Relation) -> Log | None:
    """The log that the table's changes go to; None: its past is not kept. Declined: it is to be made or changed."""
    kept = kept_of(session, subscription, table)
    if kept == "none":
        return None
    log = _there(session, table, kept)
    if log is None or _to_define(session, table, log, kept):
        raise Declined("a history that is to be made")
    return Log.of(session, table, log)


def begin(session: Session, subscription: tables.pg_subscription, table: Relation) -> Log | None:
    """The log that the table's changes go to, which is made if there is none; holding the write lock."""
    kept = kept_of(session, subscription, table)
    if kept == "none":
        return None
    log_there = _there(session, table, kept)
    is_new = log_there is None
    with session.acting_as(subscription.subowner):
        for statement in _to_define(session, table, log_there, kept):
            try:
                session.define([statement])
            except LockNeeded as needed:
                raise LockedByOthers(needed.wanted) from None
        log = history.log_of(session, table)
        assert log is not None, "it has just been made"
        view = in_the_way(session, table, kept)
        if kept == "versions" and (view is None or not _shows(view, table)):
            session.define(list(_view(session, table, log, view)))
    begun = Log.of(session, table, log)
    if is_new and is_copied(session, subscription.oid, table.oid):
        write_rows(session, subscription, begun, state.position(session, subscription.oid))
    return begun


def is_copied(session: Session, subid: int, relid: int) -> bool:
    return state.table_state(session, subid, relid) in (
        subscriptions.READY,
        subscriptions.SYNC_DONE,
        subscriptions.FINISHED_COPY,
    )


def in_the_way(session: Session, table: Relation, kept: str) -> Relation | None:
    """The view of versions, or what else has its name."""
    return history.in_schema(session, table, history.names(table)[0]) if kept == "versions" else None


def _there(session: Session, table: Relation, kept: str) -> Relation | None:
    """The table's log. An error if something else has its name, or if it is kept in the other form (and has to be
    renamed)."""
    shown, behind = history.names(table)
    log = history.log_of(session, table)
    for name in (shown, behind) if kept == "versions" else (shown,):
        there = history.in_schema(session, table, name)
        if there is None or history.is_log(there) or (there.kind == "v" and log is not None and log.name == behind):
            continue
        raise PgError(
            "42P07",
            f'relation "{there.schema}.{name}" already exists',
            detail=f'The history of table "{table.qualified_name}" is to have this name.',
            hint=f"Rename or drop it, or keep no history of the table: ALTER TABLE "
            f"{quote_qualified(table.schema, table.name)} SET ({OPTION} = none);",
        )
    return log


def _to_define(session: Session, table: Relation, log: Relation | None, kept: str) -> list[str]:
    """The statements that make the log, or give it the name and the columns that it lacks."""
    shown, behind = (quote_qualified(table.schema, name) for name in history.names(table))
    wanted = behind if kept == "versions" else shown
    keys, _ = history.key_names(session, table)
    named = {column.name: column for column in table.stored}
    columns = [
        f"{quote_identifier(name)} {type_name(named[of])}" for name, of in history.missing_columns(table, log, keys)
    ]
    if log is None:
        _check_names(table, keys, kept)
        own = [f"{name} {kind}" for name, kind in OWN]
        # what VACUUM removes is sent on, if the log is published
        return [f"CREATE TABLE {wanted} ({', '.join([*own, *columns])})", f"ALTER TABLE {wanted} REPLICA IDENTITY FULL"]
    statements = []
    view = history.in_schema(session, table, history.names(table)[0])
    other = {column.name: column for column in log.columns}
    typed = [
        f"ALTER COLUMN {quote_identifier(name)} TYPE {type_name(named[of])}"
        for name, of in [(OLD + key, key) for key in keys] + [(name, name) for name in named]
        if name in other and (other[name].type, other[name].typmod) != (named[of].type, named[of].typmod)
    ]
    renamed = quote_qualified(log.schema, log.name) != wanted
    if view is not None and view.kind == "v" and (columns or typed or renamed):
        statements.append(f"DROP VIEW {shown}")
    if renamed:
        new_name = history.names(table)[1 if kept == "versions" else 0]
        statements.append(f"ALTER TABLE {quote_qualified(log.schema, log.name)} RENAME TO {quote_identifier(new_name)}")
    actions = [f"ADD COLUMN {column}" for column in columns] + typed
    if actions:
        statements.append(f"ALTER TABLE {wanted} {', '.join(actions)}")
    return statements


def _check_names(table: Relation, keys: Iterable[str], kept: str) -> None:
    taken = {name for name, _ in OWN} | {OLD + key for key in keys} | set(VALIDITY if kept == "versions" else ())
    for column in table.stored:
        if column.name in taken:
            raise PgError(
                "42701",
                f'column "{column.name}" of table "{table.qualified_name}" has the name of a column of its history',
            )


def _shows(view: Relation, table: Relation) -> bool:
    there = {column.name for column in view.columns}
    return view.kind == "v" and all(column.name in there for column in table.stored)


def _view(session: Session, table: Relation, log: Relation, view: Relation | None) -> Iterator[str]:
    name = quote_qualified(table.schema, history.names(table)[0])
    if view is not None:
        yield f"DROP VIEW {name}"
    yield f"CREATE VIEW {name} AS {history.versions_sql(session, table, log)}"


# --- rows that are there ----------------------------------------------------------------------------------------------


def begin_all(session: Session, subscription: tables.pg_subscription, before: str | None = None) -> None:
    """Begin the history of a subscription's tables. `before`: what has been kept until now; a log that was not written
    for a while goes on with the rows that are there."""
    for table in _kept_tables(session, subscription):
        _resume(session, subscription, table, rested=before == subscriptions.NO_HISTORY)


def _kept_tables(session: Session, subscription: tables.pg_subscription) -> Iterator[Relation]:
    for row in subscriptions.subscription_relations(session, subscription.oid):
        table = relation_or_none(session, row.srrelid)
        if table is not None and kept_of(session, subscription, table) != "none":
            yield table


def _resume(session: Session, subscription: tables.pg_subscription, table: Relation, *, rested: bool) -> None:
    """Begin the history of a table. `rested`: a log that is there was not written for a while; it goes on with the rows
    that the table has now."""
    goes_on = history.log_of(session, table) is not None
    log = begin(session, subscription, table)
    if log is not None and goes_on and rested and is_copied(session, subscription.oid, table.oid):
        write_rows(session, subscription, log, state.position(session, subscription.oid))


def follow_parameter(session: Session, before: Relation) -> None:
    """Begin the history of a table whose own parameter has been changed."""
    table = relation(session, before.oid)
    for subscription in subscriptions.subscriptions(session):
        if not state.table_state(session, subscription.oid, table.oid):
            continue
        _resume(session, subscription, table, rested=kept_of(session, subscription, before) == "none")


def write_copied(session: Session, subscription: tables.pg_subscription, relid: int, lsn: int) -> None:
    """Begin the history of a table that has been copied as of this LSN."""
    table = relation(session, relid)
    log = begin(session, subscription, table)
    if log is not None and not is_copied(session, subscription.oid, relid):
        write_rows(session, subscription, log, lsn)


def write_rows(session: Session, subscription: tables.pg_subscription, log: Log, lsn: int) -> None:
    """Write the rows that the table has now into its log, and that what it knew before has ended."""
    write = Write(session, log.lake)
    at = now()
    leaves = leaf_partitions(session, log.table.oid) if log.table.kind == "p" else [log.table]
    sources = [(leaf, lake_table(session, leaf.oid)) for leaf in leaves if leaf.kind == "r"]
    if local.count(session, log.lake):
        write.insert([log.row("truncate", (lsn, at, 0, _FIRST), {}, {})])
    count = sum(local.count(session, lake) for _, lake in sources)
    change = -count
    numbers = [{column.name: column.num for column in leaf.stored} for leaf, _ in sources]
    by_columns = all(log.keeps_as(lake, attnums) for (_, lake), attnums in zip(sources, numbers, strict=True))
    if count <= _FEW or not by_columns:
        for leaf, lake in sources:
            names = [column.name for column in leaf.stored]
            for values in local.rows(session, lake, [column.num for column in leaf.stored], counted=False):
                write.insert([log.row(COPY, (lsn, at, 0, change), {}, dict(zip(names, values, strict=False)))])
                change += 1
    else:
        writer = DataFileWriter(log.lake)
        for leaf, lake in sources:
            for number, arrays in local.columns(session, lake, [column.num for column in leaf.stored]):
                named = dict(zip((column.name for column in leaf.stored), arrays, strict=True))
                writer.write_arrays(_copied(log, (lsn, at), named, change, number), None, number)
                change += number
        write.insert_files([writer.close()])
    commit.record_writes(session, [write], {"origin": subscriptions.origin_name(subscription.oid)})
    session.transaction.numbering.store_snapshot()


def _copied(log: Log, at: tuple[int, int], named: Mapping[str, Any], first: int, number: int) -> list[Any]:
    """Rows of the log for copied rows, as columns."""
    own = {"operation": COPY, "lsn": at[0], "committed_at": at[1], "xid": 0}
    arrays = []
    for column, (kind, name) in zip(log.lake.columns, log.sources, strict=True):
        if kind == "own" and name == "change":
            arrays.append(pa.array(np.arange(first, first + number)))
        elif kind == "new" and name in named:
            arrays.append(named[name])
        else:
            one = column.form.to_array([own[name] if kind == "own" else None])
            arrays.append(one.take(pa.array(np.zeros(number, np.int64))))
    return arrays


# --- changes one by one -----------------------------------------------------------------------------------------------


class Logs:
    """The logs of the tables that the messages of a batch change."""

    def __init__(self, session: Session, subscription: tables.pg_subscription) -> None:
        self.number = 0  # of the last change in the transaction
        self._transaction: WireTransaction | None = None
        self._session = session
        self._subscription = subscription
        self._logs: dict[int, tuple[Log, Callable[[Row], Row]] | None] = {}  # by OID of the table or leaf

    def begin(self, journal: Journal) -> None:
        """Make the logs that are missing, before anything is written."""
        for _, entries in journal.transactions:
            for entry in entries:
                for table in entry.relations if isinstance(entry, Emptied) else (entry.table,):
                    self._of(table)

    def _of(self, leaf: Relation) -> tuple[Log, Callable[[Row], Row]] | None:
        if leaf.oid not in self._logs:
            session, subscription = self._session, self._subscription
            above = partition_ancestors(session, leaf.oid) if leaf.is_partition else []
            self._logs[leaf.oid] = None
            for table in (leaf, *(relation(session, oid) for oid in above)):
                if kept_of(session, subscription, table) != "none" and is_copied(session, subscription.oid, table.oid):
                    log = begin(session, subscription, table)
                    assert log is not None, "its past is kept"
                    self._logs[leaf.oid] = log, converter(leaf, table)
                    break
        return self._logs[leaf.oid]

    def enter(self, writes: dict[int, Write], transaction: WireTransaction | None, entries: Iterable[Entry]) -> None:
        """Enter what a transaction has changed, as rows, into the writes of the logs. A copy writes its rows when it is
        done."""
        if transaction is None:
            lsn = state.position(self._session, self._subscription.oid)
            transaction = WireTransaction(0, lsn, lsn, now(), ())
            entries = [entry for entry in entries if isinstance(entry, Emptied)]
        if self._transaction is not None and transaction is not self._transaction:
            self.number = 0
        self._transaction = transaction
        for entry in entries:
            self.number += 1
            at = _end(transaction), transaction.committed_at, transaction.xid, self.number
            seen = set()
            for table in entry.relations if isinstance(entry, Emptied) else (entry.table,):
                there = self._of(table)
                if there is None or there[0].table.oid in seen:
                    continue
                log, to_table = there
                seen.add(log.table.oid)
                write = writes.get(log.relation.oid)
                if write is None:
                    write = writes[log.relation.oid] = Write(self._session, log.lake)
                    write.has_free_keys = True
                if isinstance(entry, Emptied):
                    write.insert([log.row("truncate", at, {}, {})])
                    continue
                old, new = ({} if row is None else _named(log.table, to_table(row)) for row in (entry.old, entry.row))
                operation = "insert" if entry.is_new else "delete" if entry.row is None else "update"
                write.insert([log.row(operation, at, old, new)])


def _end(transaction: WireTransaction) -> int:
    phase = transaction.phase
    return transaction.end_lsn if phase is None else phase.prepare_end_lsn


def commit_prepared(session: Session, subscription: tables.pg_subscription, transaction: WireTransaction) -> None:
    """Give the changes of a transaction that was prepared the LSN and the time of its commit, which it has now."""
    writes = []
    for table in _kept_tables(session, subscription):
        log = history.log_of(session, table)
        if log is None:
            continue
        lake = lake_table(session, log.oid)
        own = {name: place for place, name in enumerate(log.attributes[c.attnum - 1].name for c in lake.columns)}
        lsn = lake.columns[own["lsn"]].attnum
        write = Write(session, lake)
        every = [column.attnum for column in lake.columns]
        for _, values in local.lookup(session, lake, [lsn], [(_end(transaction),)], every):
            changed = list(values[:-1])
            if changed[own["xid"]] == transaction.xid:
                changed[own["lsn"]], changed[own["committed_at"]] = transaction.end_lsn, transaction.committed_at
                write.update(values[-1], changed)
        if write.updates:
            writes.append(write)
    if writes:
        commit.record_writes(session, writes, {"origin": subscriptions.origin_name(subscription.oid)})
        session.transaction.numbering.store_snapshot()


def _named(table: Relation, row: Row) -> dict[str, Any]:
    return {column.name: row[column.num - 1] for column in table.stored}
