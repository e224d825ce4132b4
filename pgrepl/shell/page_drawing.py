"""What the page draws: the graph of databases, publications and subscriptions and curves of lag, as SVG with a text in
place of each; texts made fit for HTML, whatever a table is called, and the state of a subscription in a word."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog.facts.subscription import DATASYNC, INIT
from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.shell.commands.subcommand import many
from pgrepl.shell.formats.table import char_width

if TYPE_CHECKING:
    from pgrepl.api.overview import Overview, SubscriptionFacts

_WIDTH, _GAP, _PAD, _LINE, _BETWEEN = 236, 156, 12, 22, 26  # of boxes and their lines, in pixels
_LETTERS, _TITLE = 29, 24  # columns of text in a box
_MOST = 150  # arrows
_REM = 16  # pixels of a rem


@dataclass
class _Box:
    title: str
    is_here: bool  # a database of this catalog
    lines: list[tuple[str, str, str]] = field(default_factory=list)  # kind, name and text
    x: float = 0
    y: float = 0

    @property
    def height(self) -> float:
        return 2 * _PAD + _LINE * (1 + len(self.lines)) - 4

    def at(self, kind: str, name: str) -> float:
        """The height of a line's middle; of one that is not there the title's."""
        numbers = (number for number, (a, b, _) in enumerate(self.lines, 1) if (a, b) == (kind, name))
        return self.y + _PAD + _LINE * next(numbers, 0) + 8


class _Arrow(NamedTuple):
    source: str
    target: str
    found: SubscriptionFacts
    state: str
    rate: float | None


def graph(overview: Overview, rate: Callable[[str, str], float | None]) -> str:
    """Databases and servers as boxes with their publications and subscriptions; an arrow is a subscription, its width
    the rate and its colour the state. Empty: there is no publication and no subscription."""
    boxes, arrows = _boxes(overview, rate)
    if not boxes:
        return ""
    width, height = _place(boxes, arrows)
    told = [_told(arrow) for arrow in arrows] or ["There are publications, and no subscription of this catalog's."]
    lines, labels = zip(*[_path(arrow, boxes) for arrow in arrows], strict=True) if arrows else ((), ())
    drawn = (*lines, *labels, *[_drawn(box) for box in boxes.values()])
    heads = "".join(
        f'<marker id="head-{state}" viewBox="0 0 10 10" refX="1" refY="5" markerWidth="15" markerHeight="15" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path class="head s-{state}" d="M0 0 L10 5 L0 10 z"/></marker>'
        for state in STATES
    )
    return (
        f'<svg class="graph" role="img" aria-labelledby="graph-title graph-text" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width / _REM:.2f}rem" height="{height / _REM:.2f}rem">'
        f'<title id="graph-title">Where changes go</title><desc id="graph-text">{escaped(" ".join(told))}</desc>'
        f"<defs>{heads}</defs>{''.join(drawn)}</svg>"
    )


def _boxes(overview: Overview, rate: Callable[[str, str], float | None]) -> tuple[dict[str, _Box], list[_Arrow]]:
    boxes: dict[str, _Box] = {}
    for database in overview.databases:
        box = _Box(database.name, True)
        box.lines += [("p", name, many(len(sent), "table")) for name, sent in sorted(database.publications.items())]
        boxes[f"here {database.name}"] = box
    arrows: list[_Arrow] = []
    for subscription in overview.subscriptions[:_MOST]:
        status, state = subscription.status, state_of(subscription)
        here = boxes.setdefault(f"here {status.database}", _Box(status.database, True))  # dropped in between
        here.lines.append(("s", status.name, STATES[state]))
        if not status.publisher:
            continue
        source = f"here {status.publisher}"
        if source not in boxes:
            source = f"far {status.publisher}"
            box = boxes.setdefault(source, _Box(status.publisher, False))
            known = {name for kind, name, _ in box.lines if kind == "p"}
            box.lines += [("p", name, "") for name in status.publications if name not in known]
        moved = rate(status.database, status.name)
        arrows.append(_Arrow(source, f"here {status.database}", subscription, state, moved))
    return {name: box for name, box in boxes.items() if box.lines}, arrows


def _place(boxes: dict[str, _Box], arrows: Sequence[_Arrow]) -> tuple[float, float]:
    """Put what sends left of what receives; the width and height of it all."""
    sources: dict[str, set[str]] = {}
    for arrow in arrows:
        if arrow.source != arrow.target and arrow.source in boxes:
            sources.setdefault(arrow.target, set()).add(arrow.source)
    columns: dict[str, int] = {}

    def column(name: str, way: tuple[str, ...] = ()) -> int:
        if name not in columns:
            before = [column(source, (*way, name)) for source in sources.get(name, ()) if source not in (*way, name)]
            columns[name] = 1 + max(before, default=-1)
        return columns[name]

    heights: dict[int, float] = {}
    for name, box in sorted(boxes.items(), key=lambda entry: (column(entry[0]), entry[1].title)):
        box.x = 8 + column(name) * (_WIDTH + _GAP)
        box.y = heights.get(column(name), 8.0)
        heights[column(name)] = box.y + box.height + _BETWEEN
    height = max(heights.values()) - _BETWEEN + 8
    for box in boxes.values():
        used = heights[round((box.x - 8) / (_WIDTH + _GAP))] - _BETWEEN + 8
        box.y += (height - used) / 2
    return 16 + _WIDTH + max(columns.values()) * (_WIDTH + _GAP), height


def _path(arrow: _Arrow, boxes: dict[str, _Box]) -> tuple[str, str]:
    """An arrow and its label, which lies over all arrows."""
    source, target, status = boxes[arrow.source], boxes[arrow.target], arrow.found.status
    begin = source.x + _WIDTH, source.at("p", next(iter(status.publications), ""))
    end = target.x - 1, target.at("s", status.name)
    bend = max(60.0, abs(end[0] - begin[0]) / 2)
    line = (
        f"M{begin[0]:.0f} {begin[1]:.0f} C{begin[0] + bend:.0f} {begin[1]:.0f} {end[0] - bend:.0f} {end[1]:.0f} "
        f"{end[0] - 14:.0f} {end[1]:.0f}"
    )
    wide = 2 + 1.4 * min(4.0, math.log10(1 + (arrow.rate or 0.0)))
    label = _label(arrow)
    over = ""
    if label and end[0] > begin[0]:
        x, y = end[0] - 14, end[1] + (18 + wide / 2 if begin[1] < end[1] else -6 - wide / 2)  # beside the bend
        over = f'<text class="rate" x="{x:.0f}" y="{y:.0f}" text-anchor="end">{escaped(label)}</text>'
    drawn = (
        f'<g><title>{escaped(_told(arrow))}</title><path class="arrow s-{arrow.state}" d="{line}" '
        f'stroke-width="{wide:.1f}" marker-end="url(#head-{arrow.state})"/></g>'
    )
    return drawn, over


def _label(arrow: _Arrow) -> str:
    if arrow.rate:
        return f"{amount(arrow.rate)} rows/s"
    seconds = arrow.found.status.seconds
    return f"{time_text(seconds)} behind" if seconds else ""


def _told(arrow: _Arrow) -> str:
    status = arrow.found.status
    rate = "" if arrow.rate is None else f", {amount(arrow.rate)} rows a second"
    return f"{status.name}: from {status.publisher} to {status.database}, {STATES[arrow.state]}{rate}."


def _drawn(box: _Box) -> str:
    texts = []
    for number, (kind, name, text) in enumerate(box.lines, 1):
        y = box.y + _PAD + _LINE * number + 13
        room = _LETTERS - len(text) - 1
        sign = "↗" if kind == "p" else "↘"
        texts.append(f'<text x="{box.x + _PAD:.0f}" y="{y:.0f}">{sign} {escaped(short(name, room))}</text>')
        texts.append(
            f'<text class="small" x="{box.x + _WIDTH - _PAD:.0f}" y="{y:.0f}" text-anchor="end">{escaped(text)}</text>'
        )
    return (
        f'<g class="box{"" if box.is_here else " far"}"><title>{escaped(box.title)}</title>'
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{_WIDTH}" height="{box.height:.0f}" rx="8"/>'
        f'<text class="title" x="{box.x + _PAD:.0f}" y="{box.y + _PAD + 12:.0f}">{escaped(short(box.title, _TITLE))}'
        f"</text>{''.join(texts)}</g>"
    )


def short(text: str, columns: int) -> str:
    """The text, cut to so many columns of a terminal."""
    taken = 0
    for number, char in enumerate(text):
        taken += max(0, char_width(char))
        if taken > columns:
            return text[: max(1, number - 1)] + "…"
    return text


# --- curves -----------------------------------------------------------------------------------------------------------

_HOUR = 3600
_W, _H, _TOP, _BOTTOM = 320, 108, 18, 16


def curve(
    title: str,
    points: Sequence[tuple[float, float]],
    since: float,
    until: float,
    every: float,
    unit: Callable[[float], str],
) -> str:
    """A curve of values by time; where some are not known, there is nothing. `unit` says a value in words."""
    known = [(at, value) for at, value in points if not math.isnan(value)]
    span = "hour" if until - since <= _HOUR else "day"
    if not known:
        return (
            f'<figure class="curve"><figcaption>{escaped(title)}, last {span}</figcaption><p>Nothing yet.</p></figure>'
        )
    most = max(value for _, value in known)
    now = known[-1][1]
    told = f"{title}, the last {span}: {unit(now)} at last, {unit(most)} at most."
    scale = most or 1.0

    def place(at: float, value: float) -> str:
        x = 2 + (at - since) / (until - since) * (_W - 4)
        y = _TOP + (1 - value / scale) * (_H - _TOP - _BOTTOM)
        return f"{x:.1f} {y:.1f}"

    drawn = []
    for stretch in _stretches(known, 2.5 * every):
        line = " L".join(place(at, value) for at, value in stretch)
        ground = f" L{place(stretch[-1][0], 0)} L{place(stretch[0][0], 0)} z"
        drawn.append(f'<path class="under" d="M{line}{ground}"/><path class="line" d="M{line}"/>')
    return (
        f'<figure class="curve"><figcaption>{escaped(title)}, last {span} <span>now {escaped(unit(now))}</span>'
        "</figcaption>"
        f'<svg role="img" aria-label="{escaped(told)}" viewBox="0 0 {_W} {_H}">'
        f'<path class="grid" d="M0 {_TOP} H{_W} M0 {_H - _BOTTOM} H{_W}"/>{"".join(drawn)}'
        f'<text x="0" y="{_TOP - 5}">{escaped(unit(most))}</text>'
        f'<text x="0" y="{_H - 3}">{"an" if span == "hour" else "a"} {span} ago</text>'
        f'<text x="{_W}" y="{_H - 3}" text-anchor="end">now</text></svg></figure>'
    )


def _stretches(known: list[tuple[float, float]], gap: float) -> list[list[tuple[float, float]]]:
    stretches: list[list[tuple[float, float]]] = []
    for point in known:
        if not stretches or point[0] - stretches[-1][-1][0] > gap:
            stretches.append([])
        stretches[-1].append(point)
    return stretches


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


def state_of(subscription: SubscriptionFacts) -> str:
    """The key in STATES."""
    status = subscription.status
    if not status.enabled:
        return "stopped" if status.stop is not None and status.stop.disables else "disabled"
    if status.stop is not None and not status.stop.failure.waits:
        return "stopped"
    if status.stop is not None or status.unreachable is not None:
        return "unreachable"
    if any(table.state in (INIT, DATASYNC) for table in status.tables):
        return "copying" if status.pid is not None else "idle"
    if subscription.is_whole and status.seconds == 0:
        return "ok"
    if status.pid is None:
        return "idle"
    if not subscription.is_whole:
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
