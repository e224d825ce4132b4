"""The published rows of a lake's table for kernels over Arrow, or as a DataFrame: copy_plan.py's plan."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.transaction import reading
from pgrepl.errors import Declined
from pgrepl.expr.context import Context
from pgrepl.expr.partition_order import leaf_partitions
from pgrepl.lake.files import estimate, last_snapshot
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.rows.routing_spark import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.replication.publisher.lake.copy_plan import CopyPlan


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
        from pgrepl.expr.arrow.program import any_is_true, program_of
        from pgrepl.expr.walk import map_attnums
        from pgrepl.lake.kernels.copy import KernelSource
        from pgrepl.query.bounds import filter_bounds

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
        found = leaf_partitions(self._session, table.oid) if table.kind == "p" else [table]
        return [leaf for leaf in found if leaf.kind == "r"]

    def _of_leaf(self, leaf: Relation) -> DataFrame:
        from pgrepl.expr.spark import Statement, to_sql
        from pgrepl.expr.walk import var_attnums
        from pgrepl.lake import scan, spark

        plan, session = self._plan, self._session
        numbers = {column.name: column.num for column in leaf.columns}
        read = set(plan.columns).union(*(var_attnums(expr) for expr in plan.filters))
        named = {column.num: numbers[column.name] for column in plan.table.columns if column.num in read}
        rows = scan.frame(
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
