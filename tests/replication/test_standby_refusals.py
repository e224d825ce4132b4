"""What a standby and its primary refuse of slots that fail over, as PostgreSQL 17.10 does, and slots that are lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from pgrepl.catalog.session.transaction import statement
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import update
from pgrepl.ground.errors import PgError
from pgrepl.replication.standby import promote, synchronize
from tests.harness.database import Database
from tests.harness.nodes import Node, Nodes

Refusal = tuple[str, str, str | None, str | None]

SYNC = "SELECT pg_sync_replication_slots()"
MAKE = "SELECT pg_create_logical_replication_slot('{}', 'pgoutput', {}, {}, true)"  # temporary, two_phase, failover
SYNCHRONIZED = "This replication slot is being synchronized from the primary server."
NO_DECODING: Refusal = (
    "55000",
    'cannot use replication slot "s" for logical decoding',
    SYNCHRONIZED,
    "Specify another replication slot.",
)
SLOT = "SELECT synced, restart_lsn IS NULL, wal_status, invalidation_reason, conflicting FROM pg_replication_slots"
READY = [("t", "f", "reserved", None, "f")]


def refused(node: Database, text: str) -> Refusal:
    with pytest.raises(PgError) as caught:
        node(text)
    report = caught.value.report
    return report.sqlstate, report.message, report.detail, report.hint


def lose(node: Node, **changed: object) -> None:
    """The changes that slot s needs are gone."""
    apart = node.session.elsewhere(node.session.database_oid, node.session.role, apart=True)
    apart.replays = True
    lost = {"invalidation_reason": "wal_removed", "wal_status": "lost", **changed}
    with closing(apart), statement(apart, writes=True):
        update(apart, tables.pg_replication_slot, {"slot_name": "s"}, **lost)


def reopened(nodes: Nodes, standby: Node, **settings: str) -> Node:
    """The standby after a restart with other settings."""
    path = standby.folder / "catalog.db"
    with closing(sqlite3.connect(path)) as link:
        for name, value in settings.items():
            link.execute("DELETE FROM pgrepl_setting WHERE name = ?", (name,))
            link.execute("INSERT INTO pgrepl_setting (name, value) VALUES (?, ?)", (name, value))
        link.commit()
    return nodes.opened(Node(standby.folder))


def test_a_primary_synchronizes_no_slots_whatever_its_settings(nodes: Nodes) -> None:
    wanted = ("55000", "replication slots can only be synchronized to a standby server", None, None)
    assert refused(nodes.primary, SYNC) == wanted
    nodes.primary("ALTER SYSTEM SET wal_level = replica")
    again = nodes.opened(Node(nodes.primary.folder))
    assert again("SHOW wal_level") == [("replica",)]
    assert refused(again, SYNC) == wanted


def test_slots_are_synchronized_only_with_the_settings_for_it(nodes: Nodes) -> None:
    conninfo = f"host={nodes.primary.folder}"
    requires = "replication slot synchronization requires"
    missing = 'replication slot "{}" specified by "primary_slot_name" does not exist on primary server'
    nodes.subscribe()
    standby = nodes.create()
    assert refused(standby, SYNC) == ("22023", f'{requires} "primary_slot_name" to be set', None, None)
    nodes.primary("SELECT pg_create_physical_replication_slot('standby')")
    good = {
        "primary_slot_name": "standby",
        "primary_conninfo": f"{conninfo} dbname=postgres",
        "hot_standby_feedback": "on",
    }
    for bad, message in (
        ({"wal_level": "replica", "primary_slot_name": ""}, f'{requires} "wal_level" >= "logical"'),
        ({"hot_standby_feedback": "off", "primary_conninfo": ""}, f'{requires} "hot_standby_feedback" to be enabled'),
        ({"primary_conninfo": ""}, f'{requires} "primary_conninfo" to be set'),
        ({"primary_conninfo": conninfo}, f'{requires} "dbname" to be specified in "primary_conninfo"'),
        ({"primary_slot_name": "gone"}, missing.format("gone")),
        ({"primary_slot_name": "s"}, missing.format("s")),  # a logical one
    ):
        changed = reopened(nodes, standby, **{"wal_level": "logical", **good, **bad})
        assert refused(changed, SYNC) == ("22023", message, None, None)
    assert reopened(nodes, standby, wal_level="logical", **good)(SYNC) == [("",)]


def test_no_slots_are_synchronized_from_a_standby(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create(slot="standby")
    cascading = nodes.create(slot="standby", folder="cascading")
    cascading = reopened(nodes, cascading, primary_conninfo=f"host={standby.folder} dbname=postgres")
    wanted = ("0A000", "cannot synchronize replication slots from a standby server", None, None)
    assert refused(cascading, SYNC) == wanted
    with pytest.raises(PgError, match=wanted[1]):
        synchronize(cascading.session)


def test_a_synchronized_slot_is_the_primarys(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create()
    for text in (
        "SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL)",
        "SELECT * FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '1', "
        "'publication_names', 'p')",
        "SELECT pg_replication_slot_advance('s', '0/FFFFFFF')",
    ):
        assert refused(standby, text) == NO_DECODING
    drop = "SELECT pg_drop_replication_slot('s')"
    assert refused(standby, drop) == ("55000", 'cannot drop replication slot "s"', SYNCHRONIZED, None)
    nodes.subscriber(
        "ALTER SUBSCRIPTION s DISABLE", f"ALTER SUBSCRIPTION s CONNECTION 'host={standby.folder} dbname=shop'"
    )
    for word in ("false", "true"):
        assert refused(nodes.subscriber, f"ALTER SUBSCRIPTION s SET (failover = {word})") == (
            "08P01",
            f'could not alter replication slot "s": ERROR:  cannot alter replication slot "s"\nDETAIL:  {SYNCHRONIZED}',
            None,
            None,
        )
    promote(standby.session)
    nodes.subscriber("ALTER SUBSCRIPTION s SET (failover = false)")
    assert standby("SELECT failover FROM pg_replication_slots") == [("f",)]


def test_no_slot_that_fails_over_is_made_on_a_standby_or_for_a_session(nodes: Nodes) -> None:
    temporary = ("0A000", "cannot enable failover for a temporary replication slot", None, None)
    on_standby = ("0A000", "cannot enable failover for a replication slot created on the standby", None, None)
    assert refused(nodes.primary, MAKE.format("x", True, False)) == temporary
    nodes.subscribe()
    standby = nodes.create()
    for name in ("x", "s"):  # s is there
        for is_temporary in (False, True):
            assert refused(standby, MAKE.format(name, is_temporary, False)) == on_standby
    assert refused(standby, MAKE.format("Bad", False, False))[:2] == (
        "42602",
        'replication slot name "Bad" contains invalid character',
    )


def test_failover_and_two_phase_go_together(nodes: Nodes) -> None:
    nodes.primary(MAKE.format("both", False, True))
    nodes.subscriber("CREATE TABLE t (a int PRIMARY KEY, b text)")
    options = "WITH (failover = true, two_phase = true)"
    nodes.subscriber.subscribe("p", f"host={nodes.primary.folder} dbname=shop", options)
    assert nodes.subscriber.catch_up() == []
    nodes.primary("INSERT INTO t VALUES (1000)")  # the slot's subscriber asks for two_phase
    assert nodes.subscriber.catch_up() == []
    slots = "SELECT slot_name, failover, two_phase FROM pg_replication_slots ORDER BY 1"
    assert nodes.primary(slots) == [("both", "t", "t"), ("s", "t", "t")]
    assert nodes.create()(slots) == [("both", "t", "t"), ("s", "t", "t")]


def test_failover_of_a_subscription_is_changed_while_it_is_disabled(nodes: Nodes) -> None:
    nodes.subscribe()
    sub = nodes.subscriber
    for word in ("false", "true"):
        wanted = ("55000", "cannot set failover for enabled subscription", None, None)
        assert refused(sub, f"ALTER SUBSCRIPTION s SET (failover = {word})") == wanted
    sub("ALTER SUBSCRIPTION s DISABLE")
    sub("BEGIN")
    assert refused(sub, "ALTER SUBSCRIPTION s SET (failover = false)")[:2] == (
        "25001",
        "ALTER SUBSCRIPTION ... SET (failover) cannot run inside a transaction block",
    )
    sub("ROLLBACK")
    sub("ALTER SUBSCRIPTION s SET (failover = false, slot_name = NONE)")  # of the slot that it had
    assert nodes.primary("SELECT slot_name, failover FROM pg_replication_slots") == [("s", "f")]
    assert refused(sub, "ALTER SUBSCRIPTION s SET (slot_name = s, failover = true)") == (
        "55000",
        'cannot set option "failover" for a subscription that does not have a slot name',
        None,
        None,
    )
    sub("ALTER SUBSCRIPTION s SET (slot_name = gone)")
    assert refused(sub, "ALTER SUBSCRIPTION s SET (failover = true)") == (
        "08P01",
        'could not alter replication slot "gone": ERROR:  replication slot "gone" does not exist',
        None,
        None,
    )
    assert refused(sub, "ALTER SUBSCRIPTION s SET (two_phase = true)") == (
        "42601",
        'unrecognized subscription parameter: "two_phase"',
        None,
        None,
    )


def test_a_slot_that_is_lost_on_the_primary_is_lost_on_the_standby(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create(slot="standby")
    lose(nodes.primary, restart_lsn=None)
    standby(SYNC)
    assert standby(SLOT) == [("t", "f", "lost", "wal_removed", "f")]  # the position stays, as on PostgreSQL's standby
    assert refused(standby, "SELECT pg_replication_slot_advance('s', '0/FFFFFFF')") == NO_DECODING
    done = synchronize(standby.session)
    assert done.slots == ()  # none is ready to fail over
    nodes.fail_over(standby)
    standby("INSERT INTO t VALUES (1000)")
    ((message, _, _),) = nodes.subscriber.catch_up()
    assert message == (
        'could not start WAL streaming: ERROR:  can no longer get changes from replication slot "s"\n'
        "DETAIL:  This slot has been invalidated because it exceeded the maximum reserved size."
    )


def test_a_lost_slot_that_the_standby_never_had_is_not_made_there(nodes: Nodes) -> None:
    standby = nodes.create(slot="standby")
    nodes.subscribe()
    lose(nodes.primary, restart_lsn=None)
    standby(SYNC)
    assert standby(SLOT) == []


def test_a_slot_that_is_lost_on_the_standby_alone_is_made_anew(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create(slot="standby")
    lose(standby)
    assert standby(SLOT) == [("t", "f", "lost", "wal_removed", "f")]
    standby(SYNC)
    assert standby(SLOT) == READY


def test_a_slot_that_was_made_anew_on_the_primary_is_that_one_on_the_standby(nodes: Nodes) -> None:
    nodes.primary(MAKE.format("s", False, False))
    standby = nodes.create(slot="standby")
    nodes.primary("SELECT pg_drop_replication_slot('s')", "CREATE DATABASE other")
    other = nodes.opened(Node(nodes.primary.folder, "other"))
    other("SELECT pg_create_logical_replication_slot('s', 'test_decoding', false, true, true)")
    synchronize(standby.session)
    what = "SELECT plugin, database, two_phase FROM pg_replication_slots WHERE slot_name = 's'"
    assert standby(what) == other(what) == [("test_decoding", "other", "t")]
    other("SELECT pg_drop_replication_slot('s')")
    nodes.primary(MAKE.format("s", False, False))
    standby(SYNC)
    assert standby(what) == nodes.primary(what) == [("pgoutput", "shop", "f")]


def test_what_a_lost_slot_refuses(nodes: Nodes) -> None:
    nodes.primary(MAKE.format("s", False, False))
    lose(nodes.primary, restart_lsn=None)
    assert refused(nodes.primary, "SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL)") == (
        "55000",
        'can no longer get changes from replication slot "s"',
        "This slot has been invalidated because it exceeded the maximum reserved size.",
        None,
    )
    assert refused(nodes.primary, "SELECT pg_replication_slot_advance('s', '0/FFFFFFF')") == (
        "55000",
        'replication slot "s" cannot be advanced',
        "This slot has never previously reserved WAL, or it has been invalidated.",
        None,
    )
    assert refused(nodes.primary, "SELECT pg_copy_logical_replication_slot('s', 'c')") == (
        "55000",
        "cannot copy a replication slot that doesn't reserve WAL",
        None,
        None,
    )
