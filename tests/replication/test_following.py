"""`pgrepl apply --follow`: each subscription has a worker of its own that goes on until it is stopped."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.replication.subscriber.launcher import Launcher
from tests.replication.conftest import HeardLog, Pair

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
HERE = "host=localhost dbname=pub"


class Following(threading.Thread):
    """The launcher at work, beside a test that changes what it follows."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(daemon=True)
        self.log = HeardLog()
        self.problem: BaseException | None = None
        self._session = open_session(pair.sub.session.catalog, "sub")
        self._launcher = Launcher(self._session, self.log, keeps_leases=True)
        self._over = False

    def run(self) -> None:
        def ends(_rounds: object) -> bool:
            return self._over

        try:
            self._launcher.follow(0.02, lambda _, worker: worker.round(), ends)
        except BaseException as problem:
            self.problem = problem
        finally:
            self._launcher.close()
            self._session.close()

    def messages(self, severity: str) -> list[str]:
        return [report.message for report in self.log.reports if report.severity == severity]

    def end(self) -> None:
        self._over = True
        self.join(10)
        assert not self.is_alive()
        assert self.problem is None


@contextmanager
def following(pair: Pair) -> Iterator[Following]:
    made = Following(pair)
    made.start()
    try:
        yield made
    finally:
        made.end()


def eventually(holds: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, holds
        time.sleep(0.02)


@pytest.fixture
def ready(pair: Pair) -> Pair:
    pair.both(f"{T}; CREATE TABLE u (a int)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t; CREATE PUBLICATION q FOR TABLE u")
    return pair


@pytest.fixture
def nobody() -> Iterator[str]:
    """Where somebody listens, and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listens:
        yield f"host=127.0.0.1 port={listens.getsockname()[1]} dbname=pub"


def test_new_and_altered_subscriptions_are_noticed(ready: Pair) -> None:
    pub, sub = ready.pub, ready.sub
    pub("INSERT INTO t VALUES (1, 'x'); INSERT INTO u VALUES (7)")
    with following(ready) as followed:
        sub(f"CREATE SUBSCRIPTION s CONNECTION '{HERE}' PUBLICATION p")
        eventually(lambda: sub("SELECT * FROM t") == [("1", "x")])
        pub("ALTER PUBLICATION p ADD TABLE u")
        sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
        pub("INSERT INTO t VALUES (2, 'y')")
        eventually(lambda: sub("SELECT * FROM u") == [("7",)] and sub("SELECT count(*) FROM t") == [("2",)])
        sub("ALTER SUBSCRIPTION s DISABLE")
        stopped = 'logical replication worker for subscription "s" will stop because the subscription was disabled'
        eventually(lambda: stopped in followed.messages("LOG"))
        eventually(lambda: sub("SELECT active FROM pg_replication_slots") == [("f",)])
        pub("INSERT INTO t VALUES (3, 'z')")
        sub("ALTER SUBSCRIPTION s ENABLE")
        eventually(lambda: sub("SELECT count(*) FROM t") == [("3",)])
        sub("DROP SUBSCRIPTION s")
        removed = 'logical replication worker for subscription "s" will stop because the subscription was removed'
        eventually(lambda: removed in followed.messages("LOG"))
    started = 'logical replication apply worker for subscription "s" has started'
    table = 'logical replication table synchronization worker for subscription "s", table'
    assert [message for message in followed.messages("LOG") if "restart" not in message] == [
        started,
        f'{table} "t" has started',
        f'{table} "t" has finished',
        f'{table} "u" has started',
        f'{table} "u" has finished',
        stopped,
        started,
        removed,
    ]
    assert followed.messages("ERROR") == []


def test_after_an_error_it_is_tried_again_by_itself(ready: Pair) -> None:
    pub, sub = ready.pub, ready.sub
    sub("ALTER SYSTEM SET wal_retrieve_retry_interval = '300ms'")
    ready.subscribe()
    sub("INSERT INTO t VALUES (1, 'local')")
    with following(ready) as followed:
        pub("INSERT INTO t VALUES (1, 'x')")
        error = 'duplicate key value violates unique constraint "t_pkey"'
        eventually(lambda: followed.messages("ERROR").count(error) >= 2)
        sub("DELETE FROM t")
        eventually(lambda: sub("SELECT * FROM t") == [("1", "x")])
    count = len(followed.messages("ERROR"))
    assert sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [(str(count),)]


def test_one_that_waits_for_its_publisher_keeps_no_other_waiting(ready: Pair, nobody: str) -> None:
    ready.sub(f"CREATE SUBSCRIPTION a CONNECTION '{nobody}' PUBLICATION q WITH (connect = false)")
    ready.sub("ALTER SUBSCRIPTION a ENABLE")
    with following(ready) as followed:
        started = 'logical replication apply worker for subscription "a" has started'
        eventually(lambda: started in followed.messages("LOG"))
        ready.sub(f"CREATE SUBSCRIPTION s CONNECTION '{HERE}' PUBLICATION p")
        since = time.monotonic()
        ready.pub("INSERT INTO t VALUES (1, 'x')")
        eventually(lambda: ready.sub("SELECT * FROM t") == [("1", "x")])
        assert time.monotonic() - since < 10  # the other waits for a minute
        assert followed.messages("ERROR") == []
    ready.sub("ALTER SUBSCRIPTION a DISABLE")
    ready.sub("ALTER SUBSCRIPTION a SET (slot_name = NONE)")
    ready.sub("DROP SUBSCRIPTION a")


def test_another_writers_lock_keeps_nobody_from_stopping(ready: Pair) -> None:
    """What cannot be given back is taken over."""
    ready.subscribe()
    followed = Following(ready)
    followed.start()
    eventually(lambda: ready.sub("SELECT active FROM pg_replication_slots") == [("t",)])
    ready.sub("BEGIN; INSERT INTO u VALUES (1)")
    since = time.monotonic()
    followed.end()
    assert time.monotonic() - since < 4
    ready.sub("COMMIT")
    assert ready.sub("SELECT active FROM pg_replication_slots") == [("f",)]
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    assert ready.catch_up() == []
    assert ready.sub("SELECT * FROM t") == [("1", "x")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_of_them_stop_at_once(ready: Pair, nobody: str, number: signal.Signals, tmp_path: Path) -> None:
    """One copies, one applies, one waits for a publisher that does not answer."""
    ready.pub("INSERT INTO t SELECT g, 'copied' FROM generate_series(1, 300) g; CREATE TABLE w (a int)")
    ready.pub("CREATE PUBLICATION r FOR TABLE w; INSERT INTO w SELECT generate_series(1, 60000)")
    ready.sub("CREATE TABLE w (a int)")
    ready.subscribe("p")
    ready.sub(f"CREATE SUBSCRIPTION a CONNECTION '{nobody}' PUBLICATION q WITH (connect = false)")
    ready.sub("ALTER SUBSCRIPTION a ENABLE")
    log = tmp_path / "log"
    catalog = str(ready.sub.session.catalog.path)
    process = subprocess.Popen(
        [sys.executable, "-m", "pgrepl", "apply", "--follow", "--catalog", catalog, "--log-file", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    active = "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = 's'"
    eventually(lambda: ready.sub(active) == [("1",)])
    ready.sub(f"CREATE SUBSCRIPTION c CONNECTION '{HERE}' PUBLICATION r")
    ready.pub("UPDATE t SET b = 'applied'")
    eventually(lambda: 'subscription "c", table "w" has started' in log.read_text())
    since = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - since < 5
    assert (process.returncode, err) == (0, "")
    said = log.read_text()
    assert "ERROR" not in said
    assert said.endswith("LOG:  terminating logical replication workers due to administrator command\n")
    assert ready.sub("SELECT count(*) FROM w")[0][0] in ("0", "60000")
    assert ready.sub("SELECT active FROM pg_replication_slots WHERE active") == []
