"""What the data source plans and what its tasks read and write, without a JVM: Spark's part is played here."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import pgrepl
from pgrepl.api.datasource.options import SourceOptions
from pgrepl.api.datasource.source import (
    ChangesReader,
    PgreplDataSource,
    StreamWriter,
    TableReader,
    TableWriter,
    schema_of,
)
from pgrepl.ground.errors import PgError

datasource = pytest.importorskip("pyspark.sql.datasource")


def said(catalog: Path, **options: str) -> SourceOptions:
    return SourceOptions.of({"catalog": str(catalog), **options})


def rows(reader: Any, parts: Sequence[Any]) -> list[dict[str, Any]]:
    """As tasks give them: reader and parts are pickled."""
    there = pickle.loads(pickle.dumps((reader, parts)))
    return [row for part in there[1] for batch in there[0].read(part) for row in batch.to_pylist()]


def read(options: SourceOptions, schema: StructType | None = None) -> list[dict[str, Any]]:
    reader = TableReader(options, schema or schema_of(options))
    return rows(reader, reader.partitions())


# --- rows ------------------------------------------------------------------------------------------------------------


def test_types(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute(
        "CREATE TABLE t (a smallint, b real, c numeric, d char(3), e uuid, f time, g interval, h int4range, i text[], "
        "j jsonb, k timestamp, l bytea, m boolean, n uuid[])"
    )
    con.execute(
        "INSERT INTO t VALUES (1, 0.5, 1.50, 'x', '00000000-0000-0000-0000-000000000007', '10:11', '1 day', '[1,3)', "
        "'{a,NULL}', '{\"a\": 1}', '2026-01-01', '\\x00ff', true, '{00000000-0000-0000-0000-000000000007}')"
    )
    options = said(catalog, table="t")
    assert schema_of(options).simpleString() == (
        "struct<a:smallint,b:float,c:string,d:string,e:string,f:string,g:string,h:string,i:array<string>,j:string,"
        "k:timestamp_ntz,l:binary,m:boolean,n:string>"
    )
    (row,) = read(options)
    del row["k"]
    assert tuple(row.values()) == (
        1, 0.5, "1.50", "x  ", "00000000-0000-0000-0000-000000000007", "10:11:00", "1 day", "[1,3)", ["a", None],
        '{"a": 1}', b"\x00\xff", True, "{00000000-0000-0000-0000-000000000007}",
    )  # fmt: skip
    con.execute("CREATE TABLE u (d date); INSERT INTO u VALUES ('infinity')")
    with pytest.raises(PgError, match='column "d" has infinity'):
        read(said(catalog, table="u"))


def test_arrays_of_several_dimensions_are_text(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (id int PRIMARY KEY, a int[], b text[][]); CREATE PUBLICATION p FOR TABLE t")
    con.execute("INSERT INTO t VALUES (1, '{1,NULL}', '{{a,\"b c\"},{NULL,d}}')")
    options = said(catalog, table="t")
    assert schema_of(options).simpleString() == "struct<id:int,a:array<int>,b:string>"
    assert read(options) == [{"id": 1, "a": [1, None], "b": '{{a,"b c"},{NULL,d}}'}]
    stream = Stream(said(catalog, publication="p", slot="s"))
    assert stream.batch() == [("insert", [1, None], '{{a,"b c"},{NULL,d}}', None)]

    con.execute("INSERT INTO t VALUES (2, '{{1,2},{3,4}}', '{x}')")  # from now on the first one is text, too
    assert schema_of(options).simpleString() == "struct<id:int,a:string,b:string>"
    assert read(options) == read(said(catalog, publication="p")) == [
        {"id": 1, "a": "{1,NULL}", "b": '{{a,"b c"},{NULL,d}}'}, {"id": 2, "a": "{{1,2},{3,4}}", "b": "{x}"},
    ]  # fmt: skip
    with pytest.raises(PgError, match="have changed since the stream began"):
        stream.batch()
    again = Stream(said(catalog, publication="p", slot="s2"))
    assert [row[1] for row in again.batch()] == ["{1,NULL}", "{{1,2},{3,4}}"]
    con.execute("UPDATE t SET a = '[0:1]={5,6}', id = 3 WHERE id = 1")
    con.execute("DELETE FROM t WHERE id = 2")
    assert [(row[0], row[1], row[3]["id"]) for row in again.batch()] == [
        ("update", "[0:1]={5,6}", 1), ("delete", None, 2),
    ]  # fmt: skip


def test_where_leaves_out_files_and_rows(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (id int, name text, total numeric(8,2), at date)")
    for first in 1, 10001, 20001:
        con.execute(
            "INSERT INTO t SELECT g, 'n' || g, g / 4.0, date '2026-01-01' + g FROM generate_series(%s::int, %s::int) g",
            [first, first + 9999],
        )
    con.execute("CREATE PUBLICATION p FOR TABLE t (id) WHERE (id > 29990)")
    for where, expected in (
        ("id = 77", [77]),
        ("id IN (5, 29000, NULL)", [5, 29000]),
        ("id > 10 AND total <= 3.00", [11, 12]),
        ("name LIKE 'n2999%' OR id = 1", [1, 2999, *range(29990, 30000)]),
        ("at >= date '2026-01-01' + 29998 AND at < current_date + 400000", [29998, 29999, 30000]),
        ("false", []),
    ):
        assert sorted(row["id"] for row in read(said(catalog, table="t", where=where))) == expected, where
    assert read(said(catalog, publication="p", where="total < 7498")) == [{"id": 29991}]
    options = said(catalog, table="t", where="id > 20500")
    parts = TableReader(options, schema_of(options)).partitions()
    assert sum(len(each.part.rows) for each in parts) == 1  # of three files


def test_rows_are_counted_without_columns(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (id int, a text); INSERT INTO t SELECT g FROM generate_series(1, 1000) g")
    con.execute("DELETE FROM t WHERE id <= 10; CREATE PUBLICATION p FOR TABLE t WHERE (id > 500)")
    for options, expected in (
        (said(catalog, table="t"), 990),
        (said(catalog, table="t", where="id <= 20"), 10),
        (said(catalog, publication="p"), 500),
    ):
        reader = TableReader(options, StructType())
        counted = [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]
        assert sum(counted) == expected


def test_where_is_about_a_row_alone(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 2); CREATE ROLE r LOGIN")
    con.execute("GRANT SELECT (a) ON t TO r; CREATE PUBLICATION p FOR TABLE t (a)")
    for where, message in (
        ("c = 1", 'column "c" does not exist'),
        ("a", "must be type boolean"),
        ("a = 1; DROP TABLE t", "syntax error"),
        ("a IN (SELECT 1)", "cannot be computed from the columns of a row alone"),
        ("a > random()", "cannot be computed from the columns of a row alone"),
        ("'2026-01-01'::timestamptz > now() - (a * interval '1 day')", "cannot be computed"),
        ("ctid IS NULL", "cannot be computed from the columns of a row alone"),
        ("count(*) > 1", "aggregate functions are not allowed in WHERE"),
    ):
        with pytest.raises(PgError, match=message):
            read(said(catalog, table="t", where=where))
    with pytest.raises(PgError, match="permission denied"):
        read(said(catalog, publication="p", where="b = 2", user="r"))
    assert read(said(catalog, publication="p", where="a = 1", user="r")) == [{"a": 1}]


def test_deletion_vectors(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 1000)")
    with closing(sqlite3.connect(catalog)) as link, link:
        link.execute("INSERT INTO ducklake_metadata (key, value) VALUES ('write_deletion_vectors', 'true')")
    with closing(pgrepl.connect(catalog, autocommit=True)) as again:
        again.execute("DELETE FROM t WHERE a % 3 = 0")
    with closing(sqlite3.connect(catalog)) as link:
        assert link.execute("SELECT format FROM ducklake_delete_file").fetchall() == [("puffin",)]
    assert [row["a"] for row in read(said(catalog, table="t"))] == [n for n in range(1, 1001) if n % 3]


def test_partitions_are_read_as_one_table(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (a int, b text) PARTITION BY RANGE (a)")
    con.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    con.execute("CREATE TABLE t2 (b text, a int); ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (10) TO (20)")
    con.execute("INSERT INTO t VALUES (1, 'x'), (11, 'y')")
    con.execute("CREATE PUBLICATION p FOR TABLE t WHERE (a > 5) WITH (publish_via_partition_root)")
    assert read(said(catalog, table="t")) == [{"a": 1, "b": "x"}, {"a": 11, "b": "y"}]
    assert read(said(catalog, publication="p")) == [{"a": 11, "b": "y"}]
    assert read(said(catalog, table="t", where="b = 'y'")) == [{"a": 11, "b": "y"}]
    assert read(said(catalog, publication="p", where="b = 'x'")) == []
    assert read(said(catalog, table="t"), schema=StructType().add("b", "string")) == [{"b": "x"}, {"b": "y"}]


def test_what_is_not_allowed_is_refused(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (a int); CREATE VIEW v AS SELECT 1 AS a; CREATE ROLE r LOGIN")
    con.execute("CREATE TABLE u (a int); CREATE PUBLICATION p FOR TABLE t, u")
    for options, message in (
        ({"table": "v"}, '"v" is not a table'),
        ({"table": "pg_class"}, "system table"),
        ({"table": "t", "user": "r"}, "permission denied for table t"),
        ({"publication": "p"}, "does not publish one table"),
        ({"publication": "p", "table": "pg_class"}, "system table"),
        ({"table": "t", "dbname": "nosuch"}, 'database "nosuch" does not exist'),
    ):
        with pytest.raises(PgError, match=message):
            schema_of(said(catalog, **options))
    with pytest.raises(PgError, match="No such file"):
        schema_of(said(catalog.with_name("no.db"), table="t"))
    with pytest.raises(PgError, match='column "a" is int, not bigint'):
        read(said(catalog, table="t"), schema=StructType().add("a", "long"))
    assert not catalog.with_name("no.db").exists()


# --- changes ---------------------------------------------------------------------------------------------------------


class Stream:
    """What Spark does with a reader: offsets, batches, commits."""

    def __init__(self, options: SourceOptions) -> None:
        self.reader = ChangesReader(options, schema_of(options))
        self.at: dict[str, str] | None = None

    def batch(self, *, commit: bool = True) -> list[tuple[Any, ...]]:
        start = self.at or self.reader.initialOffset()
        end = self.reader.latestOffset()
        found = rows(self.reader, self.reader.partitions(start, end))
        if commit:
            self.reader.commit(end)
            self.at = end
        found.sort(key=lambda row: row["_seq"])
        return [(row["_operation"], row["a"], row["b"], row.get("_old")) for row in found]


@pytest.mark.parametrize("rooted", [False, True])
def test_changes_in_their_order(con: pgrepl.Connection, catalog: Path, rooted: bool) -> None:
    """Those of a partitioned table are read message by message, others in ranges of rows: the same comes out."""
    if rooted:
        con.execute("CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)")
        con.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (50)")
        con.execute("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (50) TO (1000)")
    else:
        con.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    con.execute("CREATE PUBLICATION p FOR TABLE t WHERE (a < 100) WITH (publish_via_partition_root)")
    con.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (200, 'z')")
    stream = Stream(said(catalog, publication="p", slot="s"))
    copied = [("insert", 1, "x", None), ("insert", 2, "y", None)]
    assert stream.batch(commit=False) == copied == stream.batch()
    assert stream.batch() == []
    con.execute("INSERT INTO t VALUES (3, 'new'), (300, 'out')")
    con.execute("UPDATE t SET b = b || '!' WHERE a <= 2")
    con.execute("UPDATE t SET a = 4 WHERE a = 3; DELETE FROM t WHERE a = 1; UPDATE t SET a = 201 WHERE a = 2")
    expected = [
        ("insert", 3, "new", None),
        ("update", 1, "x!", None),
        ("update", 2, "y!", None),
        ("update", 4, "new", {"a": 3}),
        ("delete", 1, None, {"a": 1}),
        ("delete", 2, None, {"a": 2}),
    ]
    assert stream.batch(commit=False) == expected == stream.batch()
    con.execute("TRUNCATE t; INSERT INTO t VALUES (7, 'after')")
    assert stream.batch() == [("truncate", None, None, None), ("insert", 7, "after", None)]
    stream.reader.stop()


def test_a_stream_does_not_begin_where_changes_are_missing(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t")
    con.execute("INSERT INTO t VALUES (1)")
    options = said(catalog, publication="p", slot="s")
    stream = Stream(options)
    assert stream.batch() == Stream(options).batch() == [("insert", 1, None, None)]
    con.execute("INSERT INTO t VALUES (2)")
    again = Stream(said(catalog, publication="p", slot="s", copy_data="false"))
    assert again.batch() == [("insert", 2, None, None)]
    with pytest.raises(PgError, match='replication slot "s" stands at'):
        stream.batch()
    con.execute("SELECT pg_drop_replication_slot('s')")
    con.execute("INSERT INTO t VALUES (3)")
    with pytest.raises(PgError, match='replication slot "s" does not exist'):
        again.batch()
    with pytest.raises(PgError, match='a stream needs the option "slot"'):
        ChangesReader(said(catalog, publication="p"), StructType())


def test_a_stream_with_wrong_options_is_told_when_it_is_asked(con: pgrepl.Connection, catalog: Path) -> None:
    """Not when its reader is made: pyspark would hide that error behind another one."""
    for options, message in (
        ({"slot": "s", "where": "a > 1"}, 'unrecognized option "where" for a stream'),
        ({}, 'a stream needs the option "slot"'),
    ):
        reader = PgreplDataSource({"catalog": str(catalog), "publication": "p", **options}).streamReader(StructType())
        for ask in (reader.initialOffset, reader.latestOffset):
            with pytest.raises(PgError, match=message):
                ask()


def test_a_stream_ends_where_the_columns_change(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t")
    stream = Stream(said(catalog, publication="p", slot="s"))
    stream.batch()
    con.execute("ALTER TABLE t ADD c int")
    with pytest.raises(PgError, match="have changed since the stream began"):
        stream.batch()


def test_a_slot_keeps_what_a_stream_has_yet_to_read(con: pgrepl.Connection, catalog: Path) -> None:
    con.execute("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION p FOR TABLE t")
    con.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 500) g")
    stream = Stream(said(catalog, publication="p", slot="s"))
    stream.batch()
    con.execute("UPDATE t SET b = 'y'")
    con.execute("DELETE FROM t")
    con.execute("VACUUM FULL")
    found = stream.batch()
    assert [operation for operation, *_ in found] == ["update"] * 500 + ["delete"] * 500


# --- writes ----------------------------------------------------------------------------------------------------------

COLUMNS = StructType().add("a", "long").add("b", "string")


def batch(first: int, last: int, text: str | None = "x") -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(range(first, last), pa.int64()), "b": pa.array([text] * (last - first))})


def write(catalog: Path, *tasks: list[pa.RecordBatch], overwrite: bool = False, **options: str) -> None:
    """As Spark does it: the last task runs twice, and only one of its answers counts."""
    writer = pickle.loads(pickle.dumps(TableWriter(said(catalog, table="t", **options), COLUMNS, overwrite)))
    messages = [writer.write(iter(task)) for task in (*tasks, tasks[-1])]
    messages = pickle.loads(pickle.dumps(messages[:-1]))
    try:
        writer.commit(messages)
    except PgError:
        writer.abort(messages)
        raise


@pytest.fixture
def target(con: pgrepl.Connection) -> pgrepl.Connection:
    con.execute("CREATE TABLE t (a bigint PRIMARY KEY, b text NOT NULL, c int DEFAULT 5)")
    return con


def count(con: pgrepl.Connection) -> Any:
    return con.execute("SELECT count(*), count(c) FROM t").fetchone()


def test_rows_are_written_once(target: pgrepl.Connection, catalog: Path) -> None:
    write(catalog, [batch(0, 10), batch(10, 20)], [], [batch(20, 30)])
    assert count(target) == (30, 30)
    for _ in range(2):
        write(catalog, [batch(30, 35)], origin="job", position="7")
    assert count(target) == (35, 35)
    write(catalog, [batch(40, 45)], origin="job", position="0/8")
    assert count(target) == (40, 40)
    write(catalog, [batch(0, 3)], overwrite=True)
    assert count(target) == (3, 3)


def test_a_write_that_fails_leaves_nothing(target: pgrepl.Connection, catalog: Path) -> None:
    write(catalog, [batch(0, 10)])
    for tasks, options, message in (
        ([[batch(20, 30)], [batch(9, 12)]], {}, "duplicate key value violates unique constraint"),
        ([[batch(20, 30)], [batch(31, 32, None)]], {}, "null value in column"),
        ([[batch(20, 30)]], {"origin": "x"}, "belong together"),
        ([[batch(20, 30)]], {"origin": "pg_x", "position": "1"}, "is reserved"),
        ([[batch(20, 30)]], {"user": "nobody"}, "does not exist"),
    ):
        with pytest.raises(PgError, match=message):
            write(catalog, *tasks, **options)
    with pytest.raises(PgError, match="duplicate key"):
        write(catalog, [batch(1, 2), batch(1, 2)], overwrite=True)
    assert count(target) == (10, 10)
    assert target.execute("SELECT count(*) FROM pg_replication_origin").fetchone() == (0,)


def test_a_batch_of_a_stream_is_written_once(target: pgrepl.Connection, catalog: Path, tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    place.mkdir()
    (place / "metadata").write_text('{"id":"one"}')
    options = said(catalog, table="t", checkpointLocation=str(place))
    for number in (0, 1, 1):
        writer = StreamWriter(options, COLUMNS, False)
        writer.commit([writer.write(iter([batch(10 * number, 10 * number + 5)]))], number)
    assert count(target) == (10, 10)
    (place / "metadata").write_text('{"id":"two"}')  # the query began anew
    writer = StreamWriter(options, COLUMNS, False)
    writer.commit([writer.write(iter([batch(100, 105)]))], 0)
    assert count(target) == (15, 15)
    with pytest.raises(PgError, match="needs a name for its progress"):
        StreamWriter(said(catalog, table="t"), COLUMNS, False).commit([], 0)
