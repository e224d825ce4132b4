"""Random tables with planted differences: each of them is found, and no other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.replication.comparison import sides
from tests.harness.comparing import compare, differences, is_equal, repair
from tests.postgres.served import PublishingServer, Served

VALUES = {
    "int": "{n}", "bigint": "{n} * 5000000000", "text": "repeat('é', {n} % 7) || '{n}'", "float8": "{n} / 3.0",
    "numeric": "{n} * 0.10", "bool": "{n} % 2 = 0",
    "timestamptz": "timestamptz '2024-01-01 00:00+00' + {n} * interval '1 s'",
    "jsonb": "jsonb_build_object('k', {n})", "int[]": "ARRAY[{n}, NULL]", "bytea": "decode(md5('{n}'), 'hex')",
    "uuid": "md5('{n}')::uuid", "date": "date '2000-01-01' + {n} % 9000",
}  # fmt: skip
KEYS = ("int", "bigint", "uuid", "text", "numeric", "date")
CHANGES = {"int": "bigint", "text": "varchar", "numeric": "text", "bool": "text", "date": "timestamp"}


@pytest.fixture(scope="module")
def publishing() -> Iterator[PublishingServer]:
    made = PublishingServer(16)
    yield made
    made.server.stop()


@pytest.mark.parametrize("seed", [*range(3), *[pytest.param(n, marks=pytest.mark.slow) for n in range(3, 100)]])
def test_what_was_planted_is_found(
    seed: int, publishing: PublishingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rnd = random.Random(seed)
    monkeypatch.setattr(sides, "PIECE", rnd.choice((20, 100, 16_384)))
    served = Served(publishing, tmp_path)
    try:
        _play(served, rnd)
    finally:
        served.close()


def _play(served: Served, rnd: random.Random) -> None:
    keys = rnd.sample(KEYS, rnd.choice((1, 1, 2)))
    types = rnd.sample(list(VALUES), rnd.randrange(1, 6))
    columns = [f"k{n}" for n in range(len(keys))] + [f"v{n}" for n in range(len(types))]
    there = [*keys, *types]
    here = [CHANGES.get(each, each) if n >= len(keys) and rnd.random() < 0.3 else each for n, each in enumerate(there)]
    names = ", ".join(columns[: len(keys)])

    def table(kinds: list[str]) -> str:
        made = ", ".join(f"{column} {kind}" for column, kind in zip(columns, kinds, strict=True))
        return f"CREATE TABLE t ({made}, PRIMARY KEY ({names}))"

    def row(n: int) -> str:
        rest = ["NULL" if rnd.random() < 0.1 else VALUES[kind].format(n=rnd.randrange(100)) for kind in types]
        return f"({', '.join([*[VALUES[kind].format(n=n) for kind in keys], *rest])})"

    count = rnd.choice((0, 1, 50, 700))
    served.pub(table(there))
    served.sub(table(here))
    if count:
        served.pub(f"INSERT INTO t VALUES {', '.join(map(row, range(count)))}")
    served.pub("CREATE PUBLICATION p FOR TABLE t; ANALYZE t")
    served.subscribe()
    assert is_equal(served.sub.session)
    planted: dict[str, str] = {}
    keys_of = {str(row): n for n, row in enumerate(served.sub(f"SELECT {names} FROM t ORDER BY {names}"))}
    for key in rnd.sample(list(keys_of), min(len(keys_of), rnd.randrange(6))):
        values = eval(key)  # a tuple of texts, as it was printed
        where = " AND ".join(f"{column} = '{value}'" for column, value in zip(columns, values, strict=False))
        if rnd.random() < 0.5:
            served.sub(f"DELETE FROM t WHERE {where}")
            planted[key] = "missing"
        else:
            column = rnd.choice(columns[len(keys) :])
            ((value,),) = served.sub(f"SELECT {column} FROM t WHERE {where}")
            kind = here[columns.index(column)]
            other = (
                f"({VALUES.get(kind, VALUES['text']).format(n=100)})::{kind}"
                if kind in VALUES
                else f"'2001-01-01'::{kind}"
            )
            served.sub(
                f"UPDATE t SET {column} = {'NULL' if value is not None and rnd.random() < 0.5 else other} WHERE {where}"
            )
            planted[key] = "different"
    for n in rnd.sample(range(1000, 1100), rnd.randrange(3)):
        values = ", ".join(VALUES[kind].format(n=n) for kind in keys)
        served.sub(f"INSERT INTO t ({names}) VALUES ({values})")
        (new,) = served.sub(f"SELECT {names} FROM t WHERE ({names}) = ({values})")
        planted[str(new)] = "extra"
    found = differences(compare(served.sub.session, connections=rnd.choice((1, 2))))
    assert {str(tuple(key.values())): kind for _, kind, key, _ in found} == planted
    repair(served.sub.session)
    assert is_equal(served.sub.session)
    assert served.catch_up() == []
