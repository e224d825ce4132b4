"""How a subscription stands, in words: what `pgrepl status` and the page of a server share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.replication.publisher.senders import LOST
from pgrepl.replication.subscriber.dangers import duration
from pgrepl.shell.commands.subcommand import many
from pgrepl.sql.keywords import quote_identifier
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.publisher.senders import Retained
    from pgrepl.replication.subscriber.state import Stop
    from pgrepl.replication.subscriber.status import CopyStatus, Status, TableStatus


def applied_text(status: Status) -> str:
    here = lsn_text(status.applied or (0 if status.lag is None else status.lag.confirmed))
    return here if status.lag is None else f"{here}\nof {lsn_text(status.lag.current)}"


def behind_text(status: Status) -> str:
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


def copy_text(copy: CopyStatus) -> str:
    """How far a copy is."""
    words = [] if copy.pieces is None else ["{} of {} pieces".format(*copy.pieces)]
    words += [] if copy.rows is None else [many(copy.rows, "row"), pg_size_pretty(copy.size or 0)]
    words += [] if copy.seconds_left is None else [f"{duration(copy.seconds_left)} left"]
    return ", ".join(words)


def has_left(table: TableStatus) -> bool:
    return table.published is False


# --- what is wrong ----------------------------------------------------------------------------------------------------

_INDENT = "    "


class Line(NamedTuple):
    text: str
    indent: str = ""
    is_statement: bool = False  # which is not broken


def _statement(text: str) -> Line:
    return Line(text, _INDENT, is_statement=True)


def problems(status: Status, *, with_kept: bool = True) -> Iterator[list[Line]]:
    """What is wrong and what to type, each in a few lines; among it, unless it is shown elsewhere, what the publisher
    keeps for the slot."""
    where = f'Subscription "{status.name}" in database "{status.database}"'
    known = "" if status.stop is None else status.stop.failure.message  # what has stopped it may be why nobody answers
    if status.unreachable is not None and status.unreachable not in known:
        yield [Line(f"{where}: {status.unreachable}")]
    if status.stop is not None:
        yield _stopped(where, status.stop)
    if status.retained is not None and with_kept:
        yield from _retained(where, status, status.retained)
    for danger in status.dangers:
        lines = (("WARNING", danger.message), ("DETAIL", danger.detail), ("HINT", danger.hint))
        yield [Line(f"{where}:"), *(Line(f"{name}:  {text}", _INDENT) for name, text in lines)]
    left = [table.name for table in status.tables if has_left(table)]
    if left:
        what = f"{', '.join(left)} {'is' if len(left) == 1 else 'are'}"
        told = f"{where}: {what} no longer published, so that no changes come. The subscription forgets that with"
        refresh = f"ALTER SUBSCRIPTION {quote_identifier(status.name)} REFRESH PUBLICATION;"
        yield [Line(told), _statement(refresh)]


def _retained(where: str, status: Status, retained: Retained) -> Iterator[list[Line]]:
    """What the publisher keeps for the slot."""
    if retained.snapshots is not None:
        if retained.size:
            oldest = ", the oldest slot" if retained.is_oldest else ""
            what = f"{pg_size_pretty(retained.size)} of files in {many(retained.snapshots, 'snapshot')}"
            yield [Line(f'{where}: the publisher keeps {what} for replication slot "{status.slot}"{oldest}.')]
    elif retained.status != LOST:
        yield [Line(f'{where}: the publisher retains {wal_text(retained)} for replication slot "{status.slot}".')]


def wal_text(retained: Retained) -> str:
    facts = [f"wal_status {retained.status}"]
    if retained.left is not None:
        facts.append(f"{pg_size_pretty(max(0, retained.left))} left")
    if retained.seconds:
        facts.append(f"for {duration(retained.seconds)} or longer")
    if retained.spills:
        facts.append(f"{pg_size_pretty(retained.spilled)} spilled to its disk")
    if retained.transaction is not None:
        facts.append(f"oldest open transaction: {retained.transaction.name}, {duration(retained.transaction.seconds)}")
    return f"{pg_size_pretty(retained.size)} of WAL ({'; '.join(facts)})"


def _stopped(where: str, stop: Stop) -> list[Line]:
    failure = stop.failure
    how = "waits for its publisher since" if failure.waits else "is stopped by"
    if not stop.enabled:
        how = "is disabled by" if stop.disables else "is disabled; before, it was stopped by"
    lines = [Line(f"{where} {how} an error of {stop.happened[:19].replace('T', ' ')}:")]
    lines.append(Line(f"ERROR:  {failure.sqlstate}: {failure.message}", _INDENT))
    if failure.detail is not None:
        lines.append(Line(f"DETAIL:  {failure.detail}", _INDENT))
    if failure.hint is not None:
        lines.append(Line(f"HINT:  {failure.hint}", _INDENT))
    if failure.table is not None:
        others = "" if stop.uncopied == 1 else f", one of {stop.uncopied} whose copies failed"
        lines.append(Line(f"while table {failure.table} was copied{others}", _INDENT))
    elif stop.lsn is not None:
        lines.append(Line(f"The transaction finished at LSN {stop.lsn}.", _INDENT))
    for text, statements in stop.steps:
        lines += [Line(text), *map(_statement, statements)]
    return lines
