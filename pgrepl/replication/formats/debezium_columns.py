"""Debezium's events by columns: envelopes of one form, many lines at once. Others are read record by record, in their
place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO

import numpy.typing as npt

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.replication.formats.arrow_text import text_column
from pgrepl.replication.formats.debezium import READ, SNAPSHOT, Columns, DebeziumRecords, EventSource
from pgrepl.replication.formats.debezium_values import (
    MICROS,
    MILLIS,
    Convert,
    Numbers,
    NumericColumn,
    ScaledDecimal,
    Timestamp,
    Undecodable,
    day,
    zoned,
)
from pgrepl.replication.formats.event import (
    NO_TIME,
    BadRecord,
    ChangeEvent,
    EventBlock,
    RecordPlace,
    TableEvents,
    UnknownTable,
    first_then_ahead,
)
from pgrepl.replication.formats.json_columns import Column, Group, JsonBlock
from pgrepl.replication.formats.json_text import read_json, read_line
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE
from pgrepl.types.names import numeric_precision_scale

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BLOCK = 1 << 23
_LINE_FEED = ord("\n")
_FEW = 64  # lines of a block that are read one by one, at most; with more of them all are
_CODES = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE}
_SOURCE = ("schema", "db", "table", "txId", "gtid", "lsn", "ts_us", "ts_ms", "snapshot", "file")
_WANTED = frozenset({("op",), ("before", "*"), ("after", "*"), *[("source", name) for name in _SOURCE],
                     ("transaction", "id")})  # fmt: skip


@frozen
class _Part:
    """The events of one table that have the same form."""

    rows: Places  # of the block
    op: npt.NDArray[np.uint8]
    new: Mapping[str, pa.Array]
    old: Mapping[str, pa.Array]
    unsent: Mapping[str, Flags]
    has_old: bool
    xid: pa.Array | None
    lsn: Places | None
    at: Places | None
    snapshot: Flags


@frozen
class _Decoded:
    """A block of lines: its events by columns, and between them the lines that are read one by one."""

    block: JsonBlock
    events: Sequence[EventBlock | int]


class DebeziumBlocks:
    """`records` makes a reader of single events: each thread has one, since it remembers the schema it saw last."""

    def __init__(self, records: Callable[[], DebeziumRecords]) -> None:
        self._make = records
        self._own = threading.local()

    @property
    def _records(self) -> DebeziumRecords:
        if not hasattr(self._own, "records"):
            self._own.records = self._make()
        return self._own.records  # type: ignore[no-any-return]

    def blocks(self, file: BinaryIO, name: str) -> Iterator[EventBlock | ChangeEvent | BadRecord]:
        first = 1
        for piece in first_then_ahead(self._ahead, _pieces(file, name)):
            decoded = piece if isinstance(piece, _Decoded) else self._decoded(piece)
            for event in decoded.events:
                if isinstance(event, EventBlock):
                    yield replace(event, file=name, number=event.number + first)
                else:
                    yield from self._records.of_line(decoded.block.line(event), RecordPlace(name, first + event))
            first += decoded.block.count

    def _ahead(self, data: bytes) -> _Decoded | bytes:
        """By any thread; the same piece if it names a table that only the reader's own thread may look for."""
        try:
            return self._decoded(data)
        except UnknownTable:
            return data

    def _decoded(self, data: bytes) -> _Decoded:
        block = JsonBlock(data)
        lines = block.lines_with_text()
        parts: dict[tuple[str | None, str | None], list[_Part]] = {}
        read = np.zeros(block.count, bool)
        payloads = self._payloads(block)
        if payloads is not None:
            shown, schema = payloads
            for group in shown.groups(_WANTED):
                for key, part in self._parts(group, schema):
                    parts.setdefault(key, []).append(part)
                    read[part.rows] = True
        others = lines[~read[lines]]
        if len(others) > _FEW:
            read[:] = False
            others = lines
        events: list[EventBlock | int] = []
        start = 0
        for row in [*others.tolist(), block.count]:
            between = np.arange(start, row)[read[start:row]]
            if len(between):
                events.append(_events(parts, between))
            if row < block.count:
                events.append(row)
            start = row + 1
        return _Decoded(block, events)

    def _payloads(self, block: JsonBlock) -> tuple[JsonBlock, dict[str, object] | None] | None:
        """The block without the schema in front of each line, and that; None: the lines are read one by one."""
        if not block.starts_with(b'{"schema":'):
            return block, None
        front = self._records.schema_front(block.line(0))
        shown = None if front is None else block.without_front(front)
        return None if front is None or shown is None else (shown, self._records.schema_of(front))

    def _parts(
        self, group: Group, schema: dict[str, object] | None
    ) -> Iterator[tuple[tuple[str | None, str | None], _Part]]:
        """The events of a group, by tables."""
        columns = group.columns
        op = columns.get(("op",))
        has_object = any(len(path) > 1 and path[0] in ("after", "before") for path in group.objects)
        if op is None or not op.is_string or has_object:
            return
        codes, is_read = _operations(op.text)
        kinds = set(np.unique(codes).tolist())
        split = codes if DELETE in kinds or (INSERT in kinds and ("before",) in group.objects) else np.sign(codes)
        names = [columns.get(("source", field)) for field in ("schema", "db", "table")]
        for rows, words, code in _same(names, split):
            if not code:
                continue  # an operation that there is not, or that has no row
            source = EventSource(words[0] or words[1] or None, words[2] or None, None, None, None, False)
            taken = _taken(columns, rows, len(group.rows))
            part = self._part(group.rows[rows], codes[rows], is_read[rows], taken, schema, source)
            if part is not None:
                yield (source.schema, source.table), part

    def _part(
        self,
        rows: Places,
        codes: npt.NDArray[np.uint8],
        is_read: Flags,
        columns: Mapping[tuple[str, ...], Column],
        schema: dict[str, object] | None,
        source: EventSource,
    ) -> _Part | None:
        is_delete, may_be_old = codes[0] == DELETE, bool((codes != INSERT).all())
        sides: dict[str, dict[str, Column]] = {"after": {}, "before": {}}
        for path, column in columns.items():
            if len(path) == 2 and path[0] in sides:
                sides[path[0]][path[1]] = column
        if not is_delete and not sides["after"]:
            return None
        try:
            columns_of = self._records.columns_of
            new, unsent = _texts({} if is_delete else sides["after"], columns_of(schema, "after", source))
            before, missing = _texts(sides["before"] if may_be_old else {}, columns_of(schema, "before", source))
        except (Undecodable, pa.ArrowInvalid):
            return None
        if missing:
            return None  # an old row with a placeholder: its value is not known
        lsn, at = _numbers(columns.get(("source", "lsn"))), _numbers(columns.get(("source", "ts_us")))
        if at is None:
            at = _numbers(columns.get(("source", "ts_ms")))
            at = None if at is None else at * 1000
        if lsn is None and ("source", "file") in columns:
            return None
        xid = columns.get(("source", "txId")) or columns.get(("source", "gtid"))
        if xid is None or xid.text.null_count:
            if ("transaction", "id") in columns:
                return None
        snapshot = is_read
        said = columns.get(("source", "snapshot"))
        if said is not None:
            told = pc.is_in(said.text, pa.array(sorted(SNAPSHOT))).to_numpy(zero_copy_only=False)
            snapshot = is_read | (told & (codes == INSERT))
        texts = xid.text if xid else None
        return _Part(rows, codes, new, before, unsent, bool(before), texts, lsn, at, snapshot)


# --- lines ------------------------------------------------------------------------------------------------------------


def _pieces(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The file in pieces of whole lines, each of which ends with a line feed."""
    number = 1
    while True:
        data = file.read(_BLOCK)
        if not data:
            return
        if not data.endswith(b"\n"):
            rest = read_line(file, name, number)
            data += rest if rest.endswith(b"\n") else rest + b"\n"
        number += int(np.count_nonzero(np.frombuffer(data, np.uint8) == _LINE_FEED))
        yield data


def _operations(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], Flags]:
    """The operations, 0 for a word that is none of a row, and which are rows of a snapshot."""
    known = texts.dictionary_encode()
    words = [*known.dictionary.to_pylist(), None]
    indices = known.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
    codes = np.array([_CODES.get(word or "", 0) for word in words], np.uint8)
    return codes[indices], np.array([word == READ for word in words], bool)[indices]


def _same(
    columns: Sequence[Column | None], split: npt.NDArray[np.uint8]
) -> Iterator[tuple[Places, list[str | None], int]]:
    """The places that have the same words in all these columns, and the same number in `split`; the words, and that."""
    codes = split.astype(np.int64)
    words: list[list[str | None]] = []
    for column in columns:
        if column is None:
            words.append([None])
            continue
        known = column.text.dictionary_encode()
        words.append([*known.dictionary.to_pylist(), None])
        codes = codes * len(words[-1])
        codes += known.indices.fill_null(len(words[-1]) - 1).to_numpy(zero_copy_only=False)
    for code in np.unique(codes).tolist():
        row_words: list[str | None] = []
        rest = code
        for column_words in reversed(words):
            rest, at = divmod(rest, len(column_words))
            row_words.append(column_words[at])
        yield np.flatnonzero(codes == code), row_words[::-1], rest


def _taken(columns: Mapping[tuple[str, ...], Column], rows: Places, count: int) -> Mapping[tuple[str, ...], Column]:
    if len(rows) == count:
        return columns
    return {path: Column(column.text.take(rows), column.is_string) for path, column in columns.items()}


# --- values -----------------------------------------------------------------------------------------------------------


def _texts(columns_of_row: Mapping[str, Column], columns: Columns) -> tuple[dict[str, pa.Array], dict[str, Flags]]:
    """The texts of a row's columns, and where they were not sent."""
    texts, unsent = {}, {}
    for name, column in columns_of_row.items():
        values = column.text
        if column.is_string:
            hidden = pc.is_in(values, columns.placeholders())
            if pc.any(hidden).as_py():
                flags = hidden.to_numpy(zero_copy_only=False)
                unsent[name] = flags
                values = pc.if_else(hidden, pa.scalar(None, pa.string()), values)
        convert = columns.converters.get(name)
        texts[name] = values if convert is None else _converted(values, column.is_string, convert)
    return texts, unsent


def _converted(values: pa.Array, is_string: bool, convert: Convert) -> pa.Array:
    if isinstance(convert, Numbers):
        convert = zoned if is_string else convert.convert
    if is_string and isinstance(convert, NumericColumn):
        texts = _numerics(values, convert)
        if texts is not None:
            return texts
    if is_string and isinstance(convert, ScaledDecimal):
        return _decimals(values, convert)
    if not is_string:
        if isinstance(convert, NumericColumn):
            return values
        if convert is day:
            days = values.cast(pa.int32())
            if not pc.any(pc.greater_equal(pc.abs(days.cast(pa.int64())), 1 << 30)).as_py():
                return text_column(days.view(pa.date32()))
        if isinstance(convert, Timestamp) and convert.unit in (MILLIS, MICROS):
            numbers = values.cast(pa.int64())
            if not pc.any(pc.greater_equal(pc.abs(numbers), _LARGE)).as_py():
                return text_column(numbers.view(pa.timestamp(convert.unit)))
    return _one_by_one(values, is_string, convert)


def _numerics(values: pa.Array, convert: NumericColumn) -> pa.Array | None:
    """Strings in a numeric column without a schema, if all are numbers, or all are encoded; None: they are looked at
    one by one."""
    mode = convert.modes.decimal
    if mode != "precise":
        plain = r"^[+-]?[0-9]+\.?[0-9]*$" if mode else r"^([+-][0-9]+\.?[0-9]*|[0-9]+\.[0-9]*)$"  # no base64 for sure
        if pc.all(pc.match_substring_regex(values, plain)).as_py() is not False:
            return values
    if mode == "precise" and convert.typmod >= _HAS_SCALE:
        return _decimals(values, ScaledDecimal(numeric_precision_scale(convert.typmod)[1]))
    return None


_HAS_SCALE = 4  # the least typmod of a numeric with a scale
_LARGE = 1 << 60  # infinities, and what no timestamp can be


def _one_by_one(values: pa.Array, is_string: bool, convert: Convert) -> pa.Array:
    """Each different value once."""
    known = values.dictionary_encode()
    kind: Callable[[str], object] = str if is_string else read_json
    texts = [None if word is None else convert(kind(word)) for word in known.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(known.indices)


_SIX_BITS = np.full(256, 255, np.uint8)
_SIX_BITS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")] = np.arange(64)


def _decimals(values: pa.Array, convert: ScaledDecimal) -> pa.Array:
    """Decimals of up to eight bytes; others one by one."""
    count = len(values)
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
    _, offsets, content = values.buffers()
    starts = np.frombuffer(offsets, np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    lengths = np.where(valid, np.diff(starts), 0)
    if content is None or lengths.max(initial=0) > 12 or (lengths % 4).any() or (lengths[valid] == 0).any():
        return _one_by_one(values, True, convert)
    data = np.frombuffer(content, np.uint8)
    numbers = np.zeros(count, np.int64)
    for length in (4, 8, 12):
        rows = np.flatnonzero(lengths == length)
        if not len(rows):
            continue
        letters = data[starts[rows, None] + np.arange(length)]
        padding = (letters[:, -1] == ord("=")).astype(np.int64) + (letters[:, -2] == ord("="))
        bits = _SIX_BITS[letters]
        bits[:, -1][padding >= 1] = 0
        bits[:, -2][padding == 2] = 0
        size = length // 4 * 3 - padding
        if (bits == 255).any() or (size > 8).any():
            return _one_by_one(values, True, convert)
        leading = np.zeros(len(rows), np.uint64)  # all but the last two letters: of twelve 60 bits
        for at in range(length - 2):
            leading = leading << np.uint64(6) | bits[:, at]
        last = bits[:, -2].astype(np.uint64) << np.uint64(6) | bits[:, -1]
        one = leading << np.uint64(4) | last >> np.uint64(8)
        whole = np.choose(padding, (leading << np.uint64(12) | last, one, leading >> np.uint64(4)))
        shift = (64 - 8 * size).astype(np.uint64)
        numbers[rows] = (whole << shift).view(np.int64) >> shift.view(np.int64)
    high = np.where(numbers < 0, -1, 0).astype(np.int64)
    words = np.empty((count, 2), np.int64)
    words[:, 0], words[:, 1] = numbers, high
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    decimals = pa.Array.from_buffers(pa.decimal128(38, convert.scale), count, [validity, pa.py_buffer(words)])
    return decimals.cast(pa.string())


def _numbers(column: Column | None) -> Places | None:
    if column is None or column.is_string:
        return None
    if column.text.null_count == len(column.text):
        return None
    numbers: Places = column.text.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return numbers


# --- blocks -----------------------------------------------------------------------------------------------------------


def _events(parts: Mapping[tuple[str | None, str | None], Sequence[_Part]], rows: Places) -> EventBlock:
    """The events of some lines of a block, which follow one another, by their numbers in it."""
    low, high = int(rows[0]), int(rows[-1]) + 1
    place_of = np.full(high - low, -1, np.int64)
    place_of[rows - low] = np.arange(len(rows))
    tables = []
    xid: list[pa.Array] = []
    order: list[Places] = []
    lsn, at = np.full(len(rows), -1, np.int64), np.full(len(rows), NO_TIME, np.int64)
    snapshot = np.zeros(len(rows), bool)
    for (schema, table), table_parts in parts.items():
        within = [cut for cut in (_within(part, low, high) for part in table_parts) if len(cut.rows)]
        if not within:
            continue
        places = np.concatenate([place_of[part.rows - low] for part in within])
        borders = np.cumsum([len(part.rows) for part in within])[:-1]
        for part, here in zip(within, np.split(places, borders), strict=True):
            lsn[here] = -1 if part.lsn is None else part.lsn
            at[here] = NO_TIME if part.at is None else part.at
            snapshot[here] = part.snapshot
            xid.append(pa.nulls(len(here), pa.string()) if part.xid is None else part.xid)
            order.append(here)
        tables.append(_table(schema, table, within, places))
    xids = pa.concat_arrays(xid).take(np.argsort(np.concatenate(order)))
    return EventBlock(
        "", len(rows), rows, tuple(tables), None if xids.null_count == len(xids) else xids,
        lsn if (lsn >= 0).any() else None, at if (at != NO_TIME).any() else None, snapshot if snapshot.any() else None,
    )  # fmt: skip


def _within(part: _Part, low: int, high: int) -> _Part:
    """The rows of a part from one to another."""
    start, end = int(part.rows.searchsorted(low)), int(part.rows.searchsorted(high))
    if end - start == len(part.rows):
        return part
    these = slice(start, end)
    return _Part(
        part.rows[these], part.op[these], {name: array[these] for name, array in part.new.items()},
        {name: array[these] for name, array in part.old.items()},
        {name: flags[these] for name, flags in part.unsent.items()}, part.has_old,
        None if part.xid is None else part.xid[these], None if part.lsn is None else part.lsn[these],
        None if part.at is None else part.at[these], part.snapshot[these],
    )  # fmt: skip


def _table(schema: str | None, table: str | None, parts: Sequence[_Part], places: Places) -> TableEvents:
    order = np.argsort(places, kind="stable")
    is_sorted = len(parts) == 1

    def sorted_array(pieces: Sequence[pa.Array]) -> pa.Array:
        return pieces[0] if is_sorted else pa.concat_arrays(pieces).take(order)

    def sorted_flags(pieces: Sequence[Flags]) -> Flags:
        return pieces[0] if is_sorted else np.concatenate(pieces)[order]

    def column(part: _Part, side: Mapping[str, pa.Array], name: str) -> pa.Array:
        return side[name] if name in side else pa.nulls(len(part.rows), pa.string())

    def side(sides: Sequence[Mapping[str, pa.Array]]) -> dict[str, pa.Array]:
        names = dict.fromkeys(name for arrays in sides for name in arrays)
        return {
            name: sorted_array([column(part, arrays, name) for part, arrays in zip(parts, sides, strict=True)])
            for name in names
        }

    new, old = side([part.new for part in parts]), side([part.old for part in parts])
    unsent, unsent_old = {}, {}
    for name in new:
        flags = [
            part.unsent.get(name, np.full(len(part.rows), name not in part.new and bool(part.op[0] != DELETE)))
            for part in parts
        ]
        if any(mask.any() for mask in flags):
            unsent[name] = sorted_flags(flags)
    for name in old:
        flags = [np.full(len(part.rows), name not in part.old and part.has_old) for part in parts]
        if any(mask.any() for mask in flags):
            unsent_old[name] = sorted_flags(flags)
    op = np.concatenate([part.op for part in parts])[order]
    has_old = sorted_flags([np.full(len(part.rows), part.has_old) for part in parts])
    return TableEvents(schema, table, places[order], op, has_old, new, old, unsent, unsent_old or None)
