"""The CREATE TYPE or CREATE DOMAIN statement of a user's type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_CONSTRAINT, PG_OPERATOR, PG_PROC, ObjectAddress
from pgrepl.catalog.collations import qualified_collation
from pgrepl.catalog.depend import dependencies_of
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.relation import relation
from pgrepl.catalog.tables import pg_constraint, pg_type
from pgrepl.catalog.user_types import domain_constraints, labels_of, type_row
from pgrepl.expr import stored
from pgrepl.expr.definitions import constraint_definition
from pgrepl.expr.deparse import expression_text
from pgrepl.expr.typefacts import collation, type_text
from pgrepl.sql.quote import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.builtin import opclass_by_oid, range_by_oid, type_by_oid
from pgrepl.types.oids import REGPROC
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def types_in_order(session: Session, oids: Iterable[int]) -> list[pg_type]:
    """The user's types, each after those that it is made of, without the arrays over them."""
    ordered: dict[int, pg_type] = {}

    def place(oid: int) -> None:
        typoid = session.type_of(oid)
        if not isinstance(typoid, UserType) or oid in ordered:
            return
        of_range = typoid.range
        if of_range is not None and of_range.multirange == oid:
            place(of_range.oid)  # a multirange comes with its range
            return
        for part in reversed(typoid.types.closure(typoid)[1:]):
            if of_range is None or part.row.oid != of_range.multirange:
                place(part.row.oid)
        row = type_row(session, oid)
        if row is not None and not row.typelem:
            ordered[oid] = row

    for oid in oids:
        place(int(oid))
    return list(ordered.values())


def type_definition_name(session: Session, row: pg_type) -> str:
    return quote_qualified(schema_name(session, row.typnamespace), row.typname)


def create_type(session: Session, row: pg_type) -> str:
    """The CREATE statement of a type, with those validated constraints of a domain that call no user's functions, which
    may be made later."""
    name = type_definition_name(session, row)
    if row.typtype == "e":
        labels = [f"\n    {quote_literal(label.enumlabel)}" for label in labels_of(session, row.oid)]
        return f"CREATE TYPE {name} AS ENUM ({','.join(labels)}\n);"
    if row.typtype == "c":
        return f"CREATE TYPE {name} AS ({','.join(attribute_definitions(session, row).values())}\n);"
    if row.typtype == "r":
        return _create_range(session, row)
    checks = [check for check in checks_of(session, row) if check.convalidated and not calls_routines(session, check)]
    return create_domain(session, row, default_of_domain(session, row), checks)


def _create_range(session: Session, row: pg_type) -> str:
    """As pg_dump words it."""
    made = range_by_oid(session.type_of(row.oid))
    assert made is not None
    multirange = type_row(session, made.multirange)
    assert multirange is not None
    parts = [
        f"subtype = {type_text(session, session.type_of(int(made.subtype)))}",
        f"multirange_type_name = {type_definition_name(session, multirange)}",
    ]
    opclass = opclass_by_oid(made.subopc)
    if opclass is not None and not opclass.default:
        parts.append(f"subtype_opclass = pg_catalog.{quote_identifier(opclass.name)}")
    if made.collation and made.collation != collation(made.subtype):
        parts.append(f"collation = {qualified_collation(session, made.collation)}")
    if made.subdiff:
        parts.append(f"subtype_diff = {session.object_name(REGPROC, made.subdiff)}")
    listed = ",\n    ".join(parts)
    return f"CREATE TYPE {type_definition_name(session, row)} AS RANGE (\n    {listed}\n);"


def attribute_definitions(session: Session, row: pg_type) -> dict[str, str]:
    """Each attribute of a composite type, as in its CREATE TYPE."""
    columns = {}
    for column in relation(session, row.typrelid).columns:
        text = f"\n\t{quote_identifier(column.name)} {type_text(session, column.type, column.typmod)}"
        columns[column.name] = text + collate_clause(session, column.type, column.collation)
    return columns


def create_domain(session: Session, row: pg_type, default: str | None, checks: Iterable[pg_constraint]) -> str:
    text = f"CREATE DOMAIN {type_definition_name(session, row)} AS {base_of_domain(session, row)}"
    text += (" NOT NULL" if row.typnotnull else "") + (f" DEFAULT {default}" if default is not None else "")
    for check in checks:
        text += f"\n\tCONSTRAINT {quote_identifier(check.conname)} {constraint_definition(session, check.oid)}"
    return text + ";"


def add_check(session: Session, domain: str, check: pg_constraint) -> str:
    definition = constraint_definition(session, check.oid)
    return f"ALTER DOMAIN {domain} ADD CONSTRAINT {quote_identifier(check.conname)} {definition};"


def base_of_domain(session: Session, row: pg_type) -> str:
    """The base type and the collation of a domain."""
    base = session.type_of(row.typbasetype)
    return type_text(session, base, row.typtypmod) + collate_clause(session, base, row.typcollation)


def default_of_domain(session: Session, row: pg_type) -> str | None:
    if row.typdefaultbin is None:
        return None
    return expression_text(session, stored.from_json(row.typdefaultbin, session))


def checks_of(session: Session, row: pg_type) -> list[pg_constraint]:
    return [constraint for constraint in domain_constraints(session, row.oid) if constraint.contype == "c"]


def calls_routines(session: Session, check: pg_constraint) -> bool:
    return any(
        row.refclassid in (PG_PROC, PG_OPERATOR)
        for row in dependencies_of(session, ObjectAddress(PG_CONSTRAINT, check.oid))
    )


def collate_clause(session: Session, typoid: int, given: int) -> str:
    """` COLLATE pg_catalog."C"`, where it is not the type's own."""
    kind = type_by_oid(typoid)
    if not given or kind is None or kind.collation == given:
        return ""
    return f" COLLATE {qualified_collation(session, given)}"
