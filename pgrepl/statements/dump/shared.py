"""Roles and their memberships, databases, settings (pg_dumpall --globals-only), publications and subscriptions of a
dump.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgrepl.catalog.facts import foreign
from pgrepl.catalog.facts.access import database_name, databases
from pgrepl.catalog.facts.acl import ObjectKind
from pgrepl.catalog.facts.objects import shared_comment_on
from pgrepl.catalog.facts.publication import PublicationFacts, member_schemas, member_tables, publication_facts
from pgrepl.catalog.facts.roles import is_superuser, memberships, role_name, roles, settings_of_roles
from pgrepl.catalog.facts.subscription_facts import SubscriptionFacts, subscription_facts
from pgrepl.catalog.session import login
from pgrepl.catalog.session.context import STANDBY
from pgrepl.catalog.session.parameters import LIST_QUOTE
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import (
    BOOTSTRAP_SUPERUSER,
    FIRST_NORMAL_OID,
    PG_AUTHID,
    PG_DATABASE,
    PG_FOREIGN_SERVER,
    PG_PUBLICATION,
    PG_SUBSCRIPTION,
)
from pgrepl.expr.print.deparse import stored_expression_text
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.statements.dump import naming
from pgrepl.types.input_checks import NAMES

_TEMPLATES = ("template0", "template1")
_ALWAYS_THERE = ("postgres", *_TEMPLATES)
_ATTRIBUTES = (
    ("rolsuper", "SUPERUSER"),
    ("rolinherit", "INHERIT"),
    ("rolcreaterole", "CREATEROLE"),
    ("rolcreatedb", "CREATEDB"),
    ("rolcanlogin", "LOGIN"),
    ("rolreplication", "REPLICATION"),
    ("rolbypassrls", "BYPASSRLS"),
)
_NOT_SETTINGS = (STANDBY, "pgrepl.standby_files", "primary_conninfo", "primary_slot_name")  # of a standby's own
_ITEM = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,]*?))\s*(?:,|$)')


def dump_shared(session: Session, *, passwords: bool = True) -> Iterator[str]:
    """Only a superuser may: passwords are among it, as SCRAM verifiers."""
    if not is_superuser(session):
        raise PgError(
            "42501", "permission denied to dump roles", detail="Only roles with the SUPERUSER attribute may dump roles."
        )
    yield from dump_roles(session, passwords=passwords)
    yield from _databases(session)
    yield from _settings_of_roles(session)
    for name, value in login.stored(session):
        if name not in _NOT_SETTINGS:
            yield f"ALTER SYSTEM SET {quote_identifier(name)} = {setting_value(name, value)};"


# --- roles ------------------------------------------------------------------------------------------------------------


def own_roles(session: Session) -> list[tables.pg_authid]:
    """The roles that are not there from the beginning."""
    return [role for role in roles(session) if role.oid >= FIRST_NORMAL_OID]


def dump_roles(session: Session, *, passwords: bool) -> Iterator[str]:
    for role in roles(session):
        if role.oid >= FIRST_NORMAL_OID or role.oid == BOOTSTRAP_SUPERUSER:
            name = quote_identifier(role.rolname)
            if role.rolname != "postgres":
                yield f"CREATE ROLE {name};"
            yield f"ALTER ROLE {name} WITH {role_attributes(role, passwords=passwords)};"
            text = shared_comment_on(session, PG_AUTHID, role.oid)
            if text is not None:
                yield f"COMMENT ON ROLE {name} IS {quote_literal(text)};"
    grants = [g for g in memberships(session) if max(g.roleid, g.member) >= FIRST_NORMAL_OID]
    grants.sort(key=lambda g: [role_name(session, oid) for oid in (g.roleid, g.member, g.grantor)])
    for grant in _in_order(grants):
        yield membership(session, grant)


def role_attributes(role: tables.pg_authid, *, passwords: bool) -> str:
    words = [word if getattr(role, column) else f"NO{word}" for column, word in _ATTRIBUTES]
    if role.rolconnlimit != -1:
        words.append(f"CONNECTION LIMIT {role.rolconnlimit}")
    if role.rolpassword is not None and passwords:
        words.append(f"PASSWORD {quote_literal(role.rolpassword)}")
    if role.rolvaliduntil is not None:
        words.append(f"VALID UNTIL {quote_literal(role.rolvaliduntil)}")
    return " ".join(words)


def membership(session: Session, grant: tables.pg_auth_members) -> str:
    options = [*(["ADMIN OPTION"] if grant.admin_option else []), f"INHERIT {str(grant.inherit_option).upper()}"]
    if not grant.set_option:
        options.append("SET FALSE")
    role, member, by = (
        quote_identifier(role_name(session, oid)) for oid in (grant.roleid, grant.member, grant.grantor)
    )
    return f"GRANT {role} TO {member} WITH {', '.join(options)} GRANTED BY {by};"


def _in_order(grants: list[tables.pg_auth_members]) -> Iterator[tables.pg_auth_members]:
    """Each grant after the one that lets its grantor grant."""
    left = grants
    admins: set[tuple[int, int]] = set()
    while left:
        ready = [g for g in left if g.grantor == BOOTSTRAP_SUPERUSER or (g.roleid, g.grantor) in admins] or left
        for grant in ready:
            yield grant
            if grant.admin_option:
                admins.add((grant.roleid, grant.member))
        left = [grant for grant in left if grant not in ready]


# --- databases --------------------------------------------------------------------------------------------------------


def _databases(session: Session) -> Iterator[str]:
    from pgrepl.catalog.store.bootstrap import INITIAL_ACL, INITIAL_COMMENTS

    for row in databases(session):
        name = quote_identifier(row.datname)
        if row.datname not in _ALWAYS_THERE:
            yield (
                f"CREATE DATABASE {name} WITH TEMPLATE = template0 ENCODING = '{NAMES[row.encoding]}' "
                "LOCALE_PROVIDER = libc"
                f"{_locale(row)};"
            )
        if row.datname not in _ALWAYS_THERE or row.datdba != BOOTSTRAP_SUPERUSER:
            yield naming.owner(session, f"DATABASE {name}", row.datdba)
        usual = row.datname in _TEMPLATES
        limits = [f"CONNECTION LIMIT {row.datconnlimit}"] if row.datconnlimit != -1 else []
        limits += [f"IS_TEMPLATE {str(row.datistemplate).lower()}"] if row.datistemplate != usual else []
        if limits:
            yield f"ALTER DATABASE {name} WITH {' '.join(limits)};"
        text = shared_comment_on(session, PG_DATABASE, row.oid)
        if text != INITIAL_COMMENTS.get(row.datname):
            yield f"COMMENT ON DATABASE {name} IS {'NULL' if text is None else quote_literal(text)};"
        if row.datname not in _TEMPLATES or row.datacl != INITIAL_ACL:
            yield from naming.privileges(session, f"DATABASE {name}", ObjectKind.DATABASE, row.datdba, row.datacl)
        if row.datallowconn == (row.datname == "template0"):
            yield f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {str(row.datallowconn).lower()};"


def _locale(row: tables.pg_database) -> str:
    if row.datcollate == row.datctype:
        return f" LOCALE = {quote_literal(row.datcollate)}"
    return f" LC_COLLATE = {quote_literal(row.datcollate)} LC_CTYPE = {quote_literal(row.datctype)}"


# --- settings ---------------------------------------------------------------------------------------------------------


def _settings_of_roles(session: Session) -> Iterator[str]:
    """Settings of roles, of databases, and of roles in databases."""
    named = []
    for row in settings_of_roles(session):
        role = None if not row.setrole else role_name(session, row.setrole)
        database = None if not row.setdatabase else database_name(session, row.setdatabase)
        named.append((role or "", database or "", row.setconfig))
    for role, database, items in sorted(named):
        yield from role_settings(role, database, items)


def role_settings(role: str, database: str, items: list[str]) -> Iterator[str]:
    """An empty name stands for all roles, or all databases."""
    if role:
        who = f"ROLE {quote_identifier(role)}" + (f" IN DATABASE {quote_identifier(database)}" if database else "")
    else:
        who = f"DATABASE {quote_identifier(database)}" if database else "ROLE ALL"
    for item in items:
        name, _, value = item.partition("=")
        yield f"ALTER {who} SET {quote_identifier(name)} TO {setting_value(name, value)};"


def setting_value(name: str, value: str) -> str:
    """The value as SET takes it; the names of a list are literals of their own."""
    if name.lower() not in LIST_QUOTE or not value.strip():
        return quote_literal(value)
    items, at = [], 0
    while at < len(value):
        found = _ITEM.match(value, at)
        if found is None or found.end() == at:
            return quote_literal(value)
        items.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        at = found.end()
    return ", ".join(map(quote_literal, items))


SPEAK_18 = "SET pgrepl.postgres_version = 18;"  # a statement behind it is one that 17 refuses


# of constraints, in statements that this room has written
NEWER = re.compile(
    r"CONSTRAINT \S+ NOT NULL| NOT NULL NO INHERIT|CONSTRAINT \S+ (NO )?INHERIT;"
    r"| NOT ENFORCED| WITHOUT OVERLAPS\)|, PERIOD "
)


def has_newer_constraints(session: Session) -> bool:
    """Has the database constraints that PostgreSQL 17 does not know?"""
    found = rows(session, tables.pg_constraint, datid=session.database_oid)
    return any(row.conperiod or not row.conenforced or (row.contype == "n" and row.conrelid) for row in found)


# --- replication ------------------------------------------------------------------------------------------------------


def dump_publications(session: Session) -> Iterator[str]:
    for publication in publication_facts(session):
        name = quote_identifier(publication.name)
        everything = all_objects(session, publication)
        text = f"CREATE PUBLICATION {name}{f' FOR {everything}' if everything else ''}"
        text += f" WITH (publish = '{', '.join(publication.operations)}'"
        text += ", publish_via_partition_root = true" if publication.via_root else ""
        text += f", publish_generated_columns = {publication.generated}" if publication.generated != "none" else ""
        yield text + ");"
        yield naming.owner(session, f"PUBLICATION {name}", publication.owner)
        if not publication.all_tables:
            yield from _members(session, name, publication)
        yield from naming.comment(session, f"PUBLICATION {name}", PG_PUBLICATION, publication.oid)


def all_objects(session: Session, publication: PublicationFacts) -> str:
    """ALL TABLES, with the tables that are left out, and ALL SEQUENCES, as far as it is a publication of these."""
    scopes = []
    if publication.all_tables:
        excepted = [f"TABLE ONLY {naming.qualified(each.table)}" for each in member_tables(session, publication)]
        scopes.append("ALL TABLES" + (f" EXCEPT ({', '.join(sorted(excepted))})" if excepted else ""))
    return ", ".join([*scopes, *(["ALL SEQUENCES"] if publication.all_sequences else [])])


def _members(session: Session, name: str, publication: PublicationFacts) -> Iterator[str]:
    for schema in member_schemas(session, publication):
        yield f"ALTER PUBLICATION {name} ADD TABLES IN SCHEMA {quote_identifier(schema)};"
    listed = member_tables(session, publication)
    if any(member.lists_generated for member in listed):
        yield SPEAK_18
    for member in listed:
        text = f"ALTER PUBLICATION {name} ADD TABLE ONLY {naming.qualified(member.table)}"
        if member.columns is not None:
            text += f" ({', '.join(map(quote_identifier, member.columns))})"
        if member.filter is not None:
            text += f" WHERE ({stored_expression_text(session, member.filter, member.table.oid)})"
        yield text + ";"


def dump_servers(session: Session) -> Iterator[str]:
    """Foreign servers and user mappings, with the options that the role may see, as pg_dump."""
    for server in foreign.servers(session):
        words = f"SERVER {quote_identifier(server.srvname)}"
        yield create_server(server)
        yield naming.owner(session, words, server.srvowner)
        yield from naming.privileges(
            session, f"FOREIGN {words}", ObjectKind.FOREIGN_SERVER, server.srvowner, server.srvacl
        )
        yield from naming.comment(session, words, PG_FOREIGN_SERVER, server.oid)
        for mapping in foreign.mappings(session, server.oid):
            seen = foreign.may_see_options(session, mapping, server)
            yield create_mapping(session, mapping, server, mapping.umoptions if seen else None)


def create_server(server: tables.pg_foreign_server) -> str:
    text = f"CREATE SERVER {quote_identifier(server.srvname)}"
    text += f" TYPE {quote_literal(server.srvtype)}" if server.srvtype is not None else ""
    text += f" VERSION {quote_literal(server.srvversion)}" if server.srvversion is not None else ""
    text += f" FOREIGN DATA WRAPPER {quote_identifier(foreign.WRAPPERS[server.srvfdw])}"
    return f"{text}{_foreign_options(server.srvoptions)};"


def mapping_words(session: Session, mapping: tables.pg_user_mapping, server: tables.pg_foreign_server) -> str:
    who = "PUBLIC" if mapping.umuser == foreign.PUBLIC else quote_identifier(role_name(session, mapping.umuser))
    return f"USER MAPPING FOR {who} SERVER {quote_identifier(server.srvname)}"


def create_mapping(
    session: Session,
    mapping: tables.pg_user_mapping,
    server: tables.pg_foreign_server,
    options: Sequence[str] | None,
) -> str:
    return f"CREATE {mapping_words(session, mapping, server)}{_foreign_options(options)};"


def _foreign_options(stored: Sequence[str] | None) -> str:
    options = foreign.options_of(stored).items()
    listed = ", ".join(f"{quote_identifier(name)} {quote_literal(value)}" for name, value in options)
    return f" OPTIONS ({listed})" if listed else ""


def dump_subscriptions(session: Session) -> Iterator[str]:
    """Only a superuser may read the connection strings."""
    yield from dump_servers(session)
    found = subscription_facts(session)
    if not is_superuser(session):
        if found:
            session.notice("WARNING", "subscriptions not dumped because current user is not a superuser")
        return
    for each in found:
        name = quote_identifier(each.name)
        publications = ", ".join(map(quote_identifier, each.publications))
        yield (
            f"CREATE SUBSCRIPTION {name} {connection_of(each)} PUBLICATION {publications}"
            f" WITH ({', '.join(_options(each, session.settings.release))});"
        )
        yield naming.owner(session, f"SUBSCRIPTION {name}", each.owner)
        yield from naming.comment(session, f"SUBSCRIPTION {name}", PG_SUBSCRIPTION, each.oid)


def connection_of(subscription: SubscriptionFacts) -> str:
    if subscription.server is not None:
        return f"SERVER {quote_identifier(subscription.server)}"
    return f"CONNECTION {quote_literal(subscription.conninfo)}"


def _options(subscription: SubscriptionFacts, release: int) -> Iterator[str]:
    """In the order of pg_dump's dumpSubscription; options with default values are left out."""
    yield "connect = false"
    options = subscription_options(subscription)
    for name in _IN_ORDER:
        if name == "two_phase":
            if subscription.two_phase != "d":
                yield "two_phase = on"
        elif name == "synchronous_commit" and options[name] != USUAL[name]:
            yield f"{name} = {quote_identifier(subscription.synchronous_commit)}"
        elif name == "origin" and options[name] != USUAL[name]:
            yield f"{name} = {subscription.origin}"
        elif options[name] != USUAL.get(name) or (name == "streaming" and release >= 18):
            yield f"{name} = {options[name]}"


_IN_ORDER = (
    "slot_name", "binary", "streaming", "two_phase", "disable_on_error", "password_required", "run_as_owner",
    "failover", "synchronous_commit", "origin", "schema_changes", "conflict_log", "retain_dead_tuples",
    "max_retention_duration", "sequences", "history",
)  # fmt: skip
USUAL = {
    "binary": "false", "streaming": "off", "synchronous_commit": "'off'", "disable_on_error": "false",
    "password_required": "true", "run_as_owner": "false", "origin": "any", "failover": "false",
    "schema_changes": "none", "conflict_log": "false", "sequences": "false",
    "retain_dead_tuples": "false", "max_retention_duration": "0", "history": "none",
}  # fmt: skip


def subscription_options(each: SubscriptionFacts) -> dict[str, str]:
    """The options that a subscription keeps, as SQL has them."""

    def word(value: bool) -> str:
        return "true" if value else "false"

    return {
        "slot_name": "NONE" if each.slot is None else quote_literal(each.slot),
        "binary": word(each.binary),
        "streaming": each.streaming,
        "synchronous_commit": quote_literal(each.synchronous_commit),
        "disable_on_error": word(each.disable_on_error),
        "password_required": word(each.password_required),
        "run_as_owner": word(each.run_as_owner),
        "origin": each.origin.lower(),
        "failover": word(each.failover),
        "schema_changes": each.schema_changes,
        "conflict_log": word(each.conflict_log),
        "sequences": word(each.sequences),
        "retain_dead_tuples": word(each.retain_dead_tuples),
        "max_retention_duration": str(each.max_retention_duration),
        "history": each.history,
    }
