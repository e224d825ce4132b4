"""Operators and collations: CREATE, ALTER, DROP."""

from __future__ import annotations

from typing import NoReturn

from pgrepl.errors import PgError
from pgrepl.sql.build import build
from pgrepl.sql.build.names import Names, relation_of
from pgrepl.sql.nodes import (
    AlterCollationStmt,
    AlterObjectSchemaStmt,
    AlterOperatorStmt,
    AlterOwnerStmt,
    CommentStmt,
    DefElem,
    DefineStmt,
    DropOperatorStmt,
    ObjectType,
    OperatorName,
    RenameStmt,
    RoleSpec,
    TypeName,
)

# ------------------------------------------------------------------------------------------------ operators


@build(at=4)
def missing_operator_argument(location: int, name: Names, type_name: TypeName) -> NoReturn:
    raise PgError(
        "42601",
        "missing argument",
        hint="Use NONE to denote the missing argument of a unary operator.",
        location=location,
    )


@build
def operator_of_two(location: int, name: Names, left: TypeName, right: TypeName) -> OperatorName:
    return OperatorName(name, left, right)


@build
def operator_of_right(location: int, name: Names, right: TypeName) -> OperatorName:
    return OperatorName(name, None, right)


@build
def operator_of_left(location: int, name: Names, left: TypeName) -> OperatorName:
    return OperatorName(name, left, None)


@build
def create_operator(location: int, name: Names, options: list[DefElem]) -> DefineStmt:
    return DefineStmt(ObjectType.OPERATOR, name, tuple(options), location=location)


@build
def alter_operator(location: int, operator: OperatorName, options: list[DefElem]) -> AlterOperatorStmt:
    return AlterOperatorStmt(operator, tuple(options))


@build
def owner_of_operator(location: int, operator: OperatorName, owner: RoleSpec) -> AlterOperatorStmt:
    return AlterOperatorStmt(operator, new_owner=owner)


@build
def schema_of_operator(location: int, operator: OperatorName, schema: str) -> AlterOperatorStmt:
    return AlterOperatorStmt(operator, new_schema=schema)


@build
def drop_operator(location: int, operators: list[OperatorName], cascade: bool) -> DropOperatorStmt:
    return DropOperatorStmt(tuple(operators), False, cascade)


@build
def drop_operator_if_exists(location: int, operators: list[OperatorName], cascade: bool) -> DropOperatorStmt:
    return DropOperatorStmt(tuple(operators), True, cascade)


@build
def comment_on_operator(location: int, operator: OperatorName, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.OPERATOR, operator.name, text, location, operator)


# ------------------------------------------------------------------------------------------------ collations


@build
def create_collation(location: int, name: Names, options: list[DefElem]) -> DefineStmt:
    return DefineStmt(ObjectType.COLLATION, name, tuple(options), location=location)


@build
def create_collation_if_not_exists(location: int, name: Names, options: list[DefElem]) -> DefineStmt:
    return DefineStmt(ObjectType.COLLATION, name, tuple(options), if_not_exists=True, location=location)


@build
def copy_collation(location: int, name: Names, source: Names) -> DefineStmt:
    return DefineStmt(ObjectType.COLLATION, name, source=source, location=location)


@build
def copy_collation_if_not_exists(location: int, name: Names, source: Names) -> DefineStmt:
    return DefineStmt(ObjectType.COLLATION, name, source=source, if_not_exists=True, location=location)


@build
def refresh_collation(location: int, name: Names) -> AlterCollationStmt:
    return AlterCollationStmt(name)


@build
def rename_collation(location: int, name: Names, new_name: str) -> RenameStmt:
    return RenameStmt(ObjectType.COLLATION, new_name, relation_of(name, -1))


@build
def owner_of_collation(location: int, name: Names, owner: RoleSpec) -> AlterOwnerStmt:
    return AlterOwnerStmt(ObjectType.COLLATION, name, owner)


@build
def schema_of_collation(location: int, name: Names, schema: str) -> AlterObjectSchemaStmt:
    return AlterObjectSchemaStmt(ObjectType.COLLATION, relation_of(name, -1), schema)
