"""The plan of a statement that changes rows: its engine (engine/choice.py), how this process carries it out, and its
WITH list.

All statements of a list see tables as they were before any of them. The one behind the list runs first; one in the
list as its rows are read; those that nothing has read to the end behind it, the last one first (ExecPostprocessPlan).
Where one could meet what another does, each row is done before the next is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.relation_parts import hides_rows, inheritors
from pgrepl.engine.choice import Choice, Engine, choose_to_change
from pgrepl.expr.analyse.lookup import var_of
from pgrepl.expr.analyse.queries.insert import rows_rte
from pgrepl.expr.analyse.queries.merge import joined_query
from pgrepl.expr.dml_tree import Command, Modify
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_defaults import with_constants
from pgrepl.expr.rewrite.dml_queries import insert_query, target_rows_query
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Cte, Query, RangeRef, Rte, RteKind, Target
from pgrepl.expr.walk import calls_routines, has_effects, is_volatile, walk_deep
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read.data_file import Overlays
from pgrepl.lake.read.files import Extent, last_snapshot
from pgrepl.query.engine_choice import choose_to_write, counted_rows, extent_of
from pgrepl.query.local.env import LazyRows
from pgrepl.query.rowset import rows_of, stream
from pgrepl.rows.after_triggers import WrittenChanges, fire_all
from pgrepl.rows.arbiters import arbiter_indexes
from pgrepl.rows.changes import Row, next_snapshot, write_changes
from pgrepl.rows.triggers import TriggerEvent, enabled_triggers, refuse_triggers
from pgrepl.rows.unwritten import Unwritten
from pgrepl.writing import views
from pgrepl.writing.modify import Pending, Running, check_targets, insert, instead, nothing, update_or_delete
from pgrepl.writing.views import on_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def choose_to_modify(session: Session, modify: Modify, *, hidden: bool = False, kernels: bool = True) -> Choice:
    """Choose by the number of rows that the statement's query reads. `hidden`: row security lets no row in; `kernels`:
    false once they have declined. Kernels lock no rows, so a transaction that keeps its changes pending does not use
    them."""
    if hidden or modify.returning or modify.check_options:
        return Choice(Engine.LOCAL, "each row is looked at by itself")
    target = relation(session, modify.relid)
    if target.kind == "v":
        return Choice(Engine.LOCAL, f'view "{target.name}" has triggers')
    try:
        events = [TriggerEvent(command.value) for command in modify.commands]
        if modify.conflict is not None and modify.conflict.assigned is not None:
            events.append(TriggerEvent.UPDATE)
        refuse_triggers(session, modify.relid, *events)
    except Declined as reason:
        return Choice(Engine.LOCAL, str(reason))
    if modify.command is Command.INSERT:
        query = insert_query(session, modify)
    elif modify.command is Command.MERGE:
        query = joined_query(session, modify).query
    else:
        query = target_rows_query(session, modify, None, frozenset()).query
    query, context = expand_views(session, query), Context(session)
    return choose_to_change(
        session,
        lambda: _extent(session, query, context),
        partial(_check_fits, session, modify) if kernels and not session.transaction.keeps_pending else None,
        lambda: choose_to_write(session, query, context),
    )


def _extent(session: Session, query: Query, context: Context) -> Extent:
    return extent_of(session, query, context, 1) + Extent(counted_rows(query, context))


def _check_fits(session: Session, modify: Modify) -> None:
    """Declined if kernels over Arrow cannot carry out a statement of this shape."""
    from pgrepl.writing.modify_columns import check_simple, rows_from

    if modify.command is Command.MERGE:
        raise Declined("MERGE")
    if modify.command is Command.INSERT:
        rows_from(session, modify)
    else:
        check_simple(session, modify)


@frozen
class ModifyPlan:
    """A statement on tables, with all defaults; its privileges have been checked."""

    modify: Modify
    arbiters: frozenset[int] = frozenset()
    hidden: bool = False  # row security hides all rows
    choice: Choice | None = None  # of the engine; None: row by row, as the statement stands in a WITH list


def plan(session: Session, written: Modify) -> ModifyPlan:
    """Plan the statement and check its privileges."""
    modify, levels = on_tables(session, written)
    modify = with_constants(session, modify)
    arbiters = arbiter_indexes(session, modify, modify.conflict) if modify.conflict is not None else frozenset()
    views.check(session, levels)
    check_targets(session, modify)
    return ModifyPlan(modify, arbiters, hides_rows(session, relation(session, modify.relid), levels[-1].role))


def running(session: Session, planned: ModifyPlan) -> Running:
    """The statement, ready to be carried out in this process."""
    modify = planned.modify
    if modify.command is Command.MERGE:
        from pgrepl.writing.merge import merge

        return merge(session, modify, hidden=planned.hidden)
    if relation(session, modify.relid).kind == "v":
        return instead(session, modify)
    if modify.command is Command.INSERT:
        return insert(session, modify, planned.arbiters, hidden=planned.hidden)
    if planned.hidden:
        return nothing(session, modify)
    return update_or_delete(session, modify)


# --- together ---------------------------------------------------------------------------------------------------------


@dataclass
class _Statement:
    planned: ModifyPlan
    running: Running | None = None
    rows: Iterable[Row] = ()


class Together:
    """Statements that change rows in WITH, and the one behind them. All read one snapshot and see only the rows that
    the others return (`ctes`). They are carried out in turn as their rows are read, those whose rows nobody reads last;
    their changes are written together. Where one could meet what another does, they go row by row."""

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
    exprs = [assignment.expr for assignment in modify.assigned] + [target.expr for target in modify.returning]
    if modify.merge is not None:
        exprs += modify.merge.exprs
    if modify.conflict is not None:
        exprs += [assignment.expr for assignment in modify.conflict.assigned or ()]
    targets = tuple(Target(expr, "", number) for number, expr in enumerate(exprs, 1))
    return Query(targets, modify.rtable, modify.from_, modify.where)


def _rows_query(query: Query, rows: Iterable[Row]) -> Query:
    """A query that gives these rows."""
    columns = query.columns
    targets = tuple(Target(var_of(c, n), c.name, n) for n, c in enumerate(columns, 1))
    return Query(targets, (rows_rte("*RETURNED*", columns, rows),), (RangeRef(1),))
