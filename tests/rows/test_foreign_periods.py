"""Foreign keys with PERIOD in large statements and in subscriptions, and how they check existing rows. What 18 says of
ordinary statements is compared in tests/postgres."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.database import Database
from tests.harness.pair import Pair

SETTINGS = {"pgrepl.postgres_version": "18"}
TABLES = (
    "CREATE TABLE t (id int, v int4range, PRIMARY KEY (id, v WITHOUT OVERLAPS))",
    "CREATE TABLE f (n int, id int, v int4range, CONSTRAINT fk FOREIGN KEY (id, PERIOD v) REFERENCES t)",
)
MISSING = 'insert or update on table "{}" violates foreign key constraint "fk"\n'


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(tmp_path / "here", settings=SETTINGS)
    made(*TABLES, "INSERT INTO t SELECT 1, int4range(n, n + 10) FROM generate_series(0, 990, 10) n")
    return made


@pytest.mark.usefixtures("spark")
def test_a_large_statement_is_checked_row_by_row(database: Database) -> None:
    database("INSERT INTO f SELECT n, 1, int4range(n, n + 15) FROM generate_series(0, 980) n")
    database("SET pgrepl.local_rows = 0")
    database("UPDATE f SET v = int4range(n + 4, n + 19)")
    assert database.says("UPDATE f SET v = int4range(n + 10, n + 25)") == (
        MISSING.format("f") + 'Key (id, v)=(1, [986,1001)) is not present in table "t".'
    )
    assert "[990,1000)) is still referenced" in database.says("DELETE FROM t WHERE lower(v) >= 990")
    database("DELETE FROM t WHERE upper(v) < 5")
    declined = database("SELECT DISTINCT declined FROM pgrepl_stat_engine WHERE declined LIKE '%PERIOD%'")
    assert declined == [("a foreign key with PERIOD",)]


@pytest.mark.parametrize("lock", ["SELECT 1", "SELECT txid_current()", "TRUNCATE f"])
@pytest.mark.parametrize("many", [1, 3000])
def test_a_period_of_this_transaction_cannot_shrink_to_nothing(database: Database, lock: str, many: int) -> None:
    """That of an older row can: it references no more than before. In tables of rows in the catalog and in files."""
    database(f"INSERT INTO f SELECT -n, 1, '[0,5)' FROM generate_series(1, {many}) n")
    wrong = MISSING.format("f") + 'Key (id, v)=(1, empty) is not present in table "t".'
    own = f"INSERT INTO f SELECT n, 1, '[0,5)' FROM generate_series(1, {many}) n"
    old = "UPDATE f SET v = 'empty' WHERE n = -1"
    database("BEGIN", lock, old, own, "SAVEPOINT s")
    assert database.says("UPDATE f SET v = 'empty' WHERE n = 1") == wrong
    database("ROLLBACK TO s", "UPDATE f SET v = '[1,3)' WHERE n = 1", "SAVEPOINT s")
    assert database.says("UPDATE f SET v = 'empty' WHERE n = 1") == wrong
    database("ROLLBACK TO s", "COMMIT", "UPDATE f SET v = 'empty' WHERE n = 1")


def test_existing_rows_must_be_covered_however_they_come_under_a_key(database: Database) -> None:
    database(
        "ALTER TABLE f DROP CONSTRAINT fk",
        "INSERT INTO f VALUES (1, 1, '[0,20)'), (2, NULL, 'empty'), (3, 1, '[995,1001)')",
        "ALTER TABLE f ADD CONSTRAINT fk FOREIGN KEY (id, PERIOD v) REFERENCES t NOT VALID",
    )
    wrong = MISSING.format("f") + 'Key (id, v)=(1, [995,1001)) is not present in table "t".'
    assert database.says("ALTER TABLE f VALIDATE CONSTRAINT fk") == wrong
    database("ALTER TABLE f ALTER CONSTRAINT fk NOT ENFORCED")
    assert database.says("ALTER TABLE f ALTER CONSTRAINT fk ENFORCED") == wrong
    database("CREATE TABLE p (LIKE f, CONSTRAINT fk FOREIGN KEY (id, PERIOD v) REFERENCES t) PARTITION BY LIST (n)")
    database("ALTER TABLE f DROP CONSTRAINT fk")
    assert database.says("ALTER TABLE p ATTACH PARTITION f DEFAULT") == wrong
    database("DELETE FROM f WHERE n = 3", "ALTER TABLE p ATTACH PARTITION f DEFAULT")


def test_a_subscription_checks_where_the_triggers_are_for_replicas(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for statement in ("SET pgrepl.postgres_version = 18", *TABLES, "ALTER TABLE f REPLICA IDENTITY FULL"):
        pair.both(statement)
    pair.pub("CREATE PUBLICATION p FOR TABLE t, f")
    pair.pub("INSERT INTO t VALUES (1, '[0,10)'), (1, '[10,20)')")
    for table, name in pair.sub("SELECT tgrelid::regclass, tgname FROM pg_trigger"):
        pair.sub(f'ALTER TABLE {table} ENABLE ALWAYS TRIGGER "{name}"')
    pair.subscribe()
    pair.pub("INSERT INTO f VALUES (1, 1, '[5,15)')", "UPDATE f SET v = '[5,12)'")
    assert pair.catch_up() == []
    pair.pub("ALTER TABLE f DROP CONSTRAINT fk", "DELETE FROM t WHERE v = '[10,20)'")
    [(message, detail, _)] = pair.catch_up()
    assert message == 'update or delete on table "t" violates foreign key constraint "fk" on table "f"'
    assert detail == 'Key (id, v)=(1, [10,20)) is still referenced from table "f".'
    assert pair.sub("SELECT v FROM f") == [("[5,12)",)]
