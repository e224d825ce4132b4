"""Prepared transactions: PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED (twophase.c).

    PREPARE              a row of pgrepl_prepared has the row changes and the locks; an empty snapshot gives the
                         transaction its number, and its LSN for decoding
    COMMIT PREPARED      the changes are replayed, each statement at a snapshot of its own; an empty snapshot ends them
    ROLLBACK PREPARED    an empty snapshot

These snapshots have `"two_phase": [kind, gid, xid, database, prepared at, statements]` in commit_extra_info.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.store import store, tables
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql, storage
from pgrepl.lake.changes.history import COMMIT, PREPARE, ROLLBACK
from pgrepl.lake.commit import PendingStatement, RowChanges
from pgrepl.lake.read.data_file import NewFile
from pgrepl.lake.read.inlined import as_stored
from pgrepl.lake.storage import crash_point
from pgrepl.lake.table import LakeField, lake_table
from pgrepl.lake.write.statement import Write
from pgrepl.lake.write.statistics import ColumnStatistics

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeTable


_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


@frozen
class Prepared:
    """A prepared transaction (pg_prepared_xacts)."""

    xid: int  # the snapshot of its PREPARE
    gid: str
    owner: int
    database: int
    prepared_at: int  # microseconds since 2000-01-01 UTC
    first_snapshot: int  # of RowChanges
    holder: int  # of its locks
    statements: str
    origin_lsn: int  # the end of its PREPARE at the publisher, if it was replicated
    origin_at: int


def found(session: Session, gid: str) -> Prepared | None:
    row = store.one(session, tables.pgrepl_prepared, gid=gid)
    return None if row is None else _made(row)


def was_prepared(session: Session, gid: str) -> bool:
    """Whether a snapshot tells of its PREPARE; it may have ended since."""
    told = session.link.execute(sql.PREPARES)
    return any(json.loads(extra)["two_phase"][1] == gid for (extra,) in told)


def every(session: Session) -> list[Prepared]:
    return sorted((_made(row) for row in store.rows(session, tables.pgrepl_prepared)), key=lambda row: row.xid)


def _made(row: tables.pgrepl_prepared) -> Prepared:
    return Prepared(
        row.xid, row.gid, row.owner, row.datid, row.prepared_at, row.first_snapshot, row.holder, row.statements,
        row.origin_lsn or 0, row.origin_at or 0,
    )  # fmt: skip


# --- PREPARE --------------------------------------------------------------------------------------------------------


def prepare(session: Session, gid: str) -> None:
    """Prepare the running transaction; the session is free of it."""
    transaction = session.transaction

    def written(changes: Any) -> str:
        return _record(session, gid, changes if isinstance(changes, RowChanges) else None, transaction.locks.entered.id)

    transaction.prepare(written)
    crash_point("prepare.end")


def record(session: Session, gid: str, changes: RowChanges, origin_lsn: int, origin_at: int) -> None:
    """Prepare another transaction as a part of the running one, with these changes, and the locks that are held now."""
    transaction = session.transaction
    transaction.waits_for_disk = True
    holder = transaction.locks.entered
    transaction.locks.hand_over(_record(session, gid, changes, holder.id, origin_lsn, origin_at))


def _record(
    session: Session, gid: str, changes: RowChanges | None, holder: int, origin_lsn: int = 0, origin_at: int = 0
) -> str:
    """Store the prepared transaction; returns the name under which its locks stay."""
    check_free(session, gid)
    crash_point("prepare.begin")
    numbering = session.transaction.numbering
    xid = session.snapshot()
    now = (datetime.now(timezone.utc) - _EPOCH) // timedelta(microseconds=1)
    statements = [] if changes is None else [_statement(statement) for statement in changes.statements]
    held = session.transaction.locks.table.held_by(holder)
    store.insert(
        session,
        tables.pgrepl_prepared,
        xid=xid,
        gid=gid,
        owner=session.role,
        datid=session.database_oid,
        prepared_at=now,
        first_snapshot=xid - 1 if changes is None else changes.first_snapshot,
        serializable=session.settings.get("transaction_isolation") == "serializable",
        holder=holder,
        locks=json.dumps([[lock.kind.value, lock.object, lock.item, lock.mode] for lock in held]),
        statements=json.dumps(statements),
        origin_lsn=origin_lsn,
        origin_at=origin_at,
    )
    numbering.note("two_phase", [PREPARE, gid, xid, session.database_oid, now, len(statements)])
    crash_point("prepare.recorded")
    return f"{xid} {gid}"


def check_enabled(session: Session) -> None:
    """An error if max_prepared_transactions is 0 (MarkAsPreparing)."""
    if not int(session.settings.value("max_prepared_transactions")):
        raise PgError(
            "55000", "prepared transactions are disabled", hint='Set "max_prepared_transactions" to a nonzero value.'
        )


def check_free(session: Session, gid: str) -> None:
    """An error if the identifier is used, or there are too many (MarkAsPreparing). The caller holds the write lock."""
    if found(session, gid) is not None:
        raise PgError("42710", f'transaction identifier "{gid}" is already in use')
    most = int(session.settings.value("max_prepared_transactions"))
    if store.count(session, tables.pgrepl_prepared) >= most:
        raise PgError(
            "53400",
            "maximum number of prepared transactions reached",
            hint=f'Increase "max_prepared_transactions" (currently {most}).',
        )


# --- its end --------------------------------------------------------------------------------------------------------


def finish(session: Session, prepared: Prepared, *, commit: bool) -> None:
    """COMMIT PREPARED or ROLLBACK PREPARED, as a part of the running transaction."""
    transaction = session.transaction
    transaction.waits_for_disk = True
    transaction.require_write()
    locks = transaction.locks
    locks.table.claim(prepared.holder, session.pid, locks.token)
    changes = load(session, prepared)
    crash_point("finish.begin")
    if commit:
        changes.replay()
    else:
        paths = list(paths_of(changes))
        session.on_commit(lambda: _remove(paths))
    session.snapshot()
    kind = COMMIT if commit else ROLLBACK
    said = [kind, prepared.gid, prepared.xid, prepared.database, prepared.prepared_at, len(changes.statements)]
    transaction.numbering.note("two_phase", said)
    store.delete(session, tables.pgrepl_prepared, gid=prepared.gid)
    session.on_commit(lambda: locks.table.leave(prepared.holder))
    crash_point("finish.recorded")


def load(session: Session, prepared: Prepared) -> RowChanges:
    changes = RowChanges(session, prepared.first_snapshot)
    changes.statements = [_loaded(session, stored) for stored in json.loads(prepared.statements)]
    return changes


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        storage.remove(path)


def paths_of(changes: RowChanges) -> Iterator[str]:
    """The files with the transaction's new rows."""
    for statement in changes.statements:
        for write in statement.writes:
            yield from (write.table.location + file.name for file in write.files)


def tables_of_serializable(session: Session) -> set[int]:
    """OIDs of tables that prepared SERIALIZABLE transactions change."""
    transactions = store.rows(session, tables.pgrepl_prepared, serializable=True)
    statements = [statement for row in transactions for statement in json.loads(row.statements)]
    return {int(write["table"]) for statement in statements for write in statement["writes"]}


def files(session: Session) -> Iterator[tuple[int, str]]:
    """The files that prepared transactions have written: the table's OID, and the name in its folder."""
    for row in store.rows(session, tables.pgrepl_prepared):
        for statement in json.loads(row.statements):
            for write in statement["writes"]:
                yield from ((write["table"], file["name"]) for file in write["files"])


# --- as JSON --------------------------------------------------------------------------------------------------------


def _statement(statement: PendingStatement) -> dict[str, Any]:
    return {
        "snapshot": statement.snapshot,
        "writes": [_write(write) for write in statement.writes],
        "extra": statement.extra,
        "first_ids": statement.first_ids,
    }


def _loaded(session: Session, said: dict[str, Any]) -> PendingStatement:
    writes = [_loaded_write(session, stored) for stored in said["writes"]]
    return PendingStatement(said["snapshot"], writes, said["extra"], [(row, file) for row, file in said["first_ids"]])


def _write(write: Write) -> dict[str, Any]:
    table = write.table
    deletes = {file: [int(position) for position in positions] for file, positions in write.all_deletes().items()}
    return {
        "table": table.oid,
        "truncates": write.truncates,
        "columns": [column.column_id for column in table.columns],
        "fields": {column.column_id: list(map(asdict, column.fields)) for column in table.columns if column.row},
        "rows": _stored(table, write.rows),
        "updates": list(write.updates),
        "versions": _stored(table, list(write.updates.values())),
        "order": list(write.order.items()),
        "files": [asdict(file) for file in write.files],
        "deletes": list(deletes.items()),
        "inlined_deletes": list(write.inlined_deletes),
        "changed_row_ids": write.changed_row_ids,
    }


def _loaded_write(session: Session, said: dict[str, Any]) -> Write:
    write = Write(session, lake_table(session, said["table"]))
    write.truncates = said["truncates"]
    columns = {column: LakeField(column, "", "", _fields(said, str(column))) for column in said["columns"]}
    write.rows = _read(write.table, columns, said["rows"])
    write.updates = dict(zip(said["updates"], _read(write.table, columns, said["versions"]), strict=True))
    write.order = dict(said["order"])
    write.files = [_file(stored) for stored in said["files"]]
    write.deletes = dict(said["deletes"])
    write.inlined_deletes = dict.fromkeys(said["inlined_deletes"])
    write.changed_row_ids = said["changed_row_ids"]
    return write


def _fields(said: dict[str, Any], column: str) -> tuple[LakeField, ...]:
    """The fields of composite types when the transaction was prepared."""

    def made(field: dict[str, Any]) -> LakeField:
        return LakeField(**{**field, "fields": tuple(map(made, field["fields"]))})

    return tuple(map(made, said.get("fields", {}).get(column, ())))


def _file(said: dict[str, Any]) -> NewFile:
    known = {field.name: said[field.name] for field in fields(NewFile)}
    known["statistics"] = {int(column): ColumnStatistics(**values) for column, values in said["statistics"].items()}
    known["mapping"] = ()  # a file whose columns are found by name is never pending
    return NewFile(**known)


def _stored(table: LakeTable, rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    writers = [column.form.to_inlined for column in table.columns]
    return [
        [None if value is None else _plain(write(value)) for write, value in zip(writers, row, strict=True)]
        for row in rows
    ]


def _plain(value: Any) -> Any:
    return {"bytes": b64encode(value).decode("ascii")} if isinstance(value, (bytes, bytearray, memoryview)) else value


def _read(table: LakeTable, columns: Mapping[int, LakeField], rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """The stored rows, with the table's present columns."""
    at = {column: place for place, column in enumerate(columns)}
    readers = {
        column.column_id: as_stored(column, columns[column.column_id]).form.from_inlined
        for column in table.columns
        if column.column_id in columns
    }
    converted: list[Sequence[Any]] = []
    for row in rows:
        values: list[Any] = []
        for column in table.columns:
            place = at.get(column.column_id)
            value = None if place is None else row[place]
            if isinstance(value, dict):
                value = b64decode(value["bytes"])
                value = value if column.type == "blob" else value.decode()
            if place is None:
                value = column.missing
            elif value is not None:
                value = readers[column.column_id](value)
            values.append(value)
        converted.append(tuple(values))
    return converted
