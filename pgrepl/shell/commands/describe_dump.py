"""`pgrepl describe` and `pgrepl dump`: the objects of a catalog as tables, as JSON and as a script."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from pgrepl.catalog.facts.objects import comment_on
from pgrepl.catalog.facts.publication import publication_name, relation_publications
from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.relation_parts import constraints_of, indexes
from pgrepl.catalog.facts.roles import is_superuser, role_display
from pgrepl.catalog.facts.subscription import (
    SubscribedTable,
    SubscriptionFacts,
    subscribed_sequences,
    subscribed_tables,
    subscription_facts,
)
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.system import PG_CLASS
from pgrepl.expr.catalog_trees import default_text
from pgrepl.expr.print.definitions import (
    constraint_definition,
    index_definition,
    partition_bound_text,
    partition_key_definition,
)
from pgrepl.ground.errors import PgError
from pgrepl.shell import describe as describing
from pgrepl.shell.commands.subcommand import FAILURE, OK, connecting, connection, is_only_with
from pgrepl.shell.describe.listing import BadPattern, NamePattern, matching_relations, parse_pattern
from pgrepl.shell.describe.publications import matching_publications
from pgrepl.shell.describe.relation import KINDS as RELATION_KINDS
from pgrepl.shell.describe.relation import type_of
from pgrepl.shell.shell import Shell
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.shell.connection import Connection


IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
STATES = {"i": "initialize", "d": "data copy", "f": "finished copy", "s": "synchronized", "r": "ready"}


def publications(session: Session, pattern: NamePattern | None) -> list[dict[str, Any]]:
    from pgrepl.api.replication import publication_of

    return [publication_of(session, publication).as_json() for publication in matching_publications(session, pattern)]


def subscriptions(session: Session, pattern: NamePattern | None) -> list[dict[str, Any]]:
    every = subscription_facts(session)
    return [_subscription(session, facts) for facts in every if pattern is None or pattern.name.matches(facts.name)]


def _state(kind: str, subscribed: SubscribedTable) -> dict[str, Any]:
    return {
        kind: subscribed.table.qualified_name,
        "state": STATES[subscribed.state],
        "lsn": None if subscribed.lsn is None else lsn_text(subscribed.lsn),
    }


_ALWAYS = (
    "slot", "origin", "failover", "disable_on_error", "run_as_owner", "password_required", "synchronous_commit",
)  # fmt: skip
_IF_SET = ("schema_changes", "conflict_log", "retain_dead_tuples", "max_retention_duration")


def _subscription(session: Session, subscription: SubscriptionFacts) -> dict[str, Any]:
    listed = [_state("table", subscribed) for subscribed in subscribed_tables(session, subscription.oid)]
    data = {
        "name": subscription.name,
        "owner": role_display(session, subscription.owner),
        "enabled": subscription.enabled,
        "publications": list(subscription.publications),
        **{name: getattr(subscription, name) for name in _ALWAYS},
        "skip_lsn": lsn_text(subscription.skip_lsn),
        "tables": sorted(listed, key=lambda t: str(t["table"])),
    }
    data |= {name: value for name in _IF_SET if (value := getattr(subscription, name)) not in (False, 0, "none")}
    if subscription.sequences:
        data["follows_sequences"] = True
    sequences = subscribed_sequences(session, subscription.oid)
    if sequences:
        named = [_state("sequence", subscribed) for subscribed in sequences]
        data["sequences"] = sorted(named, key=lambda state: str(state["sequence"]))
    if subscription.history != "none":
        data["history"] = subscription.history
    if is_superuser(session):  # as \dRs+: only superusers see the connection string
        data["conninfo"] = subscription.conninfo
    if subscription.server is not None:
        data["server"] = subscription.server
    return data


def tables(session: Session, pattern: NamePattern | None) -> list[dict[str, Any]]:
    hidden = ("pg_catalog", "information_schema") if pattern is None else ()
    return [
        {
            "schema": r.schema,
            "name": r.name,
            "type": RELATION_KINDS[r.kind],
            "owner": role_display(session, r.owner),
            "description": comment_on(session, PG_CLASS, r.oid),
        }
        for r in matching_relations(session, pattern, "rp")
        if r.schema not in hidden
    ]


def table(session: Session, pattern: NamePattern) -> list[dict[str, Any]]:
    relations = matching_relations(session, pattern, "rpvm")
    if not relations:
        raise PgError("42P01", f'Did not find any relation named "{pattern.text}".')
    return [_table(session, r) for r in relations]


def _table(session: Session, rel: Relation) -> dict[str, Any]:
    constraints = sorted(constraints_of(session, rel.oid), key=lambda c: int(c.oid))
    members = relation_publications(session, rel.oid)
    return {
        "schema": rel.schema,
        "name": rel.name,
        "type": RELATION_KINDS[rel.kind],
        "owner": role_display(session, rel.owner),
        "columns": [
            {
                "name": c.name,
                "type": type_of(session, c),
                "nullable": not c.notnull,
                "default": default_text(session, rel.oid, c.num) if c.has_default else None,
                "generated": bool(c.generated),
                "generated_as": {"s": "stored", "v": "virtual"}.get(c.generated),
                "identity": {"a": "always", "d": "by default"}.get(c.identity),
            }
            for c in rel.columns
        ],
        "indexes": [index_definition(session, i.indexrelid) for i in indexes(session, rel.oid)],
        "constraints": {c.conname: constraint_definition(session, c.oid) for c in constraints},
        "replica_identity": IDENTITIES[rel.replident],
        "partition_key": partition_key_definition(session, rel.oid) if rel.kind == "p" else None,
        "partition_bound": partition_bound_text(session, rel.oid) if rel.is_partition else None,
        "publications": sorted(publication_name(session, oid) for oid in members),
    }


# --- describe dump ----------------------------------------------------------------------------------------------------


KINDS = ("publications", "subscriptions", "tables", "table")


@click.command("describe", short_help="show what the catalog holds")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="as JSON, for programs")
@connecting
def describe_command(kind: str, name: str | None, as_json: bool, catalog: str, dbname: str, username: str) -> int:
    """Show publications, subscriptions, tables, or one table.

    NAME is a pattern as \\d takes it: * and ? stand for any characters, and a dot parts schema from name.

    \b
    pgrepl describe publications -d shop
    pgrepl describe table 'sales.*' --json
    """
    if kind == "table" and name is None:
        raise click.UsageError("which table? pgrepl describe table NAME")
    with connection(catalog, dbname, username) as connected:
        if as_json:
            sys.stdout.write(_json(connected.session, kind, name) + "\n")
            return OK
        return _tables(connected, kind, name)


def _tables(opened: Connection, kind: str, name: str | None) -> int:
    shell = Shell()
    shell.terse_messages = True
    shell.connection = opened
    command = {"publications": "dRp+", "subscriptions": "dRs+", "tables": "dt", "table": "d+"}[kind]
    ok = describing.run(shell, command, [name])
    shell.stdout.flush()
    return OK if ok else FAILURE


def _json(session: Session, kind: str, name: str | None) -> str:
    qualified = kind in ("tables", "table")
    with reading(session):
        try:
            pattern = parse_pattern(name, qualified=qualified, database=session.database.name)
        except BadPattern as problem:
            raise PgError("42602", str(problem)) from problem
        if kind == "table":
            assert pattern is not None
            described = table(session, pattern)
        else:
            listing = {"publications": publications, "subscriptions": subscriptions, "tables": tables}
            described = listing[kind](session, pattern)
    return _pretty(described)


def _pretty(described: list[dict[str, Any]]) -> str:
    """JSON with one key of each object a line, and its value on that line, unless it is a long list."""
    objects = []
    for item in described:
        lines = [f"    {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in item.items()]
        lines = [
            line if len(line) <= 100 or not isinstance(value, list) or not value else _long_list(key, value)
            for line, (key, value) in zip(lines, item.items(), strict=True)
        ]
        objects.append("  {\n" + ",\n".join(lines) + "\n  }")
    return "[\n" + ",\n".join(objects) + "\n]" if objects else "[]"


def _long_list(key: str, values: list[Any]) -> str:
    inside = ",\n".join(f"      {json.dumps(value, ensure_ascii=False)}" for value in values)
    return f"    {json.dumps(key)}: [\n{inside}\n    ]"


@click.command("dump", short_help="a script that makes the objects again")
@click.option("--schema", "schema", is_flag=True, help="schemas, tables, views, indexes, sequences")
@click.option("--publications", is_flag=True, help="publications")
@click.option("--subscriptions", is_flag=True, help="subscriptions, with connect = false")
@click.option("--sequence-data", is_flag=True, help="the values of sequences, as setval() sets them")
@click.option("--globals", "shared", is_flag=True, help="roles, memberships, databases and settings; nothing else")
@click.option("--all", "everything", is_flag=True, help="these, and then each database")
@click.option("--no-role-passwords", is_flag=True, help="roles without their passwords (SCRAM verifiers)")
@connecting
def dump_command(
    schema: bool, publications: bool, subscriptions: bool, sequence_data: bool, shared: bool, everything: bool,
    no_role_passwords: bool, catalog: str, dbname: str, username: str,
) -> int:  # fmt: skip
    """Print a script that makes the objects of a database again; without an option, all of them.

    Rows are not in it, nor the values of sequences without --sequence-data. A dump that is run in an empty catalog,
    and dumped there, is the same text.

    \b
    pgrepl dump -d shop > shop.sql
    pgrepl -d copy -f shop.sql
    pgrepl dump -d shop --sequence-data | psql -d shop
    pgrepl dump --globals > roles.sql       roles, grants of roles, databases, settings
    pgrepl dump --all > everything.sql
    pgrepl --catalog new.db -f everything.sql
    """
    from pgrepl.statements.definitions.shared import dump_shared

    wanted = {"schema": schema, "publications": publications, "subscriptions": subscriptions}
    if (shared or everything) and (any(wanted.values()) or sequence_data or (shared and everything)):
        raise click.UsageError(
            "--globals and --all go with none of --schema, --publications, --subscriptions, --sequence-data"
        )
    is_only_with("no-role-passwords", "globals and --all", shared or everything)
    if not (any(wanted.values()) or sequence_data):
        wanted = dict.fromkeys(wanted, True)
    wanted["sequence_data"] = sequence_data
    with connection(catalog, dbname, username) as connected:
        if shared or everything:
            with reading(connected.session):
                _print(dump_shared(connected.session, passwords=not no_role_passwords))
        if shared:
            return OK
        names = _database_names(connected.session) if everything else None
        if names is None:
            _print_database(connected.session, wanted)
    for name in names or ():
        with connection(catalog, name, username) as connected:
            _print_database(connected.session, wanted, f"\\connect {_connect_argument(name)}")
    return OK


def _database_names(session: Session) -> list[str]:
    from pgrepl.catalog.facts.roles import databases

    with reading(session):
        return [str(row.datname) for row in databases(session) if row.datallowconn]


def _connect_argument(name: str) -> str:
    """The name as \\connect takes it; one that looks like a connection string has to be in one."""
    if re.fullmatch("[a-z_][a-z0-9_]*", name):
        return name
    conninfo = "dbname='" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "-reuse-previous=on '" + conninfo.replace("\\", "\\\\").replace("'", "''") + "'"


def _print_database(session: Session, wanted: dict[str, bool], first: str | None = None) -> None:
    """`first` is a line before the statements, if there are any."""
    from pgrepl.statements.definitions.changes import dump

    with reading(session):
        statements = list(dump(session, **wanted))
        _print([first, *statements] if first is not None and statements else statements)


def _print(statements: Iterable[str]) -> None:
    for statement in statements:
        sys.stdout.write(statement + "\n")
