"""Publications and subscriptions of a dump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgrepl.catalog.classes import PG_PUBLICATION, PG_SUBSCRIPTION
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.relation import relation
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import rows
from pgrepl.catalog.tables import pg_publication, pg_publication_namespace, pg_publication_rel, pg_subscription
from pgrepl.expr.deparse import stored_expression_text
from pgrepl.sql.quote import quote_identifier, quote_literal
from pgrepl.statements.dump import naming

OPERATIONS = ("insert", "update", "delete", "truncate")
STREAMING = {"t": "on", "p": "parallel"}


def dump_publications(session: Session) -> Iterator[str]:
    for row in sorted(rows(session, pg_publication, datid=session.database.oid), key=lambda p: p.pubname):
        name = quote_identifier(row.pubname)
        text = f"CREATE PUBLICATION {name}{' FOR ALL TABLES' if row.puballtables else ''}"
        text += f" WITH (publish = '{', '.join(op for op in OPERATIONS if getattr(row, 'pub' + op))}'"
        text += ", publish_via_partition_root = true" if row.pubviaroot else ""
        yield text + ");"
        yield naming.owner(session, f"PUBLICATION {name}", row.pubowner)
        yield from _members(session, name, row)
        yield from naming.comment(session, f"PUBLICATION {name}", PG_PUBLICATION, row.oid)


def _members(session: Session, name: str, publication: pg_publication) -> Iterator[str]:
    for whole in rows(session, pg_publication_namespace, pnpubid=publication.oid):
        schema = quote_identifier(schema_name(session, whole.pnnspid))
        yield f"ALTER PUBLICATION {name} ADD TABLES IN SCHEMA {schema};"
    for member in rows(session, pg_publication_rel, prpubid=publication.oid):
        table = relation(session, member.prrelid)
        text = f"ALTER PUBLICATION {name} ADD TABLE ONLY {naming.qualified(table)}"
        if member.prattrs is not None:
            text += f" ({', '.join(quote_identifier(table.attributes[n - 1].name) for n in member.prattrs)})"
        if member.prqual is not None:
            text += f" WHERE ({stored_expression_text(session, member.prqual, table.oid)})"
        yield text + ";"


def dump_subscriptions(session: Session) -> Iterator[str]:
    """Only a superuser may read the connection strings."""
    found = rows(session, pg_subscription, subdbid=session.database.oid)
    if not is_superuser(session):
        if found:
            session.notice("WARNING", "subscriptions not dumped because current user is not a superuser")
        return
    for row in sorted(found, key=lambda s: s.subname):
        name = quote_identifier(row.subname)
        publications = ", ".join(quote_identifier(p) for p in row.subpublications)
        yield (
            f"CREATE SUBSCRIPTION {name} CONNECTION {quote_literal(row.subconninfo)} PUBLICATION {publications}"
            f" WITH ({', '.join(_options(row))});"
        )
        yield naming.owner(session, f"SUBSCRIPTION {name}", row.subowner)
        yield from naming.comment(session, f"SUBSCRIPTION {name}", PG_SUBSCRIPTION, row.oid)


def _options(row: Any) -> Iterator[str]:
    """In the order of pg_dump's dumpSubscription; what is as by default is left out."""
    yield "connect = false"
    yield f"slot_name = {'NONE' if row.subslotname is None else quote_literal(row.subslotname)}"
    if row.subbinary:
        yield "binary = true"
    if row.substream in STREAMING:
        yield f"streaming = {STREAMING[row.substream]}"
    if row.subtwophasestate != "d":
        yield "two_phase = on"
    if row.subdisableonerr:
        yield "disable_on_error = true"
    if not row.subpasswordrequired:
        yield "password_required = false"
    if row.subrunasowner:
        yield "run_as_owner = true"
    if row.subfailover:
        yield "failover = true"
    if row.subsynccommit != "off":
        yield f"synchronous_commit = {quote_identifier(row.subsynccommit)}"
    if row.suborigin.lower() != "any":
        yield f"origin = {row.suborigin}"
