"""The history of subscribed tables: replaying their changes, and the versions of their rows, give each state that the
publisher had."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from pgrepl.replication.wire import message_files
from tests.harness.database import Database, by_columns, by_message
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.harness.pair import Pair

T = "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(8,2))"
Table = list[tuple[str | None, ...]]


WAYS = ["by message", "by columns", "in parts"]


@pytest.fixture(params=dose(WAYS, 3, 1))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Database], None]:
    """How changes are applied; a part has three messages."""
    if request.param == "in parts":
        monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 3 - 500)
    return by_message if request.param == "by message" else by_columns


def subscribe(pair: Pair, kept: str, table: str = T, options: str = "") -> None:
    pair.both(table)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options=f"WITH (history = {kept}{options})")


# --- random workloads -------------------------------------------------------------------------------------------------


def transaction(dice: random.Random) -> str:
    """Some changes of few rows, so that a row is often changed again."""
    done = []
    for _ in range(dice.randint(1, 6)):
        key, other = dice.randint(1, 9), dice.randint(10, 99)
        done.append(
            dice.choice(
                [
                    f"INSERT INTO t VALUES ({key}, 'i{other}', {other}) ON CONFLICT DO NOTHING",
                    f"INSERT INTO t VALUES ({key}, 'i{other}', NULL) ON CONFLICT (a) DO UPDATE SET b = 'u{other}'",
                    f"UPDATE t SET b = 'v{other}', c = {other} WHERE a <= {key}",
                    f"UPDATE t SET a = a + 20 WHERE a = {key} AND NOT EXISTS (SELECT FROM t WHERE a = {key + 20})",
                    f"DELETE FROM t WHERE a = {key}",
                    f"DELETE FROM t WHERE a > {key + 20}",
                ]
            )
        )
    if dice.random() < 0.1:
        done.insert(dice.randint(0, len(done)), "TRUNCATE t")
    return f"BEGIN; {'; '.join(done)}; COMMIT"


def replayed(log: Table, lsn: str) -> Table:
    """The table after the changes up to an LSN, by what the log's rows say."""
    rows: dict[str | None, tuple[str | None, ...]] = {}
    for operation, at, old, *new in log:
        if number(at) > number(lsn):
            break
        if operation == "truncate":
            rows.clear()
        if operation in ("update", "delete"):
            del rows[old]
        if operation in ("insert", "update", "copy"):
            assert new[0] not in rows
            rows[new[0]] = tuple(new)
    return sorted(rows.values())


def number(lsn: str | None) -> int:
    high, low = str(lsn).split("/")
    return int(high, 16) << 32 | int(low, 16)


def check(pair: Pair, states: dict[str, Table], kept: str) -> None:
    name = "t_history" if kept == "changes" else "t_history_changes"
    log = pair.sub(f"SELECT operation, lsn, old_a, a, b, c FROM {name} ORDER BY lsn, change")
    for lsn, there in states.items():
        assert replayed(log, lsn) == there, lsn
        at = f"valid_from_lsn <= '{lsn}' AND (valid_to_lsn > '{lsn}' OR valid_to_lsn IS NULL)"
        if kept == "versions":
            assert sorted(pair.sub(f"SELECT a, b, c FROM t_history WHERE {at}")) == there, lsn
        assert sorted(pair.sub(f"SELECT a, b, c FROM t_at('{lsn}'::pg_lsn)")) == there, lsn


def work(pair: Pair, dice: random.Random, rounds: int, states: dict[str, Table]) -> None:
    """Transactions, of which a few together are a batch."""
    for _ in range(rounds):
        for _ in range(dice.randint(1, 5)):
            pair.pub(transaction(dice))
            ((lsn,),) = pair.pub("SELECT pg_current_wal_lsn()")
            states[str(lsn)] = sorted(pair.pub("SELECT a, b, c FROM t"))
        assert pair.catch_up() == []
        assert sorted(pair.sub("SELECT a, b, c FROM t")) == sorted(pair.pub("SELECT a, b, c FROM t"))


def past_is_right(pair: Pair, way: Callable[[Database], None], kept: str, dice: random.Random, rounds: int) -> None:
    pair.pub(T, "INSERT INTO t SELECT g, 'first', g FROM generate_series(1, 5) g")
    pair.sub(T)
    way(pair.sub)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options=f"WITH (history = {kept})")
    states: dict[str, Table] = {}
    work(pair, dice, rounds, states)
    check(pair, states, kept)
    if way is by_columns:
        assert pair.sub.ways()["apply"]


@pytest.mark.parametrize(("kept", "way"), dose(product(["changes", "versions"], WAYS), 3), indirect=["way"])
def test_the_past_is_what_the_publisher_had(pair: Pair, way: Callable[[Database], None], kept: str) -> None:
    past_is_right(pair, way, kept, random.Random(f"{kept} {way.__name__}"), 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_the_past_of_many_workloads(pair: Pair, way: Callable[[Database], None], seed: int) -> None:
    past_is_right(pair, way, ["changes", "versions"][seed % 2], random.Random(seed), 12)


def test_retention_keeps_what_is_valid_since(pair: Pair) -> None:
    dice = random.Random(7)
    subscribe(pair, "versions")
    before: dict[str, Table] = {}
    work(pair, dice, 4, before)
    since = list(before)[-1]
    after = {since: before[since]}
    work(pair, dice, 3, after)
    pair.sub(f"UPDATE t_history_changes SET committed_at = committed_at - interval '10 days' WHERE lsn < '{since}'")
    there = sorted(pair.sub("TABLE t_history"))
    pair.sub("VACUUM")
    assert sorted(pair.sub("TABLE t_history")) == there
    pair.sub("SET pgrepl.history_retention = '3d'", "VACUUM t_history_changes")
    old = (
        "SELECT count(*) FROM t_history_changes WHERE committed_at < now() - interval '3 days' AND operation != 'copy'"
    )
    assert pair.sub(old) == [("0",)]
    assert pair.sub("SELECT count(*) FROM t_history WHERE valid_to < now() - interval '3 days'") == [("0",)]
    for lsn, rows in after.items():
        assert sorted(pair.sub(f"SELECT a, b, c FROM t_at('{lsn}')")) == rows, lsn
    work(pair, dice, 1, after)
    assert sorted(pair.sub("SELECT a, b, c FROM t_at(now())")) == list(after.values())[-1]


@pytest.mark.slow
def test_tasks_of_spark_write_it(pair: Pair) -> None:
    for name, value in (("engine", "spark"), ("spark_rows", "1000"), ("local_rows", "100")):
        pair.sub(f"ALTER DATABASE sub SET pgrepl.{name} = {value}")
    pair.pub(T, "INSERT INTO t SELECT g, 'first', g FROM generate_series(1, 4000) g")
    pair.sub(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options="WITH (history = versions)")
    pair.pub("BEGIN; UPDATE t SET b = 'v' || a; DELETE FROM t WHERE a % 2 = 0; UPDATE t SET c = NULL; COMMIT")
    pair.pub("INSERT INTO t SELECT g, 'new', g FROM generate_series(10001, 13000) g")
    assert pair.catch_up() == []
    engines = (
        "SELECT DISTINCT engine FROM pgrepl_stat_engine WHERE datname = 'sub' AND work = 'apply' AND declined IS NULL"
    )
    assert pair.sub(engines) == [("spark",)]
    counts = "SELECT operation, count(*), count(old_a), count(b) FROM t_history_changes GROUP BY 1 ORDER BY 1"
    assert pair.sub(counts) == [
        ("copy", "4000", "0", "4000"), ("delete", "2000", "2000", "0"),
        ("insert", "3000", "0", "3000"), ("update", "6000", "6000", "6000"),
    ]  # fmt: skip
    assert pair.sub("SELECT count(*), count(valid_to) FROM t_history") == [("9000", "4000")]
    assert sorted(pair.sub("SELECT * FROM t_at(now())")) == sorted(pair.pub("TABLE t"))


# --- what is kept, of which tables ------------------------------------------------------------------------------------


LOG = "SELECT operation, old_a, a, b FROM t_history ORDER BY lsn, change"
VERSIONS = "SELECT a, b, valid_to_lsn IS NULL FROM t_history ORDER BY a, valid_from_lsn"


def test_a_history_begins_with_the_rows_that_are_there(pair: Pair, way: Callable[[Database], None]) -> None:
    pair.pub(T, "INSERT INTO t SELECT g, 'r' || g, g FROM generate_series(1, 3000) g")
    pair.sub(T)
    way(pair.sub)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options="WITH (history = changes)")
    counts = "SELECT operation, count(*), count(DISTINCT a), max(change) FROM t_history GROUP BY 1 ORDER BY 1"
    assert pair.sub(counts) == [("copy", "3000", "3000", "-1")]
    pair.sub("ALTER SUBSCRIPTION s SET (history = none)")
    pair.pub("DELETE FROM t WHERE a > 10")
    assert pair.catch_up() == []
    assert pair.sub(counts) == [("copy", "3000", "3000", "-1")]
    pair.sub("ALTER SUBSCRIPTION s SET (history = versions)")
    assert pair.sub("SELECT count(*), count(valid_to) FROM t_history") == [("3010", "3000")]
    assert pair.sub("SELECT count(*) FROM t_at(now())") == [("10",)]
    pair.sub("ALTER SUBSCRIPTION s SET (history = changes)")
    pair.pub("DELETE FROM t WHERE a > 1")
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*), count(a), count(DISTINCT old_a) FROM t_history WHERE operation = 'delete'") == [
        ("9", "0", "9")
    ]
    assert pair.sub("SELECT relname, relkind FROM pg_class WHERE relname LIKE 't_h%'") == [("t_history", "r")]


def test_a_dropped_subscription_leaves_the_history_and_another_goes_on_with_it(pair: Pair) -> None:
    subscribe(pair, "versions")
    pair.pub("INSERT INTO t VALUES (1, 'one', 1)")
    assert pair.catch_up() == []
    pair.sub("DROP SUBSCRIPTION s")
    assert pair.sub(VERSIONS) == [("1", "one", "t")]
    pair.pub("UPDATE t SET b = 'two'")
    pair.sub("TRUNCATE t")
    pair.subscribe(options="WITH (history = versions)")
    assert pair.sub(VERSIONS) == [("1", "one", "f"), ("1", "two", "t")]


def test_a_name_that_is_taken(pair: Pair) -> None:
    pair.both(T)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.sub("CREATE TABLE t_history (mine text)")
    assert pair.sub.says(
        "CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p WITH (history = changes)"
    ) == (
        'relation "public.t_history" already exists\n'
        'The history of table "public.t" is to have this name.\n'
        "Rename or drop it, or keep no history of the table: ALTER TABLE public.t SET (pgrepl.history = none);"
    )
    assert pair.pub("SELECT count(*) FROM pg_replication_slots") == [("0",)]
    pair.sub("ALTER TABLE t SET (pgrepl.history = none)")
    pair.subscribe(options="WITH (history = changes)")
    assert pair.sub("SELECT * FROM t_history") == []
    pair.sub("ALTER TABLE t_history RENAME TO mine", "ALTER TABLE t RESET (pgrepl.history)")
    pair.pub("INSERT INTO t VALUES (1, 'one', 1)")
    assert pair.catch_up() == []
    assert pair.sub(LOG) == [("insert", None, "1", "one")]


def test_a_table_decides_for_itself(pair: Pair) -> None:
    subscribe(pair, "none")
    pair.both("CREATE TABLE u (a int PRIMARY KEY, b text)")
    pair.pub("ALTER PUBLICATION p ADD TABLE u")
    pair.sub("ALTER TABLE u SET (pgrepl.history = versions)", "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    pair.pub("INSERT INTO t VALUES (1, 'one', 1)", "INSERT INTO u VALUES (1, 'one')")
    assert pair.catch_up() == []
    pair.pub("UPDATE u SET b = 'two'")
    assert pair.catch_up() == []
    assert pair.sub("SELECT b, valid_to IS NULL FROM u_history ORDER BY valid_from_lsn") == [("one", "f"), ("two", "t")]
    assert pair.sub("SELECT count(*) FROM pg_class WHERE relname = 't_history'") == [("0",)]
    pair.sub("ALTER TABLE t SET (pgrepl.history = changes)")
    assert pair.sub(LOG) == [("copy", None, "1", "one")]
    assert pair.sub.says("ALTER TABLE t SET (pgrepl.history = all)").startswith("invalid value for enum option")
    assert pair.sub.says("ALTER SUBSCRIPTION s SET (history = all)") == 'unrecognized history value: "all"'


@pytest.mark.parametrize("kept", ["changes", "versions"])
def test_columns_follow(pair: Pair, way: Callable[[Database], None], kept: str) -> None:
    way(pair.sub)
    subscribe(pair, kept, options=", schema_changes = columns")
    pair.pub("INSERT INTO t VALUES (1, 'one', 1)")
    assert pair.catch_up() == []
    pair.pub("ALTER TABLE t ADD COLUMN d text DEFAULT 'new'", "UPDATE t SET b = 'two'")
    assert pair.catch_up() == []
    pair.pub("ALTER TABLE t DROP COLUMN c", "ALTER TABLE t ALTER COLUMN b TYPE varchar(10)", "UPDATE t SET d = 'x'")
    assert pair.catch_up() == []
    order = "lsn, change" if kept == "changes" else "valid_from_lsn"
    assert pair.sub(f"SELECT b, c, d FROM t_history ORDER BY {order}") == [
        ("one", "1.00", None), ("two", "1.00", "new"), ("two", None, "x"),
    ]  # fmt: skip
    assert pair.sub("SELECT pg_typeof(b) FROM t_history LIMIT 1") == [("character varying",)]


def test_partitions_have_one_history(pair: Pair, way: Callable[[Database], None]) -> None:
    pair.pub("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.sub(
        "CREATE TABLE t (b text, a int PRIMARY KEY) PARTITION BY RANGE (a)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high (x int, a int NOT NULL, b text)",
        "ALTER TABLE high DROP COLUMN x",
        "ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (10) TO (100)",
    )
    pair.pub("CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1, 'low'), (11, 'high')")
    pair.subscribe(options="WITH (history = versions)")
    way(pair.sub)
    pair.pub("BEGIN; UPDATE t SET b = b || '!'; UPDATE t SET a = 12 WHERE a = 1; INSERT INTO t VALUES (2, 'x'); COMMIT")
    assert pair.catch_up() == []
    pair.pub("DELETE FROM t WHERE a = 2")
    assert pair.catch_up() == []
    assert pair.sub(VERSIONS) == [
        ("1", "low", "f"), ("2", "x", "f"), ("11", "high", "f"), ("11", "high!", "t"), ("12", "low!", "t"),
    ]  # fmt: skip
    pair.pub("TRUNCATE t")
    assert pair.catch_up() == []
    assert pair.sub("SELECT count(*), count(valid_to) FROM t_history") == [("5", "5")]


def test_rows_without_a_key_have_versions(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int, b text)")
    pair.pub("ALTER TABLE t REPLICA IDENTITY FULL", "CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options="WITH (history = versions)")
    pair.pub("INSERT INTO t VALUES (1, 'a'), (1, 'a'), (NULL, 'b')", "UPDATE t SET b = 'c' WHERE a IS NULL")
    pair.pub("DELETE FROM t WHERE ctid IN (SELECT min(ctid) FROM t WHERE a = 1)")
    assert pair.catch_up() == []
    assert sorted(pair.sub("SELECT a, b, valid_to IS NULL FROM t_history"), key=str) == sorted(
        [("1", "a", "f"), ("1", "a", "t"), (None, "b", "f"), (None, "c", "t")], key=str
    )


def test_changes_that_find_no_row_are_not_there(pair: Pair, way: Callable[[Database], None]) -> None:
    way(pair.sub)
    subscribe(pair, "changes")
    pair.pub("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2)")
    assert pair.catch_up() == []
    pair.sub("DELETE FROM t WHERE a = 1")
    pair.pub("BEGIN; UPDATE t SET b = 'x'; UPDATE t SET a = 3 WHERE a = 1; DELETE FROM t; COMMIT")
    assert pair.catch_up() == []
    assert pair.sub(LOG)[2:] == [("update", "2", "2", "x"), ("delete", "2", None, None)]


def test_a_subscriber_that_publishes_sends_its_history_too(pair: Pair) -> None:
    subscribe(pair, "changes")
    pair.sub(
        "CREATE PUBLICATION q FOR TABLE t, t_history",
        "SELECT pg_create_logical_replication_slot('look', 'test_decoding')",
    )
    pair.pub("BEGIN; INSERT INTO t VALUES (1, 'one', 1); UPDATE t SET b = 'two'; DELETE FROM t; COMMIT")
    pair.pub("INSERT INTO t VALUES (2, 'two', 2)")
    assert pair.catch_up() == []
    assert [row[0] for row in pair.sub(LOG)] == ["insert", "update", "delete", "insert"]
    data = [row[0] for row in pair.sub("SELECT data FROM pg_logical_slot_get_changes('look', NULL, NULL)")]
    told = [str(each).split(" xid")[0].split("[")[0].split(" ")[0:3] for each in data]
    assert [" ".join(each) for each in told if each[0] == "table"] == [
        "table public.t: INSERT:", "table public.t: UPDATE:", "table public.t: DELETE:",
        "table public.t_history: INSERT:", "table public.t_history: INSERT:", "table public.t_history: INSERT:",
        "table public.t: INSERT:", "table public.t_history: INSERT:",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_copy_anew_is_in_the_history(pair: Pair) -> None:
    subscribe(pair, "versions")
    pair.pub("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2)")
    assert pair.catch_up() == []
    pair.sub("UPDATE t SET b = 'spoiled'")
    assert pgrepl("sync", "s", "--again", "t", "-d", "sub", cwd=pair.folder).returncode == 0
    assert pair.sub(VERSIONS) == [("1", "one", "f"), ("1", "one", "t"), ("2", "two", "f"), ("2", "two", "t")]


def test_a_prepared_transaction_is_in_the_history_once_it_is_committed(tmp_path: Path) -> None:
    first = Database(tmp_path)
    first("ALTER SYSTEM SET max_prepared_transactions = 10")
    first.close()
    with closing(Pair(tmp_path)) as pair:
        subscribe(pair, "changes", options=", two_phase = true")
        pair.pub("INSERT INTO t VALUES (1, 'one', 1)")
        assert pair.catch_up() == []
        pair.pub("BEGIN; UPDATE t SET b = 'two'; UPDATE t SET b = 'three'; PREPARE TRANSACTION 'x'")
        pair.pub("BEGIN; INSERT INTO t VALUES (5, 'never'); PREPARE TRANSACTION 'y'")
        assert pair.catch_up() == []
        assert pair.sub(LOG) == [("insert", None, "1", "one")]
        pair.pub("INSERT INTO t VALUES (2, 'between', 1)", "COMMIT PREPARED 'x'", "ROLLBACK PREPARED 'y'")
        assert pair.catch_up() == []
        assert pair.sub(LOG)[1:] == [
            ("insert", None, "2", "between"), ("update", "1", "1", "two"), ("update", "1", "1", "three"),
        ]  # fmt: skip


def test_what_is_repaired_is_in_the_history(pair: Pair) -> None:
    subscribe(pair, "versions")
    pair.pub("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2)")
    assert pair.catch_up() == []
    pair.sub("UPDATE t SET b = 'spoiled' WHERE a = 1", "DELETE FROM t WHERE a = 2")
    assert pgrepl("repair", "s", "--yes", "-d", "sub", cwd=pair.folder).returncode == 0
    assert sorted(pair.sub("SELECT a, b, c FROM t_at(now())")) == sorted(pair.pub("TABLE t"))


@pytest.mark.parametrize("kept", ["changes", "versions"])
def test_a_virtual_column_has_no_history(pair: Pair, kept: str) -> None:
    pair.pub(
        "CREATE TABLE v (a int PRIMARY KEY, b text)", "CREATE PUBLICATION pv FOR TABLE v", "INSERT INTO v VALUES (1)"
    )
    pair.sub("CREATE TABLE v (a int PRIMARY KEY, w int GENERATED ALWAYS AS (a * 2) VIRTUAL, b text)")
    pair.subscribe("pv", f"WITH (history = {kept})")
    pair.pub("INSERT INTO v VALUES (2, 'y')", "UPDATE v SET b = 'z' WHERE a = 1")
    assert pair.catch_up() == []
    assert pair.sub("SELECT a, w, b FROM v ORDER BY 1") == [("1", "2", "z"), ("2", "4", "y")]
    log = "v_history" if kept == "changes" else "v_history_changes"
    assert pair.sub(f"SELECT a, b FROM {log} ORDER BY a, b") == [("1", "z"), ("1", None), ("2", "y")]
