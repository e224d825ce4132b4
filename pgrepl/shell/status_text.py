"""The status of subscriptions as text: a table, and below it what has stopped whom."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.shell.standing import Line, applied_text, behind_text, copy_text, has_left, problems
from pgrepl.shell.table import PrintOptions, TableContent

if TYPE_CHECKING:
    from pgrepl.replication.subscriber.status import Status, TableStatus

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
    wrong = [_wrapped(lines, width) + "\n" for status in found for lines in problems(status)]
    return "".join([aligned(table, options, layout), *wrong])


def status_row(status: Status) -> tuple[str, ...]:
    worker = "disabled" if not status.enabled else "" if status.pid is None else str(status.pid)
    return (
        f"{status.name}\nin {status.database}",
        "\n".join([status.publisher, *status.publications]),
        worker,
        _tables(status),
        applied_text(status),
        behind_text(status),
    )


def _tables(status: Status) -> str:
    """The tables with their states; of many only those that are not ready, or not published any more."""
    shown = [_table(table) for table in status.tables]
    if len(shown) <= _LISTED:
        return "\n".join(shown)
    ready = sum(table.state == "r" for table in status.tables)
    unusual = [text for table, text in zip(status.tables, shown, strict=True) if table.state != "r" or has_left(table)]
    lines = [f"{ready} of {len(shown)} r", *unusual[:_LISTED]]
    if len(unusual) > _LISTED:
        lines.append(f"and {len(unusual) - _LISTED} more")
    return "\n".join(lines)


def _table(table: TableStatus) -> str:
    left = ", not published" if has_left(table) else ""
    return f"{table.name} {table.state}{left}" + ("" if table.copy is None else f", {copy_text(table.copy)}")


def over_text(found: Sequence[Status], limit: float, width: int = WIDTH) -> str:
    """The subscriptions that are over a limit of seconds, and why."""
    over = [(status, reason) for status in found if (reason := status.exceeds(limit)) is not None]
    told = 'Subscription "{}" in database "{}" is over the limit: {}.'
    return _wrapped([Line(told.format(status.name, status.database, reason)) for status, reason in over], width)


def _wrapped(lines: Sequence[Line], width: int) -> str:
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
