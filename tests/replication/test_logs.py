"""What workers and publishers log, in PostgreSQL's words."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.following import following
from tests.harness.nodes import Node
from tests.harness.pair import Pair
from tests.harness.programs import eventually

KEY = "CREATE TABLE t (a int PRIMARY KEY, b text)"
PARTS = "CREATE TABLE p (a int PRIMARY KEY, b text) PARTITION BY RANGE (a); CREATE TABLE p1 PARTITION OF p DEFAULT"


def said(pair: Pair, severity: str) -> list[tuple[str, str]]:
    return [(r.message, (r.context or "").split(" for replication target")[0]) for r in pair.log.reports
            if r.severity.startswith(severity)]  # fmt: skip


@pytest.mark.parametrize("level", ["debug1", "warning"])
def test_rows_that_are_not_there_are_logged_at_debug1(pair: Pair, level: str) -> None:
    pair.both(f"{KEY}; {PARTS}")
    pair.pub("CREATE PUBLICATION q FOR TABLE t, p WITH (publish_via_partition_root)")
    pair.subscribe("q")
    pair.sub(f"ALTER DATABASE sub SET log_min_messages = {level}")
    pair.pub("INSERT INTO t VALUES (1), (2), (3); INSERT INTO p VALUES (1), (2)")
    assert pair.catch_up() == []
    pair.sub("DELETE FROM t WHERE a < 3; DELETE FROM p")
    for text in ("UPDATE t SET b = 'x'", "DELETE FROM t WHERE a = 2", "UPDATE p SET b = 'x' WHERE a = 1",
                 "DELETE FROM p WHERE a = 1"):  # fmt: skip
        pair.pub(text)
    assert pair.catch_up() == []
    origin = pair.sub("SELECT 'pg_' || oid FROM pg_subscription")[0][0]
    missing = 'logical replication did not find row to be {} in replication target relation{} "{}"'
    during = f'processing remote data for replication origin "{origin}" during message type "{{}}"'
    expected = [
        (missing.format("updated", "", "t"), during.format("UPDATE")),
        (missing.format("updated", "", "t"), during.format("UPDATE")),
        (missing.format("deleted", "", "t"), during.format("DELETE")),
        (missing.format("updated", "'s partition", "p1"), during.format("UPDATE")),
        (missing.format("deleted", "", "p1"), during.format("DELETE")),
    ]
    assert said(pair, "DEBUG") == (expected if level == "debug1" else [])
    pair.sub("INSERT INTO t VALUES (9, 'local')")
    pair.pub("DELETE FROM t WHERE a = 1")
    pair.pub("BEGIN; UPDATE t SET b = 'y' WHERE a = 3; INSERT INTO t VALUES (9); COMMIT")
    assert len(pair.catch_up()) == 1
    assert len(said(pair, "DEBUG")) == (1 if level == "debug1" else 0)


@pytest.fixture
def nodes_here(tmp_path: Path) -> tuple[Node, Node]:
    return Node(tmp_path / "p", new=True), Node(tmp_path / "s", new=True)


def lines(node: Node) -> list[str]:
    """The log of an instance, without what no two runs share."""
    path = node.folder / "catalog.db.log"
    text = path.read_text() if path.exists() else ""
    return [re.sub(r"0/[0-9A-F]+", "LSN", re.sub(r"XID: \d+", "XID: N", line.partition("] ")[2]))
            for line in text.splitlines()]  # fmt: skip


def test_the_publisher_logs_what_it_skips_and_what_it_refuses(nodes_here: tuple[Node, Node]) -> None:
    publisher, subscriber = nodes_here
    for node in nodes_here:
        node(KEY)
    publisher("CREATE TABLE other (a int)", "CREATE PUBLICATION p FOR TABLE t", 'CREATE PUBLICATION "o\'k" FOR TABLE t')
    connection = f"host={publisher.folder} dbname=shop"
    subscriber(f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION p, \"o'k\" WITH (binary, origin = none)")
    assert subscriber.catch_up() == []
    publisher("INSERT INTO other VALUES (1)")
    assert subscriber.catch_up() == []
    assert lines(publisher) == []
    publisher("ALTER SYSTEM SET log_min_messages = debug1", "INSERT INTO other VALUES (2)", "INSERT INTO t VALUES (1)")
    assert subscriber.catch_up() == []
    empty = [
        "DEBUG:  skipped replication of an empty transaction with XID: N",
        'CONTEXT:  slot "s", output plugin "pgoutput", in the commit callback, associated LSN LSN',
    ]
    assert lines(publisher) == empty
    publisher("ALTER SYSTEM RESET log_min_messages", "DROP PUBLICATION p", "INSERT INTO t VALUES (2)")
    ((message, _, _),) = subscriber.catch_up()
    assert message.startswith('could not receive data from WAL stream: ERROR:  publication "p" does not exist\n')
    command = "START_REPLICATION SLOT \"s\" LOGICAL LSN (proto_version '4', origin 'none'"
    assert lines(publisher)[-3:] == [
        'ERROR:  publication "p" does not exist',
        'CONTEXT:  slot "s", output plugin "pgoutput", in the change callback, associated LSN LSN',
        f"STATEMENT:  {command}, publication_names '\"p\",\"o''k\"', binary 'true')",
    ]
    publisher("SELECT pg_drop_replication_slot('s')")
    assert len(subscriber.catch_up()) == 1
    assert lines(publisher)[-2] == 'ERROR:  replication slot "s" does not exist'
    for node in nodes_here:
        node.close()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no numbers of processes")
def test_a_worker_that_begins_anew_has_another_pid(pair: Pair) -> None:
    pair.both(KEY)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.sub("CREATE ROLE boss SUPERUSER LOGIN")
    pair.sub("CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION p")
    with following(pair) as follower:
        seen = [pid(pair, lambda found: found is not None)]
        for change in ("SET (binary = true)", "OWNER TO boss", "RENAME TO r"):
            pair.sub(f"ALTER SUBSCRIPTION s {change}")
            seen.append(pid(pair, lambda found: found not in (None, *seen)))
        pair.sub("ALTER ROLE boss NOSUPERUSER")
        eventually(lambda: any("superuser privileges" in message for message in follower.log.messages("LOG")))
    assert len(set(seen)) == 4
    messages = [m for m in follower.log.messages("LOG") if "worker for subscription" in m and "table" not in m]
    started = 'logical replication apply worker for subscription "{}" has started'
    changed = 'logical replication worker for subscription "s" will restart because of a parameter change'
    assert messages[:8] == [
        started.format("s"), changed, started.format("s"), changed, started.format("s"), changed, started.format("r"),
        'logical replication worker for subscription "r" will restart because the subscription owner\'s superuser '
        "privileges have been revoked",
    ]  # fmt: skip


def pid(pair: Pair, fits: Callable[[str | None], bool]) -> str | None:
    def found() -> bool:
        rows = pair.sub("SELECT pid FROM pg_stat_subscription WHERE relid IS NULL")
        seen[:] = [row[0] for row in rows]
        return bool(seen) and fits(seen[0])

    seen: list[str | None] = []
    eventually(found)
    assert os.path.exists(f"/proc/{os.getpid()}/task/{seen[0]}")
    return seen[0]
