"""Several tables of a real server are copied at once, each over a connection of its own, until stopped."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pgrepl.catalog.facts.activity import Copying
from pgrepl.replication.subscriber.lease import Observer
from pgrepl.replication.subscriber.worker import Worker
from tests.harness.programs import PATIENCE, eventually
from tests.postgres.served import PublishingServer, Served

TABLES = ("t1", "t2", "t3")


@pytest.fixture(scope="module")
def publishing() -> Iterator[PublishingServer]:
    made = PublishingServer(16)
    yield made
    made.server.stop()


@pytest.fixture
def waiting(publishing: PublishingServer, tmp_path: Path) -> Iterator[Served]:
    made = Served(publishing, tmp_path)
    made.both("; ".join(f"CREATE TABLE {name} (a int PRIMARY KEY)" for name in TABLES))
    for name in TABLES:
        made.pub(f"INSERT INTO {name} SELECT generate_series(1, 20)")
    made.pub("CREATE PUBLICATION p FOR ALL TABLES")
    made.sub(f"CREATE SUBSCRIPTION s CONNECTION '{made.conninfo}' PUBLICATION p WITH (slot_name = {made.slot})")
    yield made
    made.close()


def worker(served: Served, observer: Observer | None = None) -> Worker:
    oid = int(str(served.sub("SELECT oid FROM pg_subscription")[0][0]))
    return Worker(served.sub.session, oid, served.log, observer=observer)


def counts(served: Served) -> list[str | None]:
    return [served.sub(f"SELECT count(*) FROM {name}")[0][0] for name in TABLES]


def test_two_tables_come_at_the_same_time(waiting: Served) -> None:
    together = threading.Barrier(2, timeout=PATIENCE)
    seen: list[object] = []

    class Meeting(Observer):
        def rows(self, subscription: str, table: str, copying: Copying) -> None:
            if copying.tuples_processed and not table.endswith("t3"):
                if together.wait() == 0:
                    seen.append(waiting.sub("SELECT count(*) FROM pg_stat_subscription"))
                together.wait()

    made = worker(waiting, Meeting())
    done = made.round()
    made.close()
    assert (done.error, done.tables_copied, seen) == (None, list(TABLES), [[("3",)]])
    assert counts(waiting) == ["20", "20", "20"]


def test_a_server_that_keeps_them_waiting_is_left(waiting: Served) -> None:
    """Somebody has an open transaction there, which two slots wait for: who is stopped breaks that off."""
    waiting.pub("BEGIN")
    waiting.pub("SELECT pg_current_xact_id()")
    made = worker(waiting)

    def stop() -> None:
        with suppress(AssertionError):
            eventually(lambda: waiting.pub("SELECT count(*) FROM pg_locks WHERE NOT granted") == [("2",)])
        os.kill(os.getpid(), signal.SIGINT)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        made.round()
    stopper.join()
    assert [thread.name for thread in threading.enumerate() if thread.name == "pgrepl-table-sync"] == []
    made.close()
    waiting.pub("ROLLBACK")
    assert counts(waiting) == ["0", "0", "0"]
    again = worker(waiting)
    done = again.round()
    again.close()
    assert (done.error, done.tables_copied) == (None, list(TABLES))
    assert counts(waiting) == ["20", "20", "20"]
