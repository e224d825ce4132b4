"""A plain SELECT: FROM and WHERE, groups, windows, targets with set-returning functions (ProjectSet), DISTINCT, ORDER
BY, LIMIT.

    run = compile_query(query, context)
    rows = run(Env([], None))      # tuples of Python values, one for each column

Rows are taken one by one if possible, so that LIMIT ends the steps before it. Targets that ORDER BY does not need are
computed after it if they are volatile or return sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeGuard

from pgrepl.expr import tree
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Expr, Query, SortGroup, Target
from pgrepl.expr.walk import is_volatile, returns_set, rewrite, substituted
from pgrepl.ground.memory import counted
from pgrepl.query.local.env import Combination, Compiled, Env, Row, Run, Slot
from pgrepl.query.local.evaluator import Evaluator, Finish
from pgrepl.query.shape import uses_groups

if TYPE_CHECKING:
    from pgrepl.query.local.grouping import Grouping
    from pgrepl.query.local.row_locks import RowLocker

SetSource = Callable[[Env], Iterable[Any]]


class TargetSets:
    """The set-returning calls of some expressions; their values begin at slot `first`."""

    def __init__(self, exprs: Iterable[Expr], evaluator: Evaluator, first: int) -> None:
        self._slots: dict[Expr, Slot] = {}
        self._rounds: list[list[SetSource]] = []
        waiting = [expr for expr in exprs if returns_set(expr)]
        while waiting:
            ready: list[tree.FuncExpr | tree.OpExpr] = []
            for expr in waiting:
                _innermost(expr, ready)
            for call in ready:
                number = first + len(self._slots)
                self._slots[call] = Slot(call.type, typmod=call.typmod, collation=call.collation, number=number)
            self._rounds.append([evaluator.compile_set(call) for call in ready])
            waiting = [expr for expr in map(self._with_slots, waiting) if returns_set(expr)]

    def __len__(self) -> int:
        return len(self._slots)

    def after(self, expr: Expr) -> Expr:
        """The expression over rows that have the values."""
        changed = self._with_slots(expr)
        while changed is not expr:  # a call is known by what it looks like after the round before
            expr, changed = changed, self._with_slots(changed)
        return expr

    def _with_slots(self, expr: Expr) -> Expr:
        return rewrite(expr, lambda node: self._slots.get(node) if _is_call(node) else None)

    def expanded(self, env: Env) -> Iterable[Env]:
        envs: Iterable[Env] = (env,)
        for sources in self._rounds:
            envs = _round(sources, envs)
        return envs


def _is_call(node: Expr) -> TypeGuard[tree.FuncExpr | tree.OpExpr]:
    return isinstance(node, (tree.FuncExpr, tree.OpExpr)) and node.retset


def _innermost(expr: Expr, calls: list[tree.FuncExpr | tree.OpExpr]) -> None:
    """Add the calls whose arguments return no sets."""

    def visit(node: Expr) -> Expr | None:
        if _is_call(node) and not any(map(returns_set, node.args)):
            if node not in calls:
                calls.append(node)
            return node
        return None

    rewrite(expr, visit)


def _round(sources: Sequence[SetSource], envs: Iterable[Env]) -> Iterator[Env]:
    for env in envs:
        for values in zip_longest(*[source(env) for source in sources]):
            yield Env(env.rows, env.outer, (*env.computed, *values))


# --- select -----------------------------------------------------------------------------------------------------------


Envs = Iterable[Env]


def compile_select(query: Query, evaluator: Evaluator, lock: RowLocker | None = None) -> Run:
    """`lock`: for FOR UPDATE, or another locking clause."""
    joined = _joined(query, evaluator)
    select, watch = _Select(query, evaluator, lock), evaluator.context.meter.watch

    def run(env: Env) -> Iterable[Row]:
        surroundings = Env([None] * (len(query.rtable) + 1), env)
        return select.rows((Env(rows, env) for rows in watch(joined(surroundings))), surroundings)

    return run


def _joined(query: Query, evaluator: Evaluator) -> Callable[[Env], Iterable[Combination]]:
    """The rows of FROM with WHERE. `SELECT 1` is answered before the modules of joins and scans are loaded."""
    if not query.from_ and query.where is None and evaluator.node(frozenset()) is None:
        return lambda env: ([None] * (len(query.rtable) + 1),)
    from pgrepl.query.local.joins import plan_from
    from pgrepl.query.local.scans import scan

    return plan_from(query, evaluator.flat(query.where), evaluator, lambda varno: scan(varno, evaluator)).run


class _Select:
    """The steps over the joined rows. `_after` rewrites an expression for the step reached so far."""

    def __init__(self, query: Query, evaluator: Evaluator, lock: RowLocker | None) -> None:
        self.query = query
        self.evaluator = evaluator
        self._lock = lock
        self._steps: list[Callable[[Envs, Env], Envs]] = []
        self._rewrites: list[Callable[[Expr], Expr]] = [evaluator.flat]
        self._slots = 0  # values computed for a row so far
        self._grouping: Grouping | None = None
        if uses_groups(query):
            self._group()
        if query.windows:
            self._windows()
        self._finish = Finish(query, evaluator)
        late = {t.resno for t in postponed(query)}
        first = [t for t in query.targets if t.resno not in late]
        self._first = _Targets(self, first)
        self._second = _Targets(self, [t for t in query.targets if t.resno in late], first) if late else None
        self._made, self._filled = evaluator.node("targets"), evaluator.node("late targets") if late else None

    @property
    def slots(self) -> int:
        return self._slots

    def target(self, target: Target) -> Expr:
        """A target over computed groups and windows."""
        return (self._grouping and self._grouping.key(target.resno)) or self._after(target.expr)

    def _after(self, expr: Expr) -> Expr:
        for step in self._rewrites:
            expr = step(expr)
        return expr

    def _set_keys(self, groups: Iterable[SortGroup]) -> Callable[[Expr], Expr]:
        """A step that expands the set-returning functions in keys of groups or windows; returns the rewriting of a key
        by it."""
        numbers = {group.resno for group in groups}
        keys = [self.target(t) for t in self.query.targets if t.resno in numbers and returns_set(t.expr)]
        if not keys:
            return lambda expr: expr
        sets = TargetSets(keys, self.evaluator, self._slots)
        first = self._slots + len(sets)
        values = [self.evaluator.compile(sets.after(key)) for key in keys]
        slots = {
            key: Slot(key.type, typmod=key.typmod, collation=key.collation, number=first + n)
            for n, key in enumerate(keys)
        }

        def expand(envs: Envs, surroundings: Env) -> Iterator[Env]:
            for env in envs:
                for new in sets.expanded(env):
                    new.computed = (*new.computed, *[value(new) for value in values])
                    yield new

        self._steps.append(expand)
        self._slots = first + len(keys)
        return lambda expr: substituted(expr, slots)

    def _group(self) -> None:
        from pgrepl.query.local.grouping import Grouping

        query, evaluator = self.query, self.evaluator
        grouping = Grouping(query, evaluator, self._set_keys(query.group))
        self._grouping = evaluator.grouping = grouping
        self._rewrites.append(grouping.after)
        self._slots = grouping.slots
        node = evaluator.node("group")
        having = evaluator.test([self._after(query.having)]) if query.having is not None else None
        passes = having if having is None or node is None else node.filter(having)

        def group(envs: Envs, surroundings: Env) -> Envs:
            groups = grouping.groups(envs, surroundings)
            return groups if passes is None else filter(passes, groups)

        self._steps.append(lambda envs, surroundings: counted(node, lambda: group(envs, surroundings)))

    def _windows(self) -> None:
        from pgrepl.query.local.windows import Windows

        query = self.query
        keys = [key for window in query.windows for key in (*window.partition, *window.order)]
        self._rewrites.append(self._set_keys(keys))
        windows = Windows(query, self.evaluator, self._after, self.target, self._slots)
        if windows.functions:
            self._rewrites.insert(0, windows.after)  # it looks for expressions that are not rewritten yet
            self._slots += len(windows.functions)
            node = self.evaluator.node("window")
            self._steps.append(lambda envs, surroundings: counted(node, lambda: windows.add(list(envs))))

    def rows(self, envs: Envs, surroundings: Env) -> Iterable[Row]:
        for step in self._steps:
            envs = step(envs, surroundings)
        rows: Iterable[Row]
        if self._second is None:
            rows = self._finish.ordered(counted(self._made, lambda: self._first.rows(envs)))
        else:
            second = self._second
            rows_with_envs = counted(self._made, lambda: ((*row, env) for row, env in self._first.with_envs(envs)))
            rows = counted(self._filled, lambda: second.filled(self._finish.ordered(rows_with_envs)))
        if self._lock is not None:
            rows = self._lock.rows(rows, surroundings.outer, self._finish.wanted(surroundings))
        return self._finish.limited(rows, surroundings)


def postponed(query: Query) -> Iterator[Target]:
    """The targets that are computed after ORDER BY."""
    if not query.sort:
        return
    keys = {group.resno for group in (*query.group, *query.sort, *(query.distinct or ()))}
    others = [t for t in query.targets if t.resno not in keys]
    sets_wait = not any(returns_set(t.expr) for t in query.targets if t.resno in keys)
    yield from (t for t in others if (sets_wait if returns_set(t.expr) else is_volatile(t.expr)))


class _Targets:
    """Some targets of a query; others are None in the rows. `before`: those already in the rows. A volatile expression
    among these is not computed again where it stands in a target: `SELECT random() + 1 … ORDER BY random()`."""

    def __init__(self, select: _Select, chosen: list[Target], before: Sequence[Target] = ()) -> None:
        known = {select.target(t): t for t in before if is_volatile(t.expr)}
        self._known = [select.query.targets.index(t) for t in known.values()]
        slots = {
            expr: Slot(expr.type, typmod=expr.typmod, collation=expr.collation, number=select.slots + n)
            for n, expr in enumerate(known)
        }
        exprs = [substituted(select.target(t), slots) for t in chosen]
        sets = TargetSets(exprs, select.evaluator, select.slots + len(slots))
        self._sets = sets if len(sets) else None
        self._watch = select.evaluator.context.meter.watch
        compiled = {t.resno: select.evaluator.compile(sets.after(expr)) for t, expr in zip(chosen, exprs, strict=True)}
        self._all = [compiled.get(t.resno, _nothing) for t in select.query.targets]
        self._own = [(n, compiled[t.resno]) for n, t in enumerate(select.query.targets) if t.resno in compiled]

    def rows(self, envs: Envs) -> Iterator[Row]:
        values = self._all
        return (tuple([value(env) for value in values]) for env in self._expanded(envs))

    def with_envs(self, envs: Envs) -> Iterator[tuple[Row, Env]]:
        values = self._all
        return ((tuple([value(env) for value in values]), env) for env in self._expanded(envs))

    def filled(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows with these targets filled in; each row has its environment behind it."""
        for *row, env in rows:
            if self._known:
                env.computed = (*env.computed, *[row[place] for place in self._known])
            for here in self._expanded((env,)):
                for place, value in self._own:
                    row[place] = value(here)
                yield tuple(row)

    def _expanded(self, envs: Envs) -> Envs:
        sets = self._sets
        return envs if sets is None else self._watch(new for env in envs for new in sets.expanded(env))


def _nothing(env: Env) -> Any:
    return None


# --- execute ----------------------------------------------------------------------------------------------------------


def compile_query(query: Query, context: Context, *, of_catalogs: bool = False) -> Run:
    return QueryEvaluator(context, query, of_catalogs=of_catalogs).play()


class QueryEvaluator(Evaluator):
    """An evaluator that can run subqueries."""

    def play(self) -> Run:
        query = self.query
        if query.row_marks:
            return self._locking()
        return self._compiled(query, None)

    def _compiled(self, query: Query, locker: RowLocker | None) -> Run:
        if query.ctes:
            from pgrepl.query.local.with_queries import compile_ctes

            compile_ctes(self)
        if query.set_operation is not None:
            from pgrepl.query.local.with_queries import compile_set_operation

            return compile_set_operation(query, self)
        return compile_select(query, self, locker)

    def _locking(self) -> Run:
        """A query with FOR UPDATE, or another locking clause."""
        from pgrepl.query.local.row_locks import RowLocker, with_places

        query, marks = with_places(self.query)
        shown = tuple(replace(target, junk=False) for target in query.targets)

        def again(other: Query, env: Env) -> Iterable[Row]:
            return QueryEvaluator(self.context, replace(other, targets=shown), self.around).play()(env)

        if self.context.session.instruments is not None:
            self.context.session.instruments.stands_for(query, self.query)
        locker = RowLocker(self.context.session, query, marks, again)
        return QueryEvaluator(self.context, query, self.around)._compiled(query, locker)

    def sublink(self, link: tree.SubLink) -> Compiled:
        from pgrepl.query.local.sublinks import compile_sublink

        return compile_sublink(link, self)
