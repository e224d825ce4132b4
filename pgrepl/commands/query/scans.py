"""The rows of one range table entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import store, system
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_sequence
from pgrepl.commands.query.env import Env, Evaluator
from pgrepl.commands.query.growing import Growing
from pgrepl.commands.query.tables import is_user_table, members, pinned_row, table_rows
from pgrepl.commands.system import views
from pgrepl.errors import unsupported
from pgrepl.expr.tree import Rte, RteKind

if TYPE_CHECKING:
    from pgrepl.commands.query.execute import Ctes

Rows = Callable[[Env], Iterable[tuple[Any, ...]]]


def scan(varno: int, evaluator: Evaluator, ctes: Ctes) -> Rows:
    entry = evaluator.query.rtable[varno - 1]
    if is_user_table(entry):
        return _table(varno, evaluator)
    if entry.kind is RteKind.RELATION:
        return _relation(entry, evaluator)
    if entry.kind is RteKind.SUBQUERY:
        from pgrepl.commands.query.execute import compile_query

        assert entry.subquery is not None
        return compile_query(entry.subquery, evaluator.context, ctes, evaluator)
    if entry.kind is RteKind.CTE:
        assert entry.cte is not None
        return _at_level(ctes.find(entry.cte, entry.cte_levelsup), entry.cte_levelsup)
    if entry.rows is not None:
        known = entry.rows
        return lambda env: known
    if entry.kind is RteKind.VALUES:
        lists = [[evaluator.compile(value) for value in row] for row in entry.values]
        return lambda env: [tuple([value(env) for value in row]) for row in lists]
    return _functions(entry, evaluator)


def _at_level(run: Rows, up: int) -> Rows:
    """A WITH query is played in the surroundings of the query that has the WITH list."""

    def rows(env: Env) -> Iterable[tuple[Any, ...]]:
        for _ in range(up):
            assert env.outer is not None
            env = env.outer
        return run(env)

    return rows


def _table(varno: int, evaluator: Evaluator) -> Rows:
    """A user table: the columns that the query uses, of the rows that its conditions leave possible."""
    session, entry = evaluator.context.session, evaluator.query.rtable[varno - 1]
    scanned = members(session, entry.relid, entry.inh)
    attnums, bounds = evaluator.fetched(varno), evaluator.bounds.get(varno, ())
    if entry.pinned is not None:
        pinned = [pinned_row(each, attnums) for each in entry.pinned]
        return lambda env: pinned

    def read() -> Iterator[tuple[Any, ...]]:
        if entry.sample is None:
            return table_rows(session, scanned, attnums, bounds)
        from pgrepl.commands.query.sampling import sampled, sampling

        return sampled(table_rows(session, scanned, attnums), *sampling(entry.sample, evaluator.context))

    if evaluator.around is None:
        return lambda env: read()
    known: list[Growing[tuple[Any, ...]]] = []

    def remembered(env: Env) -> Iterable[tuple[Any, ...]]:
        """A query inside another may be played for each of that one's rows."""
        if not known:
            known.append(Growing(read()))
        return known[0]

    return remembered


def _relation(entry: Rte, evaluator: Evaluator) -> Rows:
    """A system catalog or view, or the state of a sequence."""
    session = evaluator.context.session
    found = relation(session, entry.relid)
    known = system.by_oid(entry.relid)
    if found.kind == "S":
        return lambda env: _state(session, found.oid)
    if known is None:
        raise unsupported(f'reading table "{found.name}"')
    text = views.definition(known.schema, known.name)
    if text is None:
        return _read_once(lambda: list(known.rows(session)))
    from pgrepl.commands.query.run import run_system_view

    return _read_once(lambda: list(run_system_view(session, text)))


def _read_once(read: Callable[[], list[tuple[Any, ...]]]) -> Rows:
    """The catalog stands still while a statement looks at it."""
    known: list[list[tuple[Any, ...]]] = []

    def rows(env: Env) -> list[tuple[Any, ...]]:
        if not known:
            known.append(read())
        return known[0]

    return rows


def _state(session: Session, sequence: int) -> list[tuple[Any, ...]]:
    return [(row.last_value, 0, row.is_called) for row in store.rows(session, pg_sequence, seqrelid=sequence)]


def _functions(entry: Rte, evaluator: Evaluator) -> Rows:
    """Functions in FROM run side by side (ROWS FROM); one that gives a row gives its columns."""
    sets = [evaluator.compile_rows(function) for function in entry.functions]
    counts = entry.function_columns

    def rows(env: Env) -> Iterator[tuple[Any, ...]]:
        for number, parts in enumerate(zip_longest(*[one(env) for one in sets]), 1):
            row: list[Any] = []
            for part, count in zip(parts, counts, strict=True):
                row += [None] * count if part is None else part
            if entry.ordinality:
                row.append(number)
            yield tuple(row)

    return rows
