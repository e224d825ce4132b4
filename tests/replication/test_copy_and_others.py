"""What somebody else does to the target while its rows are copied: those that were checked before are checked again."""

from __future__ import annotations

import pytest

from pgrepl.replication.subscriber.copying import copy
from tests.harness.pair import Pair

_ROWS = [("1", "x"), ("2", "x"), ("3", None)]


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        (
            "ALTER TABLE t ADD CHECK (a < 2)",
            (
                'new row for relation "t" violates check constraint "t_a_check"',
                "Failing row contains (2, x).",
                'COPY t, line 2: "2\tx"',
            ),
        ),
        (
            "ALTER TABLE t ADD UNIQUE (b)",
            (
                'duplicate key value violates unique constraint "t_b_key"',
                "Key (b)=(x) already exists.",
                "COPY t, line 2",
            ),
        ),
        (
            "CREATE UNIQUE INDEX i ON t (b)",
            ('duplicate key value violates unique constraint "i"', "Key (b)=(x) already exists.", "COPY t, line 2"),
        ),
        ("REVOKE INSERT ON t FROM r", ("permission denied for table t", None, None)),
        (
            "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            ('user "r" cannot replicate into relation with row-level security enabled: "t"', None, None),
        ),
    ],
)
def test_what_others_have_defined_meanwhile_counts(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, meanwhile: str, error: tuple[str, str | None, str | None]
) -> None:
    pair.both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.pub("INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, NULL); CREATE PUBLICATION p FOR TABLE t")
    pair.sub(
        "CREATE ROLE r LOGIN; GRANT pg_create_subscription TO r; GRANT CREATE ON DATABASE sub TO r; "
        "GRANT INSERT, SELECT ON t TO r"
    )
    pair.sub(
        "CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p "
        "WITH (run_as_owner, password_required = false)"
    )
    pair.sub("ALTER SUBSCRIPTION s OWNER TO r")
    waiting = [meanwhile]

    def step(name: str) -> None:
        if name == "copy.received" and waiting:
            pair.sub(waiting.pop())

    monkeypatch.setattr(copy, "crash_point", step)
    assert pair.catch_up() == [error]
    assert pair.sub("SELECT * FROM t") == []
    pair.sub("ALTER TABLE t DISABLE ROW LEVEL SECURITY; ALTER TABLE t DROP CONSTRAINT IF EXISTS t_a_check")
    pair.sub("ALTER TABLE t DROP CONSTRAINT IF EXISTS t_b_key; DROP INDEX IF EXISTS i; GRANT INSERT ON t TO r")
    assert pair.catch_up() == []
    assert pair.sub("SELECT * FROM t ORDER BY a") == _ROWS


def test_a_partitioned_root_changes_meanwhile(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right is gone: the copy ends. A partition has come: the rows that were routed go elsewhere."""
    pair.pub("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (15, 'y')")
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.sub("CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)")
    pair.sub("CREATE TABLE rest PARTITION OF t DEFAULT")
    pair.sub("CREATE ROLE r LOGIN; GRANT pg_create_subscription TO r; GRANT CREATE ON DATABASE sub TO r")
    pair.sub("GRANT INSERT, SELECT ON t TO r")
    pair.sub(
        "CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=pub' PUBLICATION p "
        "WITH (run_as_owner, password_required = false)"
    )
    pair.sub("ALTER SUBSCRIPTION s OWNER TO r")
    waiting = ["CREATE TABLE tens PARTITION OF t FOR VALUES FROM (10) TO (20)", "REVOKE INSERT ON t FROM r"]

    def step(name: str) -> None:
        if name == "copy.received" and waiting:
            pair.sub(waiting.pop())

    monkeypatch.setattr(copy, "crash_point", step)
    assert pair.catch_up() == [("permission denied for table t", None, None)]
    pair.sub("GRANT INSERT ON t TO r")
    assert pair.catch_up() == []
    assert pair.sub("SELECT tableoid::regclass, * FROM t ORDER BY a") == [("rest", "1", "x"), ("tens", "15", "y")]
