"""The file in which a comparison keeps what it has found equal, so that it can go on after it was stopped.

A range of a key counts as equal as of the LSN at which it was compared. What has changed since then is not known; the
result says how many ranges were left out. A table that is not divided by ranges is kept as a whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.replication.comparison.pieces import KeyPieces
from pgrepl.replication.publisher.tables import Bound, KeyRange
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.comparison.table import Compared

_VERSION = 1
_OFTEN = 1.0  # seconds between two writes


class Known:
    """The pieces of one table that are known to be equal."""

    def __init__(self, file: ProgressFile, compared: Compared, lsn: int) -> None:
        self._file, self._compared, self._lsn = file, compared, lsn
        self._kept: dict[str, Any] = file.tables.setdefault(compared.found.name, {})
        if self._kept.get("columns") != list(compared.found.columns):
            self._kept.clear()
        self._kept.setdefault("columns", list(compared.found.columns))
        self._equal: dict[str, str] = self._kept.setdefault("equal", {})
        pieces = compared.side.pieces
        if isinstance(pieces, KeyPieces):
            pieces.take_over(list(map(_read, self._kept.get("ranges", []))))
            self._kept["ranges"] = [_written(each) for each in pieces.ranges]
        self.numbers = [number for number in range(pieces.count) if self._name(number) in self._equal]

    def _name(self, number: int) -> str:
        pieces = self._compared.side.pieces
        return json.dumps(_written(pieces.ranges[number])) if isinstance(pieces, KeyPieces) else ""

    def equal(self, number: int) -> None:
        if isinstance(self._compared.side.pieces, KeyPieces):
            self._equal[self._name(number)] = lsn_text(self._lsn)
            self._file.write_now_and_then()

    def end(self) -> None:
        found = self._compared.found
        if found.is_equal and found.is_complete and not isinstance(self._compared.side.pieces, KeyPieces):
            self._equal[""] = lsn_text(self._lsn)


class ProgressFile:
    def __init__(self, path: Path, subscription: str) -> None:
        self._path, self._subscription = path, subscription
        self._written = 0.0
        self.tables: dict[str, Any] = {}
        try:
            kept = json.loads(path.read_text()) if path.exists() and path.stat().st_size else {}
        except (OSError, ValueError) as problem:
            raise PgError("58030", f'could not read file "{path}": {problem}') from problem
        if kept:
            if not isinstance(kept, dict) or kept.get("pgrepl_compare") != _VERSION:
                raise PgError("22023", f'file "{path}" does not hold the progress of a comparison')
            if kept.get("subscription") != subscription:
                raise PgError("22023", f'file "{path}" is of subscription "{kept.get("subscription")}"')
            self.tables = kept["tables"]
        self.write()

    @contextmanager
    def of(self, compared: Compared, lsn: int) -> Iterator[Known]:
        known = Known(self, compared, lsn)
        try:
            yield known
            known.end()
        finally:
            self.write()

    def write_now_and_then(self) -> None:
        if time.monotonic() > self._written + _OFTEN:
            self.write()

    def write(self) -> None:
        made = {"pgrepl_compare": _VERSION, "subscription": self._subscription, "tables": self.tables}
        beside = self._path.with_name(self._path.name + ".new")
        try:
            beside.write_text(json.dumps(made))
            beside.replace(self._path)
        except OSError as problem:
            raise PgError("58030", f'could not write file "{self._path}": {problem}') from problem
        self._written = time.monotonic()


def _written(one: KeyRange) -> list[str | None]:
    return [None if end is None else end.text() for end in (one.lower, one.upper)]


def _read(ends: list[str | None]) -> KeyRange:
    lower, upper = (None if end is None else Bound.read(end) for end in ends)
    return KeyRange(lower, upper)
