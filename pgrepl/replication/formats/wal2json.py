"""wal2json's output: read in format versions 1 and 2, written in 2 with XIDs, timestamps and LSNs.

A transaction of version 1 may be larger than memory: its changes are read one by one. NaN and Infinity, for which
wal2json writes null, are written as strings.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from pgrepl.ground.errors import PgError
from pgrepl.replication.formats.event import (
    BEGIN,
    COMMIT,
    BadRecord,
    ChangeEvent,
    ColumnTypes,
    RecordPlace,
    Unfit,
    told_time,
)
from pgrepl.replication.formats.json_text import (
    INVALID,
    INVALID_BYTES,
    Number,
    check_size,
    decompressed,
    events,
    json_problem,
    raw_json,
    value_text,
)
from pgrepl.replication.formats.written import LineWriter, SourceFacts, check_phase, json_line, old_places
from pgrepl.replication.wire.messages import (
    DELETE,
    INSERT,
    TRUNCATE,
    UNCHANGED,
    UPDATE,
    Message,
    TruncateMessage,
    WireTransaction,
)
from pgrepl.replication.wire.messages import Row as SentRow
from pgrepl.types import oids
from pgrepl.types.input_checks import invalid_utf8, not_text
from pgrepl.types.names import format_type
from pgrepl.types.plain import lsn_text, parse_lsn
from pgrepl.types.text import write_text

_OBJECT = re.compile(r"^\s*(?:null\s*)*\{", re.MULTILINE)
_NAME = re.compile(r'\s*,?\s*"(\w+)"\s*:\s*')
_OF_VERSION_2 = frozenset(("action", "schema", "table", "columns", "identity", "pk", "lsn", "transactional", "prefix"))
_LOOK = 4096
_ACTIONS = {"I": INSERT, "U": UPDATE, "D": DELETE, "T": TRUNCATE}
_KINDS = {"insert": INSERT, "update": UPDATE, "delete": DELETE, "truncate": TRUNCATE}

Row = Mapping[str, "str | None"]


class InvalidText(Unfit):
    """A value with bytes that are not UTF-8, which has been read."""

    def __init__(self, reason: str, value: Any) -> None:
        super().__init__(reason)
        self.value = value


_MIXED = "it is of format version 2, and what stands before it is not"


def _names(text: str) -> Iterator[str]:
    """The names in the objects that begin lines, in their order and as far as they can be read."""
    for begin in _OBJECT.finditer(text):
        at = begin.end()
        while (match := _NAME.match(text, at)) is not None:
            yield match[1]
            try:
                _, at = raw_json(text, match.end())
            except (ValueError, RecursionError):
                break


def _is_message(line: bytes) -> bool:
    """Whether a line of version 2, which is JSON but for its bytes, is of pg_logical_emit_message()."""
    try:
        message, _ = raw_json(line.decode("utf-8", "surrogateescape").strip(), 0)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("action") == "M"


class Wal2jsonRecords:
    """Reads both versions; the file's first bytes tell which."""

    def __init__(self, types: ColumnTypes | None) -> None:
        self._types = types

    def events(self, file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
        buffered = decompressed(file, name)
        start = getattr(buffered, "peek")(_LOOK)  # noqa: B009
        return self.lines(buffered, name) if self.has_lines(start) else self._version_1(buffered, name)

    @staticmethod
    def has_lines(start: bytes) -> bool:
        """Whether a file that begins so is of version 2."""
        for name in _names(start.decode("utf-8", "replace")):
            if name == "change" or name in _OF_VERSION_2:
                return name != "change"
        return False

    def lines(self, file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
        """The events of lines of version 2."""
        for item in events(file, name, self._event, Unfit):
            if not isinstance(item, BadRecord):
                yield item[0]
            elif not (item.sqlstate == INVALID_BYTES and _is_message(item.record or b"")):  # it may have any bytes
                yield item

    def _event(self, record: dict[str, Any], place: RecordPlace) -> ChangeEvent | None:
        if "action" not in record:
            raise Unfit('it has no "action"')
        action = record["action"]
        if action == "M":
            return None
        xid, lsn, at = _about(record, "lsn")
        if action in ("B", "C"):
            return ChangeEvent(BEGIN if action == "B" else COMMIT, None, None, None, None, xid, lsn, at, place)
        kind = _ACTIONS.get(action) if isinstance(action, str) else None
        if kind is None:
            raise Unfit(f'unrecognized action {value_text(action)}: "action" is one of B, I, U, D, T, M, C')
        schema, table = record.get("schema"), _table(record)
        types = (self._types and self._types(schema, table)) or {}
        new = _columns(record, "columns", types) if kind in (INSERT, UPDATE) else None
        old = _columns(record, "identity", types) if kind in (UPDATE, DELETE) and "identity" in record else None
        return ChangeEvent(kind, schema, table, new, old, xid, lsn, at, place)

    def _version_1(self, file: BinaryIO, name: str) -> Iterator[ChangeEvent | BadRecord]:
        stream = _JsonStream(file, name)
        while stream.next_char():
            begun = stream.place()
            try:
                yield from self._transaction(stream)
            except (ValueError, RecursionError) as problem:
                yield BadRecord(INVALID, json_problem(problem), stream.place())
                stream.skip_line()
            except Unfit as problem:
                yield BadRecord(INVALID, str(problem), begun)
                stream.skip_line()

    def _transaction(self, stream: _JsonStream) -> Iterator[ChangeEvent | BadRecord]:
        """The object of a transaction: what is said about it comes before its changes."""
        place = stream.place()
        if stream.next_char() != "{":
            raise Unfit("it is no JSON object")
        stream.take()
        about: dict[str, Any] = {}
        has_changes = False
        while stream.next_char() != "}":
            if stream.next_char() == ",":
                stream.take()
            key = stream.value()
            if not isinstance(key, str) or stream.next_char() != ":":
                raise Unfit("invalid JSON: a name and a colon are expected")
            stream.take()
            if key != "change":
                about[key] = stream.value()
                continue
            has_changes = True
            xid, lsn, at = _about(about, "nextlsn")
            yield ChangeEvent(BEGIN, None, None, None, None, xid, lsn, at, place)
            yield from self._changes(stream, xid, at)
        stream.take()
        if not has_changes:
            raise Unfit('it has neither "action" nor "change"' if "action" not in about else _MIXED)
        yield ChangeEvent(COMMIT, None, None, None, None, xid, lsn, at, stream.place())

    def _changes(self, stream: _JsonStream, xid: str | None, at: int | None) -> Iterator[ChangeEvent | BadRecord]:
        if stream.next_char() != "[":
            raise Unfit('"change" is no array')
        stream.take()
        while stream.next_char() != "]":
            if stream.next_char() == ",":
                stream.take()
                stream.next_char()
            place = stream.place()
            try:
                change = stream.value()
            except InvalidText as problem:
                if not (isinstance(problem.value, dict) and problem.value.get("kind") == "message"):
                    yield BadRecord(INVALID_BYTES, str(problem), place)
                continue
            try:
                event = self._change(change, xid, at, place)
            except Unfit as problem:
                yield BadRecord(INVALID, str(problem), place, record=json.dumps(change).encode())
                continue
            if event is not None:
                yield event
        stream.take()

    def _change(self, change: Any, xid: str | None, at: int | None, place: RecordPlace) -> ChangeEvent | None:
        if not isinstance(change, dict):
            raise Unfit("a change is no object")
        kind = change.get("kind")
        if kind == "message":
            return None
        if kind not in _KINDS:
            raise Unfit(f'unrecognized kind {value_text(kind)}: "kind" is one of {", ".join(_KINDS)}, message')
        schema, table = change.get("schema"), _table(change)
        types = (self._types and self._types(schema, table)) or {}
        new = old = None
        if kind in ("insert", "update"):
            new = _row(change, ("columnnames", "columntypes", "columnvalues"), types)
        if isinstance(change.get("oldkeys"), dict):
            old = _row(change["oldkeys"], ("keynames", "keytypes", "keyvalues"), types)
        return ChangeEvent(_KINDS[kind], schema, table, new, old, xid, None, at, place)


def _about(record: Mapping[str, Any], lsn_name: str) -> tuple[str | None, int | None, int | None]:
    """XID, LSN and commit time."""
    xid, lsn = record.get("xid"), record.get(lsn_name)
    try:
        position = parse_lsn(lsn) if isinstance(lsn, str) else None
    except PgError as problem:
        raise Unfit(problem.message) from None
    return value_text(xid), position, told_time(record.get("timestamp"))


def _table(record: Mapping[str, Any]) -> str:
    table = record.get("table")
    if not isinstance(table, str):
        raise Unfit('it names no "table"')
    return table


def _columns(record: Mapping[str, Any], name: str, types: Mapping[str, tuple[int, int]]) -> Row:
    listed = record.get(name)
    if not isinstance(listed, list):
        raise Unfit(f'it has no "{name}"')
    row: dict[str, str | None] = {}
    for column in listed:
        if not isinstance(column, dict) or not isinstance(column.get("name"), str) or "value" not in column:
            raise Unfit(f'an item of "{name}" has no "name" or no "value"')
        label = column["name"]
        row[label] = _value(column["value"], column.get("type"), types.get(label))
    return row


def _row(about: Mapping[str, Any], names: Sequence[str], types: Mapping[str, tuple[int, int]]) -> Row:
    labels, kinds, values = [about.get(name) for name in names]
    if not isinstance(labels, list) or not isinstance(values, list) or len(labels) != len(values):
        raise Unfit(f'"{names[0]}" and "{names[2]}" are not equally long')
    if not isinstance(kinds, list) or len(kinds) != len(labels):
        kinds = [None] * len(labels)
    return {
        str(label): _value(value, kind, types.get(str(label)))
        for label, kind, value in zip(labels, kinds, values, strict=True)
    }


def _value(value: Any, kind: Any, declared: tuple[int, int] | None) -> str | None:
    """`kind`: the type as wal2json names it; without it the declared column's counts. Bytes have `\\x` in a domain."""
    if value is not None and (kind == "bytea" or (kind is None and declared and declared[0] == oids.BYTEA)):
        return str(value) if str(value).startswith("\\x") else f"\\x{value}"
    return value_text(value, declared[0] if declared else 0)


class _JsonStream:
    """JSON values one after the other, whatever lines they stand on; only one of them is held in memory."""

    _PIECE = 1 << 16

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._is_utf8 = True  # all that was read
        self._text, self._at, self._line = "", 0, 1
        self._ended = False

    def place(self) -> RecordPlace:
        return RecordPlace(self._name, self._line)

    def next_char(self) -> str:
        """The next character that is no space; nothing at the end of the file."""
        while True:
            while self._at < len(self._text):
                char = self._text[self._at]
                if char not in " \t\r\n":
                    return char
                self._line += char == "\n"
                self._at += 1
            if not self._fill():
                return ""

    def take(self) -> None:
        """Go behind the character that next_char has returned."""
        if not self.next_char():
            raise Unfit("the file ends within the record")
        self._at += 1

    def value(self) -> Any:
        """The next value."""
        if not self.next_char():
            raise Unfit("the file ends within the record")
        while True:
            try:
                value, end = raw_json(self._text, self._at)
            except json.JSONDecodeError as problem:
                if not (self._is_cut(problem) and self._fill()):
                    raise
                continue
            if end == len(self._text) and self._fill():  # a number may go on
                continue
            start, self._at = self._at, end
            self._line += self._text.count("\n", start, end)
            wrong = None if self._is_utf8 else invalid_utf8(self._text[start:end])
            if wrong is not None:
                raise InvalidText(wrong.message, value)
            return value

    def skip_line(self) -> None:
        """Go to the next line that begins an object: behind a record that cannot be read."""
        while True:
            at = self._text.find("\n{", self._at)
            if at >= 0:
                self._line += self._text.count("\n", self._at, at + 1)
                self._at = at + 1
                return
            self._line += self._text.count("\n", self._at, len(self._text) - 1)
            self._at = max(self._at, len(self._text) - 1)
            if not self._fill():
                self._at = len(self._text)
                return

    def _is_cut(self, problem: json.JSONDecodeError) -> bool:
        """Whether more text may mend the problem."""
        return problem.msg.startswith("Unterminated string") or problem.pos >= len(self._text) - len("-Infinity")

    def _fill(self) -> bool:
        """Read more; False at the end of the file."""
        if self._ended:
            return False
        kept = self._text[self._at :]
        check_size(kept, self._name, self._line)
        piece = self._file.read(max(self._PIECE, len(kept)))
        self._ended = not piece
        text = self._decoder.decode(piece, final=self._ended)
        self._is_utf8 = self._is_utf8 and not_text(text) is None
        self._text, self._at = kept + text, 0
        return True


_LETTERS = {INSERT: "I", UPDATE: "U", DELETE: "D"}
_NUMBERS = frozenset({oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC})
_NUMBER = re.compile(r"-?\d[\d.]*(e[+-]?\d+)?\Z")


class Wal2jsonWriter(LineWriter):
    def __init__(self, context: SourceFacts) -> None:
        self._style = context.style

    def lines(self, transaction: WireTransaction) -> Iterator[bytes]:
        check_phase(transaction)
        lsn = lsn_text(transaction.finish_lsn)
        about = {
            "xid": transaction.xid,
            "timestamp": write_text(transaction.committed_at, oids.TIMESTAMPTZ, self._style),
            "lsn": lsn,
            "nextlsn": lsn_text(transaction.end_lsn),
        }
        yield json_line({"action": "B", **about})
        del about["nextlsn"]
        for message in transaction.messages:
            if isinstance(message, TruncateMessage):
                for relation in message.relations:
                    yield json_line({"action": "T", **about, "schema": relation.schema, "table": relation.name})
                continue
            yield json_line(self._change(message, about))
        yield json_line({"action": "C", **about, "nextlsn": lsn_text(transaction.end_lsn)})

    def _change(self, message: Message, about: dict[str, Any]) -> dict[str, Any]:
        relation = message.relation
        line = {"action": _LETTERS[message.operation], **about, "schema": relation.schema, "table": relation.name}
        if message.new is not None:
            line["columns"] = self._columns(message, message.new, range(len(relation.columns)))
        if message.old is not None:
            line["identity"] = self._columns(message, message.old, old_places(message))
        elif message.new is not None and message.operation == UPDATE:
            keys = [at for at, column in enumerate(relation.columns) if column.is_key]
            line["identity"] = self._columns(message, message.new, keys)
        return line

    def _columns(self, message: Message, row: SentRow, places: Sequence[int]) -> list[dict[str, Any]]:
        columns = []
        for at in places:
            column, value = message.relation.columns[at], row[at]
            if value is not UNCHANGED:
                kind = format_type(column.sent_as, column.typmod)
                columns.append({"name": column.name, "type": kind, "value": self._value(value, column.type)})
        return columns

    def _value(self, value: Any, typoid: int) -> Any:
        if value is None:
            return None
        text = write_text(value, typoid, self._style)
        if typoid in _NUMBERS:
            return Number(text) if _NUMBER.match(text) else text
        if typoid == oids.BOOL:
            return text == "t"
        return text[2:] if typoid == oids.BYTEA else text
