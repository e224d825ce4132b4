"""The list of what a suite is known to fail, and what is news beside it."""

from __future__ import annotations

import re

import pytest

from tests.foreign import known
from tests.foreign.__main__ import outcomes_of
from tests.foreign.suites import SUITES
from tests.harness.programs import ROOT

LIST = known.Known(4, {"a::fails": "no extensions", "a::flaps": "its time"}, frozenset({"a::flaps"}))
AS_KNOWN = {"a::works": "passed", "a::fails": "failed", "a::flaps": "passed", "a::other": "passed", "a::no": "skipped"}


def test_what_is_as_known_is_no_news() -> None:
    assert known.news(LIST, AS_KNOWN, whole=True) == []
    assert known.news(LIST, AS_KNOWN | {"a::flaps": "failed"}, whole=True) == []
    assert known.news(LIST, {"a::works": "passed"}, whole=False) == []


def test_news_are_told() -> None:
    told = known.news(LIST, {"a::works": "failed", "a::fails": "passed", "a::flaps": "passed"}, whole=True)
    assert told == ["fails now: a::works", "passes now: a::fails", "only 3 tests were played, not 4"]


def test_a_list_is_read_as_it_was_written() -> None:
    text = known.write(LIST, AS_KNOWN | {"a::new": "failed"})
    assert text == ("5 tests\n\n# its time\n? a::flaps\n\n# no extensions\na::fails\n\n# not looked at yet\na::new\n")
    assert known.read(text) == known.Known(5, {**LIST.fails, "a::new": "not looked at yet"}, LIST.may_pass)


def test_a_report_becomes_outcomes() -> None:
    cases = [
        '<testcase classname="m" name="works"/>',
        '<testcase classname="m" name="fails"><failure message="x"/></testcase>',
        '<testcase classname="m" name="fails"/>',  # as another of its subtests
        '<testcase classname="m" name="set_up"><error message="x"/></testcase>',
        '<testcase classname="m" name="not"><skipped message="x"/></testcase>',
    ]
    assert outcomes_of(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>") == {
        "m::works": "passed", "m::fails": "failed", "m::set_up": "failed", "m::not": "skipped",
    }  # fmt: skip


@pytest.mark.parametrize("name", SUITES)
def test_each_failure_has_a_reason_and_the_documentation_the_numbers(name: str) -> None:
    found = known.read((known.FOLDER / f"{name}.txt").read_text("utf-8"))
    assert "not looked at yet" not in found.fails.values()
    text = (ROOT / "docs" / "server.md").read_text("utf-8")
    (played, failed), *others = re.findall(rf"^\| `{name}` \|.*\| ([\d,]+) \| (\d+) \|", text, re.MULTILINE)
    assert (int(played.replace(",", "")), int(failed), others) == (found.played, len(found.fails), [])
