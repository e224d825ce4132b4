"""What the status of a subscription knows of its publisher."""

from __future__ import annotations

from pgrepl.replication.subscriber.status import subscription_status
from tests.harness.pair import Pair


def test_a_table_that_left_the_publication_is_not_published(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE u (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t, u")
    pair.subscribe()
    pair.pub("ALTER PUBLICATION p DROP TABLE t")
    (found,) = subscription_status(pair.sub.session, everywhere=False)
    assert [(table.name, table.published) for table in found.tables] == [("public.t", False), ("public.u", True)]
    pair.pub("DROP PUBLICATION p")
    (found,) = subscription_status(pair.sub.session, everywhere=False)
    assert [table.published for table in found.tables] == [False, False]


def test_the_time_when_all_changes_were_applied_is_known_without_a_worker(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    (before,) = subscription_status(pair.sub.session, everywhere=False)
    pair.sub("ALTER DATABASE sub SET log_min_messages = debug1")  # not by the short way for few changes
    pair.pub("INSERT INTO t VALUES (1)")
    assert pair.catch_up() == []
    (found,) = subscription_status(pair.sub.session, everywhere=False)
    assert before.complete is not None and found.complete is not None
    assert found.complete >= before.complete
    assert found.pid is None
