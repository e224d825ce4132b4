"""A new relation of any kind in the system tables: its row in pg_class, its columns, their defaults (heap.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pgrepl.catalog import statistics, store
from pgrepl.catalog.acl import ObjectKind
from pgrepl.catalog.classes import CATALOG_NAMESPACE, PG_CLASS, PG_NAMESPACE, TOAST_NAMESPACE, ObjectAddress
from pgrepl.catalog.default_privileges import user_default_acl
from pgrepl.catalog.depend import record_dependency
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attrdef, pg_attribute, pg_class
from pgrepl.errors import PgError
from pgrepl.expr.tree import Expr
from pgrepl.statements.dependencies import record_column_dependencies
from pgrepl.statements.table.columns import (
    NewColumn,
    attribute_values,
    check_names_and_types,
    column_of_type,
)
from pgrepl.statements.table.defaults import cook_default, default_values, record_default_dependencies
from pgrepl.statements.type.create import check_name_is_free


def create_relation(
    session: Session,
    name: str,
    namespace: int,
    kind: str,
    columns: Sequence[NewColumn],
    *,
    persistence: str = "p",
    owner: int = 0,
    access_method: int = 0,
    options: Sequence[str] = (),
    has_index: bool = False,
) -> int:
    """Rows for a new table, view or sequence, its defaults cooked and stored, as heap_create_with_catalog does."""
    check_names_and_types(session, columns, kind)
    if oid_in_schema(session, namespace, name) is not None:
        raise PgError("42P07", f'relation "{name}" already exists')
    if kind != "S":
        check_name_is_free(session, namespace, name, _SAME_NAME)
    if namespace in (CATALOG_NAMESPACE, TOAST_NAMESPACE):
        raise PgError(
            "42501",
            f'permission denied to create "{schema_name(session, namespace)}.{name}"',
            detail="System catalog modifications are currently disallowed.",
        )
    oid = store.new_oid(session)
    row_type = 0
    if kind != "S":
        store.new_oid(session)  # of the array over the row type
        row_type = store.new_oid(session)
    insert_class(
        session,
        oid,
        relname=name,
        relnamespace=namespace,
        reltype=row_type,
        relowner=owner or session.role,
        relam=access_method,
        relhasindex=has_index,
        relpersistence=persistence,
        relkind=kind,
        relnatts=len(columns),
        relreplident="n" if kind in ("v", "S", "c") else "d",
        relacl=_acl(session, kind, owner or session.role, namespace),
        reloptions=list(options) or None,
    )
    values = [attribute_values(oid, number, column) for number, column in enumerate(columns, 1)]
    defaults = _defaults(session, oid, columns)
    for number in defaults:
        values[number - 1]["atthasdef"] = True
    store.insert_many(session, pg_attribute, values)
    if kind != "c":  # the type of a composite type's relation needs the schema
        record_dependency(session, ObjectAddress(PG_CLASS, oid), ObjectAddress(PG_NAMESPACE, namespace))
    needs = [(number, column.type, column.collation) for number, column in enumerate(columns, 1)]
    record_column_dependencies(session, oid, needs)
    if defaults:
        rows = [default_values(session, oid, number, expr) for number, expr in defaults.items()]
        store.insert_many(session, pg_attrdef, rows)
        for row, expr in zip(rows, defaults.values(), strict=True):
            record_default_dependencies(
                session, row["oid"], oid, row["adnum"], expr, columns[row["adnum"] - 1].generated
            )
    return oid


def _acl(session: Session, kind: str, owner: int, namespace: int) -> list[str] | None:
    """The privileges on a new relation: a composite type's has none."""
    if kind == "c":
        return None
    return user_default_acl(session, ObjectKind.SEQUENCE if kind == "S" else ObjectKind.TABLE, owner, namespace)


_SAME_NAME = (
    "A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing"
    " type."
)
_BARE: dict[str, Any] = {
    "reltype": 0,
    "relam": 0,
    "relhasindex": False,
    "relchecks": 0,
    "relhassubclass": False,
    "relrowsecurity": False,
    "relforcerowsecurity": False,
    "relreplident": "n",
    "relispartition": False,
    "relispopulated": True,
    "relacl": None,
    "reloptions": None,
    "relpartbound": None,
}


def insert_class(session: Session, oid: int, **values: Any) -> None:
    """The row of a new relation in pg_class (InsertPgClassTuple). A rollback drops its counters, as
    pgstat_create_transactional has it: the OID may be another relation's then."""
    database = session.database_oid
    store.insert(session, pg_class, **{**_BARE, "datid": database, "oid": oid, **values})
    counters = statistics.counters(session.catalog)
    session.transaction.undo.append(lambda: counters.forget(statistics.RELATION, database, oid))


def _defaults(session: Session, oid: int, columns: Sequence[NewColumn]) -> dict[int, Expr]:
    """The defaults by column number: those of parents first, then the table's own."""
    found = {n: c.cooked_default for n, c in enumerate(columns, 1) if c.cooked_default is not None}
    raw = [(n, c) for n, c in enumerate(columns, 1) if c.raw_default is not None]
    if raw:
        rel = _provisional(session, oid, columns)
        for number, column in raw:
            assert column.raw_default is not None
            expr = cook_default(
                session, rel, column.raw_default, column.name, column.type, column.typmod, column.generated
            )
            if expr is not None:
                found[number] = expr
    return found


def _provisional(session: Session, oid: int, columns: Sequence[NewColumn]) -> Relation:
    """The relation as it will be once its columns are stored, for the analysis of expressions."""
    from pgrepl.catalog.relation import Attribute

    attributes = tuple(
        Attribute(n, c.name, c.type, c.typmod, c.not_null, c.collation, generated=c.generated, ndims=c.ndims)
        for n, c in enumerate(columns, 1)
    )
    return replace(relation(session, oid), attributes=attributes)


def simple_column(name: str, type_: int, *, not_null: bool = False, collation: int = 0, typmod: int = -1) -> NewColumn:
    return column_of_type(name, type_, typmod, collation, not_null=not_null)
