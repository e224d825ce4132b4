"""What a comparison finds of a table, and who is told of its progress."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.replication.comparison.pieces import KeyPieces
from pgrepl.replication.publisher.tables import Bound, KeyRange
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.comparison.table import Compared

Texts = tuple[str | None, ...]  # of the columns of a row
KINDS = MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"


@frozen
class Difference:
    """A row that is missing here, is here too many, or differs. `there`: its texts as it ought to be here; `sent`: as
    the publisher sends it; `here`: as it is."""

    kind: str
    key: Any  # of the values of the key, or of the whole row; equal for equal rows
    there: Texts | None = None
    here: Texts | None = None
    sent: Texts | None = None

    @property
    def texts(self) -> Texts:
        found = self.here if self.there is None else self.there
        assert found is not None
        return found

    def differing(self) -> list[int]:
        """The places of the columns that differ."""
        if self.there is None or self.here is None:
            return []
        return [n for n, (one, other) in enumerate(zip(self.there, self.here, strict=True)) if one != other]


@dataclass
class TableComparison:
    """What is found of a table."""

    name: str
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()  # none: whole rows are compared
    rows_there: int = 0
    rows_here: int = 0
    differences: list[Difference] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    pieces: int = 0
    differing: list[int] = field(default_factory=list)  # the pieces that differ
    known: int = 0  # pieces that an earlier run has found equal, and this one has not looked at
    is_complete: bool = True  # whether all differences were looked for
    unjudged: tuple[str, ...] = ()  # what replication does not bring, so that it is no difference
    error: PgError | None = None  # why it could not be told

    @property
    def is_equal(self) -> bool:
        return self.error is None and not any(self.counts.values())


class Progress:
    """Told of the rows that both sides have looked at; others override its methods."""

    def begins(self, table: str, rows: int) -> None:
        """A table of about so many rows."""

    def looked(self, table: str, rows: int) -> None:
        """So many more rows."""

    def ends(self, found: TableComparison) -> None: ...


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
