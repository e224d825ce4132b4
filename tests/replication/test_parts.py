"""Batches larger than memory go in parts, dealt by key: what comes of them is what message by message would have."""

from __future__ import annotations

import pickle
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine import choice, on_spark
from pgrepl.engine import spark as lake_spark
from pgrepl.engine.choice import Choice, Engine
from pgrepl.engine.task import NoWatch
from pgrepl.ground.errors import PgError
from pgrepl.replication.publisher.lake import stream_columns
from pgrepl.replication.publisher.plan import are_columnar, by_columns, send_plan
from pgrepl.replication.subscriber.apply.columns import large
from pgrepl.replication.subscriber.apply.columns.parts import DealtPart, as_they_are, by_key
from pgrepl.replication.wire import message_files
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, RelationChanges
from pgrepl.replication.wire.file_changes import MessageFiles, of_slices
from pgrepl.replication.wire.message_files import Decoded, MessageWriter
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.types import oids
from tests.harness.dose import dose
from tests.harness.tasks import played_here
from tests.harness.trio import Trio


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A part has three messages."""
    monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 3 - 500)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each part had."""
    found: list[int] = []

    def watched(deal: Any) -> Any:
        def noted(*arguments: Any) -> Iterator[DealtPart]:
            for part in deal(*arguments):
                found.append(part.count)
                yield part

        return noted

    monkeypatch.setattr(large, "by_key", watched(by_key))
    monkeypatch.setattr(large, "as_they_are", watched(as_they_are))
    return found


@dataclass(frozen=True)
class Case:
    """A table whose column n is a number, and how rows are made of it."""

    columns: str
    key: str  # the columns of its key …
    row: str  # by g, without n
    moved: str  # … and what an UPDATE makes of one of them
    subscriber: str = ""  # instead of `columns`
    more: str = ""  # at the subscribers
    divided: str = ""  # the partitions at the publisher, which are published as their root
    types: str = ""  # at the publisher …
    types_there: str = ""  # … and at the subscribers


CASES = {
    "whole number": Case("a int PRIMARY KEY, b text NOT NULL, c int", "a", "g, 'v' || g, nullif(g % 9, 4)", "a + 100"),
    "text": Case("a text PRIMARY KEY, b text, c int", "a", "'key ' || g, nullif('v' || g, 'v7'), g % 9", "a || '!'"),
    "two columns": Case("a int, k text, b text, c int, PRIMARY KEY (k, a)", "k", "g % 5, 'k' || g, 'v', 1", "k || '!'"),
    "numeric": Case("a numeric(12,2) PRIMARY KEY, b text, c int", "a", "g / 4.0, 'v' || g, g % 9", "a + 100"),
    "character": Case("a char(9) PRIMARY KEY, b text, c int", "a", "'k' || g, 'v' || g, 1", "rtrim(a) || '!'"),
    "identity full": Case(
        "a bigint PRIMARY KEY, b text, c int", "a", "g, 'v' || g, g % 9", "a + 100",
        more="",
    ),
    "partitions": Case(
        "a int PRIMARY KEY, b text, c int", "a", "g, 'v' || g, g % 9", "a + 1000",
        "a int PRIMARY KEY, b text, c int, n int) PARTITION BY RANGE (a",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (20);"
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (20) TO (60) PARTITION BY LIST (a);"
        "CREATE TABLE t3 PARTITION OF t2 DEFAULT; CREATE TABLE t4 PARTITION OF t DEFAULT",
    ),
    "made": Case(
        "a int PRIMARY KEY, b text, c int", "a", "g, 'v' || g, nullif(g % 9, 4)", "a + 100",
        "extra text DEFAULT 'here' || 1, c text CHECK (c <> '77'), n numeric(9,1), b varchar(90), a bigint PRIMARY KEY,"
        " d date, made text GENERATED ALWAYS AS (coalesce(b, '?') || '/' || extra || a) STORED",
    ),
    "kinds": Case(
        "a int PRIMARY KEY, b text, c int, o bool, f float8, e numeric(20,10), w char(3)", "a",
        "g, 'v' || g, g % 9, g > 20, g / 7.0, g / 1e10, g % 7", "a + 100",
        "u uuid DEFAULT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', e numeric, gone int, k text[] DEFAULT '{a,NULL}',"
        " o text, f float4, w text, y bytea DEFAULT '\\x00', c numeric(5,1), n bigint, a int PRIMARY KEY,"
        " b varchar(90), us uuid[] DEFAULT '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}',"
        " CHECK (o <> 'true' AND w || '!' > '')",
        "ALTER TABLE t DROP gone",
    ),
    "made in partitions": Case(
        "a int PRIMARY KEY, b text, c int", "a", "g, 'v' || g, g % 9", "a + 1000",
        "extra text DEFAULT 'here', c text CHECK (c <> '77'), n int, a int PRIMARY KEY, b text) PARTITION BY HASH (a",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
        "CREATE TABLE t2 (b text, a int NOT NULL, extra text DEFAULT 'there', c text, n int,"
        " CONSTRAINT t_c_check CHECK (c <> '77'));"
        "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    ),
}  # fmt: skip


_LEAVES = (
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (20);"
    "CREATE TABLE t2 (c int, gone int, n int, b text, a int NOT NULL); ALTER TABLE t2 DROP gone;"
    "ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (20) TO (40);"
    "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (40) TO (200) PARTITION BY HASH (a);"
    "CREATE TABLE t4 PARTITION OF t3 FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
    "CREATE TABLE t5 PARTITION OF t3 FOR VALUES WITH (MODULUS 2, REMAINDER 1); CREATE TABLE t6 PARTITION OF t DEFAULT"
)
CASES["leaves as a table"] = Case(
    "a int PRIMARY KEY, b text, c int",
    "a",
    "g, 'v' || g, g % 9",
    "a + 37",
    divided=f" PARTITION BY RANGE (a); {_LEAVES}",
)
CASES["leaves as others"] = Case(
    "a int PRIMARY KEY, b text, c int", "a", "g, 'v' || g, g % 9", "a + 37",
    "a int PRIMARY KEY, b text, c int, n int) PARTITION BY HASH (a",
    "CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
    "CREATE TABLE t2 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    f" PARTITION BY RANGE (a); {_LEAVES}",
)  # fmt: skip


_ROW = "ROW(g, nullif('\"' || g, '\"5'), ARRAY[g % 3, NULL])::pair"
CASES["rows"] = Case(
    "a int PRIMARY KEY, b text, c int, r pair, l pair[]",
    "a",
    f"g, 'v' || g, g % 9, CASE WHEN g % 4 > 0 THEN {_ROW} END, ARRAY[NULL, {_ROW}]",
    "a + 100",
    "l pair[], gone int, a int PRIMARY KEY, b text, c int, r text, n int",
    types="CREATE TYPE pair AS (x int, y text, z int[])",
    types_there="CREATE TYPE pair AS (x bigint, gone int, y varchar(9), z text[]); ALTER TYPE pair DROP ATTRIBUTE gone",
)


def statement(case: Case, chance: random.Random) -> str:
    low, many = chance.randrange(60), chance.randrange(1, 9)
    rows = f"SELECT {case.row}, g FROM generate_series({low}, {low + many}) g"
    kind = chance.choice(["insert", "insert", "update", "update", "delete", "key", "again"])
    if kind == "insert":
        return f"INSERT INTO t {rows} ON CONFLICT DO NOTHING"
    if kind == "update":
        return f"UPDATE t SET b = b || '{low}', c = NULL WHERE n % 5 = {low % 5}"
    if kind == "delete":
        return f"DELETE FROM t WHERE n BETWEEN {low} AND {low + many}"
    if kind == "key":
        free = f"NOT EXISTS (SELECT FROM t x WHERE x.{case.key} = {case.moved.replace(case.key, f't.{case.key}', 1)})"
        return f"UPDATE t SET {case.key} = {case.moved} WHERE n = {low} AND {free}"
    return f"DELETE FROM t WHERE n = {low}; INSERT INTO t SELECT {case.row}, g FROM generate_series({low}, {low}) g"


def workload(trio: Trio, case: Case, chance: random.Random, rounds: int) -> None:
    for _ in range(rounds):
        for _ in range(chance.randrange(1, 4)):
            body = "; ".join(statement(case, chance) for _ in range(chance.randrange(1, 5)))
            trio.pub(f"BEGIN; {body}; COMMIT" if chance.random() < 0.6 else body)
            if chance.random() < 0.1:
                trio.pub("TRUNCATE t")
        if chance.random() < 0.2:
            trio.at_subscribers(f"DELETE FROM t WHERE n = {chance.randrange(40)}")
        trio.compare_ways("t")


def ready(trio: Trio, case: Case) -> None:
    trio.pub(case.types)
    trio.at_subscribers(case.types_there)
    trio.pub(f"CREATE TABLE t ({case.columns}, n int){case.divided}")
    trio.at_subscribers(f"CREATE TABLE t ({case.subscriber or case.columns + ', n int'}); {case.more}")
    trio.pub(f"CREATE PUBLICATION p FOR TABLE t{' WITH (publish_via_partition_root)' if case.divided else ''}")
    trio.pub(f"INSERT INTO t SELECT {case.row}, g FROM generate_series(1, 40) g")
    trio.subscribe()


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Parts are tasks of twelve messages each, which are played here. What Spark's jobs would be called."""
    played_here(monkeypatch)
    return by_tasks(monkeypatch)


def by_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 12 - 500)
    for user in (choice, stream_columns):
        monkeypatch.setattr(user, "choose_parts", lambda session, rows: Choice(Engine.SPARK, "the test", rows))
    monkeypatch.setattr(choice, "has_cluster", lambda: True)  # on one machine threads number the keys
    texts, steps = [""], []
    play, described = on_spark.run_parts, lake_spark.described

    def noted(text: str) -> Any:
        texts.append(text)
        return described(text)

    def played(parts: Any, kernel: Any) -> list[Any]:
        steps.append(texts[-1])
        return play(parts, kernel)

    monkeypatch.setattr(lake_spark, "described", noted)
    monkeypatch.setattr(on_spark, "run_parts", played)
    return steps


@pytest.mark.parametrize("name", dose(CASES, 12, 5))
def test_random_changes_in_parts(trio: Trio, made: list[int], name: str) -> None:
    case = CASES[name]
    ready(trio, case)
    if name == "identity full":
        trio.pub("ALTER TABLE t REPLICA IDENTITY FULL")
    if name.startswith("made"):
        trio.at_subscribers("UPDATE t SET extra = 'local ' || a WHERE a % 2 = 1")
    if name == "kinds":
        trio.at_subscribers("UPDATE t SET u = NULL, k = '{}', us = NULL, y = '\\xff' WHERE a % 2 = 1")
    workload(trio, case, random.Random(len(name)), 2)
    assert len(made) > 5
    assert trio.sub.ways()["apply"] >= 1


@pytest.fixture(params=dose(["tasks", "threads"], 2))
def way(request: pytest.FixtureRequest) -> None:
    """Parts are played here, or by Spark."""
    if request.param == "tasks":
        request.getfixturevalue("tasks")


@pytest.mark.parametrize("name", [*dose([name for name in CASES if name != "rows"], 8), "rows"])
def test_random_changes_by_tasks(trio: Trio, made: list[int], tasks: list[str], name: str) -> None:
    changed_by_tasks(trio, made, tasks, name, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["partitions", "whole number"])
def test_random_changes_by_spark(
    trio: Trio, made: list[int], name: str, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed_by_tasks(trio, made, by_tasks(monkeypatch), name, 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
@pytest.mark.parametrize("name", CASES)
def test_more_random_changes_by_tasks(trio: Trio, made: list[int], tasks: list[str], name: str, seed: int) -> None:
    changed_by_tasks(trio, made, tasks, name, seed, 4)


def changed_by_tasks(trio: Trio, made: list[int], steps: list[str], name: str, seed: int, rounds: int = 2) -> None:
    case = CASES[name]
    ready(trio, case)
    if name == "identity full":
        trio.pub("ALTER TABLE t REPLICA IDENTITY FULL")
    workload(trio, case, random.Random(seed), rounds)
    if rounds > 2:
        return  # the few changes of some seeds are one part
    assert len(made) > 1
    applying = 'subscription "s", changes of public.t: '
    assert {f"{applying}{step}" for step in ("keys", "parts", "apply")} <= set(steps)


FILTERS = {  # and whether it is evaluated row by row, where Arrow is not sure
    "columns": ("a % 7 <> 3", False),
    "rows": ("md5(b) < '8' AND a % 7 <> 3", True),
}


@pytest.mark.parametrize("name", dose(FILTERS, 2))
def test_row_filters_by_tasks(trio: Trio, made: list[int], tasks: list[str], name: str) -> None:
    text, by_rows = FILTERS[name]
    trio.everywhere("CREATE TABLE t (a int, b text, n int, PRIMARY KEY (a, b))")
    trio.pub(f"CREATE PUBLICATION p FOR TABLE t WHERE ({text})")
    trio.pub("INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 90) g")
    trio.subscribe()
    trio.pub("UPDATE t SET b = b || '!', n = 0 WHERE n % 3 = 0", "UPDATE t SET n = -n", "DELETE FROM t WHERE a % 5 = 1")
    trio.pub("INSERT INTO t SELECT g, 'w' || g, g FROM generate_series(100, 150) g")
    assert trio.compare_ways("t") == []
    read = [step for step in tasks if step == "changes of public.t: read"]
    assert (len(read) > 0, len(made) > 1) == (True, True)
    with reading(trio.pub.session):
        table = find_relation(trio.pub.session, range_var("t"))
        assert table is not None
        plan = send_plan(trio.pub.session, ["p"], table.oid)
        assert plan is not None
        assert are_columnar(by_columns(trio.pub.session, plan).values()) is not by_rows


@pytest.mark.usefixtures("way")
def test_the_first_obstacle_of_all_parts_counts(trio: Trio, made: list[int]) -> None:
    case = CASES["whole number"]
    ready(trio, case)
    trio.at_subscribers("INSERT INTO t VALUES (501, 'local', 1, 1), (140, 'local', 1, 1)")
    trio.pub("INSERT INTO t SELECT g, 'x', g, 1000 + g FROM generate_series(200, 220) g")
    trio.pub("INSERT INTO t VALUES (140, 'late in the order of parts', 1, 1)")
    trio.pub("INSERT INTO t VALUES (501, 'never', 1, 1), (50, 'never', 1, 1)")
    trio.sub("SELECT pg_stat_reset()")
    ((message, detail, _),) = trio.compare_ways("t")
    assert (message, detail) == (
        'duplicate key value violates unique constraint "t_pkey"',
        "Key (a)=(140) already exists.",
    )
    assert trio.sub("SELECT count(*) FROM t WHERE a BETWEEN 200 AND 220") == [("21",)]
    assert trio.sub.ways()["apply"] == 1
    trio.at_subscribers("DELETE FROM t WHERE a IN (140, 501)")
    assert trio.compare_ways("t") == []


def test_a_spark_that_fails_is_told(trio: Trio, tasks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large enough for Spark is not done row by row because Spark has failed; the next round does it."""
    ready(trio, CASES["whole number"])
    trio.pub("INSERT INTO t SELECT g, 'x', g, 1000 + g FROM generate_series(1000, 1100) g")

    def lost(parts: Any, kernel: Any) -> list[Any]:
        raise PgError("XX000", "Spark failed: no executors")

    with monkeypatch.context() as patched:
        patched.setattr(on_spark, "run_parts", lost)
        trio.sub("SET pgrepl.local_rows = 0")
        ((message, _, _),) = trio.sub.catch_up()
    assert message.endswith("Spark failed: no executors")
    assert trio.sub("SELECT count(*) FROM t WHERE a >= 1000") == [("0",)]
    assert trio.compare_ways("t") == []
    assert trio.sub.ways()["apply"] == 1


def test_a_file_that_is_gone_is_met_behind_the_changes_before_it(
    trio: Trio, tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they are read message by message, and applied."""
    ready(trio, CASES["whole number"])
    trio.pub("INSERT INTO t SELECT g, 'x', g, 1000 + g FROM generate_series(1000, 1100) g")

    def lost(parts: Any, kernel: Any) -> list[Any]:
        raise PgError("58P01", 'could not open file "f": No such file or directory')

    monkeypatch.setattr(on_spark, "run_parts", lost)
    trio.sub("SET pgrepl.local_rows = 0")
    assert trio.sub.catch_up() == []
    assert trio.sub("SELECT count(*) FROM t WHERE a >= 1000") == [("101",)]


@pytest.mark.usefixtures("way")
def test_defaults_are_those_of_the_tables_owner(trio: Trio, made: list[int]) -> None:
    """The owner applies the changes, unless run_as_owner says otherwise."""
    trio.pub("CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t SELECT g FROM generate_series(1, 20) g")
    trio.at_subscribers("CREATE TABLE t (a int PRIMARY KEY, who name DEFAULT current_user)")
    trio.sub("CREATE ROLE alice")
    trio.at_subscribers("ALTER TABLE t OWNER TO alice")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.pub("INSERT INTO t SELECT g FROM generate_series(21, 60) g")
    assert trio.compare_ways("t") == []
    assert trio.sub("SELECT who, count(*) FROM t GROUP BY who") == [("alice", "60")]
    assert len(made) > 1


BROKEN = {
    "not null": ("b text NOT NULL", "NULL", 'null value in column "b" of relation "t" violates not-null constraint'),
    "check": ("b text CHECK (b <> 'z')", "'z'", 'new row for relation "t" violates check constraint "t_b_check"'),
    "number": ("b int", "'many'", 'invalid input syntax for type integer: "many"'),
    "length": ("b varchar(3)", "'long'", "value too long for type character varying(3)"),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", dose(BROKEN, 3))
def test_a_row_that_breaks_a_rule_in_one_part(trio: Trio, made: list[int], name: str) -> None:
    column, bad, error = BROKEN[name]
    trio.pub("CREATE TABLE t (a int PRIMARY KEY, b text)")
    trio.at_subscribers(f"CREATE TABLE t (a int PRIMARY KEY, {column}, c text)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.pub("INSERT INTO t SELECT g, '1' FROM generate_series(1, 14) g")
    trio.pub(f"BEGIN; UPDATE t SET b = '2'; UPDATE t SET b = {bad} WHERE a = 9; UPDATE t SET b = '3'; COMMIT")
    ((message, _, _),) = trio.compare_ways("t")
    assert message == error
    assert trio.sub("SELECT DISTINCT b FROM t") == [("1",)]


SEARCHED = {  # a column of the subscribers', and what a message that finds no row, or needs no such value, has for it
    "new row": ("b int", "", "UPDATE t SET b = 'many' WHERE a = '7'", 'invalid input syntax for type integer: "many"'),
    "old row": ("b int", "b = 'many'", "DELETE FROM t WHERE a = '8'", 'invalid input syntax for type integer: "many"'),
    "old key": ("c int", "a = '0xFFFFFFFF'", "DELETE FROM t", 'value "0xFFFFFFFF" is out of range for type integer'),
}


@pytest.mark.parametrize("name", dose(SEARCHED, 3))
def test_values_that_rows_are_looked_for_by_convert(trio: Trio, name: str) -> None:
    """Arrow reads 0xFFFFFFFF as -1."""
    column, unseen, change, error = SEARCHED[name]
    trio.pub("CREATE TABLE t (a text PRIMARY KEY, b text)")
    trio.at_subscribers(f"CREATE TABLE t (a int PRIMARY KEY, b text, {column})".replace("b text, b", "b"))
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.pub("INSERT INTO t SELECT g, g FROM generate_series(1, 12) g")
    trio.subscribe()
    trio.at_subscribers("DELETE FROM t WHERE a = 7; INSERT INTO t VALUES (-1)")
    if unseen:
        trio.pub("ALTER TABLE t REPLICA IDENTITY FULL; ALTER PUBLICATION p SET (publish = 'insert, delete')")
        trio.pub(f"UPDATE t SET {unseen} WHERE a = '8'")
        trio.compare_ways("t")
    trio.pub(change)
    ((message, _, _),) = trio.compare_ways("t")
    assert message == error
    assert trio.sub("SELECT count(*) FROM t") == [("12",)]


def test_a_key_that_is_cut_to_its_length(trio: Trio) -> None:
    trio.pub("CREATE TABLE t (a text PRIMARY KEY, b int)")
    trio.at_subscribers("CREATE TABLE t (a varchar(3) PRIMARY KEY, b int)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.pub("INSERT INTO t VALUES ('abc   ', 1), ('b', 1), ('c', 1), ('d', 1)")
    assert trio.compare_ways("t") == []
    for change in ("UPDATE t SET b = 7", "DELETE FROM t"):
        trio.pub(change)
        assert trio.compare_ways("t") == []


@pytest.mark.usefixtures("way")
def test_a_table_without_a_key(trio: Trio, made: list[int]) -> None:
    """Rows that only come are divided as they are."""
    trio.everywhere("CREATE TABLE t (a int, b text)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.pub("INSERT INTO t SELECT g % 7, 'x' FROM generate_series(1, 30) g")
    assert trio.compare_ways("t") == []
    assert sum(made) == 30


@pytest.mark.usefixtures("way")
def test_several_keys(trio: Trio, made: list[int]) -> None:
    """Whose values go from row to row across the parts."""
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE, c int, d int, UNIQUE (c, d))")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.subscribe()
    trio.sub("SELECT pg_stat_reset()")
    trio.pub("INSERT INTO t SELECT g, 'x' || g, nullif(g % 5, 4), g FROM generate_series(1, 16) g")
    trio.pub("UPDATE t SET b = b || '!', d = d + 100 WHERE a > 6; DELETE FROM t WHERE a < 4")
    assert trio.compare_ways("t") == []
    assert (sum(made) > 24, trio.sub.ways()["apply"]) == (True, 1)
    trio.pub("INSERT INTO t SELECT g, 'y' || g, 1, g FROM generate_series(200, 206) g")
    trio.pub("BEGIN; DELETE FROM t WHERE a = 16; UPDATE t SET b = 'x16!' WHERE a = 5; COMMIT")
    trio.pub("UPDATE t SET c = 7")
    assert trio.compare_ways("t") == []
    trio.at_subscribers("INSERT INTO t VALUES (900, 'mine', 9, 9)")
    trio.pub("INSERT INTO t SELECT g, 'z' || g, 1, g FROM generate_series(300, 306) g")
    trio.pub("BEGIN; UPDATE t SET d = 1000 + d; INSERT INTO t VALUES (20000, 'mine', 1, 1); COMMIT")
    ((message, _, _),) = trio.compare_ways("t")
    assert message == 'duplicate key value violates unique constraint "t_b_key"'


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_many_keys_that_change(trio: Trio, made: list[int]) -> None:
    """Each by itself, in parts like others; where they follow each other, one by one."""
    case = CASES["whole number"]
    ready(trio, case)
    trio.sub("SELECT pg_stat_reset()")
    trio.pub("UPDATE t SET a = a + 1000")
    assert trio.compare_ways("t") == []
    assert trio.sub.ways()["apply"] == 1
    assert max(made) < 20
    trio.pub("UPDATE t SET a = a + 1 WHERE a = 1040; UPDATE t SET a = a + 1 WHERE a = 1039; UPDATE t SET b = 'x'")
    assert trio.compare_ways("t") == []
    made.clear()
    trio.pub("INSERT INTO t SELECT g, 'w', g, g FROM generate_series(3000, 3020) g")
    trio.pub("BEGIN; UPDATE t SET a = a + 5000 WHERE a < 3000; UPDATE t SET b = 'y' WHERE a > 5000; COMMIT")
    assert trio.compare_ways("t") == []
    assert 0 < max(made) <= 12  # what is too much for a part is not read in one piece


def test_what_is_done_twice_leaves_no_row_twice_and_no_file(
    trio: Trio, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a task of Spark's may be, by another attempt or beside the first one."""
    case = CASES["whole number"]
    ready(trio, case)
    done: list[str] = []

    def twice(session: Any, parts: Any, kernel: Any, **options: Any) -> list[Any]:
        answers = [[kernel(part, NoWatch()) for part in parts] for _ in range(2)]
        done.append(kernel.__name__)
        return [pair[n % 2] for n, pair in enumerate(zip(*answers, strict=True))]

    monkeypatch.setattr("pgrepl.engine.run_kernels.run_parts_apart", twice)
    monkeypatch.setattr("pgrepl.replication.publisher.lake.stream_columns.run_parts_apart", twice)
    workload(trio, case, random.Random(2), 3)
    trio.pub("UPDATE t SET b = 'last'; DELETE FROM t WHERE n % 3 = 0")
    assert trio.compare_ways("t") == []
    assert set(done) == {"read_range", "_code", "_scatter", "_share", "_deal", "apply_part", "merge_deletes"}
    folder = trio.path.with_name(f"{trio.path.name}.files") / "sub"
    there = {path.name for path in folder.rglob("*") if path.is_file() and ".owner" not in path.name}
    with closing(sqlite3.connect(trio.path)) as catalog:
        tables = "ducklake_data_file", "ducklake_delete_file", "ducklake_files_scheduled_for_deletion"
        known = {row[0].rpartition("/")[2] for table in tables for row in catalog.execute(f"SELECT path FROM {table}")}
    assert len(there) > 5
    assert there - known == set()
    assert [path.name for path in folder.rglob("ducklake-*") if path.is_dir()] == []


KINDS: dict[str, tuple[int, pa.Array]] = {
    "text": (oids.TEXT, pa.array([f"{'k' * (n % 5)}{n % 40}" for n in range(400)])),
    "date": (oids.DATE, pa.array([n % 40 for n in range(400)], pa.int32()).cast(pa.date32())),
    "bool": (oids.BOOL, pa.array([n % 2 == 0 for n in range(400)])),
    "bytes": (oids.BYTEA, pa.array([b"\0" * (n % 40) for n in range(400)])),
    "number": (oids.INT8, pa.array([(n % 40) << 55 for n in range(400)], pa.int64())),
}


def test_files_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    relation = SentRelation(1, "public", "t", "d", (SentColumn("a", oids.INT4, -1, is_key=True),))
    writer = MessageWriter(relation, str(tmp_path / "gone" / "t"), 1)
    op, nothing = np.array([INSERT], np.uint8), np.zeros(1, np.bool_)
    with pytest.raises(PgError, match=r'could not write file ".*gone/t\.0\.heads": No such file or directory'):
        writer.write(np.zeros(1, np.int64), Decoded(op, nothing, [pa.array([1], pa.int32())], {}, {}))
    writer.abandon()


class FirstColumn:
    def __call__(self, changes: RelationChanges, at: Any, old: bool) -> list[pa.Array]:
        return changes.pick([0], at, old=old)


@pytest.mark.parametrize("name", KINDS)
def test_all_messages_of_a_key_are_in_one_part(tmp_path: Path, name: str) -> None:
    kind, values = KINDS[name]
    relation = SentRelation(1, "public", "t", "d", (SentColumn("a", kind, -1, is_key=True),))
    writer = MessageWriter(relation, str(tmp_path / "t"), 1)
    op = np.array([(INSERT, UPDATE, DELETE)[n % 3] for n in range(100)], np.uint8)
    for start in range(0, 400, 100):
        part = values.slice(start, 100)
        new, old = (part.take(pa.array(np.flatnonzero(which))) for which in (op != DELETE, op == DELETE))
        writer.write(np.arange(100) * 4 + start // 100, Decoded(op, op == DELETE, [new], {0: old}, {}))
    messages = MessageFiles(relation, writer.close())

    def play(step: str, pieces: Sequence[Any], kernel: Any) -> list[Any]:
        return [kernel(pickle.loads(pickle.dumps(piece)), NoWatch()) for piece in pieces]

    seen: dict[Any, int] = {}
    numbers: list[int] = []
    for n, part in enumerate(by_key(messages, FirstColumn(), 25, play)):
        made = of_slices(messages.relation, part.slices)
        assert (np.diff(made.seq) > 0).all()
        numbers += made.seq.tolist()
        for old in (False, True):
            for value in made.pick([0], np.flatnonzero((made.op == DELETE) == old), old=old)[0].to_pylist():
                assert seen.setdefault(value, n) == n
    assert sorted(numbers) == list(range(400))
    assert name == "bool" or len(set(seen.values())) > 5
