"""What is required of existing rows, and done with them, when definitions change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.catalog.session.session import Session
from pgrepl.expr.catalog_trees import bound_text
from pgrepl.expr.print.definitions import constraint_definition
from pgrepl.expr.print.deparse import expression_text
from pgrepl.ground.errors import PgError
from pgrepl.query.rowset import LocalRows, SparkRows
from pgrepl.rows import requirements
from pgrepl.rows.requirements import Run
from pgrepl.sql.nodes import RangeVar
from pgrepl.writing.rows_spark import NewColumnValue
from tests.harness.played import Instance


class Asked:
    """Remembers in words what phase 3 was asked."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refuse: PgError | None = None

    def validate(self, session: Session, requirement: requirements.Requirement, run: Run) -> None:
        self.log.append(f"{relation(session, requirement.table).name}: {_words(session, requirement)}")
        if self.refuse is not None:
            raise self.refuse

    def append(self, session: Session, table: Relation, values: LocalRows | SparkRows) -> int:
        kept = list(values)
        self.log.append(f"{table.name}: keep {kept}")
        return len(kept)

    def rewrite(self, session: Session, values: Mapping[int, list[NewColumnValue]]) -> set[int]:
        for table, new in values.items():
            found = relation(session, table)
            for value in new:
                name = found.attributes[value.attnum - 1].name
                self.log.append(f"{found.name}: {name} becomes {expression_text(session, value.expr, found)}")
        return set(values)

    def taken(self) -> list[str]:
        log, self.log = self.log, []
        return log


def _words(session: Session, requirement: requirements.Requirement) -> str:
    if isinstance(requirement, requirements.NotNull):
        return "no nulls"
    if isinstance(requirement, requirements.CheckHolds):
        expr = expression_text(session, requirement.expr, relation(session, requirement.table))
        return f"check {requirement.name} {expr}"
    if isinstance(requirement, requirements.KeysExist):
        return f"keys {constraint_definition(session, requirement.constraint)}"
    if isinstance(requirement, requirements.NotReferenced):
        return f"not referenced {constraint_definition(session, requirement.constraint)}"
    if isinstance(requirement, requirements.Unique):
        return f"unique {relation(session, requirement.index).name}"
    if isinstance(requirement, requirements.Indexed):
        return f"indexed {relation(session, requirement.index).name}"
    what = "in" if isinstance(requirement, requirements.InPartition) else "default beside"
    return f"{what} {relation(session, requirement.parent).name} {bound_text(session, requirement.bound)}"


@pytest.fixture
def phase3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    asked = Asked()
    monkeypatch.setattr("pgrepl.rows.validate.validate", asked.validate)
    monkeypatch.setattr("pgrepl.writing.rewrite.rewrite", asked.rewrite)
    monkeypatch.setattr("pgrepl.statements.view.append", asked.append)
    yield asked


@pytest.mark.parametrize(
    ("statement", "asked"),
    [
        ("ALTER TABLE t ALTER a SET NOT NULL", ["t: no nulls"]),
        ("ALTER TABLE t ADD CHECK (a > 0)", ["t: check t_a_check (a > 0)"]),
        ("ALTER TABLE t ADD CHECK (a > 0) NOT VALID", []),
        ("ALTER TABLE t VALIDATE CONSTRAINT unchecked", ["t: check unchecked (a < 9)"]),
        ("ALTER TABLE t ADD UNIQUE (a)", ["t: unique t_a_key"]),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", ["t: unique t_pkey", "t: no nulls"]),
        ("CREATE UNIQUE INDEX i ON t (b)", ["t: unique i"]),
        ("CREATE INDEX i ON t (b)", []),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES o", ["t: keys FOREIGN KEY (a) REFERENCES o(x)"]),
        ("ALTER TABLE t ADD c int", []),
        ("ALTER TABLE t ADD c int DEFAULT 5", ["t: c becomes 5", "t: no nulls"]),
        ("ALTER TABLE t ADD c int NOT NULL", ["t: no nulls"]),
        ("ALTER TABLE t ADD c int GENERATED ALWAYS AS (a + 1) STORED", ["t: c becomes (a + 1)", "t: no nulls"]),
        ("ALTER TABLE t ALTER b TYPE int USING length(b)", ["t: b becomes length(b)", "t: no nulls"]),
        ("ALTER TABLE t ALTER a TYPE bigint", ["t: a becomes a", "t: no nulls"]),
        ("ALTER TABLE t ADD c int DEFAULT 5, ADD UNIQUE (a)", ["t: c becomes 5", "t: no nulls", "t: unique t_a_key"]),
        ("ALTER TABLE t ALTER b SET DEFAULT 'x'", []),
    ],
)
def test_what_a_change_asks(instance: Instance, phase3: Asked, statement: str, asked: list[str]) -> None:
    setup = [
        "CREATE TABLE o (x int PRIMARY KEY)",
        "CREATE TABLE t (a int, b text)",
        "ALTER TABLE t ADD CONSTRAINT unchecked CHECK (a < 9) NOT VALID",
    ]
    assert instance.play("pub", *setup) == ["CREATE TABLE", "CREATE TABLE", "ALTER TABLE"]
    phase3.taken()
    assert instance.play("pub", statement)[-1] in ("ALTER TABLE", "CREATE INDEX")
    assert phase3.taken() == asked


def test_partitions_ask_for_their_rows_and_the_default_ones(instance: Instance, phase3: Asked) -> None:
    instance.play(
        "pub",
        "CREATE TABLE p (a int) PARTITION BY LIST (a)",
        "CREATE TABLE d PARTITION OF p DEFAULT",
        "CREATE TABLE one PARTITION OF p FOR VALUES IN (1)",
    )
    assert phase3.taken() == ["d: default beside p FOR VALUES IN (1)"]
    instance.play("pub", "CREATE TABLE two (a int)", "ALTER TABLE p ATTACH PARTITION two FOR VALUES IN (2)")
    assert phase3.taken() == ["two: in p FOR VALUES IN (2)", "d: default beside p FOR VALUES IN (2)"]


def test_a_referenced_partition_cannot_be_detached_with_referenced_rows(instance: Instance, phase3: Asked) -> None:
    instance.play(
        "pub",
        "CREATE TABLE p (a int PRIMARY KEY) PARTITION BY LIST (a)",
        "CREATE TABLE one PARTITION OF p FOR VALUES IN (1)",
        "CREATE TABLE r (x int REFERENCES p)",
    )
    phase3.taken()
    instance.play("pub", "ALTER TABLE p DETACH PARTITION one")
    assert phase3.taken() == ["one: not referenced FOREIGN KEY (x) REFERENCES one(a)"]


def test_a_refusal_undoes_the_change(instance: Instance, phase3: Asked) -> None:
    instance.play("pub", "CREATE TABLE t (a int)")
    phase3.refuse = PgError("23502", 'column "a" of relation "t" contains null values')
    assert instance.play("pub", "ALTER TABLE t ALTER a SET NOT NULL") == [
        'ERROR:  column "a" of relation "t" contains null values'
    ]
    found = find_relation(instance.session("pub"), RangeVar("t"))
    assert [a.notnull for a in found.columns] == [False]


def test_create_table_as_hands_over_its_rows(instance: Instance, phase3: Asked) -> None:
    query = "SELECT * FROM (VALUES (1, 'x'), (2, NULL)) v (n, t)"
    assert instance.play("pub", f"CREATE TABLE t AS {query}", f"CREATE TABLE u AS {query} WITH NO DATA") == [
        "SELECT 2",
        "CREATE TABLE AS",
    ]
    assert phase3.taken() == ["t: keep [(1, 'x'), (2, None)]"]
