"""WITH, WITH RECURSIVE, UNION, INTERSECT and EXCEPT.

A query of the list runs once for each row of the outer query on which it depends. Rows are computed as they are read,
so that LIMIT ends a recursion. SEARCH and CYCLE add columns, as rewriteSearchAndCycle does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

from pgrepl.expr import tree
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.sorting import check_recursive_union
from pgrepl.expr.tree import Cte, Query, RangeRef, RteKind, SetOperation, Target
from pgrepl.expr.walk import is_volatile, walk_deep
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.memory import Instrumentation, counted
from pgrepl.query.local.env import Env, Row, Run, Slot, SortKey, kept, nearest_level, sort, times_read
from pgrepl.query.local.evaluator import Evaluator, Finish
from pgrepl.sql.nodes import CoercionForm, SetOp
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.style import Record
from pgrepl.types.values import first_of_each, hash_form, hashable, row_hash_form


def compile_set_operation(query: Query, evaluator: Evaluator) -> Run:
    assert query.set_operation is not None
    combine = compile_part(query, query.set_operation, evaluator)
    finish = Finish(query, evaluator)

    def run(env: Env) -> Iterable[Row]:
        return finish.limited(finish.ordered(combine(env)), Env([], env))

    return run


def compile_part(query: Query, part: SetOperation | RangeRef, evaluator: Evaluator) -> Run:
    if isinstance(part, RangeRef):
        nested = query.rtable[part.varno - 1].subquery
        assert nested is not None
        run = evaluator.subquery(nested, is_repeated=False)
        return lambda env: run(Env([], env))
    left, right = (
        _as_types(compile_part(query, side, evaluator), _types(query, side), part, evaluator)
        for side in (part.left, part.right)
    )
    node, append = evaluator.node(part), evaluator.node((part,)) if part.op is SetOp.UNION else None
    return lambda env: counted(node, lambda: _combined(part, left(env), right(env), append))


def _types(query: Query, part: SetOperation | RangeRef) -> list[int]:
    if isinstance(part, SetOperation):
        return [c.type for c in part.columns]
    nested = query.rtable[part.varno - 1].subquery
    assert nested is not None
    return [c.type for c in nested.columns]


def _as_types(run: Run, types: list[int], operation: SetOperation, evaluator: Evaluator) -> Run:
    """The rows of one side with the types of the operation's columns: an integer beside a numeric becomes one."""
    scope = Scope(evaluator.context.session)
    casts: dict[int, Callable[[Env], Any]] = {}
    for number, (given, column) in enumerate(zip(types, operation.columns, strict=False)):
        if given != column.type:
            slot = Slot(given, number=number)
            form = CoercionForm.IMPLICIT_CAST
            cast = coerce_to_target(scope, slot, given, column.type, column.typmod, CastContext.IMPLICIT, form, -1)
            if cast is not None and cast is not slot:
                casts[number] = evaluator.compile(cast)
    if not casts:
        return run

    def converted(env: Env) -> Iterator[Row]:
        for row in run(env):
            here = Env([], env.outer, row)
            yield tuple([casts[i](here) if i in casts else value for i, value in enumerate(row)])

    return converted


def _combined(
    operation: SetOperation, left: Iterable[Row], right: Iterable[Row], append: Instrumentation | None
) -> Iterable[Row]:
    if operation.op is SetOp.UNION:
        both = chain(left, right)
        return both if operation.all else _unique(counted(append, lambda: both), operation)
    form = row_hash_form(column.type for column in operation.columns)
    counts: dict[Any, int] = {}
    for row in right:
        key = form(row)
        counts[key] = counts.get(key, 0) + 1
    kept = []
    wanted = operation.op is SetOp.INTERSECT
    if not operation.all:
        return _unique([row for row in left if (form(row) in counts) is wanted], operation)
    for row in left:
        key = form(row)
        present = counts.get(key, 0) > 0
        if present:
            counts[key] -= 1
        if present is wanted:
            kept.append(row)
    return kept


def _unique(rows: Iterable[Row], operation: SetOperation) -> list[Row]:
    distinct = first_of_each(rows, row_hash_form(column.type for column in operation.columns))
    keys = [
        SortKey(lambda row, i=i: row[i], op, False, operation.columns[i].type)  # type: ignore[misc]
        for i, op in enumerate(operation.sortops)
        if op
    ]
    return sort(distinct, keys) if len(keys) == len(operation.columns) else distinct


# --- with queries -----------------------------------------------------------------------------------------------------


def compile_ctes(evaluator: Evaluator) -> None:
    """The WITH list of the evaluator's query."""
    query, ctes = evaluator.query, evaluator.ctes
    for cte in query.ctes:
        if cte.modify is not None:
            raise unsupported("a data-modifying statement in WITH here")
        if cte.recursive:
            run = _recursive(cte, evaluator)
        else:
            run = evaluator.subquery(cte.query)
            ctes.levels[cte.name] = nearest_level(cte.query, ctes)
        volatile = any(is_volatile(expr) for expr, _ in walk_deep(cte.query))
        again = volatile or times_read(query, cte.name) > 1
        ctes.runs[cte.name] = kept(run, ctes.levels[cte.name]) if again else run


def _recursive(cte: Cte, parent: Evaluator) -> Run:
    """The second term's view of the last round is kept with an environment of the round's own: so values that depend on
    it are computed anew in each round."""
    operation, ctes = cte.query.set_operation, parent.ctes
    if not isinstance(operation, SetOperation):
        ctes.levels[cte.name] = nearest_level(cte.query, ctes)
        return parent.subquery(cte.query)
    check_recursive_union(parent.context.session, operation)
    query, extra = cte.query, _Extra(cte)
    if extra.width:
        query = _with_origin(cte, operation, extra.width)
        _note_stand_ins(parent, query, cte.query)
    working = object()
    ctes.runs[cte.name] = lambda env: env.memory(0)[working]
    ctes.levels[cte.name] = None
    level = nearest_level(query, ctes)  # of the recursion as a whole
    ctes.levels[cte.name] = 0
    evaluator = parent.inside(query)  # it is itself a query: its terms see the WITH list one level up
    compile_ctes(evaluator)
    first = compile_part(query, operation.left, evaluator)
    again = compile_part(query, operation.right, evaluator)
    begin, go_on, open_end = extra.columns(evaluator)

    watch = parent.context.meter.watch
    width = len(operation.columns)
    form = row_hash_form(column.type for column in operation.columns)

    def rows(env: Env) -> Iterator[Row]:
        seen: set[Any] = set()

        def fresh(rows: Iterable[Row]) -> Iterator[Row]:
            for row in rows:
                key = None if operation.all else (form(row[:width]), hashable(row[width:]))
                if key is None:
                    yield row
                elif key not in seen:
                    seen.add(key)
                    yield row

        here = env
        round_ = fresh(map(begin, first(env), repeat(env)))
        while True:
            next_rows: list[Row] = []
            for row in watch(round_):
                if open_end(row, here):
                    next_rows.append(row)
                yield row
            if not next_rows:
                return
            here = Env(env.rows, env.outer, env.computed)
            here.memory(0)[working] = next_rows
            round_ = fresh(map(go_on, again(here), repeat(here)))

    ctes.levels[cte.name] = level
    node = evaluator.node(operation)
    return lambda env: counted(node, lambda: rows(env))


def _note_stand_ins(evaluator: Evaluator, query: Query, meant: Query) -> None:
    """The recursive query with its added columns, and its second term with them, count as those without."""
    instruments = evaluator.context.session.instruments if evaluator.context.has_session else None
    if instruments is not None:
        instruments.stands_for(query, meant)
        for entry, other in zip(query.rtable, meant.rtable, strict=True):
            if entry is not other:
                instruments.stands_for(entry.subquery, other.subquery)


def _with_origin(cte: Cte, operation: SetOperation, width: int) -> Query:
    """The recursive query, its second term with the added columns of the row it came from behind its own."""
    assert isinstance(operation.right, RangeRef)
    entries = list(cte.query.rtable)
    entry = entries[operation.right.varno - 1]
    term = entry.subquery
    assert term is not None
    references = [
        (varno, own)
        for varno, own in enumerate(term.rtable, 1)
        if own.kind is RteKind.CTE and own.self_reference and own.cte == cte.name and own.cte_levelsup == 2
    ]
    if not references:
        raise PgError(
            "0A000",
            f'with a SEARCH or CYCLE clause, the recursive reference to WITH query "{cte.name}" must be at the top '
            "level of its right-hand SELECT",
        )
    varno, own = references[0]
    names = len(own.columns) - width
    added = [
        Target(
            tree.Var(c.type, typmod=c.typmod, collation=c.collation, varno=varno, attnum=names + n + 1),
            c.name,
            len(term.targets) + n + 1,
        )
        for n, c in enumerate(own.columns[names:])
    ]
    entries[operation.right.varno - 1] = replace(entry, subquery=replace(term, targets=(*term.targets, *added)))
    return replace(cte.query, rtable=tuple(entries))


@dataclass
class _Extra:
    """The columns of SEARCH and CYCLE, in PostgreSQL's order: sequence, mark, path."""

    cte: Cte

    @property
    def width(self) -> int:
        return (self.cte.search is not None) + 2 * (self.cte.cycle is not None)

    def _record(self, names: tuple[str, ...], *before: int) -> Callable[[Row], Record]:
        operation = self.cte.query.set_operation
        assert isinstance(operation, SetOperation)
        named = [*self.cte.columns, *(column.name for column in self.cte.query.columns[len(self.cte.columns) :])]
        places = [named.index(name) for name in names]
        types = [*([oids.INT8] * len(before)), *(operation.columns[place].type for place in places)]
        return lambda row: Record([*before, *(row[place] for place in places)], types)

    def columns(self, evaluator: Evaluator) -> tuple[_Step, _Step, Callable[[Row, Env], bool]]:
        """The rows of the first term and of the second with the added columns, and whether the search goes on from a
        row."""
        search, cycle = self.cte.search, self.cte.cycle
        width = self.width
        if not width:
            return _unchanged, _unchanged, lambda row, env: True
        searched = self._record(search.columns) if search is not None else None
        cycled = self._record(cycle.columns) if cycle is not None else None
        value = evaluator.compile_optional(cycle.mark_value if cycle is not None else None)
        default = evaluator.compile_optional(cycle.mark_default if cycle is not None else None)
        mark = hash_form(cycle.mark_type if cycle is not None else 0)

        def sequence(row: Row, last: Any) -> list[Any]:
            if search is None or searched is None:
                return []
            if search.breadth_first:
                return [self._record(search.columns, 0 if last is None else last[0] + 1)(row)]
            return [_appended(last, searched(row))]

        def begin(row: Row, env: Env) -> Row:
            marks = [] if cycled is None else [default(env), _appended(None, cycled(row))]
            return (*row, *sequence(row, None), *marks)

        def go_on(row: Row, env: Env) -> Row:
            row, last = row[:-width], row[-width:]
            marks = []
            if cycled is not None:
                here, path = cycled(row), last[-1]
                known = any(_same(here, item) for item in path.items)
                marks = [value(env) if known else default(env), _appended(path, here)]
            return (*row, *sequence(row, last[0]), *marks)

        def open_end(row: Row, env: Env) -> bool:
            return cycled is None or mark(row[-2]) != mark(value(env))

        return begin, go_on, open_end


_Step = Callable[[Row, Env], Row]


def _unchanged(row: Row, env: Env) -> Row:
    return row


def _appended(array: Any, item: Record) -> Any:
    return array_of(oids.RECORD, [*(array.items if array is not None else ()), item])


def _same(one: Record, other: Record) -> bool:
    """`=` of records: equal fields, NULL like any value."""
    return bool(hashable(one) == hashable(other))
