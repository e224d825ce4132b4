"""A new relation of any kind in the system tables (heap.c): pg_class, columns, defaults, and a type's row
(TypeCreate).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pgrepl.catalog.facts.acl import ObjectKind
from pgrepl.catalog.facts.depend import Dependency, record_dependency
from pgrepl.catalog.facts.namespace import schema_for_creation, schema_name
from pgrepl.catalog.facts.privileges import user_default_acl
from pgrepl.catalog.facts.relation import Attribute, Relation, oid_in_schema, relation
from pgrepl.catalog.facts.user_types import is_type_name_taken, type_in_schema
from pgrepl.catalog.session import statistics
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.store import insert, new_oid, update
from pgrepl.catalog.store.system import (
    CATALOG_NAMESPACE,
    PG_ATTRDEF,
    PG_CLASS,
    PG_NAMESPACE,
    PG_TYPE,
    TOAST_NAMESPACE,
    ObjectAddress,
)
from pgrepl.catalog.store.tables import pg_attrdef, pg_attribute, pg_class
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import transform
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import Scope, scope_of_relation
from pgrepl.expr.rewrite.inline import is_immutable
from pgrepl.expr.tree import Const, Expr, Var
from pgrepl.expr.walk import functions_used, location_of, walk
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.nodes import CoercionForm, RangeVar
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.dependencies import record_collations, record_column_dependencies, record_expression_dependencies
from pgrepl.statements.table.columns import (
    NewColumn,
    attribute_values,
    check_names_and_types,
    column_of_type,
    set_attribute,
)
from pgrepl.types.oids import FIRST_USER_OID


def cook_default(
    session: Session, relation: Relation, raw: nodes.Expr, name: str, type_: int, typmod: int, generated: str
) -> Expr | None:
    """A default as it will be stored, of the column's type; None if it is just NULL. As cookDefault does."""
    scope = scope_of_relation(session, relation)
    expr = transform(scope, raw, ExprKind.GENERATED if generated else ExprKind.DEFAULT)
    if generated:
        _refuse_generated_references(relation, expr)
        if not is_immutable(session, expr):
            raise PgError("42P17", "generation expression is not immutable")
    if generated == "v":
        _refuse_of_users(expr)
    typed = assign_collations(coerce_default(session, scope, expr, name, type_, typmod))
    if not generated and isinstance(typed, Const) and typed.value is None:
        return None
    return typed


def coerce_default(session: Session, scope: Scope, expr: Expr, name: str, type_: int, typmod: int) -> Expr:
    typed = coerce_to_target(scope, expr, expr.type, type_, typmod, Context.ASSIGNMENT, CoercionForm.IMPLICIT_CAST, -1)
    if typed is None:
        wanted, given = lookup.type_text(session, type_), lookup.type_text(session, expr.type)
        raise PgError(
            "42804",
            f'column "{name}" is of type {wanted} but default expression is of type {given}',
            hint="You will need to rewrite or cast the expression.",
        )
    return typed


def _refuse_generated_references(relation: Relation, expr: Expr) -> None:
    """A generated column is computed from ordinary columns only, as check_nested_generated requires."""
    for node in walk(expr):
        if not isinstance(node, Var):
            continue
        if node.attnum == 0:
            raise PgError(
                "42P17",
                "cannot use whole-row variable in column generation expression",
                detail="This would cause the generated column to depend on its own value.",
                location=node.location,
            )
        attribute = relation.attribute_by_number(node.attnum)
        if attribute is not None and attribute.generated:
            raise PgError(
                "42P17",
                f'cannot use generated column "{attribute.name}" in column generation expression',
                detail="A generated column cannot reference another generated column.",
                location=node.location,
            )


def _refuse_of_users(expr: Expr) -> None:
    """A virtual column calls no functions of users, and has no values of their types, as whoever reads it would act for
    its owner (check_virtual_generated_security)."""
    for node in walk(expr):
        functions = functions_used(node)
        what = "function" if any(oid >= FIRST_USER_OID for oid in functions) else "type"
        if what == "function" or node.type >= FIRST_USER_OID:
            detail = f"Virtual generated columns that make use of user-defined {what}s are not yet supported."
            message = f"generation expression uses user-defined {what}"
            raise PgError("0A000", message, detail=detail, location=location_of(node))


def default_values(session: Session, relid: int, attnum: int, expr: Expr) -> dict[str, Any]:
    """The pg_attrdef row of a default."""
    return {"oid": store.new_oid(session), "adrelid": relid, "adnum": attnum, "adbin": stored.to_json(expr)}


def record_default_dependencies(
    session: Session, oid: int, relid: int, attnum: int, expr: Expr, generated: str
) -> None:
    self = ObjectAddress(PG_ATTRDEF, oid)
    column = ObjectAddress(PG_CLASS, relid, attnum)
    record_dependency(session, self, column, Dependency.INTERNAL if generated else Dependency.AUTO)
    record_expression_dependencies(session, self, expr, relid)


def store_default(session: Session, relid: int, attnum: int, expr: Expr, generated: str) -> None:
    """Give an existing column a default, as StoreAttrDefault does."""
    values = default_values(session, relid, attnum, expr)
    store.insert(session, pg_attrdef, **values)
    set_attribute(session, relid, attnum, atthasdef=True)
    record_default_dependencies(session, values["oid"], relid, attnum, expr, generated)


def remove_default(session: Session, relid: int, attnum: int) -> None:
    """Remove the default of a column, if it has one (RemoveAttrDefault)."""
    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    if row is not None:
        drop_objects(session, [ObjectAddress(PG_ATTRDEF, row.oid)], cascade=False)


# --- create -----------------------------------------------------------------------------------------------------------


_MOST_BYTES = 63  # of a name


def namespace_of_new(session: Session, name: RangeVar) -> int:
    """The schema of a new type, as QualifiedNameGetCreationNamespace finds it."""
    if name.catalog is not None and name.catalog != session.database.name:
        dotted = f"{name.catalog}.{name.schema}.{name.name}"
        raise PgError("0A000", f"cross-database references are not implemented: {dotted}")
    return schema_for_creation(session, name.schema)


def check_name_is_free(session: Session, namespace: int, name: str, hint: str | None = None) -> None:
    """A new type needs a name of its own; an array type in its way gets another one (moveArrayTypeName)."""
    if not is_type_name_taken(session, namespace, name):
        return
    row = type_in_schema(session, namespace, name)
    if row is None or not row.typelem:
        raise PgError("42710", f'type "{name}" already exists', hint=hint)
    update(session, tables.pg_type, {"oid": row.oid}, typname=array_type_name(session, namespace, name))


def array_type_name(session: Session, namespace: int, name: str) -> str:
    """An unused name for the array over a type (makeArrayTypeName)."""
    number = 0
    while True:
        suffix = f"_{number}" if number else ""
        room = _MOST_BYTES - 1 - len(suffix)
        array_name = "_" + name.encode()[:room].decode(errors="ignore") + suffix
        if not is_type_name_taken(session, namespace, array_name):
            return array_name
        number += 1


_PLAIN: dict[str, Any] = {
    "typrelid": 0, "typelem": 0, "typarray": 0, "typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0,
    "typcollation": 0, "typdefaultbin": None, "typacl": None,
}  # fmt: skip


def insert_type(session: Session, namespace: int, name: str, *, oid: int = 0, owner: int = 0, **values: Any) -> int:
    """A type and the array over it; returns the type's OID."""
    if namespace in (CATALOG_NAMESPACE, TOAST_NAMESPACE):
        raise PgError(
            "42501",
            f'permission denied to create "{schema_name(session, namespace)}.{name}"',
            detail="System catalog modifications are currently disallowed.",
        )
    oid = oid or new_oid(session)
    array = new_oid(session)
    common = {
        **_PLAIN, "datid": session.database_oid, "typnamespace": namespace, "typowner": owner or session.role,
    }  # fmt: skip
    acl = user_default_acl(session, ObjectKind.TYPE, common["typowner"], namespace)
    values = {**values, "oid": oid, "typname": name, "typarray": array, "typacl": acl}
    insert(session, tables.pg_type, **{**common, **values})
    insert(
        session,
        tables.pg_type,
        **{
            **common, "oid": array, "typname": array_type_name(session, namespace, name), "typtype": "b",
            "typelem": oid, "typcollation": values.get("typcollation", 0),
        },
    )  # fmt: skip
    address = ObjectAddress(PG_TYPE, oid)
    record_dependency(session, address, ObjectAddress(PG_NAMESPACE, namespace))
    record_dependency(session, ObjectAddress(PG_TYPE, array), address, Dependency.INTERNAL)
    for typoid in (oid, array):
        record_collations(session, ObjectAddress(PG_TYPE, typoid), [values.get("typcollation", 0)])
    return oid


# --- heap -------------------------------------------------------------------------------------------------------------


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
    defaults = {n: c.cooked_default for n, c in enumerate(columns, 1) if c.cooked_default is not None}
    raw = [(n, c) for n, c in enumerate(columns, 1) if c.raw_default is not None]
    if raw:
        rel = _provisional(session, oid, columns)
        for number, column in raw:
            assert column.raw_default is not None
            expr = cook_default(
                session, rel, column.raw_default, column.name, column.type, column.typmod, column.generated
            )
            if expr is not None:
                defaults[number] = expr
    return defaults


def _provisional(session: Session, oid: int, columns: Sequence[NewColumn]) -> Relation:
    """The relation as it will be once its columns are stored, for the analysis of expressions."""
    attributes = tuple(
        Attribute(n, c.name, c.type, c.typmod, c.not_null, c.collation, generated=c.generated, ndims=c.ndims)
        for n, c in enumerate(columns, 1)
    )
    return replace(relation(session, oid), attributes=attributes)


def simple_column(name: str, type_: int, *, not_null: bool = False, collation: int = 0, typmod: int = -1) -> NewColumn:
    return column_of_type(name, type_, typmod, collation, not_null=not_null)
