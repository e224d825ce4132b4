"""When a database catches up with its publishers."""

from __future__ import annotations

from pgrepl.replication.catch_up import CatchUp
from tests.replication.conftest import Pair


def test_a_failed_subscription_is_tried_again_once_its_own_session_has_changed_something(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("INSERT INTO t VALUES (1)")
    pair.pub("INSERT INTO t VALUES (1), (2)")
    catching = CatchUp(pair.sub.session, pair.log)
    for _ in range(3):
        catching.now()  # once in vain; then it waits until something has changed
    assert len(pair.log.errors) == 1
    pair.sub("DELETE FROM t")
    catching.now()
    assert pair.sub("SELECT a FROM t ORDER BY a") == [("1",), ("2",)]
    catching.close()
