"""Who may do what to a publication: the owner's rights, the tables' owners, and superusers."""

from __future__ import annotations

import pytest

from tests.harness.played import Instance


@pytest.fixture
def roles(instance: Instance) -> Instance:
    """alice may create in the database and is in team; bob may nothing; hers, teams and his are tables."""
    instance.play(
        "pub",
        "CREATE ROLE alice",
        "CREATE ROLE bob",
        "CREATE ROLE team",
        "GRANT team TO alice",
        "GRANT CREATE ON DATABASE pub TO alice",
        "CREATE TABLE hers (a int)",
        "CREATE TABLE teams (a int)",
        "CREATE TABLE his (a int)",
        "ALTER TABLE hers OWNER TO alice",
        "ALTER TABLE teams OWNER TO team",
        "ALTER TABLE his OWNER TO bob",
        "CREATE SCHEMA s",
    )
    return instance


def test_create_publication_needs_create_on_the_database(roles: Instance) -> None:
    """D."""
    assert roles.as_role("bob", "pub", "CREATE PUBLICATION p") == ["ERROR:  permission denied for database pub"]
    assert roles.as_role("alice", "pub", "CREATE PUBLICATION p") == ["CREATE PUBLICATION"]


def test_for_table_needs_the_owner_of_each_table(roles: Instance) -> None:
    """D."""
    assert roles.as_role(
        "alice",
        "pub",
        "CREATE PUBLICATION p FOR TABLE hers, his",
        "CREATE PUBLICATION p FOR TABLE hers, teams",
        "ALTER PUBLICATION p ADD TABLE his",
        "ALTER PUBLICATION p SET TABLE hers, his",
        "ALTER PUBLICATION p SET TABLE hers",
    ) == [
        "ERROR:  must be owner of table his",
        "CREATE PUBLICATION",
        "ERROR:  must be owner of table his",
        "ERROR:  must be owner of table his",
        "ALTER PUBLICATION",
    ]


def test_the_owner_of_a_table_needs_the_publication_too(roles: Instance) -> None:
    roles.play("pub", "CREATE PUBLICATION p")
    assert roles.as_role("alice", "pub", "ALTER PUBLICATION p ADD TABLE hers") == [
        "ERROR:  must be owner of publication p"
    ]


def test_all_tables_and_schemas_are_for_superusers(roles: Instance) -> None:
    """D."""
    assert roles.as_role(
        "alice",
        "pub",
        "CREATE PUBLICATION p FOR ALL TABLES",
        "CREATE PUBLICATION p FOR TABLES IN SCHEMA s",
        "CREATE PUBLICATION p",
        "ALTER PUBLICATION p ADD TABLES IN SCHEMA s",
        "ALTER PUBLICATION p SET TABLES IN SCHEMA s",
    ) == [
        "ERROR:  must be superuser to create FOR ALL TABLES publication",
        "ERROR:  must be superuser to create FOR TABLES IN SCHEMA publication",
        "CREATE PUBLICATION",
        "ERROR:  must be superuser to add or set schemas",
        "ERROR:  must be superuser to add or set schemas",
    ]


def test_options_and_drops_need_the_publications_owner_only(roles: Instance) -> None:
    roles.play("pub", "CREATE PUBLICATION p FOR TABLES IN SCHEMA s, TABLE his", "GRANT CREATE ON DATABASE pub TO bob")
    roles.play("pub", "ALTER PUBLICATION p OWNER TO alice", "REVOKE CREATE ON DATABASE pub FROM alice")
    statements = (
        "ALTER PUBLICATION p SET (publish = 'insert')",
        "ALTER PUBLICATION p DROP TABLE his",
        "ALTER PUBLICATION p DROP TABLES IN SCHEMA s",
        "ALTER PUBLICATION p RENAME TO q",
        "COMMENT ON PUBLICATION q IS 'mine'",
        "DROP PUBLICATION q",
    )
    refused = "ERROR:  must be owner of publication p"
    missing = 'ERROR:  publication "q" does not exist'
    assert roles.as_role("bob", "pub", *statements) == [refused] * 4 + [missing] * 2
    assert roles.as_role("alice", "pub", *statements) == [*["ALTER PUBLICATION"] * 4, "COMMENT", "DROP PUBLICATION"]


def test_a_new_owner_must_be_one_that_the_old_can_become_and_that_can_create(roles: Instance) -> None:
    roles.as_role("alice", "pub", "CREATE PUBLICATION p")
    assert roles.as_role("alice", "pub", "ALTER PUBLICATION p OWNER TO bob", "ALTER PUBLICATION p OWNER TO team") == [
        'ERROR:  must be able to SET ROLE "bob"',
        "ERROR:  permission denied for database pub",
    ]
    roles.play("pub", "GRANT CREATE ON DATABASE pub TO team")
    assert roles.as_role("alice", "pub", "ALTER PUBLICATION p OWNER TO team") == ["ALTER PUBLICATION"]


@pytest.mark.parametrize("scope", ["ALL TABLES", "TABLES IN SCHEMA"])
def test_wide_publications_are_given_to_superusers_only(roles: Instance, scope: str) -> None:
    objects = scope if scope == "ALL TABLES" else "TABLES IN SCHEMA s"
    roles.play("pub", f"CREATE PUBLICATION p FOR {objects}", "GRANT CREATE ON DATABASE pub TO team")
    assert roles.play("pub", "ALTER PUBLICATION p OWNER TO alice") == ["ALTER PUBLICATION"]
    assert roles.as_role("alice", "pub", "ALTER PUBLICATION p OWNER TO team") == [
        'ERROR:  permission denied to change owner of publication "p"',
        f"HINT:  The owner of a FOR {scope} publication must be a superuser.",
    ]
