"""ALTER TABLE, INDEX, SEQUENCE, VIEW and MATERIALIZED VIEW, and statements that pgrepl does not support but
PostgreSQL's grammar checks.
"""

from __future__ import annotations

from typing import NoReturn

from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.frozen import replace
from pgrepl.sql.building import build, notify, release
from pgrepl.sql.building.constraint import Attributes, deferral, enforcement
from pgrepl.sql.building.names import Names
from pgrepl.sql.nodes import (
    AlterTableCmd,
    AlterTableKind,
    ColumnDef,
    Constraint,
    ConstrType,
    DefElem,
    Expr,
    ObjectType,
    RangeVar,
    Statement,
    TypeName,
)

# ------------------------------------------------------------------------------------------------ statements


@build
def alter(
    location: int, relation: RangeVar, change: Statement, kind: ObjectType, missing_ok: bool = False
) -> Statement:
    """The statement of a change, whose fields `...` are known only now."""
    values = {"relation": relation, "kind": kind, "relation_kind": kind, "missing_ok": missing_ok}
    return replace(change, **{field: each for field, each in values.items() if getattr(change, field, None) is ...})


# ------------------------------------------------------------------------------------------------ columns


@build
def add_column(location: int, column: ColumnDef) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ADD_COLUMN, column.name, column=column, location=location)


@build
def add_column_if_not_exists(location: int, column: ColumnDef) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ADD_COLUMN, column.name, column=column, missing_ok=True, location=location)


@build
def alter_column_number_set_statistics(locations: tuple[int, int], number: int, target: int | None) -> AlterTableCmd:
    if not 0 < number <= 32767:
        raise PgError("22023", "column number must be in range from 1 to 32767", location=locations[1])
    return AlterTableCmd(AlterTableKind.SET_STATISTICS, number=number, value=target, location=locations[0])


@build
def identity_set_option(locations: tuple[int, int], option: DefElem) -> DefElem:
    if option.name in ("as", "restart", "owned_by"):
        message = f'sequence option "{option.name}" not supported here'
        raise PgError("42601", message, location=locations[1])
    return option


@build
def alter_column_type(
    locations: tuple[int, int], name: str, type_name: TypeName, collation: Names | None, using: Expr | None
) -> AlterTableCmd:
    column = ColumnDef(name, type_name, collation or (), location=locations[1])
    return AlterTableCmd(AlterTableKind.ALTER_TYPE, name, column=column, expr=using, location=locations[0])


# ------------------------------------------------------------------------------------------------ constraints


@build
def add_constraint(location: int, constraint: Constraint) -> AlterTableCmd:
    return AlterTableCmd(AlterTableKind.ADD_CONSTRAINT, constraint.name, constraint=constraint, location=location)


@build
def alter_constraint(location: int, name: str, attributes: Attributes) -> AlterTableCmd:
    wanted = Constraint(
        ConstrType.FOREIGN,
        name,
        no_inherit="NO INHERIT" in attributes,
        enforced="NOT ENFORCED" not in attributes,
        attributes=frozenset(attributes),
        newer=enforcement(attributes),
        location=min(attributes.values(), default=(-1, -1))[0],
    )
    if release.get() >= 18 and "NOT VALID" in attributes:
        raise PgError("0A000", "constraints cannot be altered to be NOT VALID", location=wanted.location)
    of_18 = ("NO INHERIT", "NOT ENFORCED", "ENFORCED") if release.get() >= 18 else ("NOT ENFORCED", "ENFORCED")
    constraint = deferral(wanted, attributes, "FOREIGN KEY", but=of_18)
    return AlterTableCmd(AlterTableKind.ALTER_CONSTRAINT, name, constraint=constraint, location=location)


@build
def alter_constraint_inherit(locations: tuple[int, int], name: str) -> AlterTableCmd:
    wanted = Constraint(ConstrType.NOTNULL, name, attributes=frozenset({"INHERIT"}), newer=locations[1])
    return AlterTableCmd(AlterTableKind.ALTER_CONSTRAINT, name, constraint=wanted, location=locations[0])


# --- outside ----------------------------------------------------------------------------------------------------------


@build
def create_assertion(location: int, name: Names, expr: Expr, attributes: Attributes) -> NoReturn:
    raise PgError("0A000", "CREATE ASSERTION is not yet implemented")


@build
def extension_from(location: int, version: str) -> NoReturn:
    raise PgError("0A000", "CREATE EXTENSION ... FROM is no longer supported", location=location)


@build
def policy_permissive(location: int, word: str) -> None:
    if word not in ("permissive", "restrictive"):
        raise PgError(
            "42601",
            f'unrecognized row security option "{word}"',
            hint="Only PERMISSIVE or RESTRICTIVE policies are supported currently.",
            location=location,
        )


@build
def recheck(location: int) -> None:
    message = "RECHECK is no longer required"
    notify(Report("NOTICE", "0A000", message, hint="Update your data type.", position=location + 1))
