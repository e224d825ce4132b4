"""CREATE TYPE … AS (…) (DefineCompositeType), ALTER and DROP of types and domains."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import is_owner
from pgrepl.catalog.facts.depend import Dependency, record_dependency
from pgrepl.catalog.facts.namespace import check_create, schema_for_creation, schema_name, schema_or_none, schema_row
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.privileges import with_new_owner
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.roles import check_can_set_role, is_superuser, resolve_role
from pgrepl.catalog.facts.user_types import is_type_name_taken, rowtype_relation, type_display_name, type_row
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, update
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, PG_CLASS, PG_TYPE, ObjectAddress
from pgrepl.expr.analyse.casts import type_name_text, type_of_name_or_none
from pgrepl.expr.analyse.lookup import multirange_range, type_text
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import (
    AlterObjectSchemaStmt,
    AlterOwnerStmt,
    CompositeTypeStmt,
    DropTypeStmt,
    ObjectType,
    RangeVar,
    RenameStmt,
    TypeName,
)
from pgrepl.sql.statements import command_tag
from pgrepl.statements.deletion import check_may_move, depend_on_schema, drop_objects
from pgrepl.statements.table.columns import NewColumn, finish, refuse_duplicates, set_type
from pgrepl.statements.table.heap import (
    array_type_name,
    check_name_is_free,
    create_relation,
    insert_type,
    namespace_of_new,
)
from pgrepl.statements.type.domain import check_type_owner, domain_constraint, domain_of_parts, type_of_parts
from pgrepl.types.builtin import element_type, type_by_oid
from pgrepl.types.user_types import RowArray

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def _parts(name: RangeVar | None) -> tuple[str, ...]:
    assert name is not None
    return tuple(part for part in (name.catalog, name.schema, name.name) if part is not None)


def _named(session: Session, parts: tuple[str, ...], kind: ObjectType) -> int:
    oid = type_of_parts(session, parts)
    row = type_row(session, oid)
    if kind is ObjectType.DOMAIN and (row is None or row.typtype != "d"):
        raise PgError("42809", f"{type_text(session, oid)} is not a domain")
    return oid


def _altered(session: Session, oid: int) -> tables.pg_type:
    """The row of a user's type, which the role must own."""
    row = type_row(session, oid)
    if isinstance(oid, RowArray):
        raise _is_array(session, oid)
    if row is None:
        table = rowtype_relation(session, oid)
        if table is not None and not table.is_system:
            message = f"{type_text(session, oid)} is a table's row type"
            raise PgError("42809", message, hint="Use ALTER TABLE instead.")
        raise PgError("42501", f"must be owner of type {type_text(session, oid)}")
    check_type_owner(session, row)
    if row.typelem:
        raise _is_array(session, oid)
    return row


def _is_array(session: Session, oid: int) -> PgError:
    return PgError(
        "42809",
        f"cannot alter array type {type_text(session, oid)}",
        hint=f"You can alter type {type_text(session, element_type(oid))}, which will alter the array type as well.",
    )


def rename_type(stmt: RenameStmt, session: Session) -> Result:
    """ALTER TYPE … RENAME TO (RenameType)."""
    row = _altered(session, _named(session, _parts(stmt.relation), stmt.kind))
    _rename(session, row, stmt.new_name)
    if row.typrelid:
        update(session, tables.pg_class, {"oid": row.typrelid}, relname=stmt.new_name)
    return Result(command_tag(stmt))


def _rename(session: Session, row: tables.pg_type, name: str) -> None:
    """As RenameTypeInternal: the array type gets its name anew."""
    check_name_is_free(session, row.typnamespace, name)
    update(session, tables.pg_type, {"oid": row.oid}, typname=name)
    if row.typarray:
        array = array_type_name(session, row.typnamespace, name)
        update(session, tables.pg_type, {"oid": row.typarray}, typname=array)


def rename_domain_constraint(stmt: RenameStmt, session: Session) -> Result:
    row = domain_of_parts(session, _parts(stmt.relation))
    constraint = domain_constraint(session, row, stmt.name)
    if one(session, tables.pg_constraint, contypid=row.oid, conname=stmt.new_name) is not None:
        shown = type_display_name(session, row)
        raise PgError("42710", f'constraint "{stmt.new_name}" for domain {shown} already exists')
    update(session, tables.pg_constraint, {"oid": constraint.oid}, conname=stmt.new_name)
    return Result("ALTER DOMAIN")


def alter_type_owner(stmt: AlterOwnerStmt, session: Session) -> Result:
    new_owner = resolve_role(session, stmt.new_owner)
    row = _altered(session, _named(session, stmt.name, stmt.kind))
    if row.typtype == "m":
        whole = multirange_range(session.type_of(row.oid))
        raise PgError(
            "42809",
            f"cannot alter multirange type {type_text(session, row.oid)}",
            hint=f"You can alter type {type_text(session, whole)}, which will alter the multirange type as well.",
        )
    if row.typowner != new_owner:
        if not is_superuser(session, session.role):
            check_can_set_role(session, session.role, new_owner)
            check_create(session, row.typnamespace, new_owner)
        change_type_owner(session, row, new_owner)
    return Result(command_tag(stmt))


def change_type_owner(session: Session, row: tables.pg_type, new_owner: int) -> None:
    """As AlterTypeOwner_oid: the array type, the relation of a composite type, the multirange of a range go along."""
    acl = with_new_owner(row.typacl, row.typowner, new_owner)
    update(session, tables.pg_type, {"oid": row.oid}, typowner=new_owner, typacl=acl)
    if row.typarray:
        update(session, tables.pg_type, {"oid": row.typarray}, typowner=new_owner)
    if row.typrelid:
        update(session, tables.pg_class, {"oid": row.typrelid}, relowner=new_owner)
    if row.typtype == "r":
        of_range = one(session, tables.pg_range, rngtypid=row.oid)
        multirange = None if of_range is None else type_row(session, of_range.rngmultitypid)
        assert multirange is not None
        change_type_owner(session, multirange, new_owner)


def set_type_schema(stmt: AlterObjectSchemaStmt, session: Session) -> Result:
    """ALTER TYPE … SET SCHEMA (AlterTypeNamespace)."""
    oid = _named(session, _parts(stmt.relation), stmt.kind)
    namespace = schema_for_creation(session, stmt.new_schema)
    row = _altered(session, oid)
    check_may_move(session, row.typnamespace, namespace)
    if namespace != row.typnamespace:
        _move(session, row, namespace)
    return Result(command_tag(stmt))


def _move(session: Session, row: tables.pg_type, namespace: int) -> None:
    if is_type_name_taken(session, namespace, row.typname):
        schema = schema_name(session, namespace)
        raise PgError("42710", f'type "{row.typname}" already exists in schema "{schema}"')
    update(session, tables.pg_type, {"oid": row.oid}, typnamespace=namespace)
    depend_on_schema(session, ObjectAddress(PG_TYPE, row.oid), namespace)
    update(session, tables.pg_constraint, {"contypid": row.oid}, connamespace=namespace)
    if row.typrelid:
        update(session, tables.pg_class, {"oid": row.typrelid}, relnamespace=namespace)
    if row.typarray:
        name = array_type_name(session, namespace, row.typname)
        update(session, tables.pg_type, {"oid": row.typarray}, typnamespace=namespace, typname=name)


# --- drop -------------------------------------------------------------------------------------------------------------


def drop_types(stmt: DropTypeStmt, session: Session) -> Result:
    """DROP TYPE and DROP DOMAIN: all are looked for before any is dropped (RemoveObjects)."""
    refused: list[PgError] = []
    doomed = [oid for name in stmt.types if (oid := _found(session, stmt, name, refused))]
    if refused:
        raise refused[0]
    addresses = list(dict.fromkeys(ObjectAddress(PG_TYPE, int(oid)) for oid in doomed))
    drop_objects(session, addresses, cascade=stmt.cascade)
    return Result(f"DROP {stmt.kind.value.upper()}")


def _found(session: Session, stmt: DropTypeStmt, name: TypeName, refused: list[PgError]) -> int:
    """`refused` takes the error of a type that another object requires, which comes after those of all names."""
    if stmt.missing_ok and len(name.names) > 1 and schema_or_none(session, name.names[-2]) is None:
        session.notice("NOTICE", f'schema "{name.names[-2]}" does not exist, skipping')
        return 0
    oid = type_of_name_or_none(session, name)
    if oid is None:
        if not stmt.missing_ok:
            raise PgError("42704", f'type "{type_name_text(name)}" does not exist')
        session.notice("NOTICE", f'type "{type_name_text(name)}" does not exist, skipping')
        return 0
    kind = type_by_oid(oid)
    if stmt.kind is ObjectType.DOMAIN and (kind is None or kind.typtype != "d"):
        raise PgError("42809", f'"{type_name_text(name)}" is not a domain')
    row = type_row(session, oid)
    if row is not None:
        owner, namespace = row.typowner, row.typnamespace
    else:
        row_type = element_type(oid) if isinstance(oid, RowArray) else oid
        table = rowtype_relation(session, row_type)
        text = type_text(session, oid)
        if row_type != oid:
            refused.append(_required(text, f"type {type_text(session, row_type)}"))
        elif table is not None and not table.is_system:
            refused.append(_required(text, describe_object(session, ObjectAddress(PG_CLASS, table.oid))))
        owner = BOOTSTRAP_SUPERUSER if table is None else table.owner
        namespace = 0 if table is None else table.namespace
    schema = schema_row(session, namespace)
    if not is_owner(session, owner) and (schema is None or not is_owner(session, schema.nspowner)):
        raise PgError("42501", f"must be owner of type {type_text(session, oid)}")
    return oid


def _required(text: str, whole: str) -> PgError:
    return PgError(
        "2BP01", f"cannot drop type {text} because {whole} requires it", hint=f"You can drop {whole} instead."
    )


def create_composite_type(stmt: CompositeTypeStmt, session: Session) -> Result:
    name = stmt.relation.name
    namespace = namespace_of_new(session, stmt.relation)
    check_name_is_free(session, namespace, name)
    columns = []
    for definition in stmt.columns:
        column = NewColumn(definition.name)
        assert definition.type_name is not None
        try:
            set_type(session, column, definition.type_name, definition.collation)
        except PgError as error:
            error.report = replace(error.report, position=None)  # the statement's text is not known there
            raise
        columns.append(column)
    refuse_duplicates(columns)
    finish(session, columns)
    oid = create_relation(session, name, namespace, "c", columns)
    row_type = relation(session, oid).type
    insert_type(session, namespace, name, oid=row_type, typtype="c", typrelid=oid)
    record_dependency(session, ObjectAddress(PG_CLASS, oid), ObjectAddress(PG_TYPE, row_type), Dependency.INTERNAL)
    return Result("CREATE TYPE")
