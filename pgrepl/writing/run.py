"""INSERT, UPDATE, DELETE and MERGE as statements, alone or in WITH.

A statement is first computed and then written: all statements in one WITH list, and the statement they belong to, see
the state before any of them. A small statement is computed in this process: in a transaction block its changes are
pending, under row locks (rows/locking.py); outside a block it holds the catalog's write lock instead, unless other
sessions hold locks. A large one is staged by kernels or Spark: outside a block without the write lock, and again if
another session has meanwhile changed what it read (as READ COMMITTED waits and goes on).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from pgrepl import engine
from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.lock_modes import RelationMode
from pgrepl.catalog.relation import Relation, find_relation, relation
from pgrepl.catalog.row_security import hides_rows
from pgrepl.catalog.transaction import is_read_only
from pgrepl.engine import Choice, Engine
from pgrepl.errors import PgError
from pgrepl.expr.analyze import analyze_modifying
from pgrepl.expr.dml.defaults import with_constants
from pgrepl.expr.dml.insert import rows_rte
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.range_table import var_of
from pgrepl.expr.tree import Cte, Query, RangeRef, Rte, RteKind, Target
from pgrepl.expr.typefacts import base_and_typmod
from pgrepl.expr.walk import is_volatile, walk_deep
from pgrepl.frozen import frozen
from pgrepl.query.result import Result, ResultColumn
from pgrepl.query.rowset import LocalRows
from pgrepl.query.run import as_text
from pgrepl.rows.locking import lock_tables, others_hold_locks
from pgrepl.sql.nodes import AnalyzedStmt, DeleteStmt, InsertStmt, MergeStmt, UpdateStmt
from pgrepl.types.lake_lists import is_no_list
from pgrepl.writing import permissions
from pgrepl.writing.engine_choice import choose_to_modify
from pgrepl.writing.read_only import check_writable
from pgrepl.writing.targets import check_targets
from pgrepl.writing.views import on_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.rows.checks_spark import SparkChanges
    from pgrepl.writing.modify import Pending

Statement = InsertStmt | UpdateStmt | DeleteStmt | MergeStmt | AnalyzedStmt
_TRIES = 3  # without the write lock; then with it


@frozen
class ModifyPlan:
    """A statement on tables, with all defaults; its privileges have been checked."""

    modify: Modify
    arbiters: frozenset[int] = frozenset()
    hidden: bool = False  # row security hides all rows
    choice: Choice | None = None  # of the engine; None: row by row, as the statement stands in a WITH list


@frozen
class _Large:
    """A large statement, as it was planned when the catalog had this version."""

    written: Modify
    planned: ModifyPlan | None
    version: int | None


def modify_rows(stmt: Statement, session: Session) -> Result:
    transaction = session.transaction
    if session.unsettled:
        _settle(stmt, session)
    if is_read_only(session):
        modify = analyze_modifying(session, stmt)
        check_writable(session, modify.command.value, modify.ctes, modify)
    if transaction.keeps_pending:
        return _run_under_locks(session, stmt)
    if not transaction.is_writing and not _is_small(stmt, session):
        found = _at_once(stmt, session)
        if isinstance(found, Result):
            return found
        for _ in range(_TRIES):
            done = _without_lock(stmt, session, found)
            if done is not None:
                return done
            if transaction.is_writing:
                break
            found = None
    transaction.require_write()
    if others_hold_locks(session):
        return _run_under_locks(session, stmt)
    return _locked(session, analyze_modifying(session, stmt))


def _settle(stmt: Statement, session: Session) -> None:
    """Let the statements around this one write the rows that it may meet: those of its table, and of tables that
    foreign keys tie to it."""
    from pgrepl.rows.foreign_key import NO_ACTION, RESTRICT, keys_of, keys_to

    if isinstance(stmt, AnalyzedStmt):
        target: Relation | None = relation(session, stmt.modify.relid)
    else:
        target = find_relation(session, stmt.relation, missing_ok=True)
    below = [] if target is None or target.kind not in "rp" else inheritors(session, target.oid)
    to = [key for oid in below for key in keys_to(session, oid)]
    if not below or any(action not in (NO_ACTION, RESTRICT) for key in to for action in (key.on_update, key.on_delete)):
        session.settle()
        return
    tied = {key.referenced for oid in below for key in keys_of(session, oid)} | {key.referencing for key in to}
    session.settle({oid for table in tied for oid in inheritors(session, table)} | set(below))


def _at_once(stmt: Statement, session: Session) -> Result | _Large | None:
    """Run the statement under the catalog's write lock from its start, so that it is planned once. A large one releases
    the lock and is returned as planned. None: the lock is not free."""
    transaction = session.transaction
    if not transaction.try_write():
        return None
    if others_hold_locks(session):
        return _run_under_locks(session, stmt)
    written = analyze_modifying(session, stmt)
    planned = _chosen(session, written)
    if not _is_large(planned):
        return _locked(session, written, small=True, planned=planned)
    transaction.end_unwritten()
    return _Large(written, planned, transaction.version)


def _run_under_locks(session: Session, stmt: Statement) -> Result:
    """Run the statement under locks of its tables and rows; its changes are pending until the commit."""
    transaction = session.transaction
    while True:
        written = analyze_modifying(session, stmt)
        changing = [*(cte.modify for cte in written.ctes if cte.modify is not None), written]
        tables = list(dict.fromkeys(oid for each in changing for oid in target_tables(session, each)))
        planned = _chosen(session, written) if not _is_small(stmt, session) else None
        if _is_large(planned):
            # too many rows for locks of their own
            lock_tables(session, tables, RelationMode.EXCLUSIVE)
            transaction.require_write()
            return _locked(session, analyze_modifying(session, stmt))
        if not lock_tables(session, tables, RelationMode.ROW_EXCLUSIVE):
            return _locked(session, written, small=True, planned=planned)


def target_tables(session: Session, modify: Modify) -> list[int]:
    """The table that the statement changes, with those below it."""
    if relation(session, modify.relid).kind == "v":
        modify, _ = on_tables(session, modify)
    return inheritors(session, modify.relid)


def _is_small(stmt: Statement, session: Session) -> bool:
    """Whether the statement is row by row in any case: INSERT of VALUES."""
    return isinstance(stmt, InsertStmt) and (stmt.select is None or stmt.select.values is not None)


def _without_lock(stmt: Statement, session: Session, known: _Large | None) -> Result | None:
    """Run the statement, if it is large or the catalog has not changed since it was planned. None: it must be run
    again, under the write lock if the session holds it now."""
    from pgrepl.lake.commit import Stale

    transaction = session.transaction
    transaction.require_read()
    if known is not None and known.version == transaction.version:
        written, planned = known.written, known.planned
    else:
        written = analyze_modifying(session, stmt)
        planned = _chosen(session, written)
    staged = None if planned is None else _staged(session, planned)
    version = transaction.version
    transaction.require_write()
    if staged is None:
        if transaction.version != version:
            return None
        if others_hold_locks(session):
            return _run_under_locks(session, stmt)
        return _locked(session, written, small=True, planned=planned)
    try:
        return _applied(session, written, staged)
    except Stale:
        staged.discard()
        transaction.release_write()
        return None


def _applied(session: Session, written: Modify, staged: SparkChanges) -> Result:
    from pgrepl.rows.foreign_actions_spark import apply

    apply(staged)
    engine.done(session, written.command.value, staged.engine)
    return Result(_tag(written, staged.count))


def _locked(session: Session, written: Modify, *, small: bool = False, planned: ModifyPlan | None = None) -> Result:
    """Run the statement; the session holds the locks it needs. `planned`: its plan, if it is known already and WITH has
    no statement that changes rows."""
    ctes, before = with_queries(session, written.ctes)
    if planned is None:
        written = replace(written, ctes=ctes)
        planned = plan(session, written) if before or small else with_choice(session, plan(session, written))
    staged = _staged(session, planned) if not before and not small else None
    if staged is not None:
        return _applied(session, written, staged)
    if planned.choice is not None and planned.choice.unfit and not planned.choice.on_spark:
        _say_declined(session, planned.modify, planned.choice.unfit, "by whole columns")
    done = work_out(session, planned)
    write(session, [*before, done])
    if not written.returning:
        return Result(_tag(written, done.count))
    columns = tuple([ResultColumn(t.name, *base_and_typmod(t.expr.type, t.expr.typmod)) for t in written.returning])
    if session.keeps_values:
        return Result(_tag(written, done.count), columns, values=LocalRows((), done.returned))
    rows = as_text(done.returned, [t.expr.type for t in written.returning], session.text_style)
    return Result(_tag(written, done.count), columns, rows)


def _tag(modify: Modify, count: int) -> str:
    words = "INSERT 0" if modify.command is Command.INSERT else modify.command.value
    return f"{words} {count}"


def plan(session: Session, written: Modify) -> ModifyPlan:
    """Plan the statement and check its privileges."""
    from pgrepl.rows.arbiters import arbiter_indexes

    modify, levels = on_tables(session, written)
    modify = with_constants(session, modify)
    arbiters = arbiter_indexes(session, modify, modify.conflict) if modify.conflict is not None else frozenset()
    permissions.check(session, levels)
    check_targets(session, modify)
    return ModifyPlan(modify, arbiters, hides_rows(session, relation(session, modify.relid), levels[-1].role))


def _chosen(session: Session, written: Modify) -> ModifyPlan | None:
    """The plan with its engine. None: statements in its WITH list must be carried out first."""
    if any(cte.modify is not None for cte in written.ctes):
        return None
    return with_choice(session, plan(session, written))


def with_choice(session: Session, planned: ModifyPlan) -> ModifyPlan:
    return replace(planned, choice=choose_to_modify(session, planned.modify, hidden=planned.hidden))


def _is_large(planned: ModifyPlan | None) -> TypeGuard[ModifyPlan]:
    return planned is not None and planned.choice is not None and planned.choice.engine is not Engine.LOCAL


def _staged(session: Session, planned: ModifyPlan) -> SparkChanges | None:
    """The statement as kernels or Spark have staged it, if it is large. None: it is carried out row by row."""
    if not _is_large(planned):
        return None
    choice, modify = planned.choice, planned.modify
    assert choice is not None
    try:
        return _staged_by(session, planned, choice)
    except PgError as error:
        if not is_no_list(error):
            raise
        _say_declined(session, modify, "arrays of several dimensions", "by whole columns or Spark")
        return None


def _staged_by(session: Session, planned: ModifyPlan, choice: Choice) -> SparkChanges | None:
    modify = planned.modify
    if choice.kernels:
        from pgrepl.writing import insert_columns, modify_columns

        try:
            if modify.command is Command.INSERT:
                return insert_columns.stage(session, modify, on_spark=choice.on_spark)
            return modify_columns.stage(session, modify, on_spark=choice.on_spark)
        except engine.Declined as reason:
            unfit = reason
        choice = choose_to_modify(session, modify, kernels=False)
        if not choice.on_spark:
            _say_declined(session, modify, unfit, "by whole columns")
            return None
    try:
        if modify.command is Command.MERGE:
            from pgrepl.writing import merge_spark

            return merge_spark.stage(session, modify)
        from pgrepl.writing.modify_spark import stage

        return stage(session, modify, planned.arbiters)
    except engine.Declined as reason:
        _say_declined(session, modify, reason, "by Spark")
        return None


def _say_declined(session: Session, modify: Modify, reason: object, how: str) -> None:
    command = modify.command.value
    engine.declined(session, command, reason, f"{command} is not carried out {how}")


def work_out(session: Session, planned: ModifyPlan) -> Pending:
    """Compute the changes of the statement; nothing is written yet."""
    from pgrepl.writing.modify import delete, insert, instead, nothing, update

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
    if modify.command is Command.UPDATE:
        return update(session, modify)
    return delete(session, modify)


def write(session: Session, pending: Sequence[Pending]) -> None:
    """Write the changes of the statements, each at a snapshot of its own, and fire the triggers behind them."""
    from pgrepl.rows.foreign import fire_all
    from pgrepl.rows.write import next_snapshot, write_changes

    gone: set[tuple[int, Any]] = set()
    for number, each in enumerate(pending):
        changes = each.changes[each.checks.written :]
        if len(pending) > 1:
            # a row that two statements change is changed by the first
            changes = [c for c in changes if c.place is None or (c.table, c.place) not in gone]
            gone |= {(c.table, c.place) for c in changes if c.place is not None}
        if number:
            next_snapshot(session)
        write_changes(session, changes)
    fire_all(session, [(each.checks, each.changes) for each in pending])


# --- statements in WITH ---------------------------------------------------------------------------------------------


def with_queries(session: Session, ctes: Sequence[Cte]) -> tuple[tuple[Cte, ...], list[Pending]]:
    """The WITH list with the returned rows in place of the statements that change rows, and these statements, not
    written yet."""
    done: list[Cte] = []
    pending: list[Pending] = []
    modifies = any(cte.modify is not None for cte in ctes)
    for cte in ctes:
        if cte.modify is None:
            done.append(_settled(session, cte, done) if modifies else cte)
            continue
        found = work_out(session, plan(session, replace(cte.modify, around=tuple(done))))
        pending.append(found)
        done.append(replace(cte, query=_rows_query(cte.query, found.returned), modify=None))
    return tuple(done), pending


def _settled(session: Session, cte: Cte, before: Sequence[Cte]) -> Cte:
    """A volatile query beside statements that change rows, replaced by its rows, so that all statements see the
    same."""
    from pgrepl.query.rowset import rows_of

    if not any(is_volatile(expr) for expr, _ in walk_deep(cte.query)):
        return cte
    targets = tuple(Target(var_of(c, n), c.name, n) for n, c in enumerate(cte.query.columns, 1))
    entry = Rte(RteKind.CTE, cte.name, cte.query.columns, cte=cte.name)
    found = rows_of(session, Query(targets, (entry,), (RangeRef(1),), ctes=(*before, cte)))
    return replace(cte, query=_rows_query(cte.query, list(found)), recursive=False)


def _rows_query(query: Query, rows: Sequence[tuple[Any, ...]]) -> Query:
    """A query that gives these rows."""
    columns = query.columns
    targets = tuple(Target(var_of(c, n), c.name, n) for n, c in enumerate(columns, 1))
    return Query(targets, (rows_rte("*RETURNED*", columns, rows),), (RangeRef(1),))
