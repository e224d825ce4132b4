"""Types of users and of relations' rows, from pg_type, pg_enum, pg_constraint and pg_attribute; names for the reg*
types.

`session.type_of(oid)` gives an OID that knows its type's description (types/user_types.py).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import ObjectKind, has_privilege
from pgrepl.catalog.facts.namespace import schema_name, search_path
from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import NOT_NULL, one, rows
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.types import builtin
from pgrepl.types.builtin import PgType, type_by_name, type_by_oid
from pgrepl.types.lake.forms import is_row_type, row_type_in
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.style import RowField, RowType
from pgrepl.types.user_types import Field, Label, RowArray, TypeData, UserType, UserTypes, composite_type

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession


def rowtype_relation(session: CatalogSession, typoid: int) -> Relation | None:
    """The relation that has this row type."""
    type_ = builtin.type_by_oid(typoid)
    if type_ is None and typoid >= FIRST_USER_OID:
        type_ = builtin.type_by_oid(session.type_of(typoid))
    if type_ is not None:
        return relation(session, type_.relid) if type_.relid else None
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
        rel = rowtype_relation(session, typoid)
        if rel is None:
            return None
        known = session.derived[key] = RowType(
            tuple([_field(session, place, a) for place, a in enumerate(rel.attributes) if not a.dropped]),
            len(rel.attributes),
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


class ObjectNames:
    """The lookup of a session's TextStyle (`pgrepl.types.style.Lookup`)."""

    def __init__(self, session: CatalogSession) -> None:
        self._session = session

    def oid_of(self, typoid: int, text: str) -> int:
        return self._session.object_oid(typoid, text)

    def text_of(self, typoid: int, oid: int) -> str:
        return self._session.object_name(typoid, oid)

    def row_type(self, typoid: int) -> RowType | None:

        return row_type(self._session, typoid)


# --- user types -------------------------------------------------------------------------------------------------------


UserTypeRow = tables.pg_type


def described(session: CatalogSession, oid: int) -> int:
    """The OID with the description of its type, if that is a user's type."""
    if oid < FIRST_USER_OID or isinstance(oid, (UserType, RowArray)):
        return oid
    known = user_types(session).type_of(oid)
    if isinstance(known, (UserType, RowArray)) or rowtype_row(session, oid + 1) is None:
        return known
    return RowArray(oid)


def rowtype_row(session: CatalogSession, oid: int) -> tables.pg_class | None:
    """The relation with this row type, which is no composite type's."""
    row = one(session, tables.pg_class, datid=session.database_oid, reltype=oid)
    return row if row is not None and row.relkind != "c" else None


def user_types(session: CatalogSession) -> UserTypes:
    known: UserTypes | None = session.derived.get(("user_types",))
    if known is None:
        known = session.derived["user_types",] = _read(session)
    return known


def types_labelled_as(session: CatalogSession, then: CatalogSession) -> UserTypes | None:
    """The user's types as they are, but enums with the labels that they had then, and with those that are gone; None:
    nothing is different."""
    past, now = user_types(then), user_types(session)
    labels = {oid: type_data.labels for oid, type_data in past.data.items() if type_data.labels}
    if past.data.keys() <= now.data.keys() and all(
        _names(now.data[oid].labels) >= _names(labels[oid]) for oid in labels
    ):
        return None
    known = {**past.data, **now.data}
    return UserTypes(
        tuple([type_data._replace(labels=labels.get(oid, type_data.labels)) for oid, type_data in known.items()])
    )


def _names(labels: Sequence[Label]) -> set[tuple[int, str]]:
    return {(label.oid, label.name) for label in labels}


def type_row(session: CatalogSession, oid: int) -> tables.pg_type | None:
    return one(session, tables.pg_type, oid=oid)


def type_rows(session: CatalogSession) -> list[tables.pg_type]:
    """The user's types of the database, with the arrays over them."""
    return rows(session, tables.pg_type, datid=session.database_oid)


def type_in_schema(session: CatalogSession, namespace: int, name: str) -> tables.pg_type | None:
    return one(session, tables.pg_type, datid=session.database_oid, typnamespace=namespace, typname=name)


def type_display_name(session: CatalogSession, row: tables.pg_type) -> str:
    """The quoted name, with the schema if the unqualified name does not find it."""
    if type_is_visible(session, row):
        return quote_identifier(row.typname)
    return quote_qualified(schema_name(session, row.typnamespace), row.typname)


def type_is_visible(session: CatalogSession, row: tables.pg_type) -> bool:
    """Does its unqualified name find it? (TypeIsVisible)"""
    for namespace in search_path(session):
        if namespace == row.typnamespace:
            return True
        if is_type_name_taken(session, namespace, row.typname):
            return False
    return False


def is_type_name_taken(session: CatalogSession, namespace: int, name: str) -> bool:
    """Is there a type with this name in the schema, be it built in, a user's, or a relation's row type?"""
    if type_by_name(name, schema_name(session, namespace)) or type_in_schema(session, namespace, name):
        return True
    row = one(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace, relname=name)
    return row is not None and bool(row.reltype)


def check_usage(session: CatalogSession, oid: int) -> None:
    """An error unless the role has USAGE on a user's type, or on the element type of an array (aclcheck_error_type)."""
    row = type_row(session, oid)
    if row is not None and row.typelem:
        row = type_row(session, row.typelem)
    if row is not None and not has_privilege(session, ObjectKind.TYPE, row, "USAGE"):
        raise PgError("42501", f"permission denied for type {type_display_name(session, row)}")


def labels_of(session: CatalogSession, enum: int) -> list[tables.pg_enum]:
    """The labels of an enum, in its order."""
    return sorted(rows(session, tables.pg_enum, enumtypid=enum), key=lambda row: row.enumsortorder)


def domain_constraints(session: CatalogSession, domain: int) -> list[tables.pg_constraint]:
    """The constraints of a domain, in the order of their names."""
    return sorted(rows(session, tables.pg_constraint, contypid=domain), key=lambda row: row.conname)


def _read(session: CatalogSession) -> UserTypes:
    types = rows(session, tables.pg_type, datid=session.database_oid)
    if not types:
        return UserTypes(())
    labels: dict[int, list[tables.pg_enum]] = defaultdict(list)
    if any(row.typtype == "e" for row in types):
        for label in rows(session, tables.pg_enum):
            labels[label.enumtypid].append(label)
    checks: dict[int, list[tables.pg_constraint]] = defaultdict(list)
    if any(row.typtype == "d" for row in types):
        for check in rows(session, tables.pg_constraint, contypid=NOT_NULL, datid=session.database_oid):
            checks[check.contypid or 0].append(check)
    by_oid = {row.oid: row for row in types}
    ranges: dict[int, tuple[int, ...]] = {}
    if any(row.typtype == "r" for row in types):
        for range_row in rows(session, tables.pg_range, rngtypid=set(by_oid)):
            of_range = (
                range_row.rngtypid, range_row.rngsubtype, range_row.rngmultitypid, range_row.rngcollation,
                range_row.rngsubopc, range_row.rngcanonical, range_row.rngsubdiff,
            )  # fmt: skip
            ranges[range_row.rngtypid] = ranges[range_row.rngmultitypid] = of_range
    data = []
    for row in types:
        of_enum = sorted(labels[row.oid], key=lambda label: label.enumsortorder)
        of_domain = sorted(checks[row.oid], key=lambda check: check.conname)
        fields, width = _fields(session, row.typrelid) if row.typrelid else ((), 0)
        data.append(
            TypeData(
                _pg_type(session, row, by_oid, ranges),
                tuple([Label(label.enumlabel, label.oid, label.storedlabel) for label in of_enum]),
                tuple([(c.conname, json.dumps(c.conbin, sort_keys=True)) for c in of_domain if c.contype == "c"]),
                fields,
                width,
                tuple([label.enumlabel for label in of_enum if label.oid in session.transaction.uncommitted_labels]),
                ranges.get(row.oid, ()),
            )
        )
    return UserTypes(tuple(data))


def _fields(session: CatalogSession, relid: int) -> tuple[tuple[Field, ...], int]:
    columns = sorted(rows(session, tables.pg_attribute, attrelid=relid), key=lambda a: a.attnum)
    fields = [Field(a.attnum - 1, a.attname, a.atttypid, a.atttypmod) for a in columns if not a.attisdropped]
    return tuple(fields), len(columns)


def _pg_type(
    session: CatalogSession, row: tables.pg_type, by_oid: dict[int, tables.pg_type], ranges: dict[int, tuple[int, ...]]
) -> PgType:
    common: dict[str, Any] = {
        "oid": row.oid, "name": row.typname, "schema": schema_name(session, row.typnamespace), "typtype": row.typtype,
        "preferred": False, "relid": row.typrelid, "elem": row.typelem, "array": row.typarray, "modin": "-",
        "modout": "-", "analyze": "-", "notnull": row.typnotnull, "basetype": row.typbasetype,
        "typmod": row.typtypmod, "ndims": row.typndims, "collation": session.collation_of(row.typcollation),
        "delim": ",", "subscript": "-",
    }  # fmt: skip
    if row.typtype == "e":
        return PgType(
            **common, len=4, byval=True, category="E", align="i", storage="p", input="enum_in", output="enum_out",
            receive="enum_recv", send="enum_send",
        )  # fmt: skip
    if row.typtype == "c":
        return PgType(
            **common, len=-1, byval=False, category="C", align="d", storage="x", input="record_in",
            output="record_out", receive="record_recv", send="record_send",
        )  # fmt: skip
    if row.typtype in ("r", "m"):
        word = "range" if row.typtype == "r" else "multirange"
        subtype = _known(session, ranges[row.oid][1], by_oid, ranges)
        return PgType(
            **{**common, "analyze": f"{word}_typanalyze"}, len=-1, byval=False, category="R",
            align="d" if subtype.align == "d" else "i", storage="x", input=f"{word}_in", output=f"{word}_out",
            receive=f"{word}_recv", send=f"{word}_send",
        )  # fmt: skip
    if row.typtype == "d":
        base = _known(session, row.typbasetype, by_oid, ranges)
        return base._replace(
            oid=row.oid, name=row.typname, schema=common["schema"], typtype="d", preferred=False, relid=0, elem=0,
            array=row.typarray, modin="-", modout="-", analyze="-", notnull=row.typnotnull, basetype=row.typbasetype,
            typmod=row.typtypmod, ndims=row.typndims, collation=session.collation_of(row.typcollation), subscript="-",
            input="domain_in", receive="domain_recv",
        )  # fmt: skip
    element = _known(session, row.typelem, by_oid, ranges)
    align = "d" if element.align == "d" else "i"
    return PgType(
        **{**common, "delim": element.delim, "modin": element.modin, "modout": element.modout,
           "analyze": "array_typanalyze", "subscript": "array_subscript_handler"},
        len=-1, byval=False, category="A", align=align, storage="x", input="array_in", output="array_out",
        receive="array_recv", send="array_send",
    )  # fmt: skip


def _known(
    session: CatalogSession, oid: int, by_oid: dict[int, tables.pg_type], ranges: dict[int, tuple[int, ...]]
) -> PgType:
    """The row of a type that another one is made of."""
    if oid in by_oid:
        return _pg_type(session, by_oid[oid], by_oid, ranges)
    row = type_by_oid(oid)
    assert row is not None
    return row
