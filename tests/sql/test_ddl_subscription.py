"""CREATE, ALTER and DROP SUBSCRIPTION as nodes."""

from __future__ import annotations

import pytest

from pgrepl.sql.nodes import (
    AlterOwnerStmt,
    AlterSubscriptionKind,
    AlterSubscriptionStmt,
    CreateSubscriptionStmt,
    DefElem,
    DropSubscriptionStmt,
    ObjectType,
    RenameStmt,
    RoleSpec,
    Statement,
    TypeName,
)
from tests.sql.one import plain

KIND = AlterSubscriptionKind
REFRESH = (DefElem("refresh", "false"),)


def test_create() -> None:
    text = """CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p, "Q"
              WITH (slot_name = NONE, streaming = parallel, enabled, two_phase = 1, origin = 'any')"""
    assert plain(text) == CreateSubscriptionStmt(
        "s",
        "dbname=x",
        ("p", "Q"),
        (
            DefElem("slot_name", "none"),
            DefElem("streaming", TypeName(("parallel",))),
            DefElem("enabled"),
            DefElem("two_phase", 1),
            DefElem("origin", "any"),
        ),
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("CONNECTION 'x'", AlterSubscriptionStmt(KIND.CONNECTION, "s", "x")),
        ("SET (a = 5)", AlterSubscriptionStmt(KIND.OPTIONS, "s", options=(DefElem("a", 5),))),
        ("ENABLE", AlterSubscriptionStmt(KIND.ENABLED, "s", options=(DefElem("enabled", True),))),
        ("DISABLE", AlterSubscriptionStmt(KIND.ENABLED, "s", options=(DefElem("enabled", False),))),
        ("REFRESH PUBLICATION", AlterSubscriptionStmt(KIND.REFRESH, "s")),
        (
            "REFRESH PUBLICATION WITH (copy_data)",
            AlterSubscriptionStmt(KIND.REFRESH, "s", options=(DefElem("copy_data"),)),
        ),
        ("SET PUBLICATION p, q", AlterSubscriptionStmt(KIND.SET_PUBLICATION, "s", publications=("p", "q"))),
        (
            "ADD PUBLICATION p WITH (refresh = false)",
            AlterSubscriptionStmt(KIND.ADD_PUBLICATION, "s", publications=("p",), options=REFRESH),
        ),
        (
            "DROP PUBLICATION p WITH (refresh = false)",
            AlterSubscriptionStmt(KIND.DROP_PUBLICATION, "s", publications=("p",), options=REFRESH),
        ),
        ("SKIP (lsn = '0/1A')", AlterSubscriptionStmt(KIND.SKIP, "s", options=(DefElem("lsn", "0/1A"),))),
        ("SKIP (lsn = NONE)", AlterSubscriptionStmt(KIND.SKIP, "s", options=(DefElem("lsn", "none"),))),
        ("OWNER TO joe", AlterOwnerStmt(ObjectType.SUBSCRIPTION, ("s",), RoleSpec("joe"))),
        ("RENAME TO t", RenameStmt(ObjectType.SUBSCRIPTION, "t", name="s")),
    ],
)
def test_alter(change: str, expected: Statement) -> None:
    assert plain(f"ALTER SUBSCRIPTION s {change}") == expected


def test_drop() -> None:
    assert plain("DROP SUBSCRIPTION s") == DropSubscriptionStmt("s")
    assert plain("DROP SUBSCRIPTION IF EXISTS s CASCADE") == DropSubscriptionStmt("s", missing_ok=True, cascade=True)
