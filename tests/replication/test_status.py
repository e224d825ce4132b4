"""What the status of a subscription knows of its publisher."""

from __future__ import annotations

from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.replication.publisher.senders import Retained
from pgrepl.replication.subscriber.status import subscription_status
from pgrepl.shell.commands.status import status_text
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


def test_what_a_lake_keeps_for_a_slot(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY)")
    pair.pub("INSERT INTO t SELECT generate_series(1, 5000)")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()

    def kept() -> Retained:
        (found,) = subscription_status(pair.sub.session, everywhere=False)
        assert found.retained is not None
        return found.retained

    assert pair.catch_up() == []  # that the table is ready is a snapshot of the same lake
    assert (kept().size, kept().snapshots, kept().seconds, kept().is_oldest) == (0, 0, 0.0, True)
    pair.pub("TRUNCATE t")
    pair.pub("SELECT pg_create_logical_replication_slot('behind', 'pgoutput')")
    found = kept()
    assert found.snapshots == 1
    assert found.size > 0
    assert found.seconds is not None and found.seconds > 0
    assert (found.is_oldest, found.status, found.left, found.transaction) == (True, "reserved", None, None)
    (status,) = subscription_status(pair.sub.session, everywhere=False)
    told = status.as_json()["retained"]
    assert (told["snapshots"], told["oldest_slot"], told["spilled_bytes"]) == (1, True, None)
    text = " ".join(status_text([status]).split())
    assert (
        f'keeps {pg_size_pretty(found.size)} of files in 1 snapshot for replication slot "s", the oldest slot.' in text
    )
    assert [pair.catch_up(), pair.catch_up()] == [
        [],
        [],
    ]  # the first empties the table here, a snapshot of the same lake
    assert (kept().size, kept().snapshots, kept().is_oldest) == (0, 0, False)
