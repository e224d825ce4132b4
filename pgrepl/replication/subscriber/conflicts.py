"""Conflicts of the publisher's changes with what is here, of the kinds and in the words of PostgreSQL 18 (conflict.c).

All of them are counted. With the subscription's conflict_log they are logged, too, and kept in pgrepl_conflict, in the
commit of the batch that they belong to: of one batch the first MOST. The states of a kept conflict:

    noted        the change was applied, or there was nothing to apply it to
    stopped      the change has stopped the subscription → applied once the transaction is
    mending      another row is to be applied in its place → retried
    discarding   the change is to be left out → discarded
    skipped      a change of a transaction that was skipped → retried, discarded
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.relation_parts import identity_or_primary_key
from pgrepl.catalog.session import statistics
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.sql import LAST_CONFLICT, PRUNE_CONFLICTS
from pgrepl.catalog.store.store import delete, insert_many, rows, update
from pgrepl.expr.catalog_trees import index_info
from pgrepl.expr.functions.documents.json_making import to_jsonb_tree
from pgrepl.expr.functions.registry import Call, Context
from pgrepl.ground.errors import Declined, PgError, Report
from pgrepl.ground.frozen import frozen
from pgrepl.lake.changes.history import snapshots
from pgrepl.lake.read.extent import table_rows
from pgrepl.replication.log import ServerLog
from pgrepl.replication.origins import origin_or_none
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import TargetTable
from pgrepl.replication.subscriber.lease import CONFLICTS
from pgrepl.replication.wire.messages import DELETE, INSERT, UNCHANGED, Message, TruncateMessage, WireTransaction
from pgrepl.replication.wire.values import as_text
from pgrepl.rows.foreign.key import index_key, row_text
from pgrepl.types import oids
from pgrepl.types.json import jsonb_tree, sorted_object, to_jsonb
from pgrepl.types.text import reader, write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import RowPlace
    from pgrepl.lake.table import LakeTable
    from pgrepl.rows.unique import UniqueIndex

Row = Sequence[Any]

(
    INSERT_EXISTS, UPDATE_DIFFERS, UPDATE_EXISTS, UPDATE_DELETED, UPDATE_MISSING, DELETE_DIFFERS, DELETE_MISSING,
    MULTIPLE,
) = CONFLICTS  # fmt: skip
SKIPPED_CHANGE = "skipped"  # no conflict: a change of a transaction that was skipped
_EXISTS = frozenset({INSERT_EXISTS, UPDATE_EXISTS, MULTIPLE})

NOTED, STOPPED, MENDING, DISCARDING, SKIPPED = "noted", "stopped", "mending", "discarding", "skipped"
APPLIED, RETRIED, DISCARDED = "applied", "retried", "discarded"
_ENDS = {STOPPED: APPLIED, MENDING: RETRIED, DISCARDING: DISCARDED}  # when the transaction has been applied

MOST = 1000  # conflicts of one batch that are logged and kept
_KEPT = 100_000  # conflicts, after which the oldest that are over are removed


@frozen
class Conflict:
    """`operation`: of the message. Rows are the text of jsonb objects; `key`: what the row was looked for by, or what
    another row has. `origin`: of the local row."""

    kind: str
    operation: str
    schema: str
    name: str
    xid: int
    finish_lsn: int
    detail: str | None
    context: str | None
    key: str | None
    local_row: str | None
    remote_row: str | None
    origin: str | None = None

    @property
    def report(self) -> Report:
        sqlstate = "23505" if self.kind in _EXISTS else "40001"
        message = f'conflict detected on relation "{self.schema}.{self.name}": conflict={self.kind}'
        return Report("LOG", sqlstate, message, self.detail, context=self.context)


@frozen
class Missed:
    """A row that was not found, or that another origin has written. `report`: what 17 says of it."""

    kind: str
    report: Report | None
    conflict: Conflict | None  # None: it is not kept


class Rejected(PgError):
    """A unique violation that ends the batch before its transaction."""

    def __init__(self, error: PgError, kind: str, conflict: Conflict | None) -> None:
        super().__init__(error.sqlstate, error.message)
        self.report = error.report
        self.kind = kind
        self._conflict = conflict

    @property
    def told(self) -> Conflict | None:
        """The conflict, with the context of the error; None: the subscription keeps none."""
        return None if self._conflict is None else replace(self._conflict, context=self.report.context)


@frozen
class Taken:
    """An index in which another row has the key: the row, and its origin."""

    index: UniqueIndex
    values: tuple[Any, ...]
    row: Row
    origin: RowOrigin | None


# --- how a conflict is told -------------------------------------------------------------------------------------------


@frozen
class Telling:
    """Describes conflicts of one message with rows of a table, which is the target or a leaf of it. `searched`: what
    the row is looked for by, `remote`: the new row, both by the table's columns."""

    session: Session
    target: TargetTable
    table: Relation
    message: Message
    progress: Progress

    def missing(self, searched: Row, remote: Row | None, deleted: RowOrigin | None = None) -> Conflict:
        """`deleted`: who has deleted the row here."""
        done = "deleted" if self.message.operation == DELETE else "updated"
        kind = DELETE_MISSING if self.message.operation == DELETE else UPDATE_MISSING
        first = f"Could not find the row to be {done}."
        details = [self._detail(first, None, None, remote, searched)]
        if deleted is None:
            return self._conflict(kind, details, searched, None, None)
        details.append(f"The row to be updated was {_whose(self.session, deleted, done='deleted')}.")
        return self._conflict(UPDATE_DELETED, details, searched, None, deleted.name)

    def differs(self, local: Row, origin: RowOrigin, searched: Row, remote: Row | None) -> Conflict:
        deletes = self.message.operation == DELETE
        first = f"{'Deleting' if deletes else 'Updating'} the row that was {_whose(self.session, origin)}."
        detail = self._detail(first, None, local, remote, searched)
        return self._conflict(DELETE_DIFFERS if deletes else UPDATE_DIFFERS, [detail], searched, local, origin.name)

    def exists(self, kind: str, taken: Sequence[Taken], searched: Row | None, remote: Row) -> Conflict:
        details = []
        for holder in taken:
            when = "" if holder.origin is None else f", {_whose(self.session, holder.origin, of_key=True)}"
            first = f'Key already exists in unique index "{holder.index.info.name}"{when}.'
            key = index_key(self.session, holder.index.info, holder.values)
            details.append(self._detail(first, key, holder.row, remote, searched))
        index = taken[0].index.info
        attributes = [self.table.attribute_by_number(number) for number in index.columns[: index.key_count]]
        held = {
            attribute.name: self._tree(value, attribute.type)
            for attribute, value in zip(attributes, taken[0].values, strict=True)
            if attribute is not None
        }
        origin = None if taken[0].origin is None else taken[0].origin.name
        conflict = self._conflict(kind, details, None, taken[0].row, origin)
        return replace(conflict, key=_text(held))

    def _detail(self, first: str, key: str | None, local: Row | None, remote: Row | None, searched: Row | None) -> str:
        """The DETAIL of a conflict: keys, the local and the remote row (errdetail_apply_conflict,
        build_tuple_value_details)."""
        parts = [key or ""]
        for name, row in (("existing local row", local), ("remote row", remote)):
            shown = None if row is None else row_text(self.session, self.table, row)
            parts.append("" if shown is None else f"{name} {shown}")
        parts.append(self._identity(searched))
        said = "; ".join(filter(None, parts))
        return f"{first}\n{said[0].upper()}{said[1:]}." if said else first

    def _identity(self, searched: Row | None) -> str:
        if searched is None:
            return ""
        index = identity_or_primary_key(self.session, self.table)
        if index is None:
            shown = row_text(self.session, self.table, searched)
            return "" if shown is None else f"replica identity full {shown}"
        values = [searched[number - 1] for number in index.indkey[: index.indnkeyatts]]
        key = index_key(self.session, index_info(self.session, index.indexrelid), values)
        return "" if key is None else f"replica identity {key.removeprefix('Key ')}"

    def _conflict(
        self, kind: str, details: list[str], searched: Row | None, local: Row | None, origin: str | None
    ) -> Conflict:
        return Conflict(
            kind,
            self.message.operation,
            self.table.schema,
            self.table.name,
            self.progress.xid,
            self.progress.finish_lsn,
            "\n".join(details),
            self.progress.context,
            None if searched is None else self._row(searched, self.key_columns),
            None if local is None else self._row(local, None),
            remote_row(self.session, self.message),
            origin,
        )

    @property
    def key_columns(self) -> frozenset[int] | None:
        index = identity_or_primary_key(self.session, self.table)
        return None if index is None else frozenset(index.indkey[: index.indnkeyatts])

    def _row(self, row: Row, attnums: frozenset[int] | None) -> str:
        return _text(
            {
                column.name: self._tree(row[column.num - 1], column.type)
                for column in self.table.columns
                if attnums is None or column.num in attnums
            }
        )

    def _tree(self, value: Any, typid: int) -> Any:
        return to_jsonb_tree(Call(Context(self.session), (), 0), value, typid)


def remote_row(session: Session, message: Message) -> str | None:
    """The new row as it was sent, without what was not sent."""
    return None if message.new is None else _sent(session, message, message.new)


def _sent_key(session: Session, message: Message) -> str | None:
    """What the row is looked for by, as it was sent."""
    if message.operation == INSERT:
        return None
    return _sent(session, message, message.old or message.new or (), key=not message.whole_old)


def _sent(session: Session, message: Message, row: Row, *, key: bool = False) -> str:
    call = Call(Context(session), (), 0)
    return _text(
        {
            column.name: to_jsonb_tree(call, _as_text(value, column.sent_as), column.type)
            for column, value in zip(message.relation.columns, row, strict=True)
            if value is not UNCHANGED and (column.is_key or not key)
        }
    )


def _as_text(value: Any, typid: int) -> Any:
    try:
        return as_text(value, typid)
    except Declined:
        return "\\x" + bytes(value).hex()


def _text(pairs: dict[str, Any]) -> str:
    return str(to_jsonb(sorted_object(pairs)))


def _whose(session: Session, origin: RowOrigin, *, of_key: bool = False, done: str = "modified") -> str:
    at = write_text(origin.at, oids.TIMESTAMPTZ, session.text_style)
    if origin.name is None:
        by = f"{done} locally"
    elif origin_or_none(session, origin.name) is None:  # it was dropped
        by = f"{done} by a non-existent origin"
    else:
        by = f'{done} by {"" if of_key else "a different "}origin "{origin.name}"'
    return f"{by} in transaction {origin.xid} at {at}"


# --- what is kept -----------------------------------------------------------------------------------------------------


def count(session: Session, subid: int, kinds: Counter[str]) -> None:
    if kinds:
        counted = {f"confl_{kind}": number for kind, number in kinds.items()}
        statistics.count(session, statistics.SUBSCRIPTION, subid, **counted)


def tell(
    session: Session,
    subscription: tables.pg_subscription,
    missed: Iterable[Missed],
    log: ServerLog,
    *,
    kept: bool = True,
) -> None:
    """Count, log and keep rows that were not found or that others have written. Without `kept` the transaction has
    failed: it will be applied again."""
    listed = list(missed)
    conflicts = [row.conflict for row in listed if row.conflict is not None]
    for row in listed:
        if row.conflict is None and row.report is not None and not subscription.subconflictlog:
            log.report(row.report)
    log_all(log, conflicts, len(listed) if subscription.subconflictlog else 0)
    if kept:
        keep(session, subscription.oid, conflicts, NOTED)
    count(session, subscription.oid, Counter(row.kind for row in listed))  # last: a log may refuse to be written


def log_all(log: ServerLog, conflicts: Sequence[Conflict], number: int) -> None:
    """Log conflicts; `number`: of all, these are the first."""
    for conflict in conflicts:
        log.report(conflict.report)
    if number > len(conflicts):
        log.log(f"{number - len(conflicts)} more conflicts are counted, but neither logged nor kept")


def keep(session: Session, subid: int, conflicts: Sequence[Conflict], state: str) -> None:
    """Add conflicts to pgrepl_conflict; holding the write lock."""
    if not conflicts:
        return
    session.transaction.require_write()
    last = int(session.link.execute(LAST_CONFLICT)[0][0])
    now = statistics.now()
    insert_many(
        session,
        tables.pgrepl_conflict,
        [
            {
                "id": number, "subid": subid, "happened": now, "finish_lsn": conflict.finish_lsn, "xid": conflict.xid,
                "schemaname": conflict.schema, "relname": conflict.name, "operation": conflict.operation,
                "kind": conflict.kind, "state": state, "detail": conflict.detail, "key": conflict.key,
                "local_row": conflict.local_row, "remote_row": conflict.remote_row, "origin": conflict.origin,
                "mended_row": None,
            }
            for number, conflict in enumerate(conflicts, last + 1)
        ],
    )  # fmt: skip
    session.link.execute(PRUNE_CONFLICTS, (subid, last + len(conflicts) - _KEPT, STOPPED, MENDING, DISCARDING, SKIPPED))


def keep_rejected(session: Session, subid: int, conflict: Conflict) -> None:
    """Keep the conflict that has stopped the subscription, once: it is met at each attempt."""
    known = rows(session, tables.pgrepl_conflict, subid=subid, finish_lsn=conflict.finish_lsn, state=(STOPPED, MENDING))
    if not any((kept.operation, kept.remote_row) == (conflict.operation, conflict.remote_row) for kept in known):
        keep(session, subid, [conflict], STOPPED)


def keep_skipped(
    session: Session, subscription: tables.pg_subscription, skipped: WireTransaction, log: ServerLog
) -> None:
    """Keep the changes of a transaction that is skipped, so that they can be played again."""
    if not subscription.subconflictlog:
        return
    delete(session, tables.pgrepl_conflict, subid=subscription.oid, finish_lsn=skipped.finish_lsn, state=STOPPED)
    changes = (message for message in skipped.messages if not isinstance(message, TruncateMessage))
    conflicts = [
        Conflict(
            SKIPPED_CHANGE, message.operation, message.relation.schema, message.relation.name, skipped.xid,
            skipped.finish_lsn, None, None, _sent_key(session, message), None, remote_row(session, message),
        )
        for message in islice(changes, MOST)
    ]  # fmt: skip
    keep(session, subscription.oid, conflicts, SKIPPED)
    if skipped.size > len(conflicts):
        log.log(f"{skipped.size - len(conflicts)} more changes of the skipped transaction are not kept")


# --- what the user has decided ----------------------------------------------------------------------------------------


class Decisions:
    """What is to become of changes that have stopped the subscription: they are left out, or other rows take their
    place."""

    def __init__(self, session: Session, subscription: tables.pg_subscription) -> None:
        self._session = session
        self._by_lsn: dict[int, list[tables.pgrepl_conflict]] = {}
        if subscription.subconflictlog:
            for row in rows(session, tables.pgrepl_conflict, subid=subscription.oid, state=(MENDING, DISCARDING)):
                self._by_lsn.setdefault(row.finish_lsn, []).append(row)

    def __bool__(self) -> bool:
        return bool(self._by_lsn)

    def of(self, message: Message, finish_lsn: int) -> Message | None:
        """The message that is applied; None: none is."""
        mended_rows = self._by_lsn.get(finish_lsn)
        if not mended_rows:
            return message
        sent = remote_row(self._session, message)
        for row in mended_rows:
            if (row.operation, row.remote_row) == (message.operation, sent):
                return None if row.mended_row is None else _mended(self._session, message, row.mended_row)
        return message


def _mended(session: Session, message: Message, text: str) -> Message:
    """The message with the values of a jsonb object."""
    values = jsonb_tree(text)
    assert message.new is not None
    new = list(message.new)
    for place, column in enumerate(message.relation.columns):
        if column.name in values:
            value = values[column.name]
            if value is not None:
                shown = value if isinstance(value, str) else str(to_jsonb(value))
                value = reader(column.type)(shown, column.typmod, session.text_style)
            new[place] = value
    return replace(message, new=tuple(new))


def settle(session: Session, subid: int, finish_lsn: int) -> None:
    """Transactions up to the one that finishes at this LSN have been applied."""
    for row in rows(session, tables.pgrepl_conflict, subid=subid, state=tuple(_ENDS)):
        if row.finish_lsn <= finish_lsn:
            update(session, tables.pgrepl_conflict, {"id": row.id}, state=_ENDS[row.state])


# --- where rows come from ---------------------------------------------------------------------------------------------


@frozen
class RowOrigin:
    """`name` None: the row was written here."""

    name: str | None
    xid: int
    at: int  # microseconds


@frozen
class Foreign:
    """The files, and the inlined rows, that another origin than one's own has written, with their snapshots."""

    files: dict[int, RowOrigin]
    inlined: dict[int, RowOrigin]

    def of(self, place: RowPlace) -> RowOrigin | None:
        return self.inlined.get(place.row) if place.file is None else self.files.get(place.file)


NOBODYS = Foreign({}, {})


def foreign_rows(session: Session, table: LakeTable, own: str, snapshot: int) -> Foreign:
    """What of the table another origin than `own` has written. The subscription has copied its tables, too."""
    present = table_rows(session, table, snapshot, ())
    files = {file.data_file_id: file.begin_snapshot for file in present.files if file.partial_max is None}
    inlined = {row.row_id: row.begin_snapshot for row in present.inlined}
    known = {number: origin_at(session, table, number) for number in {*files.values(), *inlined.values()}}
    others = {number: origin for number, origin in known.items() if origin is not None and not is_own(origin.name, own)}
    return Foreign(
        {file: others[number] for file, number in files.items() if number in others},
        {row: others[number] for row, number in inlined.items() if number in others},
    )


def is_own(name: str | None, own: str) -> bool:
    return name is not None and (name == own or name.startswith(f"{own}_"))


def origin_at(session: Session, table: LakeTable, number: int) -> RowOrigin | None:
    """The origin of rows that were written in this snapshot; None: not known."""
    for snapshot in snapshots(session, number - 1, number):
        if not snapshot.rearranges(table.table_id):
            return RowOrigin(snapshot.origin, snapshot.first, snapshot.time)
    return None
