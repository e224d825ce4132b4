"""Spark 3.5 with Iceberg reads tables of a server by REST (tests/harness/iceberg_spark.py says what it needs)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import iceberg_spark
from tests.harness.serving import serving
from tests.postgres.server import free_port

pytestmark = pytest.mark.slow

TABLES = """
CREATE TABLE orders (id bigint PRIMARY KEY, country text, total numeric(9,2), at timestamptz, tags text[]);
CREATE ROLE ann LOGIN PASSWORD 'of ann';
GRANT SELECT ON orders TO ann;
CREATE TABLE hidden (a int);
INSERT INTO orders SELECT g, 'DE', g * 1.5, '2026-01-01Z', ARRAY['a', g::text] FROM generate_series(1, 500) g;
DELETE FROM orders WHERE id <= 100;
UPDATE orders SET country = 'AT' WHERE id = 200;
INSERT INTO orders VALUES (1000);
ALTER TABLE orders RENAME country TO land;
ALTER TABLE orders ADD note text DEFAULT 'new'
"""


def test_spark(tmp_path: Path) -> None:
    port = free_port()
    rules = "local all all trust\nhost all ann 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
    with serving(tmp_path, "--iceberg", str(port), rules=rules) as served:
        served.ask("CREATE DATABASE shop")
        with served.connect(dbname="shop") as con:
            for text in TABLES.split(";\n"):
                con.execute(text)
            query = "SELECT id, land, total, tags[2], note FROM {} WHERE id > 198 ORDER BY id"
            rows = [[str(value) for value in row] for row in con.execute(query.format("orders")).fetchall()]
        settings = {}
        for name, more in (("lake", {}), ("shop", {"warehouse": "shop", "credential": "ann:of ann"})):
            given = {"type": "rest", "uri": f"http://127.0.0.1:{port}", **more}
            settings[f"spark.sql.catalog.{name}"] = "org.apache.iceberg.spark.SparkCatalog"
            settings |= {f"spark.sql.catalog.{name}.{option}": value for option, value in given.items()}
        query = query.replace("tags[2]", "tags[1]")
        answers = iceberg_spark.asked(
            tmp_path,
            settings,
            [
                query.format("lake.shop.orders"), query.format("shop.public.orders"),
                "SHOW TABLES IN shop.public", "SELECT count(*) > 1 FROM lake.shop.orders.snapshots",
                "SELECT count(*) FROM shop.public.orders.files WHERE content = 1", "SELECT * FROM shop.public.hidden",
                "INSERT INTO shop.public.orders SELECT * FROM shop.public.orders",
                "CREATE TABLE shop.public.mine (a int)",
            ],
        )  # fmt: skip
    assert answers[:2] == [rows, rows]
    assert answers[2:5] == [[["public", "orders", "False"]], [["True"]], [["1"]]]
    assert "TABLE_OR_VIEW_NOT_FOUND" in answers[5]
    assert all("Server does not support endpoint" in answer for answer in answers[6:])
