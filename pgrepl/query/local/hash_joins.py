"""The joins of two plans: a hash table of one side's rows by key, or all pairs where there is no equality."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pgrepl.expr.tree import Expr
from pgrepl.query.local.env import Combination, Env, LazyRows
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.local.join_plan import Equality, JoinPlan, Keyed, counted_plan, equality, is_changeable, passing
from pgrepl.query.local.scans import FEW, READS
from pgrepl.types.values import as_it_is, hash_form


def merged(left: Combination, right: Combination, relations: Iterable[int]) -> Combination:
    both = list(left) if left else [None] * len(right)
    for varno in relations:
        both[varno] = right[varno]
    return both


_AHEAD = 1000  # rows of a side of a join, at most, that are taken before the other side is read


class _Matcher:
    """Finds the rows of the right side of a join that match a combination of the left."""

    def __init__(
        self, left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator, *, full: bool = False
    ) -> None:
        self.full = full
        self.left, self.right = left, right
        self.lateral = bool(right.required_outer & left.relations)
        pairs = [] if self.lateral else [(c, equality(c, left.relations, right.relations)) for c in tests]
        keys = [pair for _, pair in pairs if pair is not None]
        self.left_place, self.right_place = _narrowed(left, right, keys, evaluator)
        self.left_values = [(evaluator.compile(one), hash_form(one.type), nulls) for one, _, nulls in keys]
        self.left_key = _key_of(self.left_values)
        self.right_key = _key_of([(evaluator.compile(two), hash_form(two.type), nulls) for _, two, nulls in keys])
        self.keeps = evaluator.is_repeated and right.stable and not any(is_changeable(key.two) for key in keys)
        self.kept: _Loaded | None = None
        self.part, self.asked, self.reads = _Loaded((), {}), frozenset[int](), 0
        hashed = {id(c) for c, pair in pairs if pair is not None}
        others = [c for c in tests if id(c) not in hashed]
        self.passes = evaluator.test(others) if others else None
        self.merge = _merging(right.relations)
        node = evaluator.node(left.relations | right.relations)
        if node is not None:
            self.passes = node.join_filter(self.passes or evaluator.test([]))

    def begin(self, env: Env, required_outer: frozenset[int]) -> tuple[_Loaded, Callable[[], Iterable[Combination]]]:
        """The right side, loaded, and what gives the left. Of a system catalog only the rows are read whose OIDs the
        other side has, if those are few."""
        left, right = self.left, self.right
        if self.right_place is not None and right.keyed is not None and self.kept is None:
            rows = iter(_beside(env, left, required_outer))
            first, oids = self._ahead(env, rows, self.left_values[self.right_place][0])
            loaded = self._part(env, right.keyed, oids) if oids is not None else self._whole(env)
            return loaded, lambda: chain(first, rows)
        loaded = self._whole(env)
        if self.left_place is not None and left.keyed is not None and len(loaded.table) <= FEW:
            oids, of = frozenset([key[self.left_place] for key in loaded.table]), left.keyed.run
            left = replace(left, run=lambda env: of(env, oids))
        return loaded, lambda: _beside(env, left, required_outer)

    def _ahead(
        self, env: Env, rows: Iterator[Combination], key: Callable[[Env], Any]
    ) -> tuple[list[Combination], frozenset[int] | None]:
        """Rows of the left side, and all OIDs that it has; None: there are more rows, or the OIDs are not few."""
        taken, oids = [], set[Any]()
        for combination in rows:
            taken.append(combination)
            oids.add(key(Env(combination, env.outer)))
            if len(oids) > FEW or len(taken) > _AHEAD:
                return taken, None
        return taken, frozenset(oids - {None})

    def _whole(self, env: Env) -> _Loaded:
        loaded = self.kept or self._load(env, self.right.run)
        if self.keeps:
            self.kept = loaded
        return loaded

    def _part(self, env: Env, keyed: Keyed, oids: frozenset[int]) -> _Loaded:
        """The rows with these OIDs. What is kept for the next run of a subquery grows by them, until they are many."""
        if not self.keeps:
            return self._load(env, lambda env: keyed.run(env, oids))
        missing = oids - self.asked
        self.asked |= missing
        self.reads += bool(missing)
        if len(self.asked) > FEW or self.reads > READS:
            return self._whole(env)
        if missing:
            self.part.table.update(self._load(env, lambda env: keyed.run(env, missing)).table)
        return self.part

    def _load(self, env: Env, run: Callable[[Env], Iterable[Combination]]) -> _Loaded:
        """Read the right side once, unless it depends on the left."""
        if self.lateral:
            return _Loaded([], {})
        if not self.right_key:
            return _Loaded(LazyRows(run(env)), {})
        rows = run(env) if not self.full else list(run(env))
        table: dict[Any, list[Combination]] = {}
        key_of = self.right_key
        for combination in rows:
            key = key_of(Env(combination, env.outer))
            if key is not None:
                table.setdefault(key, []).append(combination)
        return _Loaded(rows if self.full else (), table)

    def finder(self, loaded: _Loaded, env: Env) -> Callable[[Combination], Iterable[Combination]]:
        """What finds the rows of the right side that equalities do not exclude."""
        outer, key_of, get, run = env.outer, self.left_key, loaded.table.get, self.right.run
        if self.lateral:
            return lambda combination: run(Env(combination, outer))
        if key_of is None:
            return lambda combination: loaded.rows

        def found(combination: Combination) -> Iterable[Combination]:
            key = key_of(Env(combination, outer))
            return () if key is None else get(key, ())

        return found


def _merging(relations: frozenset[int]) -> Callable[[Combination, Combination], Combination]:
    """What puts rows of these relations into a combination."""
    if len(relations) > 1:
        return lambda left, right: merged(left, right, relations)
    (varno,) = relations or (0,)

    def merge(left: Combination, right: Combination) -> Combination:
        both = left.copy()
        both[varno] = right[varno]
        return both

    return merge


def _narrowed(
    left: JoinPlan, right: JoinPlan, keys: list[Equality], evaluator: Evaluator
) -> tuple[int | None, int | None]:
    """The places among the keys of a join by which the left side, or the right one, is read in part: the larger one if
    both could be. Rows of subqueries are not taken ahead."""
    places = [(n, (key.one, key.two)) for n, key in enumerate(keys) if not key.nulls]
    one, two = left.keyed, right.keyed
    of_left = None if one is None else next((n for n, (own, _) in places if one.is_key(own)), None)
    of_right = None if two is None else next((n for n, (_, own) in places if two.is_key(own)), None)
    if one is not None and of_left is not None and (two is None or of_right is None or one.rank > two.rank):
        return of_left, None
    return None, of_right if left.relations.isdisjoint(evaluator.lazy) else None


@dataclass(frozen=True)
class _Loaded:
    rows: Iterable[Combination]  # without a hash key they are computed only as far as they are read
    table: dict[Any, list[Combination]]


Key = Callable[[Env], "tuple[Any, ...] | None"]


def _key_of(parts: list[tuple[Callable[[Env], Any], Callable[[Any], Any], bool]]) -> Key | None:
    """What computes the key of a row; no key: a NULL in it equals nothing."""
    if not parts:
        return None
    ((value_of, form, nulls), *others) = parts
    if not others and not nulls and form is as_it_is:

        def plain(env: Env) -> tuple[Any, ...] | None:
            value = value_of(env)
            return None if value is None else (value,)

        return plain
    if not others and not nulls:

        def one(env: Env) -> tuple[Any, ...] | None:
            value = value_of(env)
            return None if value is None else (form(value),)

        return one

    def several(env: Env) -> tuple[Any, ...] | None:
        values = []
        for part, form, nulls in parts:
            value = part(env)
            if value is None and not nulls:
                return None
            values.append(form(value))
        return tuple(values)

    return several


def inner_join(left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator) -> JoinPlan:
    left, right = _kept(counted_plan(left, evaluator), evaluator), counted_plan(right, evaluator)
    matcher = _Matcher(left, right, tests, evaluator)
    required_outer = (left.required_outer | right.required_outer) - left.relations

    def run(env: Env) -> Iterator[Combination]:
        loaded, combinations = matcher.begin(env, required_outer)
        if matcher.left_key and not matcher.lateral and not loaded.table:
            return  # the left side need not be read (ExecHashJoin)
        find, merge, passes, outer = matcher.finder(loaded, env), matcher.merge, matcher.passes, env.outer
        for combination in combinations():
            for candidate in find(combination):
                both = merge(combination, candidate)
                if passes is None or passes(Env(both, outer)):
                    yield both

    return _joined(left, right, run, required_outer, tests, evaluator)


def _joined(
    left: JoinPlan,
    right: JoinPlan,
    run: Callable[[Env], Iterable[Combination]],
    required_outer: frozenset[int],
    tests: list[Expr],
    evaluator: Evaluator,
) -> JoinPlan:
    if not evaluator.of_catalogs:
        return JoinPlan(left.relations | right.relations, run, required_outer)
    stable = left.stable and right.stable and not required_outer and not any(map(is_changeable, tests))
    rows = max(left.rows, 1) * passing(right.rows, tests, evaluator.query.rtable)
    return JoinPlan(left.relations | right.relations, run, required_outer, stable, rows)


def _kept(plan: JoinPlan, evaluator: Evaluator) -> JoinPlan:
    """The plan of a subquery's side of a join, whose rows are kept for its next run if they are always the same."""
    if not evaluator.is_repeated or not plan.stable:
        return plan
    known: list[LazyRows[Combination]] = []

    def run(env: Env) -> Iterable[Combination]:
        if not known:
            known.append(LazyRows(plan.run(env)))
        return known[0]

    return replace(plan, run=run)


def _beside(env: Env, left: JoinPlan, required_outer: frozenset[int]) -> Iterable[Combination]:
    """The left side of a join, with the rows further to the left if either side refers to them."""
    if not required_outer:
        return left.run(env)
    return (merged(env.rows, combination, left.relations) for combination in left.run(env))


def outer_join(left: JoinPlan, right: JoinPlan, tests: list[Expr], evaluator: Evaluator, *, full: bool) -> JoinPlan:
    left = replace(_kept(counted_plan(left, evaluator), evaluator), keyed=None)
    right = counted_plan(right, evaluator)
    if full:
        right = replace(right, keyed=None)
    matcher = _Matcher(left, right, tests, evaluator, full=full)
    required_outer = (left.required_outer | right.required_outer) - left.relations

    def run(env: Env) -> Iterator[Combination]:
        loaded, combinations = matcher.begin(env, required_outer)
        matched: set[int] = set()
        find, merge, passes, outer = matcher.finder(loaded, env), matcher.merge, matcher.passes, env.outer
        for combination in combinations():
            has_match = False
            for candidate in find(combination):
                both = merge(combination, candidate)
                if passes is None or passes(Env(both, outer)):
                    has_match = True
                    matched.add(id(candidate))
                    yield both
            if not has_match:
                yield combination
        if full:
            yield from (c for c in loaded.rows if id(c) not in matched)

    return _joined(left, right, run, required_outer, tests, evaluator)
