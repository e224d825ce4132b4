"""INSERT, UPDATE and DELETE beside what the recorded scripts say: large lists, locks, other sessions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.engine.choice import Choice, Engine
from pgrepl.ground.errors import Declined, PgError
from pgrepl.query import rowset
from pgrepl.rows.locking import lock_tables
from pgrepl.statements.run import run
from pgrepl.writing import modify_spark
from pgrepl.writing import run as writing_run
from pgrepl.writing.copy import copy_from
from tests.harness.played import Instance
from tests.harness.programs import eventually
from tests.lake.duck import duck


def values(session: Session, statement: str) -> list[tuple[str | None, ...]]:
    return [tuple(row) for result in run(session, statement) for row in result.rows]


def test_a_long_list_of_literals_is_read_as_a_short_one_is(instance: Instance) -> None:
    instance.play(
        "pub", "CREATE TABLE t (a int, b varchar(5), c numeric(6,2), d timestamptz, e bool)", "SET timezone = 'UTC'"
    )
    row = "({n}, 'v{n}', {n}.005, '2020-01-01 00:00:{n:02}+01', true)"
    long = ", ".join(row.format(n=n) for n in range(30))
    assert instance.play("pub", f"INSERT INTO t VALUES {long}, (NULL, '', 1e2, 'epoch', NULL)") == ["INSERT 0 31"]
    assert instance.play("pub", "SELECT * FROM t WHERE a = 7 OR a IS NULL") == [
        "7|v7|7.01|2019-12-31 23:00:07+00|t",
        "||100.00|1970-01-01 00:00:00+00|",
    ]


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ("('x', 'b')", ['ERROR:  invalid input syntax for type integer: "x"']),
        ("(1, 'toolong')", ["ERROR:  value too long for type character varying(5)"]),
        ("(99999999999, 'b')", ["ERROR:  integer out of range"]),
        ("(1, 'b', 3)", ["ERROR:  VALUES lists must all be the same length"]),
        ("(true, 'b')", [
            'ERROR:  column "a" is of type integer but expression is of type boolean',
            "HINT:  You will need to rewrite or cast the expression.",
        ]),
    ],
)  # fmt: skip
def test_a_mistake_far_down_a_long_list_is_found(instance: Instance, wrong: str, answer: list[str]) -> None:
    instance.play("pub", "CREATE TABLE t (a int, b varchar(5))")
    rows = ", ".join(f"({n}, 'v{n}')" for n in range(40))
    assert instance.play("pub", f"INSERT INTO t VALUES {rows}, {wrong}", "SELECT count(*) FROM t") == [*answer, "0"]


def test_expressions_among_many_literals(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int, b text)")
    rows = ", ".join(f"({n}, 'v')" for n in range(40))
    assert instance.play("pub", f"INSERT INTO t VALUES {rows}, (40, upper('x') || 'y')") == ["INSERT 0 41"]
    assert instance.play("pub", "SELECT * FROM t WHERE b <> 'v'") == ["40|Xy"]


def test_a_number_taken_from_a_sequence_stays_taken(instance: Instance) -> None:
    assert instance.play(
        "pub",
        "CREATE TABLE t (id serial, v int CHECK (v > 0))",
        "INSERT INTO t (v) VALUES (1), (-1)",
        "INSERT INTO t (v) VALUES (1) RETURNING id",
        "BEGIN",
        "INSERT INTO t (v) VALUES (2) RETURNING id",
        "SAVEPOINT s",
        "INSERT INTO t (v) VALUES (3) RETURNING id",
        "ROLLBACK TO s",
        "INSERT INTO t (v) VALUES (4) RETURNING id",
        "ROLLBACK",
        "SELECT nextval('t_id_seq')",
    )[1:] == [
        'ERROR:  new row for relation "t" violates check constraint "t_v_check"',
        "DETAIL:  Failing row contains (2, -1).",
        "3", "BEGIN", "4", "SAVEPOINT", "5", "ROLLBACK", "6", "ROLLBACK", "7",
    ]  # fmt: skip


def test_a_writer_waits_for_another_and_sees_what_it_did(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 0)")
    one = open_session(instance.catalog, "pub")
    two = open_session(instance.catalog, "pub")
    list(run(one, "BEGIN"))
    list(run(one, "UPDATE t SET n = n + 1"))
    done: list[str | None] = []

    def second() -> None:
        done.extend(result.tag for result in run(two, "UPDATE t SET n = n + 10"))

    waiting = threading.Thread(target=second)
    waiting.start()
    eventually(lambda: values(one, "SELECT count(*) FROM pg_locks WHERE NOT granted") == [("1",)])
    assert done == []
    list(run(one, "COMMIT"))
    waiting.join()
    assert done == ["UPDATE 1"]
    assert values(one, "SELECT n FROM t") == [("11",)]
    one.close()
    two.close()


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_who_keeps_a_snapshot_cannot_write_over_rows_that_were_changed_since(instance: Instance, level: str) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    one, two = open_session(instance.catalog, "pub"), open_session(instance.catalog, "pub")
    list(run(one, f"BEGIN ISOLATION LEVEL {level}"))
    assert values(one, "SELECT * FROM t") == [("1",)]
    list(run(two, "INSERT INTO t VALUES (2)"))
    assert values(one, "SELECT * FROM t") == [("1",)]
    list(run(one, "UPDATE t SET a = a"))
    list(run(one, "ROLLBACK"))
    list(run(one, f"BEGIN ISOLATION LEVEL {level}"))
    assert values(one, "SELECT * FROM t") == [("1",), ("2",)]
    list(run(two, "UPDATE t SET a = 7 WHERE a = 2"))
    with pytest.raises(PgError) as refused:
        list(run(one, "UPDATE t SET a = 5"))
    assert (refused.value.sqlstate, refused.value.message) == (
        "40001",
        "could not serialize access due to concurrent update",
    )
    list(run(one, "ROLLBACK"))
    assert values(one, "SELECT * FROM t ORDER BY a") == [("1",), ("7",)]
    one.close()
    two.close()


def test_a_statement_sees_no_row_of_its_own(instance: Instance) -> None:
    assert instance.play(
        "pub",
        "CREATE TABLE t (a int)",
        "INSERT INTO t VALUES (1), (2)",
        "INSERT INTO t SELECT a + 2 FROM t",
        "UPDATE t SET a = (SELECT max(a) FROM t) + a",
        "DELETE FROM t WHERE a = (SELECT min(a) FROM t)",
        "SELECT * FROM t",
    )[1:] == ["INSERT 0 2", "INSERT 0 2", "UPDATE 4", "DELETE 1", "6", "7", "8"]


def test_a_row_joined_to_several_is_changed_once(instance: Instance) -> None:
    assert instance.play(
        "pub",
        "CREATE TABLE t (a int, n int)",
        "INSERT INTO t VALUES (1, 0), (2, 0)",
        "UPDATE t SET n = n + 1 FROM (VALUES (1), (1), (1)) v(k) WHERE a = k RETURNING a, n",
        "DELETE FROM t USING (VALUES (1), (1)) v(k) WHERE a = k RETURNING a",
        "SELECT * FROM t",
    )[2:] == ["1|1", "1", "2|0"]


def test_partitions_that_a_condition_rules_out_need_no_replica_identity(instance: Instance) -> None:
    instance.play(
        "pub",
        "CREATE TABLE p (a int, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE p3 PARTITION OF p DEFAULT",
        "ALTER TABLE p2 ADD PRIMARY KEY (a)",
        "INSERT INTO p VALUES (1, 1), (11, 1), (50, 1)",
        "CREATE PUBLICATION pub FOR TABLE p",
    )
    refused = "because it does not have a replica identity and publishes updates"
    hint = "HINT:  To enable updating the table, set REPLICA IDENTITY using ALTER TABLE."
    assert instance.play("pub", "UPDATE p SET b = 2 WHERE a = 11", "UPDATE p SET b = 2 WHERE a IN (12, 13)") == [
        "UPDATE 1",
        "UPDATE 0",
    ]
    assert instance.play("pub", "UPDATE p SET b = 2 WHERE a < 5") == [
        f'ERROR:  cannot update table "p1" {refused}',
        hint,
    ]
    assert instance.play("pub", "UPDATE p SET b = 2 WHERE a = 77") == [
        f'ERROR:  cannot update table "p3" {refused}',
        hint,
    ]


def test_identity_columns_are_numbered_after_the_table_is_read_again(tmp_path: Path) -> None:
    first = Instance(tmp_path / "here")
    first.play("pub", "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text)", "INSERT INTO t (v) VALUES ('a')")
    first.catalog.close()
    again = open_session(first.catalog, "pub")
    assert values(again, "INSERT INTO t (v) VALUES ('b') RETURNING *") == [("2", "b")]
    again.close()
    first.catalog.close()


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("INSERT INTO t VALUES ((SELECT 1), (SELECT max(a) FROM t))", "INSERT 0 1"),
        ("UPDATE t SET (a, b) = (SELECT b, a) RETURNING a, b", "|1"),
        ("UPDATE t SET (a, b) = (SELECT 5, count(*) FROM t x WHERE x.a <= t.a) RETURNING a, b", "5|1"),
        ("DELETE FROM t WHERE EXISTS (SELECT FROM t x WHERE x.a = t.a)", "DELETE 1"),
    ],
)
def test_subqueries_about_the_table_itself(instance: Instance, statement: str, answer: str) -> None:
    instance.play("pub", "CREATE TABLE t (a int, b int)", "INSERT INTO t (a) VALUES (1)")
    assert instance.play("pub", statement) == [answer]


def test_what_cannot_be_done_is_said(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)")
    assert instance.play("pub", "INSERT INTO t VALUES (1) RETURNING ctid", "DELETE FROM t WHERE CURRENT OF c") == [
        'ERROR:  system column "ctid" in RETURNING is not supported',
        'ERROR:  cursor "c" does not exist',
    ]


def test_rows_in_columns_are_text_to_duckdb(instance: Instance) -> None:
    instance.play(
        "pub",
        "CREATE TABLE spot (x int, label text)",
        "CREATE TABLE t (a int, p spot)",
        "INSERT INTO t VALUES (1, row(1, 'a, b')), (2, NULL), (3, '(,)')",
        "ALTER TABLE spot DROP COLUMN x",
        "INSERT INTO t VALUES (4, row('c'))",
        "VACUUM t",
    )
    assert instance.play("pub", "SELECT a, (p).label FROM t ORDER BY a") == ["1|a, b", "2|", "3|", "4|c"]
    assert duck(instance.folder / "catalog.db", "SELECT a, p FROM lake.pub.t ORDER BY a") == [
        ("1", '(1,"a, b")'), ("2", None), ("3", "(,)"), ("4", "(,c)"),
    ]  # fmt: skip


def count(
    module: ModuleType,
    name: str,
    calls: list[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[..., Any] | None = None,
) -> None:
    """Note each call of a module's function, which answers as ever or with `answer`."""
    called = answer or getattr(module, name)

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(name)
        return called(*args, **options)

    monkeypatch.setattr(module, name, counted)


def declines(*_: object) -> None:
    raise Declined("the test")


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_a_statement_is_planned_and_its_engine_chosen_once(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """Also one for Spark, which is looked at under the catalog's lock and carried out without it."""
    instance.play(
        "pub", "CREATE TABLE t (a int, n int)", "INSERT INTO t VALUES (1, 0), (2, 0)", f"SET pgrepl.engine = {engine}"
    )
    calls: list[str] = []
    count(writing_run, "plan", calls, monkeypatch)
    count(writing_run, "choose_to_modify", calls, monkeypatch)
    count(modify_spark, "stage", calls, monkeypatch, declines)
    monkeypatch.setattr(rowset, "choose", lambda *_, **__: Choice(Engine.LOCAL, "the test"))
    assert instance.play("pub", "UPDATE t SET n = a WHERE a > (SELECT 0)") == ["UPDATE 2"]
    assert calls == ["plan", "choose_to_modify", *(["stage"] if engine == "spark" else [])]


def test_a_large_statement_in_a_block_is_planned_again_only_if_others_have_changed_something(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its engine is chosen again once the table is locked, as kernels lock no rows."""
    instance.play(
        "pub", "CREATE TABLE t (a int, n int)", "INSERT INTO t VALUES (1, 0), (2, 0)", "SET pgrepl.engine = spark"
    )
    calls: list[str] = []
    for name in ("analyze_modifying", "plan", "choose_to_modify"):
        count(writing_run, name, calls, monkeypatch)
    count(modify_spark, "stage", calls, monkeypatch, declines)
    monkeypatch.setattr(rowset, "choose", lambda *_, **__: Choice(Engine.LOCAL, "the test"))
    update = "UPDATE t SET n = a WHERE a > (SELECT 0)"
    once = ["analyze_modifying", "plan", "choose_to_modify"]
    assert instance.play("pub", "BEGIN", update) == ["BEGIN", "UPDATE 2"]
    assert calls == [*once, "choose_to_modify", "stage"]
    assert instance.play("pub", "COMMIT") == ["COMMIT"]
    calls.clear()

    def meanwhile(*args: Any) -> Any:
        assert instance.play("sub", "CREATE TABLE other (a int)") == ["CREATE TABLE"]
        return lock_tables(*args)

    monkeypatch.setattr(writing_run, "lock_tables", meanwhile)
    assert instance.play("pub", "BEGIN", update, "COMMIT")[-2:] == ["UPDATE 2", "COMMIT"]
    assert calls == [*once, *once, "stage"]


def test_copy_looks_its_table_up_again_only_if_others_have_changed_something(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.play("pub", "CREATE TABLE t (a int, n int DEFAULT 7)")
    file = instance.folder / "rows.txt"
    file.write_text("1\n2\n")
    calls: list[str] = []
    count(copy_from, "find_target", calls, monkeypatch)
    copy = f"COPY t (a) FROM '{file}'"
    assert instance.play("pub", copy) == ["COPY 2"]
    assert calls == ["find_target"]

    def meanwhile(*args: Any) -> Any:
        assert instance.play("sub", "CREATE TABLE other (a int)") == ["CREATE TABLE"]
        return check_target(*args)

    check_target = copy_from.check_target
    monkeypatch.setattr(copy_from, "check_target", meanwhile)
    calls.clear()
    assert instance.play("pub", copy)[-1] == "COPY 2"
    assert calls == ["find_target"] * 2


@pytest.mark.parametrize(("form", "written"), [("text", b"1\tx\n"), ("csv", b"1,x\n")])
def test_copy_in_a_routine_writes_what_is_returned(instance: Instance, form: str, written: bytes) -> None:
    file = instance.folder / "returned"
    instance.play("pub", "CREATE TABLE t (a int, b text)")
    copy = f"COPY (INSERT INTO t VALUES (1, ''x'') RETURNING a, b) TO ''{file}'' (FORMAT {form})"
    assert instance.play("pub", f"DO 'BEGIN {copy}; END'") == ["DO"]
    assert file.read_bytes() == written
