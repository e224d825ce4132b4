"""Errors and notices as messages (send_message_to_frontend)."""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.errors import PgError, Report
from pgrepl.server import source
from pgrepl.server.source import Source

Encode = Callable[[str], bytes]

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
    return _body(error.report, source.of_error(error), encode)


def of_notice(report: Report, encode: Encode) -> bytes:
    """The body of a NoticeResponse."""
    return _body(report, source.of_report(report), encode)


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
