"""Enums, composite types and domains of a dump, each after the types that it is made of."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.acl import ObjectKind
from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, PG_TYPE
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_constraint, pg_type
from pgrepl.catalog.user_types import type_rows
from pgrepl.expr.type_definition import (
    add_check,
    calls_routines,
    checks_of,
    create_type,
    type_definition_name,
    types_in_order,
)
from pgrepl.sql.quote import quote_identifier
from pgrepl.statements.dump import naming


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
    yield from naming.comment(session, shown, PG_CONSTRAINT, check.oid)


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
    yield naming.owner(session, f"{word} {name}", row.typowner)
    yield from naming.comment(session, f"{word} {name}", PG_TYPE, row.oid)
    if row.typrelid:
        for column in relation(session, row.typrelid).columns:
            shown = f"COLUMN {name}.{quote_identifier(column.name)}"
            yield from naming.comment(session, shown, PG_CLASS, row.typrelid, column.num)
    yield from naming.privileges(session, f"TYPE {name}", ObjectKind.TYPE, row.typowner, row.typacl)
