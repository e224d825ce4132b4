"""Random changes of a table's columns and rows at a publisher, for subscriptions with schema_changes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.harness.database import Rows, by_columns

if TYPE_CHECKING:
    from tests.harness.pair import Pair
    from tests.postgres.served import Served

_TYPES = ("int", "bigint", "numeric(6,2)", "varchar(8)", "text", "date")
_WIDER = {
    "int": ("bigint", "numeric(12,0)"),
    "numeric(6,2)": ("numeric(10,2)", "numeric(10,4)", "numeric"),
    "varchar(8)": ("varchar(20)", "text"),
    "varchar(20)": ("varchar", "text"),
    "date": ("timestamp",),
}
_VALUES = {"int": "7", "bigint": "70", "text": "'a text'", "date": "'2024-02-03'", "timestamp": "'2024-02-03'"}
COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0"
    " AND NOT attisdropped ORDER BY attnum"
)


class SchemaWorkload:
    """Changes the table `t (id int PRIMARY KEY, a int, b text)`. `play` runs statements as one transaction."""

    def __init__(self, play: Callable[[str], object], random: Random) -> None:
        self._play = play
        self._random = random
        self._columns = {"a": "int", "b": "text"}
        self._number = 0

    def work(self, transactions: int) -> None:
        for _ in range(transactions):
            several = self._random.random() < 0.4
            self._play("; ".join(self._statement() for _ in range(self._random.randint(2, 5) if several else 1)))

    def _statement(self) -> str:
        if self._random.random() < 0.35:
            return "ALTER TABLE t " + self._change()
        return self._rows()

    def _change(self) -> str:
        random = self._random
        self._number += 1
        kind = random.choice(("add", "add", "rename", "type", "type", "drop"))
        chosen = random.choice(sorted(self._columns)) if self._columns else ""
        if kind == "type" and self._columns.get(chosen) in _WIDER:
            self._columns[chosen] = random.choice(_WIDER[self._columns[chosen]])
            return f"ALTER COLUMN {chosen} TYPE {self._columns[chosen]}"
        name = f"c{self._number}"
        if kind == "rename" and chosen:
            self._columns[name] = self._columns.pop(chosen)
            return f"RENAME COLUMN {chosen} TO {name}"
        if kind == "drop" and len(self._columns) > 2:
            del self._columns[chosen]
            return f"DROP COLUMN {chosen}"
        self._columns[name] = random.choice(_TYPES)
        default = f" NOT NULL DEFAULT {self._value(name)}" if random.random() < 0.5 else ""
        return f"ADD COLUMN {name} {self._columns[name]}{default}"

    def _value(self, name: str) -> str:
        kind = self._columns[name]
        return "'some'" if kind.startswith("varchar") else _VALUES.get(kind, "12")

    def row(self) -> str:
        """A new row."""
        self._number += 1
        return f"INSERT INTO t (id) VALUES ({100 * self._number})"

    def _rows(self) -> str:
        random = self._random
        self._number += 1
        names = sorted(self._columns)
        kind = random.choice(("insert", "insert", "update", "update", "delete", "many"))
        if kind == "delete":
            return f"DELETE FROM t WHERE id % 17 = {self._number % 17}"
        if kind == "update":
            name = random.choice(names)
            return f"UPDATE t SET {name} = {self._value(name)} WHERE id % 5 = {self._number % 5}"
        given = [name for name in names if random.random() < 0.7]
        listed, values = ", ".join(["id", *given]), ", ".join(map(self._value, given))
        count = 30 if kind == "many" else 1
        first = f"{100 * self._number} + g" + (f", {values}" if values else "")
        return f"INSERT INTO t ({listed}) SELECT {first} FROM generate_series(1, {count}) g"


def differing(pub: Callable[[str], Rows], sub: Callable[[str], Rows]) -> str:
    """How the two tables differ, whatever the order of their columns; empty: they do not."""
    there, here = sorted(pub(COLUMNS)), sorted(sub(COLUMNS))
    if there != here:
        return f"columns {here}, at the publisher {there}"
    rows = f"SELECT {', '.join(str(name) for name, _ in there)} FROM t ORDER BY id"
    published, received = pub(rows), sub(rows)
    return "" if published == received else f"rows {received}, at the publisher {published}"


def same(both: Pair | Served) -> None:
    """Catch up; the tables are equal then."""
    assert both.catch_up() == []
    assert differing(both.pub, both.sub) == ""


def many_changes_go_by_columns(both: Pair | Served) -> None:
    by_columns(both.sub)
    both.pub("INSERT INTO t SELECT g, g, 'x' FROM generate_series(10, 1000) g")
    assert both.catch_up() == []
    before = both.sub.ways()
    both.pub("UPDATE t SET a = a + 1")
    both.pub("ALTER TABLE t ADD COLUMN c int DEFAULT 5; ALTER TABLE t RENAME COLUMN b TO name")
    both.pub("UPDATE t SET c = a, name = name || '!'")
    both.pub("INSERT INTO t SELECT g, g, 'y', g FROM generate_series(2000, 3000) g")
    same(both)
    found = both.sub.ways() - before
    assert found["apply"] >= 2
    assert not found["apply row by row"]
