"""0 and -0 are one value, in files that hold only one of them, too."""

from __future__ import annotations

import pytest

from tests.harness.played import Instance

CONDITIONS = (
    "f = 0", "f = '-0'", "f IN (0, 1)", "f >= 0", "f <= '-0'", "f < 0", "f > '-0'", "f <> 0", "f NOT IN (0, 2)",
    "f BETWEEN 0 AND 0", "r = 0", "r = '-0'::real", "r BETWEEN 0 AND '-0'", "r >= 0::float8", "0 = r", "f = r",
    "f IS NOT DISTINCT FROM 0", "f IS DISTINCT FROM '-0'",
)  # fmt: skip


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_zeros_are_found_in_all_files(instance: Instance, spark: object, engine: str) -> None:
    instance.play("pub", "CREATE TABLE z (f float8, r real)")
    for value in ("-0", "0", "1"):
        instance.play("pub", f"INSERT INTO z SELECT '{value}', '{value}' FROM generate_series(1, 500)")
    instance.play("pub", f"SET pgrepl.engine = {engine}")
    counts = ", ".join(f"(SELECT count(*) FROM z WHERE {each})" for each in CONDITIONS)
    found = instance.play("pub", f"SELECT {counts}")[-1].split("|")
    of_zeros = [1000, 1000, 1500, 1500, 1000, 0, 500, 500, 500, 1000, 1000, 1000, 1000, 1500, 1000, 1500, 1000, 500]
    assert [int(each) for each in found] == of_zeros
