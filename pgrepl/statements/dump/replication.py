"""Publications and subscriptions of a dump."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.classes import PG_PUBLICATION, PG_SUBSCRIPTION
from pgrepl.catalog.publication_facts import PublicationFacts, member_schemas, member_tables, publication_facts
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.session import Session
from pgrepl.catalog.subscription_facts import SubscriptionFacts, subscription_facts
from pgrepl.expr.deparse import stored_expression_text
from pgrepl.sql.quote import quote_identifier, quote_literal
from pgrepl.statements.dump import naming


def dump_publications(session: Session) -> Iterator[str]:
    for publication in publication_facts(session):
        name = quote_identifier(publication.name)
        text = f"CREATE PUBLICATION {name}{' FOR ALL TABLES' if publication.all_tables else ''}"
        text += f" WITH (publish = '{', '.join(publication.operations)}'"
        text += ", publish_via_partition_root = true" if publication.via_root else ""
        yield text + ");"
        yield naming.owner(session, f"PUBLICATION {name}", publication.owner)
        yield from _members(session, name, publication)
        yield from naming.comment(session, f"PUBLICATION {name}", PG_PUBLICATION, publication.oid)


def _members(session: Session, name: str, publication: PublicationFacts) -> Iterator[str]:
    for schema in member_schemas(session, publication):
        yield f"ALTER PUBLICATION {name} ADD TABLES IN SCHEMA {quote_identifier(schema)};"
    for member in member_tables(session, publication):
        text = f"ALTER PUBLICATION {name} ADD TABLE ONLY {naming.qualified(member.table)}"
        if member.columns is not None:
            text += f" ({', '.join(map(quote_identifier, member.columns))})"
        if member.filter is not None:
            text += f" WHERE ({stored_expression_text(session, member.filter, member.table.oid)})"
        yield text + ";"


def dump_subscriptions(session: Session) -> Iterator[str]:
    """Only a superuser may read the connection strings."""
    found = subscription_facts(session)
    if not is_superuser(session):
        if found:
            session.notice("WARNING", "subscriptions not dumped because current user is not a superuser")
        return
    for each in found:
        name = quote_identifier(each.name)
        publications = ", ".join(map(quote_identifier, each.publications))
        yield (
            f"CREATE SUBSCRIPTION {name} CONNECTION {quote_literal(each.conninfo)} PUBLICATION {publications}"
            f" WITH ({', '.join(_options(each))});"
        )
        yield naming.owner(session, f"SUBSCRIPTION {name}", each.owner)
        yield from naming.comment(session, f"SUBSCRIPTION {name}", PG_SUBSCRIPTION, each.oid)


def _options(subscription: SubscriptionFacts) -> Iterator[str]:
    """In the order of pg_dump's dumpSubscription; options with default values are left out."""
    yield "connect = false"
    yield f"slot_name = {'NONE' if subscription.slot is None else quote_literal(subscription.slot)}"
    if subscription.binary:
        yield "binary = true"
    if subscription.streaming != "off":
        yield f"streaming = {subscription.streaming}"
    if subscription.two_phase != "d":
        yield "two_phase = on"
    if subscription.disable_on_error:
        yield "disable_on_error = true"
    if not subscription.password_required:
        yield "password_required = false"
    if subscription.run_as_owner:
        yield "run_as_owner = true"
    if subscription.failover:
        yield "failover = true"
    if subscription.synchronous_commit != "off":
        yield f"synchronous_commit = {quote_identifier(subscription.synchronous_commit)}"
    if subscription.origin.lower() != "any":
        yield f"origin = {subscription.origin}"
    if subscription.schema_changes != "none":
        yield f"schema_changes = {subscription.schema_changes}"
    if subscription.conflict_log:
        yield "conflict_log = true"
