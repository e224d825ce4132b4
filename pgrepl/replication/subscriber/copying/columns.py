"""An initial copy by whole columns. Rows of a lake are copied by kernels over Arrow, in this process or as tasks of
Spark. What they cannot do is `Declined`, and Spark SQL does it in one pass: rows are converted, checked and written as
files; unique keys are checked afterwards.

Integers of another size and texts of another length are cast; other types are converted through the text of each
value. Columns that are not sent get NULL, or a default that is the same for all rows. An error in any row ends the
attempt: the copy row by row then finds the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.engine import choice as engine_choice
from pgrepl.engine import spark
from pgrepl.engine.run_kernels import KernelTarget, WrongRow, copy, counting_writes
from pgrepl.expr.catalog_trees import column_default
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Var
from pgrepl.expr.walk import contains_mutable_functions
from pgrepl.ground.errors import Declined, PgError
from pgrepl.lake import commit
from pgrepl.lake.read.files import last_snapshot
from pgrepl.replication.publisher.tables import BeginCount, LakeSources, TableCopy
from pgrepl.replication.subscriber.apply.target import (
    MatchedColumns,
    check_readable,
    converted,
    copied,
    is_same,
    match_columns,
    row_errors,
    through_text,
)
from pgrepl.replication.wire.batch import SparkCopyRows
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.rows.arrivals import Arrival
from pgrepl.rows.checks_columns import check_form, check_program, columns_of, keys_differ, whole_keys
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.keys_spark import SparkIndex
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.unique import unique_indexes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.copy_rows import KernelColumn
    from pgrepl.engine.run_kernels import KernelSource
    from pgrepl.expr.exchange import Statement
    from pgrepl.lake.table import LakeColumn


_WORK = "initial copy"  # the name in pgrepl_stat_engine


def stage_columns(
    session: Session,
    table: Relation,
    source: LakeSources,
    sent: SentRelation,
    *,
    on_spark: bool,
    check: Callable[[], None],
) -> StagedRows:
    """The rows as files. Raises Declined if kernels cannot copy the table, WrongRow if a row has an error."""
    if table.kind == "p":
        raise Declined("a partitioned table")
    staged = StagedRows(session, table, last_snapshot(session))
    sources = source.sources()
    target = _target(session, staged, sent, sources)
    copied = copy(session, sources, target, on_spark=on_spark, check=check)
    staged.add_files(copied.files)
    try:
        for info in unique_indexes(session, table):
            if info.immediate and staged.files:  # those of deferrable constraints are checked by triggers
                _check_keys(session, staged, info, copied.spans)
    except (PgError, Declined, WrongRow):
        staged.write.discard()
        raise
    return staged


def _check_keys(session: Session, staged: StagedRows, info: Any, spans: Any) -> None:
    differ = keys_differ(session, staged, info, spans)
    if differ is False:
        raise WrongRow(f'two rows have one key of index "{info.name}"')
    if differ is None:
        engine_choice.require_spark(session, f'the keys of index "{info.name}"')
        with spark.described(f"unique index {info.name}"):
            SparkIndex(session, staged, info).check()


# --- columns ----------------------------------------------------------------------------------------------------------


def _target(session: Session, staged: StagedRows, sent: SentRelation, sources: list[KernelSource]) -> KernelTarget:
    table = staged.relation
    places = match_columns(session, table, sent)

    def received(column: LakeColumn, attribute: Attribute) -> KernelColumn | None:
        place = places[column.attnum - 1]
        return None if place < 0 else made_column(session, sent.columns[place], column, attribute, place, sources)

    rules = table_rules(session, table)
    columns = columns_of(session, staged.table.columns, rules, received)
    infos = [info for info in unique_indexes(session, table) if info.immediate]
    check = check_program(session, rules, bound=table.is_partition)
    return KernelTarget(staged.table, columns, check, tuple(whole_keys(infos, staged)))


def made_column(
    session: Session,
    sent: SentColumn,
    target: LakeColumn,
    attribute: Attribute,
    place: int,
    sources: Sequence[KernelSource],
) -> KernelColumn:
    """The column as it is, by a cast, or through the text of each value."""
    kept = [source.table.column(source.columns[place]) for source in sources]
    by_columns = copied(sent, attribute, place)
    if by_columns is not None:
        for source in kept:
            _check_form(source, target, same=is_same(sent, attribute))
        return by_columns
    if len({(column.attnum, column.kept_alike) for column in kept}) > 1:
        raise Declined(f'column "{target.name}", which partitions keep in other ways')
    if target.has_dimensions:
        raise Declined("arrays of several dimensions")
    check_form(target, attribute.type, attribute.typmod)
    check_form(kept[0], sent.type, sent.typmod)
    return converted(session, replace(sent, kept=kept[0].kept_alike), attribute, kept[0].attnum - 1)


def _check_form(source: LakeColumn, target: LakeColumn, *, same: bool) -> None:
    """Declined unless both types have the same lake form, or are integers of two sizes."""
    kinds = {source.form.lake, target.form.lake}
    if len(kinds) > 1 and (same or not kinds <= {"int16", "int32", "int64"}):
        raise Declined(f'column "{target.name}" is kept as {source.form.lake}')


# --- by Spark SQL -----------------------------------------------------------------------------------------------------


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
    choice = engine_choice.choose_copy(session, source.spark.estimate, size=size)
    if choice.engine is engine_choice.Engine.LOCAL:
        return None
    try:
        engine_choice.check_utf8(session)
    except Declined as reason:
        engine_choice.declined(session, _WORK, reason, f'table "{table.name}" is copied row by row')
        return None
    if choice.kernels:
        try:
            return _by_kernels(session, table, source, sent, begins, choice, check)
        except Declined as reason:
            engine_choice.declined(session, _WORK, reason, f'table "{table.name}" is not copied by kernels')
        if not engine_choice.choose_job(session, source.spark.estimate).on_spark:
            return None
    return _by_spark(session, table, source.spark, sent, begins)


def _by_kernels(
    session: Session,
    table: Relation,
    source: TableCopy,
    sent: SentRelation,
    begins: BeginCount,
    choice: engine_choice.Choice,
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
            engine_choice.declined(session, _WORK, error, f'table "{table.name}" is copied row by row')
            return None
    engine_choice.done(session, _WORK, choice.engine)
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
        engine_choice.declined(session, _WORK, reason, f'table "{table.name}" is not copied by Spark')
    except PgError as error:
        copy.discard()
        if not row_errors(error):
            raise
        engine_choice.declined(session, _WORK, error.message, f'table "{table.name}" is copied row by row')
    except BaseException:
        copy.discard()
        raise
    else:
        engine_choice.done(session, _WORK, engine_choice.Engine.SPARK)
        return copy
    copy.discard()
    return None
