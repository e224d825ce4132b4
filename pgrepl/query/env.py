"""What an expression of a query sees while it runs: the rows joined so far, what was computed over a group or a
window, and the surroundings of the query that encloses this one.

`Evaluator` compiles the expressions of one query. `expr.evaluate` does all but the nodes that only a query can
answer: columns (`Var`), subqueries (`SubLink`) and the places (`Slot`) where this room puts aggregates, window
functions and grouped values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pgrepl.errors import unsupported
from pgrepl.expr import evaluate, tree
from pgrepl.expr.context import Context
from pgrepl.expr.range_table import TABLEOID
from pgrepl.expr.tree import Expr, Query, Rte, RteKind
from pgrepl.expr.walk import rewrite, walk_deep
from pgrepl.frozen import frozen
from pgrepl.query.tables import SETTLED, is_user_table, system_value
from pgrepl.types.record import Record

if TYPE_CHECKING:
    from pgrepl.query.bounds import Bounds
    from pgrepl.query.grouping import Grouping

Combination = list[Any]  # the row of each range table entry by its number; None: nothing joined
Compiled = Callable[["Env"], Any]
Scan = Callable[[int], Callable[["Env"], Iterable[tuple[Any, ...]]]]  # by number in the range table


class Env:
    """One combination of rows inside its surroundings."""

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
        """Where to keep what only depends on the environment `level` above, or (None) on none."""
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


@dataclass
class Evaluator:
    """Compiles the expressions of `query`."""

    context: Context
    query: Query
    subquery: Callable[[Query], Callable[[Env], Iterable[tuple[Any, ...]]]]  # makes a nested query runnable
    depends: Callable[[Query], int | None]  # the nearest level that a nested query depends on (`dependence`)
    around: Evaluator | None = None  # that of the query this one is inside of
    grouping: Grouping | None = None

    @cached_property
    def bounds(self) -> Bounds:
        """What the query's conditions say about columns of user tables."""
        from pgrepl.query.bounds import bounds_of

        return bounds_of(self.query, self.context)

    @cached_property
    def used(self) -> dict[int, frozenset[int]]:
        """The columns of each relation that the query reads."""
        from pgrepl.query.columns import used_columns

        return used_columns(self.query)

    def fetched(self, varno: int) -> tuple[int, ...]:
        """The columns in the rows of a user table."""
        from pgrepl.query.columns import fetched

        return fetched(self.query.rtable[varno - 1], self.used.get(varno, ()))

    def index(self, varno: int, attnum: int) -> int:
        """Where the rows of a relation have a column."""
        if is_user_table(self.query.rtable[varno - 1]):
            return self.fetched(varno).index(attnum)
        return attnum - 1

    def compile(self, expr: Expr) -> Compiled:
        return evaluate.compile(self.flat(expr), self.context, self._special)

    def compile_set(self, expr: Expr) -> Callable[[Env], Iterable[Any]]:
        """The values of an expression with set-returning functions in it."""
        return evaluate.compile_set(self.flat(expr), self.context, self._special)

    def compile_rows(self, expr: Expr) -> Callable[[Env], Iterable[tuple[Any, ...] | None]]:
        """The rows of a function in FROM."""
        return evaluate.compile_rows(self.flat(expr), self.context, self._special)

    def compile_optional(self, expr: Expr | None) -> Compiled:
        return (lambda env: None) if expr is None else self.compile(expr)

    def test(self, conditions: list[Expr]) -> Callable[[Env], bool]:
        """All of them are true."""
        tests = [self.compile(c) for c in conditions]
        if not tests:
            return lambda env: True
        if len(tests) == 1:
            only = tests[0]
            return lambda env: only(env) is True
        return lambda env: all(test(env) is True for test in tests)

    def flat(self, expr: Any) -> Any:
        """The same expression without columns of joins: they stand for columns of what is joined."""
        if expr is None:
            return None
        rtable = self.query.rtable

        def stands_for(node: Expr) -> Expr | None:
            if isinstance(node, tree.Var) and node.levelsup == 0 and node.attnum > 0:
                entry = rtable[node.varno - 1]
                if entry.kind is RteKind.JOIN:
                    meant = entry.join_vars[node.attnum - 1]
                    assert meant is not None
                    return rewrite(meant, stands_for)
            return None

        return rewrite(expr, stands_for)

    def _special(self, node: Expr) -> Compiled | None:
        if isinstance(node, tree.Var):
            return self._column(node)
        if isinstance(node, Slot):
            number = node.number
            return lambda env: env.computed[number]
        if isinstance(node, (tree.Aggref, tree.GroupingFunc)):
            return self._of_outer_group(node)
        if isinstance(node, tree.SubLink):
            from pgrepl.query.sublinks import compile_sublink

            return compile_sublink(node, self)
        return None

    def _of_outer_group(self, node: tree.Aggref | tree.GroupingFunc) -> Compiled:
        """An aggregate of a query around this one: that query has computed it for its group."""
        grouping, up = self._around(node.levelsup).grouping, node.levelsup
        assert grouping is not None
        if isinstance(node, tree.Aggref):
            number = grouping.number_of(node, up)
        else:
            number = grouping.number_of_function(node)

        def outside(env: Env) -> Any:
            for _ in range(up):
                assert env.outer is not None
                env = env.outer
            return env.computed[number]

        return outside

    def _around(self, up: int) -> Evaluator:
        evaluator = self
        for _ in range(up):
            assert evaluator.around is not None
            evaluator = evaluator.around
        return evaluator

    def _join_row(self, entry: Rte, up: int) -> Compiled:
        """A join as one value: all its columns."""
        owner = self._around(up)
        parts = [owner.compile_optional(part) for part in entry.join_vars]
        types, names = [c.type for c in entry.columns], [c.name for c in entry.columns]

        def whole(env: Env) -> Record:
            for _ in range(up):
                assert env.outer is not None
                env = env.outer
            return Record([part(env) for part in parts], types, names)

        return whole

    def _column(self, var: tree.Var) -> Compiled:
        varno, up = var.varno, var.levelsup
        owner = self._around(up)
        entry = owner.query.rtable[varno - 1]
        if var.attnum == 0:
            return self._join_row(entry, up) if entry.kind is RteKind.JOIN else _whole_row(varno, up, owner)
        if var.attnum < 0 and not is_user_table(entry):
            return _settled(varno, up, entry.relid, var.attnum)
        index = owner.index(varno, var.attnum)
        if up == 0:

            def here(env: Env) -> Any:
                row = env.rows[varno]
                return None if row is None else row[index]

            return here

        def outside(env: Env) -> Any:
            for _ in range(up):
                assert env.outer is not None
                env = env.outer
            row = env.rows[varno]
            return None if row is None else row[index]

        return outside


def _whole_row(varno: int, up: int, owner: Evaluator) -> Compiled:
    """The row with the types and names of its columns."""
    entry = owner.query.rtable[varno - 1]
    columns = [(number, c) for number, c in enumerate(entry.columns, 1) if not c.dropped]
    types, names = [c.type for _, c in columns], [c.name for _, c in columns]
    places = [owner.index(varno, number) for number, _ in columns] if is_user_table(entry) else None

    def whole(env: Env) -> Any:
        for _ in range(up):
            assert env.outer is not None
            env = env.outer
        row = env.rows[varno]
        if row is not None and places is not None:
            return Record([row[place] for place in places], types, names)
        return Record(row, types, names) if row is not None and len(row) == len(types) else row

    return whole


def _settled(varno: int, up: int, relid: int, attnum: int) -> Compiled:
    """A system column of a system catalog; NULL where an outer join found no row."""
    if attnum not in SETTLED and attnum != TABLEOID:
        raise unsupported("ctid of a system catalog")
    value = system_value(relid, attnum)

    def column(env: Env) -> Any:
        for _ in range(up):
            assert env.outer is not None
            env = env.outer
        return None if env.rows[varno] is None else value

    return column


def sees_outside(query: Query) -> bool:
    """Whether a query depends on the row of a query around it."""
    return any(isinstance(n, (tree.Var, tree.Aggref)) and n.levelsup > level for n, level in walk_deep(query))
