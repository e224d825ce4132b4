"""Scans of a table at a snapshot as a DataFrame: files, deleted rows, inlined rows, row ids and places.

Files are read together, with one schema whose columns are found by field id. Read apart are files with deleted rows
(a bitmap of positions is joined to them), files whose columns are found by name, and files with rows newer than the
snapshot.

Spark pushes filters down by the *name* of a column, so a column is read under its own name only if no other column
ever had it.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.statistics import count_scan
from pgrepl.engine import spark, spark_options
from pgrepl.engine.spark_options import DEFAULT_MASTER
from pgrepl.engine.spark_types import older_value, read_field, spark_type
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import F, np, pa
from pgrepl.ground.threads import ThreadPool
from pgrepl.lake import sql, storage
from pgrepl.lake.read import footers, inlined
from pgrepl.lake.read.data_file import DataFile
from pgrepl.lake.read.files import data_files, last_snapshot
from pgrepl.lake.read.footers import ROW_ID, ROW_ID_NAME, SNAPSHOT_ID, SNAPSHOT_ID_NAME
from pgrepl.lake.read.local import pin
from pgrepl.lake.storage import local_path, scheme_of
from pgrepl.lake.write.delete_files import joined

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.table import LakeColumn, LakeTable


def pack(positions: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64]:
    """The bitmap of a file with `rows` rows, with the bits at these positions set."""
    bits = np.zeros(-(-rows // 64) * 64, np.uint8)
    bits[positions] = 1
    packed: npt.NDArray[np.int64] = np.packbits(bits, bitorder="little").view("<i8")
    return packed


def test(bitmap: str, position: str) -> str:
    """The Spark SQL for the bit of a position, 0 or 1."""
    return f"getbit({bitmap}[CAST(shiftright({position}, 6) AS INT)], CAST({position} & 63 AS INT))"


PLACE = "place"
PLACE_TYPE = "STRUCT<file: BIGINT, pos: BIGINT, row: BIGINT>"

# columns inside a scan; those of the result begin with c
_POSITION = "__pos"
_ROW_ID = "__row"
_SNAPSHOT = "__snapshot"
_TOLD_BY = "__told_by"
_KEY = "__key"
_FILE = "__file"
_START = "__start"
_DEAD = "__dead"

_FEW = 64  # files that are told apart by CASE, without a join


@frozen
class _Group:
    """Files that are read together. `names`: the columns' names by column id, in files without field ids; `until`:
    rows of later snapshots are left out; `absent`: ids of columns that are not in the files; `deleted`: the deleted
    positions by file id."""

    files: tuple[DataFile, ...]
    names: dict[int, str] | None
    until: int | None
    absent: frozenset[int]
    deleted: dict[int, Any]


def frame(
    session: Session,
    table: LakeTable,
    attnums: Sequence[int],
    snapshot: int | None = None,
    bounds: Sequence[Bound] = (),
    places: bool = False,
) -> DataFrame:
    """The rows at the snapshot (None: as the running transaction sees the table), with columns c{attnum} in the types'
    Spark form. `places` adds `place`: struct<file:bigint,pos:bigint,row:bigint>, with `file` and `pos` NULL for inlined
    rows. Rows outside the bounds may be among them: bounds only save work."""
    spark.session()  # the functions of pyspark want one
    at = last_snapshot(session) if snapshot is None else snapshot
    pin(session, at)
    columns = [table.column(attnum) for attnum in attnums]
    groups = _groups(session, table, at, bounds, columns, places)
    unique = _names(session, table) if any(group.names is None for group in groups) else str
    frames = [_file_rows(group, columns, unique, places) for group in groups]
    rows = inlined.rows(session, table, columns, at)
    alive = sum(file.record_count - len(g.deleted.get(file.data_file_id, ())) for g in groups for file in g.files)
    count_scan(session, table.oid, alive + len(rows))
    if rows or not frames:
        frames.append(_inlined_rows(rows, columns, places))
    return reduce(lambda all_rows, more: all_rows.unionAll(more), frames)


class FileReader:
    """Reads whole files of a table with Spark, deleted rows included."""

    def __init__(self, session: Session, table: LakeTable, files: Sequence[DataFile]) -> None:
        self._table = table
        self._unique = _names(session, table)

    def rows(self, files: Sequence[DataFile], attnums: Sequence[int]) -> DataFrame:
        """The columns as c{attnum}, and `place`."""
        columns = [self._table.column(attnum) for attnum in attnums]
        alike: dict[tuple[int | None, frozenset[int]], list[DataFile]] = {}
        for file in files:
            alike.setdefault((file.mapping_id, _absent(file, columns)), []).append(file)
        frames = []
        for (_, absent), together in alike.items():
            for part in _distinguishable(together):
                group = _Group(tuple(part), _source_names(part), None, absent, {})
                frames.append(_file_rows(group, columns, self._unique, places=True))
        return reduce(lambda all_rows, more: all_rows.unionAll(more), frames)


# --- groups of files -------------------------------------------------------------------------------------------------


def _groups(
    session: Session, table: LakeTable, at: int, bounds: Sequence[Bound], columns: Sequence[LakeColumn], places: bool
) -> list[_Group]:
    files = data_files(session, table, at, bounds)
    deleted = _deleted(session, table, files, at)
    alike: dict[tuple[int | None, bool, frozenset[int], bool], list[DataFile]] = {}
    for file in files:
        younger = file.partial_max is not None and file.partial_max > at
        key = (file.mapping_id, younger, _absent(file, columns), file.data_file_id in deleted and not places)
        alike.setdefault(key, []).append(file)
    groups = []
    for (_, younger, absent, _), together in alike.items():
        told_apart = places or any(file.data_file_id in deleted for file in together)
        for part in _distinguishable(together) if told_apart else [together]:
            own = {f.data_file_id: deleted[f.data_file_id] for f in part if f.data_file_id in deleted}
            groups.append(_Group(tuple(part), _source_names(part), at if younger else None, absent, own))
    return groups


def _absent(file: DataFile, columns: Sequence[LakeColumn]) -> frozenset[int]:
    """The columns that were added after the file, and that Spark's reader cannot fill: those of bytes."""
    filled = [c.column_id for c in columns if "BINARY" in c.form.spark and older_value(c) is not None]
    if not filled or file.mapping_id is not None:
        return frozenset()
    return frozenset(filled).difference(footers.of(file).by_id)


def _deleted(
    session: Session, table: LakeTable, files: Sequence[DataFile], at: int
) -> dict[int, npt.NDArray[np.int64]]:
    """The deleted positions of files that have any."""
    own = inlined.deletes(session, table, at)
    deleted = {}
    for file in files:
        if file.delete_files or file.data_file_id in own:
            positions, _ = joined(file.delete_files, own.get(file.data_file_id, []), at)
            if len(positions):
                deleted[file.data_file_id] = positions
    return deleted


_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")


def _distinguishable(files: Sequence[DataFile]) -> list[Sequence[DataFile]]:
    """The files in scans in which they can be told apart: by size, else by name (_metadata has names percent-encoded,
    so they must be plain), else by size in as many scans as there are files of one size."""
    names = [_file_name(file) for file in files]
    by_name = _differ(names) and all(_PLAIN_NAME.fullmatch(name) for name in names)
    if _differ(file.file_size_bytes for file in files) or by_name:
        return [files]
    scans: list[list[DataFile]] = []
    for file in files:
        free = next((s for s in scans if all(f.file_size_bytes != file.file_size_bytes for f in s)), None)
        if free is None:
            scans.append([file])
        else:
            free.append(file)
    return list(scans)


def _differ(values: Any) -> bool:
    listed = list(values)
    return len(set(listed)) == len(listed)


def _file_name(file: DataFile) -> str:
    return file.path.rpartition("/")[2]


def _source_names(files: Sequence[DataFile]) -> dict[int, str] | None:
    """The columns' names, by column id, in files of one name mapping. None: they are found by field id."""
    names = files[0].names
    return None if names is None else names.all


def _names(session: Session, table: LakeTable) -> Callable[[LakeColumn], str]:
    """The name under which a column is read that is found by its field id."""
    owners: dict[str, set[int]] = {"_metadata": {0, 1}, ROW_ID_NAME: {0, 1}, SNAPSHOT_ID_NAME: {0, 1}}
    for owned, column_id in session.link.execute(sql.COLUMN_NAMES, (table.table_id,)):
        owners.setdefault(owned, set()).add(column_id)

    def name(column: LakeColumn) -> str:
        if len(owners.get(column.name, ())) <= 1:
            return column.name
        other = f"column {column.column_id}"
        while other in owners:
            other += " "
        return other

    return name


# --- rows of files ---------------------------------------------------------------------------------------------------


def _file_rows(
    group: _Group, columns: Sequence[LakeColumn], unique: Callable[[LakeColumn], str], places: bool
) -> DataFrame:
    told_apart = bool(group.deleted) or (places and len(group.files) > 1)
    footers.compare(group.files)
    schema, values = _schema(group, columns, unique, places)
    reader = spark.session().read.schema(schema).option("recursiveFileLookup", "true")
    reader = reader.option("parquet.page.verify-checksum.enabled", "true")
    df = reader.parquet(*[spark_path(path) for path in readable([file.path for file in group.files])])
    by_size = _differ(file.file_size_bytes for file in group.files)
    if told_apart:
        values.append(F.col("_metadata.file_size" if by_size else "_metadata.file_name").alias(_TOLD_BY))
    if told_apart or places:
        values.append(F.col("_metadata.row_index").alias(_POSITION))
    df = df.select(*values)
    if group.until is not None:
        df = df.filter(F.col(_SNAPSHOT).isNull() | (F.col(_SNAPSHOT) <= group.until))
    if group.deleted or len(group.files) > _FEW:
        df = _joined(df, group, places, by_size) if told_apart else df
    elif places:
        df = df.select("*", _of_file(group.files, by_size, _FILE), _of_file(group.files, by_size, _START))
    output = [F.col(f"c{column.attnum}") for column in columns]
    if places:
        row = F.coalesce(F.col(_ROW_ID), F.col(_START).cast("bigint") + F.col(_POSITION))
        place = F.struct(F.col(_FILE).cast("bigint").alias("file"), F.col(_POSITION).alias("pos"), row.alias("row"))
        output.append(place.alias(PLACE))
    return df.select(*output)


def _of_file(files: Sequence[DataFile], by_size: bool, what: str) -> Column:
    """The id, or the first row id, of a row's file, if the files are few: cheaper than a join."""
    of = {_key(file, by_size): file.data_file_id if what == _FILE else file.row_id_start for file in files}
    if len(of) == 1:
        return F.lit(next(iter(of.values()))).cast("bigint").alias(what)
    kind = "bigint" if by_size else "string"
    entries = [entry for key, value in of.items() for entry in (F.lit(key).cast(kind), F.lit(value).cast("bigint"))]
    return F.element_at(F.create_map(*entries), F.col(_TOLD_BY)).alias(what)


def _key(file: DataFile, by_size: bool) -> int | str:
    return file.file_size_bytes if by_size else _file_name(file)


def _schema(
    group: _Group, columns: Sequence[LakeColumn], unique: Callable[[LakeColumn], str], places: bool
) -> tuple[StructType, list[Column]]:
    """The schema to read files with, and the columns of the scan made of it."""
    from pyspark.sql.types import LongType, StructField, StructType

    by_id = group.names is None
    fields: dict[str, StructField] = {}
    values: list[Column] = []
    for column in columns:
        name = unique(column) if group.names is None else group.names.get(column.column_id)
        if name is None or column.column_id in group.absent:
            older = older_value(column)
            value = F.expr(older) if older is not None else F.lit(None).cast(column.form.spark)
        else:
            fields[name] = read_field(column, name, by_id=by_id)
            value = F.col(quoted(name))
        values.append(value.alias(f"c{column.attnum}"))
    wanted = [(_ROW_ID, ROW_ID_NAME, ROW_ID)] if places else []
    if group.until is not None:
        wanted.append((_SNAPSHOT, SNAPSHOT_ID_NAME, SNAPSHOT_ID))
    for name, in_file, field_id in wanted:
        fields[in_file] = StructField(in_file, LongType(), True, {"parquet.field.id": field_id} if by_id else {})
        values.append(F.col(in_file).alias(name))
    if not fields:  # rows without columns are counted by the footers
        fields[_POSITION] = StructField(_POSITION, LongType())
    return StructType(list(fields.values())), values


def _joined(df: DataFrame, group: _Group, places: bool, by_size: bool) -> DataFrame:
    """Each row with its file's id and first row id, without deleted rows."""
    files = group.files
    keys = [_key(file, by_size) for file in files]
    known: dict[str, pa.Array] = {_KEY: pa.array(keys, pa.int64() if by_size else pa.string())}
    if places:
        known[_FILE] = pa.array([file.data_file_id for file in files], pa.int64())
        known[_START] = pa.array([file.row_id_start for file in files], pa.int64())
    if group.deleted:
        dead = [(group.deleted.get(file.data_file_id), file.record_count) for file in files]
        sets = [None if positions is None else pack(positions, rows) for positions, rows in dead]
        known[_DEAD] = pa.array(sets, pa.list_(pa.int64()))
    df = df.join(F.broadcast(arrow_frame(pa.table(known))), F.col(_TOLD_BY) == F.col(_KEY))
    if group.deleted:
        alive = f"{test(_DEAD, _POSITION)} = 0"
        df = df.filter(alive if len(group.deleted) == len(files) else f"{_DEAD} IS NULL OR {alive}")
    return df


# --- rows of the catalog ---------------------------------------------------------------------------------------------


def _inlined_rows(rows: Sequence[inlined.InlinedRow], columns: Sequence[LakeColumn], places: bool) -> DataFrame:
    forms = [column.form for column in columns]
    arrays = [storage_array(form.to_array([row.values[i] for row in rows])) for i, form in enumerate(forms)]
    names = [f"c{column.attnum}" for column in columns]
    types = [form.spark for form in forms]
    if places:
        nothing = pa.nulls(len(rows), pa.int64())
        ids = pa.array([row.row_id for row in rows], pa.int64())
        arrays.append(pa.StructArray.from_arrays([nothing, nothing, ids], ["file", "pos", "row"]))
        names.append(PLACE)
        types.append(PLACE_TYPE)
    if not names:
        return arrow_frame(pa.table({_POSITION: pa.nulls(len(rows), pa.int64())})).select()
    return arrow_frame(pa.table(arrays, names=names), types)


def storage_array(array: pa.Array) -> pa.Array:
    """The array without an extension type of Arrow (uuid), which Spark does not know."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def arrow_frame(rows: pa.Table, types: Sequence[str] | None = None) -> DataFrame:
    """Rows of this process as a DataFrame; `types` are Spark's, if they do not follow from Arrow's."""
    from pyspark.sql.types import StructField, StructType

    if types is None:
        return spark.session().createDataFrame(rows)
    fields = [StructField(name, spark_type(kind)) for name, kind in zip(rows.column_names, types, strict=True)]
    return spark.session().createDataFrame(rows, StructType(fields))


# --- paths for Spark -------------------------------------------------------------------------------------------------


def spark_path(path: str) -> str:
    """A path for Spark's readers and writers: a URI with the characters of glob patterns escaped."""
    local = local_path(path)
    if local is not None:
        return "file:" + re.sub(r"([\[\]{}*?\\])", r"\\\1", local)
    if scheme_of(path) in ("s3", "s3n"):
        path = "s3a://" + path.partition("://")[2]
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_BY_JARS = frozenset(("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss"))
_OWN_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_AT_A_TIME = 8

_copies: dict[tuple[str, Any, Any], str] = {}
_copies_lock = threading.Lock()
_folder: str | None = None


def readable(paths: Sequence[str]) -> list[str]:
    """The paths by which Spark finds the files; the last part of each is unchanged."""
    if not any(_is_out_of_reach(path) for path in paths):
        return list(paths)
    with ThreadPool(_AT_A_TIME) as threads:
        return list(threads.map(lambda path: _copy(path) if _is_out_of_reach(path) else path, paths))


def parquet_frame(columns: Sequence[tuple[str, str]], paths: Sequence[str], **options: str) -> DataFrame:
    """The rows of Parquet files; of each column its name and type. Spark counts the rows even if it reads no column."""
    from pyspark.sql.types import StructField, StructType

    fields = [StructField(name, spark_type(kind)) for name, kind in columns or (("__no_column", "BIGINT"),)]
    reader = spark.session().read.options(**options).schema(StructType(fields))
    return reader.parquet(*[spark_path(path) for path in paths])


def _is_out_of_reach(path: str) -> bool:
    return storage.scheme_of(path) in _BY_JARS and _has_no_jars()


def _has_no_jars() -> bool:
    options = spark.options()
    here = options.remote is None and (options.master or DEFAULT_MASTER).startswith("local")
    return here and "SPARK_HOME" not in os.environ and not any(name in _OWN_JARS for name, _ in options.conf)


def _copy(path: str) -> str:
    """The copy of a file. It is made once for a path, size and time: a user's file may change."""
    with storage.reading(path):
        system, inside = storage.file_system(path)
        info = system.get_file_info(inside)
        key = (path, info.size, info.mtime)
        if key not in _copies:
            copy = os.path.join(tempfile.mkdtemp(dir=_copies_folder()), path.rpartition("/")[2])
            with system.open_input_stream(inside) as source, storage.writing(copy), open(copy, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            _copies[key] = copy
    return _copies[key]


def _copies_folder() -> str:
    """The folder of the copies, which is removed at the end of the process."""
    global _folder
    with _copies_lock:
        if _folder is None:
            _folder = spark_options.make(spark_options.FILES)
            atexit.register(shutil.rmtree, _folder, ignore_errors=True)
        return _folder
