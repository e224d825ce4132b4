"""Who may do what to a subscription."""

from __future__ import annotations

import pytest

from tests.harness.played import Instance

EXEMPTION = [
    "ERROR:  password_required=false is superuser-only",
    "HINT:  Subscriptions with the password_required option set to false "
    "may only be created or modified by the superuser.",
]
NO_PASSWORD = [
    "ERROR:  password is required",
    "DETAIL:  Non-superusers must provide a password in the connection string.",
]


def off(rest: str = "", conninfo: str = "dbname=pub password=x") -> str:
    """A subscription that talks to nobody."""
    return f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p WITH (connect = false, slot_name = NONE{rest})"


@pytest.fixture
def roles(instance: Instance) -> Instance:
    """alice may create subscriptions, and is in team; bob may nothing."""
    instance.play(
        "sub",
        "CREATE ROLE alice",
        "CREATE ROLE bob",
        "CREATE ROLE team",
        "GRANT team TO alice",
        "GRANT pg_create_subscription TO alice",
        "GRANT CREATE ON DATABASE sub TO alice",
        "SET client_min_messages = error",
    )
    return instance


def test_create_asks_for_rights_in_postgresqls_order(roles: Instance) -> None:
    """D."""
    wanted = off(", password_required = false", "nonsense")
    roles.play("sub", "REVOKE pg_create_subscription FROM alice", "REVOKE CREATE ON DATABASE sub FROM alice")
    assert roles.as_role("alice", "sub", wanted) == [
        "ERROR:  permission denied to create subscription",
        'DETAIL:  Only roles with privileges of the "pg_create_subscription" role may create subscriptions.',
    ]
    roles.play("sub", "GRANT pg_create_subscription TO alice")
    assert roles.as_role("alice", "sub", wanted) == ["ERROR:  permission denied for database sub"]
    roles.play("sub", "GRANT CREATE ON DATABASE sub TO alice")
    assert roles.as_role("alice", "sub", wanted) == EXEMPTION
    assert roles.as_role("alice", "sub", off(conninfo="nonsense")) == [
        'ERROR:  invalid connection string syntax: missing "=" after "nonsense" in connection info string\n'
    ]
    assert roles.as_role("alice", "sub", off(conninfo="dbname=pub")) == NO_PASSWORD
    assert roles.as_role("alice", "sub", off()) == ["CREATE SUBSCRIPTION"]


ALL_FORMS = [
    "ENABLE",
    "DISABLE",
    "SET (binary)",
    "CONNECTION 'dbname=pub password=y'",
    "SET PUBLICATION q WITH (refresh = false)",
    "ADD PUBLICATION r WITH (refresh = false)",
    "DROP PUBLICATION p WITH (refresh = false)",
    "REFRESH PUBLICATION",
    "SKIP (lsn = '0/1')",
    "RENAME TO t",
    "OWNER TO bob",
]


@pytest.mark.parametrize("form", ALL_FORMS)
def test_every_alter_is_for_the_owner(roles: Instance, form: str) -> None:
    """D."""
    roles.as_role("alice", "sub", off())
    assert roles.as_role("bob", "sub", f"ALTER SUBSCRIPTION s {form}") == ["ERROR:  must be owner of subscription s"]


@pytest.mark.parametrize("form", ALL_FORMS)
def test_an_exempted_subscription_is_altered_by_superusers_only(roles: Instance, form: str) -> None:
    roles.play("sub", off(", password_required = false"), "ALTER SUBSCRIPTION s OWNER TO alice")
    assert roles.as_role("alice", "sub", f"ALTER SUBSCRIPTION s {form}") == EXEMPTION


def test_the_exemption_is_given_by_superusers_only(roles: Instance) -> None:
    roles.as_role("alice", "sub", off())
    assert roles.as_role("alice", "sub", "ALTER SUBSCRIPTION s SET (password_required = false)") == EXEMPTION
    assert roles.play("sub", "ALTER SUBSCRIPTION s SET (password_required = false)") == ["ALTER SUBSCRIPTION"]


def test_a_new_connection_is_checked_for_its_password_unless_the_owner_is_superuser(roles: Instance) -> None:
    connection = "ALTER SUBSCRIPTION s CONNECTION 'dbname=pub'"
    roles.as_role("alice", "sub", off())
    assert roles.as_role("alice", "sub", connection) == NO_PASSWORD
    assert roles.play("sub", connection) == NO_PASSWORD
    assert roles.play("sub", "ALTER SUBSCRIPTION s OWNER TO postgres", connection) == ["ALTER SUBSCRIPTION"] * 2


def test_rename_needs_create_on_the_database(roles: Instance) -> None:
    roles.as_role("alice", "sub", off())
    roles.play("sub", "REVOKE CREATE ON DATABASE sub FROM alice")
    assert roles.as_role("alice", "sub", "ALTER SUBSCRIPTION s RENAME TO t") == [
        "ERROR:  permission denied for database sub"
    ]
    roles.play("sub", "GRANT CREATE ON DATABASE sub TO alice")
    assert roles.as_role("alice", "sub", "ALTER SUBSCRIPTION s RENAME TO t") == ["ALTER SUBSCRIPTION"]


def test_a_new_owner_needs_nothing_but_the_giver_can_become_it_and_create(roles: Instance) -> None:
    roles.as_role("alice", "sub", off())
    assert roles.as_role("alice", "sub", "ALTER SUBSCRIPTION s OWNER TO bob") == [
        'ERROR:  must be able to SET ROLE "bob"'
    ]
    roles.play("sub", "REVOKE CREATE ON DATABASE sub FROM alice")
    assert roles.as_role("alice", "sub", "ALTER SUBSCRIPTION s OWNER TO team") == [
        "ERROR:  permission denied for database sub"
    ]
    roles.play("sub", "GRANT CREATE ON DATABASE sub TO alice")
    assert roles.as_role("alice", "sub", "ALTER SUBSCRIPTION s OWNER TO team", "ALTER SUBSCRIPTION s DISABLE") == [
        "ALTER SUBSCRIPTION",
        "ALTER SUBSCRIPTION",
    ]


def test_drop_is_for_the_owner_even_where_no_password_is_required(roles: Instance) -> None:
    roles.play("sub", off(", password_required = false"), "ALTER SUBSCRIPTION s OWNER TO alice")
    assert roles.as_role("bob", "sub", "DROP SUBSCRIPTION s") == ["ERROR:  must be owner of subscription s"]
    assert roles.as_role("alice", "sub", "DROP SUBSCRIPTION s") == ["DROP SUBSCRIPTION"]


def test_the_connection_string_is_hidden_and_the_rest_is_not(roles: Instance) -> None:
    """D."""
    roles.as_role("alice", "sub", off())
    assert roles.as_role(
        "alice",
        "sub",
        "SELECT subconninfo FROM pg_subscription",
        "SELECT * FROM pg_subscription",
        "SELECT subname, subpublications FROM pg_subscription",
        "SELECT subname, srrelid FROM pg_subscription_rel RIGHT JOIN pg_subscription s ON s.oid = srsubid",
        "SELECT s.subname FROM pg_subscription s JOIN pg_subscription t USING (oid, subconninfo)",
        "SELECT j FROM (pg_subscription JOIN pg_database ON true) AS j",
    ) == [
        "ERROR:  permission denied for table pg_subscription",
        "ERROR:  permission denied for table pg_subscription",
        "s|{p}",
        "s|",
        "ERROR:  permission denied for table pg_subscription",
        "ERROR:  permission denied for table pg_subscription",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("pg_replication_origin_create('o')", "permission denied for function pg_replication_origin_create"),
        ("pg_replication_origin_advance('o', '0/1')", "permission denied for function pg_replication_origin_advance"),
        ("pg_stat_reset_subscription_stats(NULL)", "permission denied for function pg_stat_reset_subscription_stats"),
        ("pg_drop_replication_slot('s')", "permission denied to use replication slots"),
        ("pg_replication_slot_advance('s', '0/1')", "permission denied to use replication slots"),
        ("pg_create_logical_replication_slot('s', 'pgoutput')", "permission denied to use replication slots"),
    ],
)
def test_functions_that_are_not_for_everybody(roles: Instance, call: str, message: str) -> None:
    assert roles.as_role("bob", "sub", f"SELECT {call}")[0] == f"ERROR:  {message}"


def test_the_status_of_origins_is_not_for_everybody(roles: Instance) -> None:
    assert roles.as_role("bob", "sub", "SELECT * FROM pg_replication_origin_status") == [
        "ERROR:  permission denied for view pg_replication_origin_status"
    ]


def test_slot_functions_are_for_roles_with_replication(roles: Instance) -> None:
    """D."""
    roles.play("sub", "ALTER ROLE bob REPLICATION")
    assert roles.as_role(
        "bob",
        "sub",
        "SELECT slot_name FROM pg_create_logical_replication_slot('s', 'pgoutput')",
        "SELECT pg_drop_replication_slot('s')",
    ) == ["s", ""]
