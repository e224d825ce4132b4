"""Expressions nest as deep as the stack carries; beyond that is an error, and the session goes on."""

from __future__ import annotations

import pytest

from tests.harness.dose import dose
from tests.harness.played import Instance


@pytest.mark.parametrize(
    ("expression", "answer"),
    dose(
        [
            ("+".join(["1"] * 1500), "1500"),
            ("length(" + "||".join(["'a'"] * 1500) + ")", "1500"),
            ("abs(" * 1000 + "1" + ")" * 1000, "1"),
            ("case when false then 0 else " * 1000 + "1" + " end" * 1000, "1"),
        ],
        2,
    ),
    ids=["sum", "text", "calls", "case"],
)
def test_a_thousand_levels(instance: Instance, expression: str, answer: str) -> None:
    assert instance.play("pub", f"SELECT {expression}") == [answer]


def test_too_many_levels(instance: Instance) -> None:
    assert instance.play("pub", "SELECT " + "+".join(["1"] * 30_000), "SELECT 1") == [
        "ERROR:  stack depth limit exceeded",
        'HINT:  Increase the configuration parameter "max_stack_depth" (currently 2048kB), '
        "after ensuring the platform's stack depth limit is adequate.",
        "1",
    ]
