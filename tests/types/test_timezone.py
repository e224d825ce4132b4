"""Zones: names, POSIX strings, abbreviations, and what a local time means around a change of the clocks."""

from __future__ import annotations

import pytest

from pgrepl.types.times.dates import Fields
from pgrepl.types.times.timezone import abbreviation, canonical_name, find_zone, parse_posix


def offset_at(name: str, moment: int) -> tuple[int, bool, str]:
    zone = find_zone(name)
    assert zone is not None
    offset = zone.at(moment)
    return offset.seconds, offset.isdst, offset.abbreviation


def test_names_are_found_in_any_case() -> None:
    assert canonical_name("america/new_york") == "America/New_York"
    assert find_zone("AMERICA/new_york") is find_zone("America/New_York")


@pytest.mark.parametrize("name", ["UTC", "GMT", "Etc/UTC", "etc/gmt"])
def test_greenwich_needs_no_database(name: str) -> None:
    assert offset_at(name, 0)[0] == 0


@pytest.mark.parametrize("name", ["", "Foo", "Foo/Bar", "America/../etc/passwd", ":UTC", "x" * 300])
def test_there_are_no_such_zones(name: str) -> None:
    assert find_zone(name) is None


def test_summer_and_winter() -> None:
    assert offset_at("America/New_York", 1_609_459_200) == (-18000, False, "EST")
    assert offset_at("America/New_York", 1_625_097_600) == (-14400, True, "EDT")


def test_the_rule_goes_on_behind_the_last_transition_of_the_file() -> None:
    assert offset_at("America/New_York", 4_118_904_000) == (-14400, True, "EDT")  # July 2100
    assert offset_at("America/New_York", 8_000_000_000_000) in ((-18000, False, "EST"), (-14400, True, "EDT"))


@pytest.mark.parametrize(
    ("text", "standard", "summer"),
    [
        ("EST5", -18000, None),
        ("EST5EDT", -18000, -14400),
        ("<+03>-3", 10800, None),
        ("<-0330>3:30", -12600, None),
        ("CET-1CEST,M3.5.0,M10.5.0/3", 3600, 7200),
        ("AAA0BBB-2,J60,J300", 0, 7200),
    ],
)
def test_posix_strings(text: str, standard: int, summer: int | None) -> None:
    rule = parse_posix(text)
    assert rule is not None
    assert (rule.standard.seconds, None if rule.summer is None else rule.summer.seconds) == (standard, summer)


@pytest.mark.parametrize("text", ["EST", "5", "EST5EDT,M13.1.0,M1.1.0", "EST5EDT,M3.2.0", "EST999", "EST5EDT,J0,J1"])
def test_not_posix_strings(text: str) -> None:
    rule = parse_posix(text)
    assert rule is None or text == "5"  # a zone without a name is one


def test_a_time_that_the_clocks_skip_counts_by_the_offset_before() -> None:
    zone = find_zone("America/New_York")
    assert zone is not None
    assert zone.of_local(Fields(2021, 3, 14, 2, 30)) == 18000


def test_a_time_that_comes_twice_counts_by_the_offset_after() -> None:
    zone = find_zone("America/New_York")
    assert zone is not None
    assert zone.of_local(Fields(2021, 11, 7, 1, 30)) == 18000


def test_abbreviations_are_fixed_or_stand_for_a_zone() -> None:
    est, msk = abbreviation("est"), abbreviation("MSK")
    assert est is not None and msk is not None
    assert (est.seconds, est.isdst, est.zone) == (-18000, False, None)
    assert msk.zone == "Europe/Moscow"
    assert abbreviation("nope") is None
