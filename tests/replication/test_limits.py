"""The settings that limit replication, on the side where PostgreSQL asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.nodes import Node, Nodes


@pytest.mark.parametrize(
    ("who", "setting", "error"),
    [
        (
            "publisher",
            "max_wal_senders",
            'could not start WAL streaming: FATAL:  number of requested standby connections exceeds "max_wal_senders" '
            "(currently 0)",
        ),
        ("subscriber", "max_logical_replication_workers", "out of logical replication worker slots"),
    ],
)
def test_no_worker_beyond_the_limit(nodes: Nodes, who: str, setting: str, error: str) -> None:
    nodes.subscribe()
    nodes.primary("INSERT INTO t VALUES (1000)")
    limited = nodes.primary if who == "publisher" else nodes.subscriber
    limited(f"ALTER SYSTEM SET {setting} = 0")
    again = Node(nodes.subscriber.folder)
    assert [message for message, _, _ in again.catch_up()] == [error]
    limited(f"ALTER SYSTEM RESET {setting}")
    free = Node(nodes.subscriber.folder)
    assert free.catch_up() == []
    assert 1000 in free.rows()
    again.close()
    free.close()


def test_slots_are_limited_by_the_publishers_setting(nodes: Nodes) -> None:
    nodes.primary(
        "ALTER SYSTEM SET max_replication_slots = 1", "SELECT pg_create_logical_replication_slot('x', 'pgoutput')"
    )
    nodes.subscriber("CREATE TABLE t (a int PRIMARY KEY, b text)")
    said = nodes.subscriber.says(
        f"CREATE SUBSCRIPTION s CONNECTION 'host={nodes.primary.folder} dbname=shop' PUBLICATION p"
    )
    assert said == (
        'could not create replication slot "s": ERROR:  all replication slots are in use\n'
        'HINT:  Free one or increase "max_replication_slots".'
    )


def test_a_subscription_whose_worker_would_find_no_room_is_not_created(nodes: Nodes) -> None:
    nodes.subscriber("CREATE TABLE t (a int PRIMARY KEY, b text)")
    nodes.subscriber("ALTER SYSTEM SET max_replication_slots = 1")
    full = Node(nodes.subscriber.folder)
    create = f"CREATE SUBSCRIPTION {{}} CONNECTION 'host={nodes.primary.folder} dbname=shop' PUBLICATION p"
    full(create.format("first"))
    assert full.says(create.format("second")) == (
        "could not find free replication state slot for another subscription\n"
        "max_replication_slots is 1: so many subscriptions and other replication origins are there.\n"
        'Increase "max_replication_slots" and try again.'
    )
    full(f"{create.format('third')} WITH (enabled = false)")
    assert nodes.primary("SELECT slot_name FROM pg_replication_slots ORDER BY 1") == [("first",), ("third",)]
    full.close()


def test_settings_of_replication_can_be_shown(tmp_path: Path) -> None:
    node = Node(tmp_path / "node", new=True)
    shown = {
        name: node(f"SHOW {name}")[0][0]
        for name in (
            "wal_level", "max_replication_slots", "max_wal_senders", "max_logical_replication_workers",
            "max_sync_workers_per_subscription", "max_parallel_apply_workers_per_subscription", "max_worker_processes",
            "wal_receiver_timeout", "wal_sender_timeout", "wal_receiver_status_interval", "wal_retrieve_retry_interval",
            "max_slot_wal_keep_size", "synchronized_standby_slots",
        )
    }  # fmt: skip
    assert list(shown.values()) == ["logical", "10", "10", "4", "2", "2", "8", "1min", "1min", "10s", "5s", "-1", ""]
    node.close()
