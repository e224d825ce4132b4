"""CREATE, ALTER and DROP of types and domains."""

from __future__ import annotations

from typing import NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.building import build
from pgrepl.sql.building.constraint import Attributes, ColumnCollate, refuse
from pgrepl.sql.building.names import Names, relation_of
from pgrepl.sql.building.table import split
from pgrepl.sql.nodes.select import ColumnDefinition

# ------------------------------------------------------------------------------------------------ enums


@build
def create_enum(location: int, name: Names, labels: list[str]) -> nodes.CreateEnumStmt:
    return nodes.CreateEnumStmt(relation_of(name, location), tuple(labels))


@build
def drop_enum_value(location: int, name: Names, value: str) -> NoReturn:
    raise PgError("0A000", "dropping an enum value is not implemented", location=location)


# ------------------------------------------------------------------------------------------------ composite types


def _column(definition: ColumnDefinition) -> nodes.ColumnDef:
    return nodes.ColumnDef(
        definition.name, definition.type_name, definition.collation, definition.location, location=definition.location
    )


@build
def create_composite_type(location: int, name: Names, columns: list[ColumnDefinition]) -> nodes.CompositeTypeStmt:
    return nodes.CompositeTypeStmt(relation_of(name, location), tuple(map(_column, columns)))


@build
def alter_composite_type(location: int, name: Names, commands: list[nodes.AlterTableCmd]) -> nodes.AlterTableStmt:
    return nodes.AlterTableStmt(nodes.ObjectType.TYPE, relation_of(name, location), tuple(commands))


@build
def add_attribute(location: int, column: ColumnDefinition, cascade: bool) -> nodes.AlterTableCmd:
    return nodes.AlterTableCmd(
        nodes.AlterTableKind.ADD_COLUMN, column=_column(column), cascade=cascade, location=location
    )


@build
def alter_attribute(
    location: int, name: str, type_name: nodes.TypeName, collation: Names | None, cascade: bool
) -> nodes.AlterTableCmd:
    column = nodes.ColumnDef(name, type_name, collation or (), location=location)
    return nodes.AlterTableCmd(nodes.AlterTableKind.ALTER_TYPE, name, column=column, cascade=cascade, location=location)


@build
def rename_type_attribute(location: int, name: Names, attribute: str, new_name: str, cascade: bool) -> nodes.RenameStmt:
    return nodes.RenameStmt(
        nodes.ObjectType.ATTRIBUTE,
        new_name,
        relation_of(name, location),
        nodes.ObjectType.TYPE,
        attribute,
        cascade=cascade,
    )


@build
def create_range(location: int, name: Names, options: list[nodes.DefElem]) -> nodes.CreateRangeStmt:
    return nodes.CreateRangeStmt(relation_of(name, location), tuple(options))


# ------------------------------------------------------------------------------------------------ domains


@build
def create_domain(
    location: int, name: Names, type_name: nodes.TypeName, qualifiers: list[nodes.Constraint | ColumnCollate]
) -> nodes.CreateDomainStmt:
    constraints, collate = split(qualifiers)
    names, at = ((), -1) if collate is None else (collate.names, collate.location)
    return nodes.CreateDomainStmt(relation_of(name, location), type_name, names, at, constraints)


@build
def domain_check(location: int, expr: nodes.Expr, attributes: Attributes) -> nodes.Constraint:
    refuse(attributes, "CHECK", "DEFERRABLE", "NOT ENFORCED", "ENFORCED")
    return nodes.Constraint(
        nodes.ConstrType.CHECK,
        expr=expr,
        skip_validation="NOT VALID" in attributes,
        no_inherit="NO INHERIT" in attributes,
        location=location,
    )


@build
def domain_not_null(location: int, attributes: Attributes) -> nodes.Constraint:
    refuse(attributes, "NOT NULL", "DEFERRABLE", "NOT VALID", "NOT ENFORCED", "ENFORCED")
    return nodes.Constraint(nodes.ConstrType.NOTNULL, location=location)


@build
def rename_domain_constraint(location: int, domain: Names, name: str, new_name: str) -> nodes.RenameStmt:
    relation = relation_of(domain, location)
    return nodes.RenameStmt(nodes.ObjectType.DOMCONSTRAINT, new_name, relation, nodes.ObjectType.DOMAIN, name)


# ------------------------------------------------------------------------------------------------ of both


@build
def rename_named(location: int, name: Names, new_name: str, kind: nodes.ObjectType) -> nodes.RenameStmt:
    return nodes.RenameStmt(kind, new_name, relation_of(name, -1))


@build
def set_schema_of(location: int, name: Names, schema: str, kind: nodes.ObjectType) -> nodes.AlterObjectSchemaStmt:
    return nodes.AlterObjectSchemaStmt(kind, relation_of(name, -1), schema)


@build
def comment_on_type(
    location: int, type_name: nodes.TypeName, text: str | None, kind: nodes.ObjectType
) -> nodes.CommentStmt:
    return nodes.CommentStmt(kind, type_name.names, text, location, type_name)


@build
def comment_on_domain_constraint(location: int, name: str, domain: Names, text: str | None) -> nodes.CommentStmt:
    return nodes.CommentStmt(nodes.ObjectType.DOMCONSTRAINT, (*domain, name), text, location)
