"""CREATE, ALTER and DROP of types and domains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.sql.building import build
from pgrepl.sql.building.constraint import Attributes, ColumnCollate, refuse
from pgrepl.sql.building.names import Names, relation_of
from pgrepl.sql.building.table import split
from pgrepl.sql.nodes import (
    AlterDomainKind,
    AlterDomainStmt,
    AlterEnumStmt,
    AlterObjectSchemaStmt,
    AlterOwnerStmt,
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
    DropTypeStmt,
    Expr,
    ObjectType,
    RenameStmt,
    RoleSpec,
    Statement,
    TypeName,
)
from pgrepl.sql.nodes.select import ColumnDefinition

# ------------------------------------------------------------------------------------------------ enums


@build(at=3)
def create_enum(location: int, name: Names, labels: list[str]) -> CreateEnumStmt:
    return CreateEnumStmt(relation_of(name, location), tuple(labels))


@build
def add_enum_value(location: int, name: Names, if_not_exists: bool, label: str) -> AlterEnumStmt:
    return AlterEnumStmt(name, label, if_not_exists=if_not_exists)


@build
def add_enum_value_before(location: int, name: Names, if_not_exists: bool, label: str, neighbor: str) -> AlterEnumStmt:
    return AlterEnumStmt(name, label, neighbor=neighbor, after=False, if_not_exists=if_not_exists)


@build
def add_enum_value_after(location: int, name: Names, if_not_exists: bool, label: str, neighbor: str) -> AlterEnumStmt:
    return AlterEnumStmt(name, label, neighbor=neighbor, if_not_exists=if_not_exists)


@build
def rename_enum_value(location: int, name: Names, old_label: str, label: str) -> AlterEnumStmt:
    return AlterEnumStmt(name, label, old_label=old_label)


@build(at=4)
def drop_enum_value(location: int, name: Names, value: str) -> NoReturn:
    raise PgError("0A000", "dropping an enum value is not implemented", location=location)


# ------------------------------------------------------------------------------------------------ composite types


def _column(definition: ColumnDefinition) -> ColumnDef:
    return ColumnDef(
        definition.name, definition.type_name, definition.collation, definition.location, location=definition.location
    )


@build(at=3)
def create_composite_type(location: int, name: Names, columns: list[ColumnDefinition]) -> CompositeTypeStmt:
    return CompositeTypeStmt(relation_of(name, location), tuple(map(_column, columns)))


@build(at=3)
def alter_composite_type(location: int, name: Names, commands: list[AlterTableCmd]) -> AlterTableStmt:
    return AlterTableStmt(ObjectType.TYPE, relation_of(name, location), tuple(commands))


@build
def add_attribute(location: int, column: ColumnDefinition, cascade: bool) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ADD_COLUMN, column=_column(column), cascade=cascade, location=location)


@build
def drop_attribute(location: int, name: str, cascade: bool) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.DROP_COLUMN, name, cascade=cascade, location=location)


@build
def drop_attribute_if_exists(location: int, name: str, cascade: bool) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.DROP_COLUMN, name, missing_ok=True, cascade=cascade, location=location)


@build(at=3)
def alter_attribute(
    location: int, name: str, _: None, type_name: TypeName, collation: Names | None, cascade: bool
) -> AlterTableCmd:
    column = ColumnDef(name, type_name, collation or (), location=location)
    return AlterTableCmd(AlterTableKind.ALTER_TYPE, name, column=column, cascade=cascade, location=location)


@build(at=3)
def rename_type_attribute(location: int, name: Names, attribute: str, new_name: str, cascade: bool) -> RenameStmt:
    return RenameStmt(
        ObjectType.ATTRIBUTE, new_name, relation_of(name, location), ObjectType.TYPE, attribute, cascade=cascade
    )


@build
def create_range(location: int, name: Names, options: list[DefElem]) -> CreateRangeStmt:
    return CreateRangeStmt(relation_of(name, location), tuple(options))


# ------------------------------------------------------------------------------------------------ domains


@build(at=3)
def create_domain(
    location: int, name: Names, _: None, type_name: TypeName, qualifiers: list[Constraint | ColumnCollate]
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


DomainChange = Callable[[Names], Statement]


@build
def alter_domain(location: int, name: Names, change: DomainChange) -> Statement:
    return change(name)


@build
def domain_set_default(location: int, expr: Expr) -> DomainChange:
    return partial(AlterDomainStmt, kind=AlterDomainKind.SET_DEFAULT, expr=expr)


@build
def domain_drop_default(location: int) -> DomainChange:
    return partial(AlterDomainStmt, kind=AlterDomainKind.SET_DEFAULT)


@build
def domain_drop_not_null(location: int) -> DomainChange:
    return partial(AlterDomainStmt, kind=AlterDomainKind.DROP_NOT_NULL)


@build
def domain_set_not_null(location: int) -> DomainChange:
    return partial(AlterDomainStmt, kind=AlterDomainKind.SET_NOT_NULL)


@build
def domain_add_constraint(location: int, constraint: Constraint) -> DomainChange:
    return partial(AlterDomainStmt, kind=AlterDomainKind.ADD_CONSTRAINT, constraint=constraint)


@build
def domain_drop_constraint(location: int, name: str, cascade: bool) -> DomainChange:
    return partial(AlterDomainStmt, kind=AlterDomainKind.DROP_CONSTRAINT, constraint_name=name, cascade=cascade)


@build
def domain_drop_constraint_if_exists(location: int, name: str, cascade: bool) -> DomainChange:
    return partial(
        AlterDomainStmt, kind=AlterDomainKind.DROP_CONSTRAINT, constraint_name=name, missing_ok=True, cascade=cascade
    )


@build
def domain_validate_constraint(location: int, name: str) -> DomainChange:
    return partial(AlterDomainStmt, kind=AlterDomainKind.VALIDATE_CONSTRAINT, constraint_name=name)


@build
def domain_rename_constraint(location: int, name: str, new_name: str) -> DomainChange:
    return lambda domain: RenameStmt(
        ObjectType.DOMCONSTRAINT, new_name, relation_of(domain, location), ObjectType.DOMAIN, name
    )


# ------------------------------------------------------------------------------------------------ of both


def _of(kind: ObjectType) -> None:
    """The builders of what a type and a domain have in common."""

    def renamed(name: Names, new_name: str) -> RenameStmt:
        return RenameStmt(kind, new_name, relation_of(name, -1))

    def given(name: Names, new_owner: RoleSpec) -> AlterOwnerStmt:
        return AlterOwnerStmt(kind, name, new_owner)

    def moved(name: Names, new_schema: str) -> AlterObjectSchemaStmt:
        return AlterObjectSchemaStmt(kind, relation_of(name, -1), new_schema)

    if kind is ObjectType.TYPE:
        build("rename_type")(lambda location, name, new_name: renamed(name, new_name))
        build("owner_of_type")(lambda location, name, new_owner: given(name, new_owner))
        build("schema_of_type")(lambda location, name, new_schema: moved(name, new_schema))
    else:
        build("rename_domain")(lambda location, new_name: lambda name: renamed(name, new_name))
        build("owner_of_domain")(lambda location, new_owner: lambda name: given(name, new_owner))
        build("schema_of_domain")(lambda location, new_schema: lambda name: moved(name, new_schema))

    build(f"drop_{kind.value}s")(lambda location, types, cascade: DropTypeStmt(kind, tuple(types), False, cascade))
    build(f"drop_{kind.value}s_if_exists")(
        lambda location, types, cascade: DropTypeStmt(kind, tuple(types), True, cascade)
    )
    build(f"comment_on_{kind.value}")(
        lambda location, type_name, text: CommentStmt(kind, type_name.names, text, location, type_name)
    )


_of(ObjectType.TYPE)
_of(ObjectType.DOMAIN)


@build
def comment_on_domain_constraint(location: int, name: str, domain: Names, text: str | None) -> CommentStmt:
    return CommentStmt(ObjectType.DOMCONSTRAINT, (*domain, name), text, location)
