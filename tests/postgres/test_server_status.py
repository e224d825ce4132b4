"""What `pgrepl status` says of a subscription to a server, which tells bytes, but no rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from pgrepl.catalog.facts.activity import Copying
from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.publisher.postgres import slots
from pgrepl.replication.publisher.postgres.link import link_to
from pgrepl.replication.publisher.postgres.slots import ServerProbe
from pgrepl.replication.publisher.senders import Retained
from pgrepl.replication.subscriber import dangers, lease
from pgrepl.replication.subscriber.copying import copy
from pgrepl.replication.subscriber.lease import Observer
from pgrepl.replication.subscriber.preview import preview
from pgrepl.replication.subscriber.status import CopyStatus, Status, subscription_status
from pgrepl.replication.subscriber.worker import Worker
from pgrepl.server.metrics import of_publishers
from pgrepl.shell.commands.status import status_row, status_text
from pgrepl.shell.progress import _pieces
from tests.harness.database import Database, Rows
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.harness.programs import PATIENCE, eventually
from tests.postgres.served import PublishingServer, Served


@pytest.fixture(params=[18])
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    publishing = PublishingServer(request.param)
    made = Served(publishing, tmp_path)
    yield made
    made.close()
    publishing.server.stop()


def status(served: Served) -> Status:
    (found,) = subscription_status(served.sub.session, everywhere=False)
    return found


WORKERS = "SELECT subname, worker_type, pid IS NULL, received_lsn IS NULL FROM pg_stat_subscription"


def test_lag_behind_a_server(served: Served) -> None:
    served.both("CREATE TABLE t (a int PRIMARY KEY)")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.pub("INSERT INTO t SELECT generate_series(1, 1000)")
    found = status(served)
    assert found.behind is not None and found.behind > 10_000
    assert found.backlog is None
    assert found.seconds is not None and 0 < found.seconds < 60  # since the worker had all changes, which has ended
    assert status_row(found)[5].splitlines()[0] == pg_size_pretty(found.behind)
    assert found.exceeds(3600) is None
    assert served.sub(WORKERS) == [("s", None, "t", "t")]
    subid = int(served.sub("SELECT oid FROM pg_subscription")[0][0] or 0)
    worker = Worker(served.sub.session, subid, served.log, keeps_lease=True)
    try:
        until = time.monotonic() + PATIENCE
        while found.behind:  # the server now and then writes something itself
            assert worker.round().error is None
            found = status(served)
            assert time.monotonic() < until
        assert (found.seconds, status_row(found)[5]) == (0.0, "0 bytes")
        served.pub("ALTER PUBLICATION p DROP TABLE t")
        assert [(table.name, table.published) for table in status(served).tables] == [("public.t", False)]
        served.pub("INSERT INTO t VALUES (0)")
        found = status(served)
        assert found.seconds is not None and 0 < found.seconds < 60
        assert (found.exceeds(0) is None, found.exceeds(60)) == (False, None)
        assert status_row(found)[5].splitlines()[1].startswith("~")
        assert found.as_json()["lag"]["lsn"] == found.behind
        assert served.sub(WORKERS) == [("s", "apply", "f", "f")]
    finally:
        worker.close()
    assert served.sub(WORKERS) == [("s", None, "t", "t")]


def test_a_dry_run_lets_the_server_count(served: Served) -> None:
    served.publishing.needs(15)
    served.both("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE u (a int PRIMARY KEY)")
    served.pub("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g; INSERT INTO u VALUES (1), (2)")
    served.pub("CREATE PUBLICATION p FOR TABLE t (a) WHERE (a > 900 OR b = 'y'), u WITH (publish = 'insert')")
    served.sub(f"CREATE SUBSCRIPTION s CONNECTION '{served.conninfo}' PUBLICATION p WITH (slot_name = {served.slot})")
    subid = int(served.sub("SELECT oid FROM pg_subscription")[0][0] or 0)
    found = preview(served.sub.session, subid)
    assert sorted((table.name, table.to_copy) for table in found.tables) == [("t", 100), ("u", 2)]


ON_BOTH = pytest.mark.parametrize("served", dose([16, 18], 2, 1), indirect=True)


def published(served: Served) -> None:
    served.both("CREATE TABLE t (a int PRIMARY KEY)")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()


@contextmanager
def writing(served: Served) -> Iterator[psycopg.Connection]:
    """The connection of an application to the server whose transaction has written and is open."""
    with psycopg.connect(f"{served.conninfo} application_name=report") as link:
        link.execute("INSERT INTO t VALUES (-1)")
        yield link


@contextmanager
def following(served: Served) -> Iterator[Worker]:
    subid = int(served.sub("SELECT oid FROM pg_subscription")[0][0] or 0)
    worker = Worker(served.sub.session, subid, served.log, keeps_lease=True)
    try:
        assert worker.round().error is None
        yield worker
    finally:
        worker.close()


@ON_BOTH
def test_what_the_server_retains_for_the_slot(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    published(served)
    served.pub("ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'")
    served.pub("SELECT pg_reload_conf()")
    with writing(served) as link:
        pid = link.info.backend_pid
        served.pub("INSERT INTO t SELECT generate_series(1, 10000)")
        served.catch_up()
        found = status(served)
        retained = found.retained
        assert retained is not None and retained.transaction is not None and retained.left is not None
        assert retained.size > retained.unconfirmed + 500_000
        assert (retained.status, retained.limit, retained.invalid) == ("reserved", 1 << 30, None)
        assert 0 < retained.left <= (1 << 30) + (16 << 20)
        oldest = retained.transaction
        assert (oldest.pid, oldest.user, oldest.application) == (pid, "postgres", "report")
        assert (oldest.database, oldest.state) == (served.database, "idle in transaction")
        told = found.as_json()["retained"]
        assert (told["bytes"], told["oldest_transaction"]["pid"], told["spilled_bytes"]) == (retained.size, pid, 0)
        text = " ".join(status_text([found]).split())
        assert f"the publisher retains {pg_size_pretty(retained.size)} of WAL (wal_status reserved; " in text
        assert f"oldest open transaction: process {pid}, " in text
        metrics = {
            family.name: family.samples
            for family in of_publishers(subscription_status(served.sub.session, everywhere=True))
        }
        names = {"database": "sub", "subscription": "s"}
        assert metrics["pgrepl_publisher_wal_retained_bytes"][0][1] >= retained.size
        assert metrics["pgrepl_publisher_wal_safe_bytes"] == [(names, retained.left)]
        assert {labels["wal_status"] for labels, value in metrics["pgrepl_publisher_slot_wal_status"] if value} == {
            "reserved"
        }
        assert metrics["pgrepl_publisher_oldest_transaction_seconds"][0][1] >= round(oldest.seconds, 3)
        assert metrics["pgrepl_publisher_warnings"] == [(names, 0)]
        served.pub("SELECT pg_switch_wal(); INSERT INTO t VALUES (0)")
        since = status(served).retained
        assert since is not None and since.seconds is not None and since.seconds > 0
        served.pub("CREATE ROLE looks LOGIN REPLICATION; GRANT SELECT ON ALL TABLES IN SCHEMA public TO looks")
        conninfo = served.conninfo.replace("user=postgres", "user=looks")
        served.sub(f"ALTER SUBSCRIPTION s CONNECTION '{conninfo}'")
        less = status(served).retained
        assert less is not None and less.size > 0
        assert (less.transaction, less.seconds, less.sees_all) == (None, None, False)
        monkeypatch.setattr(slots, "_REREAD", -1)
        with closing(link_to(parse_conninfo(conninfo))) as by_it:
            slots.bring_restart_forward(by_it, served.slot)  # it may not, and need not


@ON_BOTH
def test_a_follower_warns_once_of_what_endangers_the_server(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dangers, "INTERVAL", 0.05)
    looks: list[int] = []
    look = ServerProbe.look

    def counted(probe: ServerProbe) -> Retained | None:
        found = look(probe)
        looks.append(1)
        return found

    monkeypatch.setattr(ServerProbe, "look", counted)
    published(served)
    for name, value in (("retained", "'200kB'"), ("transaction", "0")):
        served.sub(f"ALTER DATABASE sub SET pgrepl.publisher_warn_{name} = {value}")
    with writing(served) as link:
        served.pub("INSERT INTO t SELECT generate_series(1, 10000)")
        with following(served) as worker:
            eventually(lambda: served.log.messages("WARNING"))
            seen = len(looks)
            eventually(lambda: len(looks) > seen + 3)
            (warning,) = [report for report in served.log.reports if report.severity == "WARNING"]
            assert warning.message.startswith('subscription "s": the publisher retains ')
            assert warning.message.endswith(f' of WAL for replication slot "{served.slot}"')
            worker.round()
            seen = len(looks)
            eventually(lambda: len(looks) > seen + 3)
            assert len(served.log.messages("WARNING")) == 1
            (danger,) = status(served).dangers
            assert (
                danger.hint
                == f"Let it end, or end it at the publisher: SELECT pg_terminate_backend({link.info.backend_pid});"
            )
    connections = "SELECT FROM pg_stat_activity WHERE application_name = 's'"
    eventually(lambda: served.pub(connections) == [])


def test_who_does_not_stay_warns_when_it_begins(served: Served) -> None:
    published(served)
    catalog = str(served.folder / "catalog.db")
    served.sub("ALTER DATABASE sub SET pgrepl.publisher_warn_retained = '200kB'")
    for what in ("apply", "sync"):
        served.pub("DELETE FROM t; INSERT INTO t SELECT generate_series(1, 10000)")
        said = pgrepl(what, "--catalog", catalog, "-d", "sub").stderr
        assert ' WARNING:  subscription "s": the publisher retains ' in said and "HINT:  Let pgrepl apply" in said
    served.sub("ALTER DATABASE sub SET pgrepl.publisher_warn_retained = 0")
    assert pgrepl("apply", "--catalog", catalog, "-d", "sub").stderr == ""


@ON_BOTH
def test_a_warning_that_is_over_is_told_too(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dangers, "INTERVAL", 0.05)
    published(served)
    served.sub("ALTER DATABASE sub SET pgrepl.publisher_warn_transaction = '1s'")
    with writing(served) as link, following(served):
        eventually(lambda: served.log.messages("WARNING"))
        link.rollback()
        eventually(lambda: any("it is over that a transaction" in said for said in served.log.messages("LOG")))
    (said,) = served.log.messages("WARNING")
    assert said.startswith('subscription "s": a transaction with changes has been open at the publisher for ')


def test_a_slot_that_was_lost_because_nobody_read_it_says_so(served: Served) -> None:
    served.publishing.needs(18)
    published(served)
    served.pub("ALTER SYSTEM SET idle_replication_slot_timeout = '1s'")
    served.pub("SELECT pg_reload_conf()")
    lost = f"SELECT invalidation_reason FROM pg_replication_slots WHERE slot_name = '{served.slot}'"

    def is_idle() -> bool:
        served.pub("CHECKPOINT")
        return served.pub(lost) == [("idle_timeout",)]

    eventually(lambda: any(danger.kind == "idle" for danger in status(served).dangers))
    eventually(is_idle)
    ((message, _, _),) = served.catch_up()
    assert message == (
        f'could not start WAL streaming: ERROR:  can no longer get changes from replication slot "{served.slot}"\n'
        "DETAIL:  The slot has not been read from for longer than the server's idle_replication_slot_timeout.\n"
        "HINT:  Let pgrepl repair make a new slot, and bring the tables to it."
    )
    found = status(served)
    assert found.retained is not None and found.stop is not None
    assert (found.retained.invalid, found.dangers) == ("idle_timeout", ())
    assert found.exceeds(3600) is not None
    assert found.stop.advice.text.startswith("Set a longer idle_replication_slot_timeout at the publisher, or ")
    text = " ".join(status_text([found]).split())
    assert "is lost: The slot has not been read from for longer than the server's idle_replication_slot" in text


def test_a_follower_whose_slot_is_lost_stops_with_the_way_back(served: Served) -> None:
    published(served)
    served.pub("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    served.pub("ALTER SYSTEM SET min_wal_size = '32MB'")
    served.pub("SELECT pg_reload_conf()")
    with writing(served), following(served) as worker:
        for _ in range(4):
            served.pub("SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()")
        served.pub("CHECKPOINT")
        eventually(lambda: worker.round().error is not None)
        eventually(lambda: (stop := status(served).stop) is not None and "can no longer" in stop.failure.message
                   if worker.round().error is not None else False)  # fmt: skip
    stop = status(served).stop
    assert stop is not None
    assert stop.advice.text.startswith("Set a higher max_slot_wal_keep_size at the publisher, or let workers run; then")


def test_large_tables_without_a_key_are_copied_as_a_whole_which_the_log_says(served: Served) -> None:
    served.sub("ALTER DATABASE sub SET pgrepl.copy_range_size = '64kB'")
    served.both("CREATE TABLE none (a int); CREATE TABLE small (a int); CREATE TABLE other (a numeric PRIMARY KEY)")
    served.both("CREATE TABLE here (a int PRIMARY KEY); CREATE TABLE keyed (a int PRIMARY KEY)")
    for name in ("none", "other", "here", "keyed"):
        served.pub(f"INSERT INTO {name} SELECT generate_series(1, 5000); ANALYZE {name}")
    served.sub("INSERT INTO here VALUES (0)")
    served.pub("CREATE PUBLICATION p FOR ALL TABLES")
    served.subscribe_only()
    with following(served):
        pass
    assert [said for said in served.log.messages("LOG") if "as a whole" in said] == [
        'subscription "s": table public.none is copied as a whole, because it has no primary key and no index as its '
        "replica identity",
        'subscription "s": table public.other is copied as a whole, because column "a" of its key has type numeric, '
        "which is ordered otherwise here",
        'subscription "s": table public.here is copied as a whole, because it has rows here',
    ]
    assert [table.state for table in status(served).tables] == ["r"] * 5


def test_the_progress_of_a_copy_in_pieces(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "WHILE_COPYING", 0.02)
    served.sub("ALTER DATABASE sub SET pgrepl.copy_range_size = '64kB'")
    served.both("CREATE TABLE t (a int PRIMARY KEY)")
    served.pub("INSERT INTO t SELECT generate_series(1, 20000); ANALYZE t; CREATE PUBLICATION p FOR TABLE t")
    served.subscribe_only()
    seen: list[tuple[CopyStatus, Rows]] = []
    bars: list[str] = []

    class Watching(Observer):
        def rows(self, subscription: str, table: str, copying: Copying) -> None:
            bars.append(_pieces(copying))

    view = (
        "SELECT relid::regclass, tuples_processed > 0, bytes_processed > 0, pieces_processed, pieces_total, "
        "seconds_left >= 0 FROM pgrepl_stat_progress_copy"
    )
    again = Database(served.folder, "sub")

    def point(name: str) -> None:
        if name == "copy.committed":

            def shows() -> bool:
                (table,) = status(served).tables
                row = again(view)
                if table.copy is None or table.copy.pieces is None or not row:
                    return table.state != "d"
                seen.append((table.copy, row))
                return row[0][3] == str(table.copy.pieces[0]) and table.copy.seconds_left is not None

            eventually(shows)

    monkeypatch.setattr(copy, "crash_point", point)
    subid = int(served.sub("SELECT oid FROM pg_subscription")[0][0] or 0)
    worker = Worker(served.sub.session, subid, served.log, observer=Watching())
    try:
        assert worker.round().error is None
    finally:
        worker.close()
        again.close()
    last, row = seen[-1]
    assert last.pieces is not None and last.rows is not None and last.size is not None
    done, total = last.pieces
    assert 2 < done < total
    assert row == [("t", "t", "t", str(done), str(total), "t")]
    assert 0 < last.rows < 20000 and last.size > last.rows
    assert last.as_json()["pieces_done"] == done
    assert any(f", {done} of {total} pieces, " in said and said.endswith(" left") for said in bars)
    assert status(served).tables[0].copy is None
