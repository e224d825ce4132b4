"""Lakes: a catalog with sessions, what DuckDB makes of it, and tables as they are kept there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.catalog.session.transaction import statement
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.lake import commit
from pgrepl.lake.read import local
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.data_file import RowPlace
from pgrepl.lake.table import LakeColumn, LakeField, LakeTable, lake_table
from pgrepl.lake.write.statement import Write
from pgrepl.statements.run import run
from pgrepl.types.lake.structs import read_form
from pgrepl.types.text import read_text, write_text
from tests.lake import duck


class Lake:
    """A catalog in a folder. What is written here is written as statements are, each at a snapshot of its own."""

    def __init__(self, folder: Path, data_path: str | None = None) -> None:
        self.path = folder / "catalog.db"
        self.catalog = open_catalog(self.path, data_path=data_path)
        self.session = open_session(self.catalog)

    def close(self) -> None:
        duck.close(self.path)
        self.session.close()
        self.catalog.close()

    # --- pgrepl's side ---------------------------------------------------------------------------------------------

    def sql(self, text: str) -> None:
        for _ in run(self.session, text):
            pass

    def statement(self, *, writes: bool = False) -> AbstractContextManager[None]:
        return statement(self.session, writes=writes)

    def table(self, name: str, snapshot: int | None = None) -> LakeTable:
        with self.statement():
            return lake_table(self.session, find_relation(self.session, range_var([name])).oid, snapshot)

    def write(self, name: str, change: Callable[[Write], None], **extra: Any) -> int:
        """One statement; its snapshot."""
        table = self.table(name)
        with self.statement(writes=True):
            write = Write(self.session, table)
            change(write)
            commit.record_writes(self.session, [write], extra or None)
            return self.session.snapshot()

    def insert(self, name: str, *rows: Sequence[Any]) -> int:
        """Rows of texts, which are read as their columns' types."""
        table = self.table(name)
        return self.write(name, lambda write: write.insert([values(table, row) for row in rows]))

    def places(self, name: str, *bounds: Bound) -> dict[Any, RowPlace]:
        """By the first column."""
        table = self.table(name)
        with self.statement():
            found = list(local.rows(self.session, table, [table.columns[0].attnum], bounds, places=True))
        return dict(found)

    def rows(
        self, table: LakeTable | str, *bounds: Bound, snapshot: int | None = None, row_ids: bool = False
    ) -> list[tuple[str | None, ...]]:
        """All columns as PostgreSQL's text, in the order of the table; with `row_ids` before them."""
        if isinstance(table, str):
            table = self.table(table, snapshot)
        attnums = [column.attnum for column in table.columns]
        with self.statement():
            found = list(local.rows(self.session, table, attnums, bounds, places=True, snapshot=snapshot))
        return [((str(row[-1].row),) if row_ids else ()) + texts(table, row[:-1]) for row in found]

    def lookup(self, name: str, attnums: Sequence[int], keys: Sequence[tuple[Any, ...]]) -> list[tuple[int, int]]:
        """The keys' numbers with the row ids of what was found."""
        table = self.table(name)
        with self.statement():
            found = local.lookup(self.session, table, attnums, keys)
        return sorted((number, row[-1].row) for number, row in found)

    def last_snapshot(self) -> int:
        with self.statement():
            return self.session.transaction.numbering.last_snapshot()

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """What stands in the catalog."""
        with self.statement():
            return self.session.link.execute(sql, values)

    # --- DuckDB's side ---------------------------------------------------------------------------------------------

    def duck(self, sql: str) -> list[tuple[Any, ...]]:
        return duck.duck(self.path, sql)

    def duck_runs(self, *statements: str) -> None:
        duck.run(self.path, *statements)

    def duck_table(self, name: str, snapshot: int | None = None) -> LakeTable:
        """A table that DuckDB made in its schema `main`, with PostgreSQL's types for its columns."""
        at = self.last_snapshot() if snapshot is None else snapshot
        alive = f"begin_snapshot <= {at} AND (end_snapshot IS NULL OR end_snapshot > {at})"
        (table_id, path), *_ = self.query(
            f"SELECT table_id, path FROM ducklake_table WHERE table_name = ? AND {alive}", name
        )
        rows = self.query(
            "SELECT column_id, column_name, column_type, parent_column, initial_default FROM ducklake_column"
            f" WHERE table_id = ? AND {alive} ORDER BY column_order",
            table_id,
        )
        columns = []
        for column_id, column_name, kind, parent, initial in rows:
            if parent is None:
                fields = _fields(rows, column_id)
                form = read_form(kind, fields)
                missing = None if initial is None else read_text(initial, form.typoid, form.typmod)
                columns.append(
                    LakeColumn(
                        len(columns) + 1,
                        column_name,
                        column_id,
                        form.typoid,
                        form.typmod,
                        kind,
                        fields,
                        initial,
                        missing,
                    )
                )
        return LakeTable(
            0, table_id, name, 0, f"{self.catalog.data_path}main/{path}", tuple(columns), self.catalog.folder
        )


def _fields(rows: list[tuple[Any, ...]], parent: int) -> tuple[LakeField, ...]:
    return tuple([LakeField(r[0], r[1], r[2], _fields(rows, r[0])) for r in rows if r[3] == parent])


def values(table: LakeTable, row: Sequence[str | None]) -> tuple[Any, ...]:
    return tuple(
        [None if v is None else read_text(v, c.typoid, c.typmod) for c, v in zip(table.columns, row, strict=True)]
    )


def texts(table: LakeTable, row: Sequence[Any]) -> tuple[str | None, ...]:
    return tuple([None if v is None else write_text(v, c.typoid) for c, v in zip(table.columns, row, strict=True)])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = Lake(tmp_path)
    yield made
    made.close()


class Bucket:
    """A bucket in a fake S3."""

    name = "lake-bucket"

    def __init__(self, endpoint: str) -> None:
        import boto3

        self._client = boto3.client("s3", endpoint_url=endpoint)
        self._client.create_bucket(Bucket=self.name)

    def all_keys(self) -> set[str]:
        return {each["Key"] for each in self._client.list_objects_v2(Bucket=self.name).get("Contents", ())}

    def files(self, folder: str) -> set[str]:
        return {key for key in self.all_keys() if key.startswith(f"{folder}/") and key.endswith(".parquet")}

    def put(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=key)


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of a fake S3."""
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1",
        "PGREPL_S3_ENDPOINT": s3,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    made = Bucket(s3)
    yield made
    for key in made.all_keys():
        made.delete(key)
