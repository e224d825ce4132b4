"""TABLESAMPLE: which rows of a table are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypeVar

from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.expr.tree import TableSample
    from pgrepl.query.local.env import Env
    from pgrepl.query.local.evaluator import Evaluator

Item = TypeVar("Item")


class Sampling:
    """TABLESAMPLE of one entry of FROM. Its arguments may depend on rows of outer queries."""

    def __init__(self, sample: TableSample, evaluator: Evaluator) -> None:
        self._percent = evaluator.compile(sample.args[0])
        self._repeatable = evaluator.compile_optional(sample.repeatable)
        self._repeats = sample.repeatable is not None
        self._seed = Random().getrandbits(31)  # another one for each statement (ExecInitSampleScan)

    def parameters(self, env: Env) -> tuple[float, int]:
        """The fraction of rows, and the seed."""
        percent = self._percent(env)
        if percent is None:
            raise PgError("2202H", "TABLESAMPLE parameter cannot be null")
        seed = self._seed
        if self._repeats:
            given = self._repeatable(env)
            if given is None:
                raise PgError("2202G", "TABLESAMPLE REPEATABLE parameter cannot be null")
            seed = hash(float(given)) & 0x7FFFFFFF
        if not 0 <= percent <= 100:
            raise PgError("2202H", "sample percentage must be between 0 and 100")
        return float(percent) / 100, seed

    def of(self, rows: Iterable[Item], env: Env) -> Iterator[Item]:
        """Each row with the same probability."""
        fraction, seed = self.parameters(env)
        choose = Random(seed).random
        return (row for row in rows if choose() < fraction)
