"""Messages of one relation as columns, kept in a file of this machine: what a batch of a server's changes is made of.

Decoded portions go one after the other into an Arrow file, which is mapped into memory when it is asked for: a batch
costs memory for its numbers only, however large its rows are. What Spark is to read is written for it as Parquet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pgrepl.replication.wire.batch import AT, DELETE, FIRST_STORED, Kept, RelationChanges
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.types import oids
from pgrepl.types.lake_forms import form

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Numbers = npt.NDArray[Any]

_TEXTS = frozenset((oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.JSON, oids.JSONB))
_CAST = frozenset(
    (oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8, oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)
)
_ROWS_IN_FILE = 250_000
_BYTES_IN_FILE = 1 << 29  # about: Arrow holds texts of 2 GiB together


def is_typed(typoid: int, typmod: int) -> bool:
    """Does Arrow make values of this type from their text, exactly or not at all?"""
    return typoid in _TEXTS or typoid in _CAST or typoid in (oids.BOOL, oids.NUMERIC)


def typed_array(column: SentColumn, texts: pa.Array) -> pa.Array:
    """pa.ArrowInvalid: a value that Arrow has none like (infinity, a year before Christ)."""
    import pyarrow.compute as pc

    if column.type == oids.BOOL:
        return pc.equal(texts, "t")
    kind = form(column.type, column.typmod).arrow()
    return texts if texts.type == kind else pc.cast(texts, kind)


class MessageWriter:
    """Takes the messages of one relation in portions."""

    def __init__(self, relation: SentRelation, path: str) -> None:
        import pyarrow as pa

        self.relation = relation
        self.path = path
        self._numbers: list[tuple[Numbers, Numbers, Numbers]] = []
        self._unchanged: dict[int, list[tuple[int, Numbers]]] = {}  # by place, where portions with such values begin
        self._count = 0
        fields = []
        for place, column in enumerate(relation.columns):
            kind = form(column.type, column.typmod).arrow()
            if column.is_key:
                fields.append(pa.field(f"o{place}", kind))
            fields.append(pa.field(f"n{place}", kind))
        self._schema = pa.schema(fields)
        self._sink = pa.OSFile(path, "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)

    def write(self, seq: Numbers, made: dict[str, pa.Array]) -> None:
        """The columns that pgoutput_columns.changes makes."""
        import pyarrow as pa

        arrays = []
        for field in self._schema:
            column = self.relation.columns[int(field.name[1:])]
            texts = made.get(field.name)
            arrays.append(pa.nulls(len(seq), field.type) if texts is None else typed_array(column, texts))
        for place in range(len(self.relation.columns)):
            if f"u{place}" in made:
                flags = made[f"u{place}"].to_numpy(zero_copy_only=False)
                self._unchanged.setdefault(place, []).append((self._count, flags))
        self._count += len(seq)
        op = made["op"].to_numpy().astype(np.uint8)
        self._numbers.append((seq, op, made["has_old"].to_numpy(zero_copy_only=False)))
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def close(self, new_path: Callable[[], str]) -> MessageFile:
        self._writer.close()
        self._sink.close()
        seq, op, has_old = (np.concatenate(parts) for parts in zip(*self._numbers, strict=True))
        unchanged = {}
        for place, parts in self._unchanged.items():
            unchanged[place] = np.zeros(len(seq), np.bool_)
            for start, flags in parts:
                unchanged[place][start : start + len(flags)] = flags
        return MessageFile(self.relation, self.path, seq, op, has_old, unchanged, new_path)

    def abandon(self) -> None:
        if not self._sink.closed:
            self._writer.close()
            self._sink.close()


class MessageFile:
    """All messages of one relation in a batch (RelationChanges)."""

    def __init__(
        self,
        relation: SentRelation,
        path: str,
        seq: Numbers,
        op: Numbers,
        has_old: Numbers,
        unchanged: Mapping[int, Numbers],
        new_path: Callable[[], str],
        kept: Mapping[int, Kept] | None = None,
    ) -> None:
        """`new_path` names a file that Spark can read."""
        self.relation = relation
        self.seq, self.op, self.has_old = seq, op, has_old
        self.unchanged = unchanged
        self._path = path
        self._new_path = new_path
        self._kept = kept or {}

    @property
    def count(self) -> int:
        return len(self.seq)

    def until(self, seq: int) -> RelationChanges:
        end = int(np.searchsorted(self.seq, seq))
        part = self.seq[:end], self.op[:end], self.has_old[:end]
        unchanged = {place: flags[:end] for place, flags in self.unchanged.items() if flags[:end].any()}
        return MessageFile(self.relation, self._path, *part, unchanged, self._new_path)

    def with_kept(self, kept: Mapping[int, Kept]) -> RelationChanges:
        part = self.seq, self.op, self.has_old
        return MessageFile(self.relation, self._path, *part, {}, self._new_path, kept)

    def pick(self, places: Sequence[int], messages: Numbers, *, old: bool = False) -> list[pa.Array]:
        if old or not self._kept:
            return self._sent(places, messages, old=old)
        as_sent = iter(self._sent([place for place in places if place not in self._kept], messages, old=False))
        return [self._with(place, messages) if place in self._kept else next(as_sent) for place in places]

    def _with(self, place: int, messages: Numbers) -> pa.Array:
        """Values of a place, some of which come from elsewhere."""
        import pyarrow as pa

        kept = self._kept[place]
        source = kept.source[messages]
        stored = np.flatnonzero(source < 0)
        (found,) = self._sent([place], np.where(source < 0, messages, source), old=False)
        if not len(stored):
            return found
        at = np.arange(len(messages))
        at[stored] = len(messages) + FIRST_STORED - source[stored]
        return pa.concat_arrays([found, kept.stored]).take(pa.array(at))

    def _sent(self, places: Sequence[int], messages: Numbers, *, old: bool) -> list[pa.Array]:
        import pyarrow as pa

        if not len(messages):
            return [pa.array([], self._type(place)) for place in places]
        first, last = int(messages.min()), int(messages.max())
        table = self._table().slice(first, last + 1 - first)
        numbers = pa.array(messages - first)
        one_piece = len(messages) == len(table) and bool((messages[1:] > messages[:-1]).all())
        found = []
        for place in places:
            if old and not self.relation.columns[place].is_key:
                found.append(pa.nulls(len(messages), self._type(place)))
                continue
            column = table.column(f"{'o' if old else 'n'}{place}").combine_chunks()
            found.append(column if one_piece else column.take(numbers))
        return found

    def prepare(self, places: Sequence[int], most: int) -> None:
        """They stand in a file that is mapped into memory."""

    def fits(self, places: Sequence[int], most: int) -> bool:
        table = self._table()
        size: int = sum(table.column(f"n{place}").nbytes for place in places)
        return size + sum(self._kept[place].size for place in places if place in self._kept) <= most

    def _type(self, place: int) -> pa.DataType:
        column = self.relation.columns[place]
        kind: pa.DataType = form(column.type, column.typmod).arrow()
        return kind

    def _table(self) -> pa.Table:
        import pyarrow as pa

        with pa.memory_map(self._path) as source:
            return pa.ipc.open_file(source).read_all().slice(0, self.count)

    def rows(self, places: Sequence[int], *, chosen: Numbers | None = None, ordered: bool = False) -> DataFrame:
        from pyspark.sql.types import LongType, StructField, StructType

        from pgrepl.lake import spark
        from pgrepl.lake.scan import spark_path
        from pgrepl.lake.spark_types import spark_type

        wanted = self.op != DELETE if chosen is None else (self.op != DELETE) & chosen
        fields = [StructField(AT, LongType())]
        for place in places:
            column = self.relation.columns[place]
            fields.append(StructField(f"s{place}", spark_type(form(column.type, column.typmod).spark)))
        paths = self._write_rows(places, np.flatnonzero(wanted))
        frame = spark.session().read.schema(StructType(fields)).parquet(*[spark_path(path) for path in paths])
        return frame.orderBy(AT) if ordered else frame

    def _write_rows(self, places: Sequence[int], at: Numbers) -> list[str]:
        """Parquet files with these messages, as many as there are processors to read them."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from pgrepl.lake import storage
        from pgrepl.types.lake_arrays import plain_array

        table = self._table()
        size = sum(table.column(f"n{place}").nbytes for place in places) + sum(k.size for k in self._kept.values())
        each = min(_ROWS_IN_FILE, -(-len(at) // (os.cpu_count() or 1)), _BYTES_IN_FILE * self.count // max(1, size))
        each = max(1, each)
        paths = []
        for start in range(0, max(1, len(at)), each):
            part = at[start : start + each]
            sent = table.select([f"n{place}" for place in places if place not in self._kept]).take(pa.array(part))
            columns = [
                self._with(place, part) if place in self._kept else plain_array(sent.column(f"n{place}"))
                for place in places
            ]
            names = [AT, *(f"s{place}" for place in places)]
            rows = pa.Table.from_arrays([pa.array(part), *columns], names=names)
            paths.append(self._new_path())
            with storage.writing(paths[-1]), storage.open_output(paths[-1]) as output:
                pq.write_table(rows, output, store_schema=False, use_dictionary=False, compression="snappy")
        return paths
