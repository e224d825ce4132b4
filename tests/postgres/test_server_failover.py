"""A server that fails: its standby with synchronized slots goes on for it; a slot whose log is gone; an old backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from psycopg.errors import ObjectNotInPrerequisiteState

from pgrepl.replication.subscriber.status import subscription_status
from tests.harness.programs import eventually
from tests.postgres.served import PublishingServer, Served
from tests.postgres.server import Server

T = "CREATE TABLE t (a int, b text); ALTER TABLE t REPLICA IDENTITY FULL"  # what is applied twice is there twice
ALL_T = "SELECT * FROM t ORDER BY a, b"


@pytest.fixture(scope="module")
def publishing() -> Iterator[PublishingServer]:
    made = PublishingServer(18)
    yield made
    made.server.stop()


@pytest.fixture
def standby(served: Served) -> Iterator[PublishingServer]:
    """It streams from the server that is subscribed to. A cold copy: not every release here has pg_basebackup."""
    primary = served.publishing
    primary.needs(17)
    served.pub("SELECT pg_create_physical_replication_slot('standby', true)")
    copy = Server(primary.server.binaries, libraries=primary.server.libraries)
    made = PublishingServer(primary.version, copy)
    data = copy.folder / "data"
    served.link.close()
    primary.control("-m", "fast", "stop")
    copy.run("cp", "-a", str(primary.server.folder / "data"), str(data))
    copy.run("rm", "-r", str(data / "pg_replslot" / "standby"))
    with (data / "postgresql.conf").open("a") as conf:
        conf.write(
            f"port = {copy.port}\nunix_socket_directories = '{copy.folder}'\nprimary_conninfo = '{served.conninfo}'\n"
            "primary_slot_name = 'standby'\nhot_standby_feedback = on\n"
        )
    (data / "standby.signal").touch()
    for each in (primary, made):
        each.control("start")
    yield made
    copy.stop()
    primary.control("start")
    served.pub("SELECT pg_drop_replication_slot('standby')")


def test_a_standby_with_synchronized_slots_goes_on(served: Served, standby: PublishingServer) -> None:
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    there = standby.conninfo(served.database)
    served.pub("INSERT INTO t VALUES (1, 'copied')")
    served.subscribe(options="failover = true")
    assert served.pub(f"SELECT failover FROM pg_replication_slots WHERE slot_name = '{served.slot}'") == [("t",)]
    served.pub("INSERT INTO t VALUES (2, 'before the slot was synchronized')")
    assert served.catch_up() == []
    with psycopg.connect(there, autocommit=True) as link:

        def synchronized() -> bool:
            """The standby takes a slot that keeps no more than what it has itself."""
            served.pub("SELECT pg_log_standby_snapshot()")
            assert served.catch_up() == []
            with suppress(ObjectNotInPrerequisiteState):  # the standby has not yet received what the slot confirms
                link.execute("SELECT pg_sync_replication_slots()")
            query = "SELECT count(*) FROM pg_replication_slots WHERE failover AND synced AND NOT temporary"
            return link.execute(query).fetchall() == [(1,)]

        eventually(synchronized)
        served.pub("INSERT INTO t VALUES (3, 'behind the synchronized slot')")
        assert served.catch_up() == []
        served.pub("INSERT INTO t VALUES (4, 'not applied yet')")
        lsn = served.pub("SELECT pg_current_wal_flush_lsn()")[0][0]
        replayed = f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'".encode()
        eventually(lambda: link.execute(replayed).fetchall() == [(True,)])
    served.link.close()
    served.publishing.control("-m", "immediate", "stop")
    assert served.catch_up() != []
    standby.control("promote")
    served.sub(f"ALTER SUBSCRIPTION s CONNECTION '{there}'")
    with psycopg.connect(there, autocommit=True) as link:
        link.execute("UPDATE t SET b = b || ', and changed' WHERE a = 3")
        link.execute("INSERT INTO t VALUES (5, 'at the new one')")
        assert served.catch_up() == []
        assert served.sub(ALL_T) == [
            (str(a), b) for a, b in link.execute("SELECT * FROM t ORDER BY a").fetchall()
        ] and served.sub("SELECT count(*) FROM t") == [("5",)]
        served.sub("DROP SUBSCRIPTION s")
        assert link.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical'").fetchall() == [
            (0,)
        ]


REMOVED = "The server had to keep more WAL for the slot than max_slot_wal_keep_size, and has removed it."
UNKNOWN = "The server has removed what the slot had to keep, or invalidated it."


def test_a_slot_whose_log_the_server_has_removed_says_what_to_do(served: Served) -> None:
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.pub("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    served.pub("ALTER SYSTEM SET min_wal_size = '32MB'")
    served.pub("SELECT pg_reload_conf()")
    for number in range(4):
        served.pub(f"INSERT INTO t VALUES ({number}, 'lost')")
        served.pub("SELECT pg_switch_wal()")
    served.pub("CHECKPOINT")
    assert served.pub(f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = '{served.slot}'") == [("lost",)]
    ((message, _, _),) = served.catch_up()
    assert message == (
        f'could not start WAL streaming: ERROR:  can no longer get changes from replication slot "{served.slot}"\n'
        f"DETAIL:  {REMOVED if served.publishing.version >= 17 else UNKNOWN}\n"
        "HINT:  Let pgrepl repair make a new slot, and bring the tables to it."
    )
    (found,) = subscription_status(served.sub.session, everywhere=False)
    assert found.retained is not None and found.stop is not None and found.unreachable is not None
    assert found.retained.status == "lost"
    assert found.unreachable.startswith(f'replication slot "{served.slot}" is lost: ')
    raised = (
        "Set a higher max_slot_wal_keep_size at the publisher" if served.publishing.version >= 17 else "What the sl"
    )
    assert found.stop.advice.text.startswith(raised)
    served.sub("DROP SUBSCRIPTION s")
    served.subscribe()
    assert len(served.same(ALL_T)) == 4
    for name in ("max_slot_wal_keep_size", "min_wal_size"):
        served.pub(f"ALTER SYSTEM RESET {name}")
    served.pub("SELECT pg_reload_conf()")


def test_a_server_restored_from_an_older_backup_is_not_followed(served: Served) -> None:
    publishing = served.publishing
    data, backup = str(publishing.server.folder / "data"), str(publishing.server.folder / "backup")
    served.both(T)
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.link.close()
    publishing.control("-m", "fast", "stop")
    publishing.server.run("cp", "-a", data, backup)
    publishing.control("start")
    served.pub("INSERT INTO t SELECT g, 'later' FROM generate_series(1, 1000) g")
    served.catch_up()  # the connection is lost
    assert served.catch_up() == []
    served.link.close()
    publishing.control("-m", "fast", "stop")
    publishing.server.run("rm", "-r", data)
    publishing.server.run("mv", backup, data)
    publishing.control("start")
    served.catch_up()
    ((message, _, _),) = served.catch_up()
    assert message.startswith("could not start WAL streaming: ERROR:  the publisher's log ends at 0/")
    assert "DETAIL:  This is another server, or one that was restored from an older backup." in message
    assert served.sub("SELECT count(*) FROM t") == [("1000",)]
