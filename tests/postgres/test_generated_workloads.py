"""Random workloads with generated columns beside a real 18: lakes and servers publish to each other."""

from __future__ import annotations

from random import Random

import pytest

from tests.postgres.both_replicas import Both
from tests.postgres.test_generated_columns import both, lake18

__all__ = ["both", "lake18"]  # fixtures

STORED = ["a * 2", "a + coalesce(length(b), 0)", "CASE WHEN a > 5 THEN a ELSE NULL END", "a % 3"]
VIRTUAL = ["a * 10", "coalesce(length(b), -1)", "nullif(a, 3)"]
TEXTS = ["'x'", "'yy'", "''", "NULL", "'it''s'", "'longer'"]
FILTERS = ["a > 2", "g <> 4", "v < 60", "b IS NOT NULL", "g IS NULL OR v > 1"]


class Workload:
    def __init__(self, both: Both, seed: int) -> None:
        self.both, self.chance = both, Random(seed)
        self.identity = self.chance.choice(["", "", "FULL", "USING INDEX k"])
        self.published = self.chance.random() < 0.6

    def define(self) -> None:
        chance = self.chance
        lines = ["a int PRIMARY KEY", "b text", f"g int GENERATED ALWAYS AS ({chance.choice(STORED)}) STORED"]
        lines += [f"v int GENERATED ALWAYS AS ({chance.choice(VIRTUAL)}) VIRTUAL", "c numeric(6,2)"]
        if self.identity == "USING INDEX k":
            lines[2] = "g int GENERATED ALWAYS AS (a * 7) STORED NOT NULL"
        chance.shuffle(lines)
        self.both.pub(f"CREATE TABLE t ({', '.join(lines)})")
        if self.identity == "USING INDEX k":
            self.both.pub("CREATE UNIQUE INDEX k ON t (g)")
        if self.identity:
            self.both.pub(f"ALTER TABLE t REPLICA IDENTITY {self.identity}")
        self.both.say("pub", f"CREATE PUBLICATION p FOR {self.members()}{self.options()}")
        own = ["a int", "b text", "c numeric(6,2)", "v int GENERATED ALWAYS AS (a * 3)"]
        own.append("g int" if chance.random() < 0.7 else f"g int GENERATED ALWAYS AS ({chance.choice(STORED)}) STORED")
        chance.shuffle(own)
        key = {"": "PRIMARY KEY (a)", "FULL": chance.choice(["PRIMARY KEY (a)", ""]), "USING INDEX k": "UNIQUE (g)"}
        lines = [*own, *([key[self.identity]] if key[self.identity] else [])]
        self.both.sub(f"CREATE TABLE t ({', '.join(lines)})")
        if self.identity == "USING INDEX k":
            self.both.sub("ALTER TABLE t ALTER g SET NOT NULL", "ALTER TABLE t REPLICA IDENTITY USING INDEX t_g_key")

    def members(self) -> str:
        chance = self.chance
        if chance.random() < 0.2:
            return "ALL TABLES"
        text = "TABLE t"
        if chance.random() < 0.3:
            text += f" ({', '.join(chance.sample(['a', 'b', 'g', 'c'], chance.randint(2, 4)))})"
        return text + (f" WHERE ({chance.choice(FILTERS)})" if chance.random() < 0.4 else "")

    def options(self) -> str:
        return f" WITH (publish_generated_columns = {'stored' if self.published else 'none'})"

    def change(self) -> None:
        chance, say = self.chance, self.both.say
        number, text = chance.randint(0, 12), chance.choice(TEXTS)
        roll = chance.random()
        if roll < 0.35:
            say("pub", f"INSERT INTO t (a, b, c) VALUES ({number}, {text}, {number}.5)")
        elif roll < 0.6:
            say("pub", f"UPDATE t SET b = {text} WHERE a % 3 = {number % 3}")
        elif roll < 0.7:
            say("pub", f"UPDATE t SET a = a + 20, b = {text} WHERE v = {number * 10}")
        elif roll < 0.82:
            say("pub", f"DELETE FROM t WHERE g = {number}")
        elif roll < 0.86:
            say("pub", "TRUNCATE t")
        elif roll < 0.9:
            say("pub", f"ALTER TABLE t ALTER g SET EXPRESSION AS ({chance.choice(STORED)})")
        elif roll < 0.93:
            say("pub", f"ALTER TABLE t ALTER v SET EXPRESSION AS ({chance.choice(VIRTUAL)})")
        elif roll < 0.97:
            self.published = chance.random() < 0.5
            say(
                "pub", f"ALTER PUBLICATION p SET (publish_generated_columns = {'stored' if self.published else 'none'})"
            )
        else:
            say("pub", f"ALTER PUBLICATION p SET {self.members()}")

    def play(self) -> None:
        self.define()
        for _ in range(5):
            self.change()
        if self.both.rows("SELECT pubname FROM pg_publication", "pub") == [] or self.both.subscribe():
            return
        for _ in range(4):
            for _ in range(self.chance.randint(1, 8)):
                self.change()
            if self.both.catch_up():
                return


def play(both: Both, seed: int) -> None:
    Workload(both, seed).play()


@pytest.mark.parametrize("seed", [2])
def test_generated_columns_end_the_same(both: Both, seed: int) -> None:
    play(both, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_generated_columns_end_the_same(both: Both, seed: int) -> None:
    play(both, seed)
