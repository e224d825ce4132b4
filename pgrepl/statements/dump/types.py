"""Enums, composite types and domains of a dump, each after the types that it is made of."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.acl import ObjectKind
from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, PG_TYPE
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import rows
from pgrepl.catalog.tables import pg_constraint, pg_type
from pgrepl.catalog.user_types import domain_constraints, labels_of
from pgrepl.expr import stored
from pgrepl.expr.definitions import constraint_definition
from pgrepl.expr.deparse import expression_text
from pgrepl.expr.typefacts import type_text
from pgrepl.sql.quote import quote_identifier, quote_literal, quote_qualified
from pgrepl.statements.dump import naming
from pgrepl.types.builtin import collation_by_oid, type_by_oid
from pgrepl.types.user_types import UserType


def type_parts(session: Session) -> Iterator[str]:
    for row in _in_order(session):
        yield create_type(session, row)
        yield from _about(session, row)


def _in_order(session: Session) -> list[pg_type]:
    found = {row.oid: row for row in rows(session, pg_type, datid=session.database_oid) if not row.typelem}
    ordered: dict[int, pg_type] = {}

    def place(oid: int) -> None:
        row = found.get(oid)
        if row is None or oid in ordered:
            return
        typoid = session.type_of(oid)
        if isinstance(typoid, UserType):
            for part in reversed(typoid.types.closure(typoid)[1:]):
                place(part.row.oid)
        ordered[oid] = row

    for oid in sorted(found):
        place(oid)
    return list(ordered.values())


def _name(session: Session, row: pg_type) -> str:
    return quote_qualified(schema_name(session, row.typnamespace), row.typname)


def create_type(session: Session, row: pg_type) -> str:
    name = _name(session, row)
    if row.typtype == "e":
        labels = [f"\n    {quote_literal(label.enumlabel)}" for label in labels_of(session, row.oid)]
        return f"CREATE TYPE {name} AS ENUM ({','.join(labels)}\n);"
    if row.typtype == "c":
        columns = []
        for column in relation(session, row.typrelid).columns:
            text = f"\n\t{quote_identifier(column.name)} {type_text(session, column.type, column.typmod)}"
            columns.append(text + _collation(column.type, column.collation))
        return f"CREATE TYPE {name} AS ({','.join(columns)}\n);"
    return _create_domain(session, row, name)


def _create_domain(session: Session, row: pg_type, name: str) -> str:
    base = session.type_of(row.typbasetype)
    text = f"CREATE DOMAIN {name} AS {type_text(session, base, row.typtypmod)}"
    text += _collation(base, row.typcollation) + (" NOT NULL" if row.typnotnull else "")
    if row.typdefaultbin is not None:
        text += f" DEFAULT {expression_text(session, stored.from_json(row.typdefaultbin, session))}"
    for check in _checks(session, row):
        if check.convalidated:
            definition = constraint_definition(session, check.oid)
            text += f"\n\tCONSTRAINT {quote_identifier(check.conname)} {definition}"
    return text + ";"


def _checks(session: Session, row: pg_type) -> list[pg_constraint]:
    return [constraint for constraint in domain_constraints(session, row.oid) if constraint.contype == "c"]


def _collation(typoid: int, collation: int) -> str:
    kind = type_by_oid(typoid)
    if not collation or kind is None or kind.collation == collation:
        return ""
    found = collation_by_oid(collation)
    return f" COLLATE pg_catalog.{quote_identifier(found.name)}" if found is not None else ""


def _about(session: Session, row: pg_type) -> Iterator[str]:
    """NOT VALID constraints, owner, comments and privileges."""
    name, word = _name(session, row), "DOMAIN" if row.typtype == "d" else "TYPE"
    if row.typtype == "d":
        for check in _checks(session, row):
            shown = quote_identifier(check.conname)
            if not check.convalidated:
                definition = constraint_definition(session, check.oid)
                yield f"ALTER DOMAIN {name} ADD CONSTRAINT {shown} {definition};"
            yield from naming.comment(session, f"CONSTRAINT {shown} ON DOMAIN {name}", PG_CONSTRAINT, check.oid)
    yield naming.owner(session, f"{word} {name}", row.typowner)
    yield from naming.comment(session, f"{word} {name}", PG_TYPE, row.oid)
    if row.typrelid:
        for column in relation(session, row.typrelid).columns:
            shown = f"COLUMN {name}.{quote_identifier(column.name)}"
            yield from naming.comment(session, shown, PG_CLASS, row.typrelid, column.num)
    yield from naming.privileges(session, f"TYPE {name}", ObjectKind.TYPE, row.typowner, row.typacl)
