"""Columns of each type are applied by columns, with what is applied message by message; so are their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.database import Database, by_columns, by_message
from tests.harness.dose import dose

MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'o k', 'happy')",
    "CREATE DOMAIN year AS int CHECK (VALUE > 1900)",
    "CREATE DOMAIN word AS text NOT NULL CHECK (length(VALUE) < 8)",
    "CREATE DOMAIN moods AS mood[] CHECK (cardinality(VALUE) < 4)",
)
COLUMNS = (
    "n int PRIMARY KEY, m mood, y year, w word, l mood[], ms moods, i interval, t text[], z timetz, r int4range, "
    "b bit(4), v varbit, c char(6), a macaddr, x numeric, d year[], k int"
)
VALUES = (
    "(ARRAY['sad', 'o k', NULL])[g % 3 + 1]::mood, 1900 + g, 'v' || g, ARRAY['o k', NULL]::mood[], '{sad}'::moods, "
    "g * interval '1 hour', ARRAY['a' || g, 'b \"c', NULL], time '00:00' + g * interval '1 second', "
    "int4range(g, g + 5), "
    "(g % 16)::bit(4), (g % 16)::bit(4)::varbit, 'c' || g, '08:00:2b:01:02:03', g * 1.50, "
    "ARRAY[1901, 1900 + g]::year[], g"
)


@pytest.mark.parametrize("way", [by_columns, by_message])
def test_columns_of_all_types_arrive(tmp_path: Path, way: Any) -> None:
    pub, sub = Database(tmp_path), Database(tmp_path, "sub", new=True)
    way(sub)
    for each in (pub, sub):
        each(*MADE)
    pub(f"CREATE TABLE t ({COLUMNS})", "CREATE PUBLICATION p FOR TABLE t")
    sub(f"CREATE TABLE t ({COLUMNS.replace('x numeric', 'x text').replace('l mood[]', 'l text[]')})")
    sub.subscribe("p", "dbname=postgres")
    assert sub.catch_up() == []
    everything = "SELECT * FROM t ORDER BY n"
    pub(f"INSERT INTO t SELECT g, {VALUES} FROM generate_series(1, 200) g")
    assert sub.catch_up() == [] and sub(everything) == pub(everything)
    pub(
        "UPDATE t SET k = k + 1, m = 'happy', l = '{}', ms = '{sad,happy}' WHERE n % 3 = 0",
        "DELETE FROM t WHERE n % 7 = 0",
    )
    pub(
        "UPDATE t SET t = NULL, i = '-1 mons', r = 'empty', v = '', d = '{}' WHERE n % 5 = 0",
        "UPDATE t SET m = NULL WHERE n < 9",
    )
    assert sub.catch_up() == [] and sub(everything) == pub(everything)
    if way is by_columns:
        assert sub("SELECT engine, declined FROM pgrepl_stat_engine WHERE work = 'apply'") == [("columns", None)]
    pub.close()
    sub.close()


REFUSED = [
    ("y = 1950", 'value for domain public.year violates check constraint "narrow"'),
    ("w = 'narrow'", 'value for domain public.word violates check constraint "other"'),
    ("m = 'happy'", 'invalid input value for enum public.mood: "happy"'),
    ("d = '{1950}'", 'value for domain public.year violates check constraint "narrow"'),
]


@pytest.mark.parametrize(("change", "message"), dose(REFUSED, 4))
def test_values_that_the_subscriber_refuses(tmp_path: Path, change: str, message: str) -> None:
    found = []
    for way in (by_columns, by_message):
        pub, sub = Database(tmp_path / way.__name__), Database(tmp_path / way.__name__, "sub", new=True)
        way(sub)
        pub(*MADE)
        sub(
            MADE[0].replace(", 'happy'", ""), *MADE[1:], "ALTER DOMAIN year ADD CONSTRAINT narrow CHECK (VALUE <> 1950)"
        )
        sub("ALTER DOMAIN word ADD CONSTRAINT other CHECK (VALUE <> 'narrow')")
        for each in (pub, sub):
            each("CREATE TABLE t (n int PRIMARY KEY, m mood, y year, w word, d year[], k int)")
        pub("CREATE PUBLICATION p FOR TABLE t")
        sub.subscribe("p", "dbname=postgres")
        assert sub.catch_up() == []
        pub("INSERT INTO t SELECT g, 'sad', 2000 + g, 'v' || g, NULL, g FROM generate_series(1, 100) g")
        assert sub.catch_up() == []
        pub("UPDATE t SET k = 0", f"UPDATE t SET {change} WHERE n = 77")
        ((said, *_),) = sub.catch_up()
        found.append((said, *sub("SELECT count(*), max(k), max(w) FROM t")[0]))
        pub.close()
        sub.close()
    assert found[0] == found[1]
    assert found[0][0] == message
