"""What drivers, ORMs and tools ask of the catalog is answered at once, and whatever is merged for it stays the same."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest

from pgrepl.query import rowset
from tests.harness.played import Instance
from tests.query.catalog_queries import queries, schema

BOUND = 0.4  # seconds of the processor for a query that is to take 0.05; before joins were planned these took up to 1.2
MERGED = queries("merged")
# PostgreSQL computes no target that nobody asks for; with the subquery as it is written there is an error
OTHERWISE = "errors are raised for the same rows"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    instance = Instance(tmp_path_factory.mktemp("filled"))
    assert not [line for line in instance.play("pub", *schema()) if line.startswith("ERROR")]
    yield instance
    instance.catalog.close()


def test_queries_of_clients_are_answered_at_once(filled: Instance) -> None:
    """Warm: what the process keeps of the catalog is there; rows of users' objects are read anew, after a new type."""
    slow = {}
    for number, (name, query) in enumerate(queries("clients").items()):
        filled.play("pub", query, f"CREATE TYPE new{number} AS ENUM ('a')")
        seconds = measured(filled, query)
        if seconds > BOUND:  # perhaps something else was done meanwhile
            seconds = measured(filled, query)
        if seconds > BOUND:
            slow[name] = seconds
        filled.play("pub", f"DROP TYPE new{number}")
    assert slow == {}


def measured(instance: Instance, query: str) -> float:
    """Seconds of the processor, without those of the garbage collector, which in a server looks at little."""
    gc.disable()
    try:
        began = time.process_time()
        instance.play("pub", query)
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize("name", MERGED)
def test_merged_subqueries_give_the_same_rows(filled: Instance, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = filled.play("pub", MERGED[name])
    assert not any(line.startswith("ERROR") for line in found)
    monkeypatch.setattr(rowset, "reads_catalogs_alone", lambda query: False)
    assert found == filled.play("pub", MERGED[name]) or name == OTHERWISE


def test_what_is_kept_of_the_catalog_follows_its_changes(filled: Instance) -> None:
    queries_of = {
        "SELECT DISTINCT attname FROM pg_attribute WHERE attname LIKE 'kept%' ORDER BY 1": ["kept_a", "kept_c"],
        "SELECT typname FROM pg_type WHERE typname LIKE 'kept%'": ["kept"],
        "SELECT conname FROM pg_constraint WHERE conname LIKE 'kept%'": ["kept_check"],
        "SELECT description FROM pg_description WHERE description LIKE 'kept%'": ["kept in mind"],
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'kept'::regclass": ["'b'::mood"],
        "SELECT count(*) FROM pg_index WHERE indrelid = 'kept'::regclass": ["1"],
        "SELECT count(*) > 0 FROM pg_depend WHERE refobjid = 'kept'::regclass": ["t"],
    }
    for query in queries_of:
        filled.play("pub", query.replace("'kept'::regclass", "to_regclass('kept')"))
    filled.play(
        "pub", "CREATE TYPE mood2 AS ENUM ('b')", "BEGIN", "CREATE TABLE kept (kept_a int, kept_b mood2 DEFAULT 'b')"
    )
    filled.play("pub", "ALTER TABLE kept RENAME kept_b TO kept_c", "CREATE INDEX ON kept (kept_a)")
    filled.play("pub", "ALTER TABLE kept ADD CONSTRAINT kept_check CHECK (kept_a > 0)")
    filled.play(
        "pub",
        "COMMENT ON TABLE kept IS 'kept in mind'",
        "ALTER TYPE mood RENAME TO other",
        "ALTER TYPE mood2 RENAME TO mood",
    )
    before = {query: filled.play("pub", query) for query in queries_of}
    filled.play("pub", "ROLLBACK")
    assert before == queries_of
    assert filled.play("pub", next(iter(queries_of))) == []
    filled.play("pub", "DROP TYPE mood2")


def test_another_sessions_changes_are_seen(filled: Instance) -> None:
    query = "SELECT attname FROM pg_attribute WHERE attname LIKE 'seen%'"
    assert filled.play("pub", query) == []
    filled.as_role("postgres", "pub", "CREATE ROLE r LOGIN SUPERUSER")
    filled.play("pub", "CREATE TABLE seen (seen_a int)", user="r")
    assert filled.play("pub", query) == ["seen_a"]
    filled.play("pub", "DROP TABLE seen", user="r")
    assert filled.play("pub", query) == []


def test_scans_of_an_index_are_counted(filled: Instance) -> None:
    names = ("'item1_pkey'::regclass", "'item1'::regclass", "1")
    scans = f"SELECT {', '.join(f'pg_stat_get_numscans({name})' for name in names)}"
    view = "SELECT (SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'item1_pkey'), seq_scan, 0"
    view += " FROM pg_stat_user_tables WHERE relname = 'item1'"
    filled.play("pub", "INSERT INTO customer (name) VALUES ('n')", "INSERT INTO item1 (customer) VALUES (1)")
    filled.play("pub", "SELECT * FROM item1", "SELECT * FROM item1 WHERE id = 1", "SELECT pg_stat_force_next_flush()")
    assert filled.play("pub", scans) == filled.play("pub", view)
    filled.play("pub", "DELETE FROM item1", "DELETE FROM customer")
