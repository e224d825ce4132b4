"""What decides about privileges: memberships of roles, and access lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pgrepl.catalog.facts import acl, roles
from pgrepl.catalog.facts.acl import BIT, AclItem, ObjectKind
from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.system import FIRST_NORMAL_OID, ROLE_DATABASE_OWNER
from pgrepl.catalog.store.tables import pg_database, pg_namespace, pg_proc, pg_type
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run

ROLES = """
    CREATE ROLE team; CREATE ROLE full; CREATE ROLE inherits; CREATE ROLE sets; CREATE ROLE neither; CREATE ROLE nobody;
    CREATE ROLE boss SUPERUSER; CREATE ROLE leader; CREATE ROLE deputy; CREATE ROLE guest; CREATE ROLE owner;
    GRANT team TO full WITH INHERIT TRUE, SET TRUE;
    GRANT team TO inherits WITH INHERIT TRUE, SET FALSE;
    GRANT team TO sets WITH INHERIT FALSE, SET TRUE;
    GRANT team TO neither WITH INHERIT FALSE, SET FALSE;
    GRANT team TO leader WITH ADMIN TRUE, INHERIT FALSE, SET FALSE;
    GRANT leader TO deputy WITH INHERIT TRUE, SET FALSE;
    GRANT leader TO guest WITH INHERIT FALSE, SET TRUE;
    CREATE ROLE reader; CREATE ROLE writer; CREATE ROLE maintainer;
    GRANT pg_read_all_data TO reader; GRANT pg_write_all_data TO writer; GRANT pg_maintain TO maintainer;
"""
NAMES = (
    "team", "full", "inherits", "sets", "neither", "nobody", "boss", "leader", "deputy", "guest", "owner", "reader",
    "writer", "maintainer",
)  # fmt: skip


@pytest.fixture
def known(session: Session) -> Session:
    list(run(session, ROLES))
    return session


def those(session: Session, asked: Callable[[Session, int, int], object], of: str = "team") -> set[str]:
    """The roles for which the answer about one is yes."""
    role = roles.role_by_name(session, of).oid
    members = {name: roles.role_by_name(session, name).oid for name in NAMES}
    return {name for name, oid in members.items() if asked(session, oid, role)}


def test_each_option_of_a_membership_decides_for_itself(known: Session) -> None:
    with reading(known):
        assert those(known, roles.has_privs_of_role) == {"team", "full", "inherits", "boss"}
        assert those(known, roles.member_can_set_role) == {"team", "full", "sets", "boss"}
        members = {"full", "inherits", "sets", "neither", "leader", "deputy", "guest"}
        assert those(known, roles.is_member_of_role) == {"team", "boss"} | members
        assert those(known, roles.is_member_of_role_nosuper) == {"team"} | members
        assert those(known, roles.is_admin_of_role) == {"boss", "leader", "deputy", "guest"}
        assert those(known, roles.has_admin_privs_of_role) == {"boss", "leader", "deputy"}
        assert those(known, roles.select_best_admin) == {"leader", "deputy"}
        assert those(known, roles.is_admin_of_role, "boss") == {"boss"}
        assert those(known, roles.select_best_admin, "leader") == set()
        leader, deputy, team = (roles.role_by_name(known, name).oid for name in ("leader", "deputy", "team"))
        assert roles.select_best_admin(known, deputy, team) == leader
        assert roles.inherited_in_order(known, deputy) == [deputy, leader]


def test_the_first_of_those_with_admin_option_grants(known: Session) -> None:
    """A nearer one goes first, of those as near the one with the smaller OID (roles_is_member_of); each comes once."""
    list(
        run(
            known,
            "CREATE ROLE one; CREATE ROLE two; CREATE ROLE far; CREATE ROLE near; CREATE ROLE chief;"
            "GRANT near TO chief; GRANT far TO near; GRANT far TO chief WITH INHERIT FALSE;"
            "GRANT two TO near; GRANT one TO near; GRANT far TO one;"
            "GRANT team TO far WITH ADMIN TRUE; GRANT team TO two WITH ADMIN TRUE; GRANT team TO one WITH ADMIN TRUE",
        )
    )
    with reading(known):
        one, two, far, near, chief, team = (
            roles.role_by_name(known, name).oid for name in ("one", "two", "far", "near", "chief", "team")
        )
        assert roles.inherited_in_order(known, chief) == [chief, near, one, two, far, team]
        assert roles.select_best_admin(known, chief, team) == one
        assert roles.select_best_admin(known, two, team) == two


def test_the_owner_of_the_database_is_pg_database_owner(known: Session) -> None:
    list(run(known, "ALTER DATABASE postgres OWNER TO team"))
    with reading(known):
        (oid,) = [row.oid for row in rows(known, pg_database, datname="postgres")]
        assert oid == known.database_oid
        answers = {
            name: roles.has_privs_of_role(known, roles.role_by_name(known, name).oid, ROLE_DATABASE_OWNER)
            for name in ("team", "full", "sets", "nobody")
        }
        assert answers == {"team": True, "full": True, "sets": False, "nobody": False}
        full = roles.role_by_name(known, "full").oid
        assert roles.inherited_in_order(known, full)[-1] == ROLE_DATABASE_OWNER


def test_set_role_is_refused_by_name(known: Session) -> None:
    with reading(known):
        team, nobody = (roles.role_by_name(known, name).oid for name in ("team", "nobody"))
        roles.check_can_set_role(known, team, team)
        with pytest.raises(PgError, match='must be able to SET ROLE "team"'):
            roles.check_can_set_role(known, nobody, team)


def test_attributes_are_the_roles_own(known: Session) -> None:
    list(run(known, "ALTER ROLE team CREATEROLE"))
    with reading(known):
        oids = {name: roles.role_by_name(known, name).oid for name in ("team", "full", "boss")}
        assert {name: roles.has_attribute(known, oid, "rolcreaterole") for name, oid in oids.items()} == {
            "team": True, "full": False, "boss": True,
        }  # fmt: skip
        assert {name: roles.is_superuser(known, oid) for name, oid in oids.items()} == {
            "team": False, "full": False, "boss": True,
        }  # fmt: skip
        assert roles.is_superuser(known) and not roles.is_superuser(known, 1)
        assert not roles.has_attribute(known, 1, "rolcreaterole")


# --- lists ------------------------------------------------------------------------------------------------------------

INSERT, SELECT, UPDATE = BIT["INSERT"], BIT["SELECT"], BIT["UPDATE"]


def test_a_list_gives_what_its_items_say(known: Session) -> None:
    with reading(known):
        oid = {name: roles.role_by_name(known, name).oid for name in NAMES}
        owner = oid["owner"]
        items = (
            AclItem(roles.PUBLIC, owner, UPDATE),
            AclItem(oid["nobody"], owner, SELECT | INSERT, SELECT),
            AclItem(oid["team"], owner, INSERT),
        )

        def has(name: str, mask: int) -> int:
            return acl.aclmask(known, items, oid[name], owner, mask)

        assert has("nobody", SELECT | INSERT | UPDATE) == SELECT | INSERT | UPDATE
        assert has("nobody", SELECT << 16 | INSERT << 16) == SELECT << 16
        assert has("full", SELECT | INSERT | UPDATE) == INSERT | UPDATE
        assert has("sets", SELECT | INSERT | UPDATE) == UPDATE
        assert has("full", INSERT << 16) == 0
        # the owner may grant everything, and has what the list says
        assert has("owner", INSERT) == 0
        assert has("owner", SELECT << 16) == SELECT << 16
        assert has("owner", UPDATE | INSERT | INSERT << 16) == UPDATE | INSERT << 16
        assert acl.aclmask(known, (), owner, owner, INSERT) == 0


def test_a_list_is_read_as_it_is_stored() -> None:
    items = (AclItem(roles.PUBLIC, 10, BIT["USAGE"]), AclItem(16400, 10, SELECT | INSERT, INSERT))
    assert acl.store_acl(items) == ["=U/10", "16400=a*r/10"]
    assert acl.parse_acl(acl.store_acl(items)) == items
    assert acl.parse_acl(None) is None and acl.parse_acl([]) == ()


def asked(session: Session, table: str, privilege: str, attnum: int = 0) -> set[str]:
    relation = find_relation(session, range_var(table.split(".")))
    found = set()
    for name in NAMES:
        role = roles.role_by_name(session, name).oid
        if (
            acl.has_column_privilege(session, relation, attnum, privilege, role)
            if attnum
            else acl.has_table_privilege(session, relation, privilege, role)
        ):
            found.add(name)
    return found


def test_privileges_on_a_table(known: Session) -> None:
    list(
        run(
            known,
            "CREATE TABLE t (a int, b int); ALTER TABLE t OWNER TO owner; GRANT SELECT ON t TO team;"
            "GRANT UPDATE (b) ON t TO nobody; CREATE TABLE plain (a int); ALTER TABLE plain OWNER TO owner;"
            "CREATE SEQUENCE numbers OWNED BY NONE; ALTER SEQUENCE numbers OWNER TO owner;"
            "CREATE TABLE part (a int); GRANT INSERT ON part TO writer",
        )
    )
    with reading(known):
        assert asked(known, "t", "SELECT") == {"boss", "owner", "team", "full", "inherits", "reader"}
        assert asked(known, "t", "INSERT") == {"boss", "owner", "writer"}
        assert asked(known, "t", "TRUNCATE") == {"boss", "owner"}
        assert asked(known, "t", "MAINTAIN") == {"boss", "owner", "maintainer"}
        assert asked(known, "plain", "SELECT") == {"boss", "owner", "reader"}
        assert asked(known, "plain", "DELETE") == {"boss", "owner", "writer"}
        assert asked(known, "t", "UPDATE", 2) == {"boss", "owner", "writer", "nobody"}
        assert asked(known, "t", "UPDATE", 1) == {"boss", "owner", "writer"}
        assert asked(known, "t", "SELECT", 1) == asked(known, "t", "SELECT")
        assert asked(known, "t", "UPDATE", 99) == {"boss", "owner", "writer"}
        assert asked(known, "numbers", "USAGE") == {"boss", "owner"}
        assert asked(known, "numbers", "SELECT") == {"boss", "owner", "reader"}
        relation = find_relation(known, range_var(["t"]))
        reader, writer = (roles.role_by_name(known, name).oid for name in ("reader", "writer"))
        every = SELECT | INSERT | UPDATE
        assert acl.relation_mask(known, relation, reader, every) == SELECT
        assert acl.relation_mask(known, relation, writer, every) == INSERT | UPDATE
        assert acl.relation_mask(known, relation, reader, INSERT) == 0
        # who has a change of rows granted does not get the others by pg_write_all_data (pg_class_aclmask_ext)
        part = find_relation(known, range_var(["part"]))
        assert acl.relation_mask(known, part, writer, INSERT | UPDATE) == INSERT
        first = replace(relation, oid=FIRST_NORMAL_OID)
        assert acl.relation_mask(known, first, roles.role_by_name(known, "owner").oid, INSERT) == INSERT


def test_nobody_but_a_superuser_writes_system_tables(known: Session) -> None:
    with reading(known):
        assert asked(known, "pg_catalog.pg_class", "INSERT") == {"boss"}
        assert asked(known, "pg_catalog.pg_class", "SELECT") == set(NAMES)
        relation = replace(find_relation(known, range_var(["pg_catalog", "pg_class"])), acl=["=arwdDxtm/10"])
        nobody = roles.role_by_name(known, "nobody").oid
        assert acl.relation_mask(known, relation, nobody, INSERT | SELECT | BIT["TRIGGER"]) == SELECT | BIT["TRIGGER"]
        view = replace(relation, kind="v")
        assert acl.relation_mask(known, view, nobody, INSERT | SELECT) == INSERT | SELECT


@pytest.mark.parametrize(
    "statement",
    [
        "GRANT SELECT ON pg_class TO team",
        "GRANT SELECT (relname) ON pg_class TO team",
        "REVOKE ALL ON pg_authid FROM PUBLIC",
        "GRANT SELECT ON information_schema.tables TO team",
    ],
)
def test_privileges_on_system_catalogs_do_not_change(known: Session, statement: str) -> None:
    with pytest.raises(PgError, match="on a system catalog is not supported") as error:
        list(run(known, statement))
    assert error.value.sqlstate == "0A000"


def test_privileges_on_schemas_databases_and_functions(known: Session) -> None:
    list(
        run(
            known,
            "CREATE SCHEMA s AUTHORIZATION owner; GRANT CREATE ON SCHEMA s TO team;"
            "CREATE SCHEMA bare AUTHORIZATION owner; CREATE SCHEMA shut AUTHORIZATION owner;"
            "REVOKE ALL ON SCHEMA shut FROM owner; CREATE DOMAIN kind AS int; ALTER DOMAIN kind OWNER TO owner;"
            "REVOKE ALL ON TYPE kind FROM PUBLIC;"
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION f() OWNER TO owner;"
            "CREATE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION g() OWNER TO owner;"
            "REVOKE ALL ON FUNCTION g() FROM PUBLIC",
        )
    )

    list(run(known, "CREATE DATABASE d OWNER owner"))

    def may(kind: ObjectKind, row: acl.Owned, privilege: str) -> set[str]:
        return {
            name
            for name in NAMES
            if acl.has_privilege(known, kind, row, privilege, roles.role_by_name(known, name).oid)
        }

    with reading(known):
        (s,) = rows(known, pg_namespace, nspname="s")
        (bare,) = rows(known, pg_namespace, nspname="bare")
        (shut,) = rows(known, pg_namespace, nspname="shut")
        (kind,) = rows(known, pg_type, typname="kind")
        (d,) = rows(known, pg_database, datname="d")
        functions = {row.proname: row for row in rows(known, pg_proc) if row.proname in "fg"}
        assert may(ObjectKind.SCHEMA, s, "CREATE") == {"boss", "owner", "team", "full", "inherits"}
        assert may(ObjectKind.SCHEMA, s, "USAGE") == {"boss", "owner", "reader", "writer"}
        assert may(ObjectKind.SCHEMA, bare, "USAGE") == {"boss", "owner", "reader", "writer"}
        assert may(ObjectKind.SCHEMA, bare, "CREATE") == {"boss", "owner"}
        assert may(ObjectKind.SCHEMA, shut, "CREATE") == {"boss"}
        assert may(ObjectKind.SCHEMA, shut, "USAGE") == {"boss", "reader", "writer"}
        assert may(ObjectKind.TYPE, kind, "USAGE") == {"boss", "owner"}
        assert may(ObjectKind.DATABASE, d, "CONNECT") == set(NAMES)
        assert may(ObjectKind.DATABASE, d, "CREATE") == {"boss", "owner"}
        assert may(ObjectKind.FUNCTION, functions["f"], "EXECUTE") == set(NAMES)
        assert may(ObjectKind.FUNCTION, functions["g"], "EXECUTE") == {"boss", "owner"}
        assert acl.has_privilege(known, ObjectKind.SCHEMA, s, "CREATE")  # the session's own role
        assert not acl.object_mask(known, ObjectKind.SCHEMA, s, roles.role_by_name(known, "reader").oid, BIT["CREATE"])


def test_who_has_the_owners_privileges_is_an_owner(known: Session) -> None:
    with reading(known):
        assert those(known, lambda session, member, role: acl.is_owner(session, role, member)) == {
            "team", "full", "inherits", "boss",
        }  # fmt: skip
        assert acl.is_owner(known, roles.role_by_name(known, "team").oid)  # a superuser's session


def test_a_refusal_names_the_object(known: Session) -> None:
    """It is the current role that is asked."""
    list(
        run(
            known,
            "CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO nobody; CREATE TABLE t (a int, b int);"
            "CREATE SEQUENCE numbers; GRANT SELECT ON numbers TO nobody; GRANT SELECT (a) ON t TO nobody;"
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON FUNCTION f() FROM PUBLIC;"
            "CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON PROCEDURE p() FROM PUBLIC;"
            "CREATE FUNCTION h() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TABLE mine (a int);"
            "ALTER TABLE mine OWNER TO nobody; SET ROLE nobody",
        )
    )
    with reading(known):
        (s,) = rows(known, pg_namespace, nspname="s")
        f, h, p = (next(row for row in rows(known, pg_proc) if row.proname == name) for name in "fhp")
        t, numbers, mine = (find_relation(known, range_var([name])) for name in ("t", "numbers", "mine"))
        acl.check_privilege(known, ObjectKind.SCHEMA, s, "USAGE", "s")
        acl.check_table_privilege(known, numbers, "SELECT")
        acl.check_execute(known, h)
        acl.check_relation_owner(known, mine)
        assert acl.has_column_privilege(known, t, 1, "SELECT") and not acl.has_column_privilege(known, t, 2, "SELECT")
        assert acl.has_table_privilege(known, mine, "DELETE") and not acl.has_table_privilege(known, t, "SELECT")
        assert acl.is_owner(known, mine.owner) and not acl.is_owner(known, t.owner)
        refused = (
            lambda: acl.check_privilege(known, ObjectKind.SCHEMA, s, "CREATE", "s"),
            lambda: acl.check_table_privilege(known, t, "SELECT"),
            lambda: acl.check_table_privilege(known, numbers, "UPDATE"),
            lambda: acl.check_execute(known, f),
            lambda: acl.check_execute(known, p),
            lambda: acl.check_relation_owner(known, t),
        )
        told = []
        for check in refused:
            with pytest.raises(PgError) as error:
                check()
            assert error.value.sqlstate == "42501"
            told.append(error.value.message)
    assert told == [
        "permission denied for schema s", "permission denied for table t", "permission denied for sequence numbers",
        "permission denied for function f", "permission denied for procedure p", "must be owner of table t",
    ]  # fmt: skip


def test_defaults_of_new_objects() -> None:
    assert acl.default_acl(ObjectKind.TABLE, 16) == (AclItem(16, 16, acl.ALL_RIGHTS[ObjectKind.TABLE]),)
    assert acl.default_acl(ObjectKind.COLUMN, 16) == ()
    assert acl.default_acl(ObjectKind.TYPE, 16) == (AclItem(0, 16, BIT["USAGE"]), AclItem(16, 16, BIT["USAGE"]))
