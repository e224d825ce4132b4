"""Messages of one relation as columns, kept in files: what a batch larger than memory is made of.

They come in portions, which go into Arrow files of a bounded number of messages each. A file of this machine is mapped
into memory when it is asked for: a batch costs memory for what is looked at, however large it is. Beside the messages'
heads (sequence number, operation, whether there is an old row) a file has the new rows and the old ones, one behind the
other. Where Spark's executors work on them the files stand beside the data, which all machines reach.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake import spill_folders, storage
from pgrepl.lake.spark_result import result_folder
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE
from pgrepl.replication.wire.messages import MESSAGE_BYTES, SentColumn, SentRelation
from pgrepl.types import oids
from pgrepl.types.lake_arrays import plain_array
from pgrepl.types.lake_forms import form

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.catalog.session import Session

Numbers = npt.NDArray[Any]

_TEXTS = frozenset((oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.JSON, oids.JSONB))
_CAST = frozenset(
    (oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8, oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)
)
_COPIED = 1 << 20  # bytes at a time
_HEADS, _NEW, _OLD = "heads", "new", "old"


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


class MessageFolder:
    """Where the files of a batch are: those of this process in the machine's temporary folder, those that Spark is to
    read where its machines find them."""

    def __init__(self, data_path: str) -> None:
        self._data_path = data_path
        self._stack = ExitStack()
        self._own: str | None = None
        self._shared: str | None = None

    def path(self, relation: SentRelation, *, shared: bool = False) -> str:
        """With which the names of the relation's files begin. `shared`: Spark's tasks read them, too."""
        if shared:
            return f"{self._spark_folder()}{relation.relid}"
        if self._own is None:
            self._own = spill_folders.make(spill_folders.CHANGES)
            self._stack.callback(shutil.rmtree, self._own, ignore_errors=True)
        return f"{self._own}/{relation.relid}"

    def new_path(self) -> str:
        """Names a file that Spark can read."""
        return self._spark_folder() + storage.new_name()

    def _spark_folder(self) -> str:
        if self._shared is None:
            self._shared = self._stack.enter_context(result_folder(self._data_path))
        return self._shared

    def close(self) -> None:
        """The files are needed no more."""
        self._stack.close()


def most_held(session: Session, width: int) -> int:
    """How many messages with rows of so many bytes are held in memory together."""
    room = int(session.settings.value("logical_decoding_work_mem")) << 10
    return max(1, room // (MESSAGE_BYTES + width))


@frozen
class Decoded:
    """Some messages of one relation. `new` are the rows of those that are no DELETE; `old` those of the ones that have
    an old row, by place, of which only the places of the key count; `unchanged`, by place, which of the new rows were
    sent without the value (see wire.UNCHANGED)."""

    op: Numbers
    has_old: Numbers
    new: Sequence[pa.Array]
    old: Mapping[int, pa.Array]
    unchanged: Mapping[int, Numbers]


class MessageWriter:
    """Takes the messages of one relation in portions."""

    def __init__(self, relation: SentRelation, path: str, most: int) -> None:
        """`most`: messages from which on another file is begun."""
        self.relation = relation
        self._path = path
        self._most = most
        self._files: list[MessageFile] = []
        self._open: _OpenFile | None = None

    def write(self, seq: Numbers, made: Decoded) -> None:
        if self._open is None:
            self._open = _OpenFile(self.relation, f"{self._path}.{len(self._files)}", made)
        self._open.write(seq, made)
        if self._open.count >= self._most:
            self._roll()

    def _roll(self) -> None:
        file, self._open = self._open, None
        if file is not None:
            self._files.append(file.close())

    def close(self) -> tuple[MessageFile, ...]:
        self._roll()
        return tuple(self._files)

    def abandon(self) -> None:
        file, self._open = self._open, None
        if file is not None:
            with suppress(PgError):  # a full disk is full for the end of the file, too
                file.close()


class _OpenFile:
    def __init__(self, relation: SentRelation, path: str, first: Decoded) -> None:
        """`first` comes first: values are kept in the types that they have there."""
        import pyarrow as pa

        self.count = 0
        self._path = path
        self._kinds = tuple([array.type for array in first.new])
        olds = [str(place) for place, column in enumerate(relation.columns) if column.is_key]
        self._schemas = {
            _HEADS: pa.schema([("seq", pa.int64()), ("op", pa.uint8()), ("has_old", pa.bool_())]),
            _NEW: pa.schema([(str(place), kind) for place, kind in enumerate(self._kinds)]),
            _OLD: pa.schema([(place, self._kinds[int(place)]) for place in olds]),
        }
        self._sinks, self._writers = {}, {}
        for name, schema in self._schemas.items():
            with storage.writing(f"{path}.{name}"):
                self._sinks[name] = storage.open_output(f"{path}.{name}")
                self._writers[name] = pa.ipc.new_file(self._sinks[name], schema)
        self._counts = {_NEW: 0, _OLD: 0}
        self._size = 0
        self._ops: set[int] = set()
        self._unchanged: dict[int, list[Numbers]] = {}  # by place the numbers of new rows

    def write(self, seq: Numbers, made: Decoded) -> None:
        import pyarrow as pa

        heads = [pa.array(seq), pa.array(made.op.astype(np.uint8, copy=False)), pa.array(made.has_old)]
        self._put(_HEADS, heads)
        news, olds = np.count_nonzero(made.op != DELETE), np.count_nonzero(made.has_old)
        if news and len(self._schemas[_NEW]):
            self._put(_NEW, made.new)
            self._size += sum(array.nbytes for array in made.new)
        if olds and len(self._schemas[_OLD]):
            self._put(_OLD, [made.old[int(field.name)] for field in self._schemas[_OLD]])
        for place, flags in made.unchanged.items():
            self._unchanged.setdefault(place, []).append(np.flatnonzero(flags) + self._counts[_NEW])
        self._counts[_NEW] += int(news)
        self._counts[_OLD] += int(olds)
        self.count += len(seq)
        self._ops.update(op for op in (INSERT, UPDATE, DELETE) if op not in self._ops and (made.op == op).any())

    def _put(self, name: str, arrays: Sequence[pa.Array]) -> None:
        import pyarrow as pa

        schema = self._schemas[name]
        arrays = [a if a.type == f.type else plain_array(a).cast(f.type) for a, f in zip(arrays, schema, strict=True)]
        with storage.writing(f"{self._path}.{name}"):
            self._writers[name].write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))

    def close(self) -> MessageFile:
        for name, writer in self._writers.items():
            with storage.writing(f"{self._path}.{name}"):
                writer.close()
                self._sinks[name].close()
        for place, parts in self._unchanged.items():
            write_numbers(_unchanged(self._path, place), np.concatenate(parts))
        unchanged = tuple(sorted(self._unchanged))
        news, olds = self._counts[_NEW], self._counts[_OLD]
        return MessageFile(self._path, self.count, news, olds, self._size, frozenset(self._ops), self._kinds, unchanged)


@frozen
class Heads:
    """Of all messages of a file; `new` and `old` are the numbers of their rows in it."""

    seq: Numbers
    op: Numbers
    has_old: Numbers
    new: Numbers
    old: Numbers


@frozen
class MessageFile:
    """Some messages of one relation, in order."""

    path: str
    count: int
    news: int
    olds: int
    size: int  # of the new rows, in bytes
    ops: frozenset[int]  # that its messages have
    kinds: tuple[Any, ...]  # the Arrow types of the columns
    unchanged: tuple[int, ...]  # places of which some new rows are without the value

    def heads(self, count: int | None = None) -> Heads:
        """Of so many of the first messages."""
        table = self.table(_HEADS).slice(0, self.count if count is None else count)
        seq, op, has_old = (plain_array(column).to_numpy(zero_copy_only=False) for column in table.columns)
        new = np.cumsum(op != DELETE, dtype=np.int64) - 1
        return Heads(seq, op, has_old, new, np.cumsum(has_old, dtype=np.int64) - 1)

    def seq(self, count: int) -> Numbers:
        """The sequence numbers of so many of the first messages."""
        found: Numbers = plain_array(self.table(_HEADS).column("seq").slice(0, count)).to_numpy()
        return found

    def rows(self, *, old: bool) -> pa.Table:
        """By place; only mapped into memory."""
        return self.table(_OLD if old else _NEW)

    def copied(self, path: str) -> MessageFile:
        """To files whose names begin so."""
        for name in (_HEADS, _NEW, _OLD, *(f"unchanged{place}" for place in self.unchanged)):
            _copy(f"{self.path}.{name}", f"{path}.{name}")
        return replace(self, path=path)

    def rows_unchanged(self, place: int) -> Numbers:
        """The numbers of the new rows without the value."""
        return read_numbers(_unchanged(self.path, place), np.int64)

    def table(self, name: str) -> pa.Table:
        import pyarrow as pa

        path = f"{self.path}.{name}"
        here = storage.local_path(path)
        with storage.reading(path), storage.open_input(path) if here is None else pa.memory_map(here) as source:
            return pa.ipc.open_file(source).read_all()


def _copy(path: str, to: str) -> None:
    with storage.writing(to), storage.open_output(to) as output, storage.reading(path), storage.open_input(path) as own:
        shutil.copyfileobj(own, output, _COPIED)


def _unchanged(path: str, place: int) -> str:
    return f"{path}.unchanged{place}"


def write_numbers(path: str, numbers: Numbers) -> None:
    with storage.writing(path), storage.open_output(path) as output:
        output.write(numbers.tobytes())


def read_numbers(path: str, kind: npt.DTypeLike, first: int = 0, count: int | None = None) -> Numbers:
    """Those behind the first ones, so many."""
    size = np.dtype(kind).itemsize
    with storage.reading(path), storage.open_input(path) as source:
        source.seek(first * size)
        return np.frombuffer(source.read() if count is None else source.read(count * size), kind)
