r"""Delta's and DuckLake's change feeds, and DuckDB's text of lists and blobs.

    >>> list_text("[1, NULL, 'it\\'s, here', a b]", False)
    '{1,NULL,"it\'s, here","a b"}'
    >>> blob_text("\\x00ab\\xFF")
    '\\x006162ff'

An update is two rows, before and after; a version is a transaction. Within it a feed has no order: deletes come
before updates, and those before inserts.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.replication.formats.event import BadRecord, ColumnTypes, EventBlock, RecordPlace, TableEvents
from pgrepl.replication.formats.json_text import INVALID, array_text, decompressed
from pgrepl.replication.formats.plain import coded, commit_times, positions
from pgrepl.replication.formats.rows import CsvOptions, RowBatch, kind_of, row_batches, taken, with_columns, without_bad
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE
from pgrepl.types import oids
from pgrepl.types.arrays import read_array, write_array
from pgrepl.types.builtin import element_type

if TYPE_CHECKING:
    import numpy.typing as npt

_WORD = re.compile(r"[^,\[\]]*")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BYTE = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_Convert = Callable[[str], str]


class _Unfit(ValueError):
    """The text is no list."""


def converted(batch: RowBatch, kind: str, types: Mapping[str, tuple[int, int]]) -> RowBatch:
    """The batch of a file of this kind, its lists and blobs in PostgreSQL's text. What is none is left for the type's
    input function, which says so."""
    columns = {}
    for name, array in batch.columns.items():
        convert = _of_type(kind, types.get(name, (0, -1))[0])
        if convert is not None:
            texts = [None if text is None else _or_as_it_is(convert, text) for text in array.to_pylist()]
            columns[name] = pa.array(texts, pa.string())
    return replace(batch, columns={**batch.columns, **columns}) if columns else batch


def _of_type(kind: str, typoid: int) -> _Convert | None:
    if typoid == oids.BYTEA:
        return blob_text
    element = element_type(typoid)
    has_blobs = element == oids.BYTEA
    if kind == "csv" and element:
        return lambda text: list_text(text, has_blobs)
    return _blobs_of_array if has_blobs else None  # JSON's lists are arrays already


def _or_as_it_is(convert: _Convert, text: str) -> str:
    try:
        return convert(text)
    except (_Unfit, PgError):
        return text


def blob_text(text: str) -> str:
    """Bytes that are no printable ASCII are `\\x` and two digits; all others stand for themselves."""
    return "\\x" + _BYTE.sub(lambda match: bytes([int(match[1], 16)]), text.encode()).hex()


def _blobs_of_array(text: str) -> str:
    return write_array(read_array(text, oids.TEXT, blob_text), str)


def list_text(text: str, has_blobs: bool) -> str:
    """A list as an array's text; a list in it is a further dimension."""
    items, end = _items(text, 0, blob_text if has_blobs else str)
    if end != len(text):
        raise _Unfit
    return array_text(items)


def _items(text: str, at: int, convert: _Convert) -> tuple[list[Any], int]:
    """The items of the list that begins here, and the offset behind it."""
    if text[at : at + 1] != "[":
        raise _Unfit
    at += 1
    items: list[Any] = []
    if text[at : at + 1] == "]":
        return items, at + 1
    while True:
        item, at = _item(text, at, convert)
        items.append(item)
        if text[at : at + 1] == "]":
            return items, at + 1
        if text[at : at + 2] != ", ":
            raise _Unfit
        at += 2


def _item(text: str, at: int, convert: _Convert) -> tuple[Any, int]:
    if text[at : at + 1] == "[":
        return _items(text, at, convert)
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return convert(_ESCAPED.sub(r"\1", quoted[1])), quoted.end()
    word = _WORD.match(text, at)
    if word is None or not word[0]:
        raise _Unfit
    return None if word[0] == "NULL" else convert(word[0]), word.end()


# --- feeds ------------------------------------------------------------------------------------------------------------


_DELETE, _BEFORE, _AFTER, _INSERT = range(4)
_KINDS = {"insert": _INSERT, "delete": _DELETE, "update_preimage": _BEFORE, "update_postimage": _AFTER}
_MAX_WAITING = 1 << 20  # rows of updates whose other half has not come yet


@frozen
class Feed:
    """The names of a feed's own columns."""

    kind: str
    version: str
    row: str | None  # the row's id
    texts: Callable[[RowBatch, str, Mapping[str, tuple[int, int]]], RowBatch]  # as input functions read them
    others: tuple[str, ...] = ()

    def own(self) -> set[str]:
        return {self.kind, self.version, *self.others, *([self.row] if self.row else [])}


def _decoded(batch: RowBatch, kind: str, types: Mapping[str, tuple[int, int]]) -> RowBatch:
    """Spark writes binary values to JSON in base64."""
    if kind != "jsonl":
        return batch
    encoded = [name for name in batch.columns if types.get(name, (0, -1))[0] == oids.BYTEA]
    return replace(batch, columns={**batch.columns, **{name: _bytea(batch.columns[name]) for name in encoded}})


def _bytea(texts: pa.Array) -> pa.Array:
    """Texts for bytea's input function, from base64; a text that is no base64 stays as it is."""

    def one(text: str | None) -> str | None:
        try:
            return None if text is None else "\\x" + base64.b64decode(text, validate=True).hex()
        except ValueError:
            return text

    return pa.array([one(text) for text in texts.to_pylist()], pa.string())


DELTA = Feed("_change_type", "_commit_version", None, _decoded, ("_commit_timestamp",))
DUCKLAKE = Feed("change_type", "snapshot_id", "rowid", converted)


def feed_blocks(
    feed: Feed, csv: CsvOptions, types: ColumnTypes | None, file: BinaryIO, name: str
) -> Iterator[EventBlock | BadRecord]:
    declared = (types and types(None, None)) or {}
    pairing = _Pairing(feed)
    opened = decompressed(file, name)
    kind = kind_of(opened)
    for batch in row_batches(opened, name, kind, None, csv, declared):
        if isinstance(batch, BadRecord):
            yield batch
        else:
            yield from pairing.events(batch if kind == "parquet" else feed.texts(batch, kind, declared))
    yield from pairing.end()


class _Pairing:
    """Puts the two rows of an update together."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._waiting: RowBatch | None = None  # rows whose other half has not come yet

    def events(self, batch: RowBatch) -> Iterator[EventBlock | BadRecord]:
        feed = self._feed
        batch = with_columns(batch, sorted(feed.own() - set(feed.others)))
        if self._waiting is not None:
            batch, self._waiting = _joined(self._waiting, batch), None
        kinds, bad = coded(batch, feed.kind, lambda word: _KINDS.get(word, -1))
        versions, more = positions(batch, feed.version)
        bad = sorted(bad + more, key=lambda record: record.place.number)
        if bad:
            for part in without_bad(batch, bad):
                yield from [part] if isinstance(part, BadRecord) else self.events(part)
            return
        yield from self._paired(batch, kinds, versions)

    def _paired(
        self, batch: RowBatch, kinds: npt.NDArray[np.int64], versions: npt.NDArray[np.int64]
    ) -> Iterator[EventBlock | BadRecord]:
        single = np.flatnonzero((kinds == _DELETE) | (kinds == _INSERT))
        before, after = self._pairs(batch, kinds, versions)
        half = np.ones(batch.count, bool)
        half[single] = half[before] = half[after] = False
        waiting = np.flatnonzero(half)
        if len(waiting):
            self._wait(batch, waiting)
        main = np.concatenate([single, after])  # the row that stands for the event
        old = np.concatenate([single, before])
        if not len(main):
            return
        order = np.lexsort((main, kinds[main], versions[main]))
        yield self._block(batch, kinds, versions, main[order], old[order])

    def _pairs(
        self, batch: RowBatch, kinds: npt.NDArray[np.int64], versions: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The places of the rows before and the rows after updates."""
        images = np.flatnonzero((kinds == _BEFORE) | (kinds == _AFTER))
        if self._feed.row is not None:
            ids = batch.columns[self._feed.row].cast(pa.int64()).to_numpy(zero_copy_only=False)
            images = images[np.lexsort((kinds[images], ids[images], versions[images]))]
            same = (versions[images[:-1]] == versions[images[1:]]) & (ids[images[:-1]] == ids[images[1:]])
            at = np.flatnonzero(same & (kinds[images[:-1]] != kinds[images[1:]]))
            return images[at], images[at + 1]
        # neighbours, from the first one on: a row that is paired cannot be paired again
        fits = (kinds[images[:-1]] != kinds[images[1:]]) & (versions[images[:-1]] == versions[images[1:]])
        run = np.arange(len(fits)) - np.maximum.accumulate(np.where(~fits, np.arange(len(fits)) + 1, 0))
        at = np.flatnonzero(fits & (run % 2 == 0)) if len(fits) else np.zeros(0, np.int64)
        first, second = images[at], images[at + 1]
        is_before = kinds[first] == _BEFORE
        return np.where(is_before, first, second), np.where(is_before, second, first)

    def _wait(self, batch: RowBatch, waiting: npt.NDArray[np.int64]) -> None:
        first = RecordPlace(batch.file, int(batch.number[waiting[0]]))
        if len(waiting) > (_MAX_WAITING if self._feed.row else 1):
            raise self._alone(first)
        self._waiting = taken(batch, waiting)

    def _alone(self, place: RecordPlace) -> PgError:
        feed = self._feed
        order = f"{feed.version}, {feed.row}" if feed.row else f"{feed.version}, the key, {feed.kind}"
        return PgError(
            INVALID, f"could not read {place.file}, record {place.number}: an update has only one of its two rows",
            hint=f"Write the feed in the order of {order}.",
        )  # fmt: skip

    def end(self) -> Iterator[BadRecord]:
        if self._waiting is not None:
            for number in self._waiting.number.tolist():
                yield BadRecord(
                    INVALID, "an update has only one of its two rows", RecordPlace(self._waiting.file, number)
                )

    def _block(
        self,
        batch: RowBatch,
        kinds: npt.NDArray[np.int64],
        versions: npt.NDArray[np.int64],
        main: npt.NDArray[np.int64],
        old: npt.NDArray[np.int64],
    ) -> EventBlock:
        op = np.array([DELETE, 0, UPDATE, INSERT], np.uint8)[kinds[main]]
        names = [name for name in batch.columns if name not in self._feed.own()]
        nothing = pa.scalar(None, pa.string())
        is_deleted, is_inserted = pa.array(op == DELETE), pa.array(op == INSERT)
        new = {name: pc.if_else(is_deleted, nothing, batch.columns[name].take(main)) for name in names}
        before = {name: pc.if_else(is_inserted, nothing, batch.columns[name].take(old)) for name in names}
        unsent = {name: flags[main] & (op != DELETE) for name, flags in batch.unsent.items() if name in names}
        places = np.arange(len(main))
        table = TableEvents(None, None, places, op, op != INSERT, new, before, unsent)
        version = versions[main]
        return EventBlock(
            batch.file, len(main), batch.number[main], (table,), pa.array(version).cast(pa.string()), version,
            self._times(batch, main),
        )  # fmt: skip

    def _times(self, batch: RowBatch, main: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        column = next((name for name in self._feed.others if name in batch.columns), None)
        return None if column is None else commit_times(batch.columns[column].take(main))


def _joined(first: RowBatch, second: RowBatch) -> RowBatch:
    names = list(dict.fromkeys([*first.columns, *second.columns]))

    def column(batch: RowBatch, name: str) -> pa.Array:
        return batch.columns.get(name, pa.nulls(batch.count, pa.string()))

    def missing(batch: RowBatch, name: str) -> npt.NDArray[np.bool_]:
        return batch.unsent.get(name, np.full(batch.count, name not in batch.columns))

    columns = {name: pa.concat_arrays([column(first, name), column(second, name)]) for name in names}
    unsent = {name: np.concatenate([missing(first, name), missing(second, name)]) for name in names}
    return RowBatch(
        second.file,
        np.concatenate([first.number, second.number]),
        columns,
        {name: flags for name, flags in unsent.items() if flags.any()},
        {},
        np.zeros(first.count + second.count, bool),
    )
