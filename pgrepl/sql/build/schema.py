"""Schemas and databases."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.sql.build import build
from pgrepl.sql.nodes import (
    AlterDatabaseStmt,
    CreateDatabaseStmt,
    CreateSchemaStmt,
    DefElem,
    DropDatabaseStmt,
    FloatText,
    RoleSpec,
    Statement,
    VariableSetStmt,
)

# ------------------------------------------------------------------------------------------------ schemas


@frozen
class _Elements:
    statements: tuple[Statement, ...] = ()
    location: int = -1  # of the first


@build
def no_schema_elements(location: int) -> _Elements:
    return _Elements()


@build(at=2)
def schema_elements(location: int, before: _Elements, statement: Statement) -> _Elements:
    return _Elements((*before.statements, statement), before.location if before.statements else location)


@build
def create_schema(location: int, name: str, elements: _Elements) -> CreateSchemaStmt:
    return CreateSchemaStmt(name, elements=elements.statements)


@build
def create_schema_authorization(
    location: int, name: str | None, owner: RoleSpec, elements: _Elements
) -> CreateSchemaStmt:
    return CreateSchemaStmt(name, owner, elements=elements.statements)


@build
def create_schema_if_not_exists(location: int, name: str, elements: _Elements) -> CreateSchemaStmt:
    return _if_not_exists(CreateSchemaStmt(name), elements)


@build
def create_schema_authorization_if_not_exists(
    location: int, name: str | None, owner: RoleSpec, elements: _Elements
) -> CreateSchemaStmt:
    return _if_not_exists(CreateSchemaStmt(name, owner), elements)


def _if_not_exists(statement: CreateSchemaStmt, elements: _Elements) -> CreateSchemaStmt:
    if elements.statements:
        message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements"
        raise PgError("0A000", message, location=elements.location)
    return replace(statement, if_not_exists=True)


# ------------------------------------------------------------------------------------------------ databases


@build
def create_database(location: int, name: str, _: None, options: list[DefElem]) -> CreateDatabaseStmt:
    return CreateDatabaseStmt(name, tuple(options))


@build
def alter_database(location: int, name: str, options: list[DefElem]) -> AlterDatabaseStmt:
    return AlterDatabaseStmt(name, tuple(options))


@build(at=6)
def alter_database_tablespace(location: int, name: str, tablespace: str) -> AlterDatabaseStmt:
    return AlterDatabaseStmt(name, (DefElem("tablespace", tablespace, location),))


@build
def alter_database_set(location: int, name: str, setting: VariableSetStmt) -> AlterDatabaseStmt:
    return AlterDatabaseStmt(name, setting=setting)


@build
def drop_database(location: int, name: str) -> DropDatabaseStmt:
    return DropDatabaseStmt(name)


@build
def drop_database_if_exists(location: int, name: str) -> DropDatabaseStmt:
    return DropDatabaseStmt(name, missing_ok=True)


@build
def drop_database_force(location: int, name: str, _: None, options: list[None]) -> DropDatabaseStmt:
    return DropDatabaseStmt(name, force=True)


@build
def drop_database_if_exists_force(location: int, name: str, _: None, options: list[None]) -> DropDatabaseStmt:
    return DropDatabaseStmt(name, missing_ok=True, force=True)


@build
def database_option(location: int, name: str, _: None, value: str | int | FloatText) -> DefElem:
    return DefElem(name, value, location)


@build
def database_option_default(location: int, name: str, _: None) -> DefElem:
    return DefElem(name, None, location)


@build
def word_connection_limit(location: int, *_: str) -> str:
    return "connection_limit"
