"""Subscriptions: their options, their tables, and the slots they leave at the publisher."""

from __future__ import annotations

import sys

import pytest

from tests.harness.played import Instance

SLOTS = "SELECT slot_name, database, two_phase, failover FROM pg_replication_slots ORDER BY 1"
STATES = (
    "SELECT subname, srrelid::regclass::text, srsubstate FROM pg_subscription_rel "
    "JOIN pg_subscription s ON s.oid = srsubid ORDER BY 1, 2"
)
NOT_CONNECTED = [
    "WARNING:  subscription was created, but is not connected",
    "HINT:  To initiate replication, you must manually create the replication slot, enable the subscription, "
    "and refresh the subscription.",
    "CREATE SUBSCRIPTION",
]


def subscribe(name: str, publications: str, options: str = "", conninfo: str = "dbname=pub") -> str:
    rest = f" WITH ({options})" if options else ""
    return f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' PUBLICATION {publications}{rest}"


@pytest.fixture
def pair(instance: Instance) -> Instance:
    """Tables a, b and c on both sides; publications pa, pb and pc of one each."""
    for name in "abc":
        table = f"CREATE TABLE {name} (k int PRIMARY KEY, v text)"
        instance.play("pub", table, f"CREATE PUBLICATION p{name} FOR TABLE {name}")
        instance.play("sub", table)
    return instance


def test_a_subscription_gets_its_tables_and_last_its_slot(pair: Instance) -> None:
    """B2."""
    assert pair.play("sub", subscribe("s", "pa, pb"), STATES, SLOTS) == [
        'NOTICE:  created replication slot "s" on publisher',
        "CREATE SUBSCRIPTION",
        "s|a|i",
        "s|b|i",
        "s|pub|f|f",
    ]


def test_without_copy_the_tables_are_ready(pair: Instance) -> None:
    assert pair.play("sub", subscribe("s", "pa", "copy_data = false"), STATES)[2:] == ["s|a|r"]


def test_a_failed_statement_leaves_no_slot(pair: Instance) -> None:
    """B2."""
    pair.play("sub", "DROP TABLE b")
    assert pair.play("sub", subscribe("s", "pa, pb"), STATES, SLOTS, "SELECT count(*) FROM pg_replication_origin") == [
        'ERROR:  relation "public.b" does not exist',
        "0",
    ]


def test_a_slot_that_exists_is_an_error_of_the_publisher(pair: Instance) -> None:
    pair.play("sub", subscribe("s", "pa"))
    assert pair.play("sub", subscribe("s2", "pa", "slot_name = 's'"), "SELECT subname FROM pg_subscription") == [
        'ERROR:  could not create replication slot "s": ERROR:  replication slot "s" already exists',
        "s",
    ]


def test_when_all_slots_are_in_use(pair: Instance) -> None:
    for number in range(10):
        pair.play("pub", f"SELECT 1 FROM pg_create_logical_replication_slot('s{number}', 'pgoutput')")
    assert pair.play("sub", subscribe("s10", "pa")) == [
        'ERROR:  could not create replication slot "s10": ERROR:  all replication slots are in use\n'
        'HINT:  Free one or increase "max_replication_slots".'
    ]


def test_drop_takes_the_slot_along(pair: Instance) -> None:
    pair.play("sub", subscribe("s", "pa", "copy_data = false"))
    answer = pair.play("sub", "DROP SUBSCRIPTION s", STATES, SLOTS, "SELECT count(*) FROM pg_replication_origin")
    assert answer == ['NOTICE:  dropped replication slot "s" on publisher', "DROP SUBSCRIPTION", "0"]


def test_missing_publications_are_a_warning_and_doubled_ones_an_error(pair: Instance) -> None:
    """C4."""
    assert pair.play(
        "sub", subscribe("s", "pa, x"), subscribe("s2", "x, pa, y"), subscribe("s3", "pa, pa"), "SELECT 1"
    ) == [
        'WARNING:  publication "x" does not exist on the publisher',
        'NOTICE:  created replication slot "s" on publisher',
        "CREATE SUBSCRIPTION",
        'WARNING:  publications "x", "y" do not exist on the publisher',
        'NOTICE:  created replication slot "s2" on publisher',
        "CREATE SUBSCRIPTION",
        'ERROR:  publication name "pa" used more than once',
        "1",
    ]


def test_a_view_as_target_is_an_error_at_create(pair: Instance) -> None:
    """C5."""
    pair.play("sub", "DROP TABLE a", "CREATE SEQUENCE a")
    assert pair.play("sub", subscribe("s", "pa")) == [
        'ERROR:  cannot use relation "public.a" as logical replication target',
        "DETAIL:  This operation is not supported for sequences.",
    ]


def test_unequal_column_lists_are_an_error_and_a_full_list_equals_none(pair: Instance) -> None:
    pair.play("pub", "CREATE PUBLICATION one FOR TABLE a (k)", "CREATE PUBLICATION two FOR TABLE a (v, k)")
    pair.play("pub", "CREATE PUBLICATION only_truncate FOR TABLE a (v) WITH (publish = 'truncate')")
    refusal = 'ERROR:  cannot use different column lists for table "public.a" in different publications'
    assert pair.play("sub", subscribe("s", "pa, one"), subscribe("s", "pa, only_truncate")) == [refusal, refusal]
    assert pair.play("sub", subscribe("s", "pa, two"))[-1] == "CREATE SUBSCRIPTION"
    assert pair.play("sub", "ALTER SUBSCRIPTION s ADD PUBLICATION one") == [refusal]


def test_a_leaf_is_not_listed_beside_its_root(instance: Instance) -> None:
    """C5."""
    for database in ("pub", "sub"):
        instance.play(
            database,
            "CREATE TABLE root (k int PRIMARY KEY) PARTITION BY RANGE (k)",
            "CREATE TABLE leaf PARTITION OF root DEFAULT",
        )
    instance.play("pub", "CREATE PUBLICATION leaves FOR TABLE root")
    instance.play("pub", "CREATE PUBLICATION whole FOR TABLE root WITH (publish_via_partition_root)")
    for name, publications in (("s1", "leaves"), ("s2", "whole"), ("s3", "leaves, whole")):
        instance.play("sub", subscribe(name, publications))
    assert instance.play("sub", STATES) == ["s1|leaf|i", "s2|root|i", "s3|root|i"]


BANS = [
    (subscribe("x", "pa"), "CREATE SUBSCRIPTION ... WITH (create_slot = true)"),
    ("DROP SUBSCRIPTION s", "DROP SUBSCRIPTION"),
    ("ALTER SUBSCRIPTION s REFRESH PUBLICATION", "ALTER SUBSCRIPTION ... REFRESH"),
    ("ALTER SUBSCRIPTION s SET PUBLICATION pb", "ALTER SUBSCRIPTION with refresh"),
    ("ALTER SUBSCRIPTION s ADD PUBLICATION pb", "ALTER SUBSCRIPTION with refresh"),
    ("ALTER SUBSCRIPTION off SET (failover)", "ALTER SUBSCRIPTION ... SET (failover)"),
]


@pytest.mark.parametrize(("statement", "named"), BANS, ids=[named for _, named in BANS])
def test_what_cannot_be_undone_is_banned_from_transaction_blocks(pair: Instance, statement: str, named: str) -> None:
    """C4."""
    pair.play("sub", subscribe("s", "pa"), subscribe("off", "pa", "enabled = false"))
    assert pair.play("sub", "BEGIN", statement, "ROLLBACK") == [
        "BEGIN",
        f"ERROR:  {named} cannot run inside a transaction block",
        "ROLLBACK",
    ]


def test_what_touches_no_slot_may_stand_in_a_block(pair: Instance) -> None:
    quiet = "create_slot = false, slot_name = NONE, enabled = false, copy_data = false"
    assert pair.play(
        "sub",
        "BEGIN",
        subscribe("s", "pa", quiet),
        "ALTER SUBSCRIPTION s SET PUBLICATION pb WITH (refresh = false)",
        "DROP SUBSCRIPTION s",
        "COMMIT",
    ) == ["BEGIN", "CREATE SUBSCRIPTION", "ALTER SUBSCRIPTION", "DROP SUBSCRIPTION", "COMMIT"]


def test_a_disabled_subscription_is_not_refreshed(pair: Instance) -> None:
    pair.play("sub", subscribe("s", "pa", "enabled = false"))
    assert pair.play(
        "sub",
        "ALTER SUBSCRIPTION s REFRESH PUBLICATION",
        "ALTER SUBSCRIPTION s SET PUBLICATION pb",
        "ALTER SUBSCRIPTION s ADD PUBLICATION pb",
        "ALTER SUBSCRIPTION s ADD PUBLICATION pb WITH (refresh = false)",
        "ALTER SUBSCRIPTION s DROP PUBLICATION pb",
    ) == [
        "ERROR:  ALTER SUBSCRIPTION ... REFRESH is not allowed for disabled subscriptions",
        "ERROR:  ALTER SUBSCRIPTION with refresh is not allowed for disabled subscriptions",
        "HINT:  Use ALTER SUBSCRIPTION ... SET PUBLICATION ... WITH (refresh = false).",
        "ERROR:  ALTER SUBSCRIPTION with refresh is not allowed for disabled subscriptions",
        "HINT:  Use ALTER SUBSCRIPTION ... ADD PUBLICATION ... WITH (refresh = false) instead.",
        "ALTER SUBSCRIPTION",
        "ERROR:  ALTER SUBSCRIPTION with refresh is not allowed for disabled subscriptions",
        "HINT:  Use ALTER SUBSCRIPTION ... DROP PUBLICATION ... WITH (refresh = false) instead.",
    ]


def test_refresh_adds_new_tables_and_removes_old_ones(pair: Instance) -> None:
    pair.play("sub", subscribe("s", "pa, pb", "copy_data = false"))
    pair.play("pub", "ALTER PUBLICATION pb SET TABLE c")
    pair.play("sub", "SET client_min_messages = debug1")
    assert pair.play("sub", "ALTER SUBSCRIPTION s REFRESH PUBLICATION", STATES) == [
        'DEBUG:  table "public.c" added to subscription "s"',
        'DEBUG:  table "public.b" removed from subscription "s"',
        "ALTER SUBSCRIPTION",
        "s|a|r",
        "s|c|i",
    ]


def test_a_disabled_subscription_is_a_row_of_nulls_in_pg_stat_subscription(pair: Instance) -> None:
    """C6."""
    pair.play("sub", subscribe("s", "pa", "enabled = false"))
    assert pair.play("sub", "SELECT subname, worker_type, pid, relid, received_lsn FROM pg_stat_subscription") == [
        "s||||"
    ]


def test_a_table_that_is_being_synchronized_is_not_dropped(pair: Instance) -> None:
    """C7."""
    pair.play("sub", subscribe("s", "pa"), subscribe("r", "pb", "copy_data = false"))
    assert pair.play("sub", "DROP TABLE a", "DROP TABLE b", STATES) == [
        'ERROR:  could not drop relation mapping for subscription "s"',
        'DETAIL:  Table synchronization for relation "a" is in progress and is in state "i".',
        "HINT:  Use ALTER SUBSCRIPTION ... ENABLE to enable subscription if not already enabled "
        "or use DROP SUBSCRIPTION ... to drop the subscription.",
        "DROP TABLE",
        "s|a|i",
    ]


def test_a_renamed_subscription_keeps_its_slot(pair: Instance) -> None:
    """C7."""
    pair.play("sub", subscribe("s", "pa"), "ALTER SUBSCRIPTION s RENAME TO t")
    assert pair.play("sub", "SELECT subname, subslotname FROM pg_subscription", "DROP SUBSCRIPTION t") == [
        "t|s",
        'NOTICE:  dropped replication slot "s" on publisher',
        "DROP SUBSCRIPTION",
    ]


def test_an_unreachable_publisher_is_left_behind_by_way_of_slot_none(pair: Instance) -> None:
    """B2."""
    pair.play("sub", subscribe("s", "pa"), "ALTER SUBSCRIPTION s CONNECTION 'host=/nosuch dbname=pub'")
    socket = (
        'connection to server on socket "/nosuch/.s.PGSQL.5432" failed: No such file or directory\n'
        "\tIs the server running locally and accepting connections on that socket?"
    )
    refused = pair.play("sub", "DROP SUBSCRIPTION s")
    assert refused[0].startswith('WARNING:  could not drop tablesync replication slot "pg_')
    assert refused[1:] == [
        f'ERROR:  could not connect to publisher when attempting to drop replication slot "s": {socket}',
        "HINT:  Use ALTER SUBSCRIPTION ... DISABLE to disable the subscription, and then use "
        "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to disassociate it from the slot.",
    ]
    assert pair.play(
        "sub",
        "ALTER SUBSCRIPTION s REFRESH PUBLICATION",
        "ALTER SUBSCRIPTION s SET (slot_name = NONE)",
        "ALTER SUBSCRIPTION s DISABLE",
        "ALTER SUBSCRIPTION s SET (slot_name = NONE)",
        "ALTER SUBSCRIPTION s ENABLE",
        "DROP SUBSCRIPTION s",
        SLOTS,
    ) == [
        f"ERROR:  could not connect to the publisher: {socket}",
        "ERROR:  cannot set slot_name = NONE for enabled subscription",
        "ALTER SUBSCRIPTION",
        "ALTER SUBSCRIPTION",
        "ERROR:  cannot enable subscription that does not have a slot name",
        "DROP SUBSCRIPTION",
        "s|pub|f|f",
    ]


def test_two_phase_is_enabled_at_once_where_nothing_is_copied(pair: Instance) -> None:
    pair.play(
        "sub",
        subscribe("s1", "pa", "two_phase, copy_data = false"),
        subscribe("s2", "pa", "two_phase"),
        subscribe("s3", "nosuch", "two_phase, copy_data = false"),
    )
    assert pair.play("sub", "SELECT subname, subtwophasestate FROM pg_subscription ORDER BY 1", SLOTS) == [
        "s1|e",
        "s2|p",
        "s3|p",
        "s1|pub|t|f",
        "s2|pub|f|f",
        "s3|pub|f|f",
    ]
    assert pair.play("sub", "ALTER SUBSCRIPTION s1 REFRESH PUBLICATION", "ALTER SUBSCRIPTION s1 SET (two_phase)") == [
        "ERROR:  ALTER SUBSCRIPTION ... REFRESH with copy_data is not allowed when two_phase is enabled",
        "HINT:  Use ALTER SUBSCRIPTION ... REFRESH with copy_data = false, or use DROP/CREATE SUBSCRIPTION.",
        'ERROR:  unrecognized subscription parameter: "two_phase"',
    ]


def test_failover_is_a_property_of_the_slot(pair: Instance) -> None:
    pair.play("sub", subscribe("s", "pa", "failover, enabled = false"))
    assert pair.play(
        "sub",
        SLOTS,
        "ALTER SUBSCRIPTION s SET (failover = false)",
        SLOTS,
        "ALTER SUBSCRIPTION s ENABLE",
        "ALTER SUBSCRIPTION s SET (failover)",
    ) == [
        "s|pub|f|t",
        "ALTER SUBSCRIPTION",
        "s|pub|f|f",
        "ALTER SUBSCRIPTION",
        "ERROR:  cannot set failover for enabled subscription",
    ]


def test_skip_must_not_lie_behind_the_origin(pair: Instance) -> None:
    pair.play("sub", subscribe("s", "pa"))
    pair.play("sub", "SELECT pg_replication_origin_advance('pg_' || oid, '0/20') FROM pg_subscription")
    assert pair.play(
        "sub",
        "ALTER SUBSCRIPTION s SKIP (lsn = '0/1F')",
        "ALTER SUBSCRIPTION s SKIP (lsn = '0/20')",
        "SELECT subskiplsn FROM pg_subscription",
        "ALTER SUBSCRIPTION s SKIP (lsn = 'FFFFFFFF/FFFFFFFF')",
        "SELECT subskiplsn FROM pg_subscription",
        "ALTER SUBSCRIPTION s SKIP (lsn = NONE)",
        "SELECT subskiplsn FROM pg_subscription",
        "ALTER SUBSCRIPTION s SKIP (lsn = '0/0')",
        "ALTER SUBSCRIPTION s SKIP (lsn = 'x')",
        "ALTER SUBSCRIPTION s SKIP (enabled)",
    ) == [
        "ERROR:  skip WAL location (LSN 0/1F) must be greater than origin LSN 0/20",
        "ALTER SUBSCRIPTION",
        "0/20",
        "ALTER SUBSCRIPTION",
        "FFFFFFFF/FFFFFFFF",
        "ALTER SUBSCRIPTION",
        "0/0",
        "ERROR:  invalid WAL location (LSN): 0/0",
        'ERROR:  invalid input syntax for type pg_lsn: "x"',
        'ERROR:  unrecognized subscription parameter: "enabled"',
    ]


def test_origin_none_warns_of_what_others_wrote(pair: Instance) -> None:
    """The publisher itself subscribes to table a."""
    pair.play("postgres", "CREATE TABLE a (k int PRIMARY KEY)", "CREATE PUBLICATION up FOR TABLE a")
    pair.play("pub", subscribe("up", "up", conninfo="dbname=postgres"))
    assert pair.play("sub", subscribe("s", "pb", "origin = none"))[:-1] == [
        'NOTICE:  created replication slot "s" on publisher'
    ]
    assert pair.play("sub", subscribe("t", "pa, pb", "origin = NONE")) == [
        'WARNING:  subscription "t" requested copy_data with origin = NONE but might copy data '
        "that had a different origin",
        'DETAIL:  The subscription being created subscribes to a publication ("pa") that contains tables '
        "that are written to by other subscriptions.",
        "HINT:  Verify that initial data copied from the publisher tables did not come from other origins.",
        'NOTICE:  created replication slot "t" on publisher',
        "CREATE SUBSCRIPTION",
    ]


EXCLUSIVE = [
    ("connect = false, enabled", "connect = false and enabled = true are mutually exclusive options"),
    ("connect = false, create_slot", "connect = false and create_slot = true are mutually exclusive options"),
    ("connect = false, copy_data", "connect = false and copy_data = true are mutually exclusive options"),
    ("slot_name = NONE, enabled", "slot_name = NONE and enabled = true are mutually exclusive options"),
    ("slot_name = NONE", "subscription with slot_name = NONE must also set enabled = false"),
    (
        "slot_name = NONE, enabled = false, create_slot",
        "slot_name = NONE and create_slot = true are mutually exclusive options",
    ),
    ("slot_name = NONE, enabled = false", "subscription with slot_name = NONE must also set create_slot = false"),
    ("streaming = maybe", 'streaming requires a Boolean value or "parallel"'),
    ("streaming = 2", 'streaming requires a Boolean value or "parallel"'),
    ("origin = local", 'unrecognized origin value: "local"'),
    ("refresh = false", 'unrecognized subscription parameter: "refresh"'),
    ("binary, binary", "conflicting or redundant options"),
    ("slot_name = ''", 'replication slot name "" is too short'),
]


@pytest.mark.parametrize(("options", "message"), EXCLUSIVE, ids=[options for options, _ in EXCLUSIVE])
def test_options_that_cannot_be(instance: Instance, options: str, message: str) -> None:
    assert instance.play("sub", subscribe("s", "p", options)) == [f"ERROR:  {message}"]


def test_a_bad_synchronous_commit_lists_the_good_ones(instance: Instance) -> None:
    assert instance.play("sub", subscribe("s", "p", "synchronous_commit = maybe")) == [
        'ERROR:  invalid value for parameter "synchronous_commit": "maybe"',
        "HINT:  Available values: local, remote_write, remote_apply, on, off.",
    ]


def test_every_option_is_remembered(instance: Instance) -> None:
    options = (
        "connect = false, slot_name = other, synchronous_commit = 'remote_apply', binary, streaming = parallel, "
        "two_phase, disable_on_error, password_required = false, run_as_owner, failover, origin = None"
    )
    columns = (
        "subenabled, subslotname, subsynccommit, subbinary, substream, subtwophasestate, subdisableonerr, "
        "subpasswordrequired, subrunasowner, subfailover, suborigin, subconninfo, subpublications, subskiplsn"
    )
    assert instance.play("sub", subscribe("s", "p, q", options), f"SELECT {columns} FROM pg_subscription") == [
        *NOT_CONNECTED,
        "f|other|remote_apply|t|p|p|t|f|t|t|none|dbname=pub|{p,q}|0/0",
    ]


def test_a_server_that_does_not_answer_is_named_by_libpq(instance: Instance) -> None:
    conninfo = "host=127.0.0.1 port=1 dbname=pub password=secret"
    refused = (
        'connection to server at "127.0.0.1", port 1 failed: Connection refused\n'
        "\tIs the server running on that host and accepting TCP/IP connections?"
    )
    assert instance.play(
        "sub",
        subscribe("s", "p", conninfo=conninfo),
        subscribe("s", "p", "connect = false", conninfo=conninfo),
        "DROP SUBSCRIPTION s",
    ) == [
        f"ERROR:  could not connect to the publisher: {refused}",
        *NOT_CONNECTED,
        f'ERROR:  could not connect to publisher when attempting to drop replication slot "s": {refused}',
        "HINT:  Use ALTER SUBSCRIPTION ... DISABLE to disable the subscription, and then use "
        "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to disassociate it from the slot.",
    ]


def test_without_psycopg_a_server_is_out_of_reach(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert instance.play("sub", subscribe("s", "p", conninfo="host=db.example.com dbname=pub")) == [
        "ERROR:  a PostgreSQL server as publisher needs psycopg, which is not installed",
        "HINT:  Install it with: pip install 'psycopg[binary]>=3.2'",
    ]
