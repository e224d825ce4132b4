"""A server's tables are compared with ours at the LSN of a snapshot of its, while both are written, and repaired."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.engine import on_spark
from pgrepl.ground.errors import PgError
from pgrepl.replication.comparison import sides
from pgrepl.replication.subscriber.worker import Worker
from tests.harness.comparing import compare, differences, is_equal, repair
from tests.harness.database import Database
from tests.harness.programs import PATIENCE, eventually, started
from tests.harness.tasks import played_here
from tests.postgres.served import PublishingServer, Served

SERVERS = pytest.mark.parametrize("publishing", [16, pytest.param(18, marks=pytest.mark.slow)], indirect=True)


@pytest.fixture(scope="module")
def publishing(request: pytest.FixtureRequest) -> Iterator[PublishingServer]:
    made = PublishingServer(getattr(request, "param", 16))
    yield made
    made.server.stop()


@pytest.fixture
def served(publishing: PublishingServer, tmp_path: Path) -> Iterator[Served]:
    made = Served(publishing, tmp_path)
    yield made
    made.close()


TYPES = """id bigint, k smallint, n numeric, m numeric(10,3), f float8, g float4, t timestamp, z timestamptz, d date,
    b bytea, a int[], s text[], j jsonb, h json, u uuid, c char(5), v varchar(9), o bool, i interval, w time, x timetz,
    y bit(3), r tstzrange, e inet, q "char" """
ROWS = (
    """(1, 1, '1.50', 2.5, '-0', 'NaN', '2024-01-01 10:00', '2024-01-01 10:00+02', '2024-02-29', '\\x00ff', '{1,NULL}',
    '{a,"b c",NULL,"NULL",""}', '{"b": 1, "a": [1.50]}', '{"b":  1}', '00000000-0000-0000-0000-000000000001', 'ab', 'x',
    true, '1 mon -1 day', '10:00', '10:00+02', B'101', '["2024-01-01 00:00+02",)', '10.0.0.1', 'a')""",
    """(-4294967297, -1, 'NaN', -0.001, 'Infinity', 1.1, 'infinity', '-infinity', '0044-03-15 BC', '\\x', '{}', '{}',
    'null', 'null', NULL, '', '', false, '0', '24:00', '00:00-15:59', B'000', 'empty', '::1/64', '')""",
    "(2" + ", NULL" * 24 + ")",
)


@SERVERS
def test_each_type_is_hashed_alike_on_both_sides(served: Served) -> None:
    served.both(f"CREATE TABLE t ({TYPES}, PRIMARY KEY (id))")
    served.pub(f"INSERT INTO t VALUES {', '.join(ROWS)}; CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    assert is_equal(served.sub.session)
    served.sub("UPDATE t SET f = 0 WHERE id = 1; UPDATE t SET n = 1 WHERE id = 2; DELETE FROM t WHERE id < 0")
    served.sub("INSERT INTO t (id) VALUES (0)")
    assert differences(compare(served.sub.session)) == [
        ("public.t", "different", {"id": "1"}, {"f": ("0", "-0")}),
        ("public.t", "different", {"id": "2"}, {"n": ("1", None)}),
        ("public.t", "extra", {"id": "0"}, {}),
        ("public.t", "missing", {"id": "-4294967297"}, {}),
    ]
    repair(served.sub.session)
    assert is_equal(served.sub.session)
    assert served.catch_up() == []


def test_filters_lists_conversions_and_tables_without_a_key(served: Served) -> None:
    served.pub("CREATE TABLE t (id int PRIMARY KEY, v int, w text, n numeric(8,2), l text)")
    served.sub("CREATE TABLE t (own text DEFAULT 'mine', n text, id bigint PRIMARY KEY, v numeric(9,1), l varchar(3))")
    served.pub("INSERT INTO t SELECT i, i, 'w', i, 'abc' FROM generate_series(1, 20) i")
    served.both("CREATE TABLE u (a int, b text)")
    served.pub("ALTER TABLE u REPLICA IDENTITY FULL; INSERT INTO u SELECT i % 3, NULL FROM generate_series(1, 9) i")
    served.pub("CREATE PUBLICATION p FOR TABLE t (id, v, n, l) WHERE (id % 2 = 0), u")
    served.subscribe()
    assert is_equal(served.sub.session)
    served.sub("UPDATE t SET own = 'yours', v = 4.5 WHERE id = 4; DELETE FROM t WHERE id = 6; INSERT INTO u VALUES (0)")
    found = differences(compare(served.sub.session))
    assert [(table, kind, columns) for table, kind, _, columns in found] == [
        ("public.t", "different", {"v": ("4.5", "4.0")}),
        ("public.t", "missing", {}),
        ("public.u", "extra", {}),
    ]
    repair(served.sub.session)
    assert is_equal(served.sub.session)
    assert served.sub("SELECT own FROM t WHERE id = 4") == [("yours",)]


def test_ranges_of_keys_are_compared_and_left_out(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pgrepl.replication.comparison.compare import ProgressFile

    monkeypatch.setattr(sides, "PIECE", 500)
    served.both(
        "CREATE TABLE t (a int, d date, v text, PRIMARY KEY (a, d)); CREATE TABLE u (id uuid PRIMARY KEY, v text)"
    )
    served.pub("INSERT INTO t SELECT i / 10, date '2024-01-01' + i % 10, 'v' || i FROM generate_series(1, 5000) i")
    served.pub(
        "INSERT INTO u SELECT ('00000000-0000-0000-0000-' || to_char(i, 'FM000000000000'))::uuid "
        "FROM generate_series(1, 5000) i"
    )
    served.pub("CREATE PUBLICATION p FOR TABLE t, u; ANALYZE")
    served.subscribe()
    first = compare(served.sub.session, connections=3)
    assert differences(first) == []
    assert [table.pieces > 5 for table in first.tables] == [True, True]
    served.sub("DELETE FROM t WHERE a = 3; UPDATE t SET v = NULL WHERE a = 400; INSERT INTO t VALUES (-1, now(), 'x')")
    served.sub("UPDATE u SET v = 'w' WHERE id = '00000000-0000-0000-0000-000000004999'")
    found = compare(served.sub.session)
    assert [table.counts for table in found.tables] == [
        {"missing": 10, "extra": 1, "different": 10}, {"missing": 0, "extra": 0, "different": 1}
    ]  # fmt: skip
    assert [len(table.differing) for table in found.tables] == [2, 1]
    file = tmp_path / "progress"
    again = compare(served.sub.session, progress=ProgressFile(file, "s"))
    assert [table.known for table in again.tables] == [0, 0]
    repair(served.sub.session)
    last = compare(served.sub.session, progress=ProgressFile(file, "s"))
    assert [(table.is_equal, table.known, table.pieces) for table in last.tables] == [
        (True, table.pieces - len(table.differing), table.pieces) for table in found.tables
    ]


def test_both_sides_are_written_while_they_are_compared(served: Served) -> None:
    """One writes at the server, another follows: whatever moment it is, both are equal but for the planted row."""
    served.both("CREATE TABLE t (id int PRIMARY KEY, v int)")
    served.pub("INSERT INTO t SELECT i, 0 FROM generate_series(1, 200) i; CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.sub("UPDATE t SET v = -1 WHERE id = 200")
    served.sub.leave()
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            served.pub(
                "UPDATE t SET v = v + 1 WHERE id = 1 + (random() * 190)::int; UPDATE t SET v = v + 1 WHERE id = 7"
            )

    oid = int(str(served.sub("SELECT oid FROM pg_subscription")[0][0]))
    worker = Worker(served.sub.session, oid, served.log, keeps_lease=True)

    def follow() -> None:
        while not over.is_set():
            worker.round()

    threads = [threading.Thread(target=each) for each in (write, follow)]
    for thread in threads:
        thread.start()
    try:
        session = served.sub.session.elsewhere(served.sub.session.database_oid, served.sub.session.role, apart=True)
        for _ in range(5):
            assert differences(compare(session)) == [("public.t", "different", {"id": "200"}, {"v": ("-1", "0")})]
        done = repair(session)
        assert done is not None
        assert done.count == 1
        assert is_equal(session)
        session.close()
    finally:
        over.set()
        for thread in threads:
            thread.join()
        worker.close()
    assert served.log.errors == []
    assert served.catch_up() == []
    served.same("SELECT id, v FROM t ORDER BY id")


def test_a_lost_slot_is_made_again(served: Served) -> None:
    served.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    served.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 9) i; CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.sub.leave()
    served.pub(f"SELECT pg_drop_replication_slot('{served.slot}')")
    served.pub("DELETE FROM t WHERE id = 1; UPDATE t SET v = 'w' WHERE id = 2")
    done = repair(served.sub.session)
    assert done is not None
    assert (done.new_slot, done.inserted, done.deleted, done.updated) == (served.slot, 0, 1, 1)
    served.pub("INSERT INTO t VALUES (20, 'after')")
    assert served.catch_up() == []
    assert is_equal(served.sub.session)
    served.same("SELECT * FROM t ORDER BY id")


def test_a_lost_slot_of_two_phase_is_made_again(served: Served) -> None:
    """What was prepared here is rolled back; and the subscription goes on with two_phase."""
    served.sub("ALTER SYSTEM SET max_prepared_transactions = 10")
    served.sub.leave()
    served.sub.close()
    served.sub = Database(served.folder, "sub")
    served.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    served.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 9) i; CREATE PUBLICATION p FOR TABLE t")
    served.subscribe(options="two_phase = on")
    served.pub(f"BEGIN; UPDATE t SET v = 'ends' WHERE id = 1; PREPARE TRANSACTION '{served.database}'")
    assert served.catch_up() == []
    assert served.sub("SELECT count(*) FROM pg_prepared_xacts") == [("1",)]
    served.sub.leave()
    served.pub(f"SELECT pg_drop_replication_slot('{served.slot}')")
    with pytest.raises(PgError, match="waits for transactions that have written and are open"):
        repair(served.sub.session, timeout=0.3)  # a prepared one, too
    served.pub(f"COMMIT PREPARED '{served.database}'")
    done = repair(served.sub.session)
    assert done is not None
    assert (done.new_slot, done.inserted, done.deleted, done.updated) == (served.slot, 0, 0, 1)
    assert served.catch_up() == []
    served.pub(f"BEGIN; INSERT INTO t VALUES (20, 'after'); PREPARE TRANSACTION '{served.database}'")
    assert served.catch_up() == []
    assert served.sub("SELECT count(*), min(subtwophasestate) FROM pg_prepared_xacts, pg_subscription") == [("1", "e")]
    served.pub(f"COMMIT PREPARED '{served.database}'")
    assert served.catch_up() == []
    assert is_equal(served.sub.session)
    served.same("SELECT * FROM t ORDER BY id")


def test_an_open_transaction_is_not_waited_for_longer_than_was_said(served: Served) -> None:
    served.both("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int)")
    served.pub("CREATE PUBLICATION p FOR TABLE t; INSERT INTO t VALUES (1)")
    served.subscribe()
    with psycopg.connect(served.conninfo) as other:
        other.execute("INSERT INTO u VALUES (1)")
        with pytest.raises(PgError, match="waits for transactions that have written and are open"):
            compare(served.sub.session, timeout=0.3)
    served.pub("INSERT INTO t VALUES (2)")
    assert served.catch_up() == []
    assert is_equal(served.sub.session)
    with reading(served.sub.session):
        assert rows(served.sub.session, tables.pgrepl_meeting) == []


def test_a_table_in_another_order_is_hashed_by_pages(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from pgrepl.replication.publisher.postgres import comparing

    monkeypatch.setattr(sides, "PIECE", 500)
    monkeypatch.setattr(comparing, "_PAGES", 3)
    served.both("CREATE TABLE t (id text PRIMARY KEY, v int)")
    served.pub("INSERT INTO t SELECT md5(i::text), i FROM generate_series(1, 5000) i; CREATE PUBLICATION p FOR TABLE t")
    served.pub("ANALYZE")
    served.subscribe()
    assert is_equal(served.sub.session, connections=3, rows_per_second=1_000_000)
    served.sub("UPDATE t SET v = -1 WHERE v IN (7, 4999); DELETE FROM t WHERE v = 1")
    (table,) = compare(served.sub.session).tables
    assert (table.counts, table.pieces > 5) == ({"missing": 1, "extra": 0, "different": 2}, True)
    repair(served.sub.session)
    assert is_equal(served.sub.session)


def test_keys_that_a_column_here_cannot_have(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges are cut at keys of rows that a filter leaves out, and are larger than the type here allows."""
    monkeypatch.setattr(sides, "PIECE", 500)
    served.pub("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    served.sub("CREATE TABLE t (id int PRIMARY KEY, v text)")
    served.pub("INSERT INTO t SELECT i * 1000000::bigint, 'v' FROM generate_series(1, 5000) i")
    served.pub("CREATE PUBLICATION p FOR TABLE t WHERE (id < 2000000000); ANALYZE")
    served.subscribe()
    found = compare(served.sub.session)
    assert differences(found) == []
    assert found.tables[0].pieces > 5
    served.sub("DELETE FROM t WHERE id = 1999000000")
    assert [kind for _, kind, _, _ in differences(compare(served.sub.session))] == ["missing"]


def test_rows_without_a_key_beside_ranges_of_it(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "PIECE", 500)
    served.pub("CREATE TABLE t (id int PRIMARY KEY, v text)")
    served.sub("CREATE TABLE t (id int, v text)")
    served.pub("INSERT INTO t SELECT i, 'v' FROM generate_series(1, 5000) i; CREATE PUBLICATION p FOR TABLE t; ANALYZE")
    served.subscribe()
    served.sub("DELETE FROM t WHERE id > 4000")
    served.sub("INSERT INTO t SELECT i, 'v' FROM generate_series(4001, 5000) i UNION ALL SELECT NULL, 'x'")
    found = compare(served.sub.session)
    assert found.tables[0].pieces > 5
    assert [(kind, key) for _, kind, key, _ in differences(found)] == [("extra", {"id": None})]


def in_ranges(served: Served, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """A table whose rows here are hashed by tasks, while the server hashes ranges of its key."""
    monkeypatch.setattr(sides, "PIECE", 100)
    served.both("CREATE TABLE t (a int PRIMARY KEY, v text)")
    served.pub(f"INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, {rows}) i; ANALYZE")
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe()
    served.sub(f"ALTER DATABASE {served.sub.name} SET pgrepl.engine = spark")


def test_tasks_hash_the_ranges_of_a_servers_key(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    in_ranges(served, monkeypatch, 2000)
    seen = played_here(monkeypatch)
    assert is_equal(served.sub.session)
    assert seen
    served.sub("UPDATE t SET v = '' WHERE a = 1500")
    assert [row[:3] for row in differences(compare(served.sub.session))] == [("public.t", "different", {"a": "1500"})]


def test_a_task_that_fails_leaves_no_query_at_the_server(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slot is dropped over a connection that nothing else uses then: it waited for an answer that another had
    read."""
    in_ranges(served, monkeypatch, 100_000)
    served.pub("ALTER PUBLICATION p SET TABLE t WHERE (length(repeat(md5(v), 20000)) > 0)")  # for some seconds

    def fail(parts: object, kernel: object) -> None:
        raise PgError("XX000", "the task has failed")

    played_here(monkeypatch)
    monkeypatch.setattr(on_spark, "run_parts", fail)
    with pytest.raises(PgError, match="the task has failed"):
        compare(served.sub.session, connections=2)
    assert [each.name for each in threading.enumerate() if each.name.startswith("pgrepl-compare")] == []
    assert served.pub("SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'pgrepl%'") == [("0",)]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_it_ends_at_once_while_the_server_hashes(served: Served, number: signal.Signals) -> None:
    """The server's queries end with it."""
    served.both("CREATE TABLE t (a int PRIMARY KEY, v text)")
    served.pub(
        "INSERT INTO t SELECT i, 'v' FROM generate_series(1, 100000) i; ANALYZE; CREATE PUBLICATION p FOR TABLE t"
    )
    served.subscribe()
    served.pub("ALTER PUBLICATION p SET TABLE t WHERE (length(repeat(md5(v), 2000000)) > 0)")  # for minutes
    asks = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_catalog.count(*)%'"
    slots = "SELECT FROM pg_replication_slots WHERE slot_name LIKE 'pgrepl_compare%'"
    with started("compare", "s", "-d", "sub", cwd=served.folder) as comparing:
        eventually(lambda: len(served.pub(asks)) == 2)
        comparing.send_signal(number)
        _, said = comparing.communicate(timeout=PATIENCE)
    assert (comparing.returncode, "Traceback" in said) == (128 + number, False)
    assert served.pub(asks) + served.pub(slots) == []
