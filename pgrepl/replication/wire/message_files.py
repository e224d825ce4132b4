"""Messages of one relation as columns, kept in files, so that a batch may be larger than memory.

Messages come in portions, which are written to Arrow files of a bounded number of messages each. A local file is mapped
into memory when it is read: a batch of any size takes memory only for what is read of it. A file has the messages'
heads (sequence number, operation, whether there is an old row), the new rows and the old rows. Files that Spark's
executors read are in the data folder, which all machines reach.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from pgrepl.engine import spark_options
from pgrepl.engine.result_spark import result_folder
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.lake import storage
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE
from pgrepl.replication.wire.messages import MESSAGE_BYTES, SentColumn, SentRelation
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Numbers = npt.NDArray[Any]

_TEXTS = frozenset((oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.JSON, oids.JSONB))
_CAST = frozenset(
    (oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8, oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)
)
_COPIED = 1 << 20  # bytes at a time
_HEADS, _NEW, _OLD = "heads", "new", "old"


def is_typed(typoid: int, typmod: int) -> bool:
    """Can Arrow convert text to this type, so that each value is either exact or refused?"""
    return typoid in _TEXTS or typoid in _CAST or typoid in (oids.BOOL, oids.NUMERIC)


def typed_array(column: SentColumn, texts: pa.Array) -> pa.Array:
    """The texts in the column's type, which values in binary form have. pa.ArrowInvalid: Arrow lacks such a value
    (infinity, a year before Christ)."""
    kind = form(column.type, column.typmod).arrow()
    if texts.type == kind:
        return texts
    return pc.equal(texts, "t") if column.type == oids.BOOL else pc.cast(texts, kind)


class MessageFolder:
    """The folders of a batch's files: one in this machine's temporary folder for this process, and one that Spark's
    machines reach for files that Spark reads."""

    def __init__(self, data_path: str) -> None:
        self._data_path = data_path
        self._stack = ExitStack()
        self._own: str | None = None
        self._shared: str | None = None

    def path(self, relation: SentRelation, *, shared: bool = False) -> str:
        """The prefix of the names of a relation's files. `shared`: Spark's tasks read them, too."""
        if shared:
            return f"{self.shared()}{relation.relid}"
        if self._own is None:
            self._own = spark_options.make(spark_options.CHANGES)
            self._stack.callback(shutil.rmtree, self._own, ignore_errors=True)
        return f"{self._own}/{relation.relid}"

    def shared(self) -> str:
        """The folder, with a slash at its end, that Spark's machines reach."""
        if self._shared is None:
            self._shared = self._stack.enter_context(result_folder(self._data_path))
        return self._shared

    def close(self) -> None:
        """Remove the files."""
        self._stack.close()


def most_held(session: Session, width: int) -> int:
    """The number of messages that are held in memory together, if their rows have `width` bytes."""
    room = int(session.settings.value("logical_decoding_work_mem")) << 10
    return max(1, room // (MESSAGE_BYTES + width))


@frozen
class Decoded:
    """Some messages of one relation. `new`: the columns of the new rows, which INSERT and UPDATE have; `old`: the key
    columns of the old rows, by place; `unchanged`: by place, which of the new rows were sent without the value
    (messages.UNCHANGED)."""

    op: Numbers
    has_old: Numbers
    new: Sequence[pa.Array]
    old: Mapping[int, pa.Array]
    unchanged: Mapping[int, Numbers]


class MessageWriter:
    """Writes the messages of one relation to files, in portions."""

    def __init__(self, relation: SentRelation, path: str, most: int) -> None:
        """`most`: the number of messages after which a new file is begun."""
        self.relation = relation
        self._path = path
        self._most = most
        self._files: list[MessageFile] = []
        self._open: _OpenFile | None = None

    def write(self, seq: Numbers, changes: Decoded) -> None:
        if self._open is None:
            self._open = _OpenFile(self.relation, f"{self._path}.{len(self._files)}", changes)
        self._open.write(seq, changes)
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
            with suppress(PgError):  # on a full disk the end of the file cannot be written either
                file.close()


class _OpenFile:
    def __init__(self, relation: SentRelation, path: str, first: Decoded) -> None:
        """`first`: the first portion; its Arrow types are those of the file."""
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
        self._unchanged: dict[int, list[Numbers]] = {}  # by place, the numbers of new rows without the value

    def write(self, seq: Numbers, changes: Decoded) -> None:
        heads = [pa.array(seq), pa.array(changes.op.astype(np.uint8, copy=False)), pa.array(changes.has_old)]
        self._put(_HEADS, heads)
        news, olds = np.count_nonzero(changes.op != DELETE), np.count_nonzero(changes.has_old)
        if news and len(self._schemas[_NEW]):
            self._put(_NEW, changes.new)
            self._size += sum(array.nbytes for array in changes.new)
        if olds and len(self._schemas[_OLD]):
            self._put(_OLD, [changes.old[int(field.name)] for field in self._schemas[_OLD]])
        for place, flags in changes.unchanged.items():
            self._unchanged.setdefault(place, []).append(np.flatnonzero(flags) + self._counts[_NEW])
        self._counts[_NEW] += int(news)
        self._counts[_OLD] += int(olds)
        self.count += len(seq)
        self._ops.update(op for op in (INSERT, UPDATE, DELETE) if op not in self._ops and (changes.op == op).any())

    def _put(self, name: str, arrays: Sequence[pa.Array]) -> None:
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
    """The heads of a file's messages, as columns; `new` and `old` are the numbers of their rows in the file."""

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
    ops: frozenset[int]  # the operations of its messages
    kinds: tuple[Any, ...]  # the Arrow types of the columns
    unchanged: tuple[int, ...]  # the places where some new rows lack the value

    def heads(self, count: int | None = None) -> Heads:
        """The heads of the first `count` messages."""
        table = self.table(_HEADS).slice(0, self.count if count is None else count)
        seq, op, has_old = (plain_array(column).to_numpy(zero_copy_only=False) for column in table.columns)
        new = np.cumsum(op != DELETE, dtype=np.int64) - 1
        return Heads(seq, op, has_old, new, np.cumsum(has_old, dtype=np.int64) - 1)

    def seq(self, count: int) -> Numbers:
        """The sequence numbers of the first `count` messages."""
        seqs: Numbers = plain_array(self.table(_HEADS).column("seq").slice(0, count)).to_numpy()
        return seqs

    def rows(self, *, old: bool) -> pa.Table:
        """The new or the old rows, with columns named by place; a local file is mapped into memory."""
        return self.table(_OLD if old else _NEW)

    def copied(self, path: str) -> MessageFile:
        """A copy in files whose names begin with `path`."""
        for name in (_HEADS, _NEW, _OLD, *(f"unchanged{place}" for place in self.unchanged)):
            _copy(f"{self.path}.{name}", f"{path}.{name}")
        return replace(self, path=path)

    def rows_unchanged(self, place: int) -> Numbers:
        """The numbers of the new rows that lack the value at this place."""
        return read_numbers(_unchanged(self.path, place), np.int64)

    def table(self, name: str) -> pa.Table:
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
    """`count` numbers of a file, or all, from number `first` on."""
    size = np.dtype(kind).itemsize
    with storage.reading(path), storage.open_input(path) as source:
        source.seek(first * size)
        return np.frombuffer(source.read() if count is None else source.read(count * size), kind)
