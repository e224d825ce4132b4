"""CREATE, ALTER and DROP of types and domains."""

from __future__ import annotations

from typing import NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.constraint import Attributes, ColumnCollate, refuse
from pgrepl.sql.building.names import Names, relation_of
from pgrepl.sql.building.table import split
from pgrepl.sql.nodes import (
    AlterObjectSchemaStmt,
    AlterTableCmd,
    AlterTableKind,
    AlterTableStmt,
    ColumnDef,
    CommentStmt,
    CompositeTypeStmt,
    Constraint,
    ConstrType,
    CreateDomainStmt,
    CreateEnumStmt,
    CreateRangeStmt,
    DefElem,
    Expr,
    ObjectType,
    RenameStmt,
    TypeName,
)
from pgrepl.sql.nodes.select import ColumnDefinition

# ------------------------------------------------------------------------------------------------ enums


@build
def create_enum(location: int, name: Names, labels: list[str]) -> CreateEnumStmt:
    return CreateEnumStmt(relation_of(name, location), tuple(labels))


@build
def drop_enum_value(location: int, name: Names, value: str) -> NoReturn:
    raise PgError("0A000", "dropping an enum value is not implemented", location=location)


# ------------------------------------------------------------------------------------------------ composite types


def _column(definition: ColumnDefinition) -> ColumnDef:
    return ColumnDef(
        definition.name, definition.type_name, definition.collation, definition.location, location=definition.location
    )


@build
def create_composite_type(location: int, name: Names, columns: list[ColumnDefinition]) -> CompositeTypeStmt:
    return CompositeTypeStmt(relation_of(name, location), tuple(map(_column, columns)))


@build
def alter_composite_type(location: int, name: Names, commands: list[AlterTableCmd]) -> AlterTableStmt:
    return AlterTableStmt(ObjectType.TYPE, relation_of(name, location), tuple(commands))


@build
def add_attribute(location: int, column: ColumnDefinition, cascade: bool) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ADD_COLUMN, column=_column(column), cascade=cascade, location=location)


@build
def alter_attribute(
    location: int, name: str, type_name: TypeName, collation: Names | None, cascade: bool
) -> AlterTableCmd:
    column = ColumnDef(name, type_name, collation or (), location=location)
    return AlterTableCmd(AlterTableKind.ALTER_TYPE, name, column=column, cascade=cascade, location=location)


@build
def rename_type_attribute(location: int, name: Names, attribute: str, new_name: str, cascade: bool) -> RenameStmt:
    return RenameStmt(
        ObjectType.ATTRIBUTE, new_name, relation_of(name, location), ObjectType.TYPE, attribute, cascade=cascade
    )


@build
def create_range(location: int, name: Names, options: list[DefElem]) -> CreateRangeStmt:
    return CreateRangeStmt(relation_of(name, location), tuple(options))


# ------------------------------------------------------------------------------------------------ domains


@build
def create_domain(
    location: int, name: Names, type_name: TypeName, qualifiers: list[Constraint | ColumnCollate]
) -> CreateDomainStmt:
    constraints, collate = split(qualifiers)
    names, at = ((), -1) if collate is None else (collate.names, collate.location)
    return CreateDomainStmt(relation_of(name, location), type_name, names, at, constraints)


@build
def domain_check(location: int, expr: Expr, attributes: Attributes) -> Constraint:
    refuse(attributes, "CHECK", "DEFERRABLE", "NOT ENFORCED", "ENFORCED")
    return Constraint(
        ConstrType.CHECK,
        expr=expr,
        skip_validation="NOT VALID" in attributes,
        no_inherit="NO INHERIT" in attributes,
        location=location,
    )


@build
def domain_not_null(location: int, attributes: Attributes) -> Constraint:
    refuse(attributes, "NOT NULL", "DEFERRABLE", "NOT VALID", "NOT ENFORCED", "ENFORCED")
    return Constraint(ConstrType.NOTNULL, location=location)


@build
def rename_domain_constraint(location: int, domain: Names, name: str, new_name: str) -> RenameStmt:
    relation = relation_of(domain, location)
    return RenameStmt(ObjectType.DOMCONSTRAINT, new_name, relation, ObjectType.DOMAIN, name)


# ------------------------------------------------------------------------------------------------ of both


@build
def rename_named(location: int, name: Names, new_name: str, kind: ObjectType) -> RenameStmt:
    return RenameStmt(kind, new_name, relation_of(name, -1))


@build
def set_schema_of(location: int, name: Names, schema: str, kind: ObjectType) -> AlterObjectSchemaStmt:
    return AlterObjectSchemaStmt(kind, relation_of(name, -1), schema)


@build
def comment_on_type(location: int, type_name: TypeName, text: str | None, kind: ObjectType) -> CommentStmt:
    return CommentStmt(kind, type_name.names, text, location, type_name)


@build
def comment_on_domain_constraint(location: int, name: str, domain: Names, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.DOMCONSTRAINT, (*domain, name), text, location)
