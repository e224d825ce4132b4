"""Keeps a catalog of the present format for test_formats.py: `python -m tests.catalog.keep_format [FOLDER]`.

`formats/NUMBER.tar.xz` is a folder with a catalog, as a pgrepl of that format left it: two databases, one of which
publishes what the other subscribes to. Those of older formats were made by the last commit of each, with this script.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

FOLDER = Path(__file__).with_name("formats")

# by the format from which on pgrepl can do it
MADE = [
    (2, "postgres", "CREATE DATABASE shop"),
    (2, "postgres", "CREATE DATABASE reports"),
    (2, "postgres", "CREATE ROLE clerk LOGIN"),
    (2, "shop", "CREATE TABLE orders (id int PRIMARY KEY, country text NOT NULL, total numeric(10,2) DEFAULT 1)"),
    (2, "shop", "INSERT INTO orders SELECT g, 'DE', g FROM generate_series(1, 300) g"),
    (2, "shop", "INSERT INTO orders VALUES (1001, 'AT', 25.5), (1002, 'FR', 99)"),
    (2, "shop", "CREATE VIEW large AS SELECT id FROM orders WHERE total > 200"),
    (2, "shop", "CREATE SEQUENCE numbers START 7"),
    (2, "shop", "SELECT nextval('numbers')"),
    (2, "shop", "CREATE PUBLICATION wanted FOR TABLE orders (id, total) WHERE (id > 250)"),
    (2, "shop", "GRANT SELECT ON orders TO clerk"),
    (2, "shop", "CREATE TABLE days (day date, n int) PARTITION BY RANGE (day)"),
    (2, "shop", "CREATE TABLE days_26 PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')"),
    (2, "shop", "INSERT INTO days VALUES ('2026-05-04', 1)"),
    (2, "reports", "CREATE TABLE orders (id int PRIMARY KEY, total numeric(10,2))"),
    (2, "reports", "CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=shop' PUBLICATION wanted"),
    (2, "reports", "SELECT count(*) FROM orders"),
    (2, "shop", "UPDATE orders SET total = total + 1 WHERE id > 299"),
    (2, "shop", "DELETE FROM orders WHERE id = 10"),
    (9, "shop", "CREATE TYPE mood AS ENUM ('sad', 'glad')"),
    (9, "shop", "CREATE DOMAIN positive AS int CHECK (VALUE > 0)"),
    (9, "shop", "CREATE TABLE feelings (m mood, p positive)"),
    (9, "shop", "INSERT INTO feelings VALUES ('glad', 1)"),
    (10, "shop", "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO clerk"),
]


def keep(work: Path) -> Path:
    """The file that is made by the pgrepl on PYTHONPATH, or in this folder."""
    folder = work / "catalog"
    folder.mkdir()
    code = "import sys; from pgrepl.cli import main; main(sys.argv[1:])"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environment["PYTHONPATH"] = os.environ.get("PYTHONPATH") or str(Path(__file__).resolve().parents[2])

    def pgrepl(*arguments: str) -> None:
        subprocess.run([sys.executable, "-P", "-c", code, *arguments], cwd=folder, env=environment, check=True)

    pgrepl("-X", "-q", "-c", "SELECT 1")
    version = _format(folder)
    for since, database, text in MADE:
        if since <= version:
            pgrepl("-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", text)
    with closing(sqlite3.connect(folder / "catalog.db")) as link:
        link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    target = FOLDER / f"{version}.tar.xz"
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not re.search(r"-(wal|shm)$|\.locks|\.lock", path.name):
                archive.add(path, path.relative_to(folder).as_posix(), filter=_nobodys)
    return target


def _format(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "catalog.db")) as link:
        return int(link.execute("PRAGMA user_version").fetchone()[0])


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(keep(Path(made)))
