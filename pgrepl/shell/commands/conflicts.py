"""`pgrepl conflicts list | retry | discard`: the conflicts that a subscription with conflict_log keeps."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pgrepl.replication.subscriber.decisions import discard, kept_conflicts, retry
from pgrepl.shell.commands.applying import apply
from pgrepl.shell.commands.subcommand import OK, connecting, connection, many, run, write_table
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.decisions import Kept

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
    with connection(catalog, dbname, username) as opened:
        found = kept_conflicts(opened.session, subscription, everything=everything)
    if as_json:
        sys.stdout.write(json.dumps([_facts(each) for each in found], ensure_ascii=False) + "\n")
        return OK
    if not found:
        click.echo("no conflicts")
        return OK
    headers = ("ID", "Subscription", "LSN", "Table", "Conflict", "State", "Key", "Local row", "Remote row")
    write_table(sys.stdout, "Conflicts", headers, [_cells(each) for each in found])
    return OK


def _cells(kept: Kept) -> tuple[str, ...]:
    name, row = kept
    what = f"{row.operation} {row.kind}" if row.kind == "skipped" else row.kind
    shown = (row.key, row.local_row, row.mended_row or row.remote_row)
    table = f"{row.schemaname}.{row.relname}"
    return (str(row.id), name, lsn_text(row.finish_lsn), table, what, row.state, *(each or "" for each in shown))


def _facts(kept: Kept) -> dict[str, Any]:
    name, row = kept
    plain = {
        column: getattr(row, column) for column in ("id", "happened", "xid", "operation", "kind", "state", "detail")
    }
    trees = {
        column: None if getattr(row, column) is None else json.loads(getattr(row, column))
        for column in ("key", "local_row", "remote_row", "mended_row")
    }
    where = {"subscription": name, "lsn": lsn_text(row.finish_lsn), "table": f"{row.schemaname}.{row.relname}"}
    return {**plain, **where, **trees, "origin": row.origin}


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
        for number in ids:
            name = retry(opened.session, number, changed, opened.run)
            if name is None:
                click.echo(f"conflict {number}: applied")
            else:
                stopped[name] = None
    return _apply(stopped, catalog, dbname, username)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f'"{text}" is not COLUMN=VALUE', param_hint="--set")
    return name, value


def _apply(names: dict[str, None], catalog: str, dbname: str, username: str) -> int:
    """Go on with subscriptions that were stopped."""
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
            name = discard(opened.session, number)
            if name is not None:
                stopped[name] = None
    click.echo(f"discarded {many(len(ids), 'conflict')}")
    return _apply(stopped, catalog, dbname, username)


def conflicts(arguments: Sequence[str]) -> int:
    return run(conflicts_group, arguments)
