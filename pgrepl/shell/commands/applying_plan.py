"""`pgrepl apply --dry-run`: filter, columns, operations and number of changes of each table, as a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.replication.subscriber.launcher import SubscriptionToServe
from pgrepl.replication.subscriber.lease import SubscriptionChanged, WorkerFailed
from pgrepl.shell.commands.subcommand import FAILURE, OK, say, write_table
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.files.memory import GivenBatch
    from pgrepl.replication.publisher.protocol import Published
    from pgrepl.replication.subscriber.preview import Preview, TablePreview

_HEADERS = (
    "Table", "State", "Operations", "Columns", "Filter", "To copy", "Insert", "Update", "Delete", "Truncate", "Engine",
)  # fmt: skip
_NAMED = 10  # files at most
_COUNTED = ("insert", "update", "delete", "truncate")


def show_plans(
    session: Session,
    subscriptions: Sequence[SubscriptionToServe],
    upto: int | None,
    copies: bool,
    given: GivenBatch | None = None,
) -> int:
    from pgrepl.replication.subscriber.preview import preview

    failed = False
    for subscription in subscriptions:
        there = session.elsewhere(subscription.database, session.role, apart=True)
        there.settings.take_client(session.settings)
        try:
            _show(preview(there, subscription.oid, upto=upto, copy=copies, given=given))
        except WorkerFailed as failure:
            failed = True
            say(failure.error.report)
        except SubscriptionChanged:
            continue
        finally:
            there.close()
    return FAILURE if failed else OK


def _show(found: Preview) -> None:
    count = f"{found.transactions} {'transaction' if found.transactions == 1 else 'transactions'}"
    title = f'Subscription "{found.name}": {count} from {lsn_text(found.start)} to {lsn_text(found.end)}'
    write_table(sys.stdout, title, _HEADERS, [_row(table) for table in found.tables], numeric=range(5, 10))
    if found.files:
        more = len(found.files) - _NAMED
        listed = [*found.files[:_NAMED], *([f"and {more} more"] if more > 0 else [])]
        sys.stdout.write(f"Files: {', '.join(listed)}\n")
        if found.reader is not None and found.reader.on_spark:
            sys.stdout.write(f"Read by: {found.reader}\n")


def _row(table: TablePreview) -> tuple[str, ...]:
    published = table.published
    counts = tuple([str(table.changes[operation]) for operation in _COUNTED])
    copied = "" if table.to_copy is None else str(table.to_copy)
    engine = "" if table.choice is None else str(table.choice)
    if published is None:
        return (f"{table.schema}.{table.name}", table.state, "", "", "not published", copied, *counts, engine)
    operations = ", ".join(published.operations)
    return (
        f"{table.schema}.{table.name}", table.state, operations, ", ".join(published.columns), _filter(published),
        copied, *counts, engine,
    )  # fmt: skip


def _filter(published: Published) -> str:
    """The row filter if all operations have the same, else each with its operation."""
    filters = dict(published.filters)
    filtered = {filters.get(operation, "") for operation in published.operations if operation != "truncate"}
    if len(filtered) == 1:
        return filtered.pop()
    return "; ".join(f"{operation}: {condition}" for operation, condition in published.filters)
