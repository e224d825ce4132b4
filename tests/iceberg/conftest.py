"""A lake whose tables are read as Iceberg tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pgrepl
from pgrepl.backend import open_session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.iceberg import metadata, tables
from pgrepl.iceberg.metadata import Metadata
from pgrepl.iceberg.place import Place, place_of
from pgrepl.iceberg.tables import Described
from pgrepl.lake import storage
from pgrepl.lake.read import local
from tests.iceberg.readers import READERS, Row, plain
from tests.lake.conftest import bucket, s3
from tests.lake.test_elsewhere import catalog_url, server


class Shop:
    """A catalog, with a connection to its database `shop`, and a session that looks at it for Iceberg."""

    def __init__(self, catalog: Path | str, data_path: str | None = None, *, is_new: bool = True) -> None:
        self._name = str(catalog)
        self.catalog = open_catalog(catalog, data_path=data_path)
        if is_new:
            with pgrepl.connect(self._name, autocommit=True) as first:
                first.cursor().execute("CREATE DATABASE shop")
        self.link = self.connect()
        self.session = self.open()
        self.place: Place | None = None

    def connect(self, database: str = "shop") -> Any:
        options = {"pgrepl.engine": "local", "timezone": "UTC", "pgrepl.file_grace": 0}
        return pgrepl.connect(self._name, database, autocommit=True, options=options)

    def open(self, user: str = "postgres", **given: str) -> Any:
        return open_session(self.catalog, "shop", user, settings=given)

    def close(self) -> None:
        self.link.close()
        self.session.close()
        self.catalog.close()

    def sql(self, *texts: str) -> list[Row]:
        found: list[Row] = []
        for text in texts:
            cursor = self.link.cursor()
            cursor.execute(text)
            found = [] if cursor.description is None else [tuple(map(plain, row)) for row in cursor.fetchall()]
        return found

    def rows(self, query: str) -> list[Row]:
        return sorted(self.sql(query), key=repr)

    def snapshot(self) -> int:
        with reading(self.session):
            return self.session.transaction.numbering.last_snapshot()

    def forget_promises(self) -> None:
        """Have VACUUM keep nothing for those who were told of files."""
        for path, _ in storage.listed(self.catalog.data_path + local.FOLDER):
            storage.remove(path)

    def find(self, name: str, *namespace: str, session: Any = None) -> Described | None:
        return tables.find(session or self.session, ("shop", *namespace), name)

    def metadata(self, name: str = "t", *namespace: str) -> Metadata:
        with reading(self.session):
            found = self.find(name, *namespace)
            assert found is not None
            return metadata.table_metadata(found, self.place or place_of(self.session))

    def read(self, reader: str, name: str = "t", snapshot: int | None = None) -> list[Row]:
        return sorted(READERS[reader](self.metadata(name).location, snapshot), key=repr)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "catalog.db")
    yield made
    made.close()


__all__ = ["bucket", "catalog_url", "s3", "server", "shop"]
