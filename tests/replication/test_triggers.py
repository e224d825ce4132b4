"""Triggers where changes arrive: during apply row triggers fire, during an initial copy those of the statement, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import pgrepl.backend as backend
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.rows.triggers import TriggerData
from pgrepl.sql.parser import parse
from pgrepl.statements.run import execute_nested
from tests.harness.pair import Pair
from tests.rows.triggers_called import EXECUTE, Row

Function = Callable[[Session, TriggerData], "Row | None"]


class Triggered(Pair):
    """A pair whose triggers are functions of Python, by the triggers' names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.calls: list[str] = []
        self.functions: dict[str, Function] = {}

    def call(self, session: Session, function: int, data: TriggerData) -> Row | None:
        rows = "".join(f" {row}" for row in (data.old, data.new) if row is not None)
        self.calls.append(f"{data.name} {data.event.value} {data.relation.name}{rows}")
        own = self.functions.get(data.name)
        if own is not None:
            return own(session, data)
        return data.new if data.new is not None else data.old

    def trigger(self, name: str, what: str, enabled: str = "REPLICA") -> None:
        self.sub(f"CREATE TRIGGER {name} {what} {EXECUTE}")
        self.sub(f"ALTER TABLE t ENABLE {enabled} TRIGGER {name}")

    def taken(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Triggered]:
    monkeypatch.setattr(backend, "HOOKS", replace(backend.HOOKS, call_trigger=lambda *call: made[0].call(*call)))
    made = [Triggered(tmp_path)]
    made[0].both("CREATE TABLE t (a int PRIMARY KEY, b text)")
    made[0].pub("CREATE PUBLICATION p FOR ALL TABLES")
    yield made[0]
    made[0].close()


def _query(session: Session, text: str) -> list[tuple[object, ...]]:
    (raw,) = parse(text)
    return list(execute_nested(session, raw.stmt).values or ())


def test_a_copy_fires_triggers_of_rows_and_of_the_statement(pair: Triggered) -> None:
    pair.pub("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    pair.trigger("r", "BEFORE INSERT ON t FOR EACH ROW")
    pair.trigger("s", "AFTER INSERT ON t REFERENCING NEW TABLE AS n")
    pair.sub(f"CREATE TRIGGER o BEFORE INSERT ON t {EXECUTE}")  # not for replicas
    pair.functions["r"] = lambda session, data: data.new if data.new == (1, "x") else (20, "changed")
    seen = []

    def logged(session: Session, data: TriggerData) -> None:
        seen.extend(_query(session, "SELECT a FROM n ORDER BY a"))

    pair.functions["s"] = logged
    pair.subscribe()
    assert pair.taken() == ["r INSERT t (1, 'x')", "r INSERT t (2, 'y')", "s INSERT t"]
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "x"), ("20", "changed")]
    assert seen == [(1,), (20,)]


def test_apply_fires_triggers_of_rows(pair: Triggered) -> None:
    pair.both("CREATE TABLE u (a int PRIMARY KEY)")
    pair.subscribe()
    for when in ("BEFORE", "AFTER"):
        pair.trigger(f"{when}_row", f"{when} INSERT OR UPDATE OR DELETE ON t FOR EACH ROW")
        pair.trigger(f"{when}_statement", f"{when} INSERT OR UPDATE OR DELETE ON t")
    pair.trigger("of_b", "AFTER UPDATE OF b ON t FOR EACH ROW", "ALWAYS")
    pair.trigger("emptied", "AFTER TRUNCATE ON t")
    pair.pub("BEGIN; INSERT INTO t VALUES (1, 'x'), (2, 'y'); UPDATE t SET b = 'z' WHERE a = 1; DELETE FROM t; COMMIT")
    pair.pub("INSERT INTO u VALUES (1)")
    assert not pair.catch_up()
    assert pair.taken() == [
        "before_row INSERT t (1, 'x')", "after_row INSERT t (1, 'x')",
        "before_row INSERT t (2, 'y')", "after_row INSERT t (2, 'y')",
        "before_row UPDATE t (1, 'x') (1, 'z')", "after_row UPDATE t (1, 'x') (1, 'z')",
        "of_b UPDATE t (1, 'x') (1, 'z')",
        "before_row DELETE t (2, 'y')", "after_row DELETE t (2, 'y')",
        "before_row DELETE t (1, 'z')", "after_row DELETE t (1, 'z')",
    ]  # fmt: skip
    pair.pub("TRUNCATE t")
    assert not pair.catch_up()
    assert pair.taken() == ["emptied TRUNCATE t"]


def test_what_functions_see_and_write(pair: Triggered) -> None:
    pair.sub("CREATE TABLE log (n int, what text)")
    pair.subscribe()
    pair.trigger("x", "AFTER INSERT OR DELETE ON t FOR EACH ROW")

    def logged(session: Session, data: TriggerData) -> None:
        _query(session, f"INSERT INTO public.log SELECT count(*), '{data.event.value}' FROM public.t")

    pair.functions["x"] = logged
    pair.pub(
        "BEGIN; INSERT INTO t VALUES (1), (2); DELETE FROM t WHERE a = 1; INSERT INTO t VALUES (1, 'again'); COMMIT"
    )
    assert not pair.catch_up()
    assert pair.sub("SELECT * FROM log") == [("1", "INSERT"), ("2", "INSERT"), ("1", "DELETE"), ("2", "INSERT")]
    assert pair.sub("SELECT * FROM t ORDER BY a") == [("1", "again"), ("2", None)]


def test_a_before_trigger_that_changes_its_row(pair: Triggered) -> None:
    pair.pub("INSERT INTO t VALUES (1, 'x')")
    pair.subscribe()
    pair.trigger("x", "BEFORE UPDATE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0)")

    def changed(session: Session, data: TriggerData) -> Row | None:
        _query(session, "UPDATE public.t SET b = 'by the trigger'")
        return data.new

    pair.functions["x"] = changed
    pair.pub("UPDATE t SET b = 'y'")
    [(message, _, context)] = pair.catch_up()
    assert message == "tuple to be updated was already modified by an operation triggered by the current command"
    assert context is not None and ' during message type "UPDATE" for replication target relation "public.t"' in context


def test_an_error_in_a_trigger_is_a_conflict(pair: Triggered) -> None:
    pair.both("CREATE TABLE u (a int PRIMARY KEY)")
    pair.subscribe()
    pair.trigger("x", "BEFORE INSERT ON t FOR EACH ROW")

    def refused(session: Session, data: TriggerData) -> Row | None:
        raise PgError("P0001", "not today", context="PL/pgSQL function f() line 1 at RAISE")

    pair.functions["x"] = refused
    pair.pub("INSERT INTO u VALUES (1)")
    pair.pub("INSERT INTO t VALUES (1)")
    [(message, _, context)] = pair.catch_up()
    assert message == "not today"
    assert context is not None and context.startswith(
        "PL/pgSQL function f() line 1 at RAISE\nprocessing remote data for replication origin "
    )
    assert (pair.sub("SELECT * FROM u"), pair.sub("SELECT * FROM t")) == ([("1",)], [])
    del pair.functions["x"]
    assert not pair.catch_up()
    assert pair.sub("SELECT a FROM t") == [("1",)]


def test_transactions_before_the_one_that_fails_are_applied(pair: Triggered) -> None:
    pair.sub("CREATE TABLE log (a int)")
    pair.subscribe()
    pair.trigger("x", "AFTER INSERT ON t FOR EACH ROW")

    def logged(session: Session, data: TriggerData) -> None:
        assert data.new is not None
        _query(session, f"INSERT INTO public.log VALUES (1 / (3 - {data.new[0]}))")

    pair.functions["x"] = logged
    for number in range(1, 5):
        pair.pub(f"INSERT INTO t VALUES ({number})")
    [(message, _, _)] = pair.catch_up()
    assert message == "division by zero"
    assert (pair.sub("SELECT a FROM t"), pair.sub("SELECT * FROM log")) == ([("1",), ("2",)], [("0",), ("1",)])
    pair.sub("ALTER TABLE t DISABLE TRIGGER x")
    assert not pair.catch_up()
    assert pair.sub("SELECT count(*) FROM t") == [("4",)]


def test_constraint_triggers_fire_at_the_end_of_the_transaction(pair: Triggered) -> None:
    pair.subscribe()
    pair.sub(f"CREATE CONSTRAINT TRIGGER x AFTER INSERT ON t INITIALLY DEFERRED FOR EACH ROW {EXECUTE}")
    pair.sub("ALTER TABLE t ENABLE ALWAYS TRIGGER x")
    seen: list[object] = []
    pair.functions["x"] = lambda session, data: seen.extend(_query(session, "SELECT count(*) FROM public.t"))
    pair.pub("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT")
    assert not pair.catch_up()
    assert seen == [(2,), (2,)]
