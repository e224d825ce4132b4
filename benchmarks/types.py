"""Columns of each type beside a column of text: COPY, INSERT … SELECT, UPDATE, a condition, and the apply of changes
from a lake, in processor time of this process. No type decides by a factor how long a statement takes.

    python -m benchmarks.types [TYPE ...]    these types only
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.lake import Line
from tests.harness.pair import Pair

ROWS, TURNS, LIMIT = 100_000, 3, 2.0
MADE = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN plain AS int;
CREATE DOMAIN year AS int CHECK (VALUE > 1900 AND VALUE < 3000000);
CREATE DOMAIN word AS text NOT NULL CHECK (length(VALUE) < 50);
CREATE TYPE pair AS (a int, b text);
"""
TYPES = {  # a type and an expression for the value of row g
    "text": "'value ' || g",
    "int": "g",
    "mood": "CASE g % 3 WHEN 0 THEN 'sad' WHEN 1 THEN 'ok' ELSE 'happy' END",
    "plain": "g",
    "year": "g + 1901",
    "word": "'value ' || g",
    "text[]": "ARRAY['a' || g, 'b c']",
    "int[]": "ARRAY[g, g + 1]",
    "pair": "ROW(g, 'value ' || g)::pair",
    "interval": "g * interval '1 minute'",
    "char(12)": "'value ' || g % 100000",
    "numeric": "g * 1.25",
    "int4range": "int4range(g, g + 10)",
    "timetz": "time '00:00' + g % 86400 * interval '1 second'",
    "bit(20)": "g::bit(20)",
    "varbit": "g::bit(20)::varbit",
    "macaddr": "('08:00:2b:' || to_char(g % 100, 'FM00') || ':' || to_char(g / 100 % 100, 'FM00') || ':01')",
    "inet": "'10.' || g % 250 || '.' || g / 250 % 250 || '.1/24'",
    "uuid": "md5(g::text)",
    "bytea": "decode(md5(g::text), 'hex')",
}
STATEMENTS = {
    "COPY": "COPY t FROM '{file}'",
    "INSERT": "INSERT INTO u SELECT * FROM t",
    "UPDATE": "UPDATE t SET v = '{one}'::{type}, k = k + 1 WHERE k % 2 = 0",
    "WHERE": "SELECT count(*) FROM u WHERE v = '{one}'::{type}",
}


class Column:
    """A table with a column of one type, on a publisher and a subscriber."""

    def __init__(self, folder: Path, name: str) -> None:
        self.pair = pair = Pair(folder)
        self.folder, self.name = folder, name
        pair.both(MADE)
        pair.both(f"CREATE TABLE t (k int, v {name}); CREATE TABLE u (k int, v {name})")
        pair.both(f"CREATE TABLE r (id int PRIMARY KEY, k int, v {name})")
        for each in (pair.pub, pair.sub):
            each("SET pgrepl.engine = local")
        pair.pub(f"INSERT INTO t SELECT g, ({TYPES[name]})::{name} FROM generate_series(1, {ROWS}) g")
        self.one = pair.pub("SELECT v FROM t LIMIT 1 OFFSET 7")[0][0]
        pair.pub(f"COPY t TO '{folder}/t.txt'")
        pair.pub("CREATE PUBLICATION p FOR TABLE r")
        pair.sub.subscribe("p", "host=localhost dbname=pub")
        assert pair.catch_up() == []

    def played(self) -> dict[str, float]:
        """Processor seconds of each statement, and of the apply of as many changes."""
        pub = self.pair.pub
        pub("TRUNCATE t; TRUNCATE u; TRUNCATE r")
        assert self.pair.catch_up() == []
        found = {}
        for what, text in STATEMENTS.items():
            statement = text.format(file=self.folder / "t.txt", one=str(self.one).replace("'", "''"), type=self.name)
            found[what] = spent(partial(pub, statement))
        pub("INSERT INTO r SELECT row_number() OVER (), k, v FROM u")
        found["apply of INSERT"] = spent(self._apply)
        pub("UPDATE r SET k = k + 1, v = v")
        found["apply of UPDATE"] = spent(self._apply)
        return found

    def _apply(self) -> None:
        assert self.pair.catch_up() == []


def spent(action: Callable[[], Any]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def measured(name: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        column = Column(Path(folder), name)
        try:
            turns = [column.played() for _ in range(TURNS)]
        finally:
            column.pair.close()
    return {what: min(turn[what] for turn in turns) for what in turns[0]}


def measure(names: Sequence[str] = ()) -> Iterator[Line]:
    gc.set_threshold(100_000)  # as the program does
    measured("int")  # imports
    floor = measured("text")
    for name in names or list(TYPES)[1:]:
        for what, ours in measured(name).items():
            ratio = ours / floor[what]
            beside = f"text: {floor[what]:.3f} s"
            yield f"{what}, {ROWS:,} rows with {name}", f"{ratio:.2f}", beside, f"{LIMIT}", ratio <= LIMIT


if __name__ == "__main__":
    for line in measure(sys.argv[1:]):
        print(*line, sep="  |  ", flush=True)
