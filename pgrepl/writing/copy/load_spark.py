"""COPY FROM of large files, whose rows are never all in this process's memory: by Spark, or by kernels over Arrow.

Kernels take columns into the lake's files as they are, in this process or as tasks of Spark's. A wrong row, and
anything that they cannot do, raises `Declined`: another engine then copies, and reports the error.

Where Spark does not read the source itself, this process reads it line by line into temporary files. The table is
changed only at the end. Spark knows no lines: for a row that it has rejected the file is read again, up to that row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.engine import spark
from pgrepl.engine.copy_rows import KernelColumn
from pgrepl.engine.result_spark import result_folder
from pgrepl.engine.run_kernels import KernelTarget, WrongRow, copy
from pgrepl.engine.scan_spark import parquet_frame, storage_array
from pgrepl.ground import interrupts
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import pa
from pgrepl.lake.commit import Stale
from pgrepl.rows.changes import ModifyKind, members
from pgrepl.rows.checks_columns import check_program, columns_of, default_column, keys_differ, whole_keys
from pgrepl.rows.checks_spark import SparkChanges, apply, check_fits
from pgrepl.rows.checks_table import Router, TableChecks, table_rules
from pgrepl.rows.foreign.key import index_key, keys_of
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.unique import UniqueIndex, all_unique_indexes, unique_index, unique_indexes
from pgrepl.types.lake.forms import form
from pgrepl.writing.copy.reader import is_placed, placed
from pgrepl.writing.copy.text_columns import write_files
from pgrepl.writing.modify_spark import insert_rows_of, staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.facts.relation import Attribute
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeColumn
    from pgrepl.types.lake.arrays import Form
    from pgrepl.writing.copy.source import Row, RowSource
    from pgrepl.writing.copy.target import CopyTarget

_UNIQUE, _FOREIGN_KEY = "23505", "23503"
_OF_ROWS = ("22", "23", "42", "0A", "P0")  # classes of errors that one row can cause


def found_again(session: Session, source: RowSource, error: PgError) -> PgError:
    """The error of the first wrong row, with its CONTEXT; the given error if no single row causes it."""
    if is_placed(error) or error.sqlstate == _FOREIGN_KEY or not error.sqlstate.startswith(_OF_ROWS):
        return error
    fresh = source.anew()
    if error.sqlstate == _UNIQUE:
        number = _duplicate(session, fresh, error)
        return error if number is None else placed(error, fresh.place(number))
    check = _checks(session, source.target.relation, frozenset(source.target.attnums))
    try:
        for row in fresh.rows():
            try:
                check(row)
            except PgError as of_row:
                return placed(of_row, fresh.place())
    except PgError as of_row:
        return of_row
    return error


def _checks(session: Session, named: Relation, modified: frozenset[int]) -> Callable[[Row], tuple[Relation, Row]]:
    """A function that checks a row, except its unique keys, and returns its leaf partition and the row in the layout of
    that table."""
    router = Router(session, named)
    tables: dict[int, TableChecks] = {}

    def of(rel: Relation) -> TableChecks:
        if rel.oid not in tables:
            tables[rel.oid] = TableChecks(session, rel, named, modified)
        return tables[rel.oid]

    def check(row: Row) -> tuple[Relation, Row]:
        if named.kind == "p":
            if named.is_partition:
                of(named).bound(row)
            leaf, row = router.route(row)
            row = of(leaf).complete(row)
            of(leaf).constraints(row)
            return leaf, row
        row = of(named).complete(row)
        of(named).constraints(row)
        of(named).bound(row)
        return named, row

    return check


def _duplicate(session: Session, source: RowSource, error: PgError) -> int | None:
    """The number of the line whose key exists already: in the table, or in an earlier line."""
    index = _violated(session, source.target.relation, error)
    if index is None or error.report.detail is None:
        return None
    check = _checks(session, source.target.relation, frozenset(source.target.attnums))
    first: int | None = None
    for row in source.rows():
        leaf, own = check(row)
        if leaf.oid != index.relation.oid:
            continue
        values = index.values(own)
        if values is None:
            continue
        if f"{index_key(session, index.info, values)} already exists." != error.report.detail:
            continue
        if first is not None or any(True for _ in index.find([values])):
            return source.number
        first = source.number
    return first


def _violated(session: Session, named: Relation, error: PgError) -> UniqueIndex | None:
    for member in members(session, named.oid, True):
        rel = relation(session, member.relation.oid)
        if rel.name == error.report.table:
            for info in all_unique_indexes(session, rel):
                if info.name == error.report.constraint:
                    return unique_index(session, rel, info)
    return None


_TRIES = 3  # without the write lock; then once with it
_PORTION = 32768  # rows written to a file at a time


Stage: TypeAlias = "Callable[..., SparkChanges]"


def load(session: Session, open_source: Callable[[], RowSource], stage: Stage) -> int:
    """Read, check and write all rows; returns their number, or raises Declined. `open_source` looks up the target again
    for each try, as it may have changed. `stage` stages the rows."""
    transaction = session.transaction
    for number in range(_TRIES + 1):
        locked = transaction.is_writing or number == _TRIES
        if locked:
            transaction.require_write()
        source = open_source()
        changes = stage(session, source)
        transaction.require_write()
        try:
            apply(changes)
        except Stale:
            changes.discard()
            if locked:
                raise
            transaction.release_write()
            continue
        source.say_skipped()
        return changes.count
    raise AssertionError("with the lock nobody else can have changed the table")


def stage_by_spark(session: Session, source: RowSource, *, on_spark: bool) -> SparkChanges:
    target = source.target
    named = frozenset(target.attnums)

    def fill(changes: SparkChanges) -> None:
        with source.queries() as queries, suppress(Declined):
            if queries:
                insert_rows_of(session, queries, changes)
                return
        with _kept(session, source) as frame:
            changes.insert(frame)

    try:
        return staged(session, target.relation, ModifyKind.INSERT, named, fill)
    except PgError as error:
        raise found_again(session, source, error) from None


# --- by kernels -------------------------------------------------------------------------------------------------------


def stage_by_kernels(session: Session, source: RowSource, *, on_spark: bool) -> SparkChanges:
    target = source.target
    rel = target.relation
    if rel.kind != "r" or keys_of(session, rel.oid):
        raise Declined("a partitioned table, or one with foreign keys")
    named = frozenset(target.attnums)
    check_fits(session, rel, ModifyKind.INSERT, named, by_kernels=True)
    staged = StagedRows(session, rel, session.transaction.numbering.last_snapshot())
    try:
        with source.kernel_source() as (files, longest), spark.described(f"COPY {rel.name}"):
            to = _target(session, target, staged, longest)
            copied = copy(session, [files], to, on_spark=on_spark, check=interrupts.check_for_interrupts)
    except WrongRow as reason:
        raise Declined(str(reason)) from None
    except PgError as error:
        if not error.is_of_data:
            raise
        raise Declined(error.message) from error
    changes = SparkChanges(session, rel, ModifyKind.INSERT, named, staged.snapshot)
    changes.add_files(copied.files)
    staged.inserted += copied.files
    if any(keys_differ(session, staged, info, copied.spans) is not True for info in unique_indexes(session, rel)):
        changes.discard()
        raise Declined("a unique key")
    return changes


def _target(session: Session, target: CopyTarget, staged: StagedRows, longest: dict[int, int | None]) -> KernelTarget:
    rel = target.relation
    rules = table_rules(session, rel)
    places = {attnum: place for place, attnum in enumerate(longest, 1)}

    def loaded(column: LakeColumn, attribute: Attribute) -> KernelColumn:
        attnum, not_null = column.attnum, attribute.notnull
        if attnum in places:
            return KernelColumn(attnum, places[attnum], None, not_null, longest[attnum])
        return default_column(session, column, target.defaults.get(attnum), not_null=not_null)

    columns = columns_of(session, staged.table.columns, rules, loaded)
    check = check_program(session, rules, bound=rel.is_partition)
    infos = unique_indexes(session, rel)
    return KernelTarget(staged.table, columns, check, tuple(whole_keys(infos, staged)))


# --- rows that only this process can read -----------------------------------------------------------------------------


@contextmanager
def _kept(session: Session, source: RowSource) -> Iterator[DataFrame]:
    """The rows as a DataFrame with columns c{attnum}, by way of temporary files."""
    forms = {a.num: form(a.type, a.typmod) for a in source.target.relation.columns}
    with result_folder(session.catalog.data_path) as folder:
        paths = write_files(_tables(source.rows(), forms), folder)
        yield parquet_frame([(f"c{number}", form.spark) for number, form in forms.items()], paths)


def _tables(rows: Iterator[Row], forms: dict[int, Form]) -> Iterator[pa.Table]:
    names = [f"c{number}" for number in forms] or ["__no_column"]
    portion = list(islice(rows, _PORTION))
    while True:
        columns = [storage_array(f.to_array([row[n - 1] for row in portion])) for n, f in forms.items()]
        yield pa.table(columns or [pa.nulls(len(portion), pa.int64())], names=names)
        portion = list(islice(rows, _PORTION))
        if not portion:
            return
