"""What a suite is known to fail, and why: `known/NAME.txt`.

The first line says how many tests were played. Then a reason, behind `#`, stands above the tests that fail for it; a
test behind `?` may pass, too.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pgrepl.ground.frozen import frozen

FOLDER = Path(__file__).with_name("known")
_ENOUGH = 0.95  # of the tests that were played when the list was written


@frozen
class Known:
    played: int
    fails: dict[str, str]  # test: reason
    may_pass: frozenset[str] = frozenset()


def read(text: str) -> Known:
    first, *lines = text.splitlines()
    fails: dict[str, str] = {}
    may_pass: set[str] = set()
    reason = ""
    for line in filter(None, lines):
        if line.startswith("# "):
            reason = line[2:]
            continue
        name = line.removeprefix("? ")
        fails[name] = reason
        if name != line:
            may_pass.add(name)
    return Known(int(first.split()[0]), fails, frozenset(may_pass))


def write(known: Known, outcomes: dict[str, str]) -> str:
    """The list for these outcomes; the reasons that are known are kept, and those of others are to be written."""
    played = [name for name, outcome in outcomes.items() if outcome != "skipped"]
    failed = {name for name in played if outcomes[name] == "failed"} | (known.may_pass & set(played))
    by_reason: dict[str, list[str]] = {}
    for name in sorted(failed):
        by_reason.setdefault(known.fails.get(name, "not looked at yet"), []).append(name)
    blocks = [f"{len(played)} tests\n"]
    for reason, names in sorted(by_reason.items()):
        blocks.append("".join([f"\n# {reason}\n", *(f"{'? ' * (n in known.may_pass)}{n}\n" for n in names)]))
    return "".join(blocks)


def news(known: Known, outcomes: dict[str, str], *, whole: bool) -> list[str]:
    """What is not as the list says. `whole`: all of the suite was to be played."""
    played = {name: outcome for name, outcome in outcomes.items() if outcome != "skipped"}
    found = [f"fails now: {name}" for name in _of(played, "failed") if name not in known.fails]
    found += [f"passes now: {name}" for name in _of(played, "passed") if name in known.fails.keys() - known.may_pass]
    if whole and len(played) < _ENOUGH * known.played:
        found.append(f"only {len(played)} tests were played, not {known.played}")
    return found


def _of(played: dict[str, str], outcome: str) -> Collection[str]:
    return sorted(name for name, each in played.items() if each == outcome)
