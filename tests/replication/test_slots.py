"""Slots and origins: what they remember, and that no transaction takes them back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.statements.run import run
from tests.harness.database import ask, visit
from tests.harness.following import following
from tests.harness.pair import Pair
from tests.harness.played import Instance
from tests.harness.programs import eventually

CREATE = "SELECT slot_name FROM pg_create_logical_replication_slot('{}', 'pgoutput')"
SLOTS = "SELECT slot_name FROM pg_replication_slots ORDER BY 1"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    made = Instance(tmp_path)
    yield made
    made.catalog.close()


def test_a_slot_outlives_the_transaction_that_made_it(instance: Instance) -> None:
    assert instance.play("pub", "BEGIN", CREATE.format("s"), SLOTS, "ROLLBACK", SLOTS) == [
        "BEGIN",
        "s",
        "s",
        "ROLLBACK",
        "s",
    ]


def test_a_dropped_slot_stays_dropped(instance: Instance) -> None:
    instance.play("pub", CREATE.format("s"))
    assert instance.play("pub", "BEGIN", "SELECT pg_drop_replication_slot('s')", "ROLLBACK", SLOTS) == [
        "BEGIN",
        "",
        "ROLLBACK",
    ]


def test_no_slot_in_a_transaction_that_has_written(instance: Instance) -> None:
    assert instance.play("pub", "BEGIN", "CREATE TABLE t (a int)", CREATE.format("s"), "ROLLBACK", SLOTS) == [
        "BEGIN",
        "CREATE TABLE",
        "ERROR:  cannot create logical replication slot in transaction that has performed writes",
        "ROLLBACK",
    ]


def test_as_many_slots_as_the_setting_allows(instance: Instance) -> None:
    many = "SELECT slot_name FROM generate_series(1, 11) i, pg_create_logical_replication_slot('s' || i, 'pgoutput')"
    assert instance.play("pub", many, "SELECT count(*) FROM pg_replication_slots") == [
        "ERROR:  all replication slots are in use",
        'HINT:  Free one or increase "max_replication_slots".',
        "10",
    ]


def test_a_new_slot_stands_where_the_next_change_will(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", CREATE.format("s"))
    position = "SELECT confirmed_flush_lsn = pg_current_wal_lsn() FROM pg_replication_slots"
    assert instance.play("pub", position, "CREATE TABLE u (a int)", position) == ["t", "CREATE TABLE", "f"]
    assert instance.play(
        "pub", "SELECT slot_name FROM pg_replication_slot_advance('s', 'FFFFFFFF/FFFFFFFF')", position
    ) == ["s", "t"]


def test_a_slot_is_never_moved_back(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", CREATE.format("s"))
    (where,) = instance.play("pub", "SELECT confirmed_flush_lsn FROM pg_replication_slots")
    assert instance.play("pub", "SELECT pg_replication_slot_advance('s', '0/1')") == [
        f"ERROR:  cannot advance replication slot to 0/1, minimum is {where}"
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("pg_create_logical_replication_slot('', 'pgoutput')", 'replication slot name "" is too short'),
        (
            "pg_create_logical_replication_slot('a-b', 'pgoutput')",
            'replication slot name "a-b" contains invalid character',
        ),
        (
            "pg_create_logical_replication_slot('s', 'wal2json')",
            'could not access file "wal2json": No such file or directory',
        ),
        (
            "pg_create_logical_replication_slot('s', 'pgoutput', temporary => true, failover => true)",
            "cannot enable failover for a temporary replication slot",
        ),
        (
            "pg_create_physical_replication_slot('s', true, true)",
            "a temporary physical replication slot is not supported",
        ),
        ("pg_copy_logical_replication_slot('s', 't')", 'replication slot "s" does not exist'),
        ("pg_drop_replication_slot('s')", 'replication slot "s" does not exist'),
        ("pg_replication_slot_advance('s', '0/1')", 'replication slot "s" does not exist'),
        ("pg_replication_slot_advance('s', '0/0')", "invalid target WAL LSN"),
    ],
)
def test_what_slot_functions_refuse(instance: Instance, call: str, message: str) -> None:
    assert instance.play("pub", f"SELECT {call}")[0] == f"ERROR:  {message}"


def test_origins_take_the_lowest_free_number(instance: Instance) -> None:
    assert instance.play(
        "pub",
        "SELECT pg_replication_origin_create('a'), pg_replication_origin_create('b')",
        "SELECT pg_replication_origin_drop('a')",
        "SELECT pg_replication_origin_create('c'), pg_replication_origin_oid('b'), pg_replication_origin_oid('a')",
    ) == ["1|2", "", "1|2|"]


def test_an_origin_has_a_position_once_it_was_given_one(instance: Instance) -> None:
    status = "SELECT external_id, remote_lsn, local_lsn FROM pg_replication_origin_status"
    progress = "SELECT pg_replication_origin_progress('o', true)"
    instance.play("pub", "SELECT pg_replication_origin_create('o')")
    assert instance.play("pub", progress, status) == [""]
    instance.play("pub", "BEGIN", "SELECT pg_replication_origin_advance('o', '0/20')", "ROLLBACK")
    assert instance.play("pub", progress, status) == ["0/20", "o|0/20|0/0"]
    for position in ("FFFFFFFF/FFFFFFFF", "0/10"):
        instance.play("pub", f"SELECT pg_replication_origin_advance('o', '{position}')")
        assert instance.play("pub", progress) == [position]


def test_origins_with_a_position_are_as_many_as_slots_may_be(instance: Instance) -> None:
    for number in range(11):
        instance.play("pub", f"SELECT pg_replication_origin_create('o{number}')")
    for number in range(10):
        assert instance.play("pub", f"SELECT pg_replication_origin_advance('o{number}', '0/1')") == [""]
    assert instance.play("pub", "SELECT pg_replication_origin_advance('o10', '0/1')") == [
        "ERROR:  could not find free replication state slot for replication origin with ID 11",
        'HINT:  Increase "max_replication_slots" and try again.',
    ]


def test_what_a_session_writes_has_the_origin_that_it_set_up_and_moves_its_position(instance: Instance) -> None:
    options = "NULL, NULL, 'skip-empty-xacts', '1', 'include-xids', '0'"
    local = f"SELECT data FROM pg_logical_slot_peek_changes('look', {options}, 'only-local', '1') WHERE data ~ 'table'"
    everything = f"SELECT count(*) FROM pg_logical_slot_peek_changes('look', {options}) WHERE data ~ 'table'"
    status = "SELECT external_id, remote_lsn, local_lsn > '0/0' FROM pg_replication_origin_status"
    progress = "SELECT pg_replication_origin_session_progress(true)"
    instance.play("pub", "CREATE TABLE t (a int)", CREATE.format("look").replace("pgoutput", "test_decoding"))
    assert instance.play(
        "pub",
        "SELECT pg_replication_origin_create('o')",
        "SELECT pg_replication_origin_session_is_setup()",
        "SELECT pg_replication_origin_session_setup('o')",
        "SELECT pg_replication_origin_session_setup('o')",
        "SELECT pg_replication_origin_session_is_setup()",
        progress,
        status,
        "INSERT INTO t VALUES (1)",
        status,
        "BEGIN",
        "SELECT pg_replication_origin_xact_setup('0/AA', '2024-01-01')",
        "INSERT INTO t VALUES (2)",
        "ROLLBACK",
        progress,
        "BEGIN",
        "SELECT pg_replication_origin_xact_setup('0/BB', '2024-01-01')",
        "INSERT INTO t VALUES (3)",
        "UPDATE t SET a = 4 WHERE a = 3",
        "COMMIT",
        progress,
        "SELECT pg_replication_origin_xact_setup('0/5', now()), pg_replication_origin_advance('o', '0/1')",
        "SELECT pg_replication_origin_drop('o')",
        "SELECT pg_replication_origin_xact_reset(), pg_replication_origin_session_reset()",
        "SELECT pg_replication_origin_session_reset()",
        "INSERT INTO t VALUES (5)",
        status,
        local,
        everything,
    ) == [
        "1",
        "f",
        "",
        "ERROR:  cannot setup replication origin when one is already setup",
        "t",
        "",
        "o|0/0|f",
        "INSERT 0 1",
        "o|0/0|t",
        "BEGIN",
        "",
        "INSERT 0 1",
        "ROLLBACK",
        "",
        "BEGIN",
        "",
        "INSERT 0 1",
        "UPDATE 1",
        "COMMIT",
        "0/BB",
        f"ERROR:  replication origin with ID 1 is already active for PID {os.getpid()}",
        f"ERROR:  could not drop replication origin with ID 1, in use by PID {os.getpid()}",
        "|",
        "ERROR:  no replication origin is configured",
        "INSERT 0 1",
        "o|0/BB|t",
        "table public.t: INSERT: a[integer]:5",
        "4",
    ]


def test_standbys_that_are_waited_for_have_names_of_slots(instance: Instance) -> None:
    assert instance.play("pub", "ALTER SYSTEM SET synchronized_standby_slots = 'one, Bad-Name'") == [
        'ERROR:  invalid value for parameter "synchronized_standby_slots": "one, Bad-Name"',
        'DETAIL:  replication slot name "bad-name" contains invalid character',
        "HINT:  Replication slot names may only contain lower case letters, numbers, and the underscore character.",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("create('pg_x')", 'replication origin name "pg_x" is reserved'),
        ("create('None')", 'replication origin name "None" is reserved'),
        ("drop('x')", 'replication origin "x" does not exist'),
        ("advance('x', '0/1')", 'replication origin "x" does not exist'),
        ("progress('x', true)", 'replication origin "x" does not exist'),
        ("session_setup('x')", 'replication origin "x" does not exist'),
        ("session_reset()", "no replication origin is configured"),
        ("session_progress(true)", "no replication origin is configured"),
        ("xact_setup('0/1', now())", "no replication origin is configured"),
    ],
)
def test_what_origin_functions_refuse(instance: Instance, call: str, message: str) -> None:
    assert instance.play("pub", f"SELECT pg_replication_origin_{call}")[0] == f"ERROR:  {message}"


def test_statistics_of_subscriptions_are_reset_one_or_all(instance: Instance) -> None:
    for name in "ab":
        instance.play(
            "sub", f"CREATE SUBSCRIPTION {name} CONNECTION '' PUBLICATION p WITH (connect = false, slot_name = NONE)"
        )
    stats = "SELECT subname, apply_error_count, sync_error_count, stats_reset IS NULL FROM pg_stat_subscription_stats"
    assert instance.play("sub", f"{stats} ORDER BY 1") == ["a|0|0|t", "b|0|0|t"]
    instance.play("sub", "SELECT pg_stat_reset_subscription_stats(oid) FROM pg_subscription WHERE subname = 'a'")
    assert instance.play("sub", f"{stats} ORDER BY 1") == ["a|0|0|f", "b|0|0|t"]
    instance.play("sub", "SELECT pg_stat_reset_subscription_stats(NULL)")
    assert instance.play("sub", f"{stats} ORDER BY 1") == ["a|0|0|f", "b|0|0|f"]
    assert instance.play("sub", "SELECT pg_stat_reset_subscription_stats(0)") == ["ERROR:  invalid subscription OID 0"]


def test_two_sessions_cannot_make_the_same_slot(instance: Instance) -> None:
    assert instance.play("pub", "BEGIN", SLOTS) == ["BEGIN"]
    (made,) = run(open_session(instance.catalog, "pub"), CREATE.format("s"))
    assert made.rows == [("s",)]
    assert instance.play("pub", CREATE.format("s"), "ROLLBACK") == [
        'ERROR:  replication slot "s" already exists',
        "ROLLBACK",
    ]


def test_a_slot_that_nobody_reads_from_is_given_up(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t", "SELECT pg_create_physical_replication_slot('never')")
    pair.pub("ALTER SYSTEM SET idle_replication_slot_timeout = '1s'")
    slot = "SELECT invalidation_reason, wal_status FROM pg_replication_slots WHERE slot_name = 's'"
    with visit(pair.folder / "catalog.db", "pub") as other:
        with following(pair):
            pair.sub.subscribe("p", "host=localhost dbname=pub")
            eventually(lambda: pair.sub("SELECT srsubstate FROM pg_subscription_rel") == [("r",)])
            time.sleep(1.1)
            ask(other, "VACUUM")  # it is in use
            assert pair.pub(slot) == [(None, "reserved")]
        time.sleep(1.1)
        ask(other, "VACUUM")
    assert pair.pub(slot) == [("idle_timeout", "lost")]
    said = (
        'can no longer access replication slot "s"\nThis replication slot has been invalidated due to "idle_timeout".'
    )
    assert pair.pub.says("SELECT pg_replication_slot_advance('s', pg_current_wal_lsn())") == said
    pair.pub("INSERT INTO t VALUES (1)")
    ((message, _, _),) = pair.catch_up()
    assert 'replication slot "s"' in message and "idle_timeout" in message
    pair.sub("DROP SUBSCRIPTION s")
    assert pair.pub("SELECT slot_name FROM pg_replication_slots") == [("never",)]
