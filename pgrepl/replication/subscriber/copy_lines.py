"""The CONTEXT of errors of an initial copy."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.replication.subscriber.apply.target import IncorrectBinary
from pgrepl.replication.wire.messages import Row, SentRelation
from pgrepl.replication.wire.text import WIRE_STYLE
from pgrepl.types.text import write_text

_ESCAPES = str.maketrans({"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"})
_SHOWN = 100  # bytes of a line that a CONTEXT shows


class Lines:
    """The CONTEXT of an error: its line of COPY's data (CopyFromErrorCallback). Binary data are not shown."""

    def __init__(self, table: str, sent: SentRelation, *, binary: bool) -> None:
        self.binary = binary
        self._table = table
        self._columns = sent.columns

    def of_number(self, error: PgError, line: int, more: str = "") -> PgError:
        error.report = replace(error.report, position=None)
        return error.with_context(f"COPY {self._table}, line {line}{more}")

    def of_row(self, error: PgError, line: int, row: Row) -> PgError:
        if self.binary:
            return self.of_number(error, line)
        text = "\t".join(_field(value, column.type) for value, column in zip(row, self._columns, strict=True))
        return self.of_number(error, line, f': "{_limited(text)}"')

    def of_column(self, error: PgError, line: int, name: str | None, row: Row) -> PgError:
        if isinstance(error, IncorrectBinary):
            error = PgError(error.sqlstate, "incorrect binary data format")
        for value, column in zip(row, self._columns, strict=True):
            if column.name == name:
                shown = "" if self.binary else f': "{_limited(write_text(value, column.type, WIRE_STYLE))}"'
                return self.of_number(error, line, f", column {name}{shown}")
        return self.of_number(error, line)


def _field(value: object, typoid: int) -> str:
    """The value in COPY's text format, which PostgreSQL's worker receives."""
    return "\\N" if value is None else write_text(value, typoid, WIRE_STYLE).translate(_ESCAPES)


def _limited(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= _SHOWN else raw[:_SHOWN].decode(errors="ignore") + "..."
