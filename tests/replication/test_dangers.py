"""What a follower warns of before its publisher gives up its slot: no server, no clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.replication.publisher.senders import OpenTransaction, Retained
from pgrepl.replication.subscriber.dangers import Limits, Warned, dangers, duration

MB = 1 << 20
LIMIT = Limits(100 * MB, 25, 60)
FINE = Retained(50 * MB, 5.0, 40 * MB, "reserved", 900 * MB, 1000 * MB)
OPEN = OpenTransaction(90, 42, None, "shop", "app", "report", "idle in transaction")


def told(found: Retained, limit: Limits = LIMIT) -> list[tuple[str, str, str]]:
    return [(each.message, each.detail, each.hint) for each in dangers("x", found, limit)]


def test_what_is_fine_or_a_lakes_is_no_danger() -> None:
    assert told(FINE) == []
    assert told(replace(FINE, left=None, limit=None)) == []
    assert told(Retained(10**12, snapshots=5)) == []
    assert told(replace(FINE, size=10**12, status="lost", left=0)) == []  # an error says that


def test_a_slot_that_retains_much_says_who_holds_it() -> None:
    read = "Let pgrepl apply --follow or pgrepl serve run, or disable and drop the subscription."
    message = 'the publisher retains 100 MB of WAL for replication slot "x"'
    much = replace(FINE, size=100 * MB)
    assert told(replace(much, unconfirmed=99 * MB)) == [
        (message, "99 MB of it are not confirmed by the subscription, which is behind or copies tables.", read)
    ]
    held = replace(much, unconfirmed=1 * MB)
    assert told(held) == [(message, "A transaction with changes holds it.", "End transactions that are open for long.")]
    assert told(replace(held, sees_all=False))[0][1].endswith(" Only roles with pg_monitor see which.")
    assert told(replace(held, transaction=replace(OPEN, seconds=5))) == [
        (
            message,
            "The oldest transaction with changes there is that of process 42 (role app, database shop, "
            "application report, idle in transaction), open for 5.0 s.",
            "Let it end, or end it at the publisher: SELECT pg_terminate_backend(42);",
        )
    ]


def test_a_slot_that_is_about_to_be_lost() -> None:
    ((message, detail, hint),) = told(replace(FINE, left=250 * MB, status="extended"))
    assert message == 'replication slot "x" is lost when 250 MB more of WAL have been written at the publisher'
    assert detail.startswith("max_slot_wal_keep_size is 1000 MB there, wal_status extended. 40 MB of it")
    assert hint.endswith(" Or set a higher max_slot_wal_keep_size there.")
    assert told(replace(FINE, left=251 * MB)) == []
    assert told(replace(FINE, left=-1, status="unreserved"))[0][0].startswith('replication slot "x" is lost when 0 byt')


def test_a_slot_that_nobody_reads() -> None:
    assert told(replace(FINE, idle=74.0, idle_limit=100.0)) == []
    assert told(replace(FINE, idle=74.0)) == []
    ((message, detail, _),) = told(replace(FINE, idle=75.0, idle_limit=100.0))
    assert message == 'replication slot "x" is lost in 25.0 s unless it is read from'
    assert detail == "idle_replication_slot_timeout is 0:01:40 at the publisher."


def test_a_transaction_that_is_open_for_long() -> None:
    ((message, detail, hint),) = told(replace(FINE, transaction=OPEN))
    assert message == "a transaction with changes has been open at the publisher for 0:01:30"
    assert detail.startswith("It is that of process 42 (role app, ")
    assert hint == "Let it end, or end it at the publisher: SELECT pg_terminate_backend(42);"
    prepared = OpenTransaction(90, None, "g", "shop", "app", None, "prepared")
    ((_, detail, hint),) = told(replace(FINE, transaction=prepared))
    assert detail.startswith('It is that of prepared transaction "g" (role app, database shop);')
    assert hint == "At the publisher, COMMIT PREPARED or ROLLBACK PREPARED it."


@pytest.mark.parametrize("limit", [Limits(0, 25, 60), Limits(100 * MB, 0, 60), Limits(100 * MB, 25, 0)])
def test_a_limit_of_0_is_none(limit: Limits) -> None:
    bad = replace(FINE, size=200 * MB, left=1, transaction=OPEN, idle=99.0, idle_limit=100.0)
    missing = {
        name for name, value in (("size", limit.size), ("left", limit.left), ("open", limit.transaction)) if value
    }
    kinds = {each.kind for each in dangers("x", bad, limit)}
    named = {"size": {"retained"}, "left": {"left", "idle"}, "open": {"transaction process 42"}}
    assert kinds == set().union(*(named[name] for name in missing))


def test_each_danger_is_told_once_until_it_is_over() -> None:
    warned = Warned()

    def news(found: Retained) -> list[tuple[str, str]]:
        return [(report.severity, report.message) for report in warned.news("s", "x", found, LIMIT)]

    retains = 'the publisher retains {} MB of WAL for replication slot "x"'
    assert news(FINE) == []
    assert news(replace(FINE, size=100 * MB)) == [("WARNING", f'subscription "s": {retains.format(100)}')]
    assert news(replace(FINE, size=150 * MB)) == []
    assert news(replace(FINE, size=95 * MB)) == []  # not over yet
    assert news(replace(FINE, size=100 * MB)) == []
    assert news(replace(FINE, size=89 * MB)) == [("LOG", f'subscription "s": it is over that {retains.format(100)}')]
    assert news(replace(FINE, size=120 * MB)) == [("WARNING", f'subscription "s": {retains.format(120)}')]
    held = replace(FINE, size=120 * MB, transaction=OPEN)
    assert [severity for severity, _ in news(held)] == ["WARNING"]
    other = replace(held, transaction=replace(OPEN, pid=43))
    assert [severity for severity, _ in news(other)] == ["LOG", "WARNING"]
    assert [severity for severity, _ in news(FINE)] == ["LOG", "LOG"]


def test_durations() -> None:
    assert [duration(0.04), duration(59.9), duration(60), duration(3723.9), duration(360_000)] == [
        "0.0 s", "59.9 s", "0:01:00", "1:02:03", "100:00:00",
    ]  # fmt: skip
