"""What never ends is only computed as far as it is asked for; what piles up without end is an error."""

from __future__ import annotations

import time

import pytest

from pgrepl.ground import memory
from pgrepl.ground.errors import PgError
from pgrepl.ground.memory import Meter
from tests.harness.dose import dose
from tests.harness.played import Instance

SERIES = "generate_series(1, 9223372036854775807)"
WIDE = "(SELECT repeat('x', 10000) || a.a || b.a || c.a AS v FROM t a, t b, t c) w"


@pytest.fixture
def small(instance: Instance) -> Instance:
    instance.play(
        "pub",
        "CREATE TABLE t (a int)",
        "INSERT INTO t SELECT g FROM generate_series(1, 100) g",
        "CREATE TABLE u (a int8)",
    )
    return instance


@pytest.mark.parametrize(
    ("query", "rows"),
    dose(
        [
            (f"SELECT * FROM {SERIES} LIMIT 3", ["1", "2", "3"]),
            (f"SELECT {SERIES}, generate_series(1, 2) LIMIT 3", ["1|1", "2|2", "3|"]),
            (f"SELECT * FROM {SERIES} g WHERE g % 100 = 0 OFFSET 1 LIMIT 1", ["200"]),
            (
                "SELECT * FROM generate_series('2024-01-01'::timestamp, 'infinity', '1 day') LIMIT 2",
                ["2024-01-01 00:00:00", "2024-01-02 00:00:00"],
            ),
            ("SELECT * FROM generate_series(1, 1e300) LIMIT 2", ["1", "2"]),
            (f"SELECT * FROM {SERIES} a, {SERIES} b LIMIT 2", ["1|1", "1|2"]),
            (f"SELECT * FROM t, {SERIES} b LIMIT 2", ["1|1", "1|2"]),
            (f"SELECT * FROM t LEFT JOIN {SERIES} g ON g > a LIMIT 2", ["1|2", "1|3"]),
            (f"WITH c AS (SELECT * FROM {SERIES}) SELECT * FROM c a, c b LIMIT 2", ["1|1", "1|2"]),
            ("WITH RECURSIVE c(n) AS (SELECT 1 UNION SELECT n + 1 FROM c) SELECT * FROM c LIMIT 2", ["1", "2"]),
            (
                "WITH RECURSIVE c(n) AS (SELECT 1::int8 UNION ALL SELECT g FROM c, "
                f"{SERIES} g) SELECT * FROM c LIMIT 3",
                ["1", "1", "2"],
            ),
            (f"SELECT EXISTS (SELECT * FROM {SERIES})", ["t"]),
            (f"SELECT 5 IN (SELECT {SERIES}), 200000 = ANY (SELECT {SERIES}), 5 <> ALL (SELECT {SERIES})", ["t|t|f"]),
            (f"SELECT a FROM t WHERE a IN (SELECT * FROM {SERIES}) LIMIT 2", ["1", "2"]),
            (f"SELECT * FROM {SERIES} UNION ALL SELECT 1 LIMIT 2", ["1", "2"]),
            (f"INSERT INTO u SELECT * FROM {SERIES} LIMIT 3", ["INSERT 0 3"]),
            ("SELECT (SELECT g FROM generate_series(a, 9223372036854775807) g LIMIT 1) FROM t LIMIT 2", ["1", "2"]),
        ],
        3,
    ),
)
def test_as_far_as_it_is_asked_for(small: Instance, query: str, rows: list[str]) -> None:
    small.play("pub", "SET statement_timeout = '20s'")
    assert small.play("pub", query) == rows


@pytest.mark.parametrize(
    "query",
    dose(
        [
            "WITH RECURSIVE c(n) AS (SELECT 'x' UNION ALL SELECT n || n FROM c) SELECT n FROM c",
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT repeat('x', 10000) || n FROM c",
            "SELECT string_agg(repeat('x', 10000), ',') FROM t a, t b, t c",
            "SELECT repeat('x', 10000) || a.a FROM t a, t b, t c ORDER BY 1",
            "SELECT count(*) FROM (SELECT DISTINCT repeat('x', 10000) || a.a || b.a || c.a FROM t a, t b, t c) q",
            "SELECT repeat('x', 100000000) || g FROM generate_series(1, 9000) g",
            f"SELECT count(*) FROM {WIDE} GROUP BY v",
            f"SELECT count(*) FROM t JOIN {WIDE} ON v = t.a::text",
            f"SELECT array_length(array_agg(v), 1) FROM {WIDE}",
            f"SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY v) FROM {WIDE}) q",
            f"SELECT count(*) FROM t WHERE a::text IN (SELECT v FROM {WIDE})",
            f"SELECT count(*) FROM (SELECT v FROM {WIDE} EXCEPT SELECT 'y') q",
        ],
        3,
    ),
)
def test_what_piles_up_is_an_error(small: Instance, query: str) -> None:
    small.play("pub", "SET pgrepl.memory_limit = '64MB'", "SET statement_timeout = '60s'")
    assert small.play("pub", query, "SELECT 1") == [
        "ERROR:  out of memory",
        "DETAIL:  The rows of the statement take more than 64 MB.",
        "HINT:  You may need to increase pgrepl.memory_limit.",
        "1",
    ]


def test_what_a_block_is_to_insert_piles_up_too(small: Instance) -> None:
    small.play("pub", "CREATE TABLE w (v text)", "SET pgrepl.memory_limit = '64MB'", "BEGIN")
    assert small.play("pub", f"INSERT INTO w SELECT v FROM {WIDE}", "ROLLBACK", "SELECT count(*) FROM w") == [
        "ERROR:  out of memory",
        "DETAIL:  The rows of the statement take more than 64 MB.",
        "HINT:  You may need to increase pgrepl.memory_limit.",
        "ROLLBACK",
        "0",
    ]


@pytest.mark.parametrize(
    ("setting", "answer"),
    dose(
        [
            ("pgrepl.memory_limit = '32MB'", "ERROR:  out of memory"),
            ("statement_timeout = '500ms'", "ERROR:  canceling statement due to statement timeout"),
        ],
        2,
    ),
)
def test_what_has_piled_up_until_then_is_left_alone(small: Instance, setting: str, answer: str) -> None:
    """Its keys are not entered: they would take as much memory again. So nobody sees that the second row is wrong."""
    small.play("pub", "CREATE TABLE k (a text PRIMARY KEY)", f"SET {setting}")
    query = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT +1 FROM c WHERE n < 4) SELECT repeat('x', 1000) FROM c"
    assert small.play("pub", f"INSERT INTO k {query}")[0] == answer


def test_others_take_memory_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement may take half of the machine's memory, but what is left of it is looked at again and again."""
    monkeypatch.setattr(memory, "available", lambda: 0)
    kept: list[bytes] = []
    with pytest.raises(PgError) as caught:
        for row in Meter(0).watch(range(1000)):
            kept.append(b"%d" % row * (1 << 20))
            time.sleep(0.01)
    assert caught.value.sqlstate == memory.OUT_OF_MEMORY


def test_rows_that_go_by_take_none(small: Instance) -> None:
    small.play("pub", "SET pgrepl.memory_limit = '24MB'")
    rows = "SELECT repeat('x', 1000) || g AS v FROM generate_series(1::numeric, 60000) g"
    query = f"WITH c AS ({rows}) SELECT count(v) FROM c"
    assert small.play("pub", query) == ["60000"]


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("a::numeric IN (SELECT b FROM generate_series(10001, 30000) b)", 10000),
        ("a::text::name IN (SELECT b::text::varchar FROM generate_series(10001, 30000) b)", 10000),
        ("(a, a::text) NOT IN (SELECT b::int8, b::text::name FROM generate_series(10001, 30000) b)", 10000),
        ("a::numeric NOT IN (SELECT nullif(b, 10005) FROM generate_series(10001, 30000) b)", 0),
    ],
)
def test_what_is_converted_to_be_compared_is_hashed_too(small: Instance, condition: str, count: int) -> None:
    small.play("pub", "SET statement_timeout = '30s'")
    assert small.play("pub", f"SELECT count(*) FROM generate_series(1, 20000) a WHERE {condition}") == [str(count)]
