"""Texts made fit for HTML, whatever a table is called, and the state of a subscription in a word."""

from __future__ import annotations

import re
import time
from html import escape
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.subscription import DATASYNC, INIT
from pgrepl.expr.functions.misc import pg_size_pretty

if TYPE_CHECKING:
    from pgrepl.api.overview import SubscriptionFacts

_NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")  # turn text around, too
_LATE = 60.0  # seconds from which on a subscription is behind

# A state's word, by the name of its colour; the worst first.
STATES = {
    "stopped": "stopped",
    "unreachable": "unreachable",
    "disabled": "disabled",
    "idle": "no worker",
    "behind": "behind",
    "copying": "copying",
    "ok": "up to date",
    "running": "running",
}


def escaped(text: object) -> str:
    """Text as HTML, in attributes, too."""
    return escape(_NOT_SHOWN.sub("\ufffd", str(text)))


def named(text: object) -> str:
    """A name as HTML: one that is written from right to left leaves its surroundings as they are."""
    return f"<bdi>{escaped(text)}</bdi>"


def state_of(found: SubscriptionFacts) -> str:
    """The key in STATES."""
    status = found.status
    if not status.enabled:
        return "stopped" if status.stop is not None and status.stop.disables else "disabled"
    if status.stop is not None and not status.stop.failure.waits:
        return "stopped"
    if status.stop is not None or status.unreachable is not None:
        return "unreachable"
    if any(table.state in (INIT, DATASYNC) for table in status.tables):
        return "copying" if status.pid is not None else "idle"
    if found.is_whole and status.seconds == 0:
        return "ok"
    if status.pid is None:
        return "idle"
    if not found.is_whole:
        return "running"
    return "behind" if status.seconds is None or status.seconds > _LATE else "ok"


def amount(value: float) -> str:
    """A number with separators of thousands, short if it has a fraction."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def size(value: float) -> str:
    """Bytes as pg_size_pretty has them."""
    return pg_size_pretty(int(value))


def time_text(seconds: float) -> str:
    """A span of time."""
    for unit, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit or seconds == unit != 60:
            return f"{seconds / unit:,.0f} {word}"
    return f"{amount(seconds)} s"


def moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
