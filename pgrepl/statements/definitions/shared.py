"""The definitions of roles and default privileges; databases and settings, which are dumped only (pg_dumpall
--globals-only). Passwords cannot be compared: a role keeps its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind, parse_acl, store_acl
from pgrepl.catalog.facts.namespace import schema_name
from pgrepl.catalog.facts.objects import shared_comment_on
from pgrepl.catalog.facts.privileges import KINDS, OBJECT_TYPES, built_in, default_entries
from pgrepl.catalog.facts.roles import (
    database_name,
    databases,
    is_superuser,
    memberships,
    role_name,
    roles,
    settings_of_roles,
)
from pgrepl.catalog.session import login
from pgrepl.catalog.session.context import STANDBY
from pgrepl.catalog.session.parameters import LIST_QUOTE
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.system import (
    BOOTSTRAP_SUPERUSER,
    FIRST_NORMAL_OID,
    INITIAL_ACL,
    INITIAL_COMMENTS,
    PG_AUTHID,
    PG_DATABASE,
)
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.statements.definitions import naming
from pgrepl.statements.definitions.definition import Definition, Fact, Phase, statements, texts
from pgrepl.statements.roles.grant import KINDS_OF_OBJECTS
from pgrepl.types.input_checks import NAMES

if TYPE_CHECKING:
    from pgrepl.sql.nodes import AlterDefaultPrivilegesStmt, RoleSpec

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
    yield from _roles(session, passwords)
    yield from _databases(session)
    yield from _settings_of_roles(session)
    for name, value in login.stored(session):
        if name not in _NOT_SETTINGS:
            yield f"ALTER SYSTEM SET {quote_identifier(name)} = {_setting_value(name, value)};"


# --- roles ------------------------------------------------------------------------------------------------------------


def _roles(session: Session, passwords: bool) -> Iterator[str]:
    for role in roles(session):
        if role.oid >= FIRST_NORMAL_OID or role.oid == BOOTSTRAP_SUPERUSER:
            words = f"ROLE {quote_identifier(role.rolname)}"
            if role.rolname != "postgres":
                yield f"CREATE {words};"
            yield f"ALTER {words} WITH {_attributes(role, passwords=passwords)};"
            yield from texts(_comment(session, words, role))
    grants = [g for g in memberships(session) if max(g.roleid, g.member) >= FIRST_NORMAL_OID]
    grants.sort(key=lambda g: [role_name(session, oid) for oid in (g.roleid, g.member, g.grantor)])
    for grant in _in_order(grants):
        yield _membership(session, grant)


def role_definitions(session: Session) -> Iterator[Definition]:
    for role in roles(session):
        if role.oid < FIRST_NORMAL_OID:
            continue
        name = quote_identifier(role.rolname)
        words = f"ROLE {name}"
        # what is not limited is said, too, so that a limit can be taken back
        unlimited = _attributes(role._replace(rolconnlimit=-1, rolvaliduntil=None), passwords=False)
        until = "infinity" if role.rolvaliduntil is None else role.rolvaliduntil
        limits = f"CONNECTION LIMIT {role.rolconnlimit} VALID UNTIL {quote_literal(until)}"
        attributes = f"ALTER {words} WITH {_attributes(role, passwords=False)};"
        facts = {
            "attributes": Fact(Phase.ROLES, (f"ALTER {words} WITH {unlimited} {limits};",), dumped=(attributes,)),
            **_comment(session, words, role),
            **dict(_memberships(session, role)),
            **dict(_settings(session, role)),
        }
        if role.rolpassword is not None:
            made, undone = (f"ALTER {words} PASSWORD {w};" for w in (quote_literal(role.rolpassword), "NULL"))
            facts["password"] = Fact(Phase.ROLES, (made,), (undone,))
        yield Definition("role", name, [(Phase.ROLES, f"CREATE {words};"), *statements(facts)], words, facts)


def _comment(session: Session, words: str, role: tables.pg_authid) -> dict[str, Fact]:
    return naming.comment_text(words, shared_comment_on(session, PG_AUTHID, role.oid), phase=Phase.ROLES)


def _attributes(role: tables.pg_authid, *, passwords: bool) -> str:
    words = [word if getattr(role, column) else f"NO{word}" for column, word in _ATTRIBUTES]
    if role.rolconnlimit != -1:
        words.append(f"CONNECTION LIMIT {role.rolconnlimit}")
    if role.rolpassword is not None and passwords:
        words.append(f"PASSWORD {quote_literal(role.rolpassword)}")
    if role.rolvaliduntil is not None:
        words.append(f"VALID UNTIL {quote_literal(role.rolvaliduntil)}")
    return " ".join(words)


def _membership(session: Session, grant: tables.pg_auth_members) -> str:
    options = [*(["ADMIN OPTION"] if grant.admin_option else []), f"INHERIT {str(grant.inherit_option).upper()}"]
    if not grant.set_option:
        options.append("SET FALSE")
    role, member, by = (
        quote_identifier(role_name(session, oid)) for oid in (grant.roleid, grant.member, grant.grantor)
    )
    return f"GRANT {role} TO {member} WITH {', '.join(options)} GRANTED BY {by};"


def _memberships(session: Session, role: tables.pg_authid) -> Iterator[tuple[str, Fact]]:
    for grant in sorted(memberships(session), key=lambda g: (g.roleid, g.grantor)):
        if grant.member == role.oid:
            above, by = (quote_identifier(role_name(session, oid)) for oid in (grant.roleid, grant.grantor))
            undone = f"REVOKE {above} FROM {quote_identifier(role.rolname)} GRANTED BY {by};"
            fact = Fact(Phase.ROLES, (_membership(session, grant),), (undone,), anew=True, is_object=True)
            yield f"member of {above} by {by}", fact


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
            granted = naming.privileges(session, f"DATABASE {name}", ObjectKind.DATABASE, row.datdba, row.datacl)
            yield from texts(granted)
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
        yield from _role_settings(role, database, items)


def _settings(session: Session, role: tables.pg_authid) -> Iterator[tuple[str, Fact]]:
    for row in settings_of_roles(session):
        if row.setrole != role.oid:
            continue
        database = "" if not row.setdatabase else database_name(session, row.setdatabase) or ""
        for text in _role_settings(role.rolname, database, row.setconfig):
            before, _, setting = text.partition(" SET ")
            name = setting.partition(" TO ")[0]
            yield f"{before} {name}", Fact(Phase.ROLES, (text,), (f"{before} RESET {name};",))


def _role_settings(role: str, database: str, items: list[str]) -> Iterator[str]:
    """An empty name stands for all roles, or all databases."""
    if role:
        who = f"ROLE {quote_identifier(role)}" + (f" IN DATABASE {quote_identifier(database)}" if database else "")
    else:
        who = f"DATABASE {quote_identifier(database)}" if database else "ROLE ALL"
    for item in items:
        name, _, value = item.partition("=")
        yield f"ALTER {who} SET {quote_identifier(name)} TO {_setting_value(name, value)};"


def _setting_value(name: str, value: str) -> str:
    """The value as SET takes it; the names of a list are literals of their own."""
    if name.lower() not in LIST_QUOTE or not value.strip():
        return quote_literal(value)
    items, at = [], 0
    while at < len(value):
        match = _ITEM.match(value, at)
        if match is None or match.end() == at:
            return quote_literal(value)
        items.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        at = match.end()
    return ", ".join(map(quote_literal, items))


# --- default privileges -----------------------------------------------------------------------------------------------


KIND = "default privileges"  # the name of the one fact, too
_WORDS = {"r": "TABLES", "S": "SEQUENCES", "f": "FUNCTIONS", "T": "TYPES", "n": "SCHEMAS"}
_BEFORE, _BEHIND = 0.5, Phase.SUBSCRIPTIONS + 0.5  # objects that are made meanwhile have privileges of their own


def default_privilege_definitions(session: Session) -> Iterator[Definition]:
    """They come last in a dump, too, so that its own objects get none of them (dumpDefaultACL)."""
    for entry in default_entries(session):
        words, role = _WORDS[entry.defaclobjtype], entry.defaclrole
        start = f"FOR ROLE {naming.role(session, role)}"
        if entry.defaclnamespace:
            start += f" IN SCHEMA {quote_identifier(schema_name(session, entry.defaclnamespace))}"
        before = built_in(KINDS[entry.defaclobjtype], role, entry.defaclnamespace)
        now = parse_acl(entry.defaclacl) or ()
        made, undone = (
            tuple(
                f"ALTER DEFAULT PRIVILEGES {start} {text}" for text in naming.acl_changes(session, words, role, *change)
            )
            for change in ((before, entry.defaclacl), (now, store_acl(before)))
        )
        facts = {KIND: Fact(_BEHIND, made, undone, anew=True, undone_in=_BEFORE)}
        name = f"{start} ON {words}"
        yield Definition(KIND, name, statements(facts), f"{KIND} {name}", facts)


def named(stmt: AlterDefaultPrivilegesStmt, session: Session) -> Iterator[str]:
    """The names of what a statement changes."""
    given = {option.name: option.value for option in stmt.options}
    roles, schemas = given.get("roles"), given.get("schemas")
    words = _WORDS[OBJECT_TYPES[KINDS_OF_OBJECTS[stmt.action.kind]]]
    for role in roles if isinstance(roles, tuple) else (None,):
        start = f"FOR ROLE {quote_identifier(role_of(session, role))}"
        for schema in schemas if isinstance(schemas, tuple) else (None,):
            place = "" if schema is None else f" IN SCHEMA {quote_identifier(str(schema))}"
            yield f"{start}{place} ON {words}"


def role_of(session: Session, role: RoleSpec | None) -> str:
    """The name of the role that is meant."""
    if role is not None and role.name is not None:
        return role.name
    is_session_user = role is not None and role.word == "session_user"
    return role_name(session, session.user if is_session_user else session.role)
