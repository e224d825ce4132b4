"""The digests of a large table's pieces: threads here, or tasks of Spark, hash parts of its rows in a lake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.engine import choice, run_kernels, spark
from pgrepl.engine.choice import Engine
from pgrepl.engine.copy_rows import CopyPart, RowsCopy
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.ground.lazy import np
from pgrepl.lake.read.extent import divide
from pgrepl.lake.read.part import PartWatch, Shared
from pgrepl.replication.comparison.columns import row_hashes
from pgrepl.replication.comparison.pieces import Digests
from pgrepl.types.names import asks_catalog

if TYPE_CHECKING:
    from pgrepl.engine.choice import Choice
    from pgrepl.lake.read.part import PartRows
    from pgrepl.replication.comparison.columns import HashedColumn
    from pgrepl.replication.comparison.local_table import LocalTable
    from pgrepl.replication.comparison.pieces import Pieces


Rows = Sequence[tuple["PartRows", int, int]]


@frozen
class _DigestPart:
    """`copy`: the rows, and how they become those that are compared."""

    copy: CopyPart
    how: Shared  # the hashed columns, the pieces, the seed, the style


@frozen
class _DigestedPart:
    """For each piece with rows its number, how many they are, and the sum of their hashes."""

    numbers: Any = ()
    counts: Any = ()
    sums: Any = ()
    declined: str = ""


def _digest_rows(part: _DigestPart, watch: PartWatch) -> _DigestedPart:
    columns, pieces, seed, style = part.how.value
    copy, digests = RowsCopy(part.copy, watch), Digests(pieces.count)
    forms = [part.copy.target.column(column.attnum).form for column in part.copy.columns]
    try:
        for rows in part.copy.rows:
            for arrays, count in rows.portions(part.copy.read):
                _, kept, left = copy.passing(arrays, count)
                if left:
                    watch.add(left, 0)
                    made = copy.made(kept, left)
                    hashes = row_hashes(columns, made, forms, seed, left, style)
                    digests.add(pieces.numbers([made[place] for place in pieces.key], hashes), hashes)
    except Declined as reason:
        return _DigestedPart(declined=str(reason))
    numbers = np.flatnonzero(digests.counts)
    return _DigestedPart(numbers, digests.counts[numbers], digests.sums[numbers])


def chosen(local: LocalTable, rows: int) -> Choice | None:
    """What hashes so many rows in parts, which must know the types without the catalog; None: nothing does."""
    if not local.attributes or any(asks_catalog(attribute.type) for attribute in local.attributes):
        return None
    found = choice.choose_hashes(local.session, rows)
    return None if found.engine is Engine.LOCAL else found


def digest_in_parts(
    local: LocalTable,
    sources: Sequence[tuple[CopyPart, Rows]],
    columns: Sequence[HashedColumn],
    pieces: Pieces,
    seed: int,
    digests: Digests,
    engine: Engine,
    count: Callable[[int], None],
) -> None:
    """Add the rows of all sources to the digests. `count` is told of them, by threads as they go."""
    how = Shared((list(columns), pieces, seed, replace(local.style, lookup=None)))
    on_spark = engine is Engine.SPARK
    parallelism = run_kernels.parallelism(on_spark=on_spark)
    parts = [
        _DigestPart(replace(copy, rows=tuple(rows)), how)
        for copy, found in sources
        for rows in divide(found, parallelism)
    ]
    described = spark.described(f"comparison of {local.relation.qualified_name}") if on_spark else nullcontext()
    with described, run_kernels.counting_writes(local.session, lambda rows, _size: count(rows)):
        answers = run_kernels.run_parts_apart(
            local.session, parts, _digest_rows, on_spark=on_spark, check=check_for_interrupts
        )
    for answer in answers:
        if answer.declined:
            raise Declined(answer.declined)
        digests.counts[answer.numbers] += answer.counts
        digests.sums[answer.numbers] += answer.sums
        if on_spark:
            count(int(answer.counts.sum()))
    choice.done(local.session, "comparison", engine)
