"""The rows of a published table at one snapshot, for the initial copy (copy_table), and the number of these.

Of a partitioned table they are the rows of all leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.numbering import current_lsn
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.row_security import hides_rows
from pgrepl.engine import choose_job
from pgrepl.expr.context import Context
from pgrepl.expr.partition_order import leaf_partitions
from pgrepl.lake import local
from pgrepl.lake.files import data_files, last_snapshot
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.replication.publisher.lake.copy_plan import CopyPlan, copy_plan
from pgrepl.replication.publisher.lake.copy_spark import LakeRows
from pgrepl.replication.publisher.row_filter_exprs import any_true
from pgrepl.replication.publisher.table_copy import TableCopy
from pgrepl.replication.wire.messages import Row, SentColumn, SentRelation
from pgrepl.rows.routing import converter

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def published_copy(session: Session, schema: str, name: str, publications: Sequence[str]) -> TableCopy:
    plan = copy_plan(session, schema, name, publications)
    taken = set(plan.columns)
    columns = tuple(
        [SentColumn(a.name, a.type, a.typmod, False, attnum=a.num) for a in plan.table.columns if a.num in taken]
    )
    sent = SentRelation(plan.table.oid, schema, name, plan.table.replident, columns)
    lsn = current_lsn(session)
    if hides_rows(session, plan.table, session.role):
        return TableCopy(sent, lsn, iter(()))
    spark = LakeRows(session, plan)
    count = None if plan.filters else spark.estimate
    if has_dimensions(session, plan.table):
        return TableCopy(sent, lsn, copied_rows(session, plan), count=count)
    return TableCopy(sent, lsn, copied_rows(session, plan), spark, lake=spark, count=count)


def has_dimensions(session: Session, table: Relation) -> bool:
    leaves = leaf_partitions(session, table.oid) if table.kind == "p" else [table]
    return any(lake_table(session, leaf.oid).has_dimensions for leaf in leaves if leaf.kind == "r")


def copied_rows(session: Session, plan: CopyPlan, snapshot: int | None = None) -> Iterator[Row]:
    """The rows, one by one, as of a snapshot (None: as the running transaction sees them)."""
    passes = any_true(plan.filters, Context())
    places = [number - 1 for number in plan.columns]
    for row in table_rows(session, plan.table, snapshot):
        if passes(row):
            yield tuple([row[place] for place in places])


def table_rows(session: Session, table: Relation, snapshot: int | None = None) -> Iterator[Row]:
    """All rows of a table or of the leaves of a partitioned one, by the table's attribute numbers."""
    for leaf in leaf_partitions(session, table.oid) if table.kind == "p" else [table]:
        if leaf.kind != "r":
            continue
        as_table, width = converter(leaf, table), len(leaf.attributes)
        numbers = [column.num for column in leaf.columns]
        for values in local.rows(session, lake_table(session, leaf.oid, snapshot), numbers, snapshot=snapshot):
            row: list[Any] = [None] * width
            for number, value in zip(numbers, values, strict=True):
                row[number - 1] = value
            yield as_table(tuple(row))


def published_count(session: Session, schema: str, name: str, publications: Sequence[str]) -> int:
    """Without filters the files' row counts give it, less deleted rows. With filters Spark counts a large table."""
    plan = copy_plan(session, schema, name, publications)
    if hides_rows(session, plan.table, session.role):
        return 0
    rows = LakeRows(session, plan)
    if not plan.filters:
        return sum(count_rows(session, table) for table in rows.lake_tables())
    if choose_job(session, rows.estimate).on_spark:
        return rows.frame().count()
    return sum(1 for _ in copied_rows(session, plan))


def count_rows(session: Session, table: LakeTable) -> int:
    """The rows of a table in the running transaction; reads delete files, but no data file."""
    from pgrepl.lake import inlined
    from pgrepl.lake.deleted_rows import deleted_positions

    at = last_snapshot(session)
    in_files = sum(
        file.record_count - len(deleted_positions(session, table, file, at)) for file in data_files(session, table, at)
    )
    return in_files + inlined.count_rows(session, table, at)
