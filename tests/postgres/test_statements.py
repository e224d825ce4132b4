"""Random statements on a server and on pgrepl: tags, rows, errors and contents are the same, and DuckDB reads the same
rows from the lake after each step.

The machine plays INSERT, UPDATE, DELETE, TRUNCATE with and without keys, partitions, foreign keys, ON CONFLICT and
RETURNING, in transactions with savepoints, on either engine.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.lake import duck
from tests.postgres.play import Pair

SCHEMA = """
CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL, c numeric(8,2) DEFAULT 1.5, d date, e int CHECK (e < 90),
                g text GENERATED ALWAYS AS (b || '-' || a) STORED, UNIQUE (b, e));
CREATE TABLE u (a int, b varchar(6), c double precision);
CREATE TABLE r (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE, s int REFERENCES t ON DELETE SET NULL);
CREATE TABLE p (a int, b text, PRIMARY KEY (a)) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (20);
CREATE TABLE p2 (b text, a int NOT NULL);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (20) TO (40);
CREATE TABLE q (k text, v int) PARTITION BY LIST (k);
CREATE TABLE q1 PARTITION OF q FOR VALUES IN ('x', 'y');
CREATE TABLE qd PARTITION OF q DEFAULT;
"""
TABLES = {"t": "a, b, c, d, e, g", "u": "a, b, c", "r": "id, t, s", "p": "a, b", "q": "k, v"}
LEAVES = ("t", "u", "r", "p1", "p2", "q1", "qd")

small = st.integers(-2, 45)
nullable = st.one_of(st.none(), small)
words = st.sampled_from(["x", "y", "z", "", "it''s", "ü", "longer", "toolong"])
dates = st.sampled_from(["'2024-02-29'", "'infinity'", "NULL", "DEFAULT", "'0044-03-15 BC'"])


def number(value: int | None) -> str:
    return "NULL" if value is None else str(value)


@st.composite
def rows_for(draw: st.DrawFn, table: str) -> str:
    def row() -> str:
        if table == "t":
            extra = draw(st.sampled_from(["1.25", "DEFAULT", "NULL", "123456.789", "1e7", "'NaN'"]))
            e = draw(st.sampled_from(["1", "2", "NULL", "95", "3"]))
            return f"({draw(small)}, '{draw(words)}', {extra}, {draw(dates)}, {e})"
        if table == "u":
            c = draw(st.sampled_from(["1.5", "NULL", "-0.0", "1e300"]))
            return f"({number(draw(nullable))}, '{draw(words)}', {c})"
        if table == "r":
            return f"({draw(small)}, {number(draw(nullable))}, {number(draw(nullable))})"
        if table == "p":
            return f"({number(draw(nullable))}, '{draw(words)}')"
        return f"('{draw(words)}', {number(draw(nullable))})"

    columns = {"t": "a, b, c, d, e", "u": "a, b, c", "r": "id, t, s", "p": "a, b", "q": "k, v"}[table]
    return f"{table} ({columns}) VALUES {', '.join(row() for _ in range(draw(st.integers(1, 4))))}"


RETURNING = st.sampled_from(["", "", " RETURNING *", " RETURNING {0}.*, 1 AS one"])
CONDITIONS = {
    "t": ["a = {n}", "a > {n}", "b = '{w}'", "e IS NULL", "c < 2 OR d > '2000-01-01'", "a IN (1, 2, {n})", "true",
          "a % 3 = 1", "g LIKE '%-{n}'", "EXISTS (SELECT 1 FROM r WHERE r.t = t.a)"],
    "u": ["a = {n}", "a IS NULL", "b > '{w}'", "c = -0.0", "true", "a BETWEEN 3 AND {n}"],
    "r": ["id = {n}", "t IS NULL", "s > {n}", "t = s"],
    "p": ["a = {n}", "a < {n}", "b = '{w}'", "a >= 15 AND a < 25"],
    "q": ["k = '{w}'", "v > {n}", "k <> 'x'", "v IS NULL"],
}  # fmt: skip
SETS = {
    "t": ["b = b || '!'", "a = a + 1", "a = a + 100", "e = {n}", "(b, e) = ('{w}', {n})", "c = c * 1.1, d = DEFAULT",
          "c = (SELECT max(c) FROM t)", "b = NULL", "b = upper(b), e = coalesce(e, 0) + 1"],
    "u": ["a = a + 1", "b = '{w}'", "c = c / 2", "b = b || b", "a = NULL", "c = a"],
    "r": ["t = {n}", "s = t", "id = id + 1", "t = NULL"],
    "p": ["a = a + 10", "b = '{w}'", "a = {n}", "a = 39 - a"],
    "q": ["k = '{w}'", "v = v + 1", "k = k || k"],
}  # fmt: skip
QUERIES = [
    "SELECT count(*), sum(a), min(b), max(g), avg(e), sum(c) FROM t",
    "SELECT b, count(*), max(d) FROM t GROUP BY b ORDER BY b",
    "SELECT t.a, r.id FROM t LEFT JOIN r ON r.t = t.a ORDER BY 1, 2",
    "SELECT a, sum(c) OVER (ORDER BY a) FROM u ORDER BY a, 2",
    "SELECT tableoid::regclass, a FROM p ORDER BY a",
    "SELECT k, v FROM q WHERE v > 3 UNION SELECT b, a FROM p ORDER BY 1, 2",
    "SELECT DISTINCT ON (b) b, a FROM t ORDER BY b, a DESC",
    "WITH w AS (SELECT a FROM t WHERE e = 1) SELECT count(*) FROM w JOIN u USING (a)",
]

Answer = tuple[Any, ...]
_names = itertools.count()


class Server:
    """A database of a real server."""

    def __init__(self, pair: Pair) -> None:
        import psycopg

        self.name = f"statements{next(_names)}"
        self._dsn = f"host={pair.publisher.host} port={pair.publisher.port} user=postgres"
        with psycopg.connect(f"{self._dsn} dbname=postgres", autocommit=True) as link:
            link.execute(f"CREATE DATABASE {self.name}")
        self.link = psycopg.connect(f"{self._dsn} dbname={self.name}", autocommit=True)
        self.link.adapters.register_loader("date", psycopg.types.string.TextLoader)

    def run(self, text: str) -> Answer:
        import psycopg

        with self.link.cursor() as cursor:
            try:
                cursor.execute(_as_text(text))
            except psycopg.Error as error:
                diagnosis = error.diag
                return ("error", diagnosis.sqlstate, diagnosis.message_primary, diagnosis.message_detail)
            rows = []
            if cursor.description is not None and cursor.pgresult is not None:
                found = cursor.pgresult
                for row in range(found.ntuples):
                    values = [found.get_value(row, column) for column in range(found.nfields)]
                    rows.append(tuple([None if value is None else bytes(value).decode() for value in values]))
            return ("done", cursor.statusmessage, rows)

    def close(self) -> None:
        import psycopg

        self.link.close()
        with psycopg.connect(f"{self._dsn} dbname=postgres", autocommit=True) as link:
            link.execute(f"DROP DATABASE {self.name}")


def _as_text(text: str) -> Any:
    return text.encode()


class Ours:
    def __init__(self, folder: Path, engine: str) -> None:
        self.path = folder / "catalog.db"
        self.catalog = open_catalog(self.path)
        self.session = open_session(self.catalog, settings={"pgrepl.engine": engine})

    def run(self, text: str) -> Answer:
        try:
            *_, last = run(self.session, text)
        except PgError as error:
            return ("error", error.sqlstate, error.message, error.report.detail)
        return ("done", last.tag, list(last.rows))

    def close(self) -> None:
        duck.close(self.path)
        self.session.close()
        self.catalog.close()


class Statements(RuleBasedStateMachine):
    pair: Pair
    engine = "local"

    def __init__(self) -> None:
        super().__init__()
        self.server = Server(self.pair)
        self.folder = tempfile.TemporaryDirectory()
        self.ours = Ours(Path(self.folder.name), self.engine)
        self.in_block = self.failed = False

    def teardown(self) -> None:
        self.server.close()
        self.ours.close()
        self.folder.cleanup()

    @initialize()
    def make_tables(self) -> None:
        for text in SCHEMA.strip().split(";\n"):
            assert self.server.run(text)[0] == self.ours.run(text)[0] == "done", text

    def both(self, text: str) -> Answer:
        theirs, ours = self.server.run(text), self.ours.run(text)
        ordered = "ORDER BY" in text
        assert comparable(ours, ordered) == comparable(theirs, ordered), text
        if self.in_block and theirs[0] == "error":
            self.failed = True
        if not self.in_block:
            self.same_contents()
        return theirs

    def same_contents(self) -> None:
        for table, columns in TABLES.items():
            text = f"SELECT {columns} FROM {table} ORDER BY {columns}"
            theirs = self.server.run(text)
            assert self.ours.run(text) == theirs, table
        counts = " UNION ALL ".join(f"SELECT count(*)::BIGINT FROM {{0}}{leaf}" for leaf in LEAVES)
        assert duck.duck(self.ours.path, counts.format("postgres.")) == self.ours.run(counts.format(""))[2]
        read = duck.duck(self.ours.path, "SELECT a, b, c, g FROM postgres.t ORDER BY a")
        assert read == self.ours.run("SELECT a, b, c, g FROM t ORDER BY a")[2]

    # --- changes --------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.failed)
    @rule(data=st.data(), table=st.sampled_from(sorted(TABLES)), returning=RETURNING)
    def insert(self, data: st.DataObject, table: str, returning: str) -> None:
        text = f"INSERT INTO {data.draw(rows_for(table))}"
        if table in "tpr":
            key = {"t": "a", "p": "a", "r": "id"}[table]
            text += data.draw(
                st.sampled_from(
                    ["", "", "", " ON CONFLICT DO NOTHING", f" ON CONFLICT ({key}) DO NOTHING"]
                    + ([f" ON CONFLICT ({key}) DO UPDATE SET b = excluded.b || {table}.b"] if table in "tp" else [])
                    + ([" ON CONFLICT (b, e) DO UPDATE SET a = excluded.a WHERE t.a > 3"] if table == "t" else [])
                )
            )
        self.both(text + returning.format(table))

    @precondition(lambda self: not self.failed)
    @rule(
        text=st.sampled_from(
            [
                "INSERT INTO u SELECT a, left(b, 5), c FROM t",
                "INSERT INTO u SELECT g, 'n' || g, g / 3.0 FROM generate_series(1, 12) g",
                "INSERT INTO t (a, b) SELECT a + 50, b FROM u WHERE a IS NOT NULL",
                "INSERT INTO p SELECT g, 's' FROM generate_series(0, 30, 7) g ON CONFLICT DO NOTHING",
                "INSERT INTO q SELECT b, a FROM u",
                "WITH gone AS (DELETE FROM u WHERE a < 5 RETURNING a, b) INSERT INTO q SELECT b, a FROM gone",
            ]
        )
    )
    def insert_select(self, text: str) -> None:
        self.both(text)

    @precondition(lambda self: not self.failed)
    @rule(data=st.data(), table=st.sampled_from(sorted(TABLES)), n=small, w=words, returning=RETURNING)
    def update(self, data: st.DataObject, table: str, n: int, w: str, returning: str) -> None:
        changes = data.draw(st.sampled_from(SETS[table])).format(n=n, w=w)
        where = data.draw(st.sampled_from(CONDITIONS[table])).format(n=n, w=w)
        source = ""
        if table == "t" and data.draw(st.integers(0, 4)) == 0:
            source, where = " FROM u", "u.a = t.a"
            changes = "b = left(u.b, 3) || t.a"
        self.both(f"UPDATE {table} SET {changes}{source} WHERE {where}" + ("" if source else returning.format(table)))

    @precondition(lambda self: not self.failed)
    @rule(data=st.data(), table=st.sampled_from(sorted(TABLES)), n=small, w=words, returning=RETURNING)
    def delete(self, data: st.DataObject, table: str, n: int, w: str, returning: str) -> None:
        where = data.draw(st.sampled_from(CONDITIONS[table])).format(n=n, w=w)
        if table == "u" and data.draw(st.integers(0, 4)) == 0:
            self.both("DELETE FROM u USING t WHERE u.a = t.a AND t.e = 1")
            return
        self.both(f"DELETE FROM {table} WHERE {where}" + returning.format(table))

    @precondition(lambda self: not self.failed)
    @rule(text=st.sampled_from(["u", "t", "t CASCADE", "p", "q, u", "p1", "ONLY q1", "ONLY p", "r, t"]))
    def truncate(self, text: str) -> None:
        self.both(f"TRUNCATE {text}")

    @precondition(lambda self: not self.failed)
    @rule(text=st.sampled_from(QUERIES))
    def query(self, text: str) -> None:
        self.both(text)

    # --- transactions ---------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.in_block)
    @rule()
    def begin(self) -> None:
        self.both("BEGIN")
        self.in_block = True

    @precondition(lambda self: self.in_block)
    @rule(text=st.sampled_from(["COMMIT", "COMMIT", "ROLLBACK"]))
    def end(self, text: str) -> None:
        self.in_block = self.failed = False
        self.both(text)

    @precondition(lambda self: self.in_block and not self.failed)
    @rule(text=st.sampled_from(["SAVEPOINT s", "SAVEPOINT s2"]))
    def savepoint(self, text: str) -> None:
        self.both(text)

    @precondition(lambda self: self.in_block)
    @rule(text=st.sampled_from(["ROLLBACK TO s", "ROLLBACK TO s2", "RELEASE s"]))
    def roll_back_to(self, text: str) -> None:
        answer = self.both(text)
        if text.startswith("ROLLBACK"):
            self.failed = answer[0] == "error"

    @precondition(lambda self: not self.in_block)
    @rule()
    def vacuum(self) -> None:
        self.both("VACUUM")


def comparable(answer: Answer, ordered: bool) -> Answer:
    if answer[0] == "done" and not ordered:
        return (*answer[:2], sorted(answer[2], key=repr))
    return answer


def play(pair: Pair, engine: str, examples: int, steps: int) -> None:
    machine = type("Played", (Statements,), {"pair": pair, "engine": engine})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_random_statements(pair16: Pair) -> None:
    play(pair16, "local", 1, 15)


@pytest.mark.slow
def test_many_random_statements(pair16: Pair) -> None:
    play(pair16, "local", 300, 50)


@pytest.mark.slow
def test_many_random_statements_on_spark(pair16: Pair) -> None:
    play(pair16, "spark", 10, 20)
