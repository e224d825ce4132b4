"""Snapshots that a transaction lets others use, in the file of the lock table (ExportSnapshot, ImportSnapshot).

A snapshot is a number. A transaction that imports it reads tables and definitions as of that number; what is not
versioned, such as roles, it sees as of its own start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import processes
from pgrepl.catalog.transaction import is_read_only
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def export_snapshot(session: Session, snapshot: int) -> str:
    """Let others use a snapshot until the transaction ends; returns its name. The caller keeps its files."""
    transaction = session.transaction
    link = transaction.locks.require("pg_export_snapshot()").open()
    serializable = session.settings.get("transaction_isolation") == "serializable"
    number = link.execute(
        "INSERT INTO snapshot (lsn, database, pid, host, token, beat, serializable, read_only)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            snapshot, session.database_oid, session.pid, processes.machine(), transaction.locks.token, processes.now(),
            serializable, is_read_only(session),
        ),
    ).lastrowid  # fmt: skip
    name = f"{session.pid:08X}-{number:08X}-{len(transaction.exported) + 1}"
    link.execute("UPDATE snapshot SET name = ? WHERE id = ?", (name, number))
    transaction.exported.append(name)

    def forget() -> None:
        transaction.exported.clear()
        link.execute("DELETE FROM snapshot WHERE id = ?", (number,))

    transaction.callbacks.append(forget)
    transaction.undo.append(forget)
    return name


def import_snapshot(session: Session, name: str) -> None:
    """Have the transaction, which has read nothing yet, read another one's snapshot."""
    transaction = session.transaction
    locks = transaction.locks
    found = None
    if locks.possible and locks.table.exists():
        columns = "lsn, database, serializable, read_only, pid, host, token, beat"
        found = locks.table.open().execute(f"SELECT {columns} FROM snapshot WHERE name = ?", (name,)).fetchone()
    if found is None:
        raise PgError("42704", f'snapshot "{name}" does not exist')
    snapshot, database, serializable, read_only, *process = found
    if session.settings.get("transaction_isolation") == "serializable":
        if not serializable:
            raise PgError(
                "0A000", "a serializable transaction cannot import a snapshot from a non-serializable transaction"
            )
        if read_only and not is_read_only(session):
            raise PgError(
                "0A000",
                "a non-read-only serializable transaction cannot import a snapshot from a read-only transaction",
            )
    if database != session.database_oid:
        raise PgError("0A000", "cannot import a snapshot from a different database")
    if not processes.holds(*process):
        raise PgError(
            "55000",
            "could not import the requested snapshot",
            detail=f"The source process with PID {process[0]} is not running anymore.",
        )
    transaction.snapshot_taken = True
    numbering = transaction.numbering
    if numbering.committed_snapshot() == snapshot:
        return
    if not transaction.has_definitions_of(snapshot):
        session.look_at(snapshot)
    numbering.imported = snapshot

    def forget() -> None:
        numbering.imported = None
        session.look_at(None)

    transaction.callbacks.append(forget)
    transaction.undo.append(forget)


__all__ = ["export_snapshot", "import_snapshot"]
