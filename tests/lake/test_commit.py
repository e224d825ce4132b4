"""Commits: who comes between, what the catalog says afterwards, statistics that hold for every row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgrepl.backend import open_session
from pgrepl.catalog.session.transaction import statement
from pgrepl.lake import commit
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.files import estimate
from pgrepl.lake.write.statement import Write
from pgrepl.lake.write.statistics import LONGEST
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.lake.conftest import Lake, values
from tests.lake.test_write import assert_same_history, delete, files_of, numbered, table, update  # noqa: F401

# --- who comes between --------------------------------------------------------------------------------------------


def staged_delete(lake: Lake, *keys: int) -> Write:
    """Staged before the lock is taken."""
    at = lake.last_snapshot()
    target = lake.table("t")
    places = lake.places("t")
    lake.session.transaction.begin_statement()
    write = Write(lake.session, target, at)
    write.delete([places[key] for key in keys])
    write.stage()
    return write


def test_a_change_of_another_table_does_not_matter(table: Lake) -> None:  # noqa: F811
    table.sql("CREATE TABLE other (a int)")
    delete(table, *range(150))
    write = staged_delete(table, *range(200, 400))
    other = open_session(table.catalog)
    for result in run(other, "INSERT INTO other VALUES (1)"):
        assert result.tag == "INSERT 0 1"
    other.close()
    commit.record_writes(table.session, [write])
    table.session.transaction.end_statement()
    assert len(table.rows("t")) == 1010 - 350
    assert_same_history(table)  # the delete file says the snapshot it really was


@pytest.mark.parametrize(
    "change",
    dose(
        [
            "INSERT INTO postgres.t VALUES (1, 'x')",
            "DELETE FROM postgres.t WHERE a = 7",
            "DELETE FROM postgres.t WHERE a < 500",
            "UPDATE postgres.t SET b = 'x' WHERE a = 1001",
            "ALTER TABLE postgres.t ADD COLUMN c INTEGER",
            "CALL ducklake_flush_inlined_data('lake')",
            "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)",
        ],
        3,
    ),
)
def test_a_change_of_the_table_makes_a_write_stale(table: Lake, change: str) -> None:  # noqa: F811
    delete(table, *range(600, 800))
    write = staged_delete(table, *range(200, 400))
    table.session.transaction.end_statement()
    table.duck_runs(change)
    with pytest.raises(commit.Stale), statement(table.session, writes=True):
        commit.record_writes(table.session, [write])
    assert_same_history(table)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD CHECK (a IS NOT NULL)",
        "CREATE UNIQUE INDEX ON t (a)",
        "CREATE TABLE u (a int REFERENCES t)",
        "GRANT SELECT ON t TO PUBLIC",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    ],
)
def test_what_only_the_system_tables_know_makes_a_write_stale(table: Lake, change: str) -> None:  # noqa: F811
    if "REFERENCES" in change:
        table.sql("ALTER TABLE t ADD PRIMARY KEY (a)")
    write = staged_delete(table, *range(200, 400))
    table.session.transaction.end_statement()
    other = open_session(table.catalog)
    list(run(other, change))
    other.close()
    with pytest.raises(commit.Stale), statement(table.session, writes=True):
        commit.record_writes(table.session, [write])
    write.discard()


def test_a_stale_write_leaves_no_files(table: Lake) -> None:  # noqa: F811
    before = files_of(table)
    write = staged_delete(table, *range(200, 400))
    assert len(files_of(table)) == len(before) + 1
    write.discard()
    table.session.transaction.end_statement()
    assert files_of(table) == before


def test_two_writes_of_one_statement_to_one_table(table: Lake) -> None:  # noqa: F811
    """As when a foreign key's action comes back to the table: one snapshot, one delete file a data file."""
    target, places = table.table("t"), table.places("t")
    with table.statement(writes=True):
        first, second = Write(table.session, target), Write(table.session, target)
        first.delete([places[i] for i in range(200)])
        second.delete([places[i] for i in range(150, 350)])
        second.update(places[1000], (1000, "changed"))
        second.update(places[400], (400, "changed"))
        first.stage()
        second.stage()
        commit.record_writes(table.session, [first, second])
    rows = dict(table.rows("t"))
    assert len(rows) == 1010 - 350 and rows["400"] == rows["1000"] == "changed"
    assert_same_history(table)


def test_a_row_that_comes_and_goes_in_one_statement_was_never_there(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    target = lake.table("t")
    with lake.statement(writes=True):
        write = Write(lake.session, target)
        write.insert([(1, "x"), (2, "y")])
        commit.record_writes(lake.session, [write])
        write = Write(lake.session, target)
        write.delete([place for key, place in _places(lake, target) if key == 1])
        commit.record_writes(lake.session, [write])
    assert lake.rows("t") == [("2", "y")]
    assert_same_history(lake)


def _places(lake: Lake, target: Any) -> list[tuple[Any, Any]]:
    from pgrepl.lake.read import local

    return list(local.rows(lake.session, target, [1], places=True))


# --- what the catalog says ----------------------------------------------------------------------------------------


def test_what_is_said_of_a_statement(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int)")
    snapshot = lake.write("t", lambda write: write.insert([(1,)]), origin="pg_16385")
    extra = lake.query("SELECT commit_extra_info FROM ducklake_snapshot_changes WHERE snapshot_id = ?", snapshot)
    assert json.loads(extra[0][0])["origin"] == "pg_16385"


def test_numbers_of_files_and_rows_are_not_given_twice(table: Lake) -> None:  # noqa: F811
    delete(table, *range(150))
    update(table, "x", *range(200, 400), 1000)
    table.insert("t", *numbered(300, 2000))
    table.insert("t", ("9", "x"))
    (next_row,) = table.query("SELECT next_row_id FROM ducklake_table_stats")[0]
    assert max(int(row[0]) for row in table.rows("t", row_ids=True)) < next_row
    ids = table.query(
        "SELECT data_file_id FROM ducklake_data_file UNION ALL SELECT delete_file_id FROM ducklake_delete_file"
    )
    assert len(set(ids)) == len(ids)
    (next_file,) = table.query("SELECT next_file_id FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1")[0]
    assert max(ids)[0] < next_file
    assert table.duck("SELECT count(DISTINCT rowid) = count(*) FROM postgres.t") == [("true",)]


def test_files_are_skipped_by_their_statistics(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    for start in range(0, 1000, 200):
        lake.insert("t", *numbered(200, start))
    target = lake.table("t")

    def looked_at(*bounds: Bound) -> int:
        with lake.statement():
            return estimate(lake.session, target, bounds)

    assert looked_at() == 1000
    assert looked_at(Bound(1, low=150, high=250)) == 400
    assert looked_at(Bound(1, low=200, low_inclusive=False, high=400, high_inclusive=False)) == 200
    assert looked_at(Bound(1, values=(5, 999))) == 400
    assert looked_at(Bound(1, values=(1000, None))) == 0
    assert looked_at(Bound(1, low=400, high=400)) == 200
    assert looked_at(Bound(2, low="row 9")) == 400  # of 1 to 199, too
    assert looked_at(Bound(1, low=900), Bound(2, values=("row 0",))) == 0


def test_equality_skips_files_of_types_whose_order_is_not_the_lakes(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a char(4), b bytea)")
    for word in ("aa", "bb", "cc"):
        lake.insert("t", *[(word, "\\x" + word)] * 200)
    target = lake.table("t")
    with lake.statement():
        assert estimate(lake.session, target, [Bound(1, low="bb", high="bb")]) == 200
        assert estimate(lake.session, target, [Bound(1, low="bb  ", high="bb  ")]) == 200
        assert estimate(lake.session, target, [Bound(1, low="bb")]) == 600
        assert estimate(lake.session, target, [Bound(2, low=b"\xcc", high=b"\xcc")]) == 200
    assert len(lake.rows("t", Bound(1, low="bb", high="bb"))) == 200


def test_long_texts_have_short_bounds(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a int, b text)")
    long = "\U0010ffff" * LONGEST + "x"
    for text in ("a" * 1000, "a" * LONGEST + "b", "\ud7ff" * 1000, long):
        lake.insert("t", *[(str(i), text) for i in range(150)], ("-1", text))
        lake.insert("t", ("0", text))
        stored = lake.query("SELECT max(length(min_value)), max(length(max_value)) FROM ducklake_file_column_stats")
        assert stored[0][0] <= LONGEST and stored[0][1] <= LONGEST
        quoted = text.replace("'", "''")
        assert lake.duck(f"SELECT count(*) FROM postgres.t WHERE b = '{quoted}'") == [("152",)]
        assert lake.duck(f"SELECT count(*) FROM postgres.t WHERE b >= '{quoted}'") == [("152",)]


def test_unknown_bounds_are_none(lake: Lake) -> None:
    """DuckDB takes a row without bounds for one of NULLs alone: there must be none."""
    lake.sql("CREATE TABLE t (a text)")
    long = "\U0010ffff" * LONGEST + "x"
    lake.insert("t", (None,))
    lake.insert("t", (long,))
    lake.duck_runs("INSERT INTO postgres.t VALUES ('b'), ('c')")
    lake.insert("t", ("d",))
    assert lake.query("SELECT * FROM ducklake_table_column_stats") == []
    for text in (long, "b", "d"):
        assert lake.duck(f"SELECT count(*) FROM postgres.t WHERE a = '{text}'") == [("1",)]


NUMBERS = st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1).map(str))
FLOATS = st.one_of(st.none(), st.floats().map(lambda v: {"inf": "Infinity", "-inf": "-Infinity"}.get(repr(v), repr(v))))
TEXTS = st.one_of(st.none(), st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=6))
DECIMALS = st.one_of(st.none(), st.decimals(-999, 999, places=2).map(str))
DATES = st.one_of(st.none(), st.dates().map(str), st.sampled_from(["infinity", "-infinity", "0044-03-15 BC"]))
ROWS = st.lists(st.tuples(NUMBERS, FLOATS, TEXTS, DECIMALS, DATES, DECIMALS), min_size=1, max_size=4)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["inlined", "file", "duckdb"]), ROWS), min_size=1, max_size=5))
def test_statistics_hold_for_every_row(lake: Lake, writes: list[tuple[str, list[tuple[Any, ...]]]]) -> None:
    """Whoever writes, inlined or not: asking for a value finds all of its rows, here and in DuckDB."""
    lake.sql("DROP TABLE IF EXISTS t")
    lake.sql("CREATE TABLE t (a int, b double precision, c text, d numeric(10,2), e date, f numeric)")
    for how, rows in writes:
        if how == "duckdb":
            words = [", ".join("NULL" if v is None else "'" + _duck(v) + "'" for v in row) for row in rows]
            lake.duck_runs("INSERT INTO postgres.t VALUES " + ", ".join(f"({w})" for w in words))
        else:
            lake.duck_runs(f"CALL lake.set_option('data_inlining_row_limit', {10 if how == 'inlined' else 0})")
            lake.insert("t", *rows)
    target = lake.table("t")
    every = [row for _, rows in writes for row in rows]
    assert sorted(map(repr, lake.rows("t"))) == sorted(repr(_normal(lake, row)) for row in every)
    for at, column in enumerate(target.columns):
        for value in {row[at] for row in every if row[at] is not None}:
            read = values(target, [value if i == at else None for i in range(len(target.columns))])[at]
            count = sum(1 for row in every if row[at] is not None and _same(target, at, row[at], read))
            assert len(lake.lookup("t", [column.attnum], [(read,)])) == count, (column.name, value)
            if column.name != "f":
                found = lake.duck(f"SELECT count(*) FROM postgres.t WHERE {column.name} = '{_duck(value)}'")
                assert found == [(str(count),)], (column.name, value)


def _duck(text: str) -> str:
    return text.replace("44-03-15 BC", "44-03-15 (BC)").replace("'", "''")


def _normal(lake: Lake, row: tuple[Any, ...]) -> tuple[Any, ...]:
    from tests.lake.conftest import texts

    target = lake.table("t")
    return texts(target, values(target, row))


def _same(target: Any, at: int, text: str, value: Any) -> bool:
    read = values(target, [text if i == at else None for i in range(len(target.columns))])[at]
    return bool(read == value or (read != read and value != value))
