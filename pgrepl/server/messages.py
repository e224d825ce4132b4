"""Result rows, parameters, errors and notices as messages, text or binary (printtup.c, send_message_to_frontend).

The fields F, L and R of errors and notices (errfinish) are a file and a line of pgrepl, and its function; R is
PostgreSQL's function where programs look for it (`RevalidateCachedQuery`, `_bt_check_unique`).
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

from pgrepl.ground.errors import PgError, Report
from pgrepl.query.result import Result, ResultColumn, ValueText
from pgrepl.server.channel import Body
from pgrepl.types import oids
from pgrepl.types.binary import receives, sends
from pgrepl.types.binary_scalars import BinaryMessage
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.input_checks import zero_byte
from pgrepl.types.names import format_type
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text, writer

_FIELD = struct.Struct("!IhIhih")
_INT16, _INT32 = struct.Struct("!h"), struct.Struct("!i")
_NULL = _INT32.pack(-1)
_TAIL = 6  # bytes of a DataRow before its values: length and count

# types whose binary form is their text, in the client's encoding
TEXTS = frozenset((oids.UNKNOWN, oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.JSON))

Encode = Callable[[str], bytes]
Format = Callable[[Any], bytes]


def description(columns: Sequence[ResultColumn], formats: Sequence[int], encode: Encode) -> bytes:
    """The body of a RowDescription. `formats`: none, one for all, or one for each column."""
    parts = [_INT16.pack(len(columns))]
    for column, form in zip(columns, _for_each(formats, len(columns)), strict=True):
        kind = type_by_oid(column.type)
        length = kind.len if kind is not None else -1
        parts.append(
            encode(column.name) + b"\0" + _FIELD.pack(*column.origin, column.type, length, column.typmod, form)
        )
    return b"".join(parts)


def check_count(formats: Sequence[int], count: int) -> None:
    """One format for all columns, or one each (PortalSetResultFormat); what the formats are is not looked at."""
    if len(formats) > 1 and len(formats) != count:
        raise PgError("08P01", f"bind message has {len(formats)} result formats but query has {count} columns")


def _for_each(formats: Sequence[int], count: int) -> Sequence[int]:
    check_count(formats, count)
    return list(formats) * count if len(formats) == 1 else list(formats) or [0] * count


def each_format(formats: Sequence[int], count: int) -> Sequence[int]:
    """The format of each column: 0 text, 1 binary."""
    column_formats = _for_each(formats, count)
    wrong = next((form for form in column_formats if form not in (0, 1)), None)
    if wrong is not None:
        raise PgError("22023", f"unsupported format code: {wrong}")
    return column_formats


class RowEncoder:
    """Makes DataRow messages of a result's rows."""

    def __init__(
        self, columns: Sequence[ResultColumn], formats: Sequence[int], style: TextStyle, encode: Encode
    ) -> None:
        self._encode = encode
        self._binary = [bool(form) for form in each_format(formats, len(columns))]
        self._head = _INT16.pack(len(columns))
        self._from_text = [
            binary_form(c.type, style, encode) if b else None for c, b in zip(columns, self._binary, strict=True)
        ]

    def rows(self, result: Result) -> Iterator[bytes]:
        """The messages of all rows; the text of a value is made by the statement already."""
        return self.messages(result.rows)

    def messages(self, rows: Iterable[Sequence[str | None]]) -> Iterator[bytes]:
        encode, pack, head = self._encode, _INT32.pack, self._head
        if not any(self._binary):
            for row in rows:
                parts = [head]
                size = _TAIL
                for text in row:
                    if text is None:
                        parts.append(_NULL)
                        size += 4
                    else:
                        data = encode(text)
                        parts.append(pack(len(data)))
                        parts.append(data)
                        size += 4 + len(data)
                yield b"D" + pack(size) + b"".join(parts)
            return
        for row in rows:
            values = [
                None if text is None else encode(text) if send is None else send(text)
                for text, send in zip(row, self._from_text, strict=True)
            ]
            body = head + b"".join([_NULL if v is None else pack(len(v)) + v for v in values])
            yield b"D" + pack(len(body) + 4) + body


def binary_form(typoid: int, style: TextStyle, encode: Encode) -> Format:
    """What makes the binary form of a value whose text is known."""
    if typoid in TEXTS:
        return encode
    send = sends(typoid, style.encoding)
    if send is None:
        raise no_binary_output(typoid)
    return lambda text: send(value_of(text, typoid, style))


def value_of(text: str, typoid: int, style: TextStyle) -> Any:
    """The value that a text of a result stands for."""
    return text.value if isinstance(text, ValueText) else read_text(text, typoid, -1, style)


def no_binary_output(typoid: int) -> PgError:
    return PgError("42883", f"no binary output function available for type {format_type(typoid)}")


# --- arguments --------------------------------------------------------------------------------------------------------


class Decoder(Protocol):
    def decode(self, data: bytes) -> str: ...


def counted(body: Body) -> int:
    """A number of things that follow."""
    return int.from_bytes(body.take(2), "big")


def formats_for(formats: list[int], count: int) -> list[int]:
    """The format of each value: none is given, one for all, or one for each."""
    return formats * count if len(formats) == 1 else formats or [0] * count


def text_of(client: Decoder, value: bytes, typoid: int, form: int, style: TextStyle, where: str) -> str:
    """The text of a value, which a statement reads; `where` names it in errors."""
    if form not in (0, 1):
        raise PgError("22023", f"unsupported format code: {form}")
    if form == 0 or typoid in TEXTS:
        text = client.decode(value)
        if "\0" in text:
            raise zero_byte(style.encoding)
        return text
    receive = receives(typoid)
    if receive is None:
        raise PgError("42883", f"no binary input function available for type {format_type(typoid)}")
    message = BinaryMessage(value)
    received = receive(message, -1, style)
    if not message.is_read:
        raise PgError("22P03", f"incorrect binary data format in {where}")
    return writer(typoid)(received, style)


# --- reports ----------------------------------------------------------------------------------------------------------


_FIELDS = (
    ("C", "sqlstate"),
    ("M", "message"),
    ("D", "detail"),
    ("H", "hint"),
    ("W", "context"),
    ("s", "schema"),
    ("t", "table"),
    ("c", "column"),
    ("d", "datatype"),
    ("n", "constraint"),
    ("P", "position"),
    ("p", "internal_position"),
    ("q", "internal_query"),
)


def of_error(error: PgError, encode: Encode) -> bytes:
    """The body of an ErrorResponse."""
    return _body(error.report, source_of(error), encode)


def of_notice(report: Report, encode: Encode) -> bytes:
    """The body of a NoticeResponse."""
    return _body(report, source_of_report(report), encode)


def _body(report: Report, source: Source, encode: Encode) -> bytes:
    severity = report.severity.encode()
    parts = [b"S" + severity, b"V" + severity]
    for code, name in _FIELDS:
        value = getattr(report, name)
        if value is not None:
            parts.append(code.encode() + encode(str(value)).replace(b"\0", b"?"))
    parts += [code + encode(str(value)) for code, value in zip((b"F", b"L", b"R"), source, strict=True)]
    return b"\0".join(parts) + b"\0\0"


def kind(report: Report) -> bytes:
    return b"E" if report.severity in ("ERROR", "FATAL", "PANIC") else b"N"


# by SQLSTATE and how the message begins
_ROUTINES = (
    ("0A000", "cached plan must not change result type", "RevalidateCachedQuery"),
    ("22001", "value too long for type character varying", "varchar"),
    ("22P02", "invalid input syntax for type boolean", "boolin"),
    ("22P02", "invalid input syntax for type integer", "pg_strtoint32_safe"),
    ("22P02", "invalid input syntax for type numeric", "numeric_in"),
    ("22P02", "invalid input syntax for type uuid", "string_to_uuid"),
    ("22P02", "invalid input value for enum", "enum_in"),
    ("23502", "null value in column", "ExecConstraints"),
    ("23503", "", "ri_ReportViolation"),
    ("23505", "duplicate key value", "_bt_check_unique"),
    ("23514", "new row for relation", "ExecConstraints"),
    ("23514", "no partition of relation", "ExecFindPartition"),
    ("23514", "value for domain", "ExecEvalConstraintCheck"),
    ("26000", "prepared statement", "FetchPreparedStatement"),
    ("28P01", "password authentication failed", "auth_failed"),
    ("2BP01", "cannot drop", "reportDependentObjects"),
    ("40P01", "", "DeadLockReport"),
    ("42501", "", "aclcheck_error"),
    ("42601", "syntax error", "scanner_yyerror"),
    ("42702", "column reference", "colNameToVar"),
    ("42804", "column .* but expression is of type", "transformAssignedExpr"),
    ("42883", "function", "ParseFuncOrColumn"),
    ("42883", "operator does not exist", "op_error"),
    ("42P01", "missing FROM-clause entry", "errorMissingRTE"),
    ("42P02", "there is no parameter", "transformParamRef"),
    ("42P05", "prepared statement", "StorePreparedStatement"),
    ("42P06", "schema", "NamespaceCreate"),
    ("42P07", "relation", "heap_create_with_catalog"),
    ("57014", "canceling statement", "ProcessInterrupts"),
    ("57P01", "terminating connection", "ProcessInterrupts"),
    ("P0001", "", "exec_stmt_raise"),
)
# of names in a query, by the module that looks for them; definitions have other functions
_ROUTINES_OF_NAMES = {
    ("42P01", "expr/analyse/queries/query.py"): "parserOpenTable",
    ("42703", "expr/analyse/analyze.py"): "errorMissingColumn",
}
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_PASSING = frozenset(("notice", "of_notice", "on_report", "report"))  # functions that hand a report on


class Source(NamedTuple):
    file: str
    line: int
    routine: str


def source_of(error: PgError) -> Source:
    """The place where an error was raised; of one that is only told, the place where that is done."""
    places: list[tuple[CodeType, int]] = []
    step = error.__traceback__
    while step is not None:
        places.append((step.tb_frame.f_code, step.tb_lineno))
        step = step.tb_next
    source = _nearest(places[::-1]) if places else source_of_report(error.report)
    return source._replace(routine=_known(error.report, source.file) or source.routine)


def source_of_report(report: Report) -> Source:
    """The place where a report is made that is being sent."""
    places: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if places or (frame.f_code.co_name not in _PASSING and frame.f_code.co_filename != __file__):
            places.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return _nearest(places)


def _nearest(places: list[tuple[CodeType, int]]) -> Source:
    """The first of the places, outwards, with the name of the function: of what is nameless that around it."""
    code, line = places[0]
    names = (place[0].co_name for place in places)
    named = (name for name in names if name.isidentifier() and name != "_")
    return Source(os.path.relpath(code.co_filename, _PACKAGE), line, next(named, code.co_name))


def _known(report: Report, file: str) -> str | None:
    for sqlstate, begin, routine in _ROUTINES:
        if sqlstate == report.sqlstate and re.match(begin, report.message):
            return routine
    return _ROUTINES_OF_NAMES.get((report.sqlstate, file))
