"""What a row trigger on the subscriber's table costs a replicated row, in processor time: `BEGIN RETURN NEW; END` in
PL/pgSQL, ENABLE ALWAYS, beside the same trigger with WHEN (false), which fires for no row.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lake import Line
from tests.harness.pair import Pair

COUNT, TURNS, LIMIT = 3000, 5, 60
STATEMENTS = {
    "INSERT": "INSERT INTO t SELECT g, g % 7, 'value ' || g, now() FROM generate_series({0}, {1} - 1) g",
    "UPDATE": "UPDATE t SET a = a + 1 WHERE id >= {0} AND id < {1}",
}


class Triggered:
    """A pair whose subscriber has the trigger."""

    def __init__(self, folder: Path, trigger: str) -> None:
        self.pair = pair = Pair(folder)
        pair.both("CREATE TABLE t (id int PRIMARY KEY, a int, s text, d timestamp)")
        pair.pub("CREATE PUBLICATION p FOR TABLE t")
        pair.sub.subscribe("p", "host=localhost dbname=pub", "WITH (copy_data = false)")
        pair.sub("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
        pair.sub(f"CREATE TRIGGER x {trigger} EXECUTE FUNCTION f()")
        pair.sub("ALTER TABLE t ENABLE ALWAYS TRIGGER x")

    def spent(self, statement: str) -> float:
        """Microseconds a row."""
        self.pair.pub(statement)
        began = time.process_time()
        assert self.pair.catch_up() == []
        return (time.process_time() - began) / COUNT * 1e6


def measure() -> Iterator[Line]:
    gc.set_threshold(100_000)  # as the program does
    for when in ("BEFORE", "AFTER"):
        trigger = f"{when} INSERT OR UPDATE ON t FOR EACH ROW"
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            pairs = [Triggered(Path(one), f"{trigger} WHEN (false)"), Triggered(Path(other), trigger)]
            for what, text in STATEMENTS.items():
                statements = [text.format(turn * COUNT, (turn + 1) * COUNT) for turn in range(TURNS)]
                floor, ours = [
                    min(times) for times in zip(*[[each.spent(s) for each in pairs] for s in statements], strict=True)
                ]
                beside, more = f"without: {floor:.0f} µs", ours - floor
                yield f"{when} row trigger, {what}", f"{more:.0f} µs a row", beside, f"{LIMIT} µs", more <= LIMIT
            for each in pairs:
                each.pair.close()


if __name__ == "__main__":
    for line in measure():
        print(*line, sep="  |  ", flush=True)
