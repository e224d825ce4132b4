"""The changes of one table by a statement of Spark's, staged in files that nothing refers to yet, and look-ups of their
keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.engine import scan_spark, spark
from pgrepl.engine.choice import choose
from pgrepl.engine.result_spark import ORDER, column_names, python_rows
from pgrepl.engine.scan_spark import arrow_frame, quoted, readable, spark_path, storage_array
from pgrepl.engine.spark_types import spark_type
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr, Var
from pgrepl.ground.lazy import F, np, pa
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.data_file import NewFile, RowPlace, once
from pgrepl.lake.read.extent import Positions
from pgrepl.lake.read.files import extent
from pgrepl.lake.read.footers import ROW_ID_NAME
from pgrepl.lake.table import LakeColumn, lake_table
from pgrepl.lake.write.file_writer import DataFileWriter
from pgrepl.lake.write.statement import Write
from pgrepl.types import oids
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.modify_rows import ChangedPart
    from pgrepl.engine.run_kernels import ChangedTable
    from pgrepl.lake.table import LakeTable
    from pgrepl.rows.changes import Row

ROW = "__row"  # the row id of a new version, NULL of a new row


class StagedRows:
    """The new rows, the new versions of rows, and the places of deleted and updated rows."""

    def __init__(self, session: Session, rel: Relation, snapshot: int, write: Write | None = None) -> None:
        """`write`: the one to add to."""
        self.relation = rel
        self.table = lake_table(session, rel.oid)
        self.snapshot = snapshot
        self.write = Write(session, self.table, snapshot) if write is None else write
        self.inserted: list[NewFile] = []
        self.versions: list[NewFile] = []
        self._session = session
        self._deleted: list[Positions] = []

    @property
    def files(self) -> list[NewFile]:
        return [*self.inserted, *self.versions]

    @property
    def count(self) -> int:
        return sum(file.record_count for file in self.files)

    def add_files(self, files: Sequence[NewFile], *, versions: bool = False) -> None:
        self.write.insert_files(files)
        (self.versions if versions else self.inserted).extend(files)

    def delete(self, places: Positions) -> int:
        """Delete the rows at these places; returns their number."""
        self._deleted.append(places)
        for file_id, positions in places.files.items():
            self.write.delete_positions(file_id, positions)
        self.write.delete_inlined([int(row) for row in places.inlined])
        return sum(map(len, places.files.values())) + len(places.inlined)

    @property
    def has_deletions(self) -> bool:
        return any(places.files or len(places.inlined) for places in self._deleted)

    def take(self, done: ChangedTable, *, versions: bool) -> int:
        """Stage what kernels have made: deletions, whose number is returned, and files, between which stand the few
        rows of neighbouring parts."""
        gone = self.delete(together(done.parts))
        files = iter(done.files)
        waiting: list[tuple[RowPlace | None, Row]] = []
        for part in done.parts:
            waiting += part.few
            if part.files:
                self._file(waiting, versions=versions)
                waiting = []
                self.add_files([next(files) for _ in part.files], versions=versions)
        self._file(waiting, versions=versions)
        return gone

    def _file(self, rows: Sequence[tuple[RowPlace | None, Row]], *, versions: bool) -> None:
        """Write the few rows of neighbouring parts to a file of their own, so that all rows keep their order."""
        if not rows:
            return
        writer = DataFileWriter(self.table, row_ids=versions)
        row_ids = [place.row for place, _ in rows if place is not None]
        writer.write([row for _, row in rows], row_ids if versions else None)
        self.add_files([writer.close()], versions=versions)

    # --- as DataFrames ------------------------------------------------------------------------------------------------

    def new_rows(self, attnums: Sequence[int]) -> DataFrame:
        """The staged rows: c{attnum}, their row ids and their order."""
        columns = [self.table.column(attnum) for attnum in attnums]
        parts = []
        if self.inserted or not self.versions:
            parts.append(self._read(self.inserted, columns, row_ids=False))
        if self.versions:
            parts.append(self._read(self.versions, columns, row_ids=True))
        rows = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
        return rows.withColumn(ORDER, F.monotonically_increasing_id())

    def _read(self, files: Sequence[NewFile], columns: Sequence[LakeColumn], *, row_ids: bool) -> DataFrame:
        from pyspark.sql.types import LongType, StructField, StructType

        fields = [StructField(column.name, spark_type(column.form.spark)) for column in columns]
        if row_ids:
            fields.append(StructField(ROW_ID_NAME, LongType()))
        schema = StructType(fields)
        session = spark.session()
        if files:
            paths = [spark_path(path) for path in readable([self.table.location + file.name for file in files])]
            read = session.read.schema(schema).parquet(*paths)
        else:
            read = session.createDataFrame([], schema)
        own = [F.col(quoted(column.name)).alias(f"c{column.attnum}") for column in columns]
        row = F.col(quoted(ROW_ID_NAME)) if row_ids else F.lit(None).cast("bigint")
        return read.select(*own, row.alias(ROW))

    def old_rows(self, attnums: Sequence[int], *, deleted: bool, bounds: Sequence[Bound] = ()) -> DataFrame:
        """The rows before the statement, with `place`: the deleted and updated ones, or the others."""
        rows = scan_spark.frame(self._session, self.table, attnums, self.snapshot, bounds, places=True)
        if not self.has_deletions:
            return rows.limit(0) if deleted else rows
        places = self._places()
        file, pos, row = (F.col(f"place.{part}") for part in ("file", "pos", "row"))
        at = F.when(file.isNull(), row).otherwise(pos)
        condition = (places["file"] == F.coalesce(file, F.lit(-1))) & (places["at"] == at)
        return rows.join(places, condition, "left_semi" if deleted else "left_anti")

    def _places(self) -> DataFrame:
        """The places of the deleted and updated rows: (file, position), or (-1, row id) of an inlined one."""
        files: list[npt.NDArray[np.int64]] = []
        at: list[npt.NDArray[np.int64]] = []
        for places in self._deleted:
            for file_id, positions in places.files.items():
                files.append(np.full(len(positions), file_id, np.int64))
                at.append(np.asarray(positions, np.int64))
            files.append(np.full(len(places.inlined), -1, np.int64))
            at.append(np.asarray(places.inlined, np.int64))
        return arrow_frame(pa.table({"file": np.concatenate(files), "at": np.concatenate(at)}), ["BIGINT", "BIGINT"])

    # --- statistics ---------------------------------------------------------------------------------------------------

    def range_of(self, attnum: int) -> Bound | None:
        """The bounds of all staged values of a column, as far as the files' statistics know them."""
        column = self.table.column(attnum)
        if column.form.ordered != "full":
            return None
        lows: list[Any] = []
        highs: list[Any] = []
        for file in self.files:
            known = file.statistics.get(column.column_id)
            if known is None or known.has_nan or not known.is_bounded:
                return None
            if known.low is not None and known.high is not None:
                lows.append(column.form.from_stat(known.low))
                highs.append(column.form.from_stat(known.high))
        return Bound(attnum, min(lows), max(highs)) if lows else None


def together(parts: Sequence[ChangedPart]) -> Positions:
    """The places of all rows that parts delete."""
    by_file: dict[int, list[Any]] = {}
    inlined = [np.empty(0, np.int64)]
    for part in parts:
        inlined.append(np.asarray(part.row_ids, np.int64))
        for file_id, positions in part.positions:
            by_file.setdefault(file_id, []).append(positions.positions)
    return Positions(
        {file_id: once(np.concatenate(lists)) for file_id, lists in by_file.items()}, once(np.concatenate(inlined))
    )


# --- unique lookup spark ----------------------------------------------------------------------------------------------


def is_large(session: Session, table: LakeTable) -> bool:
    return choose(session, lambda: extent(session, table), if_large=True).on_spark


def rows_with_keys(
    session: Session, table: LakeTable, keys: Sequence[Expr], wanted: Sequence[tuple[Any, ...]], attnums: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """The columns of the rows whose keys (expressions over the table) are among `wanted`, and last the RowPlace."""
    from pgrepl.expr.exchange import Compiler, Statement, equal_key

    statement = Statement(Context(session))
    compiler = Compiler(column_names, statement)
    names = [f"c{attnum}" for attnum in attnums]
    keyed = [f"{equal_key(key, compiler)} AS k{n}" for n, key in enumerate(keys)]
    rows = scan_spark.frame(session, table, attnums, places=True)
    rows = statement.run(spark.session(), f"SELECT {', '.join([*names, 'place', *keyed])} FROM {{f}}", {"f": rows})
    shown = [Var(key.type, typmod=key.typmod, collation=key.collation, attnum=n) for n, key in enumerate(keys, 1)]
    keyed = [f"{equal_key(var, compiler)} AS k{n}" for n, var in enumerate(shown)]
    few = statement.run(spark.session(), f"SELECT {', '.join(keyed)} FROM {{f}}", {"f": _values(keys, wanted)})
    on = " AND ".join(f"a.k{n} <=> b.k{n}" for n in range(len(keys)))
    columns = ", ".join(f"a.{name}" for name in [*names, "place.file", "place.pos", "place.row"])
    text = f"SELECT {columns} FROM {{rows}} a LEFT SEMI JOIN {{few}} b ON {on}"
    types = [(table.column(attnum).typoid, table.column(attnum).typmod) for attnum in attnums]
    place = [(oids.INT8, -1)] * 3
    for row in python_rows(statement.run(spark.session(), text, {"rows": rows, "few": few}), [*types, *place]):
        yield (*row[:-3], RowPlace(*row[-3:]))


def _values(keys: Sequence[Expr], wanted: Sequence[tuple[Any, ...]]) -> DataFrame:
    """The wanted keys, as columns c1 … cn."""
    forms = [form(key.type, key.typmod) for key in keys]
    arrays = [storage_array(kind.to_array([values[n] for values in wanted])) for n, kind in enumerate(forms)]
    return arrow_frame(
        pa.table(arrays, names=[f"c{n}" for n in range(1, len(keys) + 1)]), [kind.spark for kind in forms]
    )
