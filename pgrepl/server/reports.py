"""Errors and notices as messages (send_message_to_frontend)."""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.errors import Report

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
    ("R", "routine"),
)


def body(report: Report, encode: Callable[[str], bytes]) -> bytes:
    """The body of an ErrorResponse or a NoticeResponse."""
    severity = report.severity.encode()
    parts = [b"S" + severity, b"V" + severity]
    for code, name in _FIELDS:
        value = getattr(report, name)
        if value is not None:
            parts.append(code.encode() + encode(str(value)).replace(b"\0", b"?"))
    return b"\0".join(parts) + b"\0\0"


def kind(report: Report) -> bytes:
    return b"E" if report.severity in ("ERROR", "FATAL", "PANIC") else b"N"
