"""Window functions: partitions in order, and over each row its frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pgrepl.commands.query.env import Compiled, Env, Evaluator, Slot
from pgrepl.commands.query.sorting import Key, same_keys, sort
from pgrepl.errors import PgError, unsupported
from pgrepl.expr import evaluate, tree
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Expr, Query, SortGroup, Window
from pgrepl.expr.walk import rewrite, walk
from pgrepl.types.builtin import proc_by_oid
from pgrepl.types.values import hashable


class Windows:
    """The window functions of a query; each result is appended to what was computed for the row."""

    def __init__(self, query: Query, evaluator: Evaluator, after: Callable[[Expr], Expr], first_slot: int) -> None:
        self.query = query
        self.functions: list[tree.WindowFunc] = []
        for target in query.targets:
            for node in walk(target.expr):
                if isinstance(node, tree.WindowFunc) and node not in self.functions:
                    self.functions.append(node)
        self._first = first_slot
        self._evaluator = evaluator
        self._after = after
        self._by_resno = {t.resno: after(t.expr) for t in query.targets}

    def after(self, expr: Expr) -> Expr:
        def slot(node: Expr) -> Expr | None:
            if isinstance(node, tree.WindowFunc):
                number = self._first + self.functions.index(node)
                return Slot(node.type, typmod=node.typmod, collation=node.collation, number=number)
            return None

        return self._after(rewrite(expr, slot))

    def add(self, rows: list[Env]) -> list[Env]:
        for function in self.functions:
            window = self.query.windows[function.window]
            results: dict[int, Any] = {}
            for partition in self._partitions(rows, window):
                calls = _Calls(self, function, window, partition)
                for position, env in enumerate(partition):
                    results[id(env)] = calls.at(position)
            for env in rows:
                env.computed = (*env.computed, results[id(env)])
        return rows

    def keys(self, groups: Sequence[SortGroup]) -> list[Key]:
        return [Key(self._evaluator.compile(self._by_resno[g.resno]), g.sortop, g.nulls_first) for g in groups]

    def compile(self, expr: Expr | None) -> Compiled:
        return (lambda env: None) if expr is None else self._evaluator.compile(self._after(expr))

    def context(self) -> Context:
        return self._evaluator.context

    def _partitions(self, rows: list[Env], window: Window) -> list[list[Env]]:
        values = [key.value for key in self.keys(window.partition)]
        parts: dict[tuple[Any, ...], list[Env]] = {}
        for env in rows:
            parts.setdefault(tuple([hashable(v(env)) for v in values]), []).append(env)
        order = self.keys(window.order)
        return [sort(part, order) for part in parts.values()]


class _Calls:
    """One function over one partition."""

    def __init__(self, owner: Windows, function: tree.WindowFunc, window: Window, rows: list[Env]) -> None:
        self.rows = rows
        self.window = window
        self.function = function
        self.args = [owner.compile(a) for a in function.args]
        self.passes = owner.compile(function.filter) if function.filter is not None else (lambda env: True)
        self.order = owner.keys(window.order)
        self.context = owner.context()
        proc = proc_by_oid(function.func)
        assert proc is not None
        self.name = proc.src
        # where the peers of each row begin and end
        self.first: list[int] = []
        for position, env in enumerate(rows):
            same = position > 0 and same_keys(self.order, rows[position - 1], env)
            self.first.append(self.first[-1] if same else position)
        self.last = list(range(len(rows)))
        for position in range(len(rows) - 2, -1, -1):
            if self.first[position + 1] == self.first[position]:
                self.last[position] = self.last[position + 1]
        self.groups = sorted(set(self.first))
        self.start_offset = owner.compile(window.start_offset)
        self.end_offset = owner.compile(window.end_offset)
        self.window_ops = (window.start_offset, window.end_offset)
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
        """A frame that begins with the partition grows from row to row: only what is new in it is added."""
        end = min(self._bound(position, self.window.frame_end, self.end_offset, is_end=True), len(self.rows) - 1)
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

    def frame(self, position: int) -> list[int]:
        start = self._bound(position, self.window.frame_start, self.start_offset, is_end=False)
        end = self._bound(position, self.window.frame_end, self.end_offset, is_end=True)
        inside = range(max(start, 0), min(end, len(self.rows) - 1) + 1)
        exclude = self.window.exclude
        if exclude == "CURRENT ROW":
            return [i for i in inside if i != position]
        if exclude == "GROUP":
            return [i for i in inside if self.first[i] != self.first[position]]
        if exclude == "TIES":
            return [i for i in inside if i == position or self.first[i] != self.first[position]]
        return list(inside)

    def _bound(self, position: int, bound: str, offset: Compiled, *, is_end: bool) -> int:
        mode = self.window.frame_mode
        if bound == "UNBOUNDED PRECEDING":
            return 0
        if bound == "UNBOUNDED FOLLOWING":
            return len(self.rows) - 1
        if bound == "CURRENT ROW":
            if mode == "ROWS":
                return position
            return self.last[position] if is_end else self.first[position]
        which = "ending" if is_end else "starting"
        by = offset(self.rows[position])
        if by is None:
            raise PgError("22004", f"frame {which} offset must not be null")
        if mode == "RANGE":
            return self._range_bound(position, bound, by, is_end=is_end)
        if by < 0:
            raise PgError("22013", f"frame {which} offset must not be negative")
        step: int = -by if bound == "PRECEDING" else by
        if mode == "ROWS":
            return position + step
        group = self.groups.index(self.first[position]) + step
        if group < 0:
            return -1 if is_end else 0
        if group >= len(self.groups):
            return len(self.rows) - 1 if is_end else len(self.rows)
        return self.last[self.groups[group]] if is_end else self.groups[group]

    def _range_bound(self, position: int, bound: str, by: Any, *, is_end: bool) -> int:
        """Rows whose key is within the offset of this row's key."""
        from pgrepl.commands.query.in_range import edge  # with it come all dates and times

        key = self.order[0]
        here = key.value(self.rows[position])
        if here is None:
            return self.last[position] if is_end else self.first[position]
        down = (bound == "PRECEDING") is not key.downwards
        limit, order = edge(key.type, here, by, down=down, context=self.context)
        inside = []
        for index, env in enumerate(self.rows):
            value = key.value(env)
            if value is None:
                continue
            if limit is not None:
                value = order(value)
                within = value <= limit if is_end is not key.downwards else value >= limit
            if limit is None or within:
                inside.append(index)
        if not inside:
            return -1 if is_end else len(self.rows)
        return inside[-1] if is_end else inside[0]

    # --- the functions that only look at places ---------------------------------------------------------------------

    def row_number(self, position: int) -> int:
        return position + 1

    def rank(self, position: int) -> int:
        return self.first[position] + 1

    def dense_rank(self, position: int) -> int:
        return self.groups.index(self.first[position]) + 1

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
