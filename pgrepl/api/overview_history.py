"""A few numbers of each subscription, and of the largest tables, over the last hour and the last day, in a small file
beside the catalog; and in another what a server's Spark does, for `pgrepl status --html`: only the server can ask its
JVM.

The file of numbers is two rings of slots of one size, one with a record of each minute and one of each ten minutes. It
never grows beyond them: with more than a hundred curves it reaches less far back. Each record has a checksum, so that
one which was being written when the machine failed is left out. Nothing depends on the files: they may be removed at
any time.
"""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nlargest
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from pgrepl.api.overview import Overview, TableFacts
    from pgrepl.engine.spark_errors import SparkFacts

_HOUR, _DAY = 3600.0, 86400.0
MINUTE, _TEN_MINUTES = 60.0, 600.0  # between two points of an hour's curve, and of a day's
_RECORD = struct.Struct("<IIQddddd")
_FORM = 1  # begins each checksum: records of another form are not taken for ours
_EARLY = 5.0  # seconds by which a point may come too early
_SLOTS = 8192  # of each minute's records; and as many twice of each ten minutes'
_SIZE = 3 * _SLOTS * _RECORD.size
_TABLES = 20  # the largest ones, which have curves


class Point(NamedTuple):
    """The numbers of a subscription at a moment; NaN: not known."""

    at: float  # seconds since 1970
    seconds: float = nan  # of lag
    behind: float = nan  # bytes of lag
    retained: float = nan  # bytes that the publisher keeps
    changes: float = nan  # rows applied so far


class TablePoint(NamedTuple):
    """The numbers of a table at a moment."""

    at: float
    rows: float
    size: float  # bytes of its files


@dataclass
class _Ring:
    every: float
    span: float
    first: int  # its first slot in the file
    slots: int
    curves: dict[int, deque[Point]] = field(default_factory=dict)
    next: int = 0
    last: float = -1.0  # when its last point was

    def put(self, series: int, point: Point) -> None:
        most = round(self.span / self.every) + 2
        self.curves.setdefault(series, deque(maxlen=most)).append(point)
        self.last = point.at

    def of(self, series: int, since: float) -> list[Point]:
        return [point for point in list(self.curves.get(series, ())) if point.at >= since]

    def forget(self, before: float) -> None:
        """Forget subscriptions and tables that have gone."""
        for series in [series for series, points in self.curves.items() if points[-1].at < before]:
            del self.curves[series]


class History:
    """The numbers in one file, or in memory alone. One process writes it; others may read it meanwhile."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rings = [_Ring(MINUTE, _HOUR, 0, _SLOTS), _Ring(_TEN_MINUTES, _DAY, _SLOTS, 2 * _SLOTS)]
        content = b""
        if path is not None:
            with suppress(OSError):
                content = path.read_bytes()[:_SIZE]
        for ring in self._rings:
            _load(ring, content)

    def hour(self, database: str, name: str, now: float) -> list[Point]:
        return self.spans(now, database, name)[0][0]

    def spans(self, now: float, *names: str) -> list[tuple[list[Point], float, float]]:
        """The points of the last hour and of the last day, their beginning, and the seconds between two points. Those
        of a table, whose names end with "table", are TablePoints in all but name."""
        return [(ring.of(_series(*names), now - ring.span), now - ring.span, ring.every) for ring in self._rings]

    def rate(self, database: str, name: str, now: float) -> float | None:
        """Rows applied in a second, of the last minutes; None: not known."""
        points = [point for point in self.hour(database, name, now)[-3:] if not isnan(point.changes)]
        if len(points) < 2 or points[-1].at - points[0].at > 5 * MINUTE or now - points[-1].at > 5 * MINUTE:
            return None
        return max(0.0, points[-1].changes - points[0].changes) / (points[-1].at - points[0].at)

    def note(self, overview: Overview) -> None:
        """Add a point to each curve that is due."""
        self.add(
            {
                (subscription.status.database, subscription.status.name): Point(
                    overview.at,
                    _number(None if subscription.status.unreachable else subscription.status.seconds),
                    _number(subscription.status.behind),
                    _number(None if subscription.status.retained is None else subscription.status.retained.size),
                    float(subscription.changes),
                )
                for subscription in overview.subscriptions
            },
            {
                (database, table.name): TablePoint(overview.at, float(table.rows), float(table.size))
                for database, table in _largest(overview)
            },
        )

    def add(
        self, points: Mapping[tuple[str, str], Point], of_tables: Mapping[tuple[str, str], TablePoint] | None = None
    ) -> None:
        numbered = {_series(*names): point for names, point in points.items()}
        tables = {_series(*names, "table"): Point(*point) for names, point in (of_tables or {}).items()}
        now = max((point.at for point in (numbered | tables).values()), default=0.0)
        minutes, tens = self._rings
        for ring in self._rings:
            if not 0 <= now - ring.last < ring.every - _EARLY:  # a clock that was set back keeps nothing from it
                due = list(numbered.items())
                if ring is tens:
                    due = [(key, _worst(point, minutes.of(key, now - ring.every))) for key, point in due]
                self._write(ring, [*due, *tables.items()])
                ring.forget(now - ring.span)

    def _write(self, ring: _Ring, points: Iterable[tuple[int, Point]]) -> None:
        for series, point in points:
            ring.put(series, point)
            if self._path is not None:
                with suppress(OSError):  # a full disk: the curves go on in memory
                    _put(self._path, ring.first + ring.next, _packed(series, point))
            ring.next = (ring.next + 1) % ring.slots


def history_path(catalog: object) -> Path | None:
    """The file beside a catalog; None: it is in memory, or on a database server."""
    return None if catalog is None or "://" in str(catalog) else Path(f"{catalog}.history")


def _load(ring: _Ring, content: bytes) -> None:
    records = []
    for slot in range(ring.slots):
        begin = (ring.first + slot) * _RECORD.size
        record = content[begin : begin + _RECORD.size]
        if len(record) < _RECORD.size:
            break
        crc, _, series, *numbers = _RECORD.unpack(record)
        if crc == _checksum(record):
            records.append((slot, series, Point(*numbers)))
    records.sort(key=lambda entry: entry[2].at)
    for _, series, point in records:
        ring.put(series, point)
    ring.next = (records[-1][0] + 1) % ring.slots if records else 0


def _packed(series: int, point: Point) -> bytes:
    record = _RECORD.pack(0, 0, series, *point)
    return _checksum(record).to_bytes(4, "little") + record[4:]


def _checksum(record: bytes) -> int:
    return crc32(record[4:], _FORM)


def _put(path: Path, slot: int, record: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, record, slot * _RECORD.size)
    finally:
        os.close(descriptor)


def _series(*names: str) -> int:
    return int.from_bytes(blake2b("\0".join(names).encode("utf-8", "replace"), digest_size=8).digest(), "little")


def _largest(overview: Overview) -> list[tuple[str, TableFacts]]:
    tables = [(database.name, table) for database in overview.databases for table in database.tables]
    return nlargest(_TABLES, tables, key=lambda entry: (entry[1].size, entry[1].rows))


def _worst(point: Point, before: list[Point]) -> Point:
    """The point with the largest lag of those before it, so that a short one is seen in a day's curve."""

    def most(name: str) -> float:
        known = [value for other in (*before, point) if not isnan(value := getattr(other, name))]
        return max(known, default=nan)

    return point._replace(seconds=most("seconds"), behind=most("behind"), retained=most("retained"))


def _number(value: float | None) -> float:
    return nan if value is None else float(value)


_OLD = 2 * MINUTE  # a file of Spark's that says nothing any more


def facts_path(catalog: object) -> Path | None:
    """The file beside a catalog; None: it is in memory, or on a database server."""
    return None if catalog is None or "://" in str(catalog) else Path(f"{catalog}.spark")


def keep(path: Path | None, facts: SparkFacts | None) -> None:
    """Write the file, or remove it where nothing is known."""
    if path is None:
        return
    with suppress(OSError):  # a full disk: then the page alone has it
        if facts is None:
            path.unlink(missing_ok=True)
            return
        beside = path.with_name(path.name + ".new")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(facts.text())
        beside.replace(path)


def kept(path: Path | None) -> SparkFacts | None:
    """What a server has written lately."""
    if path is None:
        return None
    with suppress(OSError, ValueError, TypeError, KeyError):
        if time.time() - path.stat().st_mtime < _OLD:
            from pgrepl.engine.spark_errors import SparkFacts

            return SparkFacts.read(path.read_text("utf-8"))
    return None
