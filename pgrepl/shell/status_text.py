"""The status of subscriptions as text: a table, and below it what has stopped whom."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.replication.publisher.retained import LOST
from pgrepl.replication.subscriber.dangers import duration
from pgrepl.shell.subcommand import many
from pgrepl.shell.table import PrintOptions, TableContent
from pgrepl.sql.quote import quote_identifier
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.publisher.retained import Retained
    from pgrepl.replication.subscriber.status import CopyStatus, Status, TableStatus
    from pgrepl.replication.subscriber.stopped import Stop

WIDTH = 80  # where there is no terminal
HEADERS = ("Subscription", "Publisher", "Worker", "Tables", "Applied", "Behind")
_UNBROKEN = tuple(HEADERS.index(name) for name in ("Worker", "Applied", "Behind"))  # names may be, numbers not
_LISTED = 4  # tables that are named one by one


def status_text(found: Sequence[Status], title: str = "Subscriptions", width: int = WIDTH) -> str:
    from pgrepl.shell.formats.aligned import aligned, lay_out

    rows = [status_row(status) for status in found]
    table = TableContent(HEADERS, rows, "l" * len(HEADERS), title, ())
    options = PrintOptions(title=title)
    layout = lay_out(table, options, 0)
    if layout.exceeds(width):
        options = PrintOptions(title=title, format="wrapped", columns=width)
        layout = lay_out(table, options, width, _UNBROKEN)
    problems = [_wrapped(lines, width) + "\n" for status in found for lines in _problems(status)]
    return "".join([aligned(table, options, layout), *problems])


def status_row(status: Status) -> tuple[str, ...]:
    worker = "disabled" if not status.enabled else "" if status.pid is None else str(status.pid)
    return (
        f"{status.name}\nin {status.database}",
        "\n".join([status.publisher, *status.publications]),
        worker,
        _tables(status),
        _applied(status),
        _behind(status),
    )


def _applied(status: Status) -> str:
    here = lsn_text(status.applied or (0 if status.lag is None else status.lag.confirmed))
    return here if status.lag is None else f"{here}\nof {lsn_text(status.lag.current)}"


def _behind(status: Status) -> str:
    """The changes still to come, in words. A server tells the bytes, files their number: they do not know the number of
    changes."""
    backlog = status.backlog
    if backlog is not None:
        about = "" if backlog.exact else "~"
        lines = [about + many(backlog.changes, "row")]
        if backlog.transactions:
            lines.append(many(backlog.transactions, "transaction"))
    elif status.lag is not None and status.lag.files is not None:
        lines = [many(status.lag.files, "file")]
    elif status.behind is not None:
        lines = [pg_size_pretty(status.behind)]
    else:
        return ""
    if status.seconds:
        lines.append(f"{'~' if backlog is None else ''}{status.seconds:.1f} s")
    return "\n".join(lines)


def _tables(status: Status) -> str:
    """The tables with their states; of many only those that are not ready, or not published any more."""
    shown = [_table(table) for table in status.tables]
    if len(shown) <= _LISTED:
        return "\n".join(shown)
    ready = sum(table.state == "r" for table in status.tables)
    unusual = [text for table, text in zip(status.tables, shown, strict=True) if table.state != "r" or _has_left(table)]
    lines = [f"{ready} of {len(shown)} r", *unusual[:_LISTED]]
    if len(unusual) > _LISTED:
        lines.append(f"and {len(unusual) - _LISTED} more")
    return "\n".join(lines)


def _table(table: TableStatus) -> str:
    left = ", not published" if _has_left(table) else ""
    return f"{table.name} {table.state}{left}" + ("" if table.copy is None else f", {_copied(table.copy)}")


def _copied(copy: CopyStatus) -> str:
    """How far a copy is."""
    words = [] if copy.pieces is None else ["{} of {} pieces".format(*copy.pieces)]
    words += [] if copy.rows is None else [many(copy.rows, "row"), pg_size_pretty(copy.size or 0)]
    words += [] if copy.seconds_left is None else [f"{duration(copy.seconds_left)} left"]
    return ", ".join(words)


def _has_left(table: TableStatus) -> bool:
    return table.published is False


# --- what is wrong ----------------------------------------------------------------------------------------------------

_INDENT = "    "


class _Line(NamedTuple):
    text: str
    indent: str = ""
    is_statement: bool = False  # which is not broken


def _statement(text: str) -> _Line:
    return _Line(text, _INDENT, is_statement=True)


def _problems(status: Status) -> Iterator[list[_Line]]:
    where = f'Subscription "{status.name}" in database "{status.database}"'
    known = "" if status.stop is None else status.stop.failure.message  # what has stopped it may be why nobody answers
    if status.unreachable is not None and status.unreachable not in known:
        yield [_Line(f"{where}: {status.unreachable}")]
    if status.stop is not None:
        yield _stopped(where, status.stop)
    if status.retained is not None:
        yield from _retained(where, status, status.retained)
    left = [table.name for table in status.tables if _has_left(table)]
    if left:
        what = f"{', '.join(left)} {'is' if len(left) == 1 else 'are'}"
        told = f"{where}: {what} no longer published, so that no changes come. The subscription forgets that with"
        refresh = f"ALTER SUBSCRIPTION {quote_identifier(status.name)} REFRESH PUBLICATION;"
        yield [_Line(told), _statement(refresh)]


def _retained(where: str, status: Status, found: Retained) -> Iterator[list[_Line]]:
    """What the publisher keeps for the slot, and what is dangerous in that."""
    if found.snapshots is not None:
        if found.size:
            oldest = ", the oldest slot" if found.is_oldest else ""
            what = f"{pg_size_pretty(found.size)} of files in {many(found.snapshots, 'snapshot')}"
            yield [_Line(f'{where}: the publisher keeps {what} for replication slot "{status.slot}"{oldest}.')]
    elif found.status != LOST:
        yield [_Line(f'{where}: the publisher retains {_wal(found)} for replication slot "{status.slot}".')]
    for danger in status.dangers:
        lines = (("WARNING", danger.message), ("DETAIL", danger.detail), ("HINT", danger.hint))
        yield [_Line(f"{where}:"), *(_Line(f"{name}:  {text}", _INDENT) for name, text in lines)]


def _wal(found: Retained) -> str:
    facts = [f"wal_status {found.status}"]
    if found.left is not None:
        facts.append(f"{pg_size_pretty(max(0, found.left))} left")
    if found.seconds:
        facts.append(f"for {duration(found.seconds)} or longer")
    if found.spills:
        facts.append(f"{pg_size_pretty(found.spilled)} spilled to its disk")
    if found.transaction is not None:
        facts.append(f"oldest open transaction: {found.transaction.name}, {duration(found.transaction.seconds)}")
    return f"{pg_size_pretty(found.size)} of WAL ({'; '.join(facts)})"


def _stopped(where: str, stop: Stop) -> list[_Line]:
    failure = stop.failure
    how = "waits for its publisher since" if failure.waits else "is stopped by"
    if not stop.enabled:
        how = "is disabled by" if stop.disables else "is disabled; before, it was stopped by"
    lines = [_Line(f"{where} {how} an error of {stop.happened[:19].replace('T', ' ')}:")]
    lines.append(_Line(f"ERROR:  {failure.sqlstate}: {failure.message}", _INDENT))
    if failure.detail is not None:
        lines.append(_Line(f"DETAIL:  {failure.detail}", _INDENT))
    if failure.hint is not None:
        lines.append(_Line(f"HINT:  {failure.hint}", _INDENT))
    if failure.table is not None:
        others = "" if stop.uncopied == 1 else f", one of {stop.uncopied} whose copies failed"
        lines.append(_Line(f"while table {failure.table} was copied{others}", _INDENT))
    elif stop.lsn is not None:
        lines.append(_Line(f"The transaction finished at LSN {stop.lsn}.", _INDENT))
    for text, statements in stop.steps:
        lines += [_Line(text), *map(_statement, statements)]
    return lines


def over_text(found: Sequence[Status], limit: float, width: int = WIDTH) -> str:
    """The subscriptions that are over a limit of seconds, and why."""
    over = [(status, reason) for status in found if (reason := status.exceeds(limit)) is not None]
    told = 'Subscription "{}" in database "{}" is over the limit: {}.'
    return _wrapped([_Line(told.format(status.name, status.database, reason)) for status, reason in over], width)


def _wrapped(lines: Sequence[_Line], width: int) -> str:
    found: list[str] = []
    for text, indent, is_statement in lines:
        further = indent and f"{indent}  "
        for line in text.splitlines():
            whole = len(indent + line) + 1 if is_statement else width - 1
            found += textwrap.wrap(
                line, whole, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False
            )
    return "".join(line + "\n" for line in found)


__all__ = ["HEADERS", "over_text", "status_row", "status_text"]
