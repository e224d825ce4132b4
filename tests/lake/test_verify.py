"""`pgrepl verify`: nothing is found where all is well, and what is changed behind its back is."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.lake.read.footers import forget_all
from pgrepl.lake.verify import Damage, Verification
from pgrepl.shell.commands.maintenance import DAMAGED, verify_command
from pgrepl.shell.commands.subcommand import run as run_command
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.lake.conftest import Lake
from tests.lake.test_damage import files

EVERYTHING = """
    CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x', c numeric CHECK (c < 1e6), d timestamptz, e float8[]);
    INSERT INTO t SELECT i, 'row ' || i, i / 3.0, now(), ARRAY[i, NULL] FROM generate_series(1, 500) i;
    DELETE FROM t WHERE a % 4 = 0;
    INSERT INTO t SELECT i, 'inlined ' || i, i / 3.0, now() FROM generate_series(1001, 1060) i;
    UPDATE t SET b = 'new' WHERE a < 5;
    DELETE FROM t WHERE a IN (6, 1002);
    CREATE VIEW v AS SELECT a, b FROM t WHERE a > 3;
    CREATE ROLE joe LOGIN;
    GRANT SELECT ON t TO joe;
    CREATE PUBLICATION p FOR TABLE t (a, b) WHERE (a > 7);
    CREATE SCHEMA s;
    CREATE TABLE s.u (x int GENERATED ALWAYS AS IDENTITY, y text);
    INSERT INTO s.u (y) VALUES ('a'), ('b');
    ALTER TABLE s.u ADD COLUMN z int DEFAULT 7;
    ALTER TABLE s.u RENAME COLUMN y TO why;
    COMMENT ON TABLE t IS 'about t';
    CREATE INDEX ON t (b);
    CREATE TABLE pt (k int, v text) PARTITION BY RANGE (k);
    CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (100);
    INSERT INTO pt VALUES (1, 'z');
    CREATE DATABASE shop;
    CREATE TABLE gone (a int);
    INSERT INTO gone SELECT generate_series(1, 200);
    DROP TABLE gone"""


@pytest.fixture
def whole(lake: Lake) -> Iterator[Lake]:
    for statement in EVERYTHING.split(";"):
        lake.sql(statement)
    yield lake


def damage(path: Path, *, quick: bool = False) -> list[Damage]:
    catalog = open_catalog(path)
    try:
        session = open_session(catalog)
        try:
            return list(Verification(session, quick=quick).run(lambda done, total: None))
        finally:
            session.close()
    finally:
        catalog.close()


def test_nothing_is_found_where_all_is_well(whole: Lake) -> None:
    assert damage(whole.path) == []
    whole.sql("SET pgrepl.keep_snapshots = 0; SET pgrepl.file_grace = 0")
    for command in ("VACUUM", "VACUUM FULL"):
        whole.sql(command)
        assert damage(whole.path) == []


def test_types_of_other_databases_are_known(whole: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    there = open_session(whole.catalog, "shop")
    for statement in (
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN yr AS int CHECK (VALUE > 1900)",
        "CREATE TYPE pair AS (a yr, b mood)",
        "CREATE TABLE m (a mood DEFAULT 'ok', b mood[], c yr DEFAULT 1999, d pair, e pair[], f yr[])"
        " PARTITION BY LIST (a)",
        "CREATE TABLE m1 PARTITION OF m FOR VALUES IN ('ok')",
        "INSERT INTO m VALUES ('ok', '{sad}', 2000, (1999, 'sad'), '{\"(2000,ok)\"}', '{1999,2000}')",
        "ALTER TABLE m ADD COLUMN g yr DEFAULT 2001",
        "VACUUM FULL m1",
    ):
        list(run(there, statement))
    there.close()
    assert run_command(verify_command, ["--catalog", str(whole.path)]) == 0
    assert "not verified" not in capfd.readouterr().out


@pytest.mark.slow
def test_nothing_is_found_where_duckdb_has_written_too(whole: Lake) -> None:
    whole.duck_runs(
        "INSERT INTO postgres.t (a, b) SELECT range, 'duck' FROM range(3000, 3500)",
        "DELETE FROM postgres.t WHERE a % 7 = 0",
        "CALL ducklake_flush_inlined_data('lake')",
        "CALL ducklake_merge_adjacent_files('lake')",
        "CREATE TABLE postgres.ducks AS SELECT range AS id FROM range(2000)",
        "ALTER TABLE postgres.ducks ADD COLUMN x DECIMAL(8, 3) DEFAULT 7",
        "ALTER TABLE postgres.ducks ADD COLUMN y TIMESTAMPTZ DEFAULT '2020-01-01 00:00:00+00'",
    )
    assert damage(whole.path) == []
    whole.sql("SELECT count(*) FROM t")
    whole.sql("VACUUM FULL")
    assert damage(whole.path) == []


@pytest.mark.slow
def test_nothing_is_found_where_duckdb_has_dropped_and_expired(whole: Lake) -> None:
    whole.duck_runs(
        "CALL ducklake_flush_inlined_data('lake')",
        "CALL ducklake_merge_adjacent_files('lake')",
        "DROP TABLE postgres.t",
    )
    whole.duck("SELECT count(*) FROM ducklake_expire_snapshots('lake', older_than => now())")
    assert damage(whole.path) == []
    whole.sql("SET pgrepl.keep_snapshots = 0; SET pgrepl.file_grace = 0")
    for command in ("VACUUM", "VACUUM FULL"):
        whole.sql(command)
        assert damage(whole.path) == []
    assert files(whole) == ([], [])
    whole.sql("SELECT * FROM s.u")


CHANGES = [
    "UPDATE pg_class SET relname = 'T' WHERE relname = 't'",
    "UPDATE pg_attribute SET atttypid = 25 WHERE attname = 'a'",
    "UPDATE pg_publication_rel SET prqual = NULL",
    "UPDATE pg_authid SET rolsuper = 1 WHERE rolname = 'joe'",
    "DELETE FROM pg_attrdef",
    "UPDATE pg_class SET end_snapshot = 9 WHERE relname = 'v'",
    "UPDATE ducklake_column SET column_name = 'q' WHERE column_name = 'b'",
    "UPDATE ducklake_column SET nulls_allowed = 1 WHERE column_name = 'a'",
    "UPDATE ducklake_table SET table_name = 'q' WHERE table_name = 't'",
    "UPDATE ducklake_file_column_stats SET max_value = '400' WHERE column_id = 1",
    "UPDATE ducklake_file_column_stats SET null_count = 7 WHERE column_id = 1",
    "UPDATE ducklake_table_column_stats SET min_value = '40' WHERE column_id = 1",
    "UPDATE ducklake_table_stats SET next_row_id = 3",
    "DELETE FROM ducklake_snapshot WHERE snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)",
    "UPDATE ducklake_snapshot_changes SET changes_made = 'inserted_intu_table:2' WHERE snapshot_id = 3",
    "UPDATE ducklake_metadata SET value = 'true' WHERE key = 'encrypted'",
    "UPDATE ducklake_column SET initial_default = '8' WHERE initial_default = '7'",
    "UPDATE ducklake_column SET initial_default = NULL WHERE initial_default = '7'",
    "DELETE FROM ducklake_data_file",
    "UPDATE ducklake_delete_file SET data_file_id = 55",
    "UPDATE ducklake_data_file SET table_id = 55",
    "UPDATE ducklake_inlined_data_2_2 SET b = 'other' WHERE a = 1005",
    "UPDATE ducklake_inlined_delete_2 SET row_id = 400",
    "DROP INDEX pg_class_key",
    "UPDATE pgrepl_instance SET next_oid = 5",
]


@pytest.mark.parametrize("change", dose(CHANGES, 12))
def test_what_is_changed_behind_its_back_is_found(whole: Lake, change: str) -> None:
    with sqlite3.connect(whole.path) as link:
        if "inlined_data" in change:
            name = link.execute("SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = 2").fetchone()[0]
            change = change.replace("ducklake_inlined_data_2_2", name)
        assert link.execute(change).rowcount
    link.close()
    try:
        assert damage(whole.path) != []
    except PgError as problem:  # it cannot even be opened
        assert problem.sqlstate == "XX001"


def test_missing_damaged_and_unused_files(whole: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    data, deletes = files(whole)
    content = bytearray(data[0].read_bytes())
    content[600] ^= 4
    data[0].write_bytes(content)
    deletes[0].unlink()
    stray = data[0].with_name("stray.parquet")
    shutil.copyfile(data[0], stray)
    os.utime(stray, (1, 1))
    assert {(found.table, found.file) for found in damage(whole.path)} == {
        ("postgres.public.t", str(data[0])), ("postgres.public.t", str(deletes[0])),
    }  # fmt: skip
    assert [found.file for found in damage(whole.path, quick=True)] == [str(deletes[0])]
    assert run_command(verify_command, ["--catalog", str(whole.path), "--json"]) == DAMAGED
    told = json.loads(capfd.readouterr().out)
    assert (told["unused_files"], {each["file"] for each in told["damage"]}) == (1, {str(data[0]), str(deletes[0])})
    assert run_command(verify_command, ["--catalog", str(whole.path), "-d", "shop"]) == 0
    assert capfd.readouterr().out.startswith("verified 0 tables, 0 files (0 bytes), 0 inlined rows: no damage\n")


@pytest.mark.parametrize("change", ["DELETE FROM ducklake_snapshot", "DROP TABLE pg_class"])
def test_a_catalog_that_cannot_be_opened_is_damaged_too(
    whole: Lake, capfd: pytest.CaptureFixture[str], change: str
) -> None:
    with sqlite3.connect(whole.path) as link:
        link.execute(change)
    assert run_command(verify_command, ["--catalog", str(whole.path)]) == DAMAGED
    assert f'catalog "{whole.path}" is damaged: ' in capfd.readouterr().err


@pytest.mark.parametrize("raised", [KeyError("odd"), PgError("XX001", "odd")])
def test_whatever_damage_leads_to_is_told(whole: Lake, monkeypatch: pytest.MonkeyPatch, raised: Exception) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr("pgrepl.lake.verify.lake_table", fail)
    assert {found.what for found in damage(whole.path)} in ({"odd"}, {"internal error: KeyError: 'odd'"})


@pytest.mark.parametrize("sqlstate", ["25006", "53100"])
def test_a_catalog_that_cannot_be_written_is_verified(
    whole: Lake, monkeypatch: pytest.MonkeyPatch, sqlstate: str
) -> None:
    def refuse(*_: object) -> None:
        raise PgError(sqlstate, "it cannot be written")

    monkeypatch.setattr("pgrepl.catalog.store.connection.Catalog.check_writable", refuse)
    assert damage(whole.path) == []


@pytest.mark.parametrize("sqlstate", ["57014", "55P03", "53200"])
def test_what_only_ends_the_work_is_no_damage(whole: Lake, monkeypatch: pytest.MonkeyPatch, sqlstate: str) -> None:
    def fail(*_: object) -> None:
        raise PgError(sqlstate, "enough")

    monkeypatch.setattr("pgrepl.lake.verify.lake_table", fail)
    with pytest.raises(PgError) as caught:
        damage(whole.path)
    assert caught.value.sqlstate == sqlstate


def test_only_superusers_verify(whole: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(verify_command, ["--catalog", str(whole.path), "-U", "joe"]) == 1
    assert "permission denied to verify an instance" in capfd.readouterr().err


QUESTIONS = (
    "SELECT * FROM t ORDER BY a", "SELECT * FROM s.u ORDER BY x", "SELECT * FROM pt", "SELECT * FROM v ORDER BY a",
    "SELECT sum(a), count(c), max(d) FROM t WHERE a > 100", "SELECT * FROM t WHERE b = 'inlined 1003'",
    "SELECT oid, relname, relkind, relnamespace, relowner, relacl, relreplident FROM pg_class ORDER BY oid",
    "SELECT attrelid, attnum, attname, atttypid, atttypmod, attnotnull FROM pg_attribute ORDER BY 1, 2",
    "SELECT conname, contype, conrelid, conkey, confrelid FROM pg_constraint ORDER BY 1",
    "SELECT * FROM pg_publication_tables", "SELECT * FROM pg_roles ORDER BY oid", "SELECT * FROM pg_database",
    "SELECT adrelid, adnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef ORDER BY 1, 2", "SELECT * FROM pg_views",
    "SELECT * FROM pg_indexes ORDER BY indexname", "SELECT obj_description('t'::regclass)",
)  # fmt: skip


def answers(path: Path) -> list[object]:
    """What somebody sees of the catalog and its tables."""
    forget_all()
    catalog = open_catalog(path)
    try:
        session = open_session(catalog)
        try:
            return [list(result.rows) for text in QUESTIONS for result in run(session, text)]
        finally:
            session.close()
    finally:
        catalog.close()


def flip_in_catalog(folder: Path, whole: Lake, many: int, seed: int) -> tuple[int, list[str]]:
    """How many flips were noticed, and those of the others behind which somebody sees something else."""
    whole.session.close()
    whole.catalog.close()
    forget_all()
    said = answers(whole.path)
    before = whole.path.read_bytes()
    filled = [at for at, byte in enumerate(before) if byte]  # most of it is empty
    chance = random.Random(seed)
    noticed, missed = 0, []
    for _ in range(many):
        at, bit = chance.choice(filled), chance.randrange(8)
        changed = bytearray(before)
        changed[at] ^= 1 << bit
        for end in ("-wal", "-shm"):
            Path(f"{whole.path}{end}").unlink(missing_ok=True)
        whole.path.write_bytes(changed)
        try:
            found = damage(whole.path) != []
        except PgError as problem:
            assert problem.sqlstate in ("XX001", "42809", "0A000", "3D000", "28000", "55000"), problem
            found = True
        noticed += found
        if found:
            continue
        try:
            after = answers(whole.path)
        except PgError:  # such as a type that only others might know
            noticed += 1
            continue
        if after != said:
            which = [text for text, one, other in zip(QUESTIONS, said, after, strict=True) if one != other]
            missed.append(f"bit {bit} of byte {at} (seed {seed}): {which}, {changed[at - 40 : at + 40]!r}")
    whole.path.write_bytes(before)
    whole.catalog = open_catalog(whole.path)
    whole.session = open_session(whole.catalog)
    return noticed, missed


def test_a_flipped_bit_in_the_catalog_is_noticed_or_harmless(whole: Lake, tmp_path: Path) -> None:
    noticed, missed = flip_in_catalog(tmp_path, whole, 40, 1)
    assert noticed >= 30
    assert missed == []


@pytest.mark.slow
def test_many_flipped_bits_in_the_catalog_are_noticed_or_harmless(whole: Lake, tmp_path: Path) -> None:
    noticed, missed = flip_in_catalog(tmp_path, whole, 500, 2)
    assert noticed >= 420
    assert missed == []


def flip_in_log(folder: Path, many: int, seed: int) -> set[int]:
    """How many rows are left by flips in the log of a catalog whose processes were killed."""
    lake = Lake(folder)
    with sqlite3.connect(lake.path) as other:  # nobody is the last, who copies the log into the catalog
        lake.sql("CREATE TABLE t (a int)")
        other.execute("SELECT count(*) FROM pg_class").fetchall()
        for number in range(1, 21):
            lake.sql(f"INSERT INTO t VALUES ({number})")
        whole, log = lake.path.read_bytes(), Path(f"{lake.path}-wal").read_bytes()
        lake.close()
    other.close()
    chance = random.Random(seed)
    left = set()
    for _ in range(many):
        changed = bytearray(log)
        changed[chance.randrange(len(log) // 2, len(log))] ^= 1 << chance.randrange(8)
        Path(f"{lake.path}-shm").unlink(missing_ok=True)
        lake.path.write_bytes(whole)
        Path(f"{lake.path}-wal").write_bytes(changed)
        assert damage(lake.path) == []
        lake.catalog = open_catalog(lake.path)
        lake.session = open_session(lake.catalog)
        rows = lake.rows("t")
        assert rows == [(str(number),) for number in range(1, len(rows) + 1)]
        left.add(len(rows))
        lake.close()
    return left


def test_a_flipped_bit_in_the_log_ends_it_there_as_in_postgresql(tmp_path: Path) -> None:
    assert len(flip_in_log(tmp_path, 10, 3)) > 1


@pytest.mark.slow
def test_many_flipped_bits_in_the_log_end_it_there(tmp_path: Path) -> None:
    assert len(flip_in_log(tmp_path, 100, 4)) > 3
