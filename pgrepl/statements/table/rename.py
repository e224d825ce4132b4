"""RENAME of relations, columns and constraints; SET SCHEMA."""

from __future__ import annotations

from pgrepl.catalog import store
from pgrepl.catalog.acl import check_relation_owner
from pgrepl.catalog.classes import PG_CLASS, PG_NAMESPACE, TOAST_NAMESPACE
from pgrepl.catalog.constraint import constraint_named, constraint_of_index, constraint_row
from pgrepl.catalog.indexes import indexes
from pgrepl.catalog.inheritance import children
from pgrepl.catalog.namespace import is_temporary, schema_name
from pgrepl.catalog.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.relkind import not_supported
from pgrepl.catalog.sequences import sequences_of
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attribute, pg_class, pg_constraint, pg_depend
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterObjectSchemaStmt, RangeVar, RenameStmt
from pgrepl.sql.tags import command_tag
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, name_is_free
from pgrepl.statements.table.constraints import already_exists, update_constraint
from pgrepl.statements.table.creation import creation_schema
from pgrepl.statements.table.inherit import inheritors_with_parents
from pgrepl.statements.table.permissions import check_alterable, refuse_catalog, refuse_owned_sequence
from pgrepl.statements.table.position import named_relation, named_relation_or_none


def _named(session: Session, name: RangeVar | None, *, missing_ok: bool) -> Relation | None:
    assert name is not None
    if not missing_ok:
        return named_relation(session, name)
    found = named_relation_or_none(session, name)
    if found is None:
        session.notice("NOTICE", f'relation "{name.name}" does not exist, skipping')
    return found


# --- relations ----------------------------------------------------------------------------------------------------


def rename(stmt: RenameStmt, session: Session) -> Result:
    rel = _named(session, stmt.relation, missing_ok=stmt.missing_ok)
    if rel is not None and stmt.relation is not None:
        check_alterable(session, rel, stmt.kind, stmt.relation.name, rename=True)
        rename_relation(session, rel, stmt.new_name)
    return Result(command_tag(stmt))


def rename_relation(session: Session, rel: Relation, name: str) -> None:
    """As RenameRelationInternal does: the constraint of an index is renamed with it."""
    if oid_in_schema(session, rel.namespace, name) is not None:
        raise PgError("42P07", f'relation "{name}" already exists')
    store.update(session, pg_class, {"oid": rel.oid}, relname=name)
    if rel.kind in ("i", "I"):
        constraint = constraint_of_index(session, rel.oid)
        if constraint:
            _rename_row(session, constraint, name)


def _rename_row(session: Session, oid: int, name: str) -> None:
    """As RenameConstraintById does."""
    row = constraint_row(session, oid)
    if constraint_named(session, row.conrelid, name) is not None:
        raise already_exists(name, relation(session, row.conrelid).name)
    update_constraint(session, oid, conname=name)


# --- columns ------------------------------------------------------------------------------------------------------


def rename_column_of(stmt: RenameStmt, session: Session) -> Result:
    rel = _named(session, stmt.relation, missing_ok=stmt.missing_ok)
    if rel is not None and stmt.relation is not None:
        _check_renameable(session, rel)
        _rename_column(session, rel, stmt.name or "", stmt.new_name, recurse=stmt.relation.inh)
    return Result(command_tag(stmt))


def _check_renameable(session: Session, rel: Relation) -> None:
    """As renameatt_check does."""
    if rel.kind not in ("r", "v", "m", "c", "i", "I", "f", "p"):
        raise PgError("42809", f'cannot rename columns of relation "{rel.name}"', detail=not_supported(rel.kind))
    check_relation_owner(session, rel)
    refuse_catalog(rel, rel.name)


def _rename_column(
    session: Session, rel: Relation, old: str, new: str, *, recurse: bool, expected_parents: int = 0
) -> None:
    """As renameatt_internal does."""
    _check_renameable(session, rel)
    if recurse:
        for oid, parents in inheritors_with_parents(session, rel.oid).items():
            if oid != rel.oid:
                child = relation(session, oid)
                _rename_column(session, child, old, new, recurse=False, expected_parents=parents)
    elif expected_parents == 0 and children(session, rel.oid):
        raise PgError("42P16", f'inherited column "{old}" must be renamed in child tables too')
    attribute = rel.attribute(old)
    if attribute is None:
        if old in SYSTEM_COLUMNS and rel.kind in ("r", "p", "m", "f"):
            raise PgError("0A000", f'cannot rename system column "{old}"')
        raise PgError("42703", f'column "{old}" does not exist')
    if attribute.inhcount > expected_parents:
        raise PgError("42P16", f'cannot rename inherited column "{old}"')
    name_is_free(session, rel, new)
    store.update(session, pg_attribute, {"attrelid": rel.oid, "attnum": attribute.num}, attname=new)


# --- constraints --------------------------------------------------------------------------------------------------


def rename_constraint_of(stmt: RenameStmt, session: Session) -> Result:
    rel = _named(session, stmt.relation, missing_ok=stmt.missing_ok)
    if rel is not None and stmt.relation is not None:
        _check_renameable(session, rel)
        _rename_constraint(session, rel, stmt.name or "", stmt.new_name, recurse=stmt.relation.inh)
    return Result(command_tag(stmt))


def _rename_constraint(
    session: Session, rel: Relation, old: str, new: str, *, recurse: bool, expected_parents: int = 0
) -> None:
    """As rename_constraint_internal does."""
    _check_renameable(session, rel)
    row = constraint_named(session, rel.oid, old)
    if row is None:
        raise PgError("42704", f'constraint "{old}" for table "{rel.name}" does not exist')
    if row.contype == "c" and not row.connoinherit:
        if recurse:
            for oid, parents in inheritors_with_parents(session, rel.oid).items():
                if oid != rel.oid:
                    child = relation(session, oid)
                    _rename_constraint(session, child, old, new, recurse=False, expected_parents=parents)
        elif expected_parents == 0 and children(session, rel.oid):
            raise PgError("42P16", f'inherited constraint "{old}" must be renamed in child tables too')
        if row.coninhcount > expected_parents:
            raise PgError("42P16", f'cannot rename inherited constraint "{old}"')
    if row.conindid and row.contype in ("p", "u", "x"):
        rename_relation(session, relation(session, row.conindid), new)
    else:
        _rename_row(session, row.oid, new)


# --- SET SCHEMA ---------------------------------------------------------------------------------------------------


def set_schema(stmt: AlterObjectSchemaStmt, session: Session) -> Result:
    rel = _named(session, stmt.relation, missing_ok=stmt.missing_ok)
    if rel is not None:
        check_alterable(session, rel, stmt.kind, stmt.relation.name)
        _move(session, rel, stmt.relation.name, stmt.new_schema)
    return Result(command_tag(stmt))


def _move(session: Session, rel: Relation, name: str, schema: str) -> None:
    """As AlterTableNamespace does: indexes, owned sequences and constraints move along."""
    if rel.kind in ("i", "I"):
        raise PgError(
            "42809",
            f'cannot change schema of index "{name}"',
            hint="Change the schema of the table instead.",
        )
    if rel.kind == "S":
        refuse_owned_sequence(session, rel, "cannot move an owned sequence into another schema")
    namespace, _ = creation_schema(session, RangeVar(rel.name, schema), location=False)
    if is_temporary(schema_name(session, namespace)) or is_temporary(rel.schema):
        raise PgError("0A000", "cannot move objects into or out of temporary schemas")
    if TOAST_NAMESPACE in (namespace, rel.namespace):
        raise PgError("0A000", "cannot move objects into or out of TOAST schema")
    if namespace == rel.namespace:
        return
    move_relation(session, rel, namespace)


def move_relation(session: Session, rel: Relation, namespace: int) -> None:
    _move_class(session, rel, namespace)
    for index in indexes(session, rel.oid):
        _move_class(session, relation(session, index.indexrelid), namespace)
    for sequence, _, _ in sequences_of(session, rel.oid):
        _move_class(session, relation(session, sequence), namespace)
    store.update(session, pg_constraint, {"conrelid": rel.oid, "connamespace": rel.namespace}, connamespace=namespace)


def _move_class(session: Session, rel: Relation, namespace: int) -> None:
    if oid_in_schema(session, namespace, rel.name) is not None:
        raise PgError("42P07", f'relation "{rel.name}" already exists in schema "{schema_name(session, namespace)}"')
    store.update(session, pg_class, {"oid": rel.oid}, relnamespace=namespace)
    where = {
        "datid": session.database_oid,
        "classid": PG_CLASS,
        "objid": rel.oid,
        "objsubid": 0,
        "refclassid": PG_NAMESPACE,
        "refobjid": rel.namespace,
    }
    store.update(session, pg_depend, where, refobjid=namespace)
