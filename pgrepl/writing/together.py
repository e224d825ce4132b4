"""The statements of a WITH list that change rows, and the statement that they belong to.

All of them see tables as they were before any of them. The statement behind the list runs first; a statement in the
list runs as its rows are read, and those that nothing has read to the end run behind it, the last one first
(ExecPostprocessPlan). Triggers FOR EACH STATEMENT fire once for all statements of a kind on a table, and share their
transition tables.

Where one statement could meet what another does, each row is done before the next is looked at, as PostgreSQL does it:
two of them change one table, a table has triggers, or functions are called that have effects. Otherwise each statement
is carried out at once when its first row is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgrepl.catalog.inheritance import inheritors
from pgrepl.expr.dml.insert import rows_rte
from pgrepl.expr.dml.plan import Modify
from pgrepl.expr.range_table import var_of
from pgrepl.expr.tree import Cte, Query, RangeRef, Rte, RteKind, Target
from pgrepl.expr.walk import calls_routines, has_effects, is_volatile, walk_deep
from pgrepl.lake.files import last_snapshot
from pgrepl.lake.overlay import Overlays
from pgrepl.query.local.lazy_rows import LazyRows
from pgrepl.query.rowset import rows_of, stream
from pgrepl.rows.changes import Row
from pgrepl.rows.foreign import WrittenChanges, fire_all
from pgrepl.rows.trigger_data import TriggerEvent
from pgrepl.rows.triggers import enabled_triggers
from pgrepl.rows.unwritten import Unwritten
from pgrepl.rows.write import next_snapshot, write_changes
from pgrepl.writing.modify import Pending, Running
from pgrepl.writing.planning import ModifyPlan, plan, running

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@dataclass
class _Statement:
    planned: ModifyPlan
    running: Running | None = None
    rows: Iterable[Row] = ()


class Together:
    def __init__(self, session: Session, ctes: Sequence[Cte]) -> None:
        session.settle()
        self._session = session
        self._snapshot = last_snapshot(session)
        self._statements: list[_Statement] = []
        self._parts: list[WrittenChanges] = []
        self._unwritten = Unwritten(session)
        self._begun: set[tuple[int, TriggerEvent]] = set()
        self._by_row = False
        self.ctes = self._with_list(ctes)  # in place of the statements the rows that they return

    def _with_list(self, ctes: Sequence[Cte]) -> tuple[Cte, ...]:
        done: list[Cte] = []
        for cte in ctes:
            if cte.modify is None:
                done.append(self._kept(cte, done))
                continue
            statement = _Statement(plan(self._session, replace(cte.modify, around=tuple(done))))
            self._statements.append(statement)
            statement.rows = LazyRows(self._counted(cte.modify, statement))
            done.append(replace(cte, query=_rows_query(cte.query, statement.rows), modify=None))
        return tuple(done)

    def _kept(self, cte: Cte, before: Sequence[Cte]) -> Cte:
        """A query with effects, which runs once for all statements that read it."""
        if not any(is_volatile(expr) for expr, _ in walk_deep(cte.query)):
            return cte
        targets = tuple(Target(var_of(c, n), c.name, n) for n, c in enumerate(cte.query.columns, 1))
        entry = Rte(RteKind.CTE, cte.name, cte.query.columns, cte=cte.name)
        query = Query(targets, (entry,), (RangeRef(1),), ctes=(*before, cte))
        return replace(cte, query=_rows_query(cte.query, LazyRows(self._read(query))), recursive=False)

    def _read(self, query: Query) -> Iterator[Row]:
        with self._session.reading_at(self._snapshot):
            rows = stream(self._session, query)
        yield from self._session.read_at(self._snapshot, rows)

    # --- the statement behind the list --------------------------------------------------------------------------------

    def modify(self, written: Modify) -> Pending:
        session = self._session
        last = _Statement(plan(session, replace(written, ctes=self.ctes)))
        self._by_row = self._meet([*self._statements, last], None)
        with self._running():
            returned = list(self._rows(last))
            self._finish()
        assert last.running is not None
        self._write()
        changes = [change for part in self._parts if part.checks is last.running.checks for change in part.changes]
        return Pending(written, last.running.checks, changes, returned)

    def select(self, query: Query) -> list[Row]:
        """The rows of a query whose privileges have been checked."""
        session = self._session
        self._by_row = self._meet(self._statements, query)
        with self._running():
            with session.reading_at(self._snapshot):
                rows = list(rows_of(session, replace(query, ctes=self.ctes)))
            self._finish()
        self._write()
        return rows

    @contextmanager
    def _running(self) -> Iterator[None]:
        pending = self._session.transaction.pending
        with ExitStack() as kept:
            if self._by_row:
                kept.enter_context(self._unwritten.running())
                if isinstance(pending, Overlays):
                    kept.enter_context(pending.keeping(self._snapshot))
            yield

    def _finish(self) -> None:
        for statement in reversed(self._statements):
            for _ in statement.rows:
                pass

    def _write(self) -> None:
        """Write the changes, and fire the triggers behind them."""
        session = self._session
        if self._by_row:
            self._unwritten.settle(None, writes=False)
        else:
            for number, part in enumerate(self._parts):
                if number:
                    next_snapshot(session)
                write_changes(session, part.changes[part.checks.written :])
        fire_all(session, self._parts)

    def _counted(self, written: Modify, statement: _Statement) -> Iterable[Row]:
        """The rows of a statement in WITH, counted for its node in EXPLAIN ANALYZE."""
        instruments = self._session.instruments
        if instruments is None:
            return self._rows(statement)
        returned = int(bool(written.returning))
        return instruments.of(written, "rows").run(lambda: self._rows(statement), lambda row: returned)

    # --- one statement ------------------------------------------------------------------------------------------------

    def _rows(self, statement: _Statement) -> Iterator[Row]:
        """Carry out a statement as its rows are read."""
        return self._session.read_at(None, self._done(statement))

    def _done(self, statement: _Statement) -> Iterator[Row]:
        started = statement.running = running(self._session, statement.planned)
        if not self._by_row:
            with self._session.reading_at(self._snapshot):
                done = started.run()
            self._parts.append(WrittenChanges(done.checks, done.changes))
            yield from done.returned
            return
        started.checks.join(self._unwritten, self._begun)
        count = 0
        for change, row in started.one_by_one(self._snapshot):
            self._parts.append(WrittenChanges(started.checks, [change], count, end=False))
            count += 1
            yield row
        self._parts.append(WrittenChanges(started.checks, [], count))

    # --- what the statements do to each other -------------------------------------------------------------------------

    def _meet(self, statements: Sequence[_Statement], query: Query | None) -> bool:
        """Whether one statement could meet what another does."""
        session = self._session
        changed: set[int] = set()
        queries = [] if query is None else [query]
        for statement in statements:
            modify = statement.planned.modify
            tables = set(inheritors(session, modify.relid))
            if not changed.isdisjoint(tables) or any(enabled_triggers(session, table) for table in tables):
                return True
            changed |= tables
            queries.append(_expressions(modify))
        return any(map(calls_routines, queries)) or sum(map(has_effects, queries)) > 1


def _expressions(modify: Modify) -> Query:
    """A query with all that a statement computes."""
    exprs = [each.expr for each in modify.assigned] + [each.expr for each in modify.returning]
    if modify.merge is not None:
        exprs += modify.merge.exprs
    if modify.conflict is not None:
        exprs += [each.expr for each in modify.conflict.assigned or ()]
    targets = tuple(Target(expr, "", number) for number, expr in enumerate(exprs, 1))
    return Query(targets, modify.rtable, modify.from_, modify.where)


def _rows_query(query: Query, rows: Iterable[Row]) -> Query:
    """A query that gives these rows."""
    columns = query.columns
    targets = tuple(Target(var_of(c, n), c.name, n) for n, c in enumerate(columns, 1))
    return Query(targets, (rows_rte("*RETURNED*", columns, rows),), (RangeRef(1),))
