"""Synchronous replication (syncrep.c): a commit waits until the standbys of synchronous_standby_names have it.

A standby is a subscriber, by the application_name of its walsender, which enters in the catalog how far it is:

    synchronous_commit    waits for     the transaction is
    remote_write          write_lsn     received
    on                    flush_lsn     on disk there
    remote_apply          replay_lsn    visible there

The transaction is committed, and its locks are free, when its session begins to wait.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.session.context import CatalogSession
from pgrepl.catalog.session.parameters import Standbys, parse_standbys
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.tables import pgrepl_setting, pgrepl_walsender
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pgrepl.catalog.session.settings import Settings

SETTING = "synchronous_standby_names"
_POSITIONS = {"remote_write": "write_lsn", "on": "flush_lsn", "remote_apply": "replay_lsn"}
_SHORTEST, _LONGEST = 0.001, 0.02  # seconds between two looks at the standbys
_CANCELED = "canceling wait for synchronous replication due to user request"
_TERMINATED = "canceling the wait for synchronous replication and terminating connection due to administrator command"
_LOCALLY = "The transaction has already committed locally, but might not have been replicated to the standby."


class Committing(CatalogSession, Protocol):
    on_wait: Callable[[str | None], None] | None

    @property
    def settings(self) -> Settings: ...

    def report(self, report: Report) -> None: ...


def waited_position(session: Committing, *, commit: bool = True) -> str | None:
    """The position of standbys that a transaction of this session waits for; None: it waits for none
    (SyncRepWaitForLSN). `commit`: it is no PREPARE TRANSACTION, which nobody sees."""
    settings = session.settings
    if not settings.get(SETTING) or not settings.value("max_wal_senders"):
        return None
    position = _POSITIONS.get(settings.get("synchronous_commit"))
    return position if commit or position != _POSITIONS["remote_apply"] else _POSITIONS["on"]


def wait_for_standbys(session: Committing, position: str, lsn: int) -> None:
    """Wait until the standbys have everything before an LSN, or until the wait is canceled. Interrupts are held."""
    pause, seen = _SHORTEST, -1
    session.transaction.end_reading()
    interrupts.end()  # no timeout of the statement ends it any more
    if session.on_wait is not None:
        session.on_wait("SyncRep")
    try:
        while not session.link.gives_up:
            if (interrupt := interrupts.withdraw()) is not None and _is_canceled(session, interrupt):
                return
            version = session.link.version()
            if version != seen:
                seen, pause = version, _SHORTEST
                standbys = parse_standbys(names_now(session))  # ALTER SYSTEM ends a wait, or changes for whom it is
                done = standbys is None or _reached(standbys, walsenders(session), position, lsn)
                session.transaction.end_reading()  # or the version would stay
                if done:
                    return
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
    finally:
        if session.on_wait is not None:
            session.on_wait(None)


def _is_canceled(session: Committing, interrupt: PgError) -> bool:
    """Whether the interrupt ends the wait; a timeout does not. The end of the session comes after it."""
    ends = interrupt.sqlstate == "57P01"
    if not ends and interrupt.message != interrupts.user_request().message:
        return False
    told = ("57P01", _TERMINATED) if ends else ("01000", _CANCELED)
    session.report(Report("WARNING", *told, detail=_LOCALLY))
    if ends:
        interrupts.restore(interrupt)
    return True


def names_now(session: Committing) -> str:
    """The setting as it is for a session that reads its settings again."""
    settings = session.settings
    if settings.source(SETTING) not in ("default", "configuration file"):
        return settings.get(SETTING)
    row = one(session, pgrepl_setting, name=SETTING)
    return "" if row is None else str(row.value)


def walsenders(session: CatalogSession) -> list[pgrepl_walsender]:
    """The active walsenders."""
    return [row for row in rows(session, pgrepl_walsender) if lock_file.is_at_work(row)]


def _candidates(standbys: Standbys, senders: Iterable[pgrepl_walsender]) -> list[tuple[int, pgrepl_walsender]]:
    """The walsenders that commits wait for, with their priorities (SyncRepGetCandidateStandbys)."""
    candidates = [(standbys.priority(row.application_name), row) for row in senders]
    able = [(place, row) for place, row in candidates if place and row.state == "streaming" and row.flush_lsn]
    if standbys.is_quorum:
        return able
    return sorted(able, key=lambda candidate: (candidate[0], candidate[1].backend_start))[: standbys.count]


def _reached(standbys: Standbys, senders: Iterable[pgrepl_walsender], position: str, lsn: int) -> bool:
    """Whether enough of them have everything before an LSN (SyncRepGetSyncRecPtr)."""
    having = [row for _, row in _candidates(standbys, senders) if (getattr(row, position) or 0) >= lsn]
    return len(having) >= standbys.count


def states(session: Committing, senders: Sequence[pgrepl_walsender]) -> list[tuple[int, str]]:
    """The sync_priority and sync_state of each (pg_stat_get_wal_senders)."""
    standbys = parse_standbys(session.settings.get(SETTING))
    if standbys is None:
        return [(0, "async")] * len(senders)
    chosen = {row.slot_name for _, row in _candidates(standbys, senders)}
    sync = "quorum" if standbys.is_quorum else "sync"
    shown = []
    for row in senders:
        priority = standbys.priority(row.application_name) if row.flush_lsn else 0
        shown.append((priority, "async" if not priority else sync if row.slot_name in chosen else "potential"))
    return shown
