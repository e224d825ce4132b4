"""Tables whose files are in an object store and whose catalog is on a server: the same statements, by either engine and
by the tool; and the options that say where all that is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import statement
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.lake.define.adopt import upgrade
from pgrepl.lake.define.options import WRITE_VECTORS, set_option
from pgrepl.lake.verify import Verification
from pgrepl.statements.run import run
from tests.harness.forked import pgrepl
from tests.postgres.server import Server, wheel_binaries

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(8,2), d int[]);
INSERT INTO t SELECT g, 'b' || g, g * 1.5, ARRAY[g] FROM generate_series(1, 300) g;
INSERT INTO t VALUES (1001, 'x', 1, NULL);
UPDATE t SET b = b || '!', d = d || 0 WHERE a % 2 = 0;
DELETE FROM t WHERE a BETWEEN 101 AND 250;
INSERT INTO t VALUES (1, 'again', 2), (2000, 'n', 3) ON CONFLICT (a) DO UPDATE SET b = excluded.b;
BEGIN;
DELETE FROM t;
ROLLBACK;
INSERT INTO t VALUES (2000, 'twice');
VACUUM FULL t
"""
TAGS = [
    "CREATE TABLE", "INSERT 0 300", "INSERT 0 1", "UPDATE 150", "DELETE 150", "INSERT 0 2", "BEGIN", "DELETE 152",
    "ROLLBACK", 'duplicate key value violates unique constraint "t_pkey"', "VACUUM",
]  # fmt: skip
QUESTION = "SELECT count(*), sum(a), sum(c), max(b), sum(d[2]) FROM t"
ANSWER = ("152", "21826", "28241.50", "x", "0")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server(wheel_binaries(16)).start()
    yield made
    made.stop()


@pytest.fixture
def catalog_url(server: Server) -> Iterator[str]:
    """A catalog in a database of its own."""
    import psycopg

    place = f"postgresql+psycopg://postgres@localhost:{server.port}"
    with psycopg.connect(host=server.host, port=server.port, user="postgres", autocommit=True) as link:
        link.execute("CREATE DATABASE shared")
        yield f"{place}/shared"
        link.execute("DROP DATABASE shared WITH (FORCE)")


def play(session: Session, script: str) -> Iterator[Any]:
    from pgrepl.ground.errors import PgError

    for text in script.split(";\n"):
        try:
            for result in run(session, text):
                yield from result.rows if result.columns is not None else [result.tag]
        except PgError as error:
            yield error.message


@pytest.mark.slow  # the other two places are tried apart
def test_rows_are_changed_in_an_object_store_with_a_catalog_on_a_server(catalog_url: str, bucket: Any) -> None:
    catalog = open_catalog(catalog_url, data_path=f"s3://{bucket.name}/x")
    session = open_session(catalog, settings={"pgrepl.engine": "local", "pgrepl.file_grace": "0"})
    try:
        assert list(play(session, SCRIPT.strip())) == TAGS
        assert list(play(session, QUESTION)) == [ANSWER]
        assert len(bucket.files("x")) == 1, "VACUUM leaves what the table needs"
    finally:
        session.close()
        catalog.close()


@pytest.mark.slow
def test_spark_changes_rows_there_without_jars_for_it(catalog_url: str, bucket: Any, spark: object) -> None:
    catalog = open_catalog(catalog_url, data_path=f"s3://{bucket.name}/y")
    session = open_session(catalog, settings={"pgrepl.engine": "spark"})
    first = SCRIPT.strip().split(";\n")
    try:
        assert list(play(session, ";\n".join([*first[:2], *first[3:5]]))) == [*TAGS[:2], *TAGS[3:5]]
        assert list(play(session, QUESTION)) == [("150", "18825", "28237.50", "b99", "0")]
        assert len(bucket.files("y")) >= 4, "of rows and of deleted positions"
    finally:
        session.close()
        catalog.close()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_ducklake_1_1_with_deletion_vectors_there(catalog_url: str, bucket: Any, spark: object, engine: str) -> None:
    place = f"v-{engine}"
    catalog = open_catalog(catalog_url, data_path=f"s3://{bucket.name}/{place}")
    session = open_session(catalog, settings={"pgrepl.engine": engine, "pgrepl.file_grace": "0"})
    try:
        with statement(session, writes=True):
            assert upgrade(session)
            set_option(session, WRITE_VECTORS, "true")
        assert list(play(session, SCRIPT.strip().partition("INSERT INTO t VALUES (1, 'again'")[0][:-2])) == TAGS[:5]
        assert list(play(session, "SELECT count(*), sum(a) FROM t")) == [("151", "19826")]
        assert any(key.startswith(f"{place}/") and key.endswith("-delete.puffin") for key in bucket.all_keys())
        assert list(Verification(session).run(lambda done, total: None)) == []
        assert list(play(session, "VACUUM FULL t;\nSELECT count(*), sum(a) FROM t")) == ["VACUUM", ("151", "19826")]
        left = [key for key in bucket.all_keys() if key.startswith(f"{place}/postgres/") and not key.endswith("/")]
        assert [key.rpartition(".")[2] for key in left] == ["parquet"]
    finally:
        session.close()
        catalog.close()


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_named(tmp_path: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = open_catalog(tmp_path / "catalog.db", data_path=f"s3://{bucket.name}/x")
    session = open_session(catalog)
    try:
        list(play(session, "CREATE TABLE t (a int)"))
        monkeypatch.setenv("PGREPL_S3_ENDPOINT", "http://127.0.0.1:1")
        written, cleaned = play(session, "INSERT INTO t SELECT generate_series(1, 200);\nVACUUM")
        assert written.startswith(f'could not read file "s3://{bucket.name}/x/.owner": ')
        assert cleaned.startswith(f'could not read file "s3://{bucket.name}/x/')
    finally:
        session.close()
        catalog.close()


def tool(folder: Path, *arguments: str, **environment: str) -> list[str]:
    done = pgrepl("-X", "-A", "-t", *arguments, cwd=folder, **environment)
    return (done.stdout + done.stderr).splitlines()


def test_the_tool_takes_both_places_from_its_options_or_the_environment(
    tmp_path: Path, catalog_url: str, bucket: Any
) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT.replace("BEGIN;\nDELETE FROM t;\nROLLBACK;\nINSERT INTO t VALUES (2000, 'twice');", ""))
    options = ("--catalog", catalog_url, "--data-path", f"s3://{bucket.name}/by-options")
    assert tool(tmp_path, *options, "-f", str(script)) == [*TAGS[:6], "VACUUM"]
    # another folder and machine would ask the same
    assert tool(tmp_path, "-c", QUESTION, PGREPL_CATALOG=catalog_url) == ["|".join(ANSWER)]
    assert bucket.files("by-options") and not list(tmp_path.glob("catalog.db*"))


@pytest.mark.slow  # a JVM of its own; test_the_tool_takes_both_places… gives options, too
def test_the_options_of_spark(tmp_path: Path) -> None:
    """One JVM: what is given on the command line stands above the environment."""
    data = tmp_path / "far away"
    script = (
        "SET pgrepl.engine = spark; CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 400);"
        " UPDATE t SET a = a + 1 WHERE a > 200; SELECT sum(a), count(*) FROM t"
    )
    given = tool(
        tmp_path, "--master", "local[1]", "--conf", "spark.app.name=mine", "--data-path", f"file://{data}",
        "-c", script,
        PGREPL_MASTER="nonsense://nowhere", PGREPL_CONF="spark.driver.memory=1g spark.app.name=theirs",
    )  # fmt: skip
    assert given == ["SET", "CREATE TABLE", "INSERT 0 400", "UPDATE 200", "80400|400"]
    assert len(list(data.rglob("*.parquet"))) >= 2
    assert tool(tmp_path, "--master", "local", "--remote", "sc://x", "-c", "SELECT 1") == [
        "pgrepl: error: a master and a remote cannot both be given"
    ]
