"""Existing rows when definitions change: what stands in the lake, and what who replicates a table sees of it."""

from __future__ import annotations

import json
from typing import Any

from pgrepl.catalog.facts.relation import find_relation, range_var
from pgrepl.lake.changes.changes import RowChange, changes
from pgrepl.lake.read import local
from pgrepl.lake.table import lake_table
from tests.harness.played import Instance
from tests.lake import duck


def _stands(instance: Instance, name: str) -> list[tuple[Any, ...]]:
    """Rows with their row ids."""
    session = instance.session("pub")
    session.transaction.begin_statement()
    table = lake_table(session, find_relation(session, range_var([name])).oid)
    attnums = [column.attnum for column in table.columns]
    found = [(row[-1].row, *row[:-1]) for row in local.rows(session, table, attnums, places=True)]
    session.transaction.end_statement()
    return sorted(found)


def _changes(instance: Instance, name: str, after: int) -> list[RowChange]:
    session = instance.session("pub")
    session.transaction.begin_statement()
    upto = session.transaction.numbering.last_snapshot()
    found = changes(session, find_relation(session, range_var([name])).oid, after, upto)
    session.transaction.end_statement()
    return found


def _ask(instance: Instance, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in instance.session("pub").link.execute(sql)]


def _last(instance: Instance) -> int:
    return int(_ask(instance, "SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0])


def test_converted_rows_keep_their_ids_and_nothing_has_changed(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, '7'), (2, '8'), (3, NULL)")
    instance.play("pub", "DELETE FROM t WHERE a = 2")
    before = _last(instance)
    assert instance.play("pub", "ALTER TABLE t ALTER b TYPE int USING b::int + 1, ALTER a TYPE text") == ["ALTER TABLE"]
    assert _stands(instance, "t") == [(0, "1", 8), (2, "3", None)]
    assert _changes(instance, "t", before) == []
    (extra,) = _ask(instance, f"SELECT commit_extra_info FROM ducklake_snapshot_changes WHERE snapshot_id > {before}")
    assert list(json.loads(extra[0])) == ["rewrite"]
    instance.play("pub", "UPDATE t SET b = 9 WHERE a = '3'")
    assert [(c.row_id, c.old, c.new) for c in _changes(instance, "t", before)] == [(2, ("3", None), ("3", 9))]


def test_the_past_has_the_old_types(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    then = _last(instance)
    instance.play("pub", "ALTER TABLE t ALTER a TYPE text USING 'n' || a")
    session = instance.session("pub")
    session.transaction.begin_statement()
    oid = find_relation(session, range_var(["t"])).oid
    assert list(local.rows(session, lake_table(session, oid, then), [1], snapshot=then)) == [(1,)]
    session.transaction.end_statement()
    assert _stands(instance, "t") == [(0, "n1")]


def test_a_default_that_is_the_same_for_all_rows_touches_none(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (2)")
    begun = _ask(instance, "SELECT table_name FROM ducklake_inlined_data_tables ORDER BY schema_version")
    instance.play("pub", "ALTER TABLE t ADD b int DEFAULT 5, ADD c timestamptz DEFAULT now(), ALTER a TYPE bigint")
    assert [row[1:3] for row in _stands(instance, "t")] == [(1, 5), (2, 5)]
    (name,) = begun[-1]
    assert _ask(instance, f'SELECT count(*) FROM "{name}" WHERE end_snapshot IS NULL') == [(2,)]


def test_a_volatile_default_gives_each_row_its_own(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (2), (3)")
    assert instance.play("pub", "ALTER TABLE t ADD b uuid DEFAULT gen_random_uuid(), ADD s serial") == ["ALTER TABLE"]
    assert len({row[2] for row in _stands(instance, "t")}) == 3
    assert [row[3] for row in _stands(instance, "t")] == [1, 2, 3]
    assert instance.play("pub", "INSERT INTO t (a) VALUES (4) RETURNING s") == ["4"]


def test_a_change_that_fails_leaves_rows_as_they_were(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a text)", "INSERT INTO t VALUES ('1'), ('x')")
    before = _stands(instance, "t")
    assert instance.play("pub", "ALTER TABLE t ALTER a TYPE int USING a::int") == [
        'ERROR:  invalid input syntax for type integer: "x"'
    ]
    assert instance.play("pub", "ALTER TABLE t ADD b int DEFAULT 1, ADD CHECK (a = '1')") == [
        'ERROR:  check constraint "t_a_check" of relation "t" is violated by some row'
    ]
    assert _stands(instance, "t") == before


def test_a_table_of_duckdb_s_gets_a_primary_key_once_its_rows_allow_it(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE first (a int)")
    catalog = instance.folder / "catalog.db"
    duck.run(catalog, "CREATE TABLE pub.d AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (2, 'c'), (NULL, 'd')) v (i, t)")
    duck.close(catalog)
    key = "ALTER TABLE d ADD PRIMARY KEY (i)"
    assert instance.play("pub", key) == [
        'ERROR:  could not create unique index "d_pkey"',
        "DETAIL:  Key (i)=(2) is duplicated.",
    ]
    instance.play("pub", "DELETE FROM d WHERE t = 'c'")
    assert instance.play("pub", key) == ['ERROR:  column "i" of relation "d" contains null values']
    instance.play("pub", "UPDATE d SET i = 3 WHERE i IS NULL")
    assert instance.play("pub", key) == ["ALTER TABLE"]
    assert instance.play("pub", "INSERT INTO d VALUES (2, 'again')") == [
        'ERROR:  duplicate key value violates unique constraint "d_pkey"',
        "DETAIL:  Key (i)=(2) already exists.",
    ]


def test_duckdb_reads_what_was_converted(instance: Instance) -> None:
    instance.play(
        "pub",
        "CREATE TABLE t (a int, b numeric(6,2), gone int)",
        "INSERT INTO t VALUES (1, 1.50, 0), (2, 22.25, 0)",
        "ALTER TABLE t DROP gone, ADD c text DEFAULT 'x', ALTER b TYPE text, ALTER a TYPE bigint USING a * 10",
        "INSERT INTO t VALUES (30, 'three', 'y')",
        "CREATE TABLE made AS SELECT a, upper(c) AS c FROM t",
    )
    catalog = instance.folder / "catalog.db"
    instance.session("pub").close()
    assert sorted(duck.duck(catalog, "SELECT a, b, c FROM pub.t")) == [
        ("10", "1.50", "x"),
        ("20", "22.25", "x"),
        ("30", "three", "y"),
    ]
    assert sorted(duck.duck(catalog, "SELECT a, c FROM pub.made")) == [("10", "X"), ("20", "X"), ("30", "Y")]
    duck.close(catalog)
