"""Statements that pgrepl does not support but PostgreSQL's grammar checks; their syntax errors are reported here."""

from __future__ import annotations

from typing import NoReturn

from pgrepl.errors import PgError, Report
from pgrepl.sql.build import build, notify
from pgrepl.sql.build.constraint import Attributes
from pgrepl.sql.build.names import Names
from pgrepl.sql.nodes import Expr


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
