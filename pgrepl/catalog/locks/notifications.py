"""LISTEN, NOTIFY and UNLISTEN (async.c), and exported snapshots.

Transactions that notify commit one after the other, so that listeners hear them in that order. An exported snapshot
is a number; what is not versioned, such as roles, an importer sees as of its own start.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.locks.lock_table import EXCLUSIVE, LockKind, LockRequest
from pgrepl.catalog.locks.notification_queue import PAGE, Notification, NotificationQueue, entry_size
from pgrepl.catalog.session.transaction import is_read_only
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_NAME_BYTES = 64
_PAYLOAD_BYTES = 8000
_WARNING_INTERVAL = 5.0  # seconds (QUEUE_FULL_WARN_INTERVAL)


class Notifications:
    """The channels of a session, and what its transaction does to them and is going to tell."""

    def __init__(self, session: Session) -> None:
        self._session = session
        table = session.transaction.locks.require("a notification")
        self._queue = NotificationQueue(table, session.database_oid)
        self._warned: float | None = None  # when the session was last told that the queue is half full
        self.channels: dict[str, None] = {}
        self._actions: list[tuple[bool, str | None]] = []  # listens?, and the channel; None: all
        self._messages: dict[tuple[str, str], None] = {}  # channel and payload

    # --- in a transaction -------------------------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        return bool(self._actions or self._messages)

    def listen(self, channel: str) -> None:
        self._note_action(True, channel)

    def unlisten(self, channel: str | None) -> None:
        """Stop listening to a channel, or to all."""
        if self.channels or self._actions:
            self._note_action(False, channel)

    def _note_action(self, listens: bool, channel: str | None) -> None:
        self._undo_with_savepoint()
        self._actions.append((listens, channel))

    def notify(self, channel: str, payload: str) -> None:
        """As Async_Notify: a message that the transaction has already is told once."""
        if not channel:
            raise PgError("22023", "channel name cannot be empty")
        if len(channel.encode()) >= _NAME_BYTES:
            raise PgError("22023", "channel name too long")
        if len(payload.encode()) >= _PAYLOAD_BYTES:
            raise PgError("22023", "payload string too long")
        if (channel, payload) not in self._messages:
            self._undo_with_savepoint()
            self._messages[channel, payload] = None

    def _undo_with_savepoint(self) -> None:
        """Have the next action or message forgotten when what runs now is undone."""
        actions, messages = len(self._actions), len(self._messages)

        def undo() -> None:
            del self._actions[actions:]
            while len(self._messages) > messages:
                self._messages.popitem()

        self._session.transaction.undo.append(undo)

    # --- its end ----------------------------------------------------------------------------------------------------

    def before_commit(self) -> None:
        """As PreCommit_Notify: whatever can fail is done here."""
        session = self._session
        if self._queue.listener is None and any(listens for listens, _ in self._actions):
            self._queue.listen(session.pid, session.transaction.locks.token, signalled=session.is_woken_by_signal)
        if self._messages and self._queue.has_listeners():
            session.transaction.locks.take([LockRequest(LockKind.NOTIFY, session.database_oid, 0, EXCLUSIVE)])
            most = int(session.settings.value("max_notify_queue_pages")) * PAGE
            used = self._queue.used(most // 2)
            if used + sum(entry_size(*message) for message in self._messages) > most:
                raise PgError("54000", "too many notifications in the NOTIFY queue")
            if used * 2 >= most:
                self._warn(used / most)

    def _warn(self, share: float) -> None:
        """As asyncQueueFillWarning, every few seconds."""
        now = monotonic()
        if self._warned is not None and now - self._warned < _WARNING_INTERVAL:
            return
        self._warned = now
        behind = self._queue.furthest_behind()  # there is one, or the queue would be empty
        self._session.notice(
            "WARNING",
            f"NOTIFY queue is {share * 100:.0f}% full",
            detail=f"The server process with PID {behind} is among those with the oldest transactions.",
            hint="The NOTIFY queue cannot be emptied until that process ends its current transaction.",
        )

    def committed(self) -> None:
        """As AtCommit_Notify, before the transaction's locks are released."""
        for listens, channel in self._actions:
            if channel is None:
                self.channels.clear()
            elif listens:
                self.channels.setdefault(channel)
            else:
                self.channels.pop(channel, None)
        try:
            if self._messages and self._queue.has_listeners():
                self._queue.publish(self._messages, self._session.pid)
        except PgError as problem:  # the transaction has committed: no disk space for the queue does not change that
            self._session.notice("WARNING", f"could not notify: {problem}")

    def end(self) -> None:
        """The transaction is over, whether it has committed or not."""
        self._actions.clear()
        self._messages.clear()
        if not self.channels:
            self._queue.leave()

    def close(self) -> None:
        self.channels.clear()
        self.end()

    # --- between transactions ---------------------------------------------------------------------------------------

    def take(self) -> list[Notification]:
        """The notifications to give to the client now: those that it has not been given yet, none in a transaction."""
        return self._queue.take(self.channels) if self.channels and not self._session.in_block else []

    def queue_usage(self) -> float:
        """The share of the queue that is occupied, by pages (asyncQueueUsage)."""
        pages = int(self._session.settings.value("max_notify_queue_pages"))
        return self._queue.used(0) // PAGE / pages


def notifications(session: Session) -> Notifications:
    """The session's notifications, with which it begins now if it has had none."""
    transaction = session.transaction
    if transaction.notifications is None:
        transaction.notifications = Notifications(session)
    assert isinstance(transaction.notifications, Notifications)
    return transaction.notifications


# --- exported snapshots -----------------------------------------------------------------------------------------------


def export_snapshot(session: Session, snapshot: int) -> str:
    """Let others use a snapshot until the transaction ends; returns its name. The caller keeps its files."""
    transaction = session.transaction
    link = transaction.locks.require("pg_export_snapshot()").open()
    serializable = session.settings.get("transaction_isolation") == "serializable"
    number = link.execute(
        "INSERT INTO snapshot (lsn, database, pid, host, token, beat, serializable, read_only)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            snapshot, session.database_oid, session.pid, lock_file.machine(), transaction.locks.token, lock_file.now(),
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
    row = None
    if locks.possible and locks.table.exists():
        columns = "lsn, database, serializable, read_only, pid, host, token, beat"
        row = locks.table.open().execute(f"SELECT {columns} FROM snapshot WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise PgError("42704", f'snapshot "{name}" does not exist')
    snapshot, database, serializable, read_only, *process = row
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
    if not lock_file.holds(*process):
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
