"""TRUNCATE: what the lake and the publishers know of it (what it says is compared by scripts)."""

from __future__ import annotations

import json

from pgrepl.catalog.facts.relation import find_relation, range_var
from tests.harness.played import Instance


def _oid(instance: Instance, name: str) -> int:
    session = instance.session("pub")
    session.transaction.begin_statement()
    found = find_relation(session, range_var([name])).oid
    session.transaction.end_statement()
    return found


def _said(instance: Instance) -> dict[str, object]:
    found = instance.session("pub").link.execute(
        "SELECT commit_extra_info FROM ducklake_snapshot_changes ORDER BY snapshot_id DESC LIMIT 1"
    )
    said = json.loads(found[0][0])
    return dict(said["truncate"])


def test_publishers_learn_how_it_was_said(instance: Instance) -> None:
    instance.play(
        "pub",
        "CREATE TABLE p (a int PRIMARY KEY) PARTITION BY LIST (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "CREATE TABLE r (a int REFERENCES p, s serial)",
        "INSERT INTO p VALUES (1)",
    )
    assert instance.play("pub", "TRUNCATE p CASCADE") == ['NOTICE:  truncate cascades to table "r"', "TRUNCATE TABLE"]
    oids = [_oid(instance, name) for name in ("p", "p1", "r")]
    assert _said(instance) == {"tables": oids, "cascade": True, "restart_identity": False}
    assert instance.play("pub", "TRUNCATE r RESTART IDENTITY") == ["TRUNCATE TABLE"]
    assert _said(instance) == {"tables": [_oid(instance, "r")], "cascade": False, "restart_identity": True}


def test_rows_of_files_and_inlined_ones_go_alike(instance: Instance) -> None:
    instance.play(
        "pub",
        "CREATE TABLE t (a int)",
        "INSERT INTO t SELECT * FROM generate_series(1, 5000)",
        "INSERT INTO t VALUES (-1)",
    )
    assert instance.play(
        "pub", "BEGIN", "DELETE FROM t WHERE a < 10", "TRUNCATE t", "INSERT INTO t VALUES (7)", "SELECT * FROM t"
    ) == ["BEGIN", "DELETE 10", "TRUNCATE TABLE", "INSERT 0 1", "7"]
    assert instance.play("pub", "ROLLBACK", "SELECT count(*), min(a) FROM t") == ["ROLLBACK", "5001|-1"]
    assert instance.play("pub", "TRUNCATE t", "SELECT count(*) FROM t") == ["TRUNCATE TABLE", "0"]


def test_in_a_transaction_that_only_reads(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)")
    assert instance.play("pub", "BEGIN READ ONLY", "TRUNCATE t") == [
        "BEGIN",
        "ERROR:  cannot execute TRUNCATE TABLE in a read-only transaction",
    ]


def test_rows_that_wait_for_the_commit_are_in_the_way(instance: Instance) -> None:
    instance.play(
        "pub", "CREATE TABLE p (a int PRIMARY KEY)", "CREATE TABLE c (a int REFERENCES p DEFERRABLE INITIALLY DEFERRED)"
    )
    assert instance.play("pub", "BEGIN", "INSERT INTO c VALUES (1)", "TRUNCATE c") == [
        "BEGIN",
        "INSERT 0 1",
        'ERROR:  cannot TRUNCATE "c" because it has pending trigger events',
    ]
    assert instance.play("pub", "ROLLBACK", "TRUNCATE c") == ["ROLLBACK", "TRUNCATE TABLE"]
