"""A number that a window function refuses is an error only where there are rows (window_ntile, window_nth_value,
in_range_int4_int4)."""

from __future__ import annotations

import pytest

from tests.harness.played import Instance

WRONG = {
    "ntile(0) OVER (ORDER BY k)": "argument of ntile must be greater than zero",
    "nth_value(k, 0) OVER (ORDER BY k)": "argument of nth_value must be greater than zero",
    "sum(k) OVER (ORDER BY k RANGE -1 PRECEDING)": "invalid preceding or following size in window function",
}


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("call", WRONG)
def test_nothing_is_wrong_without_rows(instance: Instance, spark: object, engine: str, call: str) -> None:
    instance.play("pub", "CREATE TABLE z (k int)")
    instance.play("pub", "INSERT INTO z SELECT generate_series(1, 500)")
    instance.play("pub", f"SET pgrepl.engine = {engine}")
    assert instance.play("pub", f"SELECT {call} FROM z WHERE k < 0") == []
    assert WRONG[call] in "\n".join(instance.play("pub", f"SELECT {call} FROM z"))
