"""How many rows a copy would take is what it takes: by the files, one by one, and by Spark. How many changes a backlog
has, by the files."""

from __future__ import annotations

import pytest

from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.transaction import reading
from pgrepl.replication.publisher.lake import backlog, copy
from pgrepl.replication.publisher.lake.copy import published_copy, published_count
from tests.harness.pair import Pair

TABLES = ["t", "parts", "empty"]


def setup(pair: Pair) -> None:
    pub = pair.pub
    pub("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE empty (a int)")
    pub("CREATE TABLE parts (a int, b text) PARTITION BY LIST (a)")
    pub("CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE part2 PARTITION OF parts DEFAULT")
    pub("INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 500) g")
    pub("INSERT INTO parts SELECT g % 3, g::text FROM generate_series(1, 300) g")
    pub("DELETE FROM t WHERE a % 7 = 0; UPDATE t SET b = NULL WHERE a % 5 = 0; DELETE FROM parts WHERE b LIKE '%1'")
    pub("INSERT INTO t VALUES (-1, 'few'), (-2, 'few'); DELETE FROM t WHERE a = -2")


def both_ways(pair: Pair, publication: str) -> dict[str, int]:
    counted = {}
    with reading(pair.pub.session):
        for name in TABLES:
            counted[name] = published_count(pair.pub.session, "public", name, [publication])
            assert counted[name] == sum(1 for _ in published_copy(pair.pub.session, "public", name, [publication]).rows)
    return counted


def test_what_is_not_filtered_is_counted_by_the_files(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    setup(pair)
    pair.pub("CREATE PUBLICATION p FOR TABLE t, parts, empty WITH (publish_via_partition_root = true)")
    assert both_ways(pair, "p") == {"t": 430, "parts": 270, "empty": 0}
    monkeypatch.setattr(copy.local, "rows", None)
    with reading(pair.pub.session):
        assert published_count(pair.pub.session, "public", "t", ["p"]) == 430


def test_what_is_filtered_is_counted_by_its_rows(pair: Pair) -> None:
    setup(pair)
    pair.pub(
        "CREATE PUBLICATION p FOR TABLE t (a) WHERE (a > 100), parts WHERE (a = 1), empty WHERE (a = 1) "
        "WITH (publish_via_partition_root = true, publish = 'insert')"
    )
    assert (here := both_ways(pair, "p"))["t"] == 400 - 57
    pair.pub("SET pgrepl.local_rows = 0")
    assert both_ways(pair, "p") == here


def test_a_large_backlog_counts_a_delete_file_that_has_earlier_deletions_too(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pub = pair.pub
    pub("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    pub("INSERT INTO t SELECT generate_series(1, 5000)")
    pub("DELETE FROM t WHERE a <= 300")
    with reading(pub.session):
        start = current_lsn(pub.session)
    pub("DELETE FROM t WHERE a <= 700")
    pub("INSERT INTO t SELECT generate_series(5001, 7000)")
    monkeypatch.setattr(backlog, "COUNTED", 1000)
    with reading(pub.session):
        found = backlog.backlog(pub.session, ["p"], start, current_lsn(pub.session), local_only=False)
    assert (found.transactions, found.changes, found.exact) == (2, 2000 + 700, False)
