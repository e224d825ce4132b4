"""Files of rows: Maxwell, JSON lines, CSV, Parquet, AWS DMS, change feeds of Delta and DuckLake; compressed files."""

from __future__ import annotations

import bz2
import datetime
import decimal
import gzip
import io
import json
import lzma
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pgrepl.ground.errors import PgError
from pgrepl.replication.formats.event import BEGIN, COMMIT
from pgrepl.replication.formats.json_text import decompressed
from pgrepl.replication.formats.registry import FORMATS, reader
from pgrepl.replication.wire.messages import DELETE, INSERT, UPDATE
from pgrepl.types import oids
from pgrepl.types.builtin import array_type
from tests.harness.played import Instance
from tests.lake import duck
from tests.replication.formats.reading import changes, read, typed


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


# --- Maxwell ----------------------------------------------------------------------------------------------------------


def test_maxwell() -> None:
    records: list[dict[str, Any]] = [
        {"database": "shop", "table": "t", "type": "bootstrap-start", "ts": 1, "data": {}},
        {"database": "shop", "table": "t", "type": "bootstrap-insert", "ts": 1, "data": {"id": 1, "b": "AP8="}},
        {"database": "shop", "table": "t", "type": "insert", "ts": 1477053217, "xid": 23396, "position":
         "master.000006:800911", "data": {"id": 9223372036854775807, "n": 1.10, "b": None}},
        {"database": "shop", "table": "t", "type": "update", "ts": 1477053217, "xid": 23396, "commit": True,
         "data": {"id": 2, "n": 1}, "old": {"id": 1}},
        {"database": "shop", "table": "t", "type": "delete", "ts": 1477053218, "xid": 23397, "commit": True,
         "data": {"id": 2, "n": 1}},
        {"database": "shop", "table": "t", "type": "table-alter", "ts": 1, "sql": "ALTER TABLE t ADD x int"},
        {"database": "shop", "table": "t", "type": "update", "xid": 23398, "commit": True,  # output_nulls = false
         "data": {"id": 2}, "old": {"n": 1}},
        {"database": "shop", "table": "t", "type": "upsert", "data": {}},
        {"database": "shop", "table": "t", "type": "insert", "encrypted": {"iv": "x", "bytes": "y"}},
    ]  # fmt: skip
    text = "".join(json.dumps(record) + "\n" for record in records)
    assert changes("maxwell", text, typed(b=(oids.BYTEA, -1))) == [
        (INSERT, "shop.t", {"id": "1", "b": "\\x00ff"}, None),
        (BEGIN, None, None, None),
        (INSERT, "shop.t", {"id": "9223372036854775807", "n": "1.1", "b": None}, None),
        (UPDATE, "shop.t", {"id": "2", "n": "1"}, {"id": "1", "n": "1"}),
        (COMMIT, None, None, None),
        (BEGIN, None, None, None),
        (DELETE, "shop.t", None, {"id": "2", "n": "1"}),
        (COMMIT, None, None, None),
        (BEGIN, None, None, None),
        (UPDATE, "shop.t", {"id": "2", "n": None}, {"id": "2", "n": "1"}),
        (COMMIT, None, None, None),
        "22P02: could not read in.txt, record 8: unrecognized type upsert",
        "22P02: could not read in.txt, record 9: it is encrypted",
    ]
    insert = read("maxwell", text)[2]
    assert not isinstance(insert, str)
    assert (insert.xid, insert.lsn, insert.at) == ("23396", 6 << 32 | 800911, 1477053217000000)


# --- columns named by options -----------------------------------------------------------------------------------------


ROLES = {"op": "op", "order": "at", "xid": "tx", "before": "was"}


def test_json_lines_with_columns_named_by_options() -> None:
    text = """{"op": "I", "at": 1, "tx": 7, "id": 12345678901234567890.10, "tags": ["a b", null], "doc": {"x": 1.10}}
{"op": "U", "at": 2, "tx": 7, "id": 2, "was": {"id": 1}}
{"op": "D", "at": 3, "tx": 8, "id": 2, "note": "gone"}
{"op": "D", "at": 4, "tx": 8, "id": 3, "was": {"id": 2}}
{"op": "?", "at": 5, "tx": 8}
{"op": "I", "at": "later", "tx": 8}
{"op": "U", "at": 6, "tx": 8, "was": 5}
nonsense
{"op": "I", "at": 7, "id": null}
"""
    assert changes("jsonl", text, **ROLES) == [
        (INSERT, None, {"id": "12345678901234567890.10", "tags": '{"a b",NULL}', "doc": '{"x": 1.10}'}, None),
        (UPDATE, None, {"id": "2"}, {"id": "1"}),
        (DELETE, None, None, {"id": "2", "note": "gone"}),
        (DELETE, None, None, {"id": "2"}),
        '22P02: could not read in.txt, record 5: unrecognized operation in column "op": "?"',
        '22P02: could not read in.txt, record 6: column "at" is no whole number, LSN or timestamp: "later"',
        '22P02: could not read in.txt, record 7: "was" is no object',
        "22P02: could not read in.txt, record 8: invalid JSON: Expecting value at column 1",
        (INSERT, None, {"id": None}, None),
    ]
    first = read("jsonl", text, **ROLES)[0]
    assert not isinstance(first, str) and (first.lsn, first.xid, first.place.number) == (1, "7", 1)


def test_csv_with_columns_named_by_options() -> None:
    text = (
        b'op,at,id,note,old_id\r\nc,0/1A,1,"a, ""b""",\r\nu,2024-02-29 12:00:00+00,2,"",1\r\nd,27,2,,\r\n'
        b'c,28,3\r\nc,29,4,\xff,\r\nc,30,5,"two\r\nlines",\r\n'
    )
    options = {"op": "op", "order": "at", "before": "old_*"}
    assert changes("csv", text, **options) == [
        (INSERT, None, {"id": "1", "note": 'a, "b"'}, None),
        (UPDATE, None, {"id": "2", "note": ""}, {"id": "1"}),
        (DELETE, None, None, {"id": "2", "note": None}),
        "22P04: could not read in.txt, record 5: it has 3 columns, but there are 5",
        '22021: could not read in.txt, record 6: column "note": invalid byte sequence for encoding "UTF8": 0xff',
        (INSERT, None, {"id": "5", "note": "two\r\nlines"}, None),
    ]
    assert [each.lsn for each in read("csv", text, **options) if not isinstance(each, str)] == [
        26, 1709208000000000, 27, 30,
    ]  # fmt: skip


def test_csv_in_other_forms() -> None:
    assert changes("csv", "1|NULL|'x|y'\n2||\n", delimiter="|", quote="'", null="NULL", columns="a, b, c") == [
        (INSERT, None, {"a": "1", "b": None, "c": "x|y"}, None),
        (INSERT, None, {"a": "2", "b": "", "c": ""}, None),
    ]
    assert changes("csv", 'a\tb\n1\t"x\n', delimiter="tab", quote="none") == [
        (INSERT, None, {"a": "1", "b": '"x'}, None)
    ]
    assert changes("csv", "") == []
    assert changes("csv", "a,b\n") == []


@pytest.mark.parametrize(
    ("form", "options", "data", "message"),
    [
        ("csv", {"delimiter": ";;"}, "", 'option "delimiter" must be a single one-byte character'),
        ("csv", {"op": "what"}, "a\n1\n", 'column "what" does not exist in file "in.txt"'),
        ("csv", {}, "a,a\n1,2\n", 'column "a" specified more than once in file "in.txt"'),
        ("parquet", {}, "PAR1 and no more", 'could not read Parquet file "in.txt": '),
        ("orc", {}, "", 'unrecognized format "orc"'),
    ],
)
def test_what_cannot_be_meant_is_an_error(form: str, options: dict[str, str], data: str, message: str) -> None:
    with pytest.raises(PgError) as caught:
        read(form, data, **options)
    assert caught.value.message.startswith(message)


def test_every_format_has_a_reader() -> None:
    for form in FORMATS:
        if form != "parquet":
            assert list(reader(form).read(io.BytesIO(b""), "empty")) == []


def test_parquet_keeps_every_value() -> None:
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)
    key = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    data = parquet(
        op=["U"],
        was=[{"id": 1}],
        id=pa.array([2**63 - 1]),
        small=pa.array([2**8 - 1], pa.uint8()),
        n=pa.array([decimal.Decimal("1234567890123456789.1200")], pa.decimal128(38, 4)),
        f=pa.array([0.1]),
        b=[b"\x00\xff"],
        ok=[True],
        d=[datetime.date(2024, 2, 29)],
        old=pa.array([-735525], pa.int32()).cast(pa.date32()),
        ts=pa.array([moment]),
        ns=pa.array([1709208000123456500], pa.int64()).cast(pa.timestamp("ns")),
        tz=pa.array([moment], pa.timestamp("us", "UTC")),
        t=pa.array([3723000004], pa.int64()).cast(pa.time64("us")),
        a=[[1, None]],
        nested=[[[1, 2], [3, 4]]],
        words=[["a b", None, "x"]],
        s=[{"x": decimal.Decimal("1.10"), "y": [True]}],
        m=pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        u=pa.ExtensionArray.from_storage(pa.uuid(), pa.array([key.bytes], pa.binary(16))),
        word=pa.array(["x"]).dictionary_encode(),
        none=pa.nulls(1),
    )
    ((kind, _, new, old),) = changes("parquet", data, op="op", before="was")
    assert (kind, old) == (UPDATE, {"id": "1"})
    assert new == {
        "id": "9223372036854775807", "small": "255", "n": "1234567890123456789.1200", "f": "0.1", "b": "\\x00ff",
        "ok": "true", "d": "2024-02-29", "old": "0045-03-15 BC", "ts": "2024-02-29 12:00:00.123456",
        "ns": "2024-02-29 12:00:00.123457", "tz": "2024-02-29 12:00:00.123456+00", "t": "01:02:03.000004",
        "a": "{1,NULL}", "nested": "{{1,2},{3,4}}", "words": '{"a b",NULL,x}', "s": '{"x": 1.10, "y": [true]}',
        "m": '{"k": 1}', "u": str(key), "word": "x", "none": None,
    }  # fmt: skip


# --- AWS DMS ----------------------------------------------------------------------------------------------------------

PEOPLE = typed(id=(oids.INT4, -1), name=(oids.TEXT, -1), city=(oids.TEXT, -1))


def test_dms() -> None:
    wanted = [
        (INSERT, None, {"id": "101", "name": "Smith", "city": "New York"}, None),
        (UPDATE, None, {"id": "101", "name": "", "city": None}, None),
        (DELETE, None, None, {"id": "101", "name": "", "city": None}),
    ]
    text = 'I,101,Smith,New York\nU,101,"",NULL\nD,101,,NULL\n'
    assert changes("dms", text, PEOPLE) == wanted
    assert changes("dms", text, columns="id,name,city") == wanted
    assert changes("dms", "Op,id,name,city\n" + text) == wanted
    assert changes("dms", "101,Smith,New York\n", PEOPLE) == wanted[:1]  # of a full load
    assert changes("dms", "id,name,city\n101,Smith,New York\n", PEOPLE) == wanted[:1]  # with its columns' names
    data = parquet(Op=["I", "D"], id=[1, 2], ts=["2024-02-29 12:00:00.000001", "2024-02-29 12:00:00.000002"])
    assert [each[0] for each in changes("dms", data, order="ts")] == [INSERT, DELETE]
    assert changes("dms", parquet(id=[1])) == [(INSERT, None, {"id": "1"}, None)]
    with pytest.raises(PgError, match="has no header, and the columns of its table are not known"):
        changes("dms", text)


# --- change feeds -----------------------------------------------------------------------------------------------------


def test_deltas_change_feed() -> None:
    kinds = ["insert", "update_preimage", "update_postimage", "update_postimage", "update_preimage", "insert", "delete"]
    data = parquet(
        id=[1, 1, 2, 4, 3, 9, 8],
        name=list("abcdefg"),
        _change_type=kinds,
        _commit_version=[1, 2, 2, 2, 2, 3, 3],
        _commit_timestamp=pa.array([datetime.datetime(2024, 2, 29, 12)] * 7, pa.timestamp("us", "UTC")),
    )
    assert changes("delta", data) == [
        (INSERT, None, {"id": "1", "name": "a"}, None),
        (UPDATE, None, {"id": "2", "name": "c"}, {"id": "1", "name": "b"}),
        (UPDATE, None, {"id": "4", "name": "d"}, {"id": "3", "name": "e"}),
        (DELETE, None, None, {"id": "8", "name": "g"}),  # first what goes, within a version
        (INSERT, None, {"id": "9", "name": "f"}, None),
    ]
    first = read("delta", data)[0]
    assert not isinstance(first, str) and (first.xid, first.lsn, first.at) == ("1", 1, 1709208000000000)
    alone = parquet(id=[1, 2], _change_type=["update_preimage", "insert"], _commit_version=[1, 1])
    assert changes("delta", alone) == [
        (INSERT, None, {"id": "2"}, None),
        "22P02: could not read in.txt, record 1: an update has only one of its two rows",
    ]
    assert changes("delta", "id,_change_type,_commit_version\n1,merge,1\n") == [
        '22P02: could not read in.txt, record 2: unrecognized operation in column "_change_type": "merge"'
    ]


def test_ducklakes_change_feed_pairs_the_rows_of_an_update_by_their_id() -> None:
    many = 70_000  # more than one batch
    kinds = ["update_postimage"] * many + ["update_preimage"] * many + ["delete"]
    data = parquet(
        snapshot_id=[5] * (2 * many + 1), rowid=[*range(many), *range(many), 99], change_type=kinds,
        id=[*range(1, many + 1), *range(many), 99],
    )  # fmt: skip
    found = changes("ducklake", data)
    assert len(found) == many + 1
    assert sorted((int(new["id"]), int(old["id"])) for kind, _, new, old in found if kind == UPDATE) == [
        (number + 1, number) for number in range(many)
    ]


def test_what_duckdb_writes_of_a_ducklake(tmp_path: Path) -> None:
    catalog, file = tmp_path / "catalog.db", tmp_path / "feed.parquet"
    instance = Instance(tmp_path)
    instance.play(
        "pub", "CREATE TABLE t (id bigint, name text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE t SET name = 'x' WHERE id < 3", "DELETE FROM t WHERE id = 3",
    )  # fmt: skip
    instance.catalog.close()
    ((last,),) = duck.duck(catalog, "SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")
    duck.run(catalog, f"COPY (FROM ducklake_table_changes('lake', 'pub', 't', 0, {last})) TO '{file}'")
    duck.close(catalog)
    found = changes("ducklake", file.read_bytes())
    assert sorted(found, key=lambda each: (each[0], str(each[2]))) == [
        (DELETE, None, None, {"id": "3", "name": "c"}),
        (INSERT, None, {"id": "1", "name": "a"}, None),
        (INSERT, None, {"id": "2", "name": "b"}, None),
        (INSERT, None, {"id": "3", "name": "c"}, None),
        (UPDATE, None, {"id": "1", "name": "x"}, {"id": "1", "name": "a"}),
        (UPDATE, None, {"id": "2", "name": "x"}, {"id": "2", "name": "b"}),
    ]


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_lists_and_blobs_that_duckdb_writes(tmp_path: Path, ending: str) -> None:
    catalog, file = tmp_path / "catalog.db", tmp_path / f"feed.{ending}"
    wanted = {
        "id": "1",
        "a": "{1,NULL,-3}",
        "t": '{"a b",NULL,"null","q\\"\\\\","",it\'s,"x, y",[z],"line\nend"}',
        "b": "\\x00ff615c22270a",
        "bs": '{"\\\\x00ff27","\\\\x",NULL}',
        "e": "{}",
        "n": None,
    }
    kinds = {
        "id": oids.INT8, "a": oids.INT4_ARRAY, "t": oids.TEXT_ARRAY, "b": oids.BYTEA, "bs": array_type(oids.BYTEA),
        "e": oids.INT4_ARRAY, "n": oids.TEXT_ARRAY,
    }  # fmt: skip
    instance = Instance(tmp_path)
    values = ", ".join("NULL" if value is None else f"$${value}$$" for value in wanted.values())
    instance.play(
        "pub", "CREATE TABLE t (id bigint, a int[], t text[], b bytea, bs bytea[], e int[], n text[])",
        f"INSERT INTO t VALUES ({values})",
    )  # fmt: skip
    instance.catalog.close()
    ((last,),) = duck.duck(catalog, "SELECT max(snapshot_id) FROM ducklake_snapshots('lake')")
    duck.run(catalog, f"COPY (FROM ducklake_table_changes('lake', 'pub', 't', 0, {last})) TO '{file}'")
    duck.close(catalog)
    types = typed(**{name: (kind, -1) for name, kind in kinds.items()})
    assert changes("ducklake", file.read_bytes(), types) == [(INSERT, None, wanted, None)]


def test_intervals_in_parquet_files(tmp_path: Path) -> None:
    """Arrow takes them for twelve bytes; Parquet has no microseconds of them."""
    import duckdb

    file, interval = tmp_path / "in.parquet", "INTERVAL '1 year 2 months 3 days 4 hours 5.501 seconds'"
    columns = f"{interval} i, [{interval}, NULL] l, {{'k': {interval}}} s, {{'i': {interval}}} AS old"
    duckdb.connect().execute(f"COPY (SELECT {columns}, NULL::INTERVAL n) TO '{file}'")
    text = "1 year 2 mons 3 days 04:00:05.501"
    row = {"i": text, "l": f'{{"{text}",NULL}}', "s": f'{{"k": "{text}"}}', "n": None}
    assert changes("parquet", file.read_bytes(), before="old") == [(INSERT, None, row, {"i": text})]


def test_binary_values_that_spark_writes_as_json() -> None:
    line = '{"id":1,"b":"AP8=","_change_type":"insert","_commit_version":1}'
    assert changes("delta", line, typed(b=(oids.BYTEA, -1))) == [(INSERT, None, {"id": "1", "b": "\\x00ff"}, None)]
    assert changes("delta", line) == [(INSERT, None, {"id": "1", "b": "AP8="}, None)]


# --- compression ------------------------------------------------------------------------------------------------------


def _arrow(codec: str) -> Any:
    def compressed(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    return compressed


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress, _arrow("zstd"), _arrow("lz4")])
def test_compressed_files_are_told_by_their_content(compress: Any, tmp_path: Path) -> None:
    text = b'{"op":"insert","table":"t","new":{"a":"1"}}\n' * 5000
    path = tmp_path / "changes"
    path.write_bytes(compress(text))
    found = list(reader("jsonl").read(decompressed(path.open("rb"), path.name), "changes"))
    assert len(found) == 5000 and found[-1].place.number == 5000
    assert len(changes("csv", compress(b"a,b\n" + b"1,2\n" * 100))) == 100


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, _arrow("zstd"), _arrow("lz4")])
def test_damaged_compression_is_an_error_that_names_the_file(compress: Any) -> None:
    data = compress(bytes(range(256)) * 1000)
    for damaged in (data[: len(data) // 2], data[:20] + b"\0\xff" * 40 + data[100:]):
        with pytest.raises(PgError) as caught:
            read("csv", damaged)
        assert "in.txt" in caught.value.message
