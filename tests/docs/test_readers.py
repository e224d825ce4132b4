"""The examples of docs/readers.md: what a person types in other engines, and what they answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pgrepl
from tests.docs.test_documents import ROOT
from tests.docs_runner import play
from tests.harness import forked
from tests.harness.forked import put_program
from tests.harness.programs import environment
from tests.harness.serving import serving
from tests.postgres.server import free_port

SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.M | re.S)
EXAMPLE = re.compile(r"```(sql|python)\n(.*?)```\n\n```text\n(.*?)```\n", re.S)
TEXT = (ROOT / "docs" / "readers.md").read_text("utf-8")
EXAMPLES = {name: found for name, text in SECTION.findall(TEXT) if (found := EXAMPLE.findall(text))}
PORT = "8181"

KINDS = """
CREATE TYPE mood AS ENUM ('glad'); CREATE TYPE place AS (x int, name text);
CREATE TABLE kinds (
    "bigint" bigint, "integer" integer, "real" real, "double precision" double precision, "boolean" boolean,
    "date" date, "smallint" smallint, "numeric(p,s)" numeric(10,2), "numeric" numeric, "text" text,
    "varchar" varchar(9), "char(n)" char(3), "bytea" bytea, "timestamp" timestamp, "timestamptz" timestamptz,
    "time" time, "uuid" uuid, "json" json, "jsonb" jsonb, "enums" mood, "inet" inet, "interval" interval,
    "ranges" int4range, "timetz" timetz, "integer[]" integer[], "text[]" text[], "composite types" place
)
"""
DUCKDB = {  # its names for types that have the same one in the document
    "real": "float", "double precision": "double", "numeric(p,s)": "decimal", "timestamptz": "timestamp with time zone",
}  # fmt: skip
DESCRIBE = "DESCRIBE FROM iceberg_scan('catalog.db.iceberg/shop/kinds')"

PLAYER = r"""
import contextlib, glob, importlib, io, json, re, sys

def load(link, name):
    name = {"sqlite": "sqlite_scanner"}.get(name, name)
    folder = next(iter(importlib.import_module(f"duckdb_extension_{name}").__path__))
    link.execute(f"LOAD '{glob.glob(folder + '/**/*.duckdb_extension', recursive=True)[0]}'")

def run_sql(text):
    import duckdb

    link = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    link.execute("SET enable_progress_bar = false")
    shown = []
    for statement in filter(None, map(str.strip, text.split(";"))):
        install = re.fullmatch(r"INSTALL (\w+)", statement)
        found = load(link, install[1]) if install else link.sql(statement)
        if statement.startswith("DESCRIBE"):
            return found.fetchall()
        shown += [] if found is None else [str(found).strip()]
    link.close()
    return "\n\n".join(shown)

def run_python(text):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(text, {})
    return out.getvalue()

answers = [{"sql": run_sql, "python": run_python}[kind](text) for kind, text in json.load(sys.stdin)]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    folder, port = tmp_path_factory.mktemp("readers"), free_port()
    programs = put_program(tmp_path_factory.mktemp("bin"))
    for step, printed in play(TEXT, folder, programs):
        assert printed == step.printed, f"readers.md:{step.line}: {step.command}"
    with serving(folder, "--iceberg", str(port)):
        yield folder, port


def test_each_engine_that_can_be_installed_has_an_example() -> None:
    assert list(EXAMPLES) == ["DuckDB", "pyiceberg, pandas, Daft", "Polars", "ClickHouse"]


@pytest.mark.parametrize("engine", EXAMPLES)
def test_an_engine_answers_as_the_document_shows(engine: str, served: tuple[Path, int]) -> None:
    folder, port = served
    found = answers(folder, [(kind, text.replace(PORT, str(port))) for kind, text, _ in EXAMPLES[engine]])
    assert [each.strip() for each in found] == [shown.strip() for _, _, shown in EXAMPLES[engine]]


@pytest.mark.slow
def test_spark_answers_by_the_settings_that_the_document_shows(served: tuple[Path, int], tmp_path: Path) -> None:
    from tests.harness import iceberg_spark

    text = dict(SECTION.findall(TEXT))["Spark"].replace(PORT, str(served[1]))
    settings = dict(re.findall(r"--conf (\S+?)=(\S+) \\", text))
    (queries,) = re.findall(r'-e "(.*)"', text)
    rows, snapshots, plan = iceberg_spark.asked(
        tmp_path, settings, [*queries.split(";"), f"EXPLAIN {queries.partition(';')[0]}"]
    )
    assert sorted(rows) == [["2", "3.00"], ["4", "6.00"]] and len(snapshots) > 1
    assert "filters=id IS NOT NULL, id > 1" in plan[0][0] and "country" not in plan[0][0]


def answers(folder: Path, asked: list[tuple[str, str]]) -> list[Any]:
    """In a process of its own: SQLite's files are not to be open twice in one."""
    done = subprocess.run(
        [sys.executable, "-c", PLAYER], input=json.dumps(asked), cwd=folder, capture_output=True, text=True,
        env=environment(POLARS_ICEBERG_PLANNER="pyiceberg"), timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_types_come_to_duckdb_as_the_table_says(served: tuple[Path, int]) -> None:
    folder, _ = served
    with pgrepl.connect(str(folder / "catalog.db"), "shop", autocommit=True) as con:
        con.execute(KINDS)
        con.execute('INSERT INTO kinds ("bigint") VALUES (1)')
    assert forked.pgrepl("iceberg", "export", "-d", "shop", "kinds", cwd=folder).returncode == 0
    (described,) = answers(folder, [("sql", f"INSTALL avro; INSTALL iceberg; {DESCRIBE}")])
    found = {name: "list" if kind.endswith("[]") else kind.partition("(")[0].lower() for name, kind, *_ in described}
    told = {}
    for first, *cells in (line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| `")):
        if len(cells) == 5:
            for name in re.findall(r"`([^`]+)`", first):
                told[name] = DUCKDB.get(name, name) if cells[1] == "=" else cells[1].partition(";")[0]
    told["composite types"] = "struct"
    for word in ("enums", "ranges"):
        told[word] = "varchar"
    assert {name: DUCKDB.get(kind, kind) for name, kind in told.items()} == found
