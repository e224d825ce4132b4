"""COPY FROM carried out by Spark: for large files. The rows are never all in this process's memory.

Spark reads the source's queries where it has some. Otherwise this process reads the rows line by line and writes them
to temporary files for Spark. Either way the table is changed only at the end, and the write lock is taken only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from pgrepl.errors import Declined, PgError
from pgrepl.lake.spark_result import result_folder
from pgrepl.rows.changes import ModifyKind
from pgrepl.rows.foreign_actions_spark import apply
from pgrepl.writing.copy.files_for_spark import write_files
from pgrepl.writing.copy.load_rows import say_skipped
from pgrepl.writing.copy.rejected_line import found_again
from pgrepl.writing.modify_spark import insert_rows_of, staged

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.rows.checks_spark import SparkChanges
    from pgrepl.types.lake_arrays import Form
    from pgrepl.writing.copy.source import Row, RowSource

_TRIES = 3  # without the write lock; then once with it
_PORTION = 32768  # rows written to a file at a time


Stage: TypeAlias = "Callable[[Session, RowSource], SparkChanges]"


def load(session: Session, open_source: Callable[[], RowSource], stage: Stage | None = None) -> int:
    """Read, check and write all rows; returns their number, or raises Declined. `open_source` looks up the target again
    for each try, as it may have changed. `stage`: the function that stages the rows, if not Spark does."""
    from pgrepl.lake.commit import Stale

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
    from pgrepl.types.lake_forms import form

    forms = {a.num: form(a.type, a.typmod) for a in source.target.relation.columns}
    with result_folder(session.catalog.data_path) as folder:
        yield _frame(forms, write_files(_tables(source.rows(), forms), folder))


def _tables(rows: Iterator[Row], forms: dict[int, Form]) -> Iterator[pa.Table]:
    import pyarrow as pa

    from pgrepl.lake.scan import storage_array

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

    from pgrepl.lake import spark
    from pgrepl.lake.scan import spark_path
    from pgrepl.lake.spark_types import spark_type

    fields = [StructField(f"c{number}", spark_type(form.spark)) for number, form in forms.items()]
    schema = StructType(fields or [StructField("__no_column", LongType())])
    return spark.session().read.schema(schema).parquet(*[spark_path(path) for path in paths])
