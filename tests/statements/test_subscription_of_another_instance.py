"""Publishers in another folder: their slots are there, and a password is checked there."""

from __future__ import annotations

from collections.abc import Iterator
from os import geteuid
from pathlib import Path
from pwd import getpwuid

import pytest

from tests.harness.played import Instance

ME = getpwuid(geteuid()).pw_name
SLOTS = "SELECT slot_name, database FROM pg_replication_slots ORDER BY 1"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Instance]:
    made = Instance(tmp_path / "there")
    made.play("pub", "CREATE TABLE t (a int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    made.play("postgres", "CREATE ROLE repuser LOGIN REPLICATION PASSWORD 'secret'", "CREATE ROLE plain LOGIN")
    yield made
    made.catalog.close()


def subscribe(there: Instance, rest: str = "", options: str = "", publication: str = "p") -> str:
    conninfo = f"host={there.folder} dbname=pub {rest}"
    return f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION {publication} {options}"


def failed(there: Instance, message: str) -> str:
    return f'ERROR:  could not connect to the publisher: connection to server on socket "{there.folder}/.s.PGSQL.5432" failed: {message}'  # noqa: E501


def test_the_slot_is_made_and_dropped_there(instance: Instance, there: Instance) -> None:
    instance.play("sub", "CREATE TABLE t (a int PRIMARY KEY)")
    assert instance.play("sub", subscribe(there), SLOTS) == [
        'NOTICE:  created replication slot "s" on publisher',
        "CREATE SUBSCRIPTION",
    ]
    assert there.play("pub", SLOTS) == ["s|pub"]
    answer = instance.play("sub", "DROP SUBSCRIPTION s")
    assert answer[-2:] == ['NOTICE:  dropped replication slot "s" on publisher', "DROP SUBSCRIPTION"]
    assert there.play("pub", SLOTS) == []


def test_the_file_itself_may_be_named(instance: Instance, there: Instance) -> None:
    instance.play("sub", "CREATE TABLE t (a int PRIMARY KEY)")
    conninfo = f"host={there.folder}/catalog.db dbname=pub"
    answer = instance.play("sub", f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p")
    assert answer[-1] == "CREATE SUBSCRIPTION"


def test_the_own_folder_is_the_own_instance(instance: Instance) -> None:
    instance.play("pub", "CREATE PUBLICATION p")
    assert instance.play("sub", subscribe(instance), SLOTS) == [
        'NOTICE:  created replication slot "s" on publisher',
        "CREATE SUBSCRIPTION",
        "s|pub",
    ]


def test_failover_is_changed_there(instance: Instance, there: Instance) -> None:
    instance.play("sub", "CREATE TABLE t (a int PRIMARY KEY)", subscribe(there, options="WITH (enabled = false)"))
    assert instance.play("sub", "ALTER SUBSCRIPTION s SET (failover)") == ["ALTER SUBSCRIPTION"]
    assert there.play("pub", "SELECT failover FROM pg_replication_slots") == ["t"]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("user=nosuch", 'FATAL:  role "nosuch" does not exist'),
        ("user=nosuch password=x", 'FATAL:  password authentication failed for user "nosuch"'),
        ("user=repuser password=wrong", 'FATAL:  password authentication failed for user "repuser"'),
        (
            "user=plain",
            "FATAL:  permission denied to start WAL sender\n"
            "DETAIL:  Only roles with the REPLICATION attribute may start a WAL sender process.",
        ),
        ("dbname=nosuch", 'FATAL:  database "nosuch" does not exist'),
        ("user=repuser dbname=", 'FATAL:  database "repuser" does not exist'),
        (
            "require_auth=scram-sha-256",
            'authentication method requirement "scram-sha-256" failed: server did not complete authentication',
        ),
        (
            "user=repuser password=secret require_auth=none",
            'authentication method requirement "none" failed: server requested SASL authentication',
        ),
        ("user=repuser password=secret channel_binding=require", "channel binding required, but SSL not in use"),
        ("target_session_attrs=standby", "server is not in hot standby mode"),
        ("requirepeer=nobody_at_all", f'requirepeer specifies "nobody_at_all", but actual peer user name is "{ME}"'),
        ("options=-cnosuch=1", 'FATAL:  unrecognized configuration parameter "nosuch"'),
        ("options=-cwork_mem", "FATAL:  -c work_mem requires a value"),
        ("options=--work-mem", "FATAL:  --work-mem requires a value"),
        ("options=-c", "FATAL:  -c -c requires a value"),
        ("options=--row-security=maybe", 'FATAL:  parameter "row_security" requires a Boolean value'),
        (
            "options=--wal_level=minimal",
            'FATAL:  parameter "wal_level" cannot be changed without restarting the server',
        ),
        (
            "options=-x",
            "FATAL:  invalid command-line argument for server process: -x\n"
            'HINT:  Try "postgres --help" for more information.',
        ),
        (
            "options=--",
            "FATAL:  invalid command-line argument for server process: -c\n"
            'HINT:  Try "postgres --help" for more information.',
        ),
    ],
)
def test_who_is_not_let_in(instance: Instance, there: Instance, rest: str, message: str) -> None:
    assert instance.play("sub", subscribe(there, rest)) == [failed(there, message)]


def test_settings_in_the_options_are_taken(instance: Instance, there: Instance) -> None:
    instance.play("sub", "CREATE TABLE t (a int PRIMARY KEY)")
    options = r"options=''-crow_security=off -c a.b=c\\ d''"
    assert instance.play("sub", subscribe(there, options))[-1] == "CREATE SUBSCRIPTION"


def test_a_password_that_has_run_out_is_wrong(instance: Instance, there: Instance) -> None:
    there.play("postgres", "ALTER ROLE repuser VALID UNTIL '2001-01-01'")
    assert instance.play("sub", subscribe(there, "user=repuser password=secret")) == [
        failed(there, 'FATAL:  password authentication failed for user "repuser"')
    ]


def test_an_ordinary_owner_must_bring_a_password_that_is_asked_for(instance: Instance, there: Instance) -> None:
    instance.play(
        "sub",
        "CREATE TABLE t (a int PRIMARY KEY)",
        "CREATE ROLE alice",
        "GRANT pg_create_subscription TO alice",
        "GRANT CREATE ON DATABASE sub TO alice",
    )
    assert instance.as_role("alice", "sub", subscribe(there, "user=repuser")) == [
        "ERROR:  password is required",
        "DETAIL:  Non-superusers must provide a password in the connection string.",
    ]
    assert instance.as_role("alice", "sub", subscribe(there, "password=x")) == [
        "ERROR:  password is required",
        "DETAIL:  Non-superuser cannot connect if the server does not request a password.",
        "HINT:  Target server's authentication method must be changed, "
        "or set password_required=false in the subscription parameters.",
    ]
    assert instance.as_role("alice", "sub", subscribe(there, "user=repuser password=secret")) == [
        'NOTICE:  created replication slot "s" on publisher',
        "CREATE SUBSCRIPTION",
    ]


def test_a_folder_without_a_catalog_is_no_publisher(instance: Instance, tmp_path: Path) -> None:
    assert instance.play("sub", f"CREATE SUBSCRIPTION s CONNECTION 'host={tmp_path} dbname=pub' PUBLICATION p") == [
        f'ERROR:  could not connect to the publisher: connection to server on socket "{tmp_path}/.s.PGSQL.5432" '
        "failed: No such file or directory\n\tIs the server running locally and accepting connections on that socket?"
    ]


def test_a_damaged_catalog_is_named(instance: Instance, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "catalog.db").write_bytes(b"no catalog at all" * 100)
    answer = instance.play("sub", f"CREATE SUBSCRIPTION s CONNECTION 'host={folder} dbname=pub' PUBLICATION p")
    assert answer == [
        f'ERROR:  could not connect to the publisher: connection to server on socket "{folder}/.s.PGSQL.5432" failed: '
        f'FATAL:  "{folder}/catalog.db" is not a pgrepl catalog'
    ]


def test_the_next_host_is_tried(instance: Instance, there: Instance) -> None:
    instance.play("sub", "CREATE TABLE t (a int PRIMARY KEY)")
    conninfo = f"host=/nosuch,{there.folder} dbname=pub"
    answer = instance.play("sub", f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p")
    assert answer[-1] == "CREATE SUBSCRIPTION"
    assert there.play("pub", SLOTS) == ["s|pub"]
