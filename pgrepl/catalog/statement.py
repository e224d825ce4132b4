"""The SQL of `store` for one table, and the conversion of values to parameters and of columns to values.

Values are stored as SQLAlchemy does: JSON as text, booleans in SQLite as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import sums

if TYPE_CHECKING:
    from pgrepl.catalog.declarative import SystemTable

Convert = Callable[[Any], Any]
Where = tuple[
    tuple[str, int], ...
]  # each column with the number of its values: 1 for =, more for IN; 0 NULL, -1 NOT NULL

AS_OF = "as_of"  # the parameter of a SELECT with the snapshot to read


def _lsn_in(value: int) -> int:
    """An LSN as it is stored: of its unsigned 64 bits the upper half are negative numbers."""
    return value - 2**64 if value >= 2**63 else value


def _lsn_out(value: int) -> int:
    return value + 2**64 if value < 0 else value


def _text(value: Any) -> str:
    """A value of a server's own type, such as uuid, as the text that it is in SQLite."""
    return value if isinstance(value, str) else str(value)


_INTO: dict[str, Convert] = {"Json": json.dumps, "Lsn": _lsn_in}
_OUT_OF: dict[str, Convert] = {"Lsn": _lsn_out}
_INTO_SQLITE: dict[str, Convert] = {**_INTO, "Bool": int, "Truth": int}
_OUT_OF_SQLITE: dict[str, Convert] = {**_OUT_OF, "Json": json.loads, "Bool": bool, "Truth": bool}
_OUT_OF_SERVER: dict[str, Convert] = {**_OUT_OF, "Moment": _text, "Uuid": _text}


class Statement:
    """A statement: `names` of its parameters, in order; `readers` convert columns that are not NULL; `summed` gives of
    the parameters of an INSERT, and a NULL behind them, the row as its checksum is of (sums.py)."""

    __slots__ = ("_binders", "_taken", "names", "readers", "sql", "summed")

    def __init__(
        self, action: str, table: SystemTable, names: tuple[str, ...], where: Where, *, is_sqlite: bool
    ) -> None:
        self.names: list[str] = []
        self._binders: list[tuple[int, Convert]] = []
        self.readers: list[tuple[int, Convert]] = []
        into = _INTO_SQLITE if is_sqlite else _INTO

        def parameter(name: str, column: str) -> str:
            convert = into.get(table.kind(column))
            if convert is not None:
                self._binders.append((len(self.names), convert))
            self.names.append(name)
            return "?"

        if action == "select":
            out = _OUT_OF_SQLITE if is_sqlite else _OUT_OF_SERVER
            kinds = enumerate(map(table.kind, table.columns))
            self.readers = [(position, out[kind]) for position, kind in kinds if kind in out]
            start = f"SELECT {_listed(table.columns)} FROM {table.name}"
        elif action == "insert":
            values = ", ".join([parameter(name, name) for name in names])
            places = {name: place for place, name in enumerate(names)}
            self.summed = itemgetter(*[places.get(name, len(names)) for name in sums.names(table)])
            start = f"INSERT INTO {table.name} ({_listed(names)}) VALUES ({values})"
        elif action == "update":
            start = f"UPDATE {table.name} SET " + ", ".join([f'"{name}" = {parameter(name, name)}' for name in names])
        else:
            start = f"DELETE FROM {table.name}"
        conditions: list[str] = []
        for name, many in where:
            if many <= 0:
                conditions.append(f'"{name}" IS {"NOT " if many else ""}NULL')
            elif many == 1:
                conditions.append(f'"{name}" = {parameter(f"w_{name}", name)}')
            else:
                members = ", ".join([parameter(f"w_{name}_{i}", name) for i in range(many)])
                conditions.append(f'"{name}" IN ({members})')
        if action == "select" and AS_OF in names:
            begin, end = (parameter(AS_OF, "begin_snapshot") for _ in range(2))
            conditions.append(f"begin_snapshot <= {begin} AND (end_snapshot IS NULL OR end_snapshot > {end})")
        elif table.versioned and action != "insert" and "row_version" not in dict(where):
            conditions.append("end_snapshot IS NULL")
        self.sql = f"{start} WHERE {' AND '.join(conditions)}" if conditions else start
        self._taken = _taker(self.names)

    def bind(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        taken = self._taken(values)
        if not self._binders:
            return taken
        given = [*taken]
        for place, convert in self._binders:
            if given[place] is not None:
                given[place] = convert(given[place])
        return tuple(given)


def _taker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """The values of these names."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])


def _listed(columns: Any) -> str:
    return ", ".join([f'"{column}"' for column in columns])
