"""`pgrepl conflicts list | retry | discard`: the conflicts that a subscription with conflict_log keeps."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pgrepl.catalog import tables
from pgrepl.catalog.roles import has_privs_of_role, is_superuser
from pgrepl.catalog.store import one, rows, update
from pgrepl.catalog.transaction import reading, statement
from pgrepl.errors import PgError
from pgrepl.replication.subscriber.conflicts import (
    DISCARDED,
    DISCARDING,
    MENDING,
    NOTED,
    RETRIED,
    SKIPPED,
    STOPPED,
)
from pgrepl.shell.show_table import write_table
from pgrepl.shell.subcommand import OK, connecting, connection, many, run
from pgrepl.sql.quote import quote_identifier, quote_qualified
from pgrepl.types import oids
from pgrepl.types.json import jsonb_tree, sorted_object, to_jsonb
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pgrepl_conflict
    from pgrepl.shell.connection import Connection

_OPEN = (STOPPED, MENDING, DISCARDING, SKIPPED)
_IDS = click.argument("ids", nargs=-1, required=True, type=int, metavar="ID…")


@click.group("conflicts")
def conflicts_group() -> None:
    """Look at the conflicts of subscriptions, and decide what becomes of rejected changes.

    A subscription made or altered WITH (conflict_log = on) keeps its conflicts, and the changes of transactions that
    ALTER SUBSCRIPTION … SKIP has skipped. The view pgrepl_conflicts shows them, too.

    \b
    pgrepl conflicts list -d reports             what waits for a decision
    pgrepl conflicts retry 7 -d reports          once more, as nothing is in its way now
    pgrepl conflicts retry 7 --set name=other    another row in its place
    pgrepl conflicts discard 7 -d reports        leave it out, and go on
    """


@conflicts_group.command("list", short_help="what was in conflict")
@click.argument("subscription", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="also those that wait for nothing")
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@connecting
def list_command(
    subscription: tuple[str, ...], everything: bool, as_json: bool, catalog: str, dbname: str, username: str
) -> int:
    """List the conflicts of SUBSCRIPTIONs (default: all of the database) that wait for a decision: those that have
    stopped a subscription, and skipped changes. With --all also those that are over."""
    with connection(catalog, dbname, username) as opened, reading(opened.session):
        found = [
            (each.subname, row)
            for each in _subscriptions(opened.session, subscription)
            for row in sorted(rows(opened.session, tables.pgrepl_conflict, subid=each.oid), key=lambda row: row.id)
            if everything or row.state in _OPEN
        ]
    if as_json:
        sys.stdout.write(json.dumps([_facts(name, row) for name, row in found], ensure_ascii=False) + "\n")
        return OK
    if not found:
        click.echo("no conflicts")
        return OK
    headers = ("ID", "Subscription", "LSN", "Table", "Conflict", "State", "Key", "Local row", "Remote row")
    write_table(sys.stdout, "Conflicts", headers, [_cells(name, row) for name, row in found])
    return OK


def _cells(name: str, row: pgrepl_conflict) -> tuple[str, ...]:
    what = f"{row.operation} {row.kind}" if row.kind == SKIPPED else row.kind
    shown = (row.key, row.local_row, row.mended_row or row.remote_row)
    table = f"{row.schemaname}.{row.relname}"
    return (str(row.id), name, lsn_text(row.finish_lsn), table, what, row.state, *(each or "" for each in shown))


def _facts(name: str, row: pgrepl_conflict) -> dict[str, Any]:
    plain = {
        column: getattr(row, column) for column in ("id", "happened", "xid", "operation", "kind", "state", "detail")
    }
    trees = {
        column: None if getattr(row, column) is None else json.loads(getattr(row, column))
        for column in ("key", "local_row", "remote_row", "mended_row")
    }
    where = {"subscription": name, "lsn": lsn_text(row.finish_lsn), "table": f"{row.schemaname}.{row.relname}"}
    return {**plain, **where, **trees, "origin": row.origin}


def _subscriptions(session: Session, names: Sequence[str]) -> list[tables.pg_subscription]:
    """The subscriptions of the database with these names, or all whose rows the role may see."""
    here = sorted(rows(session, tables.pg_subscription, subdbid=session.database_oid), key=lambda each: each.subname)
    for name in names:
        if name not in {each.subname for each in here}:
            raise PgError("42704", f'subscription "{name}" does not exist')
    return [each for each in here if _may(session, each) and (not names or each.subname in names)]


def _may(session: Session, subscription: tables.pg_subscription) -> bool:
    return is_superuser(session) or has_privs_of_role(session, session.role, subscription.subowner)


def _conflict(session: Session, number: int) -> tuple[tables.pg_subscription, pgrepl_conflict]:
    """A conflict that waits for a decision."""
    row = one(session, tables.pgrepl_conflict, id=number)
    found = None if row is None else one(session, tables.pg_subscription, oid=row.subid)
    if row is None or found is None or found.subdbid != session.database_oid:
        raise PgError("42704", f"conflict {number} does not exist")
    if not _may(session, found):
        raise PgError("42501", f"must be owner of subscription {found.subname}")
    if row.state not in _OPEN:
        detail = "Its change was applied, or there was nothing to apply it to." if row.state == NOTED else None
        raise PgError("55000", f"conflict {number} waits for nothing: it is {row.state}", detail=detail)
    return found, row


# --- retry ------------------------------------------------------------------------------------------------------------


@conflicts_group.command("retry", short_help="apply a rejected change once more")
@_IDS
@click.option("--set", "values", metavar="COLUMN=VALUE", multiple=True, help="another value for a column")
@click.option("--set-null", "nulls", metavar="COLUMN", multiple=True, help="NULL for a column")
@connecting
def retry_command(
    ids: tuple[int, ...], values: tuple[str, ...], nulls: tuple[str, ...], catalog: str, dbname: str, username: str
) -> int:
    """Apply rejected changes once more, in the order given.

    One that has stopped its subscription is applied by it, in its transaction, with all that waits behind it, as
    `pgrepl apply` does. A skipped change is applied at once, as a statement of yours: its row is found by its key. With
    --set another row takes the place of the one that was sent.

    Exits with 0; with 1 if one cannot be applied: then those before it are.
    """
    changed = dict(_pair(each) for each in values) | dict.fromkeys(nulls)
    stopped: dict[str, None] = {}
    with connection(catalog, dbname, username) as opened:
        session = opened.session
        for number in ids:
            with reading(session):
                subscription, row = _conflict(session, number)
            mended = _mended(row, changed) if changed else row.mended_row
            if row.state == SKIPPED:
                _play(opened, row, mended)
                click.echo(f"conflict {number}: applied")
                continue
            state = STOPPED if mended is None else MENDING
            _set(session, number, state=state, mended_row=mended)
            stopped[subscription.subname] = None
    return _apply(stopped, catalog, dbname, username)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f'"{text}" is not COLUMN=VALUE', param_hint="--set")
    return name, value


def _mended(row: pgrepl_conflict, changed: dict[str, str | None]) -> str:
    if row.remote_row is None:
        raise PgError("22023", f"conflict {row.id} has no row to change")
    tree = jsonb_tree(row.mended_row or row.remote_row)
    for name in changed:
        if name not in tree:
            raise PgError("42703", f'column "{name}" of relation "{row.relname}" was not sent')
    return str(to_jsonb(sorted_object({**tree, **changed})))


def _play(opened: Connection, row: pgrepl_conflict, mended: str | None) -> None:
    """Apply a skipped change, and note that, in one transaction."""
    text, given = _statement(row, mended or row.remote_row)
    _run(opened, "BEGIN")
    try:
        count = _run(opened, text, *given)
        if not count:
            done = {"update": "updated", "delete": "deleted"}.get(row.operation, "inserted")
            raise PgError("P0002", f"conflict {row.id}: could not find the row to be {done}")
        _set(opened.session, row.id, state=RETRIED, mended_row=mended)
    except PgError:
        _run(opened, "ROLLBACK")
        raise
    _run(opened, "COMMIT")


def _run(opened: Connection, text: str, *values: str) -> int:
    """Run a statement; the number of rows that it has changed."""
    (result,) = opened.run(text, [(oids.JSONB, value) for value in values])
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
    found = " AND ".join(
        f"old.{name} IS NOT DISTINCT FROM sought.{name}" for name in map(quote_identifier, jsonb_tree(row.key))
    )
    if row.operation == "delete":
        return f"DELETE FROM {table} old USING {record.format(1)} sought WHERE {found}", [row.key]
    sets = ", ".join(f"{name} = sent.{name}" for name in columns)
    source = f"{record.format(1)} sent, {record.format(2)} sought"
    return f"UPDATE {table} old SET {sets} FROM {source} WHERE {found}", [remote or "{}", row.key]


def _set(session: Session, number: int, **values: Any) -> None:
    with statement(session, writes=True):
        session.transaction.require_write()
        update(session, tables.pgrepl_conflict, {"id": number}, **values)


def _apply(names: dict[str, None], catalog: str, dbname: str, username: str) -> int:
    """Go on with subscriptions that were stopped."""
    from pgrepl.shell.applying import apply

    if not names:
        return OK
    return apply([*names, "--catalog", catalog, "--dbname", dbname, "--username", username])


# --- discard ----------------------------------------------------------------------------------------------------------


@conflicts_group.command("discard", short_help="leave a rejected change out")
@_IDS
@connecting
def discard_command(ids: tuple[int, ...], catalog: str, dbname: str, username: str) -> int:
    """Leave rejected changes out. A subscription that one has stopped goes on without it, and applies the other changes
    of its transaction; a skipped change is only forgotten."""
    stopped: dict[str, None] = {}
    with connection(catalog, dbname, username) as opened:
        for number in ids:
            with reading(opened.session):
                subscription, row = _conflict(opened.session, number)
            if row.state == SKIPPED:
                _set(opened.session, number, state=DISCARDED)
            else:
                _set(opened.session, number, state=DISCARDING, mended_row=None)
                stopped[subscription.subname] = None
    click.echo(f"discarded {many(len(ids), 'conflict')}")
    return _apply(stopped, catalog, dbname, username)


def conflicts(arguments: Sequence[str]) -> int:
    return run(conflicts_group, arguments)
