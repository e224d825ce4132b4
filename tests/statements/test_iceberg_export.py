"""Followers export databases as Iceberg tables: `ALTER DATABASE … SET pgrepl.iceberg_export = on`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.catalog.facts.subscription import add_subscription_relation, subscription_by_name
from pgrepl.catalog.session.transaction import statement
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows
from pgrepl.statements.upkeep import background
from pgrepl.statements.upkeep.background import IcebergExport, IcebergExporter
from tests.harness.database import Database
from tests.harness.programs import eventually
from tests.iceberg.readers import pyiceberg_rows


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "here", "shop", new=True) as made:
        made("CREATE TABLE orders (id int, what text)", "INSERT INTO orders VALUES (1, 'tea')")
        yield made


def hint(db: Database, name: str = "shop/orders") -> str | None:
    path = db.folder / "catalog.db.iceberg" / name / "metadata" / "version-hint.text"
    return path.read_text() if path.exists() else None


def test_databases_with_the_setting_are_exported(shop: Database) -> None:
    exports = IcebergExport(shop.session, shop.log)
    assert (exports.look(), hint(shop)) == (10, None)
    shop("ALTER DATABASE shop SET pgrepl.iceberg_export = on")
    exports.look()
    exports.look()
    assert hint(shop) == "1"
    shop("INSERT INTO orders VALUES (2, 'cake')")
    exports.look()
    assert hint(shop) == "2"
    assert pyiceberg_rows(str(shop.folder / "catalog.db.iceberg" / "shop" / "orders")) == [(1, "tea"), (2, "cake")]
    assert not (shop.folder / "catalog.db.iceberg" / "postgres").exists()
    shop("ALTER DATABASE shop RESET pgrepl.iceberg_export", "INSERT INTO orders VALUES (3, 'milk')")
    exports.look()
    assert (hint(shop), shop.log.errors) == ("2", [])


def test_the_setting_is_of_databases_and_the_system(shop: Database) -> None:
    shop("CREATE ROLE ann", "SET ROLE ann")
    assert shop.says("SET pgrepl.iceberg_export = on") == 'permission denied to set parameter "pgrepl.iceberg_export"'
    shop("RESET ROLE")
    exports = IcebergExport(shop.session, shop.log)
    shop("ALTER SYSTEM SET pgrepl.iceberg_export = on", "ALTER SYSTEM SET pgrepl.iceberg_export_naptime = '1min'")
    assert (exports.look(), hint(shop)) == (60, "1")
    shop("ALTER SYSTEM RESET pgrepl.iceberg_export", "INSERT INTO orders VALUES (2, 'cake')")
    exports.look()
    assert hint(shop) == "1"


def test_an_error_of_one_table_is_logged_once(shop: Database) -> None:
    shop("ALTER DATABASE shop SET pgrepl.iceberg_export = on", "CREATE TABLE hidden (a int)")
    shop("INSERT INTO hidden SELECT generate_series(1, 200)")
    with closing(sqlite3.connect(shop.folder / "catalog.db")) as link, link:
        link.execute("UPDATE ducklake_data_file SET encryption_key = 'k'")
    exports = IcebergExport(shop.session, shop.log)
    exports.look()
    exports.look()
    ((message, _, context),) = shop.log.errors
    assert (message, context) == ("an encrypted data file is not supported", 'export of table "shop.hidden"')
    assert hint(shop) == "1"


def test_a_follower_looks_again_and_again(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_FIRST", 0.0)
    shop("ALTER DATABASE shop SET pgrepl.iceberg_export = on", "ALTER SYSTEM SET pgrepl.iceberg_export_naptime = 1")
    exporter = IcebergExporter(shop.session, shop.log)
    exporter.start()
    try:
        eventually(lambda: hint(shop) == "1")
        shop("INSERT INTO orders VALUES (2, 'cake')")
        eventually(lambda: hint(shop) == "2")
    finally:
        exporter.stop()
    assert shop.log.errors == []


def test_a_standby_is_exported_by_its_primary(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    shop("ALTER DATABASE shop SET pgrepl.iceberg_export = on")
    monkeypatch.setattr(background, "in_recovery", lambda _: True)
    IcebergExport(shop.session, shop.log).look()
    assert hint(shop) is None


def test_the_tables_of_some_subscriptions(shop: Database) -> None:
    shop(
        'CREATE SCHEMA "Odd"', 'CREATE TABLE "Odd".items (a int)', "CREATE TABLE other (a int)",
        "CREATE DATABASE source", "CREATE PUBLICATION p FOR TABLE orders",
        "CREATE SUBSCRIPTION s CONNECTION 'dbname=source' PUBLICATION p WITH (connect = false, slot_name = none)",
        "CREATE SUBSCRIPTION \"S 2\" CONNECTION 'dbname=source' PUBLICATION p WITH (connect = false, slot_name = none)",
        "ALTER DATABASE shop SET pgrepl.iceberg_export = 's, \"S 2\"'",
    )  # fmt: skip
    with statement(shop.session, writes=True):
        for name, table in (("s", "orders"), ("S 2", "items")):
            subscription = subscription_by_name(shop.session, name)
            (row,) = rows(shop.session, tables.pg_class, relname=table)
            add_subscription_relation(shop.session, subscription.oid, row.oid, "r")
    exports = IcebergExport(shop.session, shop.log)
    exports.look()
    assert (hint(shop), hint(shop, "shop.Odd/items"), hint(shop, "shop/other")) == ("1", "1", None)
    shop("ALTER DATABASE shop SET pgrepl.iceberg_export = nothing")
    exports.look()
    exports.look()
    assert [message for message, _, _ in shop.log.errors] == ['subscription "nothing" does not exist']
    assert shop.says("SET pgrepl.iceberg_export = 'a b'").startswith(
        'invalid value for parameter "pgrepl.iceberg_export"'
    )
    shop("SET pgrepl.iceberg_export = true")
    assert shop.session.settings.get("pgrepl.iceberg_export") == "on"
