"""What is checked of rows beyond the words that scripts compare: fields of errors, order, snapshots."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.catalog.facts.relation import find_relation
from pgrepl.ground.errors import PgError, Report
from pgrepl.rows.changes import ModifiedRow, ModifyKind
from pgrepl.rows.checks import prepare
from pgrepl.sql.nodes import RangeVar
from pgrepl.statements.run import run
from tests.harness.played import Instance


def _refused(instance: Instance, statement: str) -> Report:
    with pytest.raises(PgError) as raised:
        list(run(instance.session("pub"), statement))
    return raised.value.report


def _named(report: Report) -> tuple[str | None, ...]:
    return report.sqlstate, report.schema, report.table, report.column, report.constraint


@pytest.mark.parametrize(
    ("statement", "fields"),
    [
        ("INSERT INTO t VALUES (NULL)", ("23502", "public", "t", "a", None)),
        ("INSERT INTO t VALUES (-1)", ("23514", "public", "t", None, "positive")),
        ("INSERT INTO t VALUES (1)", ("23505", "public", "t", None, "t_pkey")),
        ("INSERT INTO r VALUES (9)", ("23503", "public", "r", None, "r_a_fkey")),
        ("DELETE FROM t", ("23503", "public", "r", None, "r_a_fkey")),
        ("INSERT INTO p VALUES (9)", ("23514", "public", "p", None, None)),
        ("INSERT INTO p1 VALUES (9)", ("23514", "public", "p1", None, None)),
        ("ALTER TABLE t ADD CHECK (a > 1)", ("23514", "public", "t", None, "t_a_check")),
        ("ALTER TABLE t ADD b int NOT NULL", ("23502", "public", "t", "b", None)),
        ("ALTER TABLE r ADD UNIQUE (a)", ("23505", "public", "r", None, "r_a_key")),
    ],
)
def test_errors_name_what_they_are_about(instance: Instance, statement: str, fields: tuple[str | None, ...]) -> None:
    instance.play(
        "pub",
        "CREATE TABLE t (a int PRIMARY KEY CONSTRAINT positive CHECK (a > 0))",
        "CREATE TABLE r (a int REFERENCES t)",
        "CREATE TABLE p (a int) PARTITION BY LIST (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO r VALUES (1), (1)",
    )
    assert _named(_refused(instance, statement)) == fields


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ("(1), (2)", ['ERROR:  duplicate key value violates unique constraint "t_pkey"',
                      "DETAIL:  Key (a)=(2) already exists."]),
        ("(2), (1)", ["UPDATE 2"]),
    ],
)  # fmt: skip
def test_a_unique_key_is_checked_row_by_row(instance: Instance, values: str, answer: list[str]) -> None:
    """In the order of the scan (C9)."""
    instance.play("pub", "CREATE TABLE t (a int PRIMARY KEY)", f"INSERT INTO t VALUES {values}")
    assert instance.play("pub", "UPDATE t SET a = a + 1") == answer


def test_the_row_that_fails_is_known_by_its_number(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int PRIMARY KEY, CHECK (a < 10))", "INSERT INTO t VALUES (3)")
    session = instance.session("pub")
    session.transaction.begin_statement(writes=True)
    rel = find_relation(session, RangeVar("t"))

    def failed(*values: int | None, entered: int | None = None) -> tuple[int | None, str]:
        checks = prepare(session, rel, ModifyKind.INSERT)
        rows = (ModifiedRow(rel.oid, new=(value,)) for value in values)
        with pytest.raises(PgError) as raised:
            checks.local(rows, entered=None if entered is None else lambda number: min(entered, number))
        return checks.failed, raised.value.sqlstate

    assert failed(1, 2, None) == (2, "23502")
    assert failed(1, 3, None) == (1, "23505")
    assert failed(1, 3, None, entered=1) == (2, "23502")
    assert failed(1, 1, 10) == (1, "23505")
    session.transaction.end_statement()


def test_an_error_of_the_source_comes_after_the_violations_before_it(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int PRIMARY KEY)")
    source = "SELECT 6 / (3 - i) FROM generate_series(1, 3) i"
    assert instance.play("pub", f"INSERT INTO t {source}") == ["ERROR:  division by zero"]
    instance.play("pub", "INSERT INTO t VALUES (6)")
    assert instance.play("pub", f"INSERT INTO t {source}") == [
        'ERROR:  duplicate key value violates unique constraint "t_pkey"',
        "DETAIL:  Key (a)=(6) already exists.",
    ]


def test_what_cascades_is_a_further_snapshot_of_the_same_transaction(instance: Instance) -> None:
    instance.play(
        "pub",
        "CREATE TABLE p (a int PRIMARY KEY)",
        "CREATE TABLE c (a int REFERENCES p ON DELETE CASCADE)",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO c VALUES (1), (1), (2)",
    )
    before = _snapshots(instance)
    assert instance.play("pub", "DELETE FROM p WHERE a = 1") == ["DELETE 1"]
    after = _snapshots(instance)[len(before) :]
    assert [changes.partition(":")[0] for changes, _ in after] == ["inlined_delete", "inlined_delete"]
    assert [extra for _, extra in after] == [
        f'{{"transaction": {len(before)}}}',
        f'{{"transaction": {len(before)}, "last": true}}',
    ]


def _snapshots(instance: Instance) -> list[tuple[str, str | None]]:
    session = instance.session("pub")
    found = session.link.execute(
        "SELECT changes_made, commit_extra_info FROM ducklake_snapshot_changes ORDER BY snapshot_id"
    )
    return [tuple(row) for row in found]  # type: ignore[misc]


def test_exclusion_constraints_are_refused(instance: Instance) -> None:
    assert instance.play("pub", "CREATE TABLE t (a int4range, EXCLUDE USING gist (a WITH &&))") == [
        "ERROR:  EXCLUDE is not supported"
    ]


@pytest.fixture
def family(instance: Instance) -> Iterator[Instance]:
    instance.play(
        "pub",
        "CREATE TABLE p (a int PRIMARY KEY)",
        "CREATE TABLE c (a int REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE, b text, CHECK (a < 100))",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO c VALUES (1, 'x')",
        "ALTER TABLE c ALTER a SET NOT NULL",
    )
    yield instance


def test_what_an_action_fails_at_happened_in_its_statement(family: Instance) -> None:
    assert _refused(family, "DELETE FROM p").context == (
        'SQL statement "UPDATE ONLY "public"."c" SET "a" = NULL WHERE $1 OPERATOR(pg_catalog.=) "a""'
    )
    assert _refused(family, "UPDATE p SET a = a + 100").context == (
        'SQL statement "UPDATE ONLY "public"."c" SET "a" = $1 WHERE $2 OPERATOR(pg_catalog.=) "a""'
    )


def test_an_action_is_refused_when_it_could_not_be_published(family: Instance) -> None:
    family.play("pub", "ALTER TABLE c ALTER a DROP NOT NULL", "CREATE PUBLICATION pub FOR TABLE c")
    assert family.play("pub", "DELETE FROM p WHERE a = 2", "DELETE FROM p") == [
        'ERROR:  cannot update table "c" because it does not have a replica identity and publishes updates',
        "HINT:  To enable updating the table, set REPLICA IDENTITY using ALTER TABLE.",
        'ERROR:  cannot update table "c" because it does not have a replica identity and publishes updates',
        "HINT:  To enable updating the table, set REPLICA IDENTITY using ALTER TABLE.",
    ]


def test_deferred_checks_are_undone_with_their_savepoint(instance: Instance) -> None:
    instance.play(
        "pub",
        "CREATE TABLE p (a int PRIMARY KEY)",
        "CREATE TABLE c (a int REFERENCES p DEFERRABLE INITIALLY DEFERRED, u int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
    )
    assert instance.play(
        "pub",
        "BEGIN",
        "INSERT INTO c VALUES (NULL, 1)",
        "SAVEPOINT s",
        "INSERT INTO c VALUES (7, 1)",
        "ROLLBACK TO s",
        "COMMIT",
        "SELECT * FROM c",
    ) == ["BEGIN", "INSERT 0 1", "SAVEPOINT", "INSERT 0 1", "ROLLBACK", "COMMIT", "|1"]
    assert instance.play("pub", "BEGIN", "INSERT INTO c VALUES (NULL, 1)", "COMMIT", "SELECT count(*) FROM c") == [
        "BEGIN",
        "INSERT 0 1",
        'ERROR:  duplicate key value violates unique constraint "c_u_key"',
        "DETAIL:  Key (u)=(1) already exists.",
        "1",
    ]
