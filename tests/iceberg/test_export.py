"""`pgrepl iceberg export`: folders and buckets for readers without a catalog."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.forked import pgrepl
from tests.harness.programs import eventually, started
from tests.iceberg.readers import duck, pyiceberg_rows

MADE = """CREATE TABLE orders (id int, what text);
INSERT INTO orders VALUES (1, 'a'), (2, 'b');
CREATE SCHEMA sales;
CREATE TABLE sales.items (a int);
INSERT INTO sales.items SELECT generate_series(1, 200);
CREATE VIEW v AS SELECT 1;
CREATE ROLE anna LOGIN;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    assert pgrepl("-q", "-c", "CREATE DATABASE shop", cwd=tmp_path).returncode == 0
    assert pgrepl("-q", "-d", "shop", "-c", MADE, cwd=tmp_path).returncode == 0
    return tmp_path


def sql(shop: Path, text: str) -> None:
    assert pgrepl("-q", "-d", "shop", "-c", text, cwd=shop).stderr == ""


def export(shop: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    done = pgrepl("iceberg", "export", "-d", "shop", *arguments, cwd=shop, **variables)
    return done.returncode, done.stdout.replace(str(shop), "."), done.stderr


def scanned(folder: Path) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = duck().sql(f"SELECT * FROM iceberg_scan('{folder}') ORDER BY 1").fetchall()
    return found


def test_all_tables_of_a_database(shop: Path) -> None:
    lines = [
        "shop.orders to ./catalog.db.iceberg/shop/orders: version ",
        "shop.sales.items to ./catalog.db.iceberg/shop.sales/items: version ",
    ]
    assert export(shop) == (0, "".join([f"exported {line}1\n" for line in lines]), "")
    assert export(shop) == (0, "".join([f"unchanged {line}1\n" for line in lines]), "")
    sql(shop, "DELETE FROM orders WHERE id = 1")
    _, told, _ = export(shop, "--json")
    assert [(each["table"], each["version"], each["is_new"]) for each in map(json.loads, told.splitlines())] == [
        ("shop.orders", 2, True), ("shop.sales.items", 1, False),
    ]  # fmt: skip
    folder = shop / "catalog.db.iceberg" / "shop" / "orders"
    assert scanned(folder) == [(2, "b")]
    assert pyiceberg_rows(str(folder)) == [(2, "b")]
    assert (folder / "metadata" / "version-hint.text").read_text() == "2"


def test_some_tables_elsewhere(shop: Path) -> None:
    code, told, _ = export(shop, "sales.items", "--to", "out")
    assert (code, told) == (0, "exported shop.sales.items to ./out/shop.sales/items: version 1\n")
    assert len(scanned(shop / "out" / "shop.sales" / "items")) == 200
    assert not (shop / "catalog.db.iceberg").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("v",), 1, 'ERROR:  "v" cannot be an Iceberg table\nDETAIL:  This operation is not supported for views.\n'),
        (("pg_class",), 1, 'ERROR:  "pg_class" cannot be an Iceberg table\nDETAIL:  It is a system catalog.\n'),
        (("nosuch",), 1, 'ERROR:  relation "nosuch" does not exist\n'),
        (('"',), 1, 'ERROR:  invalid name syntax: """\n'),
        (("orders", "-U", "anna"), 1, "ERROR:  permission denied for table orders\n"),
        (("--to", "catalog.db.files/x"), 1, 'ERROR:  "catalog.db.files/x" is in the data folder\n'),
        (("--catalog", "none.db"), 2, 'pgrepl: error: connection to catalog "none.db" failed'),
        (("--to", ""), 2, "Usage: pgrepl iceberg export "),
        (("--follow", "--interval", "nan"), 2, "Usage: pgrepl iceberg export "),
        (("--interval", "1"), 2, "Usage: pgrepl iceberg export "),
        (("--to", "/proc/nowhere"), 1, 'ERROR:  could not write file "/proc/nowhere'),
    ],
)
def test_what_cannot_be_exported(shop: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = export(shop, *arguments)
    assert (done[0], done[1]) == (code, "")
    assert done[2].startswith(said), done[2]


def test_a_role_exports_what_it_may_read(shop: Path) -> None:
    assert export(shop, "-U", "anna") == (0, "", "there are no tables to export\n")


def test_a_table_that_cannot_be_exported_does_not_keep_others_from_it(shop: Path) -> None:
    with closing(sqlite3.connect(shop / "catalog.db")) as link, link:
        link.execute("UPDATE ducklake_data_file SET encryption_key = 'k'")  # orders are inlined
    sql(shop, "CREATE TABLE zero (a int)")
    code, told, errors = export(shop)
    assert [line.split()[1] for line in told.splitlines()] == ["shop.orders", "shop.zero"]
    assert (code, errors) == (
        1, 'ERROR:  an encrypted data file is not supported\nCONTEXT:  export of table "shop.sales.items"\n',
    )  # fmt: skip


def test_a_follower_exports_what_changes(shop: Path) -> None:
    with started("iceberg", "export", "-d", "shop", "--follow", "--interval", "0.1", cwd=shop) as follower:
        hint = shop / "catalog.db.iceberg" / "shop" / "orders" / "metadata" / "version-hint.text"
        eventually(lambda: hint.exists() and hint.read_text() == "1")
        sql(shop, "INSERT INTO orders VALUES (3, 'c')")
        eventually(lambda: hint.read_text() == "2")
        sql(shop, "CREATE TABLE late (a int)")
        eventually(lambda: (shop / "catalog.db.iceberg" / "shop" / "late").exists())
        assert len(scanned(hint.parent.parent)) == 3
        follower.send_signal(signal.SIGINT)
        assert follower.wait(30) == 0
