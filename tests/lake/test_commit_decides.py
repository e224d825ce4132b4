"""What a commit decides: whose changes come between, who waits for whom, and where pending rows end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.locks.lock_table import LockKind, RelationMode, RowMode
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.lake import commit
from pgrepl.lake.commit import LockedByOthers, Stale
from pgrepl.lake.read.data_file import PROVISIONAL
from pgrepl.lake.write.statement import Write
from pgrepl.statements.run import run
from tests.harness.database import ask
from tests.lake.conftest import Lake

ROWS = 300


@pytest.fixture
def table(lake: Lake) -> Lake:
    """300 rows in a file, 3 in the catalog; another table."""
    lake.sql(
        "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE other (a int);"
        f"INSERT INTO t SELECT g, 'old' FROM generate_series(1, {ROWS}) g;"
        "INSERT INTO t VALUES (1001, 'in'), (1002, 'in'), (1003, 'in')"
    )
    return lake


@pytest.fixture
def beside(table: Lake) -> Iterator[Session]:
    """Another session."""
    with closing(open_session(table.catalog)) as session:
        yield session


def rows(session: Session, condition: str = "true") -> list[tuple[str | None, ...]]:
    return ask(session, f"SELECT a, b FROM t WHERE {condition} ORDER BY a")


# --- pending changes --------------------------------------------------------------------------------------------------


def test_rows_of_a_block_are_changed_again_before_they_have_their_ids(table: Lake, beside: Session) -> None:
    """150 new rows are in a file, 3 in the catalog; both are updated and deleted by their provisional ids."""
    table.sql("BEGIN; INSERT INTO t SELECT g, 'file' FROM generate_series(2001, 2150) g")
    table.sql("INSERT INTO other VALUES (1), (2)")
    table.sql("INSERT INTO t VALUES (3001, 'row'), (3002, 'row'), (3003, 'row')")
    list(run(beside, "INSERT INTO t SELECT g, 'beside' FROM generate_series(4001, 4150) g"))
    table.sql("UPDATE t SET b = 'new' WHERE a IN (5, 1001, 2001, 2150, 3001)")
    table.sql("DELETE FROM t WHERE a IN (6, 1002, 2002, 3002)")
    table.sql("UPDATE t SET b = 'newer' WHERE a IN (2150, 3001); INSERT INTO t VALUES (5001, 'last')")
    inside = rows(table.session, "a < 4000 OR a > 5000")
    table.sql("COMMIT")
    assert rows(table.session, "a < 4000 OR a > 5000") == inside == rows(beside, "a < 4000 OR a > 5000")
    assert len(rows(beside)) == ROWS + 3 + 150 + 3 + 150 - 4 + 1
    assert rows(beside, "b LIKE 'new%'") == [
        ("5", "new"), ("1001", "new"), ("2001", "new"), ("2150", "newer"), ("3001", "newer"),
    ]  # fmt: skip
    row_ids = [row[0] for row in table.rows("t", row_ids=True)]
    assert len(set(row_ids)) == len(row_ids) and max(map(int, row_ids)) < PROVISIONAL


def test_ids_are_those_of_the_write_that_made_them() -> None:
    """Two writes of a table, between which another table got provisional ids: the second one has two files."""
    ids, rows, files = commit._Ids(), PROVISIONAL, PROVISIONAL
    ids.add(SimpleNamespace(files=[SimpleNamespace(record_count=3)], rows=[()]), rows, files, (40, [7]))  # type: ignore[arg-type]
    second = SimpleNamespace(files=[SimpleNamespace(record_count=2)] * 2, rows=[])
    ids.add(second, rows + 10, files + 4, (90, [9, 11]))  # type: ignore[arg-type]
    ids.add(SimpleNamespace(files=[], rows=[]), rows + 14, files + 6, (94, []))  # type: ignore[arg-type]
    assert [ids.row(rows + n) for n in (0, 3, 10, 13)] == [40, 43, 90, 93]
    assert [ids.file(files + n) for n in (0, 4, 5)] == [7, 9, 11]
    assert (ids.row(5), ids.file(6)) == (5, 6)
    assert len(ids.rows) == 2


def test_many_deletes_of_a_block_are_in_a_delete_file(table: Lake) -> None:
    table.sql("BEGIN; DELETE FROM t WHERE a <= 200; COMMIT")
    number = table.table("t").table_id
    (counts,) = table.query("SELECT count(*), sum(delete_count) FROM ducklake_delete_file WHERE table_id = ?", number)
    assert tuple(map(int, counts)) == (1, 200)
    assert len(rows(table.session)) == ROWS - 200 + 3


@pytest.mark.parametrize("columns", ["id int, at place", "at place"])
def test_a_composite_type_gets_an_attribute_meanwhile(table: Lake, beside: Session, columns: str) -> None:
    table.sql(f"CREATE TYPE place AS (x int); CREATE TABLE places ({columns})")
    table.sql("INSERT INTO places (at) VALUES ('(1)'); BEGIN; INSERT INTO places (at) VALUES ('(2)'), (NULL)")
    table.sql("UPDATE places SET at = '(3)' WHERE (at).x = 1")
    list(run(beside, "ALTER TYPE place ADD ATTRIBUTE y int"))
    table.sql("COMMIT")
    expected: list[tuple[str | None, ...]] = [("(2,)",), ("(3,)",), (None,)]
    for session in (table.session, beside):
        assert ask(session, "SELECT at FROM places ORDER BY (at).x") == expected


def test_a_savepoint_takes_back_what_was_pending_behind_it(table: Lake) -> None:
    table.sql("BEGIN; INSERT INTO t VALUES (2001, 'one'); UPDATE t SET b = 'one' WHERE a IN (1, 1001)")
    table.sql("SAVEPOINT s; UPDATE t SET b = 'two' WHERE a IN (1, 2001); INSERT INTO t VALUES (2002, 'two')")
    table.sql("DELETE FROM t WHERE a = 1001")
    before = rows(table.session, "a > 1000 OR a = 1")
    table.sql("ROLLBACK TO s")
    assert rows(table.session, "b = 'two'") == []
    assert rows(table.session, "b = 'one'") == [("1", "one"), ("1001", "one"), ("2001", "one")]
    table.sql("ROLLBACK TO s; INSERT INTO t VALUES (2003, 'three'); UPDATE t SET b = 'three' WHERE a = 2003; COMMIT")
    assert before != rows(table.session, "a > 1000 OR a = 1")
    assert rows(table.session, "b IN ('one', 'three')") == [
        ("1", "one"), ("1001", "one"), ("2001", "one"), ("2003", "three"),
    ]  # fmt: skip


def test_a_statement_that_fails_leaves_the_earlier_ones_pending(table: Lake) -> None:
    table.sql("BEGIN; INSERT INTO t VALUES (2001, 'one'); SAVEPOINT s")
    with pytest.raises(PgError, match="duplicate key"):
        table.sql("INSERT INTO t VALUES (2002, 'two'), (2001, 'two')")
    table.sql("ROLLBACK TO s; INSERT INTO t VALUES (2003, 'three'); COMMIT")
    assert rows(table.session, "a > 2000") == [("2001", "one"), ("2003", "three")]


def test_what_a_failed_statement_has_written_is_not_pending(table: Lake) -> None:
    """Its AFTER trigger fails when its rows are pending already."""
    table.sql(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';"
        "CREATE TRIGGER x AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION fail()"
    )
    table.sql("BEGIN; SAVEPOINT s")
    with pytest.raises(PgError, match="no"):
        table.sql("INSERT INTO other VALUES (1)")
    table.sql("ROLLBACK TO s")
    assert ask(table.session, "SELECT * FROM other") == []
    table.sql("INSERT INTO t VALUES (2001, 'x'); COMMIT")
    assert (ask(table.session, "SELECT * FROM other"), rows(table.session, "a > 2000")) == ([], [("2001", "x")])


def test_rows_that_vacuum_has_moved_are_found_again(table: Lake, beside: Session) -> None:
    table.sql("BEGIN; UPDATE t SET b = 'new' WHERE a IN (5, 1001); DELETE FROM t WHERE a IN (6, 1002)")
    list(run(beside, "DELETE FROM t WHERE a < 5"))
    list(run(beside, "VACUUM t"))
    table.sql("COMMIT")
    assert rows(beside, "a < 8 OR a > 1000") == [("5", "new"), ("7", "old"), ("1001", "new"), ("1003", "in")]
    assert len(rows(beside)) == ROWS - 4 + 3 - 2


@pytest.mark.parametrize("key", [5, 1001])
def test_a_row_that_duckdb_has_deleted_meanwhile_is_not_deleted_again(table: Lake, key: int) -> None:
    table.sql(f"BEGIN; DELETE FROM t WHERE a = {key}")
    table.duck_runs(f"DELETE FROM postgres.t WHERE a = {key}")
    with pytest.raises(PgError, match="could not serialize access due to concurrent delete") as error:
        table.sql("COMMIT")
    assert error.value.sqlstate == "40001"


# --- who comes between ------------------------------------------------------------------------------------------------

CHANGES = {
    "nothing": ("SELECT 1", False, False),
    "rows of another table": ("INSERT INTO other VALUES (1)", False, False),
    "the other table's definition": ("ALTER TABLE other ADD COLUMN b int", False, False),
    "an insertion": ("INSERT INTO t VALUES (2001, 'x')", True, False),
    "many rows": ("INSERT INTO t SELECT g, '' FROM generate_series(2001, 2200) g", True, False),
    "a deletion": ("DELETE FROM t WHERE a = 7", True, False),
    "a privilege": ("GRANT SELECT ON t TO PUBLIC", True, True),
    "a constraint": ("ALTER TABLE t ADD CHECK (a > 0)", True, True),
    "an index": ("CREATE UNIQUE INDEX ON t (b, a)", True, True),
    "a reference": ("CREATE TABLE u (a int REFERENCES t)", True, True),
    "a column": ("ALTER TABLE t ADD COLUMN c int", True, True),
    "moved rows": ("VACUUM FULL t", True, True),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_by_others_is_noticed(table: Lake, beside: Session, what: str) -> None:
    change, is_change, is_more = CHANGES[what]
    number, at = table.table("t").table_id, table.last_snapshot()
    list(run(beside, change))

    def is_stale(check: Callable[[], None]) -> bool:
        with table.statement(writes=True):
            try:
                check()
            except Stale:
                return True
        return False

    session = table.session
    assert is_stale(lambda: commit.check_unchanged(session, [number], at)) == is_change
    assert is_stale(lambda: commit.check_unchanged(session, [table.table("other").table_id, number], at)) == (
        is_change or "other" in what
    )
    assert is_stale(lambda: commit.check_only_rows_changed(session, number, at)) == is_more
    assert not is_stale(lambda: commit.check_unchanged(session, [number], table.last_snapshot()))
    assert not is_stale(lambda: commit.check_only_rows_changed(session, number, table.last_snapshot()))


def test_ones_own_definitions_are_no_change_by_others(table: Lake) -> None:
    number, at = table.table("t").table_id, table.last_snapshot()
    session = table.session
    table.sql("BEGIN; ALTER TABLE t ADD CHECK (a > 0)")
    session.transaction.begin_statement()
    commit.check_only_rows_changed(session, number, at)
    session.transaction.end_statement()
    table.sql("COMMIT")
    with table.statement(writes=True), pytest.raises(Stale):
        commit.check_only_rows_changed(session, number, at)


def test_a_stale_write_is_refused_and_another_table_does_not_matter(table: Lake, beside: Session) -> None:
    at = table.last_snapshot()
    list(run(beside, "INSERT INTO t VALUES (2001, 'x')"))
    other, target = table.table("other"), table.table("t")
    with table.statement(writes=True):
        write = Write(table.session, other, at)
        write.insert([(1,)])
        commit.record_writes(table.session, [write])
    with pytest.raises(Stale), table.statement(writes=True):
        write = Write(table.session, target, at)
        write.insert([(3001, "x")])
        commit.record_writes(table.session, [write])
    assert (ask(beside, "SELECT * FROM other"), rows(beside, "a > 2000")) == ([("1",)], [("2001", "x")])


# --- who waits --------------------------------------------------------------------------------------------------------

LOCKS: dict[str, tuple[str, Callable[[Write, Lake], None], tuple[LockKind, Any] | None]] = {
    "a row": (
        "UPDATE t SET b = '' WHERE a = 5",
        lambda write, lake: write.delete([lake.places("t")[5]]),
        (LockKind.ROW, RowMode.UPDATE),
    ),
    "a row beside": (
        "UPDATE t SET b = '' WHERE a = 6",
        lambda write, lake: write.delete([lake.places("t")[5]]),
        None,
    ),
    "the table": (
        "LOCK TABLE t IN SHARE MODE",
        lambda write, _: write.insert([(2001, "x")]),
        (LockKind.RELATION, RelationMode.ROW_EXCLUSIVE),
    ),
    "the other table": ("LOCK TABLE other IN SHARE MODE", lambda write, _: write.insert([(2001, "x")]), None),
    "the table as a writer": ("LOCK TABLE t IN ROW EXCLUSIVE MODE", lambda write, _: write.insert([(2001, "x")]), None),
    "all rows of a writer's table": (
        "LOCK TABLE t IN ROW EXCLUSIVE MODE",
        lambda write, _: write.truncate(),
        (LockKind.RELATION, RelationMode.EXCLUSIVE),
    ),
    "positions": (
        "LOCK TABLE t IN ROW EXCLUSIVE MODE",
        lambda write, lake: write.delete_positions(lake.places("t")[5].file or 0, np.array([4])),
        (LockKind.RELATION, RelationMode.EXCLUSIVE),
    ),
    "a key": (
        "INSERT INTO t VALUES (2001, 'x')",
        lambda write, _: write.insert([(2001, "y")]),
        (LockKind.RELATION, RelationMode.SHARE_ROW_EXCLUSIVE),
    ),
    "a key of a new version": (
        "INSERT INTO t VALUES (2001, 'x')",
        lambda write, lake: write.update(lake.places("t")[5], (2001, "y")),
        (LockKind.RELATION, RelationMode.SHARE_ROW_EXCLUSIVE),
    ),
    "a key that was asked for": (
        "INSERT INTO t VALUES (2001, 'x')",
        lambda write, _: (setattr(write, "has_free_keys", True), write.insert([(2002, "y")]))[0],
        None,
    ),
    "a key for which no row comes": (
        "INSERT INTO t VALUES (2001, 'x')",
        lambda write, lake: write.delete([lake.places("t")[5]]),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LOCKS)
def test_locks_of_others_are_respected(table: Lake, beside: Session, what: str) -> None:
    """As a worker writes, which takes no locks of its own."""
    statement, change, waits_for = LOCKS[what]
    target = table.table("t")
    write = Write(table.session, target)
    change(write, table)
    list(run(beside, "BEGIN"))
    list(run(beside, statement))
    met = None
    with table.statement(writes=True):
        try:
            commit.record_writes(table.session, [write])
        except LockedByOthers as locked:
            met = locked.args[0]
    assert (None if met is None else (met.kind, met.mode)) == waits_for
    if met is not None:
        assert met.object == target.oid
        assert met.item == (write.changed_row_ids[0] if met.kind is LockKind.ROW else 0)
    list(run(beside, "ROLLBACK"))


# --- what is noted ----------------------------------------------------------------------------------------------------


def notes(lake: Lake) -> dict[str, Any]:
    ((extra,),) = lake.query(
        "SELECT commit_extra_info FROM ducklake_snapshot_changes ORDER BY snapshot_id DESC LIMIT 1"
    )
    noted: dict[str, Any] = json.loads(extra or "{}")
    return {key: value for key, value in noted.items() if key in ("truncate", "origin")}


def test_a_truncation_is_noted_unless_the_caller_does(table: Lake) -> None:
    oid = table.table("t").oid
    table.write("t", lambda write: write.insert([(2001, "x")]), origin=["o", 7])
    assert notes(table) == {"origin": ["o", 7]}
    table.write("t", lambda write: write.truncate())
    assert notes(table) == {"truncate": {"tables": [oid], "cascade": False, "restart_identity": False}}
    table.write("t", lambda write: write.truncate(), truncate={"tables": [1]})
    assert notes(table) == {"truncate": {"tables": [1]}}


def test_what_is_noted_of_pending_rows_stands_in_their_commit(table: Lake) -> None:
    table.sql("BEGIN; INSERT INTO other VALUES (1)")
    write = Write(table.session, table.table("t"))
    write.insert([(2001, "x")])
    commit.record_writes(table.session, [write], {"origin": ["o", 7]})
    assert not table.session.transaction.is_writing
    table.sql("COMMIT")
    assert notes(table) == {"origin": ["o", 7]}


def test_a_truncation_beside_rows_of_another_table_takes_the_catalogs_lock(table: Lake) -> None:
    table.sql("BEGIN; INSERT INTO other VALUES (1)")
    writes = [Write(table.session, table.table(name)) for name in ("t", "other")]
    writes[0].truncate()
    writes[1].insert([(2,)])
    commit.record_writes(table.session, writes)
    assert table.session.transaction.is_writing
    table.sql("COMMIT")
    assert rows(table.session) == [] and ask(table.session, "SELECT count(*) FROM other") == [("2",)]


@pytest.mark.parametrize("change", ["INSERT INTO made VALUES (1)", "TRUNCATE made; INSERT INTO made VALUES (1)"])
def test_a_temporary_table_is_emptied_at_each_commit(table: Lake, change: str) -> None:
    table.sql("CREATE TEMP TABLE made (a int) ON COMMIT DELETE ROWS")
    table.sql(change)
    assert ask(table.session, "SELECT count(*) FROM made") == [("0",)]
    table.sql(f"BEGIN; {change}")
    assert ask(table.session, "SELECT count(*) FROM made") == [("1",)]
    table.sql("COMMIT")
    assert ask(table.session, "SELECT count(*) FROM made") == [("0",)]


def test_a_truncation_in_a_block_takes_the_catalogs_lock(table: Lake, beside: Session) -> None:
    table.sql("BEGIN; INSERT INTO other VALUES (1)")
    assert not table.session.transaction.is_writing
    table.sql("TRUNCATE t")
    assert table.session.transaction.is_writing
    table.sql("INSERT INTO t VALUES (1, 'x'); ROLLBACK")
    assert len(rows(beside)) == ROWS + 3
