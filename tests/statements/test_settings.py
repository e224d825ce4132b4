"""Settings that would change what statements do either do so or are refused."""

from __future__ import annotations

import pytest

from tests.harness.played import Instance


@pytest.mark.parametrize(
    "assignment",
    [
        "array_nulls = off",
        "quote_all_identifiers = on",
        "allow_system_table_mods = on",
        "ignore_checksum_failure = on",
        "zero_damaged_pages = on",
    ],
)
def test_what_has_no_effect_is_refused(instance: Instance, assignment: str) -> None:
    name, _, value = assignment.partition(" = ")
    other = "on" if value == "off" else "off"
    assert instance.play("pub", f"SET {assignment}", f"SET {name} = {other}") == [
        f"ERROR:  {assignment} is not supported",
        "SET",
    ]


def test_exit_on_error_makes_each_error_fatal(instance: Instance) -> None:
    assert instance.play("pub", "SET exit_on_error = on", "SELECT 1/0") == ["SET", "FATAL:  division by zero"]
