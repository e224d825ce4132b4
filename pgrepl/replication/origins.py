"""Replication origins: how far the changes of each source have been applied here (origin.c).

An origin has a name and a number of 16 bits; `remote_lsn` is the end of the last transaction applied from it. An
origin that has applied nothing has no position at all, and no row in pg_replication_origin_status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.facts.roles import is_reserved_name
from pgrepl.catalog.facts.subscription import origin_name
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import delete, insert, one, rows, update
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session, SessionOrigin

_LAST_NUMBER = 0xFFFF - 1


def check_origin_name(name: str) -> None:
    """Raise for a name that a user may not give to an origin."""
    if is_reserved_name(name) or name.lower() in ("none", "any"):
        raise PgError(
            "42939",
            f'replication origin name "{name}" is reserved',
            detail='Origin names "any", "none", and names starting with "pg_" are reserved.',
        )


def origin_or_none(session: Session, name: str) -> tables.pg_replication_origin | None:
    return one(session, tables.pg_replication_origin, roname=name)


def origin_by_name(session: Session, name: str) -> tables.pg_replication_origin:
    row = origin_or_none(session, name)
    if row is None:
        raise PgError("42704", f'replication origin "{name}" does not exist')
    return row


def create_origin(session: Session, name: str) -> int:
    """Create an origin under the lowest free number (replorigin_create)."""
    if origin_or_none(session, name) is not None:
        raise PgError(
            "23505",
            'duplicate key value violates unique constraint "pg_replication_origin_roname_index"',
            detail=f"Key (roname)=({name}) already exists.",
            schema="pg_catalog",
            table="pg_replication_origin",
            constraint="pg_replication_origin_roname_index",
        )
    taken = {row.roident for row in rows(session, tables.pg_replication_origin)}
    number = next((n for n in range(1, _LAST_NUMBER + 1) if n not in taken), None)
    if number is None:
        raise PgError("54000", "could not find free replication origin ID")
    insert(session, tables.pg_replication_origin, roident=number, roname=name, remote_lsn=None, local_lsn=None)
    return number


def drop_origin(session: Session, name: str, *, missing_ok: bool = False) -> None:
    row = origin_or_none(session, name) if missing_ok else origin_by_name(session, name)
    if row is not None:
        if session.origin is not None and session.origin.name == name:
            raise PgError(
                "55006", f"could not drop replication origin with ID {row.roident}, in use by PID {session.pid}"
            )
        delete(session, tables.pg_replication_origin, roident=row.roident)


def advance_origin(session: Session, name: str, lsn: int, local_lsn: int = 0) -> None:
    """Set the position, backwards too (pg_replication_origin_advance). `local_lsn`: the LSN of the commit that sets
    it."""
    row = origin_by_name(session, name)
    _check_room(session, row)
    update(
        session,
        tables.pg_replication_origin,
        {"roident": row.roident},
        remote_lsn=lsn,
        local_lsn=max(row.local_lsn or 0, local_lsn),
    )


def check_room_for_another(session: Session) -> None:
    """Raise if the worker of one more subscription would find no room for its origin, by the setting that limits them.
    PostgreSQL's workers find it out after the copies."""
    expected = {origin_name(row.oid) for row in rows(session, tables.pg_subscription) if row.subenabled}
    origins = rows(session, tables.pg_replication_origin)
    setting, most = _most(session)
    if sum(row.remote_lsn is not None or row.roname in expected for row in origins) >= most:
        raise PgError(
            "53400",
            "could not find free replication state slot for another subscription",
            detail=f"{setting} is {most}: so many subscriptions and other replication origins are there.",
            hint=f'Increase "{setting}" and try again.',
        )


def _most(session: Session) -> tuple[str, int]:
    """What limits origins, and how many may be tracked; 18 has a setting of their own."""
    name = "max_active_replication_origins" if session.settings.release >= 18 else "max_replication_slots"
    return name, int(session.settings.get(name))


def _check_room(session: Session, row: tables.pg_replication_origin) -> None:
    if row.remote_lsn is None:
        tracked = sum(r.remote_lsn is not None for r in rows(session, tables.pg_replication_origin))
        setting, most = _most(session)
        if tracked >= most:
            raise PgError(
                "53400",
                f"could not find free replication state slot for replication origin with ID {row.roident}",
                hint=f'Increase "{setting}" and try again.',
            )


def check_origin_not_in_use(session: Session, name: str) -> None:
    """Raise if this session has set up the origin: its position cannot be set otherwise (replorigin_advance)."""
    origin = session.origin
    if origin is not None and origin.name == name:
        number = origin_by_name(session, name).roident
        raise PgError("55006", f"replication origin with ID {number} is already active for PID {session.pid}")


class _OfSession:
    """The origin that a session has set up (replorigin_session_setup): its commits move the position forward."""

    def __init__(self, number: int, name: str) -> None:
        self._number = number
        self.name = name
        self.remote_lsn = 0

    def advance(self, session: Session) -> None:
        """Move the position forward, in the transaction that commits (replorigin_session_advance)."""
        row = one(session, tables.pg_replication_origin, roident=self._number)
        if row is None:  # another session has dropped it
            return
        update(
            session,
            tables.pg_replication_origin,
            {"roident": self._number},
            remote_lsn=max(row.remote_lsn or 0, self.remote_lsn),
            local_lsn=max(row.local_lsn or 0, session.transaction.numbering.last_snapshot() + 1),
        )


def session_origin(session: Session, name: str) -> SessionOrigin:
    """Set up an origin for a session; it has a position from then on."""
    row = origin_by_name(session, name)
    if row.remote_lsn is None:
        advance_origin(session, name, 0)
    return _OfSession(row.roident, name)


def origin_progress(session: Session, name: str) -> int | None:
    """The position, None where there is none."""
    return origin_by_name(session, name).remote_lsn or None
