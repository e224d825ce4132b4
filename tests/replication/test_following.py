"""`pgrepl apply --follow`: each subscription has a worker of its own that goes on until it is stopped."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.following import Following, following
from tests.harness.pair import Pair
from tests.harness.programs import PATIENCE, eventually, started

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
HERE = "host=localhost dbname=pub"


@pytest.fixture
def ready(pair: Pair) -> Pair:
    pair.sub("ALTER SYSTEM SET wal_receiver_timeout = '1h'", "ALTER SYSTEM SET lock_timeout = '1h'")
    pair.both(f"{T}; CREATE TABLE u (a int)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t; CREATE PUBLICATION q FOR TABLE u")
    return pair


@pytest.fixture
def nobody() -> Iterator[str]:
    """Where somebody listens, and never says a word. `ready` has the patience to wait for it longer than the test."""
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
        eventually(lambda: stopped in followed.log.messages("LOG"))
        eventually(lambda: sub("SELECT active FROM pg_replication_slots") == [("f",)])
        pub("INSERT INTO t VALUES (3, 'z')")
        sub("ALTER SUBSCRIPTION s ENABLE")
        eventually(lambda: sub("SELECT count(*) FROM t") == [("3",)])
        sub("DROP SUBSCRIPTION s")
        removed = 'logical replication worker for subscription "s" will stop because the subscription was removed'
        eventually(lambda: removed in followed.log.messages("LOG"))
    started = 'logical replication apply worker for subscription "s" has started'
    table = 'logical replication table synchronization worker for subscription "s", table'
    assert [message for message in followed.log.messages("LOG") if "restart" not in message] == [
        started,
        f'{table} "t" has started',
        f'{table} "t" has finished',
        f'{table} "u" has started',
        f'{table} "u" has finished',
        stopped,
        started,
        removed,
    ]
    assert followed.log.messages("ERROR") == []


def test_after_an_error_it_is_tried_again_by_itself(ready: Pair) -> None:
    pub, sub = ready.pub, ready.sub
    sub("ALTER SYSTEM SET wal_retrieve_retry_interval = '300ms'")
    ready.subscribe()
    sub("INSERT INTO t VALUES (1, 'local')")
    with following(ready) as followed:
        pub("INSERT INTO t VALUES (1, 'x')")
        error = 'duplicate key value violates unique constraint "t_pkey"'
        eventually(lambda: followed.log.messages("ERROR").count(error) >= 2)
        sub("DELETE FROM t")
        eventually(lambda: sub("SELECT * FROM t") == [("1", "x")])
    count = len(followed.log.messages("ERROR"))
    assert sub("SELECT apply_error_count FROM pg_stat_subscription_stats") == [(str(count),)]


def test_one_that_waits_for_its_publisher_keeps_no_other_waiting(ready: Pair, nobody: str) -> None:
    ready.sub(f"CREATE SUBSCRIPTION a CONNECTION '{nobody}' PUBLICATION q WITH (connect = false)")
    ready.sub("ALTER SUBSCRIPTION a ENABLE")
    with following(ready) as followed:
        started = 'logical replication apply worker for subscription "a" has started'
        eventually(lambda: started in followed.log.messages("LOG"))
        ready.sub(f"CREATE SUBSCRIPTION s CONNECTION '{HERE}' PUBLICATION p")
        ready.pub("INSERT INTO t VALUES (1, 'x')")
        eventually(lambda: ready.sub("SELECT * FROM t") == [("1", "x")])
        assert followed.log.messages("ERROR") == []
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
    followed.end()
    ready.sub("COMMIT")
    assert ready.sub("SELECT active FROM pg_replication_slots") == [("f",)]
    ready.pub("INSERT INTO t VALUES (1, 'x')")
    assert ready.catch_up() == []
    assert ready.sub("SELECT * FROM t") == [("1", "x")]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
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
    with started("apply", "--follow", "--catalog", catalog, "--log-file", str(log)) as process:
        active = "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = 's'"
        eventually(lambda: ready.sub(active) == [("1",)])
        ready.sub(f"CREATE SUBSCRIPTION c CONNECTION '{HERE}' PUBLICATION r")
        ready.pub("UPDATE t SET b = 'applied'")
        eventually(lambda: 'subscription "c", table "w" has started' in log.read_text())
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    said = log.read_text()
    assert "ERROR" not in said
    assert said.endswith("LOG:  terminating logical replication workers due to administrator command\n")
    assert ready.sub("SELECT count(*) FROM w")[0][0] in ("0", "60000")
    assert ready.sub("SELECT active FROM pg_replication_slots WHERE active") == []
