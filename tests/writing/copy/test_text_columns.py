"""COPY FROM text and CSV by whole columns gives the rows, and the errors, of COPY line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.dose import dose
from tests.harness.played import Instance

TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'o k')",
    "CREATE DOMAIN year AS int CHECK (VALUE > 1900)",
    "CREATE DOMAIN word AS text NOT NULL CHECK (length(VALUE) < 4) CHECK (VALUE <> 'ccc')",
    "CREATE DOMAIN known AS int NOT NULL CHECK (VALUE > 1900)",
    "CREATE DOMAIN years AS known[] CHECK (cardinality(VALUE) < 4)",
    "CREATE TYPE pair AS (a year, b text, c mood)",
)
LINES = 6000  # more than are read line by line anyway

VALUES = {
    "int": ["0", "-0", "+7", " 12 ", "007", "0x1F", "1_000", "2147483647", "-2147483648", None],
    "smallint": ["5", "-32768", "0b11"],
    "bigint": ["9223372036854775807", "-9223372036854775808"],
    "numeric(8,2)": ["1", "1.5", "-1.005", "999999.99", "1e3", ".5", "007.10", "-0", "0.0"],
    "numeric": ["1.50", "NaN", "1e3", "-0.00", "Infinity"],
    "double precision": ["1.5", "-0", "1e308", "1e-320", "NaN", "inf", "0.1", "123456789012345.678"],
    "real": ["0.1", "16777217", "-0"],
    "bool": ["t", "false", "yes", "OFF", "1", None],
    "date": ["2024-02-29", "0001-01-01", "infinity", "Jan 5 2020", "2020-01-05 BC", "99999-01-01", "20240131"],
    "timestamp": ["2024-02-29 01:02:03", "2024-02-29 01:02:03.123456", "2024-02-29 24:00:00", "2024-02-29 23:59:60",
                  "2024-02-29T01:02:03", "2024-02-29 01:02:03.1234567", "0001-01-01 00:00:00", "-infinity"],
    "timestamp(0)": ["2024-02-29 01:02:03.5", "2024-02-29 01:02:02.5"],
    "timestamptz": ["2024-02-29 01:02:03+02", "2024-02-29 01:02:03"],
    "time": ["01:02:03", "24:00:00"],
    "varchar(3)": ["abc", "é  ", "abc  ", ""],
    "char(3)": ["a", "abc  ", ""],
    "text": ["", "x", "é", None],
    "uuid": ["00000000-0000-0000-0000-00000000000A", "{00000000000000000000000000000001}"],
    "bytea": ["\\x00ff", "abc"],
    "int[]": ["{1,NULL,3}", "{}"],
    "interval": ["1 day 02:00", "P1Y"],
    "jsonb": ['{"b": 1, "a": [1, 2]}', "null"],
    "mood": ["sad", "o k", None],
    "year": ["1901", " 2000 ", None],
    "word": ["a", "b c"],
    "years": ["{1901,2000}", "{}", "{ 1950 }", None],
    "pair": ['(1901,"a b","o k")', "(,,)", "( 1950 ,a,)", None],
    "pair[]": ['{"(1901,a,sad)",NULL}', "{}"],
}  # fmt: skip
WRONG = {
    "int": ["x", "2147483648", "", "1 2", "1.0"], "smallint": ["32768"], "numeric(8,2)": ["999999.995", "1,5"],
    "double precision": ["1e400", "1e-400", "1..5"], "date": ["2024-02-30", "0000-01-01", "2024-13-01"],
    "timestamp": ["2024-02-29 25:00:00", "0000-01-01 00:00:00", "2024-02-29 10"], "varchar(3)": ["abcd"],
    "bool": ["maybe"], "text": ["\udc80"], "int[]": ["{x}", "{1"], "mood": ["glad"], "year": ["1900", "x"],
    "word": [None, "ccc"], "years": ["{1900}", "{1901,NULL}", "{1,2,3,4}"],
    "pair": ["(1900,a,)", "(1901,a)", "(1901,a,glad)"], "pair[]": ['{"(1900,,)"}'],
}  # fmt: skip


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Instance:
    found = Instance(tmp_path_factory.mktemp("copies") / "instance")
    found.play("pub", "SET pgrepl.engine = local", "CREATE TABLE t ()", "CREATE TABLE c ()", *TYPES)
    return found


def both_ways(instance: Instance, kind: str, path: Path, options: str = "FORMAT csv") -> list[list[str]]:
    answers = []
    for rows in ("1000000", "0"):
        answers.append(
            instance.play(
                "pub",
                f"SET pgrepl.spark_rows = {rows}",
                "DROP TABLE t",
                f"CREATE TABLE t (id int, v {kind})",
                f"COPY t FROM '{path}' ({options})",
                "SELECT id, v FROM t ORDER BY id",
            )
        )
    return [answer[1:] for answer in answers]


def quoted(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'


def lines(values: list[str | None]) -> str:
    return "".join(f"{n},{quoted(values[n % len(values)])}\n" for n in range(LINES))


@pytest.mark.parametrize("kind", dose(VALUES, 8))
def test_values_are_the_same(instance: Instance, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "values.csv"
    path.write_text(lines(list(VALUES[kind])))
    done = "SELECT sum(calls) FROM pgrepl_stat_engine WHERE work = 'COPY' AND engine = 'columns'"
    before = int(instance.play("pub", done)[0] or 0)
    columns, rows = both_ways(instance, kind, path)
    assert columns == rows
    assert f"COPY {LINES}" in columns
    assert int(instance.play("pub", done)[0]) == before + 1


@pytest.mark.parametrize(("kind", "value"), dose([(kind, v) for kind, values in WRONG.items() for v in values], 4))
def test_errors_are_the_same(instance: Instance, kind: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.csv"
    good = str(VALUES[kind][0])
    text = "".join(f"{n},{quoted(value if n == 5500 else good)}\n" for n in range(LINES))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    columns, rows = both_ways(instance, kind, path)
    assert columns == rows
    assert any(line.startswith("ERROR:") for line in columns)


@pytest.mark.parametrize(
    ("options", "text"),
    dose(
        [
            ("FORMAT text", "1\t\\N\n2\ta\\tb\n3\t\\x41\n"),
            ("FORMAT text, DELIMITER '|', NULL '-'", "1|-\n2|x\n"),
            ("FORMAT csv, HEADER", "id,v\n1,x\n"),
            ("FORMAT csv, HEADER match", "id,w\n1,x\n"),
            ("FORMAT csv, FORCE_NULL (v)", '1,""\n2,\n'),
            ("FORMAT csv, FORCE_NOT_NULL (v)", '1,""\n2,\n'),
            ("FORMAT csv, QUOTE '''', ESCAPE '\\'", "1,'a\\'b'\n2,'x\ny'\n"),
            ("FORMAT csv", "1,x,y\n"),
            ("FORMAT csv", "1\n"),
            ("FORMAT csv, ON_ERROR ignore", "x,y\n1,z\n"),
        ],
        3,
    ),
)
def test_options_are_heeded(instance: Instance, options: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    header = "id,v\n" if text.startswith("id,v") else ""
    path.write_text(header + text.removeprefix(header) * (LINES // max(text.count("\n"), 1)))
    columns, rows = both_ways(instance, "text", path, options)
    assert columns == rows


def test_constraints_defaults_and_keys_are_the_same(instance: Instance, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    make = "CREATE TABLE c (a int PRIMARY KEY, b int CHECK (b < 7000), d text DEFAULT 'x' NOT NULL, e int UNIQUE)"
    for last in ("9000,1,5", "17,1,9001", "9000,7000,9001", "9000,1,", ",1,9001"):
        path.write_text("".join(f"{n},{n},{n}\n" for n in range(1, LINES)) + last + "\n")
        answers = []
        for rows in ("1000000", "0"):
            instance.play("pub", f"SET pgrepl.spark_rows = {rows}", "DROP TABLE c", make)
            copied = list(instance.play("pub", f"COPY c (a, b, e) FROM '{path}' CSV"))
            answers.append(copied + instance.play("pub", "SELECT count(*), sum(a), min(d), max(d), count(e) FROM c"))
        assert answers[0] == answers[1]
