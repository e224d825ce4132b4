"""Roles, membership and privileges as nodes."""

from __future__ import annotations

import pytest

from pgrepl.sql.nodes import (
    AccessPriv,
    AlterDefaultPrivilegesStmt,
    AlterRoleSetStmt,
    AlterRoleStmt,
    CreateRoleStmt,
    DefElem,
    DropOwnedStmt,
    DropRoleStmt,
    GrantRoleStmt,
    GrantStmt,
    ObjectType,
    ReassignOwnedStmt,
    RenameStmt,
    RoleSpec,
    RoutineName,
    Statement,
    VariableSetKind,
    VariableSetStmt,
)
from tests.sql.one import node, plain, string

JOE = RoleSpec("joe")
PUBLIC = RoleSpec(word="public")
SELECT = AccessPriv("select")
ROLE_OPTIONS = [
    ("SUPERUSER", DefElem("superuser", True)),
    ("NOSUPERUSER", DefElem("superuser", False)),
    ("CREATEDB", DefElem("createdb", True)),
    ("NOCREATEDB", DefElem("createdb", False)),
    ("CREATEROLE", DefElem("createrole", True)),
    ("NOCREATEROLE", DefElem("createrole", False)),
    ("INHERIT", DefElem("inherit", True)),
    ("NOINHERIT", DefElem("inherit", False)),
    ("LOGIN", DefElem("canlogin", True)),
    ("NOLOGIN", DefElem("canlogin", False)),
    ("REPLICATION", DefElem("isreplication", True)),
    ("NOREPLICATION", DefElem("isreplication", False)),
    ("BYPASSRLS", DefElem("bypassrls", True)),
    ("NOBYPASSRLS", DefElem("bypassrls", False)),
    ("CONNECTION LIMIT -1", DefElem("connectionlimit", -1)),
    ("PASSWORD 'x'", DefElem("password", "x")),
    ("ENCRYPTED PASSWORD 'x'", DefElem("password", "x")),
    ("PASSWORD NULL", DefElem("password")),
    ("VALID UNTIL 'x'", DefElem("validUntil", "x")),
]
NEW_ROLE_OPTIONS = [
    ("SYSID 5", DefElem("sysid", 5)),
    ("IN ROLE joe, a", DefElem("addroleto", (JOE, RoleSpec("a")))),
    ("IN GROUP joe", DefElem("addroleto", (JOE,))),
    ("ROLE joe", DefElem("rolemembers", (JOE,))),
    ("USER joe", DefElem("rolemembers", (JOE,))),
    ("ADMIN joe, CURRENT_USER", DefElem("adminmembers", (JOE, RoleSpec(word="current_user")))),
]


@pytest.mark.parametrize(("text", "option"), ROLE_OPTIONS + NEW_ROLE_OPTIONS)
def test_options_of_a_new_role(text: str, option: DefElem) -> None:
    assert plain(f"CREATE ROLE joe WITH {text}") == CreateRoleStmt("ROLE", "joe", (option,))


@pytest.mark.parametrize(("text", "option"), ROLE_OPTIONS)
def test_options_of_a_role(text: str, option: DefElem) -> None:
    assert plain(f"ALTER ROLE joe {text}") == AlterRoleStmt(JOE, (option,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE USER joe", CreateRoleStmt("USER", "joe")),
        ("CREATE GROUP joe", CreateRoleStmt("GROUP", "joe")),
        ("ALTER USER SESSION_USER LOGIN", AlterRoleStmt(RoleSpec(word="session_user"), (DefElem("canlogin", True),))),
        ("ALTER GROUP joe ADD USER a", AlterRoleStmt(JOE, (DefElem("rolemembers", (RoleSpec("a"),)),), 1)),
        ("ALTER GROUP joe DROP USER a", AlterRoleStmt(JOE, (DefElem("rolemembers", (RoleSpec("a"),)),), -1)),
        (
            "ALTER ROLE joe IN DATABASE d SET x TO 'y'",
            AlterRoleSetStmt(JOE, "d", VariableSetStmt(VariableSetKind.VALUE, "x", (string("y"),))),
        ),
        ("ALTER ROLE ALL RESET x", AlterRoleSetStmt(None, None, VariableSetStmt(VariableSetKind.RESET, "x"))),
        ("ALTER USER joe RENAME TO jim", RenameStmt(ObjectType.ROLE, "jim", name="joe")),
        ("DROP ROLE joe, CURRENT_ROLE", DropRoleStmt((JOE, RoleSpec(word="current_role")))),
        ("DROP GROUP IF EXISTS joe", DropRoleStmt((JOE,), missing_ok=True)),
        ("REASSIGN OWNED BY a, b TO joe", ReassignOwnedStmt((RoleSpec("a"), RoleSpec("b")), JOE)),
        ("DROP OWNED BY joe CASCADE", DropOwnedStmt((JOE,), cascade=True)),
    ],
)
def test_roles(text: str, expected: Statement) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("text", "options", "action"),
    [
        (
            "FOR ROLE joe IN SCHEMA s, r GRANT ALL ON ROUTINES TO joe WITH GRANT OPTION",
            (DefElem("roles", (JOE,)), DefElem("schemas", ("s", "r"))),
            GrantStmt(True, "defaults", ObjectType.FUNCTION, (), (), (JOE,), grant_option=True),
        ),
        (
            "REVOKE GRANT OPTION FOR create ON SCHEMAS FROM joe CASCADE",
            (),
            GrantStmt(
                False,
                "defaults",
                ObjectType.SCHEMA,
                (),
                (AccessPriv("create"),),
                (JOE,),
                grant_option=True,
                cascade=True,
            ),
        ),
    ],
)
def test_default_privileges(text: str, options: tuple[DefElem, ...], action: GrantStmt) -> None:
    assert plain(f"ALTER DEFAULT PRIVILEGES {text}") == AlterDefaultPrivilegesStmt(options, action)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GRANT a TO joe", GrantRoleStmt(True, (("a", (), 6),), (JOE,))),
        (
            "GRANT a, b TO joe WITH ADMIN OPTION, INHERIT FALSE GRANTED BY CURRENT_USER",
            GrantRoleStmt(
                True,
                (("a", (), 6), ("b", (), 9)),
                (JOE,),
                (DefElem("admin", True), DefElem("inherit", False)),
                RoleSpec(word="current_user"),
            ),
        ),
        ("REVOKE a FROM joe CASCADE", GrantRoleStmt(False, (("a", (), 7),), (JOE,), cascade=True)),
        (
            "REVOKE ADMIN OPTION FOR a FROM joe",
            GrantRoleStmt(False, (("a", (), 24),), (JOE,), (DefElem("admin", False),)),
        ),
        ("GRANT select (x) TO joe", GrantRoleStmt(True, (("select", ("x",), 6),), (JOE,))),
    ],
)
def test_membership(text: str, expected: GrantRoleStmt) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("target", "kind", "objects"),
    [
        ("t, s.u, d.s.v", ObjectType.TABLE, (("t",), ("s", "u"), ("d", "s", "v"))),
        ("TABLE t", ObjectType.TABLE, (("t",),)),
        ("SEQUENCE s.q", ObjectType.SEQUENCE, (("s", "q"),)),
        ("SCHEMA s, r", ObjectType.SCHEMA, (("s",), ("r",))),
        ("DATABASE d", ObjectType.DATABASE, (("d",),)),
        ("FOREIGN DATA WRAPPER w", ObjectType.FDW, (("w",),)),
        ("FOREIGN SERVER w", ObjectType.FOREIGN_SERVER, (("w",),)),
        ("LANGUAGE l", ObjectType.LANGUAGE, (("l",),)),
        ("TYPE s.ty", ObjectType.TYPE, (("s", "ty"),)),
        ("DOMAIN d", ObjectType.DOMAIN, (("d",),)),
        ("LARGE OBJECT 5, 9999999999", ObjectType.LARGEOBJECT, (("5",), ("9999999999",))),
        ("PARAMETER work_mem, x.y", ObjectType.PARAMETER, (("work_mem",), ("x.y",))),
        ("TABLESPACE ts", ObjectType.TABLESPACE, (("ts",),)),
    ],
)
def test_targets_of_privileges(target: str, kind: ObjectType, objects: tuple[tuple[str, ...], ...]) -> None:
    expected = GrantStmt(True, "object", kind, objects, (SELECT,), (JOE,))
    assert plain(f"GRANT SELECT ON {target} TO joe") == expected


@pytest.mark.parametrize("kind", [ObjectType.FUNCTION, ObjectType.PROCEDURE, ObjectType.ROUTINE])
def test_privileges_on_routines(kind: ObjectType) -> None:
    expected = GrantStmt(
        True, "object", kind, (), (SELECT,), (JOE,), routines=(RoutineName(("s", "f"), ()), RoutineName(("g",)))
    )
    assert plain(f"GRANT SELECT ON {kind.value} s.f(), g TO joe") == expected


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("TABLES", ObjectType.TABLE),
        ("SEQUENCES", ObjectType.SEQUENCE),
        ("FUNCTIONS", ObjectType.FUNCTION),
        ("PROCEDURES", ObjectType.PROCEDURE),
        ("ROUTINES", ObjectType.ROUTINE),
    ],
)
def test_everything_in_schemas(target: str, kind: ObjectType) -> None:
    expected = GrantStmt(True, "all_in_schema", kind, (("s",), ("r",)), (SELECT,), (PUBLIC,))
    assert plain(f"GRANT SELECT ON ALL {target} IN SCHEMA s, r TO public") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "GRANT ALL ON t TO joe, GROUP a WITH GRANT OPTION GRANTED BY b",
            GrantStmt(
                True,
                "object",
                ObjectType.TABLE,
                (("t",),),
                (),
                (JOE, RoleSpec("a")),
                grant_option=True,
                grantor=RoleSpec("b"),
            ),
        ),
        (
            "GRANT ALL PRIVILEGES (a, b) ON t TO joe",
            GrantStmt(True, "object", ObjectType.TABLE, (("t",),), (AccessPriv(None, ("a", "b")),), (JOE,)),
        ),
        (
            "GRANT SELECT (a), REFERENCES, CREATE, maintain, ALTER SYSTEM ON t TO joe",
            GrantStmt(
                True,
                "object",
                ObjectType.TABLE,
                (("t",),),
                (
                    AccessPriv("select", ("a",)),
                    AccessPriv("references"),
                    AccessPriv("create"),
                    AccessPriv("maintain"),
                    AccessPriv("alter system"),
                ),
                (JOE,),
            ),
        ),
        (
            "REVOKE SELECT ON t FROM joe GRANTED BY a CASCADE",
            GrantStmt(
                False, "object", ObjectType.TABLE, (("t",),), (SELECT,), (JOE,), grantor=RoleSpec("a"), cascade=True
            ),
        ),
        (
            "REVOKE GRANT OPTION FOR SELECT ON t FROM joe",
            GrantStmt(False, "object", ObjectType.TABLE, (("t",),), (SELECT,), (JOE,), grant_option=True),
        ),
    ],
)
def test_privileges(text: str, expected: GrantStmt) -> None:
    assert plain(text) == expected


def test_public_is_a_word_and_no_name() -> None:
    assert node('DROP ROLE "public", "Public"') == DropRoleStmt(
        (RoleSpec(word="public", location=10), RoleSpec("Public", location=20))
    )
