"""The comparison of one table: digests of its pieces on both sides, then the rows of the pieces that differ. Those that
both sides have are put aside by their hashes, the rest is paired by its key.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any

from pgrepl.engine.copy_rows import CopyPart, KernelColumn
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import JoinedThread
from pgrepl.ground.lazy import np, pa
from pgrepl.replication.comparison.columns import new_seed, row_hashes
from pgrepl.replication.comparison.found import DIFFERENT, EXTRA, MISSING, Difference, Progress, TableComparison, Texts
from pgrepl.replication.comparison.pieces import Digests, KeyPieces
from pgrepl.replication.comparison.sides import LocalTable, Portion, Side, chosen, digest_in_parts, side_of
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.types.builtin import base_type
from pgrepl.types.text import read_text
from pgrepl.types.values import hash_form

if TYPE_CHECKING:
    from pgrepl.replication.comparison.sides import Row
    from pgrepl.replication.publisher.tables import TableAtLsn

_TOGETHER = 100_000  # rows of pieces that differ, looked at together


@dataclass
class Compared:
    """A table of both sides, ready to be compared."""

    found: TableComparison
    local: LocalTable
    key: tuple[int, ...]
    side: Side
    seed: int
    unjudged: frozenset[str]  # kinds of differences
    size: int  # rows of both sides, about

    @classmethod
    def of(cls, table: TableAtLsn, local: LocalTable, operations: Collection[str], others: bool) -> Compared:
        """`operations`: what is published; `others`: whether other subscriptions fill the table, too."""
        key = local.key
        names = tuple([attribute.name for attribute in local.attributes])
        if not key and set(table.key) <= set(names):
            key = tuple([names.index(name) for name in table.key])
        seed = new_seed()
        comparison = TableComparison(local.relation.qualified_name, names, tuple([names[place] for place in key]))
        unjudged, said = _unjudged(set(operations), others)
        comparison.unjudged = said
        return cls(comparison, local, key, side_of(table, local, seed), seed, unjudged, 2 * table.estimate)

    # --- digests ------------------------------------------------------------------------------------------------------

    def compare(
        self,
        snapshot: int,
        limit: int | None,
        progress: Progress,
        known: Collection[int] = (),
        equal: Callable[[int], None] = lambda number: None,
    ) -> None:
        """Look for differences, up to a limit. `known`: pieces that are left out; `equal` is told of those that are
        equal."""
        comparison, pieces, known = self.found, self.side.pieces, frozenset(known)
        comparison.pieces, comparison.known = pieces.count, len(known)
        wanted = [number for number in range(pieces.count) if number not in known]
        there, here = Digests(pieces.count), Digests(pieces.count)
        hashed = self.side.digests(wanted, there, lambda rows: progress.looked(comparison.name, rows))
        with _ahead(self.side, hashed) as complete:
            bounds = pieces.bounds(wanted) if isinstance(pieces, KeyPieces) and known else None
            self._digest(snapshot, bounds, here, lambda rows: progress.looked(comparison.name, rows))
            for number in complete:
                if (there.counts[number], there.sums[number]) == (here.counts[number], here.sums[number]):
                    equal(number)
        chosen = np.array(wanted, np.int64)
        comparison.rows_there, comparison.rows_here = int(there.counts[chosen].sum()), int(here.counts[chosen].sum())
        comparison.differing = [number for number in there.differing(here) if number not in known]
        sizes = np.maximum(there.counts, here.counts)
        for group in _groups(comparison.differing, sizes):
            self._look(group, snapshot)
            if limit is not None and len(comparison.differences) > limit:
                comparison.is_complete = False
                del comparison.differences[limit:]
                return
        if comparison.differing and not comparison.differences and not self.unjudged:
            raise PgError("XX000", f'hashes of table "{comparison.name}" differ, and none of its rows does')

    def _digest(
        self, snapshot: int, bounds: tuple[int, Any, Any] | None, digests: Digests, count: Callable[[int], None]
    ) -> None:
        """Add the rows here to the digests; `count` is told how many, as they come."""
        local, side = self.local, self.side
        choice = chosen(local, self.size // 2)
        if choice is not None:
            sources = []
            for table, numbers, rows in local.sources(snapshot, bounds):
                columns = tuple([KernelColumn(number, number) for number in numbers])
                sources.append((CopyPart((), table, None, table, columns, None, (), ""), rows))
            digest_in_parts(local, sources, side.columns, side.pieces, self.seed, digests, choice.engine, count)
            return
        for hashes, portion, numbers in self._here(snapshot, bounds):
            digests.add(numbers, hashes)
            count(portion.count)

    def look_again(self, snapshot: int, wanted: Sequence[int]) -> None:
        """Look for the differences in some ranges of the key alone."""
        for start in range(0, len(wanted), 8):
            self._look(wanted[start : start + 8], snapshot)

    def _here(self, snapshot: int, bounds: tuple[int, Any, Any] | None = None) -> Iterator[tuple[Any, Portion, Any]]:
        local, side = self.local, self.side
        for portion in local.portions(snapshot, bounds):
            interrupts.check_for_interrupts()
            hashes = row_hashes(side.columns, portion.arrays, portion.forms, self.seed, portion.count, local.style)
            yield hashes, portion, side.pieces.numbers([portion.arrays[n] for n in side.pieces.key], hashes)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _look(self, wanted: Sequence[int], snapshot: int) -> None:
        comparison, pieces = self.found, self.side.pieces
        rows = LocalRows(self.local)
        bounds = pieces.bounds(wanted) if isinstance(pieces, KeyPieces) else None
        for hashes, portion, numbers in self._here(snapshot, bounds):
            chosen = np.flatnonzero(np.isin(numbers, wanted))
            if len(chosen):
                rows.add(hashes, portion, chosen)
        missing, extra = unmatched(self.side.rows(wanted), rows)
        for difference in paired(self.local, self.key, missing, extra):
            if difference.kind not in self.unjudged:
                comparison.counts[difference.kind] += 1
                comparison.differences.append(difference)


def _unjudged(operations: set[str], others: bool) -> tuple[frozenset[str], tuple[str, ...]]:
    """The kinds of differences that replication would not undo, and why."""
    kinds, said = set(), []
    if "insert" not in operations:
        kinds.add(MISSING)
        said.append("missing rows, as inserts are not published")
    if "update" not in operations:
        kinds.add(DIFFERENT)
        said.append("different rows, as updates are not published")
    unpublished = [f"{name}s" for name in ("delete", "truncate") if name not in operations]
    if unpublished:
        kinds.add(EXTRA)
        said.append(f"extra rows, as {' and '.join(unpublished)} are not published")
    elif others:
        kinds.add(EXTRA)
        said.append("extra rows, as other subscriptions bring rows, too")
    return frozenset(kinds), tuple(said)


def _groups(pieces: Sequence[int], sizes: Any) -> Iterator[list[int]]:
    """Pieces that are looked at together: few ranges, or few rows."""
    group: list[int] = []
    size = 0
    for number in pieces:
        if group and size + int(sizes[number]) > _TOGETHER:
            yield group
            group, size = [], 0
        group.append(number)
        size += int(sizes[number])
    if group:
        yield group


@contextmanager
def _ahead(side: Side, numbers: Generator[int, None, None]) -> Iterator[Iterator[int]]:
    """The numbers of complete pieces. A server hashes in threads, while this side does, and is not asked any more when
    this ends: its connections are free then. What needs a session is done when the numbers are asked for."""
    if not side.is_apart:
        yield numbers
        return
    queue: SimpleQueue[int | None] = SimpleQueue()
    problems: list[BaseException] = []
    over = Event()

    def run() -> None:
        try:
            for number in numbers:
                queue.put(number)
                if over.is_set():
                    return
        except BaseException as problem:
            problems.append(problem)
        finally:
            numbers.close()
            queue.put(None)

    def taken() -> Iterator[int]:
        while (number := queue.get()) is not None:
            yield number
        for problem in problems:
            raise problem

    thread = JoinedThread(run, "pgrepl-compare-ahead")
    thread.start()
    try:
        yield taken()
    except BaseException as problem:
        if not isinstance(problem, Exception) or (isinstance(problem, PgError) and problem.sqlstate == "57014"):
            side.stop()  # other errors are of this table alone
        raise
    finally:
        over.set()
        thread.join()


# --- differences ------------------------------------------------------------------------------------------------------


class LocalRows:
    """Rows of this side's, of some pieces: their hashes, and their columns until it is known which are wanted."""

    def __init__(self, local: LocalTable) -> None:
        self._local = local
        self._portions: list[tuple[Any, Portion]] = []

    def add(self, hashes: Any, portion: Portion, chosen: Any) -> None:
        arrays = [array.take(pa.array(chosen)) for array in portion.arrays]
        self._portions.append((hashes[chosen], Portion(arrays, portion.forms, len(chosen))))

    def counts(self) -> dict[int, int]:
        """The number of rows with each hash."""
        if not self._portions:
            return {}
        distinct, counts = np.unique(np.concatenate([hashes for hashes, _ in self._portions]), return_counts=True)
        return dict(zip(distinct.tolist(), counts.tolist(), strict=True))

    def left(self, counts: dict[int, int]) -> Iterator[Texts]:
        """So many rows with these hashes."""
        wanted = np.fromiter(counts, np.uint64, len(counts))
        for hashes, portion in self._portions:
            chosen = []
            for place in np.flatnonzero(np.isin(hashes, wanted)).tolist():
                hash = int(hashes[place])
                if counts[hash]:
                    counts[hash] -= 1
                    chosen.append(place)
            if chosen:
                yield from self._local.portion_texts(portion, np.array(chosen, np.int64))


def unmatched(there: Iterator[Row], here: LocalRows) -> tuple[list[Texts], list[Texts]]:
    """The rows that only the publisher has, as they are sent, and those that only this side has."""
    counts = here.counts()
    missing = []
    for hash, sent in there:
        if counts.get(hash, 0):
            counts[hash] -= 1
        else:
            missing.append(sent)
    return missing, list(here.left({hash: count for hash, count in counts.items() if count}))


def paired(
    local: LocalTable, key: Sequence[int], missing: Sequence[Texts], extra: Sequence[Texts]
) -> Iterator[Difference]:
    """Differences of the rows that have no equal on the other side. Without a key a row has no counterpart."""
    found_key = key_of(local, key)
    waiting: defaultdict[Any, deque[Texts]] = defaultdict(deque)
    for row in extra:
        waiting[found_key(row)].append(row)
    for sent in missing:
        there = local.texts_of(local.becomes(sent))
        same = found_key(there)
        here = waiting[same].popleft() if key and waiting.get(same) else None
        yield Difference(MISSING if here is None else DIFFERENT, same, there, here, sent)
    for same, rows in waiting.items():
        for row in rows:
            yield Difference(EXTRA, same, here=row)


def key_of(local: LocalTable, key: Sequence[int]) -> Callable[[Texts], Any]:
    """Texts of a row → its key, so that equal keys are equal; without a key its texts."""
    if not key:
        return lambda row: row
    types = [(place, base_type(local.attributes[place].type)) for place in key]
    forms = [(place, typoid, hash_form(typoid)) for place, typoid in types]

    def found(row: Texts) -> Any:
        return tuple(
            [None if (text := row[place]) is None else form(_value(text, typoid)) for place, typoid, form in forms]
        )

    return found


def _value(text: str, typoid: int) -> Any:
    return read_text(text, typoid, -1, WIRE_STYLE)
