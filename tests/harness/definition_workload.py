"""Random changes of all that schema_changes = all follows, besides those of columns, and of rows in between."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.harness.database import Rows
from tests.harness.schema_workload import SchemaWorkload

FACTS = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated,"
    " pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid"
    " AND d.adnum = a.attnum WHERE a.attrelid = 't'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1"
)
IDENTITY = "SELECT relreplident FROM pg_class WHERE oid = 't'::regclass"
KEY = (
    "SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(num, place)"
    " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num WHERE i.indrelid = 't'::regclass AND i.{}"
    " ORDER BY k.place"
)
LABELS = "SELECT enumlabel FROM pg_enum WHERE enumtypid = 'mood'::regtype ORDER BY enumsortorder"
TABLE = "CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TABLE t (id int PRIMARY KEY, a int, b text, m mood)"


class DefinitionWorkload(SchemaWorkload):
    """Changes the table `t` of TABLE. A server lets no transaction use the labels that it adds."""

    def __init__(self, play: Callable[[str], object], random: Random, *, renames_labels: bool = True) -> None:
        super().__init__(play, random)
        self._renames_labels = renames_labels
        self._labels = ["low", "high"]
        self._generated = False
        self._identity = "DEFAULT"

    def work(self, transactions: int) -> None:
        for _ in range(transactions):
            if self._random.random() < 0.2:
                self._play(self._label())
                self._number += 1
                label = self._random.choice(self._labels)
                self._play(f"INSERT INTO t (id, m) VALUES ({100 * self._number}, '{label}')")
            super().work(1)

    def _label(self) -> str:
        self._number += 1
        place, label = self._random.randrange(len(self._labels)), f"m{self._number}"
        at = self._labels[place]
        if self._renames_labels and self._random.random() < 0.3:
            self._labels[place] = label
            return f"ALTER TYPE mood RENAME VALUE '{at}' TO '{label}'"
        where = self._random.choice(("BEFORE", "AFTER"))
        self._labels.insert(place + (where == "AFTER"), label)
        return f"ALTER TYPE mood ADD VALUE '{label}' {where} '{at}'"

    def _change(self) -> str:
        random = self._random
        if random.random() < 0.4:
            return super()._change()
        self._number += 1
        name = random.choice(sorted(self._columns)) if self._columns else "id"
        kind = random.choice(("default", "default", "null", "identity", "key", "generated", "name"))
        if kind == "default":
            return f"ALTER COLUMN {name} SET DEFAULT {self._value(name) if name in self._columns else 3}"
        if kind == "null":
            if name == "id" or random.random() < 0.4:
                return f"ALTER COLUMN {name} DROP DEFAULT" + (name != "id") * f", ALTER COLUMN {name} DROP NOT NULL"
            value = self._value(name)
            filled = (
                f"UPDATE t SET {name} = {value} WHERE {name} IS NULL; ALTER TABLE t ALTER COLUMN {name} SET NOT NULL"
            )
            return f"ALTER COLUMN {name} SET DEFAULT {value}; {filled}"
        if kind == "identity":
            whole = () if self._generated else ("FULL",)  # 18 lets no generated column into an identity
            self._identity = random.choice((*whole, "DEFAULT", "USING INDEX t_pkey"))
            return f"REPLICA IDENTITY {self._identity}"
        if kind == "key":
            self._identity = "DEFAULT"
            return "DROP CONSTRAINT t_pkey, ADD CONSTRAINT t_pkey PRIMARY KEY (id), REPLICA IDENTITY DEFAULT"
        if kind == "generated" and self._identity != "FULL":
            self._generated = not self._generated
            return "ADD COLUMN g int GENERATED ALWAYS AS (id * 2) STORED" if self._generated else "DROP COLUMN g"
        return "RENAME TO u; ALTER TABLE u RENAME TO t"


def differs(pub: Callable[[str], Rows], sub: Callable[[str], Rows]) -> str:
    """How the two tables differ; empty: they do not."""
    for asked in (FACTS, IDENTITY, KEY.format("indisprimary"), KEY.format("indisreplident"), LABELS):
        if pub(asked) != sub(asked):
            return f"{asked}: {sub(asked)}, at the publisher {pub(asked)}"
    listed = ", ".join(str(row[0]) for row in pub(FACTS))
    rows = f"SELECT {listed} FROM t ORDER BY id"
    return "" if pub(rows) == sub(rows) else f"rows {sub(rows)}, at the publisher {pub(rows)}"
