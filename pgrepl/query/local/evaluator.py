"""The expressions of one query, compiled; DISTINCT, ORDER BY and LIMIT.

`expr.evaluate` compiles all but columns (`Var`), subqueries (`SubLink`) and the places (`Slot`) of aggregates, window
functions and grouped values. Methods that need a whole subquery are filled in by `select`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from pgrepl.expr import tree
from pgrepl.expr.analyse.lookup import TABLEOID
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr, Query, Rte, RteKind, SortGroup
from pgrepl.expr.walk import is_volatile, rewrite
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.memory import Instrumentation, counted
from pgrepl.query.local.env import Compiled, Ctes, Env, Row, Run, Slot, SortKey, same_keys, sort
from pgrepl.query.reads import Bounds, bounds_of, fetched, used_columns
from pgrepl.query.shape import SETTLED, is_user_table, system_value
from pgrepl.types.style import Record
from pgrepl.types.values import first_of_each, row_hash_form


def _is_volatile(query: Query | None) -> bool:
    return query is not None and is_volatile(query)


class Groups(Protocol):
    """The computed aggregates of a query with groups (`grouping`)."""

    def number_of(self, node: tree.Aggref, level: int) -> int: ...

    def number_of_function(self, node: tree.GroupingFunc) -> int: ...


class Evaluator(ABC):
    """Compiles the expressions of `query`. `around`: the evaluator of the outer query. `of_catalogs`: the statement
    reads only system catalogs, whose joins are ordered by their sizes; `is_repeated`: of these, it may run more than
    once."""

    def __init__(
        self,
        context: Context,
        query: Query,
        around: Evaluator | None = None,
        *,
        of_catalogs: bool = False,
        is_repeated: bool = False,
    ) -> None:
        self.context = context
        self.query = query
        self.around = around
        self.of_catalogs = of_catalogs
        self.is_repeated = of_catalogs and is_repeated
        self.catalog_rows: dict[object, list[Row]] = {} if around is None else around.catalog_rows
        self.ctes: Ctes = Ctes(around.ctes if around is not None else None)
        self.grouping: Groups | None = None

    @abstractmethod
    def play(self) -> Run:
        """The query, ready to run."""

    @abstractmethod
    def sublink(self, link: tree.SubLink) -> Compiled:
        """A subquery inside an expression."""

    def inside(self, query: Query, *, is_repeated: bool = True) -> Evaluator:
        """The evaluator of a subquery of this query."""
        repeated = is_repeated or self.is_repeated
        return type(self)(self.context, query, self, of_catalogs=self.of_catalogs, is_repeated=repeated)

    def subquery(self, query: Query, *, is_repeated: bool = True) -> Run:
        """`is_repeated`: one run of this query may run it more than once."""
        return self.inside(query, is_repeated=is_repeated).play()

    def node(self, step: Hashable) -> Instrumentation | None:
        """The counter of a step's rows, for EXPLAIN ANALYZE; None: rows are not counted. A step is the set of relations
        that are joined in it, or a name (statements/explain_plan.py)."""
        instruments = self.context.session.instruments if self.context.has_session else None
        return None if instruments is None else instruments.of(self.query, step)

    def apart(self, query: Query) -> Evaluator:
        """The evaluator of a query of system catalogs without an outer query."""
        return type(self)(Context(self.context.session), query, of_catalogs=True)

    @cached_property
    def _has_joins(self) -> bool:
        return any(entry.kind is RteKind.JOIN for entry in self.query.rtable)

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds of columns of user tables by the query's conditions."""
        return bounds_of(self.query, self.context)

    @cached_property
    def used(self) -> dict[int, frozenset[int]]:
        """The columns of each relation that the query reads."""
        return used_columns(self.query)

    @cached_property
    def lazy(self) -> frozenset[int]:
        """The relations whose rows must be computed only as far as they are asked for."""
        entries = enumerate(self.query.rtable, 1)
        return frozenset([n for n, entry in entries if entry.kind is RteKind.CTE or _is_volatile(entry.subquery)])

    def fetched(self, varno: int) -> tuple[int, ...]:
        """The columns in the rows of a user table."""
        return fetched(self.query.rtable[varno - 1], self.used.get(varno, ()))

    def index(self, varno: int, attnum: int) -> int:
        """The place of a column in the rows of a relation."""
        if is_user_table(self.query.rtable[varno - 1]):
            return self.fetched(varno).index(attnum)
        return attnum - 1

    def compile(self, expr: Expr) -> Compiled:
        return evaluate.compile(self.flat(expr), self.context, self._special)

    def compile_set(self, expr: Expr) -> Callable[[Env], Iterable[Any]]:
        """The values of an expression with set-returning functions in it."""
        return evaluate.compile_set(self.flat(expr), self.context, self._special)

    def compile_rows(
        self, expr: Expr, defined: tuple[tree.Column, ...] | None
    ) -> Callable[[Env], Iterable[tuple[Any, ...] | None]]:
        """The rows of a function in FROM; `defined`: the columns of its column definition list."""
        return evaluate.compile_rows(self.flat(expr), self.context, self._special, defined)

    def compile_optional(self, expr: Expr | None) -> Compiled:
        return (lambda env: None) if expr is None else self.compile(expr)

    def test(self, conditions: list[Expr]) -> Callable[[Env], bool]:
        """Whether all conditions are true."""
        tests = [self.compile(c) for c in conditions]
        if not tests:
            return lambda env: True
        if len(tests) == 1:
            only = tests[0]
            return lambda env: only(env) is True

        def passes(env: Env) -> bool:
            for test in tests:  # noqa: SIM110 — a generator costs each row twice as much
                if test(env) is not True:
                    return False
            return True

        return passes

    def flat(self, expr: Any) -> Any:
        """The expression with the columns of joins replaced by those of the joined relations."""
        if expr is None or not self._has_joins:
            return expr
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
            return self.sublink(node)
        return None

    def _of_outer_group(self, node: tree.Aggref | tree.GroupingFunc) -> Compiled:
        """An aggregate, or GROUPING, of an outer query, which that query has computed for its group."""
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
    columns = [(number, c) for number, c in enumerate(entry.columns, 1) if not c.dropped and c.expands]
    hidden = sum(not c.expands for c in entry.columns)  # of a system catalog, at its end
    types, names = [c.type for _, c in columns], [c.name for _, c in columns]
    places = [owner.index(varno, number) for number, _ in columns] if is_user_table(entry) else None

    def whole(env: Env) -> Any:
        for _ in range(up):
            assert env.outer is not None
            env = env.outer
        row = env.rows[varno]
        if row is not None and hidden:
            row = row[:-hidden]
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


# --- finish -----------------------------------------------------------------------------------------------------------


class Finish:
    """The last steps of a query. Rows have a value for each target, at its place, and perhaps values of the caller
    behind."""

    def __init__(self, query: Query, evaluator: Evaluator) -> None:
        place = {t.resno: i for i, t in enumerate(query.targets)}
        types = {t.resno: t.expr.type for t in query.targets}
        self._keep = [place[t.resno] for t in query.targets if not t.junk]
        self._everything = len(self._keep) == len(query.targets)
        self._order = _keys(query.sort, place, types)
        self._distinct = None if query.distinct is None else _keys(query.distinct, place, types)
        # DISTINCT ON keeps the first row in the query's order; DISTINCT goes by a sorted Unique
        self._distinct_order = self._order if query.distinct_on and self._order else self._distinct
        self._limit, self._offset = evaluator.compile_optional(query.limit), evaluator.compile_optional(query.offset)
        self._ties = self._order if query.with_ties else None
        self._nodes = {step: evaluator.node(step) for step in ("unique", "sort", "limit")}

    def ordered(self, rows: Iterable[Row]) -> Iterable[Row]:
        """DISTINCT and ORDER BY."""
        if self._distinct is not None:
            keys, every = self._distinct, rows
            rows = counted(self._nodes["unique"], lambda: _unique(sort(every, self._distinct_order or ()), keys))
        return counted(self._nodes["sort"], lambda: sort(rows, self._order)) if self._order else rows

    def wanted(self, env: Env) -> int | None:
        """The number of rows that LIMIT and OFFSET need; None: all, or as many as there are ties."""
        limit, offset = self._limit(env), self._offset(env)
        return None if limit is None or self._ties else max(limit, 0) + max(offset or 0, 0)

    def limited(self, rows: Iterable[Row], env: Env) -> Iterable[Row]:
        """Apply LIMIT and OFFSET, and drop junk columns."""
        offset, limit = self._offset(env), self._limit(env)
        if offset is not None or limit is not None:
            every = rows
            rows = counted(self._nodes["limit"], lambda: _limited(every, offset, limit, self._ties))
        return rows if self._everything else (tuple([row[i] for i in self._keep]) for row in rows)


def _keys(groups: Iterable[SortGroup], place: dict[int, int], types: dict[int, int]) -> list[SortKey]:
    return [
        SortKey(lambda row, i=place[g.resno]: row[i], g.sortop, g.nulls_first, types[g.resno])  # type: ignore[misc]
        for g in groups
    ]


def _unique(rows: Iterable[Row], keys: list[SortKey]) -> list[Row]:
    form = row_hash_form(key.type for key in keys)
    return first_of_each(rows, lambda row: form([key.value(row) for key in keys]))


def _limited(rows: Iterable[Row], offset: Any, limit: Any, ties: list[SortKey] | None) -> Iterable[Row]:
    """The rows within LIMIT and OFFSET. Rows behind the limit are not computed, except the first that is no tie."""
    if offset is not None and offset < 0:
        raise PgError("2201X", "OFFSET must not be negative")
    if limit is not None and limit < 0:
        raise PgError("2201W", "LIMIT must not be negative")
    if limit is None and not offset:
        return rows
    first = offset or 0
    if limit is None:
        return _after(rows, first)
    if not ties or not limit:
        return islice(rows, min(first, MOST), min(first + limit, MOST))
    return _with_ties(_after(rows, first), limit, ties)


MOST = 2**63 - 1  # rows that islice can count


def _after(rows: Iterable[Row], first: int) -> Iterator[Row]:
    return islice(rows, first, None)


def _with_ties(rows: Iterable[Row], limit: int, ties: list[SortKey]) -> Iterator[Row]:
    last: Row = ()
    for number, row in enumerate(rows):
        if number >= limit and not same_keys(ties, last, row):
            return
        if number < limit:
            last = row
        yield row
