"""TABLESAMPLE: which rows of a table are looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from pgrepl.errors import PgError
from pgrepl.expr.evaluate import evaluate

if TYPE_CHECKING:
    from pgrepl.expr.context import Context
    from pgrepl.expr.tree import TableSample

Item = TypeVar("Item")


def sampling(sample: TableSample, context: Context) -> tuple[float, int]:
    """The fraction of rows, and the seed: another one each time unless REPEATABLE says it (ExecInitSampleScan)."""
    percent = evaluate(sample.args[0], (), context)
    if percent is None:
        raise PgError("2202H", "TABLESAMPLE parameter cannot be null")
    seed: Any = Random().getrandbits(31)
    if sample.repeatable is not None:
        seed = evaluate(sample.repeatable, (), context)
        if seed is None:
            raise PgError("2202G", "TABLESAMPLE REPEATABLE parameter cannot be null")
        seed = hash(float(seed)) & 0x7FFFFFFF
    if not 0 <= percent <= 100:
        raise PgError("2202H", "sample percentage must be between 0 and 100")
    return float(percent) / 100, seed


def sampled(rows: Iterable[Item], fraction: float, seed: int) -> Iterator[Item]:
    """Each row with the same probability."""
    choose = Random(seed).random
    return (row for row in rows if choose() < fraction)
