"""What helps a stopped subscription: each stop has its own advice, and the statements that it names help."""

from __future__ import annotations

import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.tables import pg_subscription
from pgrepl.replication.publisher.senders import why_invalid
from pgrepl.replication.subscriber.advice import Failure, advice
from pgrepl.replication.subscriber.state import Stop, stop_of
from tests.harness.database import Database
from tests.harness.pair import Pair

T = "CREATE TABLE t (a int PRIMARY KEY, b text)"
CONNECTION = "host=localhost dbname=pub"


def stop(pair: Pair) -> Stop | None:
    session = pair.sub.session
    with reading(session):
        row = one(session, pg_subscription, subname="s")
        assert row is not None
        return stop_of(session, row)


HELPS = {  # what the subscriber does, then the publisher → the statements that help
    "missing column": (
        [], ["ALTER TABLE t ADD c int", "INSERT INTO t VALUES (1, 'x', 5)"],
        ["ALTER SUBSCRIPTION s SET (schema_changes = columns);"],
    ),
    "missing table": (
        [], ["CREATE TABLE u (a int PRIMARY KEY)", "INSERT INTO u VALUES (1)"],
        ["ALTER SUBSCRIPTION s SET (schema_changes = tables);"],
    ),
    "duplicate key": (
        ["INSERT INTO t VALUES (1, 'local')"], ["INSERT INTO t VALUES (1, 'x')"],
        ["DELETE FROM public.t WHERE a = '1';"],
    ),
    "duplicate key of two columns": (
        ["CREATE UNIQUE INDEX ON t (b, a); ALTER TABLE t DROP CONSTRAINT t_pkey; INSERT INTO t VALUES (1, 'it''s')"],
        ["INSERT INTO t VALUES (1, 'it''s')"],
        ["DELETE FROM public.t WHERE b = 'it''s' AND a = '1';"],
    ),
    "not null": (
        ["ALTER TABLE t ALTER b SET NOT NULL"], ["INSERT INTO t VALUES (1)"],
        ["ALTER TABLE public.t ALTER COLUMN b DROP NOT NULL;"],
    ),
    "check": (
        ["ALTER TABLE t ADD CONSTRAINT \"No x\" CHECK (b <> 'x')"], ["INSERT INTO t VALUES (1, 'x')"],
        ["ALTER TABLE public.t DROP CONSTRAINT \"No x\";"],
    ),
    "domain": (
        ["CREATE DOMAIN d AS text CONSTRAINT no_x CHECK (VALUE <> 'x')", "ALTER TABLE t ALTER b TYPE d"],
        ["INSERT INTO t VALUES (1, 'x')"],
        ["ALTER DOMAIN public.d DROP CONSTRAINT no_x;"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HELPS)
def test_the_statements_help(pair: Pair, case: str) -> None:
    here, there, statements = HELPS[case]
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe()
    for each in here:
        pair.sub(each)
    for each in there:
        pair.pub(each)
    assert len(pair.catch_up()) == 1
    found = stop(pair)
    assert found is not None
    assert list(found.advice.statements) == statements
    assert found.steps[-1][1] == (f"ALTER SUBSCRIPTION s SKIP (lsn = '{found.lsn}');",)
    (logged,) = [report for report in pair.log.reports if report.severity == "LOG" and report.hint]
    assert logged.message == 'subscription "s" is stopped by an error'
    assert str(logged.hint).startswith(f"{found.advice.text} {statements[0]} Or skip the transaction")
    for statement in statements:
        pair.sub(statement)
    assert pair.catch_up() == []
    assert stop(pair) is None
    assert pair.sub("SELECT count(*) FROM t") == [("0" if case == "missing table" else "1",)]


def test_a_copy_into_rows_is_helped_by_emptying_the_table(pair: Pair) -> None:
    pair.both(T)
    pair.both('CREATE TABLE "T 2" (a int PRIMARY KEY)')
    pair.both("INSERT INTO t VALUES (1, 'x')")
    pair.both('INSERT INTO "T 2" VALUES (1)')
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe()
    found = stop(pair)
    assert found is not None
    assert found.headline == 'subscription "s" could not copy 2 of 2 tables'
    assert [statements for _, statements in found.steps] == [("TRUNCATE public.t;",)]
    pair.sub("TRUNCATE public.t;")
    assert len(pair.catch_up()) == 1
    found = stop(pair)
    assert found is not None
    assert found.headline == 'subscription "s" could not copy table public."T 2"'
    pair.sub(*found.advice.statements)
    assert pair.catch_up() == []
    assert stop(pair) is None


def test_an_error_that_comes_again_is_advised_about_once_in_the_log(pair: Pair) -> None:
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe()
    pair.sub("INSERT INTO t VALUES (1, 'local')")
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    told = []
    for _ in range(2):
        assert len(pair.catch_up()) == 1
        told.append(len([report for report in pair.log.reports if report.hint]))
    assert told == [1, 0]


def test_an_error_of_the_catalog_is_kept_for_status_too(pair: Pair) -> None:
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.sub(f"CREATE SUBSCRIPTION s CONNECTION '{CONNECTION}' PUBLICATION p WITH (enabled = false)")
    for other in ("first", "second"):
        pair.sub(f"SELECT pg_replication_origin_create('{other}')")
        pair.sub(f"SELECT pg_replication_origin_advance('{other}', '0/1')")
    pair.sub("ALTER SYSTEM SET max_replication_slots = 2")
    with Database(pair.folder, "sub") as again:
        again("ALTER SUBSCRIPTION s ENABLE")
        assert len(again.catch_up()) == 1
    found = stop(pair)
    assert found is not None
    assert found.failure.sqlstate == "53400"
    assert found.failure.hint == 'Increase "max_replication_slots" and try again.'
    assert found.advice.text == "Set a higher max_replication_slots with ALTER SYSTEM SET; it is tried again."


RECEIVED = "could not receive data from WAL stream: "
LOST = 'could not start WAL streaming: ERROR:  can no longer get changes from replication slot "s"\nDETAIL:  '
TARGET = 'processing remote data during message type "INSERT" for replication target relation "public.t"'
SAID = [
    (Failure("s", "22P02", 'invalid input syntax for type integer: "x"', context=f'{TARGET}, column "b"'),
     "A value of the publisher does not fit column b of public.t here."),
    (Failure("s", "22P02", "invalid input syntax", context='COPY t, line 1, column b: "x"', table="public.t"),
     "A value of the publisher does not fit column b of public.t here."),
    (Failure("s", "42501", 'role "a" cannot SET ROLE to "C d"'), "The subscription's owner has to act as the table's"),
    (Failure("s", "08006", 'could not start initial contents copy for table "public.t": ERROR:  permission denied for '
             "table t", table="public.t"), "At the publisher, GRANT SELECT on the table"),
    (Failure("s", "42501", "permission denied for table t"), "Grant the subscription's owner what"),
    (Failure("s", "23514", 'no partition of relation "t" found for row', context=TARGET), "Make a partition"),
    (Failure("s", "08P01", f'{RECEIVED}ERROR:  publication "p" does not exist'), "Changes from before the publication"),
    (Failure("s", "08P01", 'could not start WAL streaming: ERROR:  replication slot "s" does not exist'),
     "What the slot kept is gone: let pgrepl repair s"),
    (Failure("s", "08P01", f"{LOST}{why_invalid('wal_removed')}"), "Set a higher max_slot_wal_keep_size at"),
    (Failure("s", "08P01", f"{LOST}{why_invalid('idle_timeout')}"), "Set a longer idle_replication_slot_timeout at"),
    (Failure("s", "08P01", f"{LOST}{why_invalid('wal_level_insufficient')}"), "Set wal_level = logical at"),
    (Failure("s", "08P01", f"{LOST}{why_invalid('rows_removed')}"), "Set hot_standby_feedback at the standby"),
    (Failure("s", "08P01", f"{LOST}{why_invalid(None)}"), "What the slot kept is gone: let pgrepl repair s"),
    (Failure("s", "08P01", f'{RECEIVED}ERROR:  can no longer access replication slot "s"\nDETAIL:  This replication '
             'slot has been invalidated due to "idle_timeout".'), "Set a longer idle_replication_slot_timeout at"),
    (Failure("s", "08P01", f'{RECEIVED}ERROR:  can no longer get changes from replication slot "s"\nDETAIL:  This slot '
             "has been invalidated because it exceeded the maximum reserved size."), "Set a higher max_slot_wal_keep"),
    (Failure("s", "08P01", 'could not start WAL streaming: ERROR:  replication slot "s" is active for PID 7'),
     "Another worker reads from the slot."),
    (Failure("s", "08006", "could not connect to the publisher: FATAL:  password authentication failed"),
     "It is tried again until the publisher answers."),
    (Failure("s", "08P01", f'{RECEIVED}ERROR:  file "1.csv", line 2: x', reads_files=True), "Correct the file."),
    (Failure("s", "53100", "could not extend file"), "Make room; it is tried again."),
    (Failure("s", "XX000", "what nobody knows"), "Remove the cause; it is tried again."),
    (Failure("s", "XX000", "what nobody knows", table="public.t"), "Remove what is in the way of table public.t;"),
]  # fmt: skip


@pytest.mark.parametrize(("failure", "said"), SAID)
def test_each_stop_has_its_own_advice(failure: Failure, said: str) -> None:
    assert advice(failure).text.startswith(said)


@pytest.mark.parametrize(
    ("sqlstate", "message", "waits"),
    [
        ("08P01", f"{RECEIVED}FATAL:  terminating connection due to administrator command", True),
        ("08006", "could not connect to the publisher: connection failed: Connection refused", True),
        ("08006", "could not connect to the publisher: FATAL:  the database system is starting up", True),
        ("08006", 'could not connect to the publisher: FATAL:  password authentication failed for user "a"', False),
        ("08P01", f'{RECEIVED}ERROR:  publication "p" does not exist', False),
        ("23505", "duplicate key value", False),
    ],
)
def test_only_a_publisher_that_is_away_is_waited_for(sqlstate: str, message: str, waits: bool) -> None:
    stopped = Stop(Failure("s", sqlstate, message), True, "2024-02-29T12:00:00")
    assert stopped.headline == f'subscription "s" {"waits for its publisher" if waits else "is stopped by an error"}'
