"""A standby follows its primary, is read-only until it is promoted, and then takes its place for the subscriptions."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.transaction import statement as own_statement
from pgrepl.ground.errors import PgError
from pgrepl.lake.define.adopt import upgrade
from pgrepl.replication import standby as standby_module
from pgrepl.replication.backup import back_up, restore
from pgrepl.replication.standby import create, promote, synchronize
from pgrepl.replication.subscriber.worker import Worker
from tests.harness.database import HeardLog, ask, visit
from tests.harness.forked import pgrepl
from tests.harness.nodes import LARGE, Node, Nodes
from tests.harness.programs import started
from tests.lake import duck


def test_a_standby_has_the_primarys_rows_and_lsns(nodes: Nodes) -> None:
    standby = nodes.create()
    position = "SELECT pg_last_wal_replay_lsn()"
    assert standby.rows() == nodes.primary.rows()
    assert standby(position) == nodes.primary("SELECT pg_current_wal_lsn()")
    nodes.primary(LARGE.format(400, 700), "DELETE FROM t WHERE a < 10", "CREATE TABLE u (a int)")
    assert standby("SELECT to_regclass('u')") == [(None,)]
    synchronize(standby.session)
    assert standby.rows() == nodes.primary.rows()
    assert standby(position) == nodes.primary("SELECT pg_current_wal_lsn()")
    assert standby(
        "SELECT to_regclass('u'), pg_is_in_recovery(), pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()"
    ) == [("u", "t", "t")]


def test_a_standby_is_read_only_with_postgresqls_words(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create()
    for statement in (
        "INSERT INTO t VALUES (0)",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "CREATE TABLE u ()",
        "GRANT SELECT ON t TO public",
    ):
        word = "CREATE TABLE" if statement.startswith("CREATE") else statement.split()[0]
        assert standby.says(statement) == f"cannot execute {word} in a read-only transaction"
    assert standby.says("SELECT * FROM t FOR UPDATE") == "cannot execute SELECT FOR UPDATE in a read-only transaction"
    assert standby.says("VACUUM") == "cannot execute VACUUM during recovery"
    assert standby.says("SET transaction_read_only = off") == "cannot set transaction read-write mode during recovery"
    assert standby.says("SELECT pg_current_wal_lsn()") == (
        "recovery is in progress\nWAL control functions cannot be executed during recovery."
    )
    assert standby.says("SELECT pg_drop_replication_slot('s')") == (
        'cannot drop replication slot "s"\nThis replication slot is being synchronized from the primary server.'
    )
    assert standby.says("SELECT pg_replication_slot_advance('s', '0/FF')") == (
        'cannot use replication slot "s" for logical decoding\n'
        "This replication slot is being synchronized from the primary server.\nSpecify another replication slot."
    )
    assert standby.says("BEGIN READ WRITE") == "cannot set transaction read-write mode during recovery"
    assert standby("SHOW transaction_read_only") == [("on",)]
    assert standby("SHOW in_hot_standby") == [("on",)]


def test_only_slots_that_fail_over_are_on_the_standby(nodes: Nodes) -> None:
    nodes.subscribe()
    nodes.primary("SELECT pg_create_logical_replication_slot('other', 'pgoutput')")
    standby = nodes.create()
    slots = "SELECT slot_name, synced, temporary, failover, active, conflicting FROM pg_replication_slots"
    assert standby(slots) == [("s", "t", "f", "t", "f", "f")]
    assert nodes.primary(f"{slots} ORDER BY 1") == [("other", "f", "f", "f", "f", "f"), ("s", "f", "f", "t", "f", "f")]


def test_the_documents_two_questions_about_readiness(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create()
    of_subscriptions = """
        SELECT array_agg(quote_literal(slot_name)) AS slots FROM
        (SELECT subslotname AS slot_name FROM pg_subscription WHERE subfailover)"""
    of_tables = """
        SELECT array_agg(quote_literal(slot_name)) AS slots FROM
        (SELECT CONCAT('pg_', srsubid, '_sync_', srrelid, '_', ctl.system_identifier) AS slot_name
         FROM pg_control_system() ctl, pg_subscription_rel r, pg_subscription s
         WHERE r.srsubstate = 'f' AND s.oid = r.srsubid AND s.subfailover)"""
    assert nodes.subscriber(of_subscriptions) == [("{'s'}",)]
    assert nodes.subscriber(of_tables) == [(None,)]
    ready = """
        SELECT slot_name, (synced AND NOT temporary AND NOT conflicting) AS failover_ready FROM pg_replication_slots
        WHERE slot_name IN ('s')"""
    assert standby(ready) == [("s", "t")]


def test_subscriptions_go_on_at_the_promoted_standby_without_loss_or_repetition(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create()
    nodes.primary("UPDATE t SET b = 'x' WHERE a < 5", LARGE.format(1000, 1300))
    assert nodes.subscriber.catch_up() == []
    nodes.primary("DELETE FROM t WHERE a = 7", "INSERT INTO t VALUES (5000, 'not sent yet')")
    synchronize(standby.session)
    assert nodes.fail_over(standby) == []
    assert nodes.subscriber("SELECT * FROM t ORDER BY a") == standby("SELECT * FROM t ORDER BY a")
    standby("INSERT INTO t VALUES (6000, 'by the new primary')", "DELETE FROM t WHERE a = 5000")
    assert nodes.subscriber.catch_up() == []
    assert nodes.subscriber("SELECT * FROM t ORDER BY a") == standby("SELECT * FROM t ORDER BY a")
    assert nodes.subscriber("SELECT apply_error_count, sync_error_count FROM pg_stat_subscription_stats") == [
        ("0", "0")
    ]


def test_a_subscriber_that_is_ahead_of_the_new_primary_is_told_so(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create()
    nodes.primary("INSERT INTO t VALUES (1000)")
    assert nodes.subscriber.catch_up() == []
    ((error, _, _),) = nodes.fail_over(standby)
    assert re.fullmatch(
        "could not start WAL streaming: ERROR:  requested starting point 0/[0-9A-F]+ is ahead of "
        "the WAL flush position of this server 0/[0-9A-F]+",
        error,
    )


def test_subscribers_wait_for_the_standbys_that_are_named(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create(slot="standby")
    nodes.primary("ALTER SYSTEM SET synchronized_standby_slots = 'standby'", "INSERT INTO t VALUES (1000)")
    assert nodes.subscriber.catch_up() == []
    assert 1000 not in nodes.subscriber.rows()
    waits = 'replication slot "standby" specified in parameter "synchronized_standby_slots" does not have active_pid'
    assert waits in [report.message for report in nodes.subscriber.log.reports]
    synchronize(standby.session)
    assert nodes.subscriber.catch_up() == []
    assert 1000 in nodes.subscriber.rows()
    assert waits not in [report.message for report in nodes.subscriber.log.reports]
    assert nodes.primary(
        "SELECT slot_type, restart_lsn = pg_current_wal_lsn() FROM pg_replication_slots WHERE slot_name = 'standby'"
    ) == [("physical", "t")]


def test_nobody_waits_for_a_follower_that_waits_for_a_standby(nodes: Nodes) -> None:
    """Who reads gets the rows of before; for whom the follower waits is said when that changes."""
    nodes.subscribe()
    standby = nodes.create(slot="standby")
    subid = int(str(nodes.subscriber("SELECT oid FROM pg_subscription")[0][0]))
    log = HeardLog()
    nodes.primary("ALTER SYSTEM SET synchronized_standby_slots = 'standby'")
    follower = Worker(nodes.subscriber.session, subid, log, keeps_lease=True)
    said = []
    try:
        for value in range(3):
            nodes.primary(
                "ALTER SYSTEM SET synchronized_standby_slots = 'standby'", f"INSERT INTO t VALUES ({1000 + value})"
            )
            for _ in range(3):
                assert follower.round().error is None
                assert nodes.subscriber.catch_up() == []
                assert 1000 + value not in nodes.subscriber.rows()
            synchronize(standby.session)
            assert follower.round().transactions == 1
            said.append([report.message for report in log.reports if report.severity == "WARNING"])
            log.reports.clear()
    finally:
        follower.close()
    waits = 'replication slot "standby" specified in parameter "synchronized_standby_slots" does not have active_pid'
    assert said == [[waits]] * 3


def test_a_subscription_cannot_use_a_standby_before_its_promotion(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create()
    nodes.primary("INSERT INTO t VALUES (1000)")
    synchronize(standby.session)
    ((error, _, _),) = nodes.point_to(standby)
    assert error.startswith(
        'could not start WAL streaming: ERROR:  cannot use replication slot "s" for logical decoding'
    )
    assert nodes.point_to(nodes.primary) == []
    assert 1000 in nodes.subscriber.rows()


def test_subscriptions_of_a_standby_sleep(nodes: Nodes) -> None:
    """A standby of the subscriber has the subscription, too."""
    nodes.subscribe()
    create(nodes.subscriber.session, nodes.folder / "twin", slot=None, link=True)
    twin = Node(nodes.folder / "twin")
    nodes.primary("INSERT INTO t VALUES (1000)")
    assert twin.catch_up() == []
    assert 1000 not in twin.rows()
    promote(twin.session)
    assert twin.catch_up() == []
    assert 1000 in twin.rows()
    twin.close()


def test_vacuum_on_one_side_leaves_the_other_its_files(nodes: Nodes) -> None:
    standby = nodes.create()
    rows = nodes.primary.rows()
    clean = ("SET pgrepl.keep_snapshots = 0", "SET pgrepl.file_grace = 0", "VACUUM FULL t", "VACUUM t")
    nodes.primary("DELETE FROM t WHERE a = 1", *clean)
    assert standby.rows() == rows
    promote(standby.session)
    standby("DELETE FROM t WHERE a = 2", *clean)
    assert nodes.primary.rows() == rows[1:]
    assert standby.rows() == [a for a in rows if a != 2]


@pytest.mark.parametrize("link", [True, False], ids=["links", "copies"])
def test_files_are_linked_or_copied_once(nodes: Nodes, link: bool) -> None:
    standby = nodes.create(link=link)
    nodes.primary(LARGE.format(1000, 1300))
    done = synchronize(standby.session)
    assert (done.files, synchronize(standby.session).files) == (1, 0)
    name = next(name for name in standby.files() if name.endswith(".parquet"))
    assert (os.stat(standby.folder / name).st_nlink > 1) == link


def test_files_that_nobody_needs_go_one_synchronization_later(nodes: Nodes) -> None:
    standby = nodes.create()
    before = standby.files()
    nodes.primary(
        "SET pgrepl.keep_snapshots = 0", "SET pgrepl.file_grace = 0", "VACUUM FULL t", "TRUNCATE t", "VACUUM t"
    )
    synchronize(standby.session)
    assert before <= standby.files()  # who reads may still read them
    assert synchronize(standby.session).removed == 1
    assert not any(name.endswith(".parquet") for name in standby.files())


def test_files_outside_the_primarys_folder_come_along(nodes: Nodes) -> None:
    (inside,) = (nodes.primary.folder / "catalog.db.files").rglob("*.parquet")
    outside = nodes.folder / "year=2024" / "of others.parquet"
    outside.parent.mkdir()
    shutil.copyfile(inside, outside)
    path = nodes.primary.folder / "catalog.db"
    duck.run(path, f"CALL ducklake_add_data_files('lake', 't', '{outside}', schema => 'shop')")
    duck.close(path)
    standby = nodes.create()
    outside.unlink()
    assert len(standby.rows()) == 600


@pytest.mark.parametrize("cleaned", [True, False])
def test_files_that_others_have_removed_need_not_come_along(nodes: Nodes, cleaned: bool) -> None:
    standby = nodes.create()
    path = nodes.primary.folder / "catalog.db"
    nodes.primary(LARGE.format(1000, 1300))
    duck.run(path, "CALL ducklake_merge_adjacent_files('lake')")
    duck.duck(path, "SELECT count(*) FROM ducklake_expire_snapshots('lake', older_than => now())")
    if cleaned:
        duck.duck(path, "SELECT count(*) FROM ducklake_cleanup_old_files('lake', cleanup_all => true)")
    duck.close(path)
    synchronize(standby.session)
    assert len(standby.rows()) == 601


def test_sessions_on_the_standby_see_each_synchronization_and_the_promotion(nodes: Nodes) -> None:
    standby = nodes.create()
    other = Node(standby.folder)
    other("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM t")
    nodes.primary("INSERT INTO t VALUES (1000)")
    synchronize(standby.session)
    assert 1000 not in other.rows() and 1000 in standby.rows()
    other("COMMIT")
    assert 1000 in other.rows()
    promote(standby.session)
    other("INSERT INTO t VALUES (1001)")
    assert 1001 in standby.rows()
    other.close()


def test_slots_alone_are_synchronized_by_function(nodes: Nodes) -> None:
    nodes.subscribe()
    standby = nodes.create(slot="standby")
    assert nodes.primary.says("SELECT pg_sync_replication_slots()") == (
        "replication slots can only be synchronized to a standby server"
    )
    position = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 's'"
    nodes.primary("INSERT INTO t VALUES (1000)")
    synchronize(standby.session)
    nodes.subscriber.catch_up()
    assert standby(position) != nodes.primary(position)
    standby("SELECT pg_sync_replication_slots()")
    assert standby(position) == nodes.primary(position)
    nodes.primary("INSERT INTO t VALUES (1001)")
    nodes.subscriber.catch_up()
    assert standby.says("SELECT pg_sync_replication_slots()").startswith(
        "skipping slot synchronization because the received slot sync LSN "
    )
    nodes.subscriber("DROP SUBSCRIPTION s")
    standby("SELECT pg_sync_replication_slots()")
    assert standby("SELECT slot_name FROM pg_replication_slots") == []


def test_settings_are_the_standbys_own(nodes: Nodes) -> None:
    standby = nodes.create()
    nodes.primary("ALTER SYSTEM SET work_mem = '1MB'")
    synchronize(standby.session)
    again = Node(standby.folder)
    assert again("SHOW work_mem") == [("4MB",)]
    assert again("SHOW primary_conninfo") == [(f"host='{nodes.primary.folder}' dbname=postgres",)]
    again.close()


def test_what_cannot_be(nodes: Nodes) -> None:
    standby = nodes.create()
    for action, message in (
        (lambda: create(nodes.primary.session, standby.folder, slot=None, link=True), "already exists"),
        (lambda: create(nodes.primary.session, nodes.primary.folder, slot=None, link=True), "is the primary's own"),
        (
            lambda: create(standby.session, nodes.folder / "x", slot=None, link=True),
            "cannot synchronize replication slots from a standby server",
        ),
        (lambda: synchronize(nodes.primary.session), "recovery is not in progress"),
        (lambda: promote(nodes.primary.session), "recovery is not in progress"),
    ):
        with pytest.raises(PgError, match=message):
            action()
    nodes.primary("CREATE ROLE plain LOGIN")
    plain = open_session(nodes.primary.catalog, "shop", "plain")
    with pytest.raises(PgError, match="permission denied to create a standby"):
        create(plain, nodes.folder / "x", slot=None, link=True)
    plain.close()
    (nodes.primary.folder).rename(nodes.folder / "gone")
    with pytest.raises(PgError, match="could not connect to the primary server"):
        synchronize(standby.session)
    assert len(standby.rows()) == 300


def test_a_lost_file_of_the_primary_leaves_the_standby_as_it_was(nodes: Nodes) -> None:
    standby = nodes.create()
    nodes.primary(LARGE.format(1000, 1300))
    newest = max((nodes.primary.folder / "catalog.db.files").rglob("*.parquet"))
    newest.unlink()
    with pytest.raises(PgError, match="No such file or directory"):
        synchronize(standby.session)
    assert len(standby.rows()) == 300
    assert not [name for name in standby.files() if ".standby." in name]


# --- killed -----------------------------------------------------------------------------------------------------------

ROOM = Path(standby_module.__file__).parent
STEPS = sorted(
    {name for path in ROOM.glob("standby*.py") for name in re.findall(r'\bcrash_point\("([^"]+)"\)', path.read_text())}
)


def test_killed_at_each_step_a_standby_is_as_before_or_as_after(nodes: Nodes) -> None:
    primary, folder = nodes.primary, nodes.folder / "standby"
    for name in ("standby.fetched", "standby.complete", "standby.drafted", "standby.created"):
        killed = pgrepl("standby", "create", str(folder), cwd=primary.folder, PGREPL_KILL_AT=name)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (folder / "catalog.db").exists() == (name == "standby.created")
    standby = Node(folder)
    before = standby.rows()
    assert before == primary.rows()
    clean = ("SET pgrepl.keep_snapshots = 0", "SET pgrepl.file_grace = 0", "VACUUM FULL t", "VACUUM t")
    primary(LARGE.format(1000, 1300), "DELETE FROM t WHERE a < 100", *clean)
    for name in ("standby.fetched", "standby.complete", "standby.drafted", "standby.published", "standby.removed"):
        killed = pgrepl(
            "standby", "sync", cwd=folder, PGREPL_KILL_AT=name
        )  # a file goes one run after the last that needed it
        assert killed.returncode == -signal.SIGKILL, (name, killed.stderr)
        assert standby.rows() == (primary.rows() if name in ("standby.published", "standby.removed") else before)
    synchronize(standby.session)
    assert standby.rows() == primary.rows()
    assert len([name for name in standby.files() if name.endswith(".parquet")]) == 1
    assert not [name for name in standby.files() if ".standby." in name or name.endswith(".part")]
    standby.close()


def test_every_step_is_reached() -> None:
    assert STEPS == [
        "standby.complete", "standby.created", "standby.drafted", "standby.fetched", "standby.published",
        "standby.removed",
    ]  # fmt: skip


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_line(nodes: Nodes) -> None:
    nodes.subscribe()
    here = nodes.primary.folder
    made = pgrepl("standby", "create", "../standby", cwd=here)
    assert re.fullmatch(r"created \.\./standby at 0/[0-9A-F]+: 1 new file, slots: s\n", made.stdout), made.stderr
    told = json.loads(pgrepl("standby", "sync", "--json", cwd=nodes.folder / "standby").stdout)
    assert (told["action"], told["slots"], told["files"]) == ("synchronized", ["s"], 0)
    assert pgrepl("standby", "promote", "../standby", cwd=here).stdout.startswith("promoted ../standby at 0/")
    again = pgrepl("standby", "sync", "../standby", cwd=here)
    assert (again.returncode, again.stderr.splitlines()[0]) == (1, "ERROR:  recovery is not in progress")
    nowhere = pgrepl("standby", "sync", "nowhere", cwd=here)
    assert nowhere.returncode == 2 and "No such file or directory" in nowhere.stderr
    assert not (here / "nowhere").exists()
    assert "synchronized_standby_slots" in pgrepl("standby", "--help", cwd=here).stdout


def test_who_follows_goes_on_after_a_moment_without_the_catalog(nodes: Nodes) -> None:
    folder = nodes.folder / "standby"
    create(nodes.primary.session, folder, slot=None, link=True)
    file = folder / "catalog.db"
    with started("standby", "sync", str(folder), "--follow", "--interval", "0.1") as following:
        assert following.stdout is not None and following.stderr is not None
        assert following.stdout.readline().startswith("synchronized ")
        file.rename(folder / "away")
        said = following.stderr.readline()
        assert "could not open catalog" in said and said.endswith("; trying again in 0.1 s\n")
        nodes.primary("DELETE FROM t")
        ((lsn,),) = nodes.primary("SELECT pg_current_wal_lsn()")
        (folder / "away").rename(file)
        assert any(f" at {lsn}: " in line for line in following.stdout)


def test_deletion_vectors_and_an_upgrade_reach_the_standby(nodes: Nodes, tmp_path: Path) -> None:
    standby = nodes.create()
    session = nodes.primary.session
    with own_statement(session, writes=True):
        session.link.execute("INSERT INTO ducklake_metadata (key, value) VALUES ('write_deletion_vectors', 'true')")
        upgrade(session)
    nodes.primary(LARGE.format(400, 1700), "DELETE FROM t WHERE a BETWEEN 500 AND 700", "DELETE FROM t WHERE a = 1000")
    nodes.primary("DELETE FROM t WHERE a BETWEEN 800 AND 950")
    synchronize(standby.session)
    assert standby.rows() == nodes.primary.rows()
    formats = nodes.primary.session.link.execute("SELECT format, partial_max > 0 FROM ducklake_delete_file")
    assert ("puffin", 1) in formats
    back_up(session, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again" / "catalog.db")
    with visit(tmp_path / "again" / "catalog.db", "shop") as copy:
        assert ask(copy, "SELECT count(*), sum(a) FROM t") == nodes.primary("SELECT count(*), sum(a) FROM t")
