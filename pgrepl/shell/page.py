"""The page that a person opens first, by a server or by `pgrepl status --html`: what an overview and its history show,
as one HTML file that refers to nothing outside of it. data/ has its style and script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl import __version__
from pgrepl.catalog.facts.subscription import DATASYNC, INIT, READY
from pgrepl.shell.commands.standing import applied_text, behind_text, copy_text, has_left, problems, wal_text
from pgrepl.shell.commands.subcommand import many
from pgrepl.shell.page_drawing import STATES, amount, curve, escaped, graph, moment, named, size, state_of, time_text

if TYPE_CHECKING:
    from pgrepl.api.overview import DatabaseFacts, Overview, SlotFacts, SubscriptionFacts, TableFacts
    from pgrepl.api.overview_history import History, Point
    from pgrepl.engine.spark_errors import SparkFacts, SparkJob
    from pgrepl.replication.subscriber.status import Status, TableStatus
    from pgrepl.shell.commands.standing import Line


_DATA = Path(__file__).with_name("data")
_MOST = 500  # tables of a database that are listed
_UI_IS_OFF = "<p>Spark's UI is off: <code>pgrepl serve --conf spark.ui.enabled=true</code> turns it on.</p>"
_UNFOLDED = 6  # subscriptions, up to which their curves are shown at once
_TABLE_STATES = {
    INIT: "to be copied", DATASYNC: "being copied", "f": "copied", "s": "copied", READY: "ready",
}  # fmt: skip


@cache
def _data(name: str) -> str:
    return (_DATA / name).read_text("utf-8")


@cache
def policy(*, is_served: bool) -> str:
    """The Content-Security-Policy: nothing but the page's own style and script, by their checksums."""

    def checksum(name: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(_data(name).encode()).digest()).decode()}'"

    rules = [
        "default-src 'none'",
        f"style-src {checksum('page.css')}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if is_served:
        rules += [f"script-src {checksum('page.js')}", "connect-src 'self'", "frame-ancestors 'none'"]
    return "; ".join(rules)


def page(overview: Overview, history: History, *, is_served: bool) -> str:
    """The HTML file. One that is served fetches itself again; a file says when it was written."""
    again = '<noscript><meta http-equiv="refresh" content="30"></noscript>' if is_served else ""
    rule = (
        "" if is_served else f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy(is_served=False))}">'
    )
    script = f"<script>{_data('page.js')}</script>" if is_served else ""
    sections = list(_sections(overview, history))
    links = "".join(f'<li><a href="#{name}">{escaped(title)}</a></li>' for name, title, _ in sections)
    content = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escaped(title)}</h2>{text}</section>'
        for name, title, text in sections
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{rule}'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,">{again}'
        f"<title>{escaped(_headline(overview))} · pgrepl</title><style>{_data('page.css')}</style></head>\n"
        f'<body><a class="skip" href="#main">To the content</a><header><h1>pgrepl</h1>{_summary(overview, is_served)}'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main id="main" tabindex="-1">{content}</main>\n'
        f"<footer>pgrepl {__version__}</footer>{script}</body></html>\n"
    )


def _headline(overview: Overview) -> str:
    """How subscriptions stand, the worst first."""
    states = [state_of(subscription) for subscription in overview.subscriptions]
    told = [f"{states.count(state)} {word}" for state, word in STATES.items() if state in states]
    return ", ".join(told) or "no subscription"


def _summary(overview: Overview, is_served: bool) -> str:
    counted = [
        many(len(overview.databases), "database"),
        many(sum(len(database.tables) for database in overview.databases), "table"),
        many(len(overview.subscriptions), "subscription"),
    ]  # fmt: skip
    when = ("as of " if is_served else "written at ") + moment(overview.at)
    return (
        f'<div id="summary"><p>{escaped(", ".join(counted))}: <strong>{escaped(_headline(overview))}</strong></p>'
        f'<p><time id="at" data-when="{escaped(when)}">{escaped(when)}</time></p></div>'
    )


def _sections(overview: Overview, history: History) -> Iterator[tuple[str, str, str]]:
    """Each with the name and the title of its heading."""
    wrong = [
        _problem(subscription, told)
        for subscription in overview.subscriptions
        if (told := list(problems(subscription.status, with_kept=False)))
    ]
    if wrong:
        yield "problems", "What to do", "".join(wrong)
    drawn = graph(overview, lambda database, name: history.rate(database, name, overview.at))
    if drawn:
        states = sorted({state_of(subscription) for subscription in overview.subscriptions}, key=list(STATES).index)
        key = "".join(f'<li><span class="badge s-{state}">{STATES[state]}</span></li>' for state in states)
        keys = f'<ul class="key" aria-label="Colours of arrows">{key}</ul>' if key else ""
        yield "flow", "Where changes go", _scroll("flow-scroll", "Graph of databases and subscriptions", drawn) + keys
    if overview.subscriptions:
        cards = [
            _subscription(subscription, history, overview.at, number, unfolded=len(overview.subscriptions) <= _UNFOLDED)
            for number, subscription in enumerate(overview.subscriptions)
        ]
        yield "subscriptions", "Subscriptions", "".join(cards)
    if overview.slots:
        yield "slots", "What is kept for subscribers", _slots(overview.slots)
    if overview.spark is not None:
        yield "spark", "Spark", _spark(overview.spark)
    yield "tables", "Tables, files and upkeep", _databases(overview, history)


def _scroll(name: str, label: str, content: str) -> str:
    return f'<div class="scroll" id="{name}" role="region" tabindex="0" aria-label="{escaped(label)}">{content}</div>'


def _table(
    name: str, caption: str, heads: Sequence[str], lines: Iterable[Sequence[str]], numbers: Sequence[int]
) -> str:
    """A table of cells that are HTML already. `numbers`: the columns that are right-aligned."""

    def kind(at: int) -> str:
        return ' class="number"' if at in numbers else ""

    head = "".join(f'<th scope="col"{kind(at)}>{escaped(text)}</th>' for at, text in enumerate(heads))
    body = "".join(
        f'<tr><th scope="row">{first}</th>'
        + "".join(f"<td{kind(at)}>{text}</td>" for at, text in enumerate(rest, 1))
        + "</tr>"
        for first, *rest in lines
    )
    shown = f"<table><caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _scroll(name, caption, shown)


def _problem(subscription: SubscriptionFacts, told: Sequence[Sequence[Line]]) -> str:
    parts = []
    for is_statement, group in groupby(chain.from_iterable(told), key=lambda line: line.is_statement):
        if is_statement:
            parts.append(f"<pre><code>{escaped(chr(10).join(line.text for line in group))}</code></pre>")
        else:
            for line in group:
                kind = ' class="said"' if line.indent else ""
                parts += [f"<p{kind}>{escaped(text)}</p>" for text in line.text.splitlines()]
    name, state = subscription.status.name, state_of(subscription)
    return (
        f'<article class="card wrong"><h3>{named(name)} <span class="badge s-{state}">{STATES[state]}'
        f"</span></h3>{''.join(parts)}</article>"
    )


# --- subscriptions ----------------------------------------------------------------------------------------------------


def _subscription(subscription: SubscriptionFacts, history: History, now: float, number: int, *, unfolded: bool) -> str:
    status, state = subscription.status, state_of(subscription)
    facts = "".join(
        f"<div><dt>{term}</dt><dd>{text}</dd></div>" for term, text in _facts(subscription, history, now) if text
    )
    curves = _curves(status, history, now) if subscription.is_whole else ""
    more = ""
    if curves:
        is_open = " open" if unfolded else ""
        more = (
            f'<details id="curves-{number}"{is_open}><summary id="unfold-{number}">Lag over the last hour and day'
            f'</summary><div class="curves">{curves}</div></details>'
        )
    return (
        f'<article class="card" id="subscription-{number}"><h3>{named(status.name)} '
        f'<small>in {named(status.database)}</small> <span class="badge s-{state}">{STATES[state]}</span></h3>'
        f"<dl>{facts}</dl>{_copies(status, number)}{more}</article>"
    )


def _facts(subscription: SubscriptionFacts, history: History, now: float) -> Iterator[tuple[str, str]]:
    status = subscription.status
    yield "Publisher", named(status.publisher) if status.publisher else ""
    yield "Publications", ", ".join(map(named, status.publications))
    yield "Worker", "" if status.pid is None else f"process {status.pid}"
    yield "Tables", escaped(_table_states(status))
    if not subscription.is_whole:
        return
    yield "Applied", escaped(applied_text(status).replace("\n", " "))
    yield "Behind", escaped(behind_text(status).replace("\n", ", ")) or ("unknown" if status.slot else "")
    rate = history.rate(status.database, status.name, now)
    yield "Rate", "" if rate is None else f"{amount(rate)} rows/s"
    yield "Rows applied", amount(subscription.changes)
    kept = status.retained
    if kept is not None and kept.snapshots is not None:
        yield "Kept at the publisher", escaped(f"{size(kept.size)} of files, {many(kept.snapshots, 'snapshot')}")
    elif kept is not None:
        yield "Kept at the publisher", escaped(wal_text(kept))
    yield "Errors", escaped(f"{status.apply_errors} applying, {status.sync_errors} copying")
    yield "Conflicts", amount(subscription.conflicts)


def _table_states(status: Status) -> str:
    words = [_state_word(table) for table in status.tables]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "none"


def _state_word(table: TableStatus) -> str:
    return "no longer published" if has_left(table) else _TABLE_STATES.get(table.state, table.state)


def _state_text(table: TableStatus, status: Status) -> str:
    """The state of a table, and how far it is behind: as its subscription, whose worker applies the changes of all
    tables in one order, or by its copy."""
    more = ""
    if table.copy is not None:
        more = copy_text(table.copy)
    elif table.state == READY and not has_left(table) and status.seconds:
        more = f"{time_text(status.seconds)} behind"
    return ", ".join(filter(None, (_state_word(table), more)))


def _copies(status: Status, number: int) -> str:
    """The copies that run, or are to go on, with their progress."""
    lines = []
    for table in status.tables:
        if table.copy is not None:
            done, total = table.copy.pieces or (0, 0)
            bar = f'<progress max="{total}" value="{done}" aria-label="pieces copied">{done}/{total}</progress>'
            lines.append((named(table.name), bar if total else "", escaped(copy_text(table.copy))))
    if not lines:
        return ""
    return _table(f"copies-{number}", f"Copies of {status.name}", ("Table", "Progress", "So far"), lines, ())


def _curves(status: Status, history: History, now: float) -> str:
    spans = history.spans(now, status.database, status.name)
    if not any(points for points, _, _ in spans):
        return ""
    is_lake = status.retained is not None and status.retained.snapshots is not None
    kept = f"{'Files' if is_lake else 'WAL'} kept"
    return _drawn(spans, now, ("Lag", time_text), ("Lag", size), (kept, size))


def _drawn(
    spans: Iterable[tuple[list[Point], float, float]], now: float, *numbers: tuple[str, Callable[[float], str]]
) -> str:
    """The curves of the first numbers of the points, each with its title and its unit."""
    return "".join(
        curve(title, [(point.at, point[place]) for point in points], since, now, every, unit)
        for points, since, every in spans
        for place, (title, unit) in enumerate(numbers, 1)
    )


# --- slots, tables ----------------------------------------------------------------------------------------------------


def _slots(slots: Sequence[SlotFacts]) -> str:
    def line(slot: SlotFacts) -> tuple[str, ...]:
        state = "lost" if slot.is_lost else "active" if slot.is_active else "waits"
        return (
            named(slot.name), named(slot.database), state, _or_none(slot.changed, amount),
            _or_none(slot.seconds, time_text), _or_none(slot.snapshots, amount), _or_none(slot.retained, size),
        )  # fmt: skip

    heads = ("Slot", "Database", "State", "Rows behind", "Time behind", "Snapshots kept", "Files kept")
    return _table("slots-table", "Replication slots of this catalog", heads, map(line, slots), (3, 4, 5, 6))


def _spark(spark: SparkFacts) -> str:
    """The running jobs, and the way to Spark's own page."""
    if spark.is_remote:
        return "<p>Spark is behind a Spark Connect server, whose page shows its jobs.</p>"
    if not spark.is_up:
        return f"<p>Spark does not run: no statement has needed it lately.</p>{_UI_IS_OFF}"
    more = _UI_IS_OFF
    if spark.ui is not None and spark.ui.startswith(("http://", "https://")):
        link = f'<a href="{escaped(spark.ui)}" rel="noreferrer">Spark\'s UI</a>'
        more = f"<p>{link} has stages, plans and executors.</p>"
    if not spark.jobs:
        return f"<p>No job runs.</p>{more}"

    def line(job: SparkJob) -> tuple[str, ...]:
        bar = (
            f'<progress max="{job.tasks}" value="{job.done}" aria-label="tasks done">{job.done}/{job.tasks}</progress>'
        )
        return (
            str(job.number), named(job.what), bar, f"{job.done:,} of {job.tasks:,}", amount(job.running),
            time_text(job.seconds),
        )  # fmt: skip

    heads = ("Job", "For", "Progress", "Tasks done", "Running", "Since")
    return _table("spark-jobs", "Running jobs of Spark", heads, map(line, spark.jobs), (3, 4, 5)) + more


def _or_none(value: float | None, unit: Callable[[float], str]) -> str:
    return "" if value is None else escaped(unit(value))


def _databases(overview: Overview, history: History) -> str:
    kept = "" if overview.snapshots is None else f"<p>The catalog keeps {many(overview.snapshots, 'snapshot')}.</p>"
    parts = [_database(database, overview, history, number) for number, database in enumerate(overview.databases)]
    return kept + ("".join(parts) or "<p>There is none that you may see.</p>")


def _database(database: DatabaseFacts, whole: Overview, history: History, number: int) -> str:
    states: dict[str, list[str]] = {}
    for at, subscription in enumerate(whole.subscriptions):
        if subscription.status.database == database.name:
            link = f'<a href="#subscription-{at}">{named(subscription.status.name)}</a>'
            for table in subscription.status.tables:
                states.setdefault(table.name, []).append(f"{link}: {escaped(_state_text(table, subscription.status))}")
    sent: dict[str, list[str]] = {}
    for name, tables in database.publications.items():
        for published in tables:
            sent.setdefault(published, []).append(named(name))

    def line(table: TableFacts) -> tuple[str, ...]:
        return (
            named(table.name), "<br>".join(states.get(table.name, ())), ", ".join(sent.get(table.name, ())),
            amount(table.rows), amount(table.dead), size(table.size), amount(table.data_files),
            amount(table.delete_files), escaped((table.vacuumed or "")[:16].replace("T", " ")),
        )  # fmt: skip

    heads = ("Table", "Subscription", "Published by", "Rows", "Dead rows", "Size of files", "Files", "Delete files",
             "Last VACUUM")  # fmt: skip
    rows = sum(table.rows for table in database.tables)
    total = (
        f"{many(rows, 'row')} in {many(len(database.tables), 'table')}, {size(sum(t.size for t in database.tables))}"
    )
    title = f"<h3>{named(database.name)} <small>{escaped(total)}</small></h3>"
    if not database.tables:
        return f'<article class="card">{title}</article>'
    more = len(database.tables) - _MOST
    rest = f"<p>And {more:,} more.</p>" if more > 0 else ""
    shown = _table(f"tables-{number}", f"Tables of {database.name}", heads, map(line, database.tables[:_MOST]),
                   (3, 4, 5, 6, 7))  # fmt: skip
    return f'<article class="card">{title}{shown}{rest}{_growth(database, history, whole.at, number)}</article>'


def _growth(database: DatabaseFacts, history: History, now: float, number: int) -> str:
    """The curves of the largest tables, folded up."""
    drawn = ""
    for table in database.tables:
        spans = [span for span in history.spans(now, database.name, table.name, "table") if span[0]]
        drawn += _drawn(spans, now, (f"{table.name}: rows", amount), (f"{table.name}: size", size))
    if not drawn:
        return ""
    return (
        f'<details id="growth-{number}"><summary id="unfold-growth-{number}">Rows and size over the last hour and day'
        f'</summary><div class="curves">{drawn}</div></details>'
    )
