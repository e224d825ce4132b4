"""What `pgrepl describe … --json` prints: the same facts as the tables of psql, as plain data."""

from __future__ import annotations

from typing import Any

from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.publication import published_tables
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.roles import is_superuser, role_display
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.tables import (
    pg_attrdef,
    pg_constraint,
    pg_index,
    pg_publication,
    pg_publication_namespace,
    pg_publication_rel,
    pg_subscription,
    pg_subscription_rel,
)
from pgrepl.errors import PgError
from pgrepl.expr.definitions import (
    constraint_definition,
    index_definition,
    partition_bound_text,
    partition_key_definition,
)
from pgrepl.expr.deparse import stored_expression_text
from pgrepl.shell.describe.matching import matching_relations
from pgrepl.shell.describe.patterns import Pattern
from pgrepl.shell.describe.relation import type_of
from pgrepl.shell.describe.relations import KINDS, comment_on
from pgrepl.types.lsn import lsn_text

IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
STATES = {"i": "initialize", "d": "data copy", "f": "finished copy", "s": "synchronized", "r": "ready"}
OPERATIONS = ("insert", "update", "delete", "truncate")


def publications(session: Session, pattern: Pattern | None) -> list[dict[str, Any]]:
    found = [
        row
        for row in rows(session, pg_publication, datid=session.database.oid)
        if pattern is None or pattern.name.matches(row.pubname)
    ]
    return [_publication(session, row) for row in sorted(found, key=lambda p: p.pubname)]


def _publication(session: Session, row: Any) -> dict[str, Any]:
    tables = []
    for member in rows(session, pg_publication_rel, prpubid=row.oid):
        table = relation(session, member.prrelid)
        attrs = member.prattrs
        tables.append(
            {
                "table": table.qualified_name,
                "columns": None if attrs is None else [table.attributes[n - 1].name for n in attrs],
                "where": None if member.prqual is None else stored_expression_text(session, member.prqual, table.oid),
            }
        )
    schemas = [schema_name(session, m.pnnspid) for m in rows(session, pg_publication_namespace, pnpubid=row.oid)]
    return {
        "name": row.pubname,
        "owner": role_display(session, row.pubowner),
        "all_tables": bool(row.puballtables),
        "publish": [op for op in OPERATIONS if getattr(row, "pub" + op)],
        "publish_via_partition_root": bool(row.pubviaroot),
        "tables": sorted(tables, key=lambda t: str(t["table"])),
        "schemas": sorted(schemas),
        "published": sorted(
            relation(session, t.relid).qualified_name for t in published_tables(session, [row.pubname])
        ),
    }


def subscriptions(session: Session, pattern: Pattern | None) -> list[dict[str, Any]]:
    found = [
        row
        for row in rows(session, pg_subscription, subdbid=session.database.oid)
        if pattern is None or pattern.name.matches(row.subname)
    ]
    return [_subscription(session, row) for row in sorted(found, key=lambda s: s.subname)]


def _subscription(session: Session, row: Any) -> dict[str, Any]:
    tables = [
        {
            "table": relation(session, r.srrelid).qualified_name,
            "state": STATES[r.srsubstate],
            "lsn": None if r.srsublsn is None else lsn_text(r.srsublsn),
        }
        for r in rows(session, pg_subscription_rel, srsubid=row.oid)
    ]
    data = {
        "name": row.subname,
        "owner": role_display(session, row.subowner),
        "enabled": bool(row.subenabled),
        "publications": list(row.subpublications),
        "slot": row.subslotname,
        "origin": row.suborigin,
        "failover": bool(row.subfailover),
        "disable_on_error": bool(row.subdisableonerr),
        "run_as_owner": bool(row.subrunasowner),
        "password_required": bool(row.subpasswordrequired),
        "synchronous_commit": row.subsynccommit,
        "skip_lsn": lsn_text(row.subskiplsn),
        "tables": sorted(tables, key=lambda t: str(t["table"])),
    }
    if is_superuser(session):  # as \dRs+: the connection string is not for everybody
        data["conninfo"] = row.subconninfo
    return data


def tables(session: Session, pattern: Pattern | None) -> list[dict[str, Any]]:
    hidden = ("pg_catalog", "information_schema") if pattern is None else ()
    return [
        {
            "schema": r.schema,
            "name": r.name,
            "type": KINDS[r.kind],
            "owner": role_display(session, r.owner),
            "description": comment_on(session, r.oid),
        }
        for r in matching_relations(session, pattern, "rp")
        if r.schema not in hidden
    ]


def table(session: Session, pattern: Pattern) -> list[dict[str, Any]]:
    found = matching_relations(session, pattern, "rpvm")
    if not found:
        raise PgError("42P01", f'Did not find any relation named "{pattern.text}".')
    return [_table(session, r) for r in found]


def _table(session: Session, found: Relation) -> dict[str, Any]:
    constraints = rows(session, pg_constraint, conrelid=found.oid)
    members = rows(session, pg_publication_rel, prrelid=found.oid)
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
                "default": _default(session, found, c.num) if c.has_default else None,
                "generated": bool(c.generated),
                "identity": {"a": "always", "d": "by default"}.get(c.identity),
            }
            for c in found.columns
        ],
        "indexes": [index_definition(session, i.indexrelid) for i in rows(session, pg_index, indrelid=found.oid)],
        "constraints": {c.conname: constraint_definition(session, c.oid) for c in constraints},
        "replica_identity": IDENTITIES[found.replident],
        "partition_key": partition_key_definition(session, found.oid) if found.kind == "p" else None,
        "partition_bound": partition_bound_text(session, found.oid) if found.is_partition else None,
        "publications": sorted(_publication_name(session, m.prpubid) for m in members),
    }


def _publication_name(session: Session, oid: int) -> str:
    row = one(session, pg_publication, oid=oid)
    return "" if row is None else str(row.pubname)


def _default(session: Session, found: Relation, attnum: int) -> str | None:
    row = one(session, pg_attrdef, adrelid=found.oid, adnum=attnum)
    return None if row is None else stored_expression_text(session, row.adbin, found.oid)
