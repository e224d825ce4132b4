"""The copies of a lake's tables: what of a table is copied, by the present catalog (fetch_remote_table_info), its rows,
and their number.

Filters are ORed whatever the publications publish, and void when one has none. Rows are those of all leaves, given to
kernels, as a DataFrame or one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import has_column_privilege, has_table_privilege, permission_denied
from pgrepl.catalog.facts.publication import PublishedTable, publication_or_none, published_table, whole_columns
from pgrepl.catalog.facts.relation import Relation, find_relation
from pgrepl.catalog.facts.relation_parts import hides_rows
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine import scan_spark, spark
from pgrepl.engine.choice import choose_job
from pgrepl.engine.result_spark import column_names
from pgrepl.engine.run_kernels import KernelSource
from pgrepl.expr.arrow.program import any_is_true, program_of
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.partition_constraint import leaf_partitions
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import map_attnums, var_attnums
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read import inlined, local
from pgrepl.lake.read.files import data_files, estimate, last_snapshot
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.lake.write.delete_files import deleted_positions
from pgrepl.query.reads import filter_bounds
from pgrepl.replication.publisher.tables import TableCopy
from pgrepl.replication.wire.messages import Row, SentColumn, SentRelation
from pgrepl.rows.checks_table import converter
from pgrepl.sql.nodes.expr import RangeVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session


class Uncopyable(Exception):
    """The error that a subscriber raises for a publisher's answer; the publisher itself raises none."""

    def __init__(self, error: PgError) -> None:
        super().__init__(error.message)
        self.error = error


@frozen
class CopyPlan:
    """The columns and rows of a table to copy."""

    table: Relation
    columns: tuple[int, ...]  # numbers of the table's columns
    filters: tuple[Expr, ...]  # any of them; none: all rows


def copy_plan(session: Session, schema: str, name: str, publications: Sequence[str]) -> CopyPlan:
    """The plan by the present catalog, with the privileges of the connection's role."""
    plan = published_plan(session, schema, name, publications)
    _check_readable(session, plan)
    return plan


def published_plan(session: Session, schema: str, name: str, publications: Sequence[str]) -> CopyPlan:
    """The plan of a copy, whether the role may read the table or not."""
    named = find_relation(session, RangeVar(name, schema), missing_ok=True)
    if named is None:
        raise Uncopyable(PgError("42P01", f'table "{schema}.{name}" not found on publisher'))
    published: list[PublishedTable] = []
    for publication in publications:
        if publication_or_none(session, publication) is not None:
            table = published_table(session, publication, named)
            published += [] if table is None else [table]
    lists = {frozenset(table.attrs) for table in published}
    if len(lists) > 1:
        text = f'cannot use different column lists for table "{schema}.{name}" in different publications'
        raise Uncopyable(PgError("0A000", text))
    attrs = next(iter(lists)) if lists else frozenset(c.num for c in whole_columns(named, "n"))
    quals = [table.qual for table in published]
    filters = () if None in quals else tuple([from_json(qual, session) for qual in quals])
    return CopyPlan(named, tuple([c.num for c in named.columns if c.num in attrs]), filters)


def _check_readable(session: Session, plan: CopyPlan) -> None:
    if has_table_privilege(session, plan.table, "SELECT"):
        return
    needed = set(plan.columns).union(*(var_attnums(expr) for expr in plan.filters))
    if not all(has_column_privilege(session, plan.table, attnum, "SELECT") for attnum in needed if attnum > 0):
        raise permission_denied(plan.table)


class LakeRows:
    """The rows to copy of a table, or of the leaves of a partitioned one, at the snapshot at which this is made
    (protocol.LakeSources, wire.batch.SparkCopyRows)."""

    def __init__(self, session: Session, plan: CopyPlan, snapshot: int | None = None) -> None:
        self._session = session
        self._plan = plan
        self._snapshot = last_snapshot(session) if snapshot is None else snapshot

    @property
    def estimate(self) -> int:
        with reading(self._session):
            return sum(estimate(self._session, table) for table in self.lake_tables())

    def lake_tables(self) -> list[LakeTable]:
        return [lake_table(self._session, leaf.oid) for leaf in self._leaves()]

    def sources(self) -> list[KernelSource]:
        return [source for source, _ in self.sources_with_numbers()]

    def sources_with_numbers(self) -> list[tuple[KernelSource, dict[int, int]]]:
        """The sources, each with the numbers that the plan's columns have there."""
        with reading(self._session):
            return [self._source(leaf) for leaf in self._leaves()]

    def _source(self, leaf: Relation) -> tuple[KernelSource, dict[int, int]]:
        plan, session = self._plan, self._session
        numbers = {column.name: column.num for column in leaf.columns}
        own = {column.num: numbers[column.name] for column in plan.table.columns}
        condition = None
        if plan.filters:
            condition = program_of(map_attnums(any_is_true(plan.filters), own), Context(session))
            if condition is None:
                raise Declined("the row filter")
        table = lake_table(session, leaf.oid, self._snapshot)
        bounds = () if condition is None else filter_bounds(condition.expr, Context(session))
        columns = tuple([own[n] for n in plan.columns])
        return KernelSource(session, table, self._snapshot, columns, condition, bounds), own

    def frame(self) -> DataFrame:
        with reading(self._session):
            frames = [self._of_leaf(leaf) for leaf in self._leaves()]
        return reduce(lambda all_rows, more: all_rows.unionAll(more), frames)

    def _leaves(self) -> list[Relation]:
        table = self._plan.table
        leaves = leaf_partitions(self._session, table.oid) if table.kind == "p" else [table]
        return [leaf for leaf in leaves if leaf.kind == "r"]

    def _of_leaf(self, leaf: Relation) -> DataFrame:
        from pgrepl.expr.exchange import Statement, to_sql

        plan, session = self._plan, self._session
        numbers = {column.name: column.num for column in leaf.columns}
        read = set(plan.columns).union(*(var_attnums(expr) for expr in plan.filters))
        named = {column.num: numbers[column.name] for column in plan.table.columns if column.num in read}
        rows = scan_spark.frame(
            session, lake_table(session, leaf.oid, self._snapshot), sorted(set(named.values())), self._snapshot
        )
        if named != {number: number for number in named}:
            rows = rows.selectExpr(*[f"c{own} AS c{number}" for number, own in named.items()])
        statement = Statement(Context(session))
        sent = ", ".join(f"c{number} AS s{place}" for place, number in enumerate(plan.columns))
        text = f"SELECT {sent or '1 AS one'} FROM {{f}}"
        if plan.filters:
            tests = [f"({to_sql(expr, column_names, statement)}) IS TRUE" for expr in plan.filters]
            text += f" WHERE {' OR '.join(tests)}"
        return statement.run(spark.session(), text, {"f": rows})


# --- copy -------------------------------------------------------------------------------------------------------------


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
    from pgrepl.replication.publisher.plan import any_true

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
        numbers = [column.num for column in leaf.kept]
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
    at = last_snapshot(session)
    in_files = sum(
        file.record_count - len(deleted_positions(session, table, file, at)) for file in data_files(session, table, at)
    )
    return in_files + inlined.count_rows(session, table, at)
