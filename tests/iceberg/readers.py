"""Readers of Iceberg: each gives the rows of a table as Python values, all in the same form."""

from __future__ import annotations

import glob
import importlib
import math
import os
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache
from typing import Any

import pytest

Row = tuple[Any, ...]
os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # or it asks for a plug-in


def pyiceberg_rows(location: str, snapshot: int | None = None) -> list[Row]:
    from pyiceberg.table import StaticTable

    return _rows(StaticTable.from_metadata(location).scan(snapshot_id=snapshot).to_arrow())


def duckdb_rows(location: str, snapshot: int | None = None) -> list[Row]:
    at = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
    return _rows(duck().sql(f"SELECT * FROM iceberg_scan('{location}'{at})").to_arrow_table())


def polars_rows(location: str, snapshot: int | None = None) -> list[Row]:
    import polars as pl

    return _rows(pl.scan_iceberg(location, snapshot_id=snapshot, reader_override="native").collect().to_arrow())


READERS: dict[str, Callable[..., list[Row]]] = {
    "pyiceberg": pyiceberg_rows,
    "duckdb": duckdb_rows,
    "polars": polars_rows,
}


@cache
def duck() -> Any:
    duckdb = pytest.importorskip("duckdb")
    link = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2})
    for name in ("avro", "httpfs", "iceberg"):
        folder = next(iter(importlib.import_module(f"duckdb_extension_{name}").__path__))
        (file,) = glob.glob(f"{folder}/**/*.duckdb_extension", recursive=True)
        link.execute(f"LOAD '{file}'")
    link.execute("SET TimeZone = 'UTC'")
    return link


def _rows(table: Any) -> list[Row]:
    return [tuple(map(plain, row.values())) for row in table.to_pylist()]


def plain(value: Any) -> Any:
    """The value as every reader may give it."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc)
    if isinstance(value, dict):  # as PostgreSQL's text of a row
        return f"({','.join('' if each is None else str(each) for each in value.values())})"
    if isinstance(value, (list, tuple)):
        return tuple(plain(each) for each in value)
    if isinstance(value, bytes) and len(value) == 16:  # Polars has no type for it
        return str(uuid.UUID(bytes=value))
    return str(value) if isinstance(value, uuid.UUID) else value
