"""A statement that SQLAlchemy has compiled, for who hands it to the driver himself: SQLAlchemy's own execution of a
statement costs more than SQLite takes for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Double

if TYPE_CHECKING:
    from sqlalchemy import Column
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql import ClauseElement


class Compiled:
    """Its text, and how values become parameters and columns become values."""

    __slots__ = ("_binders", "_positional", "names", "readers", "sql")

    def __init__(self, clause: ClauseElement, columns: Iterable[Column[Any]], dialect: Dialect) -> None:
        compiled: Any = clause.compile(dialect=dialect)
        self.sql = str(compiled)
        positions: Any = compiled.positiontup if getattr(compiled, "positional", False) else None
        self._positional = positions is not None
        self.names: tuple[str, ...] = tuple(positions if positions is not None else compiled.params)
        self._binders: dict[str, Callable[[Any], Any]] = {}
        for name, bound in compiled.binds.items():
            processor = bound.type.dialect_impl(dialect).bind_processor(dialect)
            if processor is not None:
                self._binders[name] = processor
        self.readers: list[tuple[int, Callable[[Any], Any]]] = []
        for position, column in enumerate(columns):
            if isinstance(column.type, Double):  # drivers give floats as they are; psycopg's would ask for their type
                continue
            reader = column.type.dialect_impl(dialect).result_processor(dialect, None)
            if reader is not None:
                self.readers.append((position, reader))

    def bind(self, values: Mapping[str, Any]) -> Any:
        if self._binders:
            values = {k: self._binders[k](v) if k in self._binders else v for k, v in values.items()}
        if self._positional:
            return tuple([values[name] for name in self.names])
        return values
