"""When triggers fire, with which rows, and what their functions see and change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgrepl.rows.triggers import TriggerData
from tests.harness.played import Instance
from tests.rows.triggers_called import EXECUTE, Called, Row

Play = Callable[..., list[str]]


@pytest.fixture
def called(instance: Instance) -> Called:
    return Called(instance.session("pub"))


@pytest.fixture
def play(instance: Instance) -> Play:
    return lambda *statements: instance.play("pub", *statements)


def test_triggers_fire_around_each_row_and_statement(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int PRIMARY KEY, b text, g int GENERATED ALWAYS AS (a + 1) STORED)")
    for when in ("BEFORE", "AFTER"):
        for level in ("ROW", "STATEMENT"):
            play(f"CREATE TRIGGER {when}_{level} {when} INSERT OR UPDATE OR DELETE ON t FOR EACH {level} {EXECUTE}")
    assert play("INSERT INTO t VALUES (1, 'x'), (2, 'y')") == ["INSERT 0 2"]
    assert called.taken() == [
        "before_statement BEFORE INSERT STATEMENT t",
        "before_row BEFORE INSERT ROW t new=(1, 'x', None)",
        "before_row BEFORE INSERT ROW t new=(2, 'y', None)",
        "after_row AFTER INSERT ROW t new=(1, 'x', 2)",
        "after_row AFTER INSERT ROW t new=(2, 'y', 3)",
        "after_statement AFTER INSERT STATEMENT t",
    ]
    assert play("UPDATE t SET a = 5 WHERE a = 1") == ["UPDATE 1"]
    assert called.taken() == [
        "before_statement BEFORE UPDATE STATEMENT t",
        "before_row BEFORE UPDATE ROW t old=(1, 'x', 2) new=(5, 'x', None)",
        "after_row AFTER UPDATE ROW t old=(1, 'x', 2) new=(5, 'x', 6)",
        "after_statement AFTER UPDATE STATEMENT t",
    ]
    assert play("DELETE FROM t WHERE a = 9") == ["DELETE 0"]
    assert called.taken() == ["before_statement BEFORE DELETE STATEMENT t", "after_statement AFTER DELETE STATEMENT t"]
    assert play("INSERT INTO t VALUES (2, 'n'), (3, 'n') ON CONFLICT (a) DO UPDATE SET b = 'u'") == ["INSERT 0 2"]
    assert called.taken() == [
        "before_statement BEFORE INSERT STATEMENT t",
        "before_statement BEFORE UPDATE STATEMENT t",
        "before_row BEFORE INSERT ROW t new=(2, 'n', None)",
        "before_row BEFORE UPDATE ROW t old=(2, 'y', 3) new=(2, 'u', None)",
        "before_row BEFORE INSERT ROW t new=(3, 'n', None)",
        "after_row AFTER UPDATE ROW t old=(2, 'y', 3) new=(2, 'u', 3)",
        "after_row AFTER INSERT ROW t new=(3, 'n', 4)",
        "after_statement AFTER UPDATE STATEMENT t",
        "after_statement AFTER INSERT STATEMENT t",
    ]


def test_a_before_trigger_changes_the_row_or_leaves_it_out(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int PRIMARY KEY, b text)", f"CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW {EXECUTE}")
    counts = []

    def changed(data: TriggerData) -> Row | None:
        assert data.new is not None
        counts.append(called.query("SELECT count(*) FROM t")[0][0])
        return None if data.new[0] == 2 else (data.new[0] * 10, "changed")

    called.functions["x"] = changed
    assert play("INSERT INTO t SELECT i, 'new' FROM generate_series(1, 3) i RETURNING *") == [
        "10|changed", "30|changed", "INSERT 0 2",
    ][:2]  # fmt: skip
    assert counts == [0, 1, 1]  # the function sees the rows before its own
    assert play("INSERT INTO t VALUES (4), (4), (5)") == [
        'ERROR:  duplicate key value violates unique constraint "t_pkey"', "DETAIL:  Key (a)=(40) already exists.",
    ]  # fmt: skip
    assert len(called.taken()) == 5  # the third row is not come to


def test_a_row_that_a_before_trigger_changes_itself(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    play(f"CREATE TRIGGER x BEFORE UPDATE OR DELETE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0) {EXECUTE}")

    def changed(data: TriggerData) -> Row | None:
        called.query("UPDATE t SET a = 7")
        return data.new

    called.functions["x"] = changed
    assert play("UPDATE t SET a = 5")[0] == (
        "ERROR:  tuple to be updated was already modified by an operation triggered by the current command"
    )


def test_foreign_key_actions_fire_triggers(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE c (x int REFERENCES t ON DELETE CASCADE)")
    play("INSERT INTO t VALUES (1), (2)", "INSERT INTO c VALUES (1), (2), (2)")
    play(f"CREATE TRIGGER r BEFORE DELETE ON c FOR EACH ROW {EXECUTE}")
    play(f"CREATE TRIGGER s BEFORE DELETE ON c {EXECUTE}", f"CREATE TRIGGER z AFTER DELETE ON c {EXECUTE}")
    play(f"CREATE TRIGGER y AFTER DELETE ON t REFERENCING OLD TABLE gone FOR EACH ROW {EXECUTE}")
    assert play("DELETE FROM t") == ["DELETE 2"]
    assert called.taken() == [
        "s BEFORE DELETE STATEMENT c",
        "r BEFORE DELETE ROW c old=(1,)",
        "y AFTER DELETE ROW t old=(1,) gone:[(1,), (2,)]",
        "r BEFORE DELETE ROW c old=(2,)",
        "r BEFORE DELETE ROW c old=(2,)",
        "y AFTER DELETE ROW t old=(2,) gone:[(1,), (2,)]",
        "z AFTER DELETE STATEMENT c",
    ]


def test_transition_tables_are_read_by_name(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')", "CREATE TABLE log (a int, b int)")
    play(f"CREATE TRIGGER x AFTER UPDATE ON t REFERENCING OLD TABLE AS o NEW TABLE AS n {EXECUTE}")

    def logged(data: TriggerData) -> None:
        called.query("INSERT INTO log SELECT o.a, n.a FROM o JOIN n USING (b)")

    called.functions["x"] = logged
    assert play("UPDATE t SET a = a + 10", "SELECT * FROM log ORDER BY a") == ["UPDATE 2", "1|11", "2|12"]
    assert play("SELECT * FROM o") == ['ERROR:  relation "o" does not exist']


def test_rows_that_move_to_another_partition(called: Called, play: Play) -> None:
    play("CREATE TABLE p (a int) PARTITION BY LIST (a)", "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    play("CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)", "INSERT INTO p VALUES (1)")
    for when in ("BEFORE", "AFTER"):
        play(f"CREATE TRIGGER {when}_r {when} INSERT OR UPDATE OR DELETE ON p FOR EACH ROW {EXECUTE}")
        play(f"CREATE TRIGGER {when}_s {when} INSERT OR UPDATE OR DELETE ON p {EXECUTE}")
    assert play("UPDATE p SET a = 2") == ["UPDATE 1"]
    assert called.taken() == [
        "before_s BEFORE UPDATE STATEMENT p",
        "before_r BEFORE UPDATE ROW p1 old=(1,) new=(2,)",
        "before_r BEFORE DELETE ROW p1 old=(1,)",
        "before_r BEFORE INSERT ROW p2 new=(2,)",
        "after_r AFTER DELETE ROW p1 old=(1,)",
        "after_r AFTER INSERT ROW p2 new=(2,)",
        "after_s AFTER UPDATE STATEMENT p",
    ]
    called.functions["before_r"] = lambda data: (1,)
    assert play("INSERT INTO p VALUES (2)") == [
        "ERROR:  moving row to another partition during a BEFORE FOR EACH ROW trigger is not supported",
        'DETAIL:  Before executing trigger "before_r", the row was to be in partition "public.p2".',
    ]


def test_constraint_triggers_wait_for_the_commit(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int)")
    play(f"CREATE CONSTRAINT TRIGGER x AFTER INSERT ON t INITIALLY DEFERRED FOR EACH ROW {EXECUTE}")
    play("BEGIN", "INSERT INTO t VALUES (1)")
    assert called.taken() == []
    assert play("ALTER TABLE t ADD b int") == ['ERROR:  cannot ALTER TABLE "t" because it has pending trigger events']
    play("ROLLBACK", "BEGIN", "INSERT INTO t VALUES (2)", "SET CONSTRAINTS x IMMEDIATE")
    assert called.taken() == ["x AFTER INSERT ROW t new=(2,)"]
    play("SET CONSTRAINTS ALL DEFERRED", "INSERT INTO t VALUES (3)", "COMMIT")
    assert called.taken() == ["x AFTER INSERT ROW t new=(3,)"]


def test_truncate_triggers(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    play(f"CREATE TRIGGER x BEFORE TRUNCATE ON t {EXECUTE}", f"CREATE TRIGGER y AFTER TRUNCATE ON t {EXECUTE}")
    called.functions["x"] = called.functions["y"] = lambda data: called.calls.append(
        str(called.query("SELECT count(*) FROM t"))
    )
    assert play("TRUNCATE t") == ["TRUNCATE TABLE"]
    assert called.taken() == [
        "x BEFORE TRUNCATE STATEMENT t", "[(1,)]", "y AFTER TRUNCATE STATEMENT t", "[(0,)]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("enabled", "role", "fires"),
    [
        ("ENABLE", "origin", True), ("ENABLE", "replica", False), ("ENABLE REPLICA", "origin", False),
        ("ENABLE REPLICA", "replica", True), ("ENABLE ALWAYS", "replica", True), ("DISABLE", "origin", False),
    ],
)  # fmt: skip
def test_which_triggers_are_enabled(called: Called, play: Play, enabled: str, role: str, fires: bool) -> None:
    play("CREATE TABLE t (a int)", f"CREATE TRIGGER x AFTER INSERT ON t {EXECUTE}")
    play(f"ALTER TABLE t {enabled} TRIGGER x", f"SET session_replication_role = {role}", "INSERT INTO t VALUES (1)")
    assert bool(called.taken()) == fires


def test_disabled_triggers_of_foreign_keys(instance: Instance, play: Play) -> None:
    play("CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE c (x int REFERENCES t)")
    missing = 'ERROR:  insert or update on table "c" violates foreign key constraint "c_x_fkey"'
    assert play("INSERT INTO c VALUES (1)")[0] == missing
    assert play("ALTER TABLE c DISABLE TRIGGER ALL", "INSERT INTO c VALUES (1)") == ["ALTER TABLE", "INSERT 0 1"]
    assert play("ALTER TABLE c ENABLE TRIGGER USER", "INSERT INTO c VALUES (2)") == ["ALTER TABLE", "INSERT 0 1"]
    assert play("ALTER TABLE c ENABLE TRIGGER ALL", "INSERT INTO c VALUES (3)")[:2] == ["ALTER TABLE", missing]
    assert play("SELECT count(*) FROM pg_trigger WHERE tgenabled = 'D'") == ["0"]


def test_redundant_updates_are_suppressed(instance: Instance, play: Play) -> None:
    play("CREATE TABLE t (a int, b numeric)", "INSERT INTO t VALUES (1, 1.0), (2, 2.00)")
    play(f"CREATE TRIGGER x BEFORE UPDATE ON t FOR EACH ROW {EXECUTE}")
    assert play("UPDATE t SET b = 2.00") == ["UPDATE 1"]
    play(f"CREATE TRIGGER y BEFORE INSERT ON t FOR EACH ROW {EXECUTE}")
    assert play("INSERT INTO t VALUES (3)") == ["ERROR:  suppress_redundant_updates_trigger: must be called on update"]


def test_tables_with_triggers_are_changed_row_by_row(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int)", f"CREATE TRIGGER x AFTER INSERT ON t {EXECUTE}")
    play("SET pgrepl.engine = columns")
    assert play("INSERT INTO t SELECT i FROM generate_series(1, 9) i") == ["INSERT 0 9"]
    assert called.taken() == ["x AFTER INSERT STATEMENT t"]


def test_instead_of_triggers_change_what_a_view_shows(called: Called, play: Play) -> None:
    play("CREATE TABLE t (a int, b text)", "CREATE VIEW v AS SELECT a, upper(b) AS b FROM t", "CREATE TABLE u (a int)")
    play("INSERT INTO t VALUES (1, 'x'), (2, 'y')", "INSERT INTO u VALUES (1), (2)")
    play(f"CREATE TRIGGER i INSTEAD OF INSERT OR UPDATE OR DELETE ON v FOR EACH ROW {EXECUTE}")
    play(f"CREATE TRIGGER s BEFORE INSERT OR UPDATE OR DELETE ON v {EXECUTE}")
    play(f"CREATE TRIGGER z AFTER INSERT OR UPDATE OR DELETE ON v {EXECUTE}")

    def done(data: TriggerData) -> Row | None:
        if data.new is None:
            assert data.old is not None
            called.query(f"DELETE FROM t WHERE a = {data.old[0]}")
            return data.old
        called.query(f"INSERT INTO t VALUES ({data.new[0]}, 'by trigger')")
        return None if data.new[0] == 5 else (data.new[0], "given back")

    called.functions["i"] = done
    assert play("INSERT INTO v VALUES (3), (5) RETURNING *, a + 1") == ["3|given back|4"]
    assert called.taken() == [
        "s BEFORE INSERT STATEMENT v", "i INSTEAD OF INSERT ROW v new=(3, None)",
        "i INSTEAD OF INSERT ROW v new=(5, None)", "z AFTER INSERT STATEMENT v",
    ]  # fmt: skip
    assert play("UPDATE v SET a = v.a + 10 FROM u WHERE v.a = u.a AND u.a = 2 RETURNING v.*, u.a") == [
        "12|given back|2"
    ]
    assert play("DELETE FROM v WHERE b = 'X'") == ["DELETE 1"]
    assert called.taken()[-2:] == ["i INSTEAD OF DELETE ROW v old=(1, 'X')", "z AFTER DELETE STATEMENT v"]
    assert play("SELECT * FROM t ORDER BY a") == ["2|y", "3|by trigger", "5|by trigger", "12|by trigger"]
    assert play("BEGIN", "DELETE FROM v", "COMMIT", "SELECT count(*) FROM t") == ["BEGIN", "DELETE 4", "COMMIT", "0"]


def test_no_trigger_does_twice_what_it_does_as_a_column_comes_to_keep_several_dimensions(play: Play) -> None:
    play(
        "CREATE TABLE log (n int)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO log VALUES (1); RETURN new; END $$",
    )
    for table in ("apart", "block", "file"):
        play(f"CREATE TABLE {table} (a int[])")
        play(f"CREATE TRIGGER x BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION f()")
    rows = "VALUES ('{1}'), ('{{1,2}}')"
    assert play(f"INSERT INTO apart {rows}", "SELECT count(*) FROM log") == ["INSERT 0 2", "2"]
    refused = 'ERROR:  column "a" of relation "{}" cannot become one of arrays of several dimensions now'.format
    assert play("BEGIN", f"INSERT INTO block {rows}", "ROLLBACK")[1] == refused("block")
    assert play("COPY file FROM PROGRAM 'echo {1}; echo {{1,2}}'")[0] == refused("file")
    play("ALTER TABLE block ALTER COLUMN a TYPE integer[][]")
    assert play("BEGIN", f"INSERT INTO block {rows}", "COMMIT", "SELECT count(*) FROM log")[3] == "4"
