"""SET, RESET, SHOW, DISCARD and transactions as nodes."""

from __future__ import annotations

import pytest

from pgrepl.sql.nodes import (
    AConst,
    AConstKind,
    AlterSystemStmt,
    ConstraintsSetStmt,
    DefElem,
    DiscardStmt,
    RangeVar,
    TransactionKind,
    TransactionStmt,
    TypeCast,
    TypeName,
    VariableSetKind,
    VariableSetStmt,
    VariableShowStmt,
)
from tests.sql.one import integer, node, plain, string

KIND = VariableSetKind
SERIALIZABLE = DefElem("transaction_isolation", "serializable")
READ_ONLY = DefElem("transaction_read_only", True)


def interval(text: str, *typmods: int) -> TypeCast:
    return TypeCast(string(text), TypeName(("pg_catalog", "interval"), tuple(integer(typmod) for typmod in typmods)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET x = 5", VariableSetStmt(KIND.VALUE, "x", (integer(5),))),
        ("SET x TO -5, +1.5", VariableSetStmt(KIND.VALUE, "x", (integer(-5), AConst(AConstKind.FLOAT, "1.5")))),
        ("SET x = -1.5", VariableSetStmt(KIND.VALUE, "x", (AConst(AConstKind.FLOAT, "-1.5"),))),
        ("SET x = a, 'b', \"C\"", VariableSetStmt(KIND.VALUE, "x", (string("a"), string("b"), string("C")))),
        ("SET x = ON", VariableSetStmt(KIND.VALUE, "x", (string("on"),))),
        ("SET x = off", VariableSetStmt(KIND.VALUE, "x", (string("off"),))),
        ("SET x = TRUE", VariableSetStmt(KIND.VALUE, "x", (string("true"),))),
        ("SET X.Y = DEFAULT", VariableSetStmt(KIND.DEFAULT, "x.y")),
        ("SET LOCAL x = 5", VariableSetStmt(KIND.VALUE, "x", (integer(5),), local=True)),
        ("SET SESSION x = 5", VariableSetStmt(KIND.VALUE, "x", (integer(5),))),
        ("SET x FROM CURRENT", VariableSetStmt(KIND.CURRENT, "x")),
        ("SET TIME ZONE 'UTC'", VariableSetStmt(KIND.VALUE, "timezone", (string("UTC"),))),
        ("SET TIME ZONE utc", VariableSetStmt(KIND.VALUE, "timezone", (string("utc"),))),
        ("SET TIME ZONE -8", VariableSetStmt(KIND.VALUE, "timezone", (integer(-8),))),
        ("SET TIME ZONE INTERVAL '5'", VariableSetStmt(KIND.VALUE, "timezone", (interval("5"),))),
        ("SET TIME ZONE INTERVAL '5' HOUR", VariableSetStmt(KIND.VALUE, "timezone", (interval("5", 1 << 10),))),
        ("SET TIME ZONE INTERVAL(3) '5'", VariableSetStmt(KIND.VALUE, "timezone", (interval("5", 0x7FFF, 3),))),
        ("SET TIME ZONE LOCAL", VariableSetStmt(KIND.DEFAULT, "timezone")),
        ("SET TIME ZONE DEFAULT", VariableSetStmt(KIND.DEFAULT, "timezone")),
        ("SET SCHEMA 's'", VariableSetStmt(KIND.VALUE, "search_path", (string("s"),))),
        ("SET NAMES 'utf8'", VariableSetStmt(KIND.VALUE, "client_encoding", (string("utf8"),))),
        ("SET NAMES", VariableSetStmt(KIND.DEFAULT, "client_encoding")),
        ("SET ROLE joe", VariableSetStmt(KIND.VALUE, "role", (string("joe"),))),
        ("SET LOCAL ROLE NONE", VariableSetStmt(KIND.VALUE, "role", (string("none"),), local=True)),
        ("SET SESSION AUTHORIZATION 'Joe'", VariableSetStmt(KIND.VALUE, "session_authorization", (string("Joe"),))),
        ("SET SESSION AUTHORIZATION DEFAULT", VariableSetStmt(KIND.DEFAULT, "session_authorization")),
        ("SET XML OPTION DOCUMENT", VariableSetStmt(KIND.VALUE, "xmloption", (string("DOCUMENT"),))),
        (
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            VariableSetStmt(KIND.MULTI, "TRANSACTION", (SERIALIZABLE, READ_ONLY)),
        ),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            VariableSetStmt(KIND.MULTI, "SESSION CHARACTERISTICS", (READ_ONLY,)),
        ),
        ("SET TRANSACTION SNAPSHOT 'x'", VariableSetStmt(KIND.MULTI, "TRANSACTION SNAPSHOT", (string("x"),))),
        ("RESET x.y", VariableSetStmt(KIND.RESET, "x.y")),
        ("RESET ALL", VariableSetStmt(KIND.RESET_ALL, None)),
        ("ALTER SYSTEM SET x = 5", AlterSystemStmt(VariableSetStmt(KIND.VALUE, "x", (integer(5),)))),
        ("ALTER SYSTEM RESET a.b", AlterSystemStmt(VariableSetStmt(KIND.RESET, "a.b"))),
        ("ALTER SYSTEM RESET ALL", AlterSystemStmt(VariableSetStmt(KIND.RESET_ALL, None))),
        ("RESET TIME ZONE", VariableSetStmt(KIND.RESET, "timezone")),
        ("RESET TRANSACTION ISOLATION LEVEL", VariableSetStmt(KIND.RESET, "transaction_isolation")),
        ("RESET SESSION AUTHORIZATION", VariableSetStmt(KIND.RESET, "session_authorization")),
        ("RESET ROLE", VariableSetStmt(KIND.RESET, "role")),
    ],
)
def test_set_and_reset(text: str, expected: VariableSetStmt) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SHOW Search_Path", "search_path"),
        ("SHOW x.y", "x.y"),
        ("SHOW ALL", "all"),
        ("SHOW TIME ZONE", "timezone"),
        ("SHOW TRANSACTION ISOLATION LEVEL", "transaction_isolation"),
        ("SHOW SESSION AUTHORIZATION", "session_authorization"),
    ],
)
def test_show(text: str, name: str) -> None:
    assert node(text) == VariableShowStmt(name)


@pytest.mark.parametrize(
    ("text", "target"),
    [("ALL", "ALL"), ("PLANS", "PLANS"), ("SEQUENCES", "SEQUENCES"), ("TEMP", "TEMP"), ("TEMPORARY", "TEMP")],
)
def test_discard(text: str, target: str) -> None:
    assert node(f"DISCARD {text}") == DiscardStmt(target)


def test_set_constraints() -> None:
    assert node("SET CONSTRAINTS ALL DEFERRED") == ConstraintsSetStmt(None, True)
    assert node("SET CONSTRAINTS a, s.b IMMEDIATE") == ConstraintsSetStmt(
        (RangeVar("a", location=16), RangeVar("b", "s", location=19)), False
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN", TransactionStmt(TransactionKind.BEGIN)),
        ("BEGIN WORK READ ONLY", TransactionStmt(TransactionKind.BEGIN, (READ_ONLY,))),
        ("START TRANSACTION", TransactionStmt(TransactionKind.START)),
        (
            "START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY, NOT DEFERRABLE",
            TransactionStmt(TransactionKind.START, (SERIALIZABLE, READ_ONLY, DefElem("transaction_deferrable", False))),
        ),
        ("COMMIT", TransactionStmt(TransactionKind.COMMIT)),
        ("END WORK", TransactionStmt(TransactionKind.COMMIT)),
        ("COMMIT AND CHAIN", TransactionStmt(TransactionKind.COMMIT, chain=True)),
        ("COMMIT AND NO CHAIN", TransactionStmt(TransactionKind.COMMIT)),
        ("ROLLBACK TRANSACTION AND CHAIN", TransactionStmt(TransactionKind.ROLLBACK, chain=True)),
        ("ABORT", TransactionStmt(TransactionKind.ROLLBACK)),
        ("SAVEPOINT a", TransactionStmt(TransactionKind.SAVEPOINT, savepoint="a", location=10)),
        ("RELEASE a", TransactionStmt(TransactionKind.RELEASE, savepoint="a", location=8)),
        ("RELEASE SAVEPOINT a", TransactionStmt(TransactionKind.RELEASE, savepoint="a", location=18)),
        ("ROLLBACK TO a", TransactionStmt(TransactionKind.ROLLBACK_TO, savepoint="a", location=12)),
        ("ROLLBACK WORK TO SAVEPOINT a", TransactionStmt(TransactionKind.ROLLBACK_TO, savepoint="a", location=27)),
        ("PREPARE TRANSACTION 'x'", TransactionStmt(TransactionKind.PREPARE, gid="x", location=20)),
        ("COMMIT PREPARED 'x'", TransactionStmt(TransactionKind.COMMIT_PREPARED, gid="x", location=16)),
        ("ROLLBACK PREPARED 'x'", TransactionStmt(TransactionKind.ROLLBACK_PREPARED, gid="x", location=18)),
    ],
)
def test_transactions(text: str, expected: TransactionStmt) -> None:
    found = node(text)
    assert isinstance(found, TransactionStmt)
    assert (found if expected.location >= 0 else plain(text)) == expected


@pytest.mark.parametrize("level", ["read uncommitted", "read committed", "repeatable read", "serializable"])
def test_isolation_levels(level: str) -> None:
    expected = TransactionStmt(TransactionKind.BEGIN, (DefElem("transaction_isolation", level),))
    assert plain(f"BEGIN ISOLATION LEVEL {level.upper()}") == expected
