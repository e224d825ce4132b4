"""SQLAlchemy's dialect for a catalog that this process opens: `create_engine("pgrepl:///catalog.db/shop")`.

    pgrepl:///catalog.db/shop             the database shop of catalog.db in the working directory
    pgrepl:////srv/lake/catalog.db/shop   an absolute path
    pgrepl://alice@/catalog.db/shop       as the role alice
    pgrepl:///catalog.db/shop?timezone=UTC&data_path=/srv/files

It is SQLAlchemy's own dialect for PostgreSQL, with its reflection, over pgrepl's DB-API. The last part of the path is
the database; a path that ends with the catalog's file means the database postgres.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sqlalchemy import pool
from sqlalchemy.dialects.postgresql import JSON, JSONB
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError
from sqlalchemy.types import JSON as AnyJSON
from sqlalchemy.types import Float, Numeric

import pgrepl

_FILES = (".db", ".sqlite", ".ducklake")


class _Parsed:
    """JSON comes parsed from the driver, and goes to it as text."""

    def result_processor(self, dialect: Any, coltype: Any) -> None:
        return None


class _Json(_Parsed, JSON):
    pass


class _Jsonb(_Parsed, JSONB):
    pass


class _Numeric(Numeric[Any]):
    def bind_processor(self, dialect: Any) -> None:
        return None

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        """The driver gives Decimals."""
        return None if self.asdecimal else _float


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


class PgreplDialect(PGDialect):
    """PostgreSQL's dialect over pgrepl's own connections."""

    name = "postgresql"
    driver = "pgrepl"
    supports_statement_cache = True
    default_paramstyle = "pyformat"
    supports_sane_multi_rowcount = False
    colspecs = {**PGDialect.colspecs, AnyJSON: _Json, JSON: _Json, JSONB: _Jsonb, Numeric: _Numeric, Float: Float}

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return pgrepl

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        """Connections are used by one thread at a time."""
        return pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        catalog, database = _parts(url)
        if url.host or url.port:
            raise ArgumentError(
                f"pgrepl opens a file, it is no client for servers: pgrepl:///{url.database or 'catalog.db/shop'}"
            )
        options = {name: str(value) for name, value in url.query.items()}
        arguments: dict[str, Any] = {"dbname": database, "user": url.username}
        if "data_path" in options:
            arguments["data_path"] = options.pop("data_path")
        if options:
            arguments["options"] = options
        return [catalog], arguments

    def get_isolation_level_values(self, dbapi_connection: Any) -> Any:
        return ("AUTOCOMMIT", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            cursor = dbapi_connection.cursor()
            cursor.execute(f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")
            cursor.close()
            dbapi_connection.commit()

    def detect_autocommit_setting(self, dbapi_connection: Any) -> bool:
        return bool(dbapi_connection.autocommit)

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return connection is not None and bool(getattr(connection, "closed", False))


def _parts(url: URL) -> tuple[str | None, str | None]:
    """The catalog and the database of a URL; None: those of the environment."""
    if not url.database:
        return None, None
    if url.database.endswith(_FILES):
        return url.database, None
    catalog, slash, database = url.database.rpartition("/")
    if not slash:
        return None, database
    return catalog or "/", database
