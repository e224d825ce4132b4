"""The status of subscriptions as text of 80 columns: a table, and below it what has stopped whom."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.shell.subcommand import many
from pgrepl.shell.table import PrintOptions, TableContent
from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.status import Status
    from pgrepl.replication.subscriber.stopped import Stop

WIDTH = 80
HEADERS = ("Subscription", "Publisher", "Worker", "Tables", "Applied", "Behind")
_UNBROKEN = tuple(HEADERS.index(name) for name in ("Worker", "Applied", "Behind"))  # names may be, numbers not
_LISTED = 4  # tables that are named one by one


def status_text(found: Sequence[Status], title: str = "Subscriptions") -> str:
    from pgrepl.shell.formats.aligned import aligned, lay_out

    rows = [status_row(status) for status in found]
    table = TableContent(HEADERS, rows, "l" * len(HEADERS), title, ())
    options = PrintOptions(title=title)
    layout = lay_out(table, options, 0)
    if layout.exceeds(WIDTH):
        options = PrintOptions(title=title, format="wrapped", columns=WIDTH)
        layout = lay_out(table, options, WIDTH, _UNBROKEN)
    problems = [text for status in found for text in _problem(status)]
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
        lines = [f"{status.behind} bytes"]
    else:
        return ""
    if status.seconds:
        lines.append(f"{'~' if backlog is None else ''}{status.seconds:.1f} s")
    return "\n".join(lines)


def _tables(status: Status) -> str:
    """The tables with their states; of many only those that are not ready."""
    if len(status.tables) <= _LISTED:
        return "\n".join(f"{table.name} {table.state}" for table in status.tables)
    ready = sum(table.state == "r" for table in status.tables)
    waiting = [table for table in status.tables if table.state != "r"]
    lines = [f"{ready} of {len(status.tables)} r", *(f"{table.name} {table.state}" for table in waiting[:_LISTED])]
    if len(waiting) > _LISTED:
        lines.append(f"and {len(waiting) - _LISTED} more")
    return "\n".join(lines)


# --- what is wrong ----------------------------------------------------------------------------------------------------


def _problem(status: Status) -> Iterator[str]:
    where = f'Subscription "{status.name}" in database "{status.database}"'
    known = "" if status.stop is None else status.stop.message  # what has stopped it may be why nobody answers
    if status.unreachable is not None and status.unreachable not in known:
        yield _wrapped(f"{where}: {status.unreachable}") + "\n"
    if status.stop is not None:
        yield _stopped(where, status.stop) + "\n"


def _stopped(where: str, stop: Stop) -> str:
    how = "is stopped by" if stop.enabled else "is disabled by"
    lines = [_wrapped(f"{where} {how} an error of {stop.happened[:19].replace('T', ' ')}:")]
    lines.append(_wrapped(f"ERROR:  {stop.sqlstate}: {stop.message}", "    "))
    if stop.detail is not None:
        lines.append(_wrapped(f"DETAIL:  {stop.detail}", "    "))
    if stop.table is not None:
        lines.append(_wrapped(f"while table {stop.table} was copied", "    "))
    elif stop.lsn is not None:
        lines.append(f"    The transaction finished at LSN {stop.lsn}.\n")
    lines.append(_wrapped(stop.advice))
    lines += [f"    {statement}\n" for statement in stop.statements]
    return "".join(lines)


def over_text(found: Sequence[Status], limit: float) -> str:
    """The subscriptions that are over a limit of seconds, and why."""
    over = [(status, reason) for status in found if (reason := status.exceeds(limit)) is not None]
    return "".join(
        _wrapped(f'Subscription "{status.name}" in database "{status.database}" is over the limit: {reason}.')
        for status, reason in over
    )


def _wrapped(text: str, indent: str = "") -> str:
    lines: list[str] = []
    for line in text.splitlines():
        lines += textwrap.wrap(
            line,
            WIDTH - 1,
            initial_indent=indent,
            subsequent_indent=indent and f"{indent}  ",
            break_on_hyphens=False,
            drop_whitespace=True,
        )
    return "".join(line + "\n" for line in lines)


__all__ = ["HEADERS", "over_text", "status_row", "status_text"]
