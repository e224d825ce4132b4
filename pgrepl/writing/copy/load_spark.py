"""COPY FROM carried out by Spark: for large files, whose rows are never all in this process's memory.

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
from pgrepl.engine.result_spark import result_folder
from pgrepl.engine.scan_spark import spark_path, storage_array
from pgrepl.engine.spark_types import spark_type
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import pa
from pgrepl.lake.commit.commit import Stale
from pgrepl.rows.changes import ModifyKind, members
from pgrepl.rows.checks_table import Router, TableChecks
from pgrepl.rows.foreign.actions_spark import apply
from pgrepl.rows.foreign.key import index_key
from pgrepl.rows.unique import UniqueIndex, all_unique_indexes, unique_index
from pgrepl.types.lake.forms import form
from pgrepl.writing.copy.load_rows import say_skipped
from pgrepl.writing.copy.reader import is_placed, placed
from pgrepl.writing.copy.text_columns import write_files
from pgrepl.writing.modify_spark import insert_rows_of, staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.rows.checks_spark import SparkChanges
    from pgrepl.types.lake.arrays import Form
    from pgrepl.writing.copy.source import Row, RowSource

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
            except PgError as found:
                return placed(found, fresh.place())
    except PgError as found:
        return found
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


# --- load spark -------------------------------------------------------------------------------------------------------


_TRIES = 3  # without the write lock; then once with it
_PORTION = 32768  # rows written to a file at a time


Stage: TypeAlias = "Callable[[Session, RowSource], SparkChanges]"


def load(session: Session, open_source: Callable[[], RowSource], stage: Stage | None = None) -> int:
    """Read, check and write all rows; returns their number, or raises Declined. `open_source` looks up the target again
    for each try, as it may have changed. `stage`: the function that stages the rows, if not Spark does."""
    transaction = session.transaction
    for number in range(_TRIES + 1):
        locked = transaction.is_writing or number == _TRIES
        if locked:
            transaction.require_write()
        source = open_source()
        changes = (stage or _stage)(session, source)
        transaction.require_write()
        try:
            apply(changes)
        except Stale:
            changes.discard()
            if locked:
                raise
            transaction.release_write()
            continue
        say_skipped(session, source)
        return changes.count
    raise AssertionError("with the lock nobody else can have changed the table")


def _stage(session: Session, source: RowSource) -> SparkChanges:
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


# --- rows that only this process can read -----------------------------------------------------------------------------


@contextmanager
def _kept(session: Session, source: RowSource) -> Iterator[DataFrame]:
    """The rows as a DataFrame with columns c{attnum}, by way of temporary files."""
    forms = {a.num: form(a.type, a.typmod) for a in source.target.relation.columns}
    with result_folder(session.catalog.data_path) as folder:
        yield _frame(forms, write_files(_tables(source.rows(), forms), folder))


def _tables(rows: Iterator[Row], forms: dict[int, Form]) -> Iterator[pa.Table]:
    names = [f"c{number}" for number in forms] or ["__no_column"]
    portion = list(islice(rows, _PORTION))
    while True:
        columns = [storage_array(f.to_array([row[n - 1] for row in portion])) for n, f in forms.items()]
        yield pa.table(columns or [pa.nulls(len(portion), pa.int64())], names=names)
        portion = list(islice(rows, _PORTION))
        if not portion:
            return


def _frame(forms: dict[int, Form], paths: list[str]) -> DataFrame:
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [StructField(f"c{number}", spark_type(form.spark)) for number, form in forms.items()]
    schema = StructType(fields or [StructField("__no_column", LongType())])
    return spark.session().read.schema(schema).parquet(*[spark_path(path) for path in paths])
