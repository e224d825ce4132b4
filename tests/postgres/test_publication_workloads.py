r"""Random publication DDL over random schemas, on a server and on pgrepl: messages, `\dRp+` and `\d` are the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.postgres.play import Pair, difference, play_pgrepl

TABLES = ("t1", "t2", "s1.t1", '"Odd T"', "part", "part1")
COLUMNS = ("a", "b", "c", '"D d"', "gen")
PUBLICATIONS = ("p1", "p2", "p3")
FILTERS = (
    "a > 5", "a IN (1, 2, 3)", "b = 'x' AND a < 10", "b LIKE 'a%'", "c IS NOT NULL OR a <> 0", "NOT (a = 1)",
    "nosuch = 1", "a", "b > 5", "random() < 0.5", "a = (SELECT 1)", "length(b) BETWEEN 1 AND 3", "a::text = b",
    "coalesce(c, 0) + a * 2 >= -1", "b IS DISTINCT FROM 'q'", "a = ANY ('{1,2}')", "CASE WHEN a > 1 THEN true END",
)  # fmt: skip

SCHEMA = """\
CREATE SCHEMA s1;
CREATE TABLE t1 (a int {key}, b text, c numeric(8,2), "D d" date, gen int GENERATED ALWAYS AS (a + 1) STORED);
CREATE TABLE t2 (a int NOT NULL, b varchar(10) NOT NULL, c bigint, PRIMARY KEY (b, a));
CREATE TABLE s1.t1 (a int, b text, c int);
CREATE TABLE "Odd T" (a smallint PRIMARY KEY, b text);
CREATE TABLE part (a int, b text, c int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100);
"""

SHOW = "\\dRp+\n\\d t1\n\\d t2\n\\d s1.t1\n\\d part\n\\d part1\n"


@st.composite
def members(draw: st.DrawFn, plain: bool = False) -> str:
    table = draw(st.sampled_from(TABLES))
    text = draw(st.sampled_from(["TABLE ", "TABLE ", "TABLE ONLY "])) + table
    if not plain and draw(st.integers(0, 3)) == 0:
        text += f" ({', '.join(draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3)))})"
    if not plain and draw(st.integers(0, 2)) == 0:
        text += f" WHERE ({draw(st.sampled_from(FILTERS))})"
    return text


@st.composite
def objects(draw: st.DrawFn) -> str:
    schema = st.sampled_from(["TABLES IN SCHEMA s1", "TABLES IN SCHEMA public", "TABLES IN SCHEMA CURRENT_SCHEMA"])
    listed = draw(st.lists(st.one_of(members(), members(), members(), schema), min_size=1, max_size=3))
    return ", ".join(listed)


OPTIONS = (
    "publish = 'insert'", "publish = 'update, delete'", "publish = ''", "publish = 'insert, truncate'",
    "publish_via_partition_root = true", "publish_via_partition_root = false", "publish = 'nothing'", "foo = 1",
    "publish_via_partition_root, publish = 'insert,update,delete'",
)  # fmt: skip


@st.composite
def statements(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(PUBLICATIONS))
    kind = draw(st.integers(0, 11))
    if kind <= 3:
        what = draw(st.sampled_from(["", " FOR ALL TABLES", "objects", "objects", "objects"]))
        what = f" FOR {draw(objects())}" if what == "objects" else what
        options = f" WITH ({draw(st.sampled_from(OPTIONS))})" if draw(st.booleans()) else ""
        return f"CREATE PUBLICATION {name}{what}{options};"
    if kind <= 6:
        return f"ALTER PUBLICATION {name} {draw(st.sampled_from(['ADD', 'SET', 'DROP']))} {draw(objects())};"
    if kind == 7:
        return f"ALTER PUBLICATION {name} SET ({draw(st.sampled_from(OPTIONS))});"
    if kind == 8:
        return f"DROP PUBLICATION {draw(st.sampled_from(['', 'IF EXISTS ']))}{name};"
    if kind == 9:
        return f"ALTER PUBLICATION {name} RENAME TO {draw(st.sampled_from(PUBLICATIONS))};"
    table = draw(st.sampled_from(TABLES))
    column = draw(st.sampled_from(COLUMNS))
    return draw(
        st.sampled_from(
            [
                f"ALTER TABLE {table} DROP COLUMN {column};",
                f"ALTER TABLE {table} RENAME COLUMN {column} TO renamed;",
                f"ALTER TABLE {table} REPLICA IDENTITY FULL;",
                f"ALTER TABLE {table} ALTER COLUMN {column} TYPE bigint;",
                f"ALTER TABLE {table} ADD COLUMN extra int DEFAULT 7;",
                f"ALTER TABLE {table} SET SCHEMA s1;",
                f"DROP TABLE {table};",
                "ALTER TABLE part DETACH PARTITION part1;",
            ]
        )
    )


WORKLOADS = st.tuples(st.sampled_from(["", "PRIMARY KEY"]), st.lists(statements(), min_size=4, max_size=20))


def compare(pair: Pair, workload: tuple[str, list[str]]) -> None:
    key, lines = workload
    script = SCHEMA.format(key=key) + "\n".join(lines) + "\n" + SHOW
    with tempfile.TemporaryDirectory() as folder:
        printed = play_pgrepl(script, Path(folder))
    assert difference(pair.play(script), printed) == ""


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(WORKLOADS)
def test_random_publications_look_the_same(pair16: Pair, workload: tuple[str, list[str]]) -> None:
    compare(pair16, workload)


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(WORKLOADS)
def test_many_random_publications_look_the_same(pair16: Pair, workload: tuple[str, list[str]]) -> None:
    compare(pair16, workload)
