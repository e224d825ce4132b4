"""The data of `pgrepl describe … --json`: the facts of psql's tables."""

from __future__ import annotations

from typing import Any

from pgrepl.api.facts import publication_of
from pgrepl.catalog.classes import PG_CLASS
from pgrepl.catalog.comments import comment_on
from pgrepl.catalog.constraint import constraints_of
from pgrepl.catalog.indexes import indexes
from pgrepl.catalog.publication import relation_publications
from pgrepl.catalog.publication_facts import (
    publication_name,
)
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.roles import is_superuser, role_display
from pgrepl.catalog.session import Session
from pgrepl.catalog.subscription_facts import SubscriptionFacts, subscribed_tables, subscription_facts
from pgrepl.errors import PgError
from pgrepl.expr.defaults import default_text
from pgrepl.expr.definitions import (
    constraint_definition,
    index_definition,
    partition_bound_text,
    partition_key_definition,
)
from pgrepl.shell.describe.matching import matching_relations
from pgrepl.shell.describe.patterns import NamePattern
from pgrepl.shell.describe.publications import matching_publications
from pgrepl.shell.describe.relation import type_of
from pgrepl.shell.describe.relations import KINDS
from pgrepl.types.lsn import lsn_text

IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
STATES = {"i": "initialize", "d": "data copy", "f": "finished copy", "s": "synchronized", "r": "ready"}


def publications(session: Session, pattern: NamePattern | None) -> list[dict[str, Any]]:
    return [publication_of(session, each).as_json() for each in matching_publications(session, pattern)]


def subscriptions(session: Session, pattern: NamePattern | None) -> list[dict[str, Any]]:
    found = subscription_facts(session)
    return [_subscription(session, each) for each in found if pattern is None or pattern.name.matches(each.name)]


def _subscription(session: Session, subscription: SubscriptionFacts) -> dict[str, Any]:
    listed = [
        {
            "table": each.table.qualified_name,
            "state": STATES[each.state],
            "lsn": None if each.lsn is None else lsn_text(each.lsn),
        }
        for each in subscribed_tables(session, subscription.oid)
    ]
    data = {
        "name": subscription.name,
        "owner": role_display(session, subscription.owner),
        "enabled": subscription.enabled,
        "publications": list(subscription.publications),
        "slot": subscription.slot,
        "origin": subscription.origin,
        "failover": subscription.failover,
        "disable_on_error": subscription.disable_on_error,
        "run_as_owner": subscription.run_as_owner,
        "password_required": subscription.password_required,
        "synchronous_commit": subscription.synchronous_commit,
        "skip_lsn": lsn_text(subscription.skip_lsn),
        "tables": sorted(listed, key=lambda t: str(t["table"])),
    }
    if subscription.schema_changes != "none":
        data["schema_changes"] = subscription.schema_changes
    if subscription.conflict_log:
        data["conflict_log"] = True
    if is_superuser(session):  # as \dRs+: only superusers see the connection string
        data["conninfo"] = subscription.conninfo
    return data


def tables(session: Session, pattern: NamePattern | None) -> list[dict[str, Any]]:
    hidden = ("pg_catalog", "information_schema") if pattern is None else ()
    return [
        {
            "schema": r.schema,
            "name": r.name,
            "type": KINDS[r.kind],
            "owner": role_display(session, r.owner),
            "description": comment_on(session, PG_CLASS, r.oid),
        }
        for r in matching_relations(session, pattern, "rp")
        if r.schema not in hidden
    ]


def table(session: Session, pattern: NamePattern) -> list[dict[str, Any]]:
    found = matching_relations(session, pattern, "rpvm")
    if not found:
        raise PgError("42P01", f'Did not find any relation named "{pattern.text}".')
    return [_table(session, r) for r in found]


def _table(session: Session, found: Relation) -> dict[str, Any]:
    constraints = sorted(constraints_of(session, found.oid), key=lambda c: int(c.oid))
    members = relation_publications(session, found.oid)
    return {
        "schema": found.schema,
        "name": found.name,
        "type": KINDS[found.kind],
        "owner": role_display(session, found.owner),
        "columns": [
            {
                "name": c.name,
                "type": type_of(session, c),
                "nullable": not c.notnull,
                "default": default_text(session, found.oid, c.num) if c.has_default else None,
                "generated": bool(c.generated),
                "identity": {"a": "always", "d": "by default"}.get(c.identity),
            }
            for c in found.columns
        ],
        "indexes": [index_definition(session, i.indexrelid) for i in indexes(session, found.oid)],
        "constraints": {c.conname: constraint_definition(session, c.oid) for c in constraints},
        "replica_identity": IDENTITIES[found.replident],
        "partition_key": partition_key_definition(session, found.oid) if found.kind == "p" else None,
        "partition_bound": partition_bound_text(session, found.oid) if found.is_partition else None,
        "publications": sorted(publication_name(session, oid) for oid in members),
    }
