"""Parquet files in and out, by either engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pgrepl.engine import choice as engines
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.harness.engines import on_engines
from tests.harness.played import Instance, lines_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["local", "columns", pytest.param("spark", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest, instance: Instance, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """This process row by row, or by columns what can be done so; Spark."""
    if request.param == "spark":
        _: SparkSession = request.getfixturevalue("spark")
    if request.param == "columns":
        monkeypatch.setattr(engines, "WORTH_A_KERNEL", 1)
    instance.play("pub", f"SET pgrepl.engine = {'spark' if request.param == 'spark' else 'local'}")
    return instance


def written(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def failure(instance: Instance, statement: str) -> list[str]:
    """The lines of its error, with the context."""
    with pytest.raises(PgError) as caught:
        list(run(instance.session("pub"), statement))
    context = caught.value.report.context
    return [*lines_of(caught.value.report), *([f"CONTEXT:  {context}"] if context else [])]


TYPES = (
    "CREATE TABLE types (b bool, i2 int2, i4 int, i8 int8, f4 float4, f8 float8, n numeric(8,3), u numeric, t text,"
    " v varchar(4), c char(4), by bytea, d date, ts timestamp, tz timestamptz, tm time, iv interval, id uuid, j jsonb,"
    " a int[], ta text[], o oid)",
    "INSERT INTO types VALUES (true, 1, 2, 3, 1.5, 'NaN', 1.25, 1.500, 'x', 'ab', 'ab', '\\x00ff', '2024-02-29',"
    " '2024-01-01 12:00:00.5', '2024-01-01 12:00+02', '23:59:59.999999', '1 mon 2 days', "
    " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"b\": 1, \"a\": [1]}', '{1,NULL}', '{\"a b\",NULL}', 7)",
    "INSERT INTO types (t) VALUES ('only')",
    "INSERT INTO types (d, ts, tz, f8, u) VALUES ('infinity', '-infinity', 'infinity', '-Infinity', 'NaN')",
)


@on_engines("engine", "target", [("file.parquet",), ("folder/",)])
def test_what_is_copied_out_comes_back_the_same(engine: Instance, tmp_path: Path, target: str) -> None:
    engine.play("pub", *TYPES, "CREATE TABLE back (LIKE types)")
    name = f"{tmp_path}/{target}"
    assert engine.play("pub", f"COPY types TO '{name}' (FORMAT parquet)") == ["COPY 3"]
    assert engine.play("pub", f"COPY back FROM '{name}' (FORMAT parquet)") == ["COPY 3"]
    everything = "SELECT * FROM {} ORDER BY t, b"
    assert engine.play("pub", everything.format("back")) == engine.play("pub", everything.format("types"))


USERS_TYPES = (
    "CREATE TYPE mood AS ENUM ('a', 'b')",
    'CREATE TYPE pair AS (n int2, id uuid, m mood, j jsonb, "A" text[], at timestamptz)',
    "CREATE DOMAIN pairs AS pair[] CHECK (cardinality(VALUE) < 3)",
    'CREATE TYPE "nothing" AS ()',
    "CREATE TABLE inner_t (p pair, n numeric(5,2))",
    'CREATE TABLE users (k int, m mood, ms mood[], p pair, ps pairs, e "nothing", r inner_t, iv interval[])',
    "INSERT INTO users VALUES (1, 'a', '{a,NULL}', "
    '\'(1,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,a,"{""a"": ""1,""}","{x,NULL}",2024-01-01 12:00+02)\', '
    "'{\"(,,b,,,)\",NULL}', '()', '(\"(7,,,,,)\",1.5)', '{1 day,NULL}')",
    "INSERT INTO users (k, p, ps, ms, r) VALUES (2, '(,,,,,)', '{}', '{}', '(,)')",
    "INSERT INTO users (k) VALUES (3)",
    "ALTER TYPE mood RENAME VALUE 'a' TO 'the first'",
)


@pytest.mark.parametrize("target", dose(["file.parquet", "folder/"], 3))
def test_values_of_users_types_come_back_the_same(engine: Instance, tmp_path: Path, target: str) -> None:
    engine.play("pub", "SET timezone = 'UTC'", *USERS_TYPES, "CREATE TABLE back (LIKE users)")
    name = f"{tmp_path}/{target}"
    assert engine.play("pub", f"COPY users TO '{name}' (FORMAT parquet)") == ["COPY 3"]
    assert engine.play("pub", f"COPY back FROM '{name}' (FORMAT parquet)") == ["COPY 3"]
    assert engine.play("pub", "SELECT * FROM back ORDER BY k") == engine.play("pub", "SELECT * FROM users ORDER BY k")
    assert engine.play("pub", f"COPY (SELECT k, m, ms FROM users) TO '{tmp_path}/enums/' (FORMAT parquet)") == [
        "COPY 3"
    ]
    assert pq.read_table(tmp_path / "enums").to_pydict()["m"] == ["the first", None, None]


def test_composite_types_are_structs(instance: Instance, tmp_path: Path) -> None:
    instance.play("pub", *USERS_TYPES)
    name = tmp_path / "rows.parquet"
    query = "SELECT p, ps, e, users AS u FROM users WHERE k < 2"
    assert instance.play("pub", f"COPY ({query}) TO '{name}' (FORMAT parquet)") == ["COPY 1"]
    (row,) = pq.read_table(name).to_pylist()
    assert row["p"]["m"] == "the first" and row["p"]["A"] == ["x", None] and row["ps"][0]["m"] == "b"
    assert row["e"] == {"no_columns": None} and row["u"]["r"]["p"]["n"] == 7
    assert instance.play("pub", f"COPY (SELECT ROW(1)) TO '{name}' (FORMAT parquet)") == [
        "ERROR:  a column of a pseudo-type is not supported"
    ]
    instance.play("pub", "CREATE TYPE wide AS (a int[])", "CREATE TABLE wides (w wide)")
    instance.play("pub", "INSERT INTO wides VALUES (ROW('{{1}}'))")
    assert instance.play("pub", f"COPY wides TO '{name}' (FORMAT parquet)") == [
        "ERROR:  an array of several dimensions, or that does not begin at 1, is no list"
    ]


def test_structs_of_other_writers(engine: Instance, tmp_path: Path) -> None:
    engine.play(
        "pub", "CREATE TYPE part AS (n int2, t text)", "CREATE TYPE whole AS (p part, l part[], d date)",
        "CREATE TABLE t (w whole)",
    )  # fmt: skip
    row = {"l": pa.array([[{"t": "x", "n": 1}, None]]), "p": pa.array([{"n": 2}])}
    name = written(tmp_path / "w.parquet", w=pa.StructArray.from_arrays(list(row.values()), names=list(row)))
    assert engine.play("pub", f"COPY t FROM '{name}' (FORMAT parquet)", "SELECT * FROM t") == [
        "COPY 1", '("(2,)","{""(1,x)"",NULL}",)',
    ]  # fmt: skip
    for number, (value, message) in enumerate([
        ({"p": {"n": 70000}}, 'value "70000" is out of range for type smallint'),
        ({"p": {"n": 1, "other": 2}}, 'field "other" does not exist in type part'),
        ({"p": {"t": "a\0"}}, 'invalid byte sequence for encoding "UTF8": 0x00'),
    ]):  # fmt: skip
        wrong = written(tmp_path / f"{number}.parquet", w=pa.array([value]))
        assert failure(engine, f"COPY t FROM '{wrong}' (FORMAT parquet)")[0] == f"ERROR:  {message}"


def test_a_file_is_plain_parquet(engine: Instance, tmp_path: Path) -> None:
    engine.play("pub", "CREATE TABLE t (id int, name text)", "INSERT INTO t VALUES (1, 'one'), (2, NULL)")
    name = tmp_path / "t.parquet"
    query = f"COPY (SELECT id, name, id * 1.5 AS x FROM t ORDER BY id) TO '{name}' (FORMAT parquet)"
    assert engine.play("pub", query) == ["COPY 2"]
    table = pq.read_table(name)
    assert table.to_pydict() == {"id": [1, 2], "name": ["one", None], "x": ["1.5", "3.0"]}
    assert table.schema == pa.schema([("id", pa.int32()), ("name", pa.string()), ("x", pa.string())])


def test_columns_are_found_by_name_and_the_others_get_their_defaults(engine: Instance, tmp_path: Path) -> None:
    engine.play(
        "pub", "CREATE TABLE t (id serial, a int, b text DEFAULT 'bee', g int GENERATED ALWAYS AS (a + 1) STORED)"
    )
    name = written(tmp_path / "t.parquet", b=["x", None], a=[1, 2])
    other = written(tmp_path / "other.parquet", a=[3])
    assert engine.play("pub", f"COPY t FROM '{name}' (FORMAT parquet)") == ["COPY 2"]
    assert engine.play("pub", f"COPY t FROM '{other}' (FORMAT parquet)") == ["COPY 1"]
    assert engine.play("pub", f"COPY t (a) FROM '{name}' (FORMAT parquet) WHERE a > 1") == ["COPY 1"]
    assert engine.play("pub", "SELECT a, b, g FROM t ORDER BY a, b NULLS FIRST") == [
        "1|x|2", "2||3", "2|bee|3", "3|bee|4",
    ]  # fmt: skip


def test_all_files_of_a_folder_or_of_a_pattern(engine: Instance, tmp_path: Path) -> None:
    engine.play("pub", "CREATE TABLE t (a int, b text)")
    written(tmp_path / "in" / "1.parquet", a=[1], b=["one"])
    written(tmp_path / "in" / "2.parquet", b=["two"], a=pa.array([2], pa.int64()))
    written(tmp_path / "in" / "3.parquet", a=[3])
    (tmp_path / "in" / "_SUCCESS").write_text("")
    written(tmp_path / "other.parquet", a=[4])
    assert engine.play("pub", f"COPY t FROM '{tmp_path}/in' (FORMAT parquet)") == ["COPY 3"]
    assert engine.play("pub", f"COPY t FROM '{tmp_path}/*.parquet' (FORMAT parquet)") == ["COPY 1"]
    assert engine.play("pub", "SELECT * FROM t ORDER BY a") == ["1|one", "2|two", "3|", "4|"]


@on_engines(
    "engine", "values, kind, shown",
    [
        (pa.array([1, None], pa.int8()), "int", ["1", ""]),
        (pa.array([2**63], pa.uint64()), "numeric", ["9223372036854775808"]),
        (pa.array([1, 2], pa.uint32()), "bigint", ["1", "2"]),
        (pa.array([1.5]), "numeric(6,2)", ["1.50"]),
        (pa.array([1, 2]), "text", ["1", "2"]),
        (pa.array(["7", " 8 "]), "int", ["7", "8"]),
        (pa.array(["2024-02-29"]), "date", ["2024-02-29"]),
        (pa.array(["1 day"]), "interval", ["1 day"]),
        (pa.array([1_700_000_000_123_456_789, -1], pa.timestamp("ns")), "timestamp",
         ["1969-12-31 23:59:59.999999", "2023-11-14 22:13:20.123456"]),
        (pa.array([1_700_000_000_123], pa.timestamp("ms", "UTC")), "timestamptz", ["2023-11-14 22:13:20.123+00"]),
        (pa.array([0], pa.timestamp("us")), "date", ["1970-01-01"]),
        (pa.array(["x", "y"]).dictionary_encode(), "text", ["x", "y"]),
        (pa.array([bytes(range(16))], pa.binary(16)), "uuid", ["00010203-0405-0607-0809-0a0b0c0d0e0f"]),
        (pa.array([{"a": 1, "b": None}]), "jsonb", ['{"a": 1, "b": null}']),
        (pa.array([[1, 2], None]), "bigint[]", ["{1,2}", ""]),
        (pa.nulls(2), "int", ["", ""]),
    ],
)  # fmt: skip
def test_types_of_other_writers(
    engine: Instance, tmp_path: Path, values: pa.Array, kind: str, shown: list[str]
) -> None:
    name = written(tmp_path / "x.parquet", x=values)
    engine.play("pub", "SET timezone = 'UTC'", f"CREATE TABLE t (x {kind})")
    assert engine.play("pub", f"COPY t FROM '{name}' (FORMAT parquet)") == [f"COPY {len(values)}"]
    assert engine.play("pub", "SELECT x FROM t ORDER BY x") == shown


def test_int96_is_in_utc(engine: Instance, tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1_700_000_000_000_000], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    engine.play("pub", "SET timezone = 'UTC'", "CREATE TABLE t (x timestamptz)")
    assert engine.play("pub", f"COPY t FROM '{tmp_path}/x.parquet' (FORMAT parquet)") == ["COPY 1"]
    assert engine.play("pub", "SELECT x FROM t") == ["2023-11-14 22:13:20+00"]


@on_engines(
    "engine", "table, columns, answer",
    [
        ("a int", {"x": [1]}, [
            'ERROR:  column "x" of file "{file}" does not exist in relation "t"',
            "HINT:  Name the columns to be copied: COPY table (column, ...) FROM ...",
        ]),
        ("a int", {"a": [True]}, [
            'ERROR:  column "a" is of type integer but column "a" of file "{file}" is of type boolean',
        ]),
        ("a int", {"a": ["1", "x"]}, [
            'ERROR:  invalid input syntax for type integer: "x"', 'CONTEXT:  COPY t, row 2 of file "{file}", column a',
        ]),
        ("a int2", {"a": [1, 70000]}, [
            "ERROR:  smallint out of range", 'CONTEXT:  COPY t, row 2 of file "{file}", column a',
        ]),
        ("a varchar(2)", {"a": ["ab", "abc"]}, [
            "ERROR:  value too long for type character varying(2)",
            'CONTEXT:  COPY t, row 2 of file "{file}", column a',
        ]),
        ("a int NOT NULL", {"a": [1, None]}, [
            'ERROR:  null value in column "a" of relation "t" violates not-null constraint',
            "DETAIL:  Failing row contains (null).", 'CONTEXT:  COPY t, row 2 of file "{file}"',
        ]),
        ("a int CHECK (a < 3)", {"a": [1, 2, 3, 4]}, [
            'ERROR:  new row for relation "t" violates check constraint "t_a_check"',
            "DETAIL:  Failing row contains (3).", 'CONTEXT:  COPY t, row 3 of file "{file}"',
        ]),
        ("a int PRIMARY KEY", {"a": [1, 2, 1]}, [
            'ERROR:  duplicate key value violates unique constraint "t_pkey"', "DETAIL:  Key (a)=(1) already exists.",
            'CONTEXT:  COPY t, row 3 of file "{file}"',
        ]),
        ("g int GENERATED ALWAYS AS (1) STORED", {"g": [1]}, [
            'ERROR:  column "g" is a generated column', "DETAIL:  Generated columns cannot be used in COPY.",
            "HINT:  Name the columns to be copied: COPY table (column, ...) FROM ...",
        ]),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit(
    engine: Instance, tmp_path: Path, table: str, columns: dict[str, Any], answer: list[str]
) -> None:
    name = written(tmp_path / "t.parquet", **columns)
    engine.play("pub", f"CREATE TABLE t ({table})")
    assert failure(engine, f"COPY t FROM '{name}' (FORMAT parquet)") == [line.format(file=name) for line in answer]
    assert engine.play("pub", "SELECT count(*) FROM t") == ["0"]


def _invalid() -> pa.Array:
    """A text with a byte that UTF-8 does not have. Arrow does not look at what it writes."""
    raw = pa.array([b"a\xffb"])
    return pa.StringArray.from_buffers(1, raw.buffers()[1], raw.buffers()[2])


_NUL, _WRONG = (f'invalid byte sequence for encoding "UTF8": 0x{byte}' for byte in ("00", "ff"))
_ESCAPE = "unsupported Unicode escape sequence"
_MAP = pa.map_(pa.string(), pa.list_(pa.string()))


@on_engines(
    "engine", "kind, values, message",
    [
        ("text", pa.array(["a", "b\0"]), _NUL),
        ("text[]", pa.array([None, ["x", None, "b\0"]]), _NUL),
        ("words", pa.array([["b\0"]]), _NUL),
        ("pair", pa.array(["(a\0,1)"]), _NUL),
        ("jsonb", pa.array(['{"a": "\0"}']), _NUL),
        ("jsonb", pa.array([{"a": 1, "b": [{"c": "\0"}]}]), _ESCAPE),
        ("jsonb", pa.array([[("k", ["\0"])]], _MAP), _ESCAPE),
        ("text", _invalid(), _WRONG),
        ("text[]", pa.ListArray.from_arrays([0, 1], _invalid()), _WRONG),
        ("jsonb", pa.StructArray.from_arrays([_invalid()], ["a b"]), _WRONG),
    ],
)  # fmt: skip
def test_texts_that_no_database_can_hold(
    engine: Instance, tmp_path: Path, kind: str, values: pa.Array, message: str
) -> None:
    engine.play("pub", "CREATE DOMAIN words AS text[]", "CREATE TYPE pair AS (a text, b int)")
    name = written(tmp_path / "x.parquet", x=values)
    engine.play("pub", f"CREATE TABLE t (x {kind})")
    assert failure(engine, f"COPY t FROM '{name}' (FORMAT parquet)")[0] == f"ERROR:  {message}"
    assert engine.play("pub", "SELECT count(*) FROM t") == ["0"]


def test_texts_that_databases_hold(engine: Instance, tmp_path: Path) -> None:
    name = written(tmp_path / "good.parquet", x=pa.array([[], [None], ["\u20ac"]]), y=pa.array([{"a": "\u20ac"}] * 3))
    engine.play("pub", "CREATE TABLE t (x text[], y jsonb)")
    assert engine.play("pub", f"COPY t FROM '{name}' (FORMAT parquet)") == ["COPY 3"]
    assert engine.play("pub", "SELECT x FROM t ORDER BY x") == ["{}", "{\u20ac}", "{NULL}"]


def test_files_that_cannot_be_read(instance: Instance, tmp_path: Path) -> None:
    instance.play("pub", "CREATE TABLE t (a int)")
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1" + b"x" * 40 + b"PAR1")
    assert instance.play("pub", f"COPY t FROM '{tmp_path}/none.parquet' (FORMAT parquet)")[0] == (
        f'ERROR:  could not open file "{tmp_path}/none.parquet" for reading: No such file or directory'
    )
    assert instance.play("pub", f"COPY t FROM '{bad}' (FORMAT parquet)")[0].startswith(
        f'ERROR:  could not read file "{bad}": '
    )
    assert instance.play("pub", f"COPY t FROM '{tmp_path}/*.nothing' (FORMAT parquet)") == [
        f'ERROR:  no Parquet file is at "{tmp_path}/*.nothing"'
    ]
    good = written(tmp_path / "good.parquet", a=[1])
    assert instance.play("pub", f"COPY t (a, b) FROM '{good}' (FORMAT parquet)") == [
        'ERROR:  column "b" of relation "t" does not exist'
    ]


def test_a_file_with_damaged_pages_is_named_and_nothing_of_it_stays(engine: Instance, tmp_path: Path) -> None:
    engine.play("pub", "CREATE TABLE t (a text)")
    name = written(tmp_path / "t.parquet", a=[f"value {n}" for n in range(5000)])
    raw = bytearray(name.read_bytes())
    raw[100:2000] = b"\xff" * 1900
    name.write_bytes(raw)
    answer = engine.play("pub", f"COPY t FROM '{name}' (FORMAT parquet)")
    assert answer[0].startswith(f'ERROR:  could not read file "{name}"')
    assert engine.play("pub", "SELECT count(*) FROM t") == ["0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("DELIMITER ','", "cannot specify DELIMITER in PARQUET mode"),
        ("NULL 'x'", "cannot specify NULL in PARQUET mode"),
        ("DEFAULT 'x'", "cannot specify DEFAULT in PARQUET mode"),
        ("ENCODING 'utf8'", "cannot specify ENCODING in PARQUET mode"),
        ("HEADER", "cannot specify HEADER in PARQUET mode"),
        ("ON_ERROR ignore", "only ON_ERROR STOP is allowed in PARQUET mode"),
        ("QUOTE 'x'", "COPY QUOTE requires CSV mode"),
        ("FORCE_NULL *", "COPY FORCE_NULL requires CSV mode"),
    ],
)
def test_options_that_do_not_go_with_it(instance: Instance, options: str, message: str) -> None:
    instance.play("pub", "CREATE TABLE t (a int)")
    assert instance.play("pub", f"COPY t FROM '/x' (FORMAT parquet, {options})") == [f"ERROR:  {message}"]


def test_copying_out_refuses_what_a_file_cannot_hold(instance: Instance, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    for query, name, message in (
        ("SELECT 1 AS a, 2 AS a", "t.parquet", 'column "a" specified more than once'),
        ("SELECT", "t.parquet", "a Parquet file must have at least one column"),
        ("SELECT 1", "full/", f'folder "{tmp_path}/full/" is not empty'),
    ):
        answer = instance.play("pub", f"COPY ({query}) TO '{tmp_path}/{name}' (FORMAT parquet)")
        assert answer == [f"ERROR:  {message}"]


def ways(instance: Instance) -> list[str]:
    return instance.play("pub", "SELECT engine, declined FROM pgrepl_stat_engine WHERE work = 'COPY'")


@pytest.mark.parametrize("engine", dose(["columns", "spark"], 2), indirect=True)
def test_columns_go_into_the_lake_as_they_are(engine: Instance, tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.parquet",
        id=pa.array(range(3000), pa.int32()),
        k=pa.array([None if n % 7 == 0 else n - 1500 for n in range(3000)], pa.int64()),
        s=[f"größer {n}" for n in range(3000)],
        f=pa.array([n / 3 for n in range(3000)], pa.float32()),
        m=pa.array([n * 1_000_000 for n in range(3000)], pa.timestamp("us")),
        n=pa.array(list(range(3000)), pa.decimal128(8, 2)),
    )
    engine.play(
        "pub",
        "CREATE TABLE t (own text DEFAULT 'here', id bigint PRIMARY KEY, k smallint CHECK (k < 5000), s varchar(20),"
        " f float8, m timestamp, n numeric(8,2) NOT NULL, twice bigint GENERATED ALWAYS AS (id * 2) STORED,"
        " day date DEFAULT current_date)",
        "CREATE TABLE u (LIKE t INCLUDING ALL)",
    )
    assert engine.play("pub", f"COPY t FROM '{path}' (FORMAT parquet)") == ["COPY 3000"]
    assert ways(engine) == ["spark|" if engine.play("pub", "SHOW pgrepl.engine") == ["spark"] else "columns|"]
    engine.play("pub", "SET pgrepl.engine = local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "WORTH_A_KERNEL", 10**9)
        engine.play("pub", f"COPY u FROM '{path}' (FORMAT parquet)")
    assert engine.play("pub", "SELECT * FROM t ORDER BY id") == engine.play("pub", "SELECT * FROM u ORDER BY id")


@pytest.mark.parametrize("engine", ["columns"], indirect=True)
def test_what_is_wrong_with_a_row_is_found_one_by_one(engine: Instance, tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", id=[1, 2, 2], s=["a", "b", "long text"])
    engine.play("pub", "CREATE TABLE t (id int PRIMARY KEY, s text)", "CREATE TABLE v (id int, s varchar(3))")
    assert failure(engine, f"COPY t FROM '{path}' (FORMAT parquet)") == [
        'ERROR:  duplicate key value violates unique constraint "t_pkey"',
        "DETAIL:  Key (id)=(2) already exists.",
        f'CONTEXT:  COPY t, row 3 of file "{path}"',
    ]
    assert failure(engine, f"COPY v FROM '{path}' (FORMAT parquet)") == [
        "ERROR:  value too long for type character varying(3)",
        f'CONTEXT:  COPY v, row 3 of file "{path}", column s',
    ]
    files = [each for each in (tmp_path / "catalog.db.files").rglob("*") if each.is_file() and each.name != ".owner"]
    assert [each for each in files if each.suffix == ".parquet"] == []
