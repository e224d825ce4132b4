"""CREATE and ALTER PUBLICATION as nodes, and how objects without a key word are understood."""

from __future__ import annotations

import pytest

from pgrepl.sql.nodes import (
    AlterOwnerStmt,
    AlterPublicationAction,
    AlterPublicationStmt,
    CreatePublicationStmt,
    DefElem,
    DropStmt,
    ObjectType,
    PublicationObj,
    PublicationObjKind,
    PublicationTable,
    RangeVar,
    RenameStmt,
    RoleSpec,
    TypeName,
)
from tests.sql.one import column, integer, node, operation, plain

TABLE = PublicationObjKind.TABLE


def table(name: str, schema: str | None = None, **more: object) -> PublicationObj:
    inh = bool(more.pop("inh", True))
    return PublicationObj(TABLE, table=PublicationTable(RangeVar(name, schema, inh=inh), **more))  # type: ignore[arg-type]


def schema(name: str) -> PublicationObj:
    return PublicationObj(PublicationObjKind.TABLES_IN_SCHEMA, name)


CURRENT_SCHEMA = PublicationObj(PublicationObjKind.TABLES_IN_CUR_SCHEMA)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ("TABLE t", (table("t"),)),
        ("TABLE t, u", (table("t"), table("u"))),
        ("TABLE t, s.u, ONLY v, w *", (table("t"), table("u", "s"), table("v", inh=False), table("w"))),
        ("TABLE ONLY (t)", (table("t", inh=False),)),
        ("TABLE t (a, b), u (c)", (table("t", columns=("a", "b")), table("u", columns=("c",)))),
        ("TABLES IN SCHEMA s, r", (schema("s"), schema("r"))),
        ("TABLES IN SCHEMA s, CURRENT_SCHEMA", (schema("s"), CURRENT_SCHEMA)),
        ("TABLES IN SCHEMA CURRENT_SCHEMA, s", (CURRENT_SCHEMA, schema("s"))),
        ("TABLE t, TABLES IN SCHEMA s, r, TABLE u, v", (table("t"), schema("s"), schema("r"), table("u"), table("v"))),
        ('TABLES IN SCHEMA "current_schema"', (schema("current_schema"),)),
    ],
)
def test_an_object_without_a_key_word_continues_the_one_before_it(
    objects: str, expected: tuple[PublicationObj, ...]
) -> None:
    assert plain(f"CREATE PUBLICATION p FOR {objects}") == CreatePublicationStmt("p", expected)
    assert plain(f"ALTER PUBLICATION p ADD {objects}") == AlterPublicationStmt(
        "p", AlterPublicationAction.ADD, expected
    )
    assert plain(f"ALTER PUBLICATION p SET {objects}") == AlterPublicationStmt(
        "p", AlterPublicationAction.SET, expected
    )
    assert plain(f"ALTER PUBLICATION p DROP {objects}") == AlterPublicationStmt(
        "p", AlterPublicationAction.DROP, expected
    )


def test_row_filters_and_column_lists() -> None:
    more_than_5 = operation(column("a"), ">", integer(5))
    assert plain("CREATE PUBLICATION p FOR TABLE t (a) WHERE (a > 5), u WHERE (b)") == CreatePublicationStmt(
        "p", (table("t", columns=("a",), where=more_than_5), table("u", where=column("b")))
    )


def test_everything_of_the_database() -> None:
    assert plain("CREATE PUBLICATION p FOR ALL TABLES WITH (publish = '')") == CreatePublicationStmt(
        "p", for_all_tables=True, options=(DefElem("publish", ""),)
    )
    assert plain("CREATE PUBLICATION p") == CreatePublicationStmt("p")


def test_options_keep_the_kind_of_their_value() -> None:
    assert node("ALTER PUBLICATION p SET (publish = 'insert', x, y = off, z = 5, w = true)") == AlterPublicationStmt(
        "p",
        None,
        options=(
            DefElem("publish", "insert", 25),
            DefElem("x", None, 45),
            DefElem("y", TypeName(("off",), location=52), 48),
            DefElem("z", 5, 57),
            DefElem("w", "true", 64),
        ),
    )


def test_objects_know_where_their_names_stand() -> None:
    statement = node("CREATE PUBLICATION p FOR TABLE t, u, TABLES IN SCHEMA s, CURRENT_SCHEMA")
    assert statement == CreatePublicationStmt(
        "p",
        (
            PublicationObj(TABLE, table=PublicationTable(RangeVar("t", location=31))),
            PublicationObj(TABLE, table=PublicationTable(RangeVar("u", location=34))),
            PublicationObj(PublicationObjKind.TABLES_IN_SCHEMA, "s", location=54),
            PublicationObj(PublicationObjKind.TABLES_IN_CUR_SCHEMA, location=57),
        ),
    )


def test_what_any_object_can_do() -> None:
    assert plain("ALTER PUBLICATION p OWNER TO CURRENT_USER") == AlterOwnerStmt(
        ObjectType.PUBLICATION, ("p",), RoleSpec(word="current_user")
    )
    assert plain("ALTER PUBLICATION p RENAME TO q") == RenameStmt(ObjectType.PUBLICATION, "q", name="p")
    assert plain("DROP PUBLICATION IF EXISTS p, q CASCADE") == DropStmt(
        ObjectType.PUBLICATION, (("p",), ("q",)), missing_ok=True, cascade=True
    )
