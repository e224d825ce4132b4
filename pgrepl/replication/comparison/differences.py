"""The rows of pieces whose digests differ: those that both sides have are put aside by their hashes, the rest is paired
by its key."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.ground.lazy import np, pa
from pgrepl.replication.comparison.found import DIFFERENT, EXTRA, MISSING, Difference, Texts
from pgrepl.replication.comparison.local_table import LocalTable, Portion
from pgrepl.replication.wire.text import WIRE_STYLE
from pgrepl.types.builtin import base_type
from pgrepl.types.text import read_text
from pgrepl.types.values import hash_form

if TYPE_CHECKING:
    from pgrepl.replication.comparison.sides import Row


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
        found, counts = np.unique(np.concatenate([hashes for hashes, _ in self._portions]), return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))

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
