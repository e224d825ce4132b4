"""What `pgrepl status` says of a subscription to a server, which tells bytes, but no rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.replication.subscriber.preview import preview
from pgrepl.replication.subscriber.status import Status, subscription_status
from pgrepl.replication.subscriber.worker import Worker
from pgrepl.shell.status_text import status_row
from tests.harness.programs import PATIENCE
from tests.postgres.served import PublishingServer, Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    publishing = PublishingServer(18)
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
