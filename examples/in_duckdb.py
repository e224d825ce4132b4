"""Asks DuckDB about a lake: python in_duckdb.py CATALOG QUERY. Needs: pip install duckdb

The table `orders` of database `shop` is `shop.orders` there.
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
    for extension in ("sqlite_scanner", "ducklake"):
        load(link, extension)
    link.execute(f"ATTACH 'ducklake:sqlite:{catalog}' AS lake")
    link.execute("USE lake")
    print(link.sql(query))


if __name__ == "__main__":
    main(*sys.argv[1:])
