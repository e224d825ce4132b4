"""IS NULL and IS NOT NULL skip files, row groups and rows; what an outer join makes NULL is no reason to skip."""

from __future__ import annotations

import random
import re

import pytest

from pgrepl.lake.write import file_writer
from tests.harness.dose import dose
from tests.harness.played import Instance

COLUMNS = ("a", "s", "f", "b", "n", "late")
ROWS = "INSERT INTO {} (k, a, s, f, b, n) SELECT g, {} FROM generate_series({}, {}) g"
SOME = "nullif(g % 5, 0), 'x' || nullif(g % 3, 0), g, g > 0, NULL"


@pytest.fixture
def tables(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """Three tables, each of files with different NULLs, and inlined rows."""
    monkeypatch.setattr(file_writer, "ROWS_IN_GROUP", 100)
    for name in "tuv":
        instance.play(
            "pub",
            f"CREATE TABLE {name} (k int, a int, s text, f float8, b bool, n numeric)",
            ROWS.format(name, SOME, 1, 220),
            ROWS.format(name, "NULL, NULL, NULL, NULL, g", 201, 400),
            ROWS.format(name, "CASE WHEN g > 450 THEN g END, 'y', 'NaN', true, 1", 401, 600),
            f"INSERT INTO {name} VALUES (700, NULL, 'z', 1, NULL, 1), (701, 1, NULL, NULL, true, NULL)",
            f"ALTER TABLE {name} ADD COLUMN late int",
            f"INSERT INTO {name} SELECT g, g, 'w', 1, false, 2, g FROM generate_series(501, 640) g",
            f"DELETE FROM {name} WHERE k % 11 = {ord(name) % 11}",
        )
    return instance


def test_files_and_row_groups_are_skipped(tables: Instance) -> None:
    def plan(condition: str) -> list[str]:
        lines = [line.strip() for line in tables.play("pub", f"EXPLAIN SELECT * FROM t WHERE {condition}")]
        return [line for line in lines if re.match("Files|Row Groups|Bounds", line)]

    assert plan("b IS NULL") == ["Files: 1 read, 3 skipped", "Row Groups: 2 read, 0 skipped", "Bounds: b IS NULL"]
    assert plan("n IS NOT NULL") == [
        "Files: 3 read, 1 skipped", "Row Groups: 5 read, 0 skipped", "Bounds: n IS NOT NULL",
    ]  # fmt: skip
    assert plan("a IS NULL AND s IS NOT NULL") == [
        "Files: 2 read, 2 skipped", "Row Groups: 3 read, 1 skipped", "Bounds: a IS NULL, s IS NOT NULL",
    ]  # fmt: skip
    assert plan("late IS NOT NULL")[0] == "Files: 4 read, 0 skipped"  # old files have no statistics of it
    assert plan("late IS NOT NULL")[1] == "Row Groups: 1 read, 6 skipped"


def query(chance: random.Random) -> str:
    """A count over joins of some kinds, with tests for NULL in their conditions and in WHERE."""
    names = chance.sample("tuv", chance.randint(1, 3))

    def test(those: list[str]) -> str:
        return f"{chance.choice(those)}.{chance.choice(COLUMNS)} IS {chance.choice(('', 'NOT '))}NULL"

    source, joined = names[0], names[:1]
    for name in names[1:]:
        kind = chance.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        joined.append(name)
        on = f"{chance.choice(joined[:-1])}.k = {name}.k"
        if kind != "FULL JOIN" and chance.random() < 0.5:
            on += f" AND {test(joined)}"
        one, other = chance.sample((f"({source})" if " " in source else source, name), 2)
        source = f"{one} {kind} {other} ON {on}"
    where = " AND ".join(test(names) for _ in range(chance.randint(1, 2)))
    return f"SELECT count(*), sum(coalesce({names[0]}.k, 1)), sum({names[-1]}.a) FROM {source} WHERE {where}"


@pytest.mark.parametrize("seed", dose(range(6), 6))
def test_nothing_is_missed(tables: Instance, seed: int) -> None:
    chance = random.Random(seed)
    found = set[str]()
    for _ in range(20):
        asked = query(chance)
        unbounded = re.sub(r"(\w\.\w+ IS (?:NOT )?NULL)", r"(\1) = true", asked)
        answers = tables.play("pub", asked), tables.play("pub", unbounded)
        assert answers[0] == answers[1], asked
        found.update(answers[0])
    assert len(found) > 5
