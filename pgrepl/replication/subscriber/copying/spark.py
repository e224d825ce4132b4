"""An initial copy by Spark SQL: rows are converted, checked and written as files in one pass; unique keys are checked
afterwards.

An error in any row ends the attempt: the copy row by row then finds the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.engine import choice as engine
from pgrepl.engine import spark
from pgrepl.engine.run_kernels import WrongRow, counting_writes
from pgrepl.expr.catalog_trees import column_default
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Var
from pgrepl.expr.walk import contains_mutable_functions
from pgrepl.ground.errors import Declined, PgError
from pgrepl.lake import commit
from pgrepl.lake.read.files import last_snapshot
from pgrepl.replication.publisher.tables import BeginCount, TableCopy
from pgrepl.replication.subscriber.apply.target import MatchedColumns, check_readable, row_errors, through_text
from pgrepl.replication.subscriber.copying.columns import stage_columns
from pgrepl.replication.wire.batch import SparkCopyRows
from pgrepl.replication.wire.messages import SentRelation
from pgrepl.replication.wire.text import WIRE_STYLE
from pgrepl.rows.arrivals import Arrival
from pgrepl.rows.keys_spark import SparkIndex
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.unique import unique_indexes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.exchange import Statement


def new_rows(session: Session, target: Relation, sent: SentRelation, rows: DataFrame) -> DataFrame:
    """Whole new rows: c{attnum} for every column that is not generated, from s{place} of the sent relation."""
    from pgrepl.expr.exchange import Statement

    statement: Statement = Statement(Context(session, WIRE_STYLE))
    matched = MatchedColumns(session, target, sent)
    columns = []
    for attribute in target.columns:
        if matched.places[attribute.num - 1] >= 0:
            columns.append(f"{_converted(session, matched, attribute, statement)} AS c{attribute.num}")
        elif not attribute.generated:
            columns.append(f"{_default(session, target, attribute, statement)} AS c{attribute.num}")
    return statement.run(spark.session(), f"SELECT {', '.join(columns)} FROM {{f}}", {"f": rows})


def _converted(session: Session, matched: MatchedColumns, attribute: Attribute, statement: Statement) -> str:
    from pgrepl.expr.exchange import to_sql

    place = matched.places[attribute.num - 1]
    if matched.same_type(attribute.num):
        return f"s{place}"
    check_readable(session, attribute)
    expr = through_text(matched.sent.columns[place], attribute, place + 1)
    return to_sql(expr, lambda node: f"s{place}" if isinstance(node, Var) else None, statement)


def _default(session: Session, target: Relation, attribute: Attribute, statement: Statement) -> str:
    """A default must be the same for all rows, and for every session."""
    from pgrepl.expr.exchange import to_sql
    from pgrepl.expr.exchange.sql import cast, form_type

    expr = column_default(session, target, attribute)
    if expr is None:
        return cast("NULL", form_type(attribute.type, attribute.typmod))
    if contains_mutable_functions(expr):
        raise Declined(f'the default of column "{attribute.name}"')
    return to_sql(expr, lambda node: None, statement)


# --- copy spark -------------------------------------------------------------------------------------------------------


_WORK = "initial copy"  # the name in pgrepl_stat_engine


class StagedCopy:
    """Staged rows of one table, or of the leaves of a partitioned one."""

    def __init__(self, session: Session, staged: Sequence[StagedRows] = ()) -> None:
        self._session = session
        self._snapshot = last_snapshot(session)
        self.staged = list(staged)

    @property
    def count(self) -> int:
        return sum(staged.count for staged in self.staged)

    @property
    def relids(self) -> list[int]:
        return [staged.relation.oid for staged in self.staged]

    def write(self, origin: str) -> None:
        """Commit the staged files at the running statement's snapshot; holding the write lock."""
        writes = [staged.write for staged in self.staged if staged.files]
        if writes:
            commit.record_writes(self._session, writes, {"origin": origin})
        self._session.transaction.numbering.store_snapshot()

    def discard(self) -> None:
        for staged in self.staged:
            staged.write.discard()

    # --- staging ------------------------------------------------------------------------------------------------------

    def fill(self, table: Relation, sent: SentRelation, rows: DataFrame) -> None:
        new = new_rows(self._session, table, sent, rows)
        arrival = Arrival(self._session, table, table, frozenset())
        for rel, done in zip(arrival.tables, arrival.write(new), strict=True):
            if any(part.count for part in done.parts):
                staged = StagedRows(self._session, rel, self._snapshot)
                self.staged.append(staged)
                staged.take(done, versions=False)
        for staged in self.staged:
            self._check_keys(staged)

    def _check_keys(self, staged: StagedRows) -> None:
        """Check unique indexes; those of deferrable constraints are checked by triggers, which a copy does not fire."""
        for info in unique_indexes(self._session, staged.relation):
            if info.immediate and staged.files:
                SparkIndex(self._session, staged, info).check()


def stage_copy(
    session: Session,
    table: Relation,
    source: TableCopy,
    sent: SentRelation,
    begins: BeginCount,
    check: Callable[[], None],
) -> StagedCopy | None:
    """The rows as files. None: they are few, or have to be copied row by row. `begins` is called by each attempt.
    `check` raises the error that ends the work."""
    if source.spark is None:
        return None
    size = None if source.direct is None else source.direct.size
    choice = engine.choose_copy(session, source.spark.estimate, size=size)
    if choice.engine is engine.Engine.LOCAL:
        return None
    try:
        engine.check_utf8(session)
    except Declined as reason:
        engine.declined(session, _WORK, reason, f'table "{table.name}" is copied row by row')
        return None
    if choice.kernels:
        try:
            return _by_kernels(session, table, source, sent, begins, choice, check)
        except Declined as reason:
            engine.declined(session, _WORK, reason, f'table "{table.name}" is not copied by kernels')
        if not engine.choose_job(session, source.spark.estimate).on_spark:
            return None
    return _by_spark(session, table, source.spark, sent, begins)


def _by_kernels(
    session: Session,
    table: Relation,
    source: TableCopy,
    sent: SentRelation,
    begins: BeginCount,
    choice: engine.Choice,
    check: Callable[[], None],
) -> StagedCopy | None:
    """None: a row is wrong."""
    if source.direct is not None:
        staged = source.direct.stage(session, table, begins, check, on_spark=choice.on_spark)
    else:
        assert source.lake is not None, "rows that come neither from a server nor from a lake are copied one by one"
        try:
            with counting_writes(session, begins()):
                staged = stage_columns(session, table, source.lake, sent, on_spark=choice.on_spark, check=check)
        except (PgError, WrongRow) as error:
            if isinstance(error, PgError) and (error.sqlstate.startswith("XX") or not row_errors(error)):
                raise  # not an error of a row
            engine.declined(session, _WORK, error, f'table "{table.name}" is copied row by row')
            return None
    engine.done(session, _WORK, choice.engine)
    return StagedCopy(session, [staged])


def _by_spark(
    session: Session, table: Relation, rows: SparkCopyRows, sent: SentRelation, begins: BeginCount
) -> StagedCopy | None:
    """None: they have to be copied row by row."""
    copy = StagedCopy(session)
    try:
        with counting_writes(session, begins()):
            copy.fill(table, sent, rows.frame())
    except Declined as reason:
        engine.declined(session, _WORK, reason, f'table "{table.name}" is not copied by Spark')
    except PgError as error:
        copy.discard()
        if not row_errors(error):
            raise
        engine.declined(session, _WORK, error.message, f'table "{table.name}" is copied row by row')
    except BaseException:
        copy.discard()
        raise
    else:
        engine.done(session, _WORK, engine.Engine.SPARK)
        return copy
    copy.discard()
    return None
