"""Copies by kernels over Arrow, in this process and as tasks of Spark's, come to what the exact way comes to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgrepl.catalog.facts.relation import Relation, find_relation
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine import choice
from pgrepl.engine.choice import Choice, Engine
from pgrepl.ground.errors import Declined
from pgrepl.replication.publisher.tables import BeginCount, CountRows, TableCopy
from pgrepl.replication.subscriber.copying.columns import stage_copy
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.rows.staged import StagedRows
from pgrepl.sql.nodes import RangeVar
from pgrepl.types import oids
from tests.harness.database import Database, Errors, Rows
from tests.harness.dose import dose
from tests.lake import duck

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Make = Callable[..., "Ways"]
WAYS = {"exact": Engine.LOCAL, "here": Engine.COLUMNS, "tasks": Engine.SPARK}


class Ways:
    """A publisher, and subscribers that copy in several ways."""

    def __init__(self, folder: Path, *ways: str) -> None:
        self.folder = folder
        self.pub = Database(folder, "pub", new=True)
        self.subs = {way: Database(folder, way, new=True) for way in ways}

    def at_subscribers(self, text: str) -> None:
        for database in self.subs.values():
            database(text)

    def everywhere(self, text: str) -> None:
        self.pub(text)
        self.at_subscribers(text)

    def copy(self, publications: str = "p", query: str = "SELECT * FROM t") -> tuple[Rows, dict[str, Errors]]:
        """The rows in their order, which are the same in all ways, and what each says of it."""
        errors, rows = {}, {}
        for way, database in self.subs.items():
            database.subscribe(publications, "host=localhost dbname=pub", name=f"s_{way}")
            errors[way] = [(m.partition("\nCONTEXT")[0], d, c) for m, d, c in database.catch_up()]
            rows[way] = database(query)
        first = next(iter(rows))
        for way in rows:
            assert rows[way] == rows[first], way
            assert errors[way] == errors[first], way
        return rows[first], errors

    def copied(self) -> None:
        """By kernels, and what the files say is true: DuckDB finds the same."""
        for way, database in self.subs.items():
            if way != "exact":
                assert database.ways() == {"copy": 1}, way
                wanted = database("SELECT count(*) FROM t")[0][0]
                assert duck.duck(self.folder / "catalog.db", f'SELECT count(*) FROM lake."{way}".t') == [(wanted,)]

    def files(self, way: str) -> list[str]:
        folder = self.folder / "catalog.db.files" / way
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if ".owner" not in path.name)

    def close(self) -> None:
        duck.close(self.folder / "catalog.db")
        for database in (self.pub, *self.subs.values()):
            database.close()


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    def choose(session: Session, rows: int) -> Choice:
        return Choice(WAYS[session.database.name], "the test", rows, kernels=True)

    monkeypatch.setattr(choice, "choose_kernels", choose)
    made: list[Ways] = []

    def make_ways(*ways: str) -> Ways:
        made.append(Ways(tmp_path, *(ways or ("exact", "here"))))
        return made[-1]

    yield make_ways
    for each in made:
        each.close()


def test_rows_come_by_threads_and_by_tasks_as_one_by_one(make: Make) -> None:
    """From files with deleted rows, older columns, versions of rows, and from the catalog."""
    ways = make("exact", "here", "tasks")
    ways.everywhere("CREATE TABLE t (a bigint PRIMARY KEY, b int, s text, n numeric(8,2), c char(5), d float8)")
    ways.pub(
        "INSERT INTO t SELECT g, nullif(g % 10, 4), 'größer ' || g, g * 0.25, 'x', g / 3.0"
        " FROM generate_series(1, 3000) g"
    )
    ways.pub("DELETE FROM t WHERE a % 7 = 0", "UPDATE t SET s = '' WHERE a % 11 = 0")
    ways.everywhere("ALTER TABLE t ADD e int DEFAULT 5, ADD f date")
    ways.pub("INSERT INTO t VALUES (5000, 9, 'last', 1.5, 'y', 'NaN', 6, '2024-01-01')", "INSERT INTO t VALUES (-2)")
    ways.pub("CREATE PUBLICATION p FOR TABLE t WHERE (a % 2 = 0 AND (b > 3 OR b IS NULL))")
    rows, _ = ways.copy()
    assert len(rows) > 600
    ways.copied()


def test_columns_that_differ_and_those_that_are_not_sent(make: Make) -> None:
    ways = make()
    ways.pub("CREATE TABLE t (a int PRIMARY KEY, b smallint, c bigint, s varchar(10), hidden text)")
    ways.at_subscribers(
        "CREATE TABLE t (own text DEFAULT 'here', s text, c int, b bigint NOT NULL, a bigint PRIMARY KEY,"
        " extra numeric(5,1) DEFAULT 1 + 1, more uuid,"
        " made text GENERATED ALWAYS AS (own || a || coalesce(s, '')) STORED,"
        " CHECK (c < 100 OR own = 'here'), CHECK (made > 'here1'))"
    )
    ways.pub("CREATE PUBLICATION p FOR TABLE t (a, b, c, s)")
    ways.pub("INSERT INTO t SELECT g, g % 5, g * 2, 'v' || g, 'x' FROM generate_series(1, 500) g")
    rows, _ = ways.copy()
    assert rows[2] == ("here", "v3", "6", "3", "3", "2.0", None, "here3v3")
    ways.copied()


@pytest.mark.parametrize(
    ("definition", "message"),
    dose(
        [
            ("a int PRIMARY KEY, b int, s text NOT NULL", 'null value in column "s" of relation "t" violates not-null'),
            ("a int PRIMARY KEY, b int CHECK (b < 399), s text", 'new row for relation "t" violates check constraint'),
            ("a int, b int PRIMARY KEY, s text", "duplicate key value violates unique constraint"),
            ("a int, b int, s text UNIQUE", "duplicate key value violates unique constraint"),
            ("a smallint PRIMARY KEY, b int, s text", 'value "40000" is out of range for type smallint'),
            ("a int PRIMARY KEY, b int, s varchar(4)", "value too long for type character varying(4)"),
        ],
        2,
    ),
)
def test_what_is_wrong_with_a_row_is_said_by_the_exact_way(make: Make, definition: str, message: str) -> None:
    ways = make()
    ways.pub("CREATE TABLE t (a int PRIMARY KEY, b int, s text)", "CREATE PUBLICATION p FOR TABLE t")
    ways.at_subscribers(f"CREATE TABLE t ({definition})")
    ways.pub("INSERT INTO t SELECT g, g, 'v' || g FROM generate_series(1, 400) g")
    ways.pub("INSERT INTO t VALUES (40000, 399, NULL), (401, 400, 'v10'), (402, 402, 'v7000')")
    _, errors = ways.copy()
    assert errors["here"][0][0].startswith(message)
    assert ways.subs["here"].ways() == {"copy row by row": 1}
    assert [name for name in ways.files("here") if name.endswith(".parquet")] == []


def test_keys_meet_those_that_are_there(make: Make) -> None:
    ways = make()
    ways.everywhere("CREATE TABLE t (a int, b text, PRIMARY KEY (a, b))")
    ways.pub("CREATE PUBLICATION p FOR TABLE t")
    ways.pub("INSERT INTO t SELECT g % 20, 'v' || g FROM generate_series(1, 400) g")
    ways.at_subscribers("INSERT INTO t SELECT g, 'own' FROM generate_series(1, 400) g")
    ways.copy()
    assert ways.subs["here"].ways() == {"copy": 1}
    ways.at_subscribers("TRUNCATE t; INSERT INTO t VALUES (3, 'v3')")
    for way, database in ways.subs.items():
        database(f"DROP SUBSCRIPTION s_{way}")
    _, errors = ways.copy()
    assert errors["here"][0][1] == "Key (a, b)=(3, v3) already exists."


def test_types_that_are_converted_through_their_texts(make: Make) -> None:
    """Composite types that have other attributes here, and files from before their types were altered."""
    ways = make("exact", "here", "tasks")
    ways.pub(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TYPE inside AS (x int, gone int, m mood)",
        "CREATE TYPE c AS (a int, i inside, l text[])",
        "CREATE TABLE t (id int PRIMARY KEY, s c, l c[], same c, f float8, n int, m mood, d date)",
        "INSERT INTO t SELECT g, ROW(g, ROW(g, 1, 'ok')::inside, ARRAY['a \"b', NULL])::c,"
        " ARRAY[NULL, ROW(g, NULL, NULL)::c], ROW(g, NULL, NULL)::c, g / 3.0, g, 'sad', '2020-01-01'"
        " FROM generate_series(1, 300) g",
        "ALTER TYPE inside DROP ATTRIBUTE gone",
        "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
        "INSERT INTO t (id, s, m) VALUES (301, ROW(1, ROW(1, 'fine'), NULL)::c, 'fine')",
        "CREATE PUBLICATION p FOR TABLE t WHERE (id > 3)",
    )
    ways.at_subscribers(
        "CREATE TYPE mood AS ENUM ('fine', 'sad'); CREATE TYPE inside AS (x bigint, m mood);"
        "CREATE TYPE c AS (a text, i inside, l text[]); CREATE DOMAIN d AS c CHECK ((VALUE).a > '');"
        "CREATE TABLE t (m mood, id int PRIMARY KEY, s d, l c[], same text, f text, n numeric(8,2), d timestamp)"
    )
    rows, errors = ways.copy()
    assert (len(rows), errors["here"]) == (298, [])
    one = ("sad", "4", '(4,"(4,fine)","{""a \\\\""b"",NULL}")', '{NULL,"(4,,)"}', "(4,,)", "1.3333333333333333", "4.00")
    assert rows[0] == (*one, "2020-01-01 00:00:00")
    ways.copied()


def test_what_kernels_cannot_do_is_left_to_others(make: Make) -> None:
    ways = make()
    ways.pub("CREATE TABLE t (a int PRIMARY KEY, b float8)", "CREATE PUBLICATION p FOR TABLE t")
    ways.at_subscribers("CREATE TABLE t (a int PRIMARY KEY, b text, g int GENERATED ALWAYS AS (a + 1) STORED)")
    ways.subs["here"]("ALTER DATABASE here SET timezone = 'Europe/Berlin'")
    ways.pub("INSERT INTO t SELECT g, g / 3.0 FROM generate_series(1, 40) g")
    rows, _ = ways.copy()
    assert rows[0] == ("1", "0.3333333333333333", "2")
    assert ways.subs["here"].ways() == {"copy row by row": 1}
    assert ways.subs["here"]("SELECT declined FROM pgrepl_stat_engine") == [
        ('the settings by which column "b" is read',)
    ]


def test_leaves_of_a_partitioned_table_and_a_partition_as_target(make: Make) -> None:
    ways = make()
    ways.pub(
        "CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE t1 (b text, a int NOT NULL)",
        "ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (100) TO (1000)",
        "CREATE PUBLICATION p FOR TABLE t WHERE (a % 3 = 0 AND length(b) > 2) WITH (publish_via_partition_root)",
        "INSERT INTO t SELECT g, 'v' || g FROM generate_series(0, 900) g",
    )
    ways.at_subscribers(
        "CREATE TABLE whole (a int PRIMARY KEY, b text) PARTITION BY RANGE (a);"
        "CREATE TABLE t PARTITION OF whole FOR VALUES FROM (0) TO (1000)"
    )
    rows, _ = ways.copy()
    assert len(rows) == 297
    ways.copied()


@pytest.mark.slow
def test_random_tables(make: Make) -> None:
    """Every type of which columns go as they are, with NULLs and extremes, and a condition on one of them."""
    chance = random.Random(11)
    ways = make()
    kinds = {
        "int2": "(g % 60000 - 30000)::int2", "int4": "g * 7 - 900", "int8": "g * 4294967296", "float4": "g / 7.0",
        "float8": "CASE g % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' ELSE g * 1e300 END", "numeric(12,3)": "g * 0.125",
        "numeric": "g * 0.10", "text": "repeat('é', g % 9)", "varchar(12)": "'v' || g", "char(3)": "g % 90",
        "bytea": "decode(lpad(to_hex(g), 8, '0'), 'hex')", "uuid": "md5(g::text)::uuid", "date": "date '2000-1-1' + g",
        "timestamp": "CASE g % 9 WHEN 0 THEN 'infinity' ELSE timestamp '1999-12-31' + g * interval '1 hour' END",
        "timestamptz": "timestamptz '1999-12-31 00:00Z' - g * interval '1 day'",
        "time": "time '00:00' + g * interval '1 s'", "bool": "g % 3 = 0", "jsonb": "jsonb_build_object('k', g)",
        "int[]": "ARRAY[g, NULL, 3]", "interval": "g * interval '1 min'",
    }  # fmt: skip
    names = {kind: f"c{n}" for n, kind in enumerate(kinds)}
    columns = ", ".join(f"{names[kind]} {kind}" for kind in kinds)
    ways.everywhere(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    nulls = {kind: chance.randrange(3, 20) for kind in kinds}
    values = ", ".join(f"CASE WHEN g % {nulls[kind]} = 1 THEN NULL ELSE {kinds[kind]} END" for kind in kinds)
    ways.pub(f"INSERT INTO t SELECT g, {values} FROM generate_series(1, 300) g")
    tests = (
        "c1 > -500 AND c7 <> ''", "c4 = 'NaN' OR c4 <= 0", "c5 BETWEEN 3 AND 20.5", "c9 <= '50' AND c16 IS NOT TRUE",
        "c12 > '2000-03-01' OR c13 = 'infinity'", "c11 < '80000000-0000-0000-0000-000000000000'", "c6 > 3",
        "c17 ? 'k' AND id % 2 = 1",
    )  # fmt: skip
    for number, test in enumerate(tests):
        ways.pub(f"CREATE PUBLICATION p{number} FOR TABLE t WHERE ({test})")
        rows, _ = ways.copy(f"p{number}")
        assert 0 < len(rows) < 300, test
        for way, database in ways.subs.items():
            database(f"DROP SUBSCRIPTION s_{way}", "TRUNCATE t")
    assert ways.subs["here"].ways() == {"copy": len(tests)}


@pytest.mark.slow
def test_files_and_row_groups_that_a_filter_cannot_pass_are_not_read(make: Make) -> None:
    from pgrepl.replication.publisher.lake.copy import LakeRows, copy_plan

    ways = make()
    ways.everywhere("CREATE TABLE t (a int, b text)")
    for low in range(0, 4000, 1000):
        ways.pub(f"INSERT INTO t SELECT g, 'v' FROM generate_series({low}, {low + 999}) g")
    filters = {
        "a BETWEEN 2500 AND 2510": (1000, 11), "a >= 3000 AND b IS NOT NULL": (1000, 1000), "a IN (5, 1005)": (2000, 2),
        "a + 0 > 2999": (4000, 1000), "a > 2999 AND 10 / (a + 1) < 5": (4000, 1000),
        "a > 2999 OR b IS NULL": (4000, 1000),
    }  # fmt: skip
    for number, (condition, (looked, passed)) in enumerate(filters.items()):
        ways.pub(f"CREATE PUBLICATION p{number} FOR TABLE t WHERE ({condition})")
        with reading(ways.pub.session):
            (source,) = LakeRows(ways.pub.session, copy_plan(ways.pub.session, "public", "t", [f"p{number}"])).sources()
            assert sum(count for _, count, _ in source.rows([1, 2])) == looked, condition
        rows, _ = ways.copy(f"p{number}")
        assert len(rows) == passed, condition
        for way, database in ways.subs.items():
            database(f"DROP SUBSCRIPTION s_{way}", "TRUNCATE t")


def test_each_attempt_counts_its_rows_from_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Database(tmp_path, "here", new=True)
    here("CREATE TABLE t (a int)")
    direct = Choice(Engine.COLUMNS, "the test", 100, kernels=True)
    monkeypatch.setattr(choice, "choose_direct", lambda session, size: direct)
    monkeypatch.setattr(choice, "choose_job", lambda session, rows: Choice(Engine.SPARK, "the test", rows))
    counted: list[list[int]] = []

    def begins() -> CountRows:
        counted.append([])
        return lambda rows, size: counted[-1].append(rows)

    class Declining:
        size = estimate = 100

        def stage(
            self, session: Session, table: Relation, begins: BeginCount, check: Any, *, on_spark: bool
        ) -> StagedRows:
            begins()(5, 50)
            raise Declined("not straight")

        def frame(self) -> Any:
            assert here.session.rows_written is not None
            here.session.rows_written(3, 30)
            raise Declined("not by Spark")

    sent = SentRelation(1, "public", "t", "d", (SentColumn("a", oids.INT4, -1, is_key=False),))
    rows: Any = Declining()
    source = TableCopy(sent, 0, iter(()), spark=rows, direct=rows)
    with reading(here.session):
        table = find_relation(here.session, RangeVar("t"))
        assert stage_copy(here.session, table, source, sent, begins, lambda: None) is None
        here.session.settings.set_encoding("LATIN1")
        assert stage_copy(here.session, table, source, sent, begins, lambda: None) is None
    declined = here("SELECT declined, calls FROM pgrepl_stat_engine WHERE work = 'initial copy' ORDER BY 1")
    here.close()
    assert counted == [[5], [3]]
    assert declined == [("encoding LATIN1", "1"), ("not by Spark", "1"), ("not straight", "1")]
