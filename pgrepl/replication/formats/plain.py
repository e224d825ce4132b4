"""JSON lines, CSV and Parquet whose columns are named by options (`op`, `order`, `xid`, `before`, `at` …), and AWS
DMS's files.

JSON lines without any of these are pgrepl's own, which are written, too: `{"op": "update", "schema": …, "table": …,
"xid": …, "lsn": …, "at": …, "new": {…}, "old": {…}}`. Values are PostgreSQL's text or null; a transaction stands
between `begin` and `commit`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.replication.formats.event import (
    BEGIN,
    COMMIT,
    NO_TIME,
    BadRecord,
    ChangeEvent,
    ColumnTypes,
    EventBlock,
    RecordPlace,
    TableEvents,
    events_in,
    unix_time,
)
from pgrepl.replication.formats.json_text import INVALID, decompressed, events, value_text
from pgrepl.replication.formats.rows import CsvOptions, RowBatch, part_of, row_batches, with_columns, without_bad
from pgrepl.replication.formats.written import LineWriter, SourceFacts, check_phase, json_line, old_places, texts
from pgrepl.replication.wire import messages
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE
from pgrepl.replication.wire.messages import OPERATIONS, TRUNCATE, TruncateMessage, WireTransaction
from pgrepl.replication.wire.pgoutput import TRUNCATE_TYPE
from pgrepl.types import oids
from pgrepl.types.plain import lsn_text, parse_lsn
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    import numpy.typing as npt

# how programs name operations, in lower case
WORDS = {
    **dict.fromkeys(("i", "c", "r", "insert", "inserted", "create", "created", "read", "append", "+i"), INSERT),
    **dict.fromkeys(("u", "update", "updated", "change", "changed", "+u"), UPDATE),
    **dict.fromkeys(("d", "delete", "deleted", "remove", "removed", "-d"), DELETE),
    **dict.fromkeys(("t", "truncate"), TRUNCATE_TYPE),
}
KINDS = (*OPERATIONS, BEGIN, COMMIT)


@frozen
class Roles:
    """The columns that tell about a row; None: there is none."""

    op: str | None = None
    order: str | None = None
    xid: str | None = None
    before: str | None = None
    schema: str | None = None
    table: str | None = None
    at: str | None = None

    def all(self) -> set[str]:
        named = (self.op, self.order, self.xid, self.schema, self.table, self.at)
        return {role for role in named if role is not None}


def roles_of(options: Mapping[str, str]) -> Roles:
    return Roles(
        options.get("op"), options.get("order"), options.get("xid"), options.get("before"),
        options.get("schema_column"), options.get("table_column"), options.get("at"),
    )  # fmt: skip


def plain_blocks(
    kind: str,
    roles: Roles,
    csv: CsvOptions,
    types: ColumnTypes | None,
    file: BinaryIO,
    name: str,
    *,
    op: str | None = None,
) -> Iterator[EventBlock | ChangeEvent | BadRecord]:
    """`op`: the column of operations that batches may have or not, in place of the one that the roles name."""
    declared = (types and types(None, None)) or {}
    for batch in row_batches(file, name, kind, roles.before, csv, declared):
        if isinstance(batch, BadRecord):
            yield batch
        else:
            known = roles if op is None else replace(roles, op=op if op in batch.columns else None)
            yield from events_of(batch, known)


def events_of(batch: RowBatch, roles: Roles) -> Iterator[EventBlock | ChangeEvent | BadRecord]:
    """The events of a batch's rows."""
    batch = with_columns(batch, sorted(roles.all()))
    op = np.full(batch.count, INSERT, np.uint8)
    bad: list[BadRecord] = []
    if roles.op is not None:
        op, bad = operations(batch, roles.op)
    lsn = None
    if roles.order is not None:
        lsn, more = positions(batch, roles.order)
        bad += more
    if not bad:
        yield from _with_truncations(batch, op, lsn, roles)
        return
    bad.sort(key=lambda record: record.place.number)
    first = {record.place.number: record for record in reversed(bad)}  # one error for each row
    for part in without_bad(batch, list(first.values())[::-1]):
        yield from [part] if isinstance(part, BadRecord) else events_of(part, roles)


def _with_truncations(
    batch: RowBatch, op: npt.NDArray[np.uint8], lsn: npt.NDArray[np.int64] | None, roles: Roles
) -> Iterator[EventBlock | ChangeEvent]:
    """Blocks, and between them truncations, which have no row."""
    start = 0
    for at in [*np.flatnonzero(op == TRUNCATE_TYPE).tolist(), batch.count]:
        if at > start:
            whole = start == 0 and at == batch.count
            part = batch if whole else part_of(batch, start, at)
            yield block_of(part, op[start:at], None if lsn is None else lsn[start:at], roles)
        if at < batch.count:
            row = part_of(batch, at, at + 1)
            position = None if lsn is None else lsn[at : at + 1]
            (event,) = events_in(block_of(row, np.full(1, INSERT, np.uint8), position, roles))
            yield replace(event, kind=TRUNCATE, new=None)
        start = at + 1


def operations(batch: RowBatch, column: str) -> tuple[npt.NDArray[np.uint8], list[BadRecord]]:
    """The operations by a column's words."""
    codes, bad = coded(batch, column, lambda word: WORDS.get(word.strip().lower(), -1))
    return np.maximum(codes, 0).astype(np.uint8), bad


def coded(batch: RowBatch, column: str, code: Callable[[str], int]) -> tuple[npt.NDArray[np.int64], list[BadRecord]]:
    """The codes of the operations in a column, -1 for a word that is none."""
    known = batch.columns[column].dictionary_encode()
    words = known.dictionary.to_pylist()
    codes = np.array([code(word or "") for word in words] + [-1], np.int64)
    row_codes = codes[known.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)]
    bad = [
        _bad(batch, at, f'unrecognized operation in column "{column}"', batch.columns[column][at].as_py())
        for at in np.flatnonzero(row_codes < 0).tolist()
    ]
    return row_codes, bad


def _bad(batch: RowBatch, at: int, reason: str, text: str | None) -> BadRecord:
    shown = "it is null" if text is None else f'"{text}"'
    return BadRecord(INVALID, f"{reason}: {shown}", RecordPlace(batch.file, int(batch.number[at])))


def positions(batch: RowBatch, column: str) -> tuple[npt.NDArray[np.int64], list[BadRecord]]:
    """The positions by a column of whole numbers, LSNs or timestamps."""
    texts = batch.columns[column]
    try:
        if texts.null_count == 0:
            numbers: npt.NDArray[np.int64] = texts.cast(pa.int64()).to_numpy()
            return numbers, []
    except pa.ArrowInvalid:
        pass
    values, bad = [], []
    for at, text in enumerate(texts.to_pylist()):
        try:
            values.append(position(text))
        except (PgError, ValueError):
            values.append(-1)
            bad.append(_bad(batch, at, f'column "{column}" is no whole number, LSN or timestamp', text))
    return np.array(values, np.int64), bad


def position(text: str | None) -> int:
    if not text:
        raise ValueError
    if text.isascii() and text.isdigit():
        number = int(text)
    elif text.count("/") == 1 and "-" not in text:
        number = parse_lsn(text)
    else:
        number = unix_time(text)
    if not 0 <= number < 1 << 63:
        raise ValueError
    return number


def commit_times(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Timestamps in microseconds since 1970; what is none is not known."""
    known = texts.dictionary_encode()
    unix_times = []
    for text in [*known.dictionary.to_pylist(), None]:
        try:
            unix_times.append(NO_TIME if text is None else unix_time(text))
        except PgError:
            unix_times.append(NO_TIME)
    indices = known.indices.fill_null(len(known.dictionary)).to_numpy(zero_copy_only=False)
    times: npt.NDArray[np.int64] = np.array(unix_times, np.int64)[indices]
    return times


def block_of(batch: RowBatch, op: npt.NDArray[np.uint8], lsn: npt.NDArray[np.int64] | None, roles: Roles) -> EventBlock:
    xid = batch.columns[roles.xid] if roles.xid is not None else None
    tables = tuple(_tables(batch, op, roles))
    at = None if roles.at is None else commit_times(batch.columns[roles.at])
    return EventBlock(batch.file, batch.count, batch.number, tables, xid, lsn, at)


def _tables(batch: RowBatch, op: npt.NDArray[np.uint8], roles: Roles) -> Iterator[TableEvents]:
    """The rows of each table that the batch names."""
    if roles.table is None and roles.schema is None:
        yield table_events(batch, op, roles, None, None, np.arange(batch.count))
        return
    nobody = [None] * batch.count
    schemas = nobody if roles.schema is None else batch.columns[roles.schema].to_pylist()
    tables = nobody if roles.table is None else batch.columns[roles.table].to_pylist()
    places: dict[tuple[str | None, str | None], list[int]] = {}
    for at, names in enumerate(zip(schemas, tables, strict=True)):
        places.setdefault(names, []).append(at)
    for (schema, table), table_places in places.items():
        yield table_events(batch, op, roles, schema, table, np.array(table_places))


def table_events(
    batch: RowBatch,
    op: npt.NDArray[np.uint8],
    roles: Roles,
    schema: str | None,
    table: str | None,
    places: npt.NDArray[np.int64],
) -> TableEvents:
    """The events of one table. A deleted row without an old one is itself the old one."""
    whole = len(places) == batch.count
    columns = {name: array for name, array in batch.columns.items() if name not in roles.all()}
    unsent = {name: flags for name, flags in batch.unsent.items() if name not in roles.all()}
    old, has_old, kind = batch.old, batch.has_old, op
    if not whole:
        columns = {name: array.take(places) for name, array in columns.items()}
        unsent = {name: flags[places] for name, flags in unsent.items()}
        old = {name: array.take(places) for name, array in old.items()}
        has_old, kind = has_old[places], kind[places]
        columns = {name: array for name, array in columns.items() if not (name in unsent and unsent[name].all())}
    deleted = kind == DELETE
    new, before = _sides(columns, old, has_old, deleted)
    missing = {name: flags & ~deleted for name, flags in unsent.items() if name in columns}
    itself = deleted & ~has_old  # a deleted row is the old one
    lacking = {}
    for name in before:
        own = unsent.get(name, np.full(len(kind), name not in columns))
        lacking[name] = np.where(itself, own, has_old & (name not in old))
    return TableEvents(
        schema, table, places.astype(np.int64), kind, has_old | deleted, new, before,
        {name: flags for name, flags in missing.items() if flags.any()},
        {name: flags for name, flags in lacking.items() if flags.any()} or None,
    )  # fmt: skip


def _sides(
    columns: Mapping[str, pa.Array],
    old: Mapping[str, pa.Array],
    has_old: npt.NDArray[np.bool_],
    deleted: npt.NDArray[np.bool_],
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """The new and the old columns: a deleted row has no new one."""
    if not deleted.any():
        return dict(columns), dict(old)
    gone = pa.array(deleted)
    nothing = pa.scalar(None, pa.string())
    new = {name: pc.if_else(gone, nothing, array) for name, array in columns.items()}
    itself = pa.array(deleted & ~has_old)
    before = {name: pc.if_else(itself, array, old.get(name, nothing)) for name, array in columns.items()}
    for name, array in old.items():
        before.setdefault(name, array)
    return new, before


# --- AWS DMS ----------------------------------------------------------------------------------------------------------


def dms_blocks(
    roles: Roles, csv: CsvOptions, types: ColumnTypes | None, file: BinaryIO, name: str
) -> Iterator[EventBlock | ChangeEvent | BadRecord]:
    """A file of AWS DMS. A CSV file mostly has no header: `names` are the table's columns then, or those that it is
    declared with; files of changes have the operation in front of them, files of a full load may not."""
    names = csv.names
    opened = decompressed(file, name)
    start: bytes = getattr(opened, "peek")(1 << 16)  # noqa: B009
    op = roles.op or "Op"
    if not start:
        return
    if start.startswith(b"PAR1"):
        yield from plain_blocks("parquet", roles, csv, types, opened, name, op=op)
        return
    declared = (types and types(None, None)) or {}
    first_line = [name.strip(b'"').decode(errors="replace") for name in _first_line(start, csv.delimiter)]
    has_header = first_line[0] == op or (names is None and _is_header(first_line, declared))
    if not has_header and names is None:
        if not declared:
            raise PgError(
                "22023", f'CSV file "{name}" has no header, and the columns of its table are not known',
                hint="Name them with columns=a,b,…, or let DMS write them with AddColumnName=true.",
            )  # fmt: skip
        names = tuple(declared)
    if not has_header and names is not None:
        first = re.escape(csv.delimiter.encode())
        front = (op,) if re.match(rb'"?[IUD]"?(%b|\r?\n|\Z)' % first, start) else ()
        csv = CsvOptions(csv.delimiter, csv.quote, csv.null, (*front, *names))
    else:
        csv = CsvOptions(csv.delimiter, csv.quote, csv.null)
    yield from plain_blocks("csv", roles, csv, types, opened, name, op=op)


def _first_line(start: bytes, delimiter: str) -> list[bytes]:
    return start.split(b"\n", 1)[0].rstrip(b"\r").split(delimiter.encode())


def _is_header(first_line: Sequence[str], declared: Collection[str]) -> bool:
    """Whether a full load's file, which has no operation, begins with the names of its columns."""
    return len(set(first_line)) == len(first_line) and len(first_line) > 1 and set(declared).issuperset(first_line)


# --- JSON lines of pgrepl ---------------------------------------------------------------------------------------------


def is_own(record: Mapping[str, Any]) -> bool:
    """Whether an object is an event of this form."""
    op = record.get("op")
    return op in (BEGIN, COMMIT, TRUNCATE) or (op in KINDS and ("new" in record or "old" in record))


class JsonLinesRecords:
    def __init__(self, types: ColumnTypes | None) -> None:
        self._types = types

    def events(self, file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
        for decoded in events(file, name, self._event, (ValueError, PgError)):
            yield decoded if isinstance(decoded, BadRecord) else decoded[0]

    def _event(self, record: dict[str, Any], place: RecordPlace) -> ChangeEvent:
        if not is_own(record):
            raise ValueError('it has no "op" with "new" or "old"; if its columns are a row, name the others with op=…')
        kind, schema, table = record["op"], record.get("schema"), record.get("table")
        types = (self._types and self._types(schema, table)) or {}
        new = _row(record, "new", types) if kind in (messages.INSERT, messages.UPDATE) else None
        has_old = kind in (messages.UPDATE, messages.DELETE) and record.get("old") is not None
        old = _row(record, "old", types) if has_old else None
        lsn, at = record.get("lsn"), record.get("at")
        return ChangeEvent(
            kind,
            schema,
            table,
            new,
            old,
            value_text(record.get("xid")),
            None if lsn is None else parse_lsn(str(lsn)),
            None if at is None else unix_time(str(at)),
            place,
        )


def _row(record: Mapping[str, Any], name: str, types: Mapping[str, tuple[int, int]]) -> dict[str, str | None]:
    row = record.get(name)
    if not isinstance(row, dict):
        raise ValueError(f'"{name}" is no object')
    return {column: value_text(value, types.get(column, (0, -1))[0]) for column, value in row.items()}


class JsonLinesWriter(LineWriter):
    def __init__(self, context: SourceFacts) -> None:
        self._style = context.style

    def lines(self, transaction: WireTransaction) -> Iterator[bytes]:
        check_phase(transaction)
        xid, lsn = str(transaction.xid), lsn_text(transaction.finish_lsn)
        about = {"xid": xid, "lsn": lsn, "at": write_text(transaction.committed_at, oids.TIMESTAMPTZ, self._style)}
        yield json_line({"op": BEGIN, **about})
        for message in transaction.messages:
            if isinstance(message, TruncateMessage):
                for relation in message.relations:
                    names = {"schema": relation.schema, "table": relation.name}
                    yield json_line({"op": TRUNCATE, **names, "xid": xid, "lsn": lsn})
                continue
            relation = message.relation
            line: dict[str, Any] = {"op": message.operation, "schema": relation.schema, "table": relation.name}
            line |= {"xid": xid, "lsn": lsn}
            if message.old is not None:
                known = {relation.columns[at].name for at in old_places(message)}
                old = texts(relation, message.old, self._style)
                line["old"] = {name: text for name, text in old if name in known}
            if message.new is not None:
                line["new"] = dict(texts(relation, message.new, self._style))
            yield json_line(line)
        yield json_line({"op": COMMIT, **about})
