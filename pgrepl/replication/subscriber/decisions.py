"""What the user decides about kept conflicts: which wait for that, and how a rejected change is played again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.session.transaction import reading, statement
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows, update
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.conflicts import DISCARDED, DISCARDING, MENDING, NOTED, RETRIED, SKIPPED, STOPPED
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.types import oids
from pgrepl.types.json import jsonb_tree, sorted_object, to_jsonb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pgrepl.catalog.session.session import Parameter, Session
    from pgrepl.catalog.store.tables import pgrepl_conflict
    from pgrepl.query.result import Result

    Kept = tuple[str, pgrepl_conflict]  # the subscription's name, and the conflict
    Run = Callable[[str, Sequence[Parameter]], Iterable[Result]]

_OPEN = (STOPPED, MENDING, DISCARDING, SKIPPED)


def kept_conflicts(session: Session, names: Sequence[str], *, everything: bool) -> list[Kept]:
    """The conflicts of subscriptions (default: all of the database) by their names: those that wait for a decision, or
    all."""
    with reading(session):
        return [
            (subscription.subname, row)
            for subscription in _subscriptions(session, names)
            for row in sorted(rows(session, tables.pgrepl_conflict, subid=subscription.oid), key=lambda row: row.id)
            if everything or row.state in _OPEN
        ]


def _subscriptions(session: Session, names: Sequence[str]) -> list[tables.pg_subscription]:
    """The subscriptions of the database with these names, or all whose rows the role may see."""
    here = sorted(rows(session, tables.pg_subscription, subdbid=session.database_oid), key=lambda row: row.subname)
    for name in names:
        if name not in {row.subname for row in here}:
            raise PgError("42704", f'subscription "{name}" does not exist')
    return [row for row in here if _may(session, row) and (not names or row.subname in names)]


def _may(session: Session, subscription: tables.pg_subscription) -> bool:
    return is_superuser(session) or has_privs_of_role(session, session.role, subscription.subowner)


def _conflict(session: Session, number: int) -> tuple[tables.pg_subscription, pgrepl_conflict]:
    """A conflict that waits for a decision."""
    row = one(session, tables.pgrepl_conflict, id=number)
    subscription = None if row is None else one(session, tables.pg_subscription, oid=row.subid)
    if row is None or subscription is None or subscription.subdbid != session.database_oid:
        raise PgError("42704", f"conflict {number} does not exist")
    if not _may(session, subscription):
        raise PgError("42501", f"must be owner of subscription {subscription.subname}")
    if row.state not in _OPEN:
        detail = "Its change was applied, or there was nothing to apply it to." if row.state == NOTED else None
        raise PgError("55000", f"conflict {number} waits for nothing: it is {row.state}", detail=detail)
    return subscription, row


def retry(session: Session, number: int, changed: Mapping[str, str | None], run: Run) -> str | None:
    """Apply a rejected change once more, with other values of some columns: a skipped one at once. Returns the name of
    the subscription that the change has stopped, and which is to go on. `run`: runs a statement."""
    with reading(session):
        subscription, row = _conflict(session, number)
    mended = _mended(row, changed) if changed else row.mended_row
    if row.state == SKIPPED:
        _play(session, row, mended, run)
        return None
    _set(session, number, state=STOPPED if mended is None else MENDING, mended_row=mended)
    return subscription.subname


def discard(session: Session, number: int) -> str | None:
    """Leave a rejected change out. Returns the name of the subscription that the change has stopped."""
    with reading(session):
        subscription, row = _conflict(session, number)
    if row.state == SKIPPED:
        _set(session, number, state=DISCARDED)
        return None
    _set(session, number, state=DISCARDING, mended_row=None)
    return subscription.subname


def _mended(row: pgrepl_conflict, changed: Mapping[str, str | None]) -> str:
    if row.remote_row is None:
        raise PgError("22023", f"conflict {row.id} has no row to change")
    tree = jsonb_tree(row.mended_row or row.remote_row)
    for name in changed:
        if name not in tree:
            raise PgError("42703", f'column "{name}" of relation "{row.relname}" was not sent')
    return str(to_jsonb(sorted_object({**tree, **changed})))


def _play(session: Session, row: pgrepl_conflict, mended: str | None, run: Run) -> None:
    """Apply a skipped change, and note that, in one transaction."""
    text, given = _statement(row, mended or row.remote_row)
    _run(run, "BEGIN")
    try:
        count = _run(run, text, *given)
        if not count:
            done = {"update": "updated", "delete": "deleted"}.get(row.operation, "inserted")
            raise PgError("P0002", f"conflict {row.id}: could not find the row to be {done}")
        _set(session, row.id, state=RETRIED, mended_row=mended)
    except PgError:
        _run(run, "ROLLBACK")
        raise
    _run(run, "COMMIT")


def _run(run: Run, text: str, *values: str) -> int:
    """Run a statement; the number of rows that it has changed."""
    (result,) = run(text, [(oids.JSONB, value) for value in values])
    tail = (result.tag or "").rpartition(" ")[2]
    return int(tail) if tail.isdigit() else 0


def _statement(row: pgrepl_conflict, remote: str | None) -> tuple[str, list[str]]:
    table = quote_qualified(row.schemaname, row.relname)
    columns = [] if remote is None else [quote_identifier(name) for name in jsonb_tree(remote)]
    record = f"jsonb_populate_record(NULL::{table}, ${{}}::jsonb)"
    if row.operation == "insert":
        named = ", ".join(columns)
        text = f"INSERT INTO {table} ({named}) OVERRIDING SYSTEM VALUE SELECT {named} FROM {record.format(1)}"
        return text, [remote or "{}"]
    assert row.key is not None
    condition = " AND ".join(
        f"old.{name} IS NOT DISTINCT FROM sought.{name}" for name in map(quote_identifier, jsonb_tree(row.key))
    )
    if row.operation == "delete":
        return f"DELETE FROM {table} old USING {record.format(1)} sought WHERE {condition}", [row.key]
    sets = ", ".join(f"{name} = sent.{name}" for name in columns)
    source = f"{record.format(1)} sent, {record.format(2)} sought"
    return f"UPDATE {table} old SET {sets} FROM {source} WHERE {condition}", [remote or "{}", row.key]


def _set(session: Session, number: int, **values: Any) -> None:
    with statement(session, writes=True):
        session.transaction.require_write()
        update(session, tables.pgrepl_conflict, {"id": number}, **values)
