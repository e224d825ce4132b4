"""EXPLAIN (ANALYZE, SERIALIZE): the rows are brought into the form in which a client would get them, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pgrepl.query.run import as_text
from pgrepl.types.binary import sender

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.query.result import Result

_HEAD, _LENGTH = 2, 4  # bytes: the number of a row's values, the length of each


@dataclass
class Serialization:
    """What the rows of a statement are as DataRow messages (serializeAnalyzeReceive). `format`: text or binary."""

    session: Session
    format: str
    size: int = 0
    seconds: float = 0.0

    @property
    def is_binary(self) -> bool:
        return self.format == "binary"

    def add(self, rows: Iterable[Sequence[Any]], types: Sequence[int]) -> None:
        """Rows of values."""
        began = perf_counter()
        if not self.is_binary:
            self._add_texts(as_text(map(tuple, rows), types, self.session.text_style))
        else:
            send = [sender(self.session.type_of(typoid), self.session.text_style.encoding) for typoid in types]
            for row in rows:
                self._count([None if v is None else make(v) for make, v in zip(send, row, strict=True)])
        self.seconds += perf_counter() - began

    def add_result(self, result: Result) -> None:
        """The rows that a statement returned."""
        types = [column.type for column in result.columns or ()]
        if result.values is not None:
            self.add(result.values, types)
        elif self.is_binary:
            self.add([[getattr(item, "value", item) for item in row] for row in result.rows], types)
        else:
            began = perf_counter()
            self._add_texts(result.rows)
            self.seconds += perf_counter() - began

    def _add_texts(self, rows: Iterable[Sequence[str | None]]) -> None:
        for row in rows:
            self._count([None if text is None else text.encode() for text in row])

    def _count(self, values: Sequence[bytes | None]) -> None:
        self.size += _HEAD + sum(_LENGTH + len(value or b"") for value in values)
