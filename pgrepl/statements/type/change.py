"""ALTER TYPE and ALTER DOMAIN … RENAME TO, OWNER TO, SET SCHEMA and RENAME CONSTRAINT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.acl import ObjectKind, check_privilege
from pgrepl.catalog.aclchange import with_new_owner
from pgrepl.catalog.classes import PG_TYPE, ObjectAddress
from pgrepl.catalog.namespace import schema_for_creation, schema_name, schema_row
from pgrepl.catalog.roles import check_can_set_role, is_superuser, resolve_role
from pgrepl.catalog.row_types import rowtype_relation
from pgrepl.catalog.store import one, update
from pgrepl.catalog.user_types import is_type_name_taken, type_display_name, type_row
from pgrepl.errors import PgError
from pgrepl.expr.typefacts import multirange_range, type_text
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterObjectSchemaStmt, AlterOwnerStmt, ObjectType, RangeVar, RenameStmt
from pgrepl.sql.tags import command_tag
from pgrepl.statements.in_schema import check_may_move, depend_on_schema
from pgrepl.statements.type.create import array_type_name, check_name_is_free
from pgrepl.statements.type.domain_constraints import domain_constraint
from pgrepl.statements.type.names import check_type_owner, domain_of_parts, type_of_parts
from pgrepl.types.builtin import element_type
from pgrepl.types.row_arrays import RowArray

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


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
    """As RenameType."""
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
    constraint = domain_constraint(session, row, stmt.name or "")
    if one(session, tables.pg_constraint, contypid=row.oid, conname=stmt.new_name) is not None:
        shown = type_display_name(session, row)
        raise PgError("42710", f'constraint "{stmt.new_name}" for domain {shown} already exists')
    update(session, tables.pg_constraint, {"oid": constraint.oid}, conname=stmt.new_name)
    return Result("ALTER DOMAIN")


def alter_type_owner(stmt: AlterOwnerStmt, session: Session) -> Result:
    """As AlterTypeOwner."""
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
            schema = schema_row(session, row.typnamespace)
            assert schema is not None
            check_privilege(session, ObjectKind.SCHEMA, schema, "CREATE", schema.nspname)
        change_type_owner(session, row.oid, new_owner)
    return Result(command_tag(stmt))


def change_type_owner(session: Session, oid: int, new_owner: int) -> None:
    """As AlterTypeOwner_oid: the array type, the relation of a composite type, the multirange of a range go along."""
    row = type_row(session, oid)
    assert row is not None
    acl = with_new_owner(row.typacl, row.typowner, new_owner)
    update(session, tables.pg_type, {"oid": oid}, typowner=new_owner, typacl=acl)
    if row.typarray:
        update(session, tables.pg_type, {"oid": row.typarray}, typowner=new_owner)
    if row.typrelid:
        update(session, tables.pg_class, {"oid": row.typrelid}, relowner=new_owner)
    if row.typtype == "r":
        of_range = one(session, tables.pg_range, rngtypid=oid)
        assert of_range is not None
        change_type_owner(session, of_range.rngmultitypid, new_owner)


def set_type_schema(stmt: AlterObjectSchemaStmt, session: Session) -> Result:
    """As AlterTypeNamespace."""
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
