"""Results as JSON: types, exact numbers, several results; messages stay on standard error."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl

ROW = r"""SELECT 1 AS a, 12345678901234567890.10::numeric AS n, 9007199254740993 AS i, 'NaN'::float8 AS f,
1e20::float8 AS g, '-Infinity'::numeric AS inf, 0.1::float4 AS s, true AS b, NULL AS x, E'line\n"quoted" \\ é' AS t,
'{"a": [1,
 2.50]}'::json AS j, '{"b": 1e400}'::jsonb AS k, ARRAY[1, NULL, 3] AS l, ARRAY['a"b', 'c,d', 'NULL', ''] AS m,
'{{1.10,2},{3,4}}'::numeric[] AS nn, '{}'::int[] AS e, ARRAY['{"x": [1]}'::jsonb] AS ja, '2020-01-01'::date AS d,
'\x01ff'::bytea AS y, 2 AS a, 3 AS a_1, '1 day'::interval AS iv, '{t,f}'::bool[] AS bb, '[2:3]={7,8}'::int[] AS lo
"""


def test_every_type_is_what_json_has_for_it(tmp_path: Path) -> None:
    done = pgrepl("--json", "-c", ROW, cwd=tmp_path)
    assert (done.stderr, done.returncode) == ("", 0)
    (row,) = json.loads(done.stdout, parse_float=Decimal)
    assert row == {
        "a": 1, "n": Decimal("12345678901234567890.10"), "i": 9007199254740993, "f": "NaN", "g": Decimal("1e+20"),
        "inf": "-Infinity", "s": Decimal("0.1"), "b": True, "x": None, "t": 'line\n"quoted" \\ é',
        "j": {"a": [1, Decimal("2.50")]}, "k": {"b": 10**400}, "l": [1, None, 3], "m": ['a"b', "c,d", "NULL", ""],
        "nn": [[Decimal("1.10"), 2], [3, 4]], "e": [], "ja": [{"x": [1]}], "d": "2020-01-01", "y": "\\x01ff",
        "a_2": 2, "a_1": 3, "iv": "1 day", "bb": [True, False], "lo": [7, 8],
    }  # fmt: skip
    assert str(row["n"]) == "12345678901234567890.10" and str(row["nn"][0][0]) == "1.10"
    lines = pgrepl("--ndjson", "-c", ROW, "-c", "SELECT 2 AS a", cwd=tmp_path).stdout.splitlines()
    assert json.loads(lines[0], parse_float=Decimal) == row
    assert lines[1:] == ['{"a": 2}']


def test_several_results_are_one_after_the_other(tmp_path: Path) -> None:
    script = "CREATE TABLE t (a int);\nTABLE t;\nINSERT INTO t VALUES (1), (2) RETURNING a;\nSELECT nosuch;\nTABLE t;\n"
    done = pgrepl("--json", cwd=tmp_path, script=script)
    rows = '[\n{"a": 1},\n{"a": 2}\n]\n'
    assert done.stdout == "[]\n" + rows + rows
    assert done.stderr.startswith('ERROR:  column "nosuch" does not exist\n')


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
def test_portions_make_one_array(count: int, tmp_path: Path) -> None:
    query = f"SELECT g FROM generate_series(1, {count}) g"
    whole = pgrepl("--json", "-c", query, cwd=tmp_path).stdout
    assert pgrepl("--json", "-v", "FETCH_COUNT=2", "-c", query, cwd=tmp_path).stdout == whole
    assert json.loads(whole) == [{"g": number + 1} for number in range(count)]


def test_the_format_may_be_set_in_the_shell(tmp_path: Path) -> None:
    done = pgrepl(
        "-q", cwd=tmp_path, script="\\pset format ndjson\nSELECT 1 AS a;\n\\pset format csv\nSELECT 1 AS a;\n"
    )
    assert done.stdout == '{"a": 1}\na\n1\n'


def test_a_described_column_tells_how_it_is_generated(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE t (a int, s int GENERATED ALWAYS AS (a + 1) STORED, v int GENERATED ALWAYS AS (a) VIRTUAL);\n"
    )
    pgrepl("-q", "-c", "ALTER DATABASE postgres SET pgrepl.postgres_version = 18", cwd=tmp_path)
    assert pgrepl("-q", cwd=tmp_path, script=script).stderr == ""
    (table,) = json.loads(pgrepl("describe", "table", "t", "--json", cwd=tmp_path).stdout)
    told = [(each["name"], each["generated"], each["generated_as"]) for each in table["columns"]]
    assert told == [("a", False, None), ("s", True, "stored"), ("v", True, "virtual")]
