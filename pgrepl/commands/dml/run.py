"""INSERT, UPDATE and DELETE as statements, alone or in WITH.

A statement is first worked out and then written: all that stand in one WITH list, and the statement they belong to,
see the state before any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pgrepl.commands.base import Result, ResultColumn, execute
from pgrepl.commands.dml import permissions
from pgrepl.commands.dml.targets import check_targets
from pgrepl.commands.dml.views import on_tables
from pgrepl.commands.query.run import as_text
from pgrepl.expr.dml.insert import rows_rte
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.dml.statement import analyze_modifying
from pgrepl.expr.tree import Cte, Query, RangeRef, Target, Var
from pgrepl.expr.typefacts import base_and_typmod
from pgrepl.sql.nodes import DeleteStmt, InsertStmt, MergeStmt, UpdateStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.commands.dml.changes import Change
    from pgrepl.commands.dml.checks import RowChecks


@dataclass
class Pending:
    """A statement that is worked out: what it changes, and what it returns of that."""

    modify: Modify
    checks: RowChecks
    changes: Sequence[Change]
    returned: Sequence[tuple[Any, ...]] = ()

    @property
    def count(self) -> int:
        return len(self.changes)


@execute.register(InsertStmt)
@execute.register(UpdateStmt)
@execute.register(DeleteStmt)
@execute.register(MergeStmt)
def modify_rows(stmt: InsertStmt | UpdateStmt | DeleteStmt | MergeStmt, session: Session) -> Result:
    written = analyze_modifying(session, stmt)
    ctes, before = with_queries(session, written.ctes)
    done = work_out(session, replace(written, ctes=ctes))
    write(session, [*before, done])
    modify = done.modify
    words = "INSERT 0" if modify.command is Command.INSERT else modify.command.value
    tag = f"{words} {done.count}"
    if not modify.returning:
        return Result(tag)
    columns = [(t.name, *base_and_typmod(t.expr.type, t.expr.typmod)) for t in modify.returning]
    rows = as_text(done.returned, [t.expr.type for t in modify.returning], session.text_style)
    return Result(tag, tuple(ResultColumn(*column) for column in columns), rows)


def work_out(session: Session, written: Modify) -> Pending:
    """What the statement changes; nothing is written yet."""
    from pgrepl.commands.dml import local

    modify, levels = on_tables(session, written)
    arbiters = local.arbiters_of(session, modify)
    permissions.check(session, levels)
    check_targets(session, modify)
    if modify.command is Command.INSERT:
        return local.insert(session, modify, arbiters)
    if modify.command is Command.UPDATE:
        return local.update(session, modify)
    return local.delete(session, modify)


def write(session: Session, pending: Sequence[Pending]) -> None:
    """Write what the statements change, each at a snapshot of its own, and look at foreign keys."""
    from pgrepl.commands.dml.keeper_write import next_snapshot, write_changes

    gone: set[tuple[int, Any]] = set()
    for number, each in enumerate(pending):
        changes = each.changes
        if len(pending) > 1:
            # of two statements that change one row the first does
            changes = [c for c in changes if c.place is None or (c.table, c.place) not in gone]
            gone |= {(c.table, c.place) for c in changes if c.place is not None}
        if number:
            next_snapshot(session)
        write_changes(session, changes)
    for each in pending:
        each.checks.after(each.changes)


# --- statements in WITH ---------------------------------------------------------------------------------------------


def with_queries(session: Session, ctes: Sequence[Cte]) -> tuple[tuple[Cte, ...], list[Pending]]:
    """The WITH list with what its statements return in their places, and these statements."""
    done: list[Cte] = []
    pending: list[Pending] = []
    for cte in ctes:
        if cte.modify is None:
            done.append(cte)
            continue
        found = work_out(session, replace(cte.modify, around=tuple(done)))
        pending.append(found)
        done.append(replace(cte, query=_rows_query(cte.query, found.returned), modify=None))
    return tuple(done), pending


def _rows_query(query: Query, rows: Sequence[tuple[Any, ...]]) -> Query:
    """Rows as the query that gives them."""
    columns = query.columns
    targets = tuple(
        Target(Var(c.type, typmod=c.typmod, collation=c.collation, varno=1, attnum=n), c.name, n)
        for n, c in enumerate(columns, 1)
    )
    return Query(targets, (rows_rte("*RETURNED*", columns, rows),), (RangeRef(1),))
