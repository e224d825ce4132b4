"""Messages and rows that a publisher's server sent, as Parquet files that it was decoded into.

Files of messages stand in the order of the messages, and so do the rows in them:

    seq bigint, op tinyint (INSERT, UPDATE, DELETE), has_old boolean,
    o{place} …      the old key or row: places that are sent of it
    n{place} …      the new row; NULL where the value was not sent, or there is no new row
    unchanged       binary, bit k of byte k / 8: place k was not sent because it did not change; absent or NULL: none

Files of rows have the columns s{place}. Values are in the form of SentColumn.type: text for what came as text.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pgrepl.replication.bulk.batch import AT, DELETE
from pgrepl.replication.sending.wire import SentRelation

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

    Numbers = npt.NDArray[Any]

_GROUPS = 4  # parts of an ordered answer, each a task


class ParquetChanges:
    """RelationChanges of the files."""

    def __init__(self, relation: SentRelation, paths: Sequence[str]) -> None:
        import numpy as np
        import pyarrow as pa

        self.relation = relation
        self._paths = list(paths)
        parts = [_read(path, ["seq", "op", "has_old"]) for path in self._paths]
        self._sizes = [part.num_rows for part in parts]
        whole = pa.concat_tables(parts)
        self.seq: Numbers = whole["seq"].to_numpy()
        self.op: Numbers = whole["op"].to_numpy().astype(np.uint8)
        self.has_old: Numbers = whole["has_old"].to_numpy()
        self.unchanged = any(self._holds_unchanged(path) for path in self._paths)

    @staticmethod
    def _holds_unchanged(path: str) -> bool:
        import pyarrow.parquet as pq

        if "unchanged" not in pq.read_schema(path).names:
            return False
        column = _read(path, ["unchanged"])["unchanged"]
        return bool(column.null_count < len(column))

    @property
    def count(self) -> int:
        return len(self.seq)

    def until(self, seq: int) -> ParquetChanges:
        part = copy.copy(self)
        end = int(self.seq.searchsorted(seq))
        part.seq, part.op, part.has_old = self.seq[:end], self.op[:end], self.has_old[:end]
        return part

    def values(self, place: int, *, old: bool = False) -> pa.Array:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from pgrepl.types.lake_arrays import plain_array
        from pgrepl.types.lake_forms import form

        column = self.relation.columns[place]
        kind = plain_array(form(column.type, column.typmod).to_array([])).type
        name = f"{'o' if old else 'n'}{place}"
        parts = []
        for path, size in zip(self._paths, self._sizes, strict=True):
            there = name in pq.read_schema(path).names
            parts.append(_read(path, [name])[name].cast(kind) if there else pa.chunked_array([pa.nulls(size, kind)]))
        chunks = [chunk for part in parts for chunk in part.chunks]
        return pa.concat_arrays(chunks or [pa.array([], kind)]).slice(0, self.count)

    def rows(self, places: Sequence[int], *, chosen: Numbers | None = None, ordered: bool = False) -> DataFrame:
        """`at` is counted from the first row of each file on: a file's rows are numbered by their position."""
        from pyspark.sql import functions as F

        begins = [sum(self._sizes[:n]) for n in range(len(self._sizes))]
        columns = [F.col(f"n{place}").alias(f"s{place}") for place in places]
        groups = _grouped(self._sizes, _GROUPS if ordered else len(self._sizes))
        frames = []
        for group in groups:
            parts = [self._of_file(self._paths[n], begins[n], places).select(AT, *columns) for n in group]
            frame = reduce(lambda all_rows, more: all_rows.unionAll(more), parts)
            frames.append(frame.coalesce(1).sortWithinPartitions(AT) if ordered else frame)
        rows = reduce(lambda all_rows, more: all_rows.unionAll(more), frames)
        wanted = self.op != DELETE if chosen is None else (self.op != DELETE) & chosen
        return rows if wanted.all() and self.count == sum(self._sizes) else _only(rows, wanted)

    def _of_file(self, path: str, begin: int, places: Sequence[int]) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructField, StructType

        from pgrepl.lake import spark
        from pgrepl.lake.scan import spark_path
        from pgrepl.lake.spark_types import spark_type
        from pgrepl.types.lake_forms import form

        kinds = [(self.relation.columns[place].type, self.relation.columns[place].typmod) for place in places]
        fields = [
            StructField(f"n{place}", spark_type(form(*kind).spark)) for place, kind in zip(places, kinds, strict=True)
        ]
        rows = spark.session().read.schema(StructType(fields)).parquet(spark_path(path))
        return rows.select((F.col("_metadata.row_index") + begin).alias(AT), *[field.name for field in fields])


class ParquetRows:
    """BulkRows of the files."""

    def __init__(self, relation: SentRelation, paths: Sequence[str]) -> None:
        self._relation = relation
        self._paths = list(paths)

    @property
    def estimate(self) -> int:
        import pyarrow.parquet as pq

        return sum(pq.read_metadata(path).num_rows for path in self._paths)

    def frame(self) -> DataFrame:
        from pyspark.sql.types import StructField, StructType

        from pgrepl.lake import spark
        from pgrepl.lake.scan import spark_path
        from pgrepl.lake.spark_types import spark_type
        from pgrepl.types.lake_forms import form

        spark_session = spark.session()
        fields = [
            StructField(f"s{place}", spark_type(form(column.type, column.typmod).spark))
            for place, column in enumerate(self._relation.columns)
        ]
        if not self._paths:
            return spark_session.createDataFrame([], StructType(fields))
        return spark_session.read.schema(StructType(fields)).parquet(*[spark_path(path) for path in self._paths])


def _read(path: str, names: Sequence[str]) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=list(names))


def _grouped(sizes: Sequence[int], groups: int) -> list[list[int]]:
    """Numbers of files, one after the other, in groups of about the same size."""
    target = -(-sum(sizes) // groups)
    found: list[list[int]] = [[]]
    count = 0
    for n, size in enumerate(sizes):
        if found[-1] and count >= target:
            found.append([])
            count = 0
        found[-1].append(n)
        count += size
    return found


def _only(rows: DataFrame, wanted: Numbers) -> DataFrame:
    """The rows whose number is wanted: a bit for each is sent to all."""
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import functions as F

    from pgrepl.lake import bitmaps
    from pgrepl.lake.scan import arrow_frame

    bits = bitmaps.pack(np.flatnonzero(wanted), max(len(wanted), 1))
    known = arrow_frame(pa.table({"__wanted": pa.array([bits], pa.list_(pa.int64()))}))
    joined = rows.filter(F.col(AT) < len(wanted)).join(F.broadcast(known))
    return joined.filter(f"{bitmaps.test('__wanted', AT)} = 1").select(*rows.columns)
