"""COPY TO by whole columns writes what it writes row by row."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgrepl
from pgrepl.ground.errors import Declined
from pgrepl.types import oids
from pgrepl.types.lake.arrays import content
from pgrepl.types.lake.column_text import column_text
from pgrepl.types.lake.forms import form
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text, write_text
from pgrepl.types.times.dates import INFINITY
from pgrepl.writing.copy import copy_to
from pgrepl.writing.copy.copy_options import CopyOptions
from pgrepl.writing.copy.copy_to import LineWriter

CSV = {"format": "csv", "delimiter": ",", "null": "", "quote": '"', "escape": '"'}
OPTIONS = (
    CopyOptions(),
    CopyOptions(delimiter="-", null="0"),
    CopyOptions(**CSV),  # type: ignore[arg-type]
    CopyOptions(**{**CSV, "null": "x", "delimiter": ";", "quote": "'", "escape": "\\"}),  # type: ignore[arg-type]
)
PIECES = st.sampled_from(["", "a", "é", ",", ";", "-", "\t", '"', "'", "\n", "\r", "\\", "\\N", "\\.", "\b", "x", "0"])
TEXTS = st.none() | st.lists(PIECES, max_size=3).map("".join)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), st.sampled_from(OPTIONS), st.booleans(), st.booleans()
)
def test_lines(rows: list[tuple[str | None, ...]], options: CopyOptions, forced: bool, alone: bool) -> None:
    width = 1 if alone else 2
    rows = [row[:width] for row in rows]
    writer = LineWriter(["a", "b"][:width], options, [forced and options.csv, False][:width])
    columns = [pa.array(column, pa.large_string()) for column in zip(*rows, strict=True)]
    assert bytes(content(writer.lines(columns))) == "".join(map(writer.line, rows)).encode()
    cut = [column.slice(1) for column in columns]
    assert bytes(content(writer.lines(cut))) == "".join(map(writer.line, rows[1:])).encode()


DAYS = (0, 1, -1, -730119, -730120, 2921939, 2921940, INFINITY, -INFINITY, -10957)
SECONDS = (0, 1, -1, 999_999, -1_000_000, 120_000, 86_400_000_000, -946_684_800_000_000, 10**17)
VALUES: dict[tuple[int, int], tuple[Any, ...]] = {
    (oids.INT2, -1): (0, -32768, 32767),
    (oids.INT4, -1): (0, -(2**31), 2**31 - 1),
    (oids.INT8, -1): (0, -(2**63), 2**63 - 1),
    (oids.OID, -1): (0, 2**32 - 1),
    (oids.BOOL, -1): (True, False),
    (oids.NUMERIC, (10 << 16 | 2) + 4): tuple(map(Decimal, ("0.00", "-0.01", "12345678.90"))),
    (oids.NUMERIC, (38 << 16 | 6) + 4): tuple(map(Decimal, ("0.000001", "-0.000000", "1.100000"))),
    (oids.NUMERIC, (20 << 16 | 9) + 4): tuple(map(Decimal, ("0.000000001", "5.000000000"))),
    (oids.NUMERIC, -1): tuple(map(Decimal, ("1E+30", "0.10", "NaN"))),
    (oids.FLOAT8, -1): (0.0, -0.0, 1e300, 0.1, float("inf"), float("nan")),
    (oids.FLOAT4, -1): (0.5, 1e30),
    (oids.TEXT, -1): ("", "a\tb", "é\\"),
    (oids.BPCHAR, 8): ("ab  ", "é   "),
    (oids.BYTEA, -1): (b"", b"\0\xff"),
    (oids.UUID, -1): (UUID(int=0), UUID("0123ABCD-ef01-2345-6789-abcdef012345"), UUID(int=2**128 - 1)),
    (oids.DATE, -1): DAYS,
    (oids.TIMESTAMP, -1): (*SECONDS, INFINITY, -INFINITY),
    (oids.TIMESTAMPTZ, -1): (*SECONDS, INFINITY, -INFINITY),
    (oids.TIME, -1): (0, 1, 86_399_999_999),
}
STYLES = (
    TextStyle(),
    TextStyle(timezone="Europe/Berlin"),
    TextStyle(datestyle="German"),
    TextStyle(bytea_output="escape"),
)


@pytest.mark.parametrize(("typoid", "typmod"), VALUES)
def test_texts_of_columns(typoid: int, typmod: int) -> None:
    kind, known = form(typoid, typmod), VALUES[typoid, typmod]
    columns = [[value] for value in known] + [[None], [], [None, *known], [*known[:3], None], list(known[:3])]
    for style in STYLES:
        for values in columns:
            array = kind.to_array(values)
            texts = [None if v is None else write_text(v, typoid, style) for v in kind.from_array(array)]
            assert column_text(array, typoid, kind, style).to_pylist() == texts
            assert column_text(array.slice(1), typoid, kind, style).to_pylist() == texts[1:]


def test_arrays_and_json() -> None:
    for typoid, texts in ((oids.INT4_ARRAY, ["{1,NULL}", None]), (oids.JSONB, ['{"a": 1}', None, "null"])):
        kind = form(typoid)
        values = [None if text is None else read_text(text, typoid, -1, STYLES[0]) for text in texts]
        assert column_text(kind.to_array(values), typoid, kind, STYLES[0]).to_pylist() == texts


TABLES = """CREATE TABLE t (id int PRIMARY KEY, a text, gone int, b numeric(9,2), c date DEFAULT '2020-01-01');
ALTER TABLE t DROP COLUMN gone;
INSERT INTO t SELECT g, CASE WHEN g % 7 = 0 THEN NULL WHEN g = 5 THEN E'a\\tb\\\\' ELSE 'v' || g END, g / 3.0
 FROM generate_series(1, 3000) g;
DELETE FROM t WHERE id % 10 = 3;
INSERT INTO t VALUES (3001, 'few', 1);
ALTER TABLE t ADD COLUMN d bool DEFAULT true;
CREATE TABLE p (b text, id int) PARTITION BY RANGE (id);
CREATE TABLE p1 (id int, b text);
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (1500);
CREATE TABLE p2 PARTITION OF p DEFAULT;
INSERT INTO p SELECT a, id FROM t;
CREATE VIEW v AS SELECT b AS one, id FROM p WHERE id > 100"""
COPIED = (
    ("t", "SELECT * FROM t"),
    ("t (d, a)", "SELECT d, a FROM t"),
    (
        "(SELECT id, a, id FROM t WHERE id > 50 AND a LIKE 'v%')",
        "SELECT id, a, id FROM t WHERE id > 50 AND a LIKE 'v%'",
    ),
    ("(SELECT * FROM p)", "SELECT * FROM p"),
    ("(SELECT * FROM v)", "SELECT * FROM v"),
    ("(SELECT a FROM t WHERE id < 0)", "SELECT a FROM t WHERE id < 0"),
)


ROWS = """CREATE TYPE mood AS ENUM ('sad', 'ok')
CREATE TYPE inside AS (x int, m mood)
CREATE TYPE c AS (a int, gone int, i inside, l text[])
CREATE DOMAIN d AS c CHECK ((VALUE).a > 0)
CREATE TABLE other (x int, y text)
CREATE TABLE t (id int, s c, l c[], d d, o other, dims c[])
INSERT INTO t SELECT g, ROW(g, 1, ROW(g, 'ok'), ARRAY['a "b"', NULL, '', E'\\\\' || g])::c,
 ARRAY[NULL, ROW(g, 2, NULL, NULL)::c], ROW(g, 1, NULL, NULL)::d, ROW(g, E'x,\ty')::other, NULL
 FROM generate_series(1, 2000) g
INSERT INTO t SELECT g, NULL, '{}' FROM generate_series(2001, 2100) g
ALTER TYPE c DROP ATTRIBUTE gone
ALTER TYPE c ADD ATTRIBUTE e date
ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'
INSERT INTO t SELECT g, ROW(g, ROW(1, 'fine'), NULL, '2020-02-02')::c, NULL FROM generate_series(2101, 2200) g"""


@pytest.mark.parametrize("dimensions", [False, True])
def test_composite_types(tmp_path: Path, dimensions: bool) -> None:
    with pgrepl.connect(tmp_path / "catalog.db", autocommit=True) as con:
        for statement in ROWS.replace("\n ", " ").split("\n"):
            con.execute(statement)
        if dimensions:
            con.execute("UPDATE t SET dims = ARRAY[ARRAY[s], ARRAY[s]] WHERE id < 9")
        for options in ("", "(FORMAT csv, FORCE_QUOTE *)"):
            for where in ("", "WHERE id > 300 AND (s IS NULL OR (s).a < 2150)"):
                con.execute(f"COPY (SELECT * FROM t {where}) TO '{tmp_path}/columns' {options}")
                con.execute(f"COPY (SELECT * FROM t {where} OFFSET 0) TO '{tmp_path}/rows' {options}")
                assert (tmp_path / "columns").read_bytes() == (tmp_path / "rows").read_bytes()
        done = con.execute("SELECT sum(calls) FROM pgrepl_stat_engine WHERE work = 'COPY' AND engine = 'columns'")
        assert done.fetchall() == [(4,)]


def test_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pgrepl.connect(tmp_path / "catalog.db", autocommit=True) as con:
        for statement in TABLES.split(";\n"):
            con.execute(statement)
        for what, query in COPIED:
            for options in ("", "(FORMAT csv, HEADER, FORCE_QUOTE *)"):
                con.execute(f"COPY {what} TO '{tmp_path}/columns' {options}")
                con.execute(f"COPY ({query} OFFSET 0) TO '{tmp_path}/rows' {options}")
                assert (tmp_path / "columns").read_bytes() == (tmp_path / "rows").read_bytes()
        con.execute("BEGIN; UPDATE t SET a = 'mine' WHERE id < 2000")
        con.execute(f"COPY t TO '{tmp_path}/columns'")
        con.execute(f"COPY (SELECT * FROM t OFFSET 0) TO '{tmp_path}/rows'")
        assert (tmp_path / "columns").read_bytes() == (tmp_path / "rows").read_bytes()
        con.execute("ROLLBACK")
        with pytest.raises(pgrepl.Error, match="division by zero"):
            con.execute(f"COPY (SELECT a FROM t WHERE 1 / (id - 2000) < 5) TO '{tmp_path}/columns'")
        done = con.execute("SELECT sum(calls) FROM pgrepl_stat_engine WHERE work = 'COPY' AND engine = 'columns'")
        assert done.fetchall() == [(9,)]

        def declines(*_: object) -> None:
            raise Declined("the test")

        monkeypatch.setattr(copy_to, "TableColumns", declines)
        con.execute(f"COPY t TO '{tmp_path}/columns'")
        assert (tmp_path / "columns").read_bytes().count(b"\n") == 2701
        declined = con.execute("SELECT declined, calls FROM pgrepl_stat_engine WHERE engine = 'local'")
        assert declined.fetchall() == [("the test", 1)]
