"""Qualified names, owners, comments and privileges in a dump; its types, collations and default privileges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pgrepl.catalog.facts.acl import LETTERS, NAMES, Acl, ObjectKind, default_acl, parse_acl
from pgrepl.catalog.facts.namespace import schema_name
from pgrepl.catalog.facts.objects import comment_on
from pgrepl.catalog.facts.privileges import KINDS, built_in, default_entries
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.roles import role_name
from pgrepl.catalog.facts.routines import collation_rows, qualified_collation
from pgrepl.catalog.facts.user_types import type_rows
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import PG_CLASS, PG_COLLATION, PG_CONSTRAINT, PG_TYPE
from pgrepl.catalog.store.tables import pg_collation, pg_constraint, pg_default_acl, pg_type
from pgrepl.expr.print.definitions import (
    add_check,
    calls_routines,
    checks_of,
    create_type,
    type_definition_name,
    types_in_order,
)
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified

# PUBLIC has OID 0 in an access list
PUBLIC = 0


def qualified(found: Relation) -> str:
    return quote_qualified(found.schema, found.name)


def role(session: Session, oid: int) -> str:
    return "PUBLIC" if oid == PUBLIC else quote_identifier(role_name(session, oid))


def owner(session: Session, words: str, oid: int) -> str:
    return f"ALTER {words} OWNER TO {role(session, oid)};"


def comment(session: Session, words: str, classid: int, oid: int, column: int = 0) -> Iterator[str]:
    text = comment_on(session, classid, oid, column)
    if text is not None:
        yield f"COMMENT ON {words} IS {quote_literal(text)};"


def privileges(
    session: Session, words: str, kind: ObjectKind, owned_by: int, stored: Any, column: str | None = None
) -> Iterator[str]:
    """The REVOKE and GRANT statements that turn the default access list into the stored one, of a whole object or one
    of its columns."""
    if stored is not None:
        yield from acl_changes(session, words, owned_by, default_acl(kind, owned_by), stored, column)


def acl_changes(
    session: Session, words: str, owned_by: int, before: Acl, stored: Any, column: str | None = None
) -> Iterator[str]:
    """The same from any list to the stored one."""
    usual = {(item.grantee, item.grantor): item for item in before}
    items = parse_acl(stored) or ()
    kept = {(item.grantee, item.grantor) for item in items if usual.get((item.grantee, item.grantor)) == item}
    for grantee, grantor in usual:
        if (grantee, grantor) not in kept:
            yield f"REVOKE ALL ON {words} FROM {role(session, grantee)};"
    for item in items:
        if (item.grantee, item.grantor) in kept:
            continue
        plain = item.privileges & ~item.options
        for mask, option in ((plain, ""), (item.options, " WITH GRANT OPTION")):
            if mask:
                of_column = "" if column is None else f"({column})"
                granted = ",".join(NAMES[i] + of_column for i in range(len(LETTERS)) if mask & 1 << i)
                by = "" if item.grantor == owned_by else f" GRANTED BY {role(session, item.grantor)}"
                yield f"GRANT {granted} ON {words} TO {role(session, item.grantee)}{option}{by};"


# --- default privileges -----------------------------------------------------------------------------------------------


WORDS = {"r": "TABLES", "S": "SEQUENCES", "f": "FUNCTIONS", "T": "TYPES", "n": "SCHEMAS"}


def default_privileges(session: Session) -> Iterator[str]:
    """They come last in a dump, so that its own objects get none of them (dumpDefaultACL)."""
    for entry in default_entries(session):
        yield from changed_by(session, entry)


def changed_by(session: Session, entry: pg_default_acl) -> Iterator[str]:
    """The statements that make an entry."""
    words, role = WORDS[entry.defaclobjtype], entry.defaclrole
    before = built_in(KINDS[entry.defaclobjtype], role, entry.defaclnamespace)
    for text in acl_changes(session, words, role, before, entry.defaclacl):
        yield f"ALTER DEFAULT PRIVILEGES {whose(session, entry)} {text}"


def whose(session: Session, entry: pg_default_acl) -> str:
    """The role, and the schema."""
    start = f"FOR ROLE {role(session, entry.defaclrole)}"
    if entry.defaclnamespace:
        start += f" IN SCHEMA {quote_identifier(schema_name(session, entry.defaclnamespace))}"
    return start


# --- collations -------------------------------------------------------------------------------------------------------


_PROVIDERS = {"b": "builtin", "c": "libc"}


def collation_parts(session: Session) -> Iterator[str]:
    for row in collation_rows(session):
        words = f"COLLATION {qualified_collation(session, row.oid)}"
        yield create_collation(session, row)
        yield owner(session, words, row.collowner)
        yield from comment(session, words, PG_COLLATION, row.oid)


def create_collation(session: Session, row: pg_collation) -> str:
    """As pg_dump words it."""
    parts = [f"provider = {_PROVIDERS[row.collprovider]}"]
    if row.colllocale is not None or row.collcollate == row.collctype:
        parts.append(f"locale = {quote_literal(row.colllocale or row.collcollate or '')}")
    else:
        parts.append(f"lc_collate = {quote_literal(row.collcollate or '')}")
        parts.append(f"lc_ctype = {quote_literal(row.collctype or '')}")
    return f"CREATE COLLATION {qualified_collation(session, row.oid)} ({', '.join(parts)});"


# --- types ------------------------------------------------------------------------------------------------------------


def type_parts(session: Session) -> Iterator[str]:
    for row in own_types(session):
        yield create_type(session, row)
        yield from _about(session, row)


def late_checks(session: Session) -> Iterator[str]:
    """The constraints of domains that call functions."""
    for row in own_types(session):
        name = type_definition_name(session, row)
        for check in checks_of(session, row) if row.typtype == "d" else ():
            if calls_routines(session, check):
                yield add_check(session, name, check)
                yield from comment_on_check(session, name, check)


def comment_on_check(session: Session, domain: str, check: pg_constraint) -> Iterator[str]:
    shown = f"CONSTRAINT {quote_identifier(check.conname)} ON DOMAIN {domain}"
    yield from comment(session, shown, PG_CONSTRAINT, check.oid)


def own_types(session: Session) -> list[pg_type]:
    return types_in_order(session, sorted(row.oid for row in type_rows(session)))


def _about(session: Session, row: pg_type) -> Iterator[str]:
    """NOT VALID constraints, owner, comments and privileges."""
    name, word = type_definition_name(session, row), "DOMAIN" if row.typtype == "d" else "TYPE"
    if row.typtype == "d":
        for check in checks_of(session, row):
            if calls_routines(session, check):
                continue
            if not check.convalidated:
                yield add_check(session, name, check)
            yield from comment_on_check(session, name, check)
    yield owner(session, f"{word} {name}", row.typowner)
    yield from comment(session, f"{word} {name}", PG_TYPE, row.oid)
    if row.typrelid:
        for column in relation(session, row.typrelid).columns:
            shown = f"COLUMN {name}.{quote_identifier(column.name)}"
            yield from comment(session, shown, PG_CLASS, row.typrelid, column.num)
    yield from privileges(session, f"TYPE {name}", ObjectKind.TYPE, row.typowner, row.typacl)
