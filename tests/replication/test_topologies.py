"""Subscriptions between instances, and subscribers that publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.nodes import Node

Start = Callable[[str], Node]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Node] = []

    def begin(name: str) -> Node:
        node = Node(tmp_path / name, new=True)
        started.append(node)
        node("CREATE TABLE t (a int PRIMARY KEY, b text)", "CREATE PUBLICATION p FOR TABLE t")
        return node

    yield begin
    for node in started:
        node.close()


def subscribe(node: Node, to: Node, name: str = "s", options: str = "") -> None:
    node.subscribe("p", f"host={to.folder} dbname=shop", options, name)


def test_changes_go_down_a_cascade(start: Start) -> None:
    a, b, c = start("a"), start("b"), start("c")
    a("INSERT INTO t VALUES (1, 'copied')")
    subscribe(b, a)
    assert b.catch_up() == []
    subscribe(c, b)
    assert c.catch_up() == []
    a("BEGIN", "INSERT INTO t VALUES (2, 'streamed')", "UPDATE t SET b = 'changed' WHERE a = 1", "COMMIT")
    b("INSERT INTO t VALUES (3, 'of b')")
    assert b.catch_up() == c.catch_up() == []
    assert c("SELECT * FROM t ORDER BY a") == [("1", "changed"), ("2", "streamed"), ("3", "of b")]
    a("TRUNCATE t")
    assert b.catch_up() == c.catch_up() == []
    assert c.rows() == []


def test_origin_none_keeps_a_circle_from_turning(start: Start) -> None:
    a, b = start("a"), start("b")
    subscribe(b, a, options="WITH (origin = none, copy_data = false)")
    subscribe(a, b, options="WITH (origin = none, copy_data = false)")
    for round_ in range(3):
        a(f"INSERT INTO t VALUES ({round_}, 'a')", f"UPDATE t SET b = 'changed by a' WHERE a = {round_ + 9}")
        b(f"INSERT INTO t VALUES ({round_ + 10}, 'b')")
        assert a.catch_up() == b.catch_up() == []
    assert b.catch_up() == a.catch_up() == b.catch_up() == []
    assert a("SELECT * FROM t ORDER BY a") == b("SELECT * FROM t ORDER BY a")
    assert a.rows() == [0, 1, 2, 10, 11, 12]
    stopped = "SELECT pg_current_wal_lsn()"
    before = a(stopped), b(stopped)
    assert a.catch_up() == b.catch_up() == []
    assert (a(stopped), b(stopped)) == before


def test_origin_none_takes_neither_rows_copied_nor_streamed_from_elsewhere(start: Start) -> None:
    a, b, c = start("a"), start("b"), start("c")
    a("INSERT INTO t VALUES (1, 'copied')")
    subscribe(b, a)
    assert b.catch_up() == []
    subscribe(c, b, options="WITH (origin = none, copy_data = false)")
    a("INSERT INTO t VALUES (2, 'streamed')")
    b("INSERT INTO t VALUES (3, 'of b')")
    assert b.catch_up() == c.catch_up() == []
    assert c.rows() == [3]


def test_several_subscriptions_bring_several_publishers_together(start: Start) -> None:
    a, b, c = start("a"), start("b"), start("c")
    subscribe(c, a, "from_a")
    subscribe(c, b, "from_b")
    a("INSERT INTO t VALUES (1, 'a')")
    b("INSERT INTO t VALUES (2, 'b')")
    assert c.catch_up() == []
    assert c.rows() == [1, 2]
    b("INSERT INTO t VALUES (1, 'too')")
    a("INSERT INTO t VALUES (3, 'goes on')")
    assert [error[0] for error in c.catch_up()] == ['duplicate key value violates unique constraint "t_pkey"']
    assert c.rows() == [1, 2, 3]


def test_a_publisher_that_is_away_is_caught_up_with_later(start: Start) -> None:
    a, b = start("a"), start("b")
    subscribe(b, a)
    assert b.catch_up() == []
    a("INSERT INTO t VALUES (1)")
    away = a.folder.rename(a.folder.with_name("away"))
    ((error, _, _),) = b.catch_up()
    assert error.startswith("could not connect to the publisher: connection to server on socket")
    away.rename(a.folder)
    assert b.catch_up() == []
    assert b.rows() == [1]
