"""Text to nodes: statements of 20 tokens a second, beside the scanner alone; and the time to load the parse tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import takewhile

from benchmarks.clock import fastest

RATE = 6_000
LOAD_MS = 20
ROUNDS = 300
STATEMENTS = [  # 20 tokens each
    "SELECT a, b, c.d FROM t1 x JOIN t2 ON a = b WHERE c > 5",
    "INSERT INTO t (a, b, c) VALUES (1, 'two', 3.0, now(), 5)",
    "UPDATE t SET a = a + 1, b = upper(c) WHERE d IN (1)",
    "CREATE TABLE t (id bigint PRIMARY KEY, name text NOT NULL DEFAULT 'x', price numeric)",
    "CREATE PUBLICATION p FOR TABLE t (a, b) WHERE (a > 5), u WITH (publish)",
]


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def measure() -> Iterator[tuple[str, str, str, str, bool]]:
    from pgrepl.sql import parser
    from pgrepl.sql.parser import parse
    from pgrepl.sql.scanner import tokens

    def scan(text: str) -> int:
        return sum(1 for _ in takewhile(lambda token: token[0] != "$END", tokens(text)))

    def each(action: Callable[[str], object]) -> None:
        for number in range(ROUNDS):
            for statement in STATEMENTS:
                action(f"{statement} -- {number}")  # another text each time: the parser remembers those that come again

    count = ROUNDS * len(STATEMENTS)
    tokens_each = sum(map(scan, STATEMENTS)) / len(STATEMENTS)
    each(parse)
    parsed = count / fastest(lambda: seconds(lambda: each(parse)), 5) * tokens_each / 20
    scanned = count / fastest(lambda: seconds(lambda: each(scan)), 5) * tokens_each / 20
    yield "parse statements of 20 tokens", f"{parsed:,.0f}/s", f"scan: {scanned:,.0f}/s", f"{RATE:,}/s", parsed >= RATE

    load = fastest(lambda: seconds(parser.load.__wrapped__), 5) * 1000
    size = parser.PATH.stat().st_size
    yield "load the parse tables", f"{load:.1f} ms", f"{size // 1024} kB", f"{LOAD_MS} ms", load < LOAD_MS
