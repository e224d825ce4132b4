"""Asks DuckDB about a lake: python in_duckdb.py CATALOG QUERY. Needs: pip install duckdb

CATALOG is the file, which DuckDB reads as DuckLake, or the address of `pgrepl serve --iceberg`. The table `orders` of
database `shop` is `lake.shop.orders` there, and in a lake `shop.orders` too.
"""

import sys
from importlib import import_module, util
from pathlib import Path

import duckdb


def load(link: duckdb.DuckDBPyConnection, extension: str) -> None:
    """From PyPI's package of the extension if that is installed, else from DuckDB's own server."""
    package = f"duckdb_extension_{extension}"
    if util.find_spec(package) is not None:
        folder = Path(next(iter(import_module(package).__path__)))
        link.execute(f"LOAD '{next(folder.rglob('*.duckdb_extension'))}'")
    else:
        link.execute(f"INSTALL {extension}")
        link.execute(f"LOAD {extension}")


def main(catalog: str, query: str) -> None:
    link = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    if catalog.startswith("http"):
        extensions = ("avro", "httpfs", "iceberg")
        attach = f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{catalog}', AUTHORIZATION_TYPE 'none')"
    else:
        extensions = ("sqlite_scanner", "ducklake")
        attach = f"ATTACH 'ducklake:sqlite:{catalog}' AS lake; USE lake"
    for extension in extensions:
        load(link, extension)
    link.execute(attach)
    print(link.sql(query))


if __name__ == "__main__":
    main(*sys.argv[1:])
