"""Named row types: the types of relations' rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.relation import Attribute, Relation, relation
from pgrepl.catalog.store import one
from pgrepl.types import builtin
from pgrepl.types.lake_forms import is_row_type, row_type_in
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.record import RowField, RowType
from pgrepl.types.user_types import composite_type

if TYPE_CHECKING:
    from pgrepl.catalog.context import CatalogSession


def rowtype_relation(session: CatalogSession, typoid: int) -> Relation | None:
    """The relation that has this row type."""
    found = builtin.type_by_oid(typoid)
    if found is None and typoid >= FIRST_USER_OID:
        found = builtin.type_by_oid(session.type_of(typoid))
    if found is not None:
        return relation(session, found.relid) if found.relid else None
    if not typoid:
        return None  # indexes and sequences have no row type: theirs is 0
    row = one(session, tables.pg_class, datid=session.database_oid, reltype=typoid)
    return relation(session, row.oid) if row is not None else None


def row_type(session: CatalogSession, typoid: int) -> RowType | None:
    """The fields of a named row type; None: the type is no row type."""
    composite = composite_type(session.type_of(typoid))
    if composite is not None:
        return _with_tables(session, composite)
    key = ("row_type", typoid)
    known: RowType | None = session.derived.get(key)
    if known is None:
        found = rowtype_relation(session, typoid)
        if found is None:
            return None
        known = session.derived[key] = RowType(
            tuple([_field(session, place, a) for place, a in enumerate(found.attributes) if not a.dropped]),
            len(found.attributes),
        )
    return known


def _with_tables(session: CatalogSession, composite: RowType) -> RowType:
    """A composite type with the columns of the tables whose row types its attributes have, which it does not know."""
    fields = []
    for field in composite.fields:
        if not is_row_type(field.type):
            fields.append(field)
            continue
        inside = row_type_in(field.type)
        known = composite_type(inside)
        row = row_type(session, inside)
        fields.append(field if row is known else replace(field, row=row))
    same = all(a is b for a, b in zip(fields, composite.fields, strict=True))
    return composite if same else replace(composite, fields=tuple(fields))


def _field(session: CatalogSession, place: int, attribute: Attribute) -> RowField:
    known = builtin.type_by_oid(attribute.type)
    row = row_type(session, attribute.type) if known is None or known.relid else None
    return RowField(place, attribute.name, attribute.type, attribute.typmod, row)
