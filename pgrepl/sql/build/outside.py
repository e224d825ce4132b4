"""Statements that pgrepl does not support but PostgreSQL's grammar checks; their syntax errors are reported here."""

from __future__ import annotations

from typing import NoReturn

from pgrepl.errors import PgError, Report
from pgrepl.sql.build import build, notify
from pgrepl.sql.build.constraint import Attributes, ColumnCollate, refuse
from pgrepl.sql.build.names import Names
from pgrepl.sql.build.table import split
from pgrepl.sql.nodes import Constraint, Expr, TypeName, UnsupportedStmt


@build
def create_domain(
    location: int, name: Names, _: None, type_name: TypeName, qualifiers: list[Constraint | ColumnCollate]
) -> UnsupportedStmt:
    split(qualifiers)
    return UnsupportedStmt("CREATE DOMAIN", location)


@build
def domain_check(location: int, expr: Expr, attributes: Attributes) -> None:
    refuse(attributes, "CHECK", "DEFERRABLE")


@build
def domain_not_null(location: int, attributes: Attributes) -> None:
    refuse(attributes, "NOT NULL", "DEFERRABLE", "NOT VALID")


@build(at=4)
def drop_enum_value(location: int, name: Names, value: str) -> NoReturn:
    raise PgError("0A000", "dropping an enum value is not implemented", location=location)


@build
def create_assertion(location: int, name: Names, expr: Expr, attributes: Attributes) -> NoReturn:
    raise PgError("0A000", "CREATE ASSERTION is not yet implemented")


@build
def extension_from(location: int, version: str) -> NoReturn:
    raise PgError("0A000", "CREATE EXTENSION ... FROM is no longer supported", location=location)


@build(at=2)
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
