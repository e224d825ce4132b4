"""The environment of a running expression: the rows joined so far, values computed over a group or a window, and the
environment of the outer query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

from pgrepl.expr import tree
from pgrepl.frozen import frozen

Row = tuple[Any, ...]
Combination = list[Any]  # the row of each range table entry by its number; None: nothing joined
Compiled = Callable[["Env"], Any]
Run = Callable[["Env"], Iterable[Row]]  # rows are computed as they are read, if possible
Scan = Callable[[int], Run]  # by number in the range table


class Env:
    """One combination of joined rows, with its environment."""

    __slots__ = ("_kept", "computed", "outer", "rows")

    def __init__(self, rows: Combination, outer: Env | None, computed: Sequence[Any] = ()) -> None:
        self.rows = rows
        self.outer = outer
        self.computed = computed
        self._kept: dict[object, Any] | None = None

    def above(self, level: int) -> Env:
        env = self
        for _ in range(level):
            assert env.outer is not None
            env = env.outer
        return env

    def memory(self, level: int | None) -> dict[object, Any]:
        """The store for values that depend only on the environment `level` above, or (None) on no environment."""
        env = self
        if level is None:
            while env.outer is not None:
                env = env.outer
        else:
            env = self.above(level)
        if env._kept is None:
            env._kept = {}
        return env._kept


@frozen
class Slot(tree.Typed):
    """A value computed beforehand: env.computed[number]."""

    number: int = field(default=0)
