"""DEFERRABLE and its like, behind the constraints of a column."""

from __future__ import annotations

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.sql.location import transform_constraint_attrs
from pgrepl.sql.nodes import ColumnDef, Constraint, ConstrType, CreateStmt
from tests.sql.one import node, plain


def constraints(text: str, *, locations: bool = False) -> tuple[Constraint, ...]:
    statement = (node if locations else plain)(f"CREATE TABLE t (a int {text})")
    assert isinstance(statement, CreateStmt)
    [column] = statement.elements
    assert isinstance(column, ColumnDef)
    return column.constraints


@pytest.mark.parametrize(
    ("text", "deferrable", "deferred"),
    [
        ("UNIQUE", False, False),
        ("UNIQUE DEFERRABLE", True, False),
        ("UNIQUE NOT DEFERRABLE", False, False),
        ("UNIQUE INITIALLY DEFERRED", True, True),
        ("UNIQUE DEFERRABLE INITIALLY DEFERRED", True, True),
        ("UNIQUE INITIALLY DEFERRED DEFERRABLE", True, True),
        ("UNIQUE DEFERRABLE INITIALLY IMMEDIATE", True, False),
        ("UNIQUE INITIALLY IMMEDIATE NOT DEFERRABLE", False, False),
    ],
)
def test_a_constraint_takes_the_words_behind_it(text: str, deferrable: bool, deferred: bool) -> None:
    expected = Constraint(ConstrType.UNIQUE, deferrable=deferrable, initially_deferred=deferred)
    assert transform_constraint_attrs(constraints(text)) == (expected,)


def test_each_constraint_takes_its_own() -> None:
    assert transform_constraint_attrs(
        constraints("NOT NULL PRIMARY KEY DEFERRABLE UNIQUE INITIALLY DEFERRED NULL")
    ) == (
        Constraint(ConstrType.NOTNULL),
        Constraint(ConstrType.PRIMARY, deferrable=True),
        Constraint(ConstrType.UNIQUE, deferrable=True, initially_deferred=True),
        Constraint(ConstrType.NULL),
    )


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("DEFERRABLE", "misplaced DEFERRABLE clause", "DEFERRABLE"),
        ("NOT NULL NOT DEFERRABLE", "misplaced NOT DEFERRABLE clause", "NOT DEFERRABLE"),
        ("DEFAULT 5 INITIALLY DEFERRED", "misplaced INITIALLY DEFERRED clause", "INITIALLY"),
        ("CHECK (true) INITIALLY IMMEDIATE", "misplaced INITIALLY IMMEDIATE clause", "INITIALLY"),
        ("UNIQUE NOT DEFERRABLE DEFERRABLE", "multiple DEFERRABLE/NOT DEFERRABLE clauses not allowed", "DEFERRABLE"),
        (
            "UNIQUE INITIALLY DEFERRED INITIALLY IMMEDIATE",
            "multiple INITIALLY IMMEDIATE/DEFERRED clauses not allowed",
            "INITIALLY",
        ),
        (
            "UNIQUE NOT DEFERRABLE INITIALLY DEFERRED",
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
            "INITIALLY",
        ),
        (
            "UNIQUE INITIALLY DEFERRED NOT DEFERRABLE",
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
            "NOT DEFERRABLE",
        ),
    ],
)
def test_misplaced_words(text: str, message: str, at: str) -> None:
    with pytest.raises(PgError) as caught:
        transform_constraint_attrs(constraints(text, locations=True))
    report = caught.value.report
    assert (report.sqlstate, report.message) == ("42601", message)
    assert report.position == f"CREATE TABLE t (a int {text})".rindex(at) + 1
