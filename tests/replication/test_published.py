"""Publications seen from their databases: what they name, and nobody else's tables."""

from __future__ import annotations

from tests.harness.pair import Pair


def test_a_publication_of_a_schema_is_one_of_its_database(pair: Pair) -> None:
    """`public` has one OID in all databases."""
    pair.both("CREATE TABLE t (a int)")
    pair.pub("CREATE PUBLICATION p FOR TABLES IN SCHEMA public")
    pair.sub("INSERT INTO t VALUES (1); UPDATE t SET a = 2; DELETE FROM t")
    assert pair.sub("SELECT * FROM t") == []


def test_catalogs_show_what_is_of_their_database(pair: Pair) -> None:
    pair.both("CREATE TABLE t (a int)")
    pair.pub("CREATE PUBLICATION p FOR TABLES IN SCHEMA public")
    pair.subscribe()
    counted = "SELECT (SELECT count(*) FROM pg_publication_namespace), (SELECT count(*) FROM pg_subscription_rel)"
    assert (pair.pub(counted), pair.sub(counted)) == ([("1", "0")], [("0", "1")])
