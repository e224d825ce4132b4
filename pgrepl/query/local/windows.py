"""Window functions over sorted partitions, each row with its frame, RANGE with an offset included (in_range)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.functions.support_functions import InRange
from pgrepl.expr.tree import Expr, Query, SortGroup, Target, Window
from pgrepl.expr.walk import rewrite, walk
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.local.env import Compiled, Env, Slot, SortKey, same_keys, sort
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.values import row_hash_form

# --- windows ----------------------------------------------------------------------------------------------------------


class Windows:
    """The window functions of a query; each result is appended to the row's computed values."""

    def __init__(
        self,
        query: Query,
        evaluator: Evaluator,
        after: Callable[[Expr], Expr],
        target: Callable[[Target], Expr],
        first_slot: int,
    ) -> None:
        self.query = query
        self.functions: list[tree.WindowFunc] = []
        for shown in query.targets:
            for node in walk(shown.expr):
                if isinstance(node, tree.WindowFunc) and node not in self.functions:
                    self.functions.append(node)
        self._first = first_slot
        self._evaluator = evaluator
        self._after = after
        self._by_resno = {t.resno: target(t) for t in query.targets}

    def after(self, expr: Expr) -> Expr:
        def slot(node: Expr) -> Expr | None:
            if isinstance(node, tree.WindowFunc):
                number = self._first + self.functions.index(node)
                return Slot(node.type, typmod=node.typmod, collation=node.collation, number=number)
            return None

        return rewrite(expr, slot)

    def add(self, rows: list[Env]) -> list[Env]:
        """The rows with the results, in the order of the window that is computed last."""
        used = {function.window for function in self.functions}
        results: dict[int, list[Any]] = {id(env): [None] * len(self.functions) for env in rows}
        for number in sorted(used, key=self._demands):
            window = self.query.windows[number]
            frame = _Offsets(self, window, rows[0] if rows else _NOWHERE)
            partitions = self._partitions(rows, window)
            for place, function in enumerate(self.functions):
                if function.window == number:
                    for partition in partitions:
                        calls = _Calls(self, function, window, frame, partition)
                        for position, env in enumerate(partition):
                            results[id(env)][place] = calls.at(position)
            rows = [env for partition in partitions for env in partition]
        for env in rows:
            env.computed = (*env.computed, *results[id(env)])
        return rows

    def _demands(self, number: int) -> list[tuple[float, float]]:
        """Windows that need more sort columns come first (common_prefix_cmp)."""
        window = self.query.windows[number]
        keys = [*window.partition, *window.order]
        return [*[(-key.resno, -key.sortop) for key in keys], (math.inf, 0.0)]

    def keys(self, groups: Sequence[SortGroup]) -> list[SortKey]:
        exprs = [(self._by_resno[group.resno], group) for group in groups]
        return [SortKey(self._evaluator.compile(e), g.sortop, g.nulls_first, e.type) for e, g in exprs]

    def compile(self, expr: Expr | None) -> Compiled:
        return (lambda env: None) if expr is None else self._evaluator.compile(self._after(expr))

    def context(self) -> Context:
        return self._evaluator.context

    def _partitions(self, rows: list[Env], window: Window) -> list[list[Env]]:
        keys = self.keys(window.partition)
        form = row_hash_form(key.type for key in keys)
        parts: dict[tuple[Any, ...], list[Env]] = {}
        for env in sort(rows, [*keys, *self.keys(window.order)]):
            parts.setdefault(form([key.value(env) for key in keys]), []).append(env)
        return list(parts.values())


_NOWHERE = Env([], None)


class _Offsets:
    """The offsets of a frame: computed once, and checked even if there is no row."""

    def __init__(self, owner: Windows, window: Window, env: Env) -> None:
        self.start = self._value(owner, window, window.start_offset, env, "starting")
        self.end = self._value(owner, window, window.end_offset, env, "ending")

    @staticmethod
    def _value(owner: Windows, window: Window, offset: Expr | None, env: Env, which: str) -> Any:
        if offset is None:
            return None
        value = owner.compile(offset)(env)
        if value is None:
            raise PgError("22004", f"frame {which} offset must not be null")
        if window.frame_mode == "RANGE":
            return InRange(owner.keys(window.order)[0].type, value, owner.context())
        if value < 0:
            raise PgError("22013", f"frame {which} offset must not be negative")
        return value


class _Calls:
    """One function over one partition."""

    def __init__(
        self, owner: Windows, function: tree.WindowFunc, window: Window, offsets: _Offsets, rows: list[Env]
    ) -> None:
        self.rows = rows
        self.window = window
        self.offsets = offsets
        self.function = function
        self.args = [owner.compile(a) for a in function.args]
        self.passes = owner.compile(function.filter) if function.filter is not None else (lambda env: True)
        self.order = owner.keys(window.order)
        self.context = owner.context()
        proc = proc_by_oid(function.func)
        assert proc is not None
        self.name = proc.src
        # where the peers of each row begin and end, and which group of peers it is in
        self.first: list[int] = []
        self.group: list[int] = []
        for position, env in enumerate(rows):
            same = position > 0 and same_keys(self.order, rows[position - 1], env)
            self.first.append(self.first[-1] if same else position)
            self.group.append(self.group[-1] + (not same) if position else 0)
        self.last = list(range(len(rows)))
        for position in range(len(rows) - 2, -1, -1):
            if self.first[position + 1] == self.first[position]:
                self.last[position] = self.last[position + 1]
        self.groups = sorted(set(self.first))
        self._reached = {False: 0, True: 0}  # how far the beginning and the end of RANGE frames have come
        self._state: Any = None  # of an aggregate over a growing frame
        self._added = 0  # rows in it
        self._grown_result: Any = None

    def at(self, position: int) -> Any:
        if self.function.is_aggregate:
            return self._aggregate(position)
        method = _FUNCTIONS.get(self.name)
        if method is None:
            raise unsupported(f"window function {self.name.removeprefix('window_')}")
        return method(self, position)

    def _aggregate(self, position: int) -> Any:
        if self.window.frame_start == "UNBOUNDED PRECEDING" and self.window.exclude is None:
            return self._grown(position)
        accumulator = evaluate.accumulator(self.function, self.context)
        for index in self.frame(position):
            env = self.rows[index]
            if self.passes(env) is True:
                accumulator.add(*[arg(env) for arg in self.args])
        return accumulator.result()

    def _grown(self, position: int) -> Any:
        """A frame that begins with the partition grows from row to row: only its new rows are added."""
        end = min(self._bound(position, self.window.frame_end, is_end=True), len(self.rows) - 1)
        if self._state is None or end + 1 < self._added:
            self._state, self._added = evaluate.accumulator(self.function, self.context), 0
            self._grown_result = self._state.result()
        if end + 1 > self._added:
            for env in self.rows[self._added : end + 1]:
                if self.passes(env) is True:
                    self._state.add(*[arg(env) for arg in self.args])
            self._added = end + 1
            self._grown_result = self._state.result()
        return self._grown_result

    # --- frames -----------------------------------------------------------------------------------------------------

    def frame(self, position: int) -> Sequence[int]:
        start = self._bound(position, self.window.frame_start, is_end=False)
        end = self._bound(position, self.window.frame_end, is_end=True)
        inside = range(max(start, 0), min(end, len(self.rows) - 1) + 1)
        exclude = self.window.exclude
        if exclude == "CURRENT ROW":
            return [i for i in inside if i != position]
        if exclude == "GROUP":
            return [i for i in inside if self.first[i] != self.first[position]]
        if exclude == "TIES":
            return [i for i in inside if i == position or self.first[i] != self.first[position]]
        return inside

    def _bound(self, position: int, bound: str, *, is_end: bool) -> int:
        """The first or the last row of the frame."""
        mode = self.window.frame_mode
        if bound == "UNBOUNDED PRECEDING":
            return 0
        if bound == "UNBOUNDED FOLLOWING":
            return len(self.rows) - 1
        if bound == "CURRENT ROW":
            if mode == "ROWS":
                return position
            return self.last[position] if is_end else self.first[position]
        by = self.offsets.end if is_end else self.offsets.start
        if mode == "RANGE":
            return self._range_bound(position, bound, by, is_end=is_end)
        step: int = -by if bound == "PRECEDING" else by
        if mode == "ROWS":
            return position + step
        group = self.group[position] + step
        if group < 0:
            return -1 if is_end else 0
        if group >= len(self.groups):
            return len(self.rows) - 1 if is_end else len(self.rows)
        return self.last[self.groups[group]] if is_end else self.groups[group]

    def _range_bound(self, position: int, bound: str, in_range: Any, *, is_end: bool) -> int:
        """The frame's bounds only move forward from row to row (update_frameheadpos, update_frametailpos)."""
        key = self.order[0]
        here = key.value(self.rows[position])
        sub, less = (bound == "PRECEDING") is not key.downwards, is_end is not key.downwards
        reached = self._reached[is_end]
        while reached < len(self.rows):
            value = key.value(self.rows[reached])
            if value is not None and here is not None:
                goes_on = in_range(value, here, sub=sub, less=less) is is_end
            elif is_end:
                goes_on = value is None if key.nulls_first else here is None
            else:
                goes_on = (value is None) is not (here is None) and (value is None) is key.nulls_first
            if not goes_on:
                break
            reached += 1
        self._reached[is_end] = reached
        return reached - 1 if is_end else reached

    # --- the functions that only look at places ---------------------------------------------------------------------

    def row_number(self, position: int) -> int:
        return position + 1

    def rank(self, position: int) -> int:
        return self.first[position] + 1

    def dense_rank(self, position: int) -> int:
        return self.group[position] + 1

    def percent_rank(self, position: int) -> float:
        return self.first[position] / (len(self.rows) - 1) if len(self.rows) > 1 else 0.0

    def cume_dist(self, position: int) -> float:
        return (self.last[position] + 1) / len(self.rows)

    def ntile(self, position: int) -> int | None:
        buckets = self.args[0](self.rows[0])
        if buckets is None:
            return None
        if buckets <= 0:
            raise PgError("22014", "argument of ntile must be greater than zero")
        size, larger = divmod(len(self.rows), buckets)
        if position < larger * (size + 1):
            return int(position // (size + 1) + 1)
        return int(larger + (position - larger * (size + 1)) // size + 1)

    def _shifted(self, position: int, direction: int) -> Any:
        env = self.rows[position]
        by = self.args[1](env) if len(self.args) > 1 else 1
        if by is None:
            return None
        target = position + direction * by
        if 0 <= target < len(self.rows):
            return self.args[0](self.rows[target])
        return self.args[2](env) if len(self.args) > 2 else None

    def lag(self, position: int) -> Any:
        return self._shifted(position, -1)

    def lead(self, position: int) -> Any:
        return self._shifted(position, 1)

    def first_value(self, position: int) -> Any:
        frame = self.frame(position)
        return self.args[0](self.rows[frame[0]]) if frame else None

    def last_value(self, position: int) -> Any:
        frame = self.frame(position)
        return self.args[0](self.rows[frame[-1]]) if frame else None

    def nth_value(self, position: int) -> Any:
        frame = self.frame(position)
        number = self.args[1](self.rows[position])
        if number is None:
            return None
        if number <= 0:
            raise PgError("22016", "argument of nth_value must be greater than zero")
        return self.args[0](self.rows[frame[number - 1]]) if number <= len(frame) else None


_FUNCTIONS: dict[str, Callable[[_Calls, int], Any]] = {
    "window_row_number": _Calls.row_number,
    "window_rank": _Calls.rank,
    "window_dense_rank": _Calls.dense_rank,
    "window_percent_rank": _Calls.percent_rank,
    "window_cume_dist": _Calls.cume_dist,
    "window_ntile": _Calls.ntile,
    "window_lag": _Calls.lag,
    "window_lag_with_offset": _Calls.lag,
    "window_lag_with_offset_and_default": _Calls.lag,
    "window_lead": _Calls.lead,
    "window_lead_with_offset": _Calls.lead,
    "window_lead_with_offset_and_default": _Calls.lead,
    "window_first_value": _Calls.first_value,
    "window_last_value": _Calls.last_value,
    "window_nth_value": _Calls.nth_value,
}
