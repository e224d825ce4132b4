"""INSERT, UPDATE, DELETE and MERGE as statements, alone or in WITH.

A small statement is computed in this process: in a block its changes are pending under row locks, outside it holds
the catalog's write lock. A large one is staged by kernels or Spark without the write lock, and again if another
session has changed what it read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.catalog.locks.lock_table import RelationMode
from pgrepl.catalog.session.transaction import is_read_only
from pgrepl.engine import choice as engine_choice
from pgrepl.engine.choice import Choice, Engine
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query
from pgrepl.expr.dml_tree import Command, Modify
from pgrepl.expr.tree import Query, has_modifying_cte
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.query import run
from pgrepl.query.result import Result, result_columns
from pgrepl.query.rowset import LocalRows
from pgrepl.query.run import texts_for
from pgrepl.rows.after_triggers import fire_triggers
from pgrepl.rows.changes import write_changes
from pgrepl.rows.foreign.key import NO_ACTION, RESTRICT, keys_of, keys_to
from pgrepl.rows.locking import lock_tables, others_hold_locks
from pgrepl.sql.nodes import AnalyzedStmt, DeleteStmt, InsertStmt, MergeStmt, SelectStmt, UpdateStmt
from pgrepl.types.lake.lists import is_no_list
from pgrepl.writing.planning import ModifyPlan, Together, choose_to_modify, plan, running
from pgrepl.writing.views import check_writable, on_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.rows.checks_spark import SparkChanges
    from pgrepl.writing.modify import Pending

Statement = InsertStmt | UpdateStmt | DeleteStmt | MergeStmt | AnalyzedStmt
_TRIES = 3  # without the write lock; then with it


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
        analysed = _at_once(stmt, session)
        if isinstance(analysed, Result):
            return analysed
        for _ in range(_TRIES):
            done = _without_lock(stmt, session, analysed)
            if done is not None:
                return done
            if transaction.is_writing:
                break
            analysed = None
    transaction.require_write()
    if others_hold_locks(session):
        return _run_under_locks(session, stmt)
    return _locked(session, analyze_modifying(session, stmt))


def _settle(stmt: Statement, session: Session) -> None:
    """Let the statements around this one write the rows that it may meet: those of its table, and of tables that
    foreign keys tie to it."""
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
        tables = list(dict.fromkeys(oid for change in changing for oid in target_tables(session, change)))
        planned = _chosen(session, written) if not _is_small(stmt, session) else None
        if _is_large(planned):
            # too many rows for locks of their own
            version = transaction.version
            lock_tables(session, tables, RelationMode.EXCLUSIVE)
            transaction.require_write()
            if version is None or transaction.version != version:
                return _locked(session, analyze_modifying(session, stmt))
            return _locked(session, written, planned=with_choice(session, planned))  # kernels are allowed now
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
    from pgrepl.rows.checks_spark import apply

    apply(staged)
    engine_choice.done(session, written.command.value, staged.engine)
    return Result(_tag(written, staged.count))


def _locked(session: Session, written: Modify, *, small: bool = False, planned: ModifyPlan | None = None) -> Result:
    """Run the statement; the session holds the locks it needs. `planned`: its plan, if it is known already and WITH has
    no statement that changes rows."""
    if has_modifying_cte(written.ctes):
        together = Together(session, written.ctes)
        return _result(session, written, together.modify(written))
    if planned is None:
        planned = plan(session, written) if small else with_choice(session, plan(session, written))
    staged = _staged(session, planned) if not small else None
    if staged is not None:
        return _applied(session, written, staged)
    if planned.choice is not None and planned.choice.unfit and not planned.choice.on_spark:
        _say_declined(session, planned.modify, planned.choice.unfit, "by whole columns")
    done = running(session, planned).run()
    write_changes(session, done.changes[done.checks.written :])
    fire_triggers(session, done.checks, done.changes)
    return _result(session, written, done)


def _result(session: Session, written: Modify, done: Pending) -> Result:
    if not written.returning:
        return Result(_tag(written, done.count))
    columns = result_columns(session, written.returning)
    if session.keeps_values:
        return Result(_tag(written, done.count), columns, values=LocalRows((), done.returned))
    rows = texts_for(session, [t.expr.type for t in written.returning])(done.returned)
    return Result(_tag(written, done.count), columns, rows)


def _tag(modify: Modify, count: int) -> str:
    words = "INSERT 0" if modify.command is Command.INSERT else modify.command.value
    return f"{words} {count}"


def _chosen(session: Session, written: Modify) -> ModifyPlan | None:
    """The plan with its engine. None: statements in its WITH list must be carried out first."""
    if has_modifying_cte(written.ctes):
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
        from pgrepl.writing import modify_columns

        try:
            if modify.command is Command.INSERT:
                return modify_columns.stage_insert(session, modify, on_spark=choice.on_spark)
            return modify_columns.stage_modify(session, modify, on_spark=choice.on_spark)
        except Declined as reason:
            unfit = reason
        choice = choose_to_modify(session, modify, kernels=False)
        if not choice.on_spark:
            _say_declined(session, modify, unfit, "by whole columns")
            return None
    try:
        from pgrepl.writing import modify_spark

        if modify.command is Command.MERGE:
            return modify_spark.stage_merge(session, modify)
        return modify_spark.stage(session, modify, planned.arbiters)
    except Declined as reason:
        _say_declined(session, modify, reason, "by Spark")
        return None


def _say_declined(session: Session, modify: Modify, reason: object, how: str) -> None:
    command = modify.command.value
    engine_choice.declined(session, command, reason, f"{command} is not carried out {how}")


# --- selecting --------------------------------------------------------------------------------------------------------


def select_modifying(session: Session, stmt: SelectStmt) -> tuple[Query, list[tuple[Any, ...]]]:
    """The analysed query and its rows; what it changes is written."""
    if is_read_only(session):
        check_writable(session, "SELECT", analyze_query(session, stmt).ctes)
    transaction = session.transaction
    if not transaction.keeps_pending:
        transaction.require_write()
        others_hold_locks(session)
    query = analyze_query(session, stmt)
    while transaction.keeps_pending:
        tables = [oid for cte in query.ctes if cte.modify is not None for oid in target_tables(session, cte.modify)]
        if not lock_tables(session, tables, RelationMode.ROW_EXCLUSIVE):
            break
        query = analyze_query(session, stmt)
    run.check(session, query)
    run.check_functions(session, query)
    return query, modifying_rows(session, query)


def modifying_rows(session: Session, query: Query) -> list[tuple[Any, ...]]:
    """The rows of a query whose privileges have been checked; the session holds the locks it needs."""
    return Together(session, query.ctes).select(query)
