"""Whatever the input: nodes or a PgError, never anything else, and in time."""

from __future__ import annotations

import random
import time
from itertools import islice

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.sql.parser import parse
from tests.harness.dose import dose
from tests.sql.corpus import STATEMENTS
from tests.sql.reference import mutants


def outcomes(texts: list[str]) -> dict[str, int]:
    found = {"parsed": 0, "refused": 0}
    for text in texts:
        try:
            parse(text)
        except PgError as error:
            assert error.report.message and len(error.sqlstate) == 5
            position = error.report.position
            assert position is None or 1 <= position <= len(text) + 1
            found["refused"] += 1
        else:
            found["parsed"] += 1
    return found


def random_texts(seed: int, count: int) -> list[str]:
    """Random bytes, read as UTF-8 with lone surrogates for what is none; and random slices of good statements."""
    random_ = random.Random(seed)
    texts = []
    for number in range(count):
        if number % 2:
            statement = random_.choice(STATEMENTS)
            raw = bytearray(statement.encode())
            for _ in range(random_.randrange(1, 4)):
                raw[random_.randrange(len(raw))] = random_.randrange(256)
        else:
            raw = bytearray(random_.randbytes(random_.randrange(60)))
        texts.append(raw.decode("utf-8", "surrogateescape"))
    return texts


def check(seed: int, count: int) -> None:
    started = time.process_time()
    mutated = outcomes(list(islice(mutants(STATEMENTS, seed), count)))
    noise = outcomes(random_texts(seed, count))
    assert mutated["parsed"] > count // 20 and noise["parsed"] > 0
    assert time.process_time() - started < count / 300


def test_twenty_thousand_bad_inputs_give_nodes_or_postgresqls_errors() -> None:
    check(seed=1, count=10_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_more_bad_inputs(seed: int) -> None:
    check(seed, count=50_000)


@pytest.mark.parametrize(
    "text",
    dose(
        [
            "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
            "SELECT " + "- " * 20_000 + "a",
            "SELECT " + "'x' -- \n" * 5_000,
            "SELECT 'x' " + "-- " * 20_000 + "\n y",
            "SELECT " + "a AND " * 5_000 + "a",
            "SELECT " + "1_" * 3_000 + "a",
            "SELECT " + "9" * 100_000,
            "SELECT 0x" + "f" * 100_000,
            "SELECT " + "/*" * 20_000,
            "SELECT E'" + "\\\\" * 50_000,
            "INSERT INTO t VALUES " + ", ".join(f"({n}, 'x')" for n in range(20_000)),
            ";" * 50_000,
        ],
        3,
    ),
    ids=lambda text: text[:24],
)
def test_long_input_takes_no_more_than_its_length(text: str) -> None:
    started = time.process_time()  # of this process alone, whatever else the machine does
    outcomes([text])
    assert time.process_time() - started < 5
