"""CREATE SCHEMA with its elements, RENAME, OWNER TO and DROP of schemas (schemacmds.c)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import ObjectKind, check_may_create, check_owner
from pgrepl.catalog.facts.namespace import schema_by_name, schema_or_none
from pgrepl.catalog.facts.privileges import EVERYWHERE, user_default_acl, with_new_owner
from pgrepl.catalog.facts.roles import check_can_set_role, is_reserved_name, resolve_role, role_name
from pgrepl.catalog.session.context import LOCAL_USERID_CHANGE
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import insert, new_oid, update
from pgrepl.catalog.store.system import PG_NAMESPACE, ObjectAddress
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import (
    AlterOwnerStmt,
    CreateSchemaStmt,
    CreateSeqStmt,
    CreateStmt,
    CreateTrigStmt,
    DropStmt,
    GrantStmt,
    IndexStmt,
    RangeVar,
    RenameStmt,
    Statement,
    UnsupportedStmt,
    ViewStmt,
)
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.index.reindex import create_index
from pgrepl.statements.roles.grant import execute_grant
from pgrepl.statements.sequence import create_sequence
from pgrepl.statements.table.create import create_table
from pgrepl.statements.table.trigger import create_trigger
from pgrepl.statements.view import create_view

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def create_schema(stmt: CreateSchemaStmt, session: Session) -> Result:
    owner = session.role if stmt.authorization is None else resolve_role(session, stmt.authorization)
    name = role_name(session, owner) if stmt.name is None else stmt.name
    check_may_create(session)
    check_can_set_role(session, session.role, owner)
    _check_not_reserved(name)
    if schema_or_none(session, name) is not None:
        if not stmt.if_not_exists:
            raise PgError("42P06", f'schema "{name}" already exists')
        session.notice("NOTICE", f'schema "{name}" already exists, skipping', sqlstate="42P06")
        return Result("CREATE SCHEMA")
    insert(
        session,
        tables.pg_namespace,
        datid=session.database_oid,
        oid=new_oid(session),
        nspname=name,
        nspowner=owner,
        nspacl=user_default_acl(session, ObjectKind.SCHEMA, owner, EVERYWHERE),
    )
    _run_elements(session, stmt, name, owner)
    return Result("CREATE SCHEMA")


def _check_not_reserved(name: str) -> None:
    if is_reserved_name(name):
        raise PgError(
            "42939", f'unacceptable schema name "{name}"', detail='The prefix "pg_" is reserved for system schemas.'
        )


def _run_elements(session: Session, stmt: CreateSchemaStmt, name: str, owner: int) -> None:
    """The objects of the schema, made by its owner with the schema in front of the search path."""
    elements = _ordered(stmt.elements, name)
    if not elements:
        return
    settings = session.settings
    before = settings.begin()
    path = settings.get("search_path").lstrip()
    settings.set("search_path", quote_identifier(name) + (f", {path}" if path else ""), local=True)
    try:
        with session.acting_as(owner, LOCAL_USERID_CHANGE):
            for element in elements:
                _run_element(element, session)
    finally:
        settings.restore(before)


def _run_element(element: Statement, session: Session) -> None:
    if isinstance(element, CreateSeqStmt):
        create_sequence(element, session)
    elif isinstance(element, CreateStmt):
        create_table(element, session)
    elif isinstance(element, ViewStmt):
        create_view(element, session)
    elif isinstance(element, IndexStmt):
        create_index(element, session)
    elif isinstance(element, CreateTrigStmt):
        create_trigger(element, session)
    elif isinstance(element, GrantStmt):
        execute_grant(element, session)


_ORDER = (CreateSeqStmt, CreateStmt, ViewStmt, IndexStmt, CreateTrigStmt, GrantStmt)


def _ordered(elements: tuple[Statement, ...], schema: str) -> list[Statement]:
    """As transformCreateSchemaStmtElements: by kind, so that nothing refers forwards."""
    for element in elements:
        if isinstance(element, UnsupportedStmt):
            raise unsupported(element.what)
    placed = [_in_schema(element, schema) for element in elements]
    return [element for kind in _ORDER for element in placed if isinstance(element, kind)]


def _in_schema(element: Statement, schema: str) -> Statement:
    if isinstance(element, CreateSeqStmt | CreateStmt | ViewStmt | IndexStmt | CreateTrigStmt):
        return replace(element, relation=_placed(element.relation, schema))
    return element


def _placed(name: RangeVar, schema: str) -> RangeVar:
    if name.schema is not None and name.schema != schema:
        raise PgError(
            "42P15", f"CREATE specifies a schema ({name.schema}) different from the one being created ({schema})"
        )
    return replace(name, schema=schema)


def rename_schema(stmt: RenameStmt, session: Session) -> Result:
    """ALTER SCHEMA … RENAME TO (RenameSchema)."""
    row = schema_by_name(session, stmt.name)
    if schema_or_none(session, stmt.new_name) is not None:
        raise PgError("42P06", f'schema "{stmt.new_name}" already exists')
    check_owner(session, "schema", stmt.name, row.nspowner)
    check_may_create(session)
    _check_not_reserved(stmt.new_name)
    update(session, tables.pg_namespace, {"datid": row.datid, "oid": row.oid}, nspname=stmt.new_name)
    return Result("ALTER SCHEMA")


def alter_schema_owner(stmt: AlterOwnerStmt, session: Session) -> Result:
    new_owner = resolve_role(session, stmt.new_owner)
    change_schema_owner(session, schema_by_name(session, stmt.name[-1]), new_owner)
    return Result("ALTER SCHEMA")


def change_schema_owner(session: Session, row: tables.pg_namespace, new_owner: int) -> None:
    """As AlterSchemaOwner_internal: here the current user, not the new owner, needs CREATE on the database."""
    if row.nspowner == new_owner:
        return
    check_owner(session, "schema", row.nspname, row.nspowner)
    check_can_set_role(session, session.role, new_owner)
    check_may_create(session)
    update(
        session,
        tables.pg_namespace,
        {"datid": row.datid, "oid": row.oid},
        nspowner=new_owner,
        nspacl=with_new_owner(row.nspacl, row.nspowner, new_owner),
    )


def drop_schema(stmt: DropStmt, session: Session) -> Result:
    """DROP SCHEMA: all are looked for before any is dropped (RemoveObjects)."""
    doomed: list[ObjectAddress] = []
    for parts in stmt.names:
        name = parts[-1]
        row = schema_or_none(session, name)
        if row is None:
            if not stmt.missing_ok:
                raise PgError("3F000", f'schema "{name}" does not exist')
            session.notice("NOTICE", f'schema "{name}" does not exist, skipping')
            continue
        check_owner(session, "schema", name, row.nspowner)
        doomed.append(ObjectAddress(PG_NAMESPACE, row.oid))
    drop_objects(session, doomed, cascade=stmt.cascade)
    return Result("DROP SCHEMA")
