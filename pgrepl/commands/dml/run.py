"""INSERT, UPDATE and DELETE as statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.commands.base import Result, ResultColumn, execute
from pgrepl.commands.dml import permissions
from pgrepl.commands.dml.targets import check_targets
from pgrepl.commands.query.run import as_text
from pgrepl.expr.dml.defaults import with_defaults
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.typefacts import base_and_typmod
from pgrepl.frozen import frozen
from pgrepl.sql.nodes import DeleteStmt, InsertStmt, UpdateStmt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pgrepl.catalog.session import Session


@frozen
class Outcome:
    """What a statement did: how many rows, and what it returns of them."""

    count: int
    returned: Sequence[tuple[Any, ...]] = ()


@execute.register(InsertStmt)
def insert(stmt: InsertStmt, session: Session) -> Result:
    return result(session, analyze(session, stmt))


@execute.register(UpdateStmt)
def update(stmt: UpdateStmt, session: Session) -> Result:
    return result(session, analyze(session, stmt))


@execute.register(DeleteStmt)
def delete(stmt: DeleteStmt, session: Session) -> Result:
    return result(session, analyze(session, stmt))


def analyze(session: Session, stmt: InsertStmt | UpdateStmt | DeleteStmt) -> Modify:
    """The statement as it was written."""
    if isinstance(stmt, InsertStmt):
        from pgrepl.expr.dml.insert import analyze_insert

        return analyze_insert(session, stmt)
    from pgrepl.expr.dml.update import analyze_delete, analyze_update

    return analyze_update(session, stmt) if isinstance(stmt, UpdateStmt) else analyze_delete(session, stmt)


def result(session: Session, written: Modify) -> Result:
    modify = with_defaults(session, written)
    outcome = carry_out(session, written, modify)
    words = "INSERT 0" if modify.command is Command.INSERT else modify.command.value
    tag = f"{words} {outcome.count}"
    if not modify.returning:
        return Result(tag)
    columns = [(t.name, *base_and_typmod(t.expr.type, t.expr.typmod)) for t in modify.returning]
    rows = as_text(outcome.returned, [t.expr.type for t in modify.returning], session.text_style)
    return Result(tag, tuple(ResultColumn(*column) for column in columns), rows)


def carry_out(session: Session, written: Modify, modify: Modify) -> Outcome:
    """`written` says what the statement names, `modify` has the defaults too."""
    from pgrepl.commands.dml import local

    if modify.command is Command.INSERT:
        arbiters = local.arbiters_of(session, modify)
        permissions.check(session, written)
        check_targets(session, modify)
        return local.insert(session, modify, arbiters)
    permissions.check(session, written)
    check_targets(session, modify)
    if modify.command is Command.UPDATE:
        return local.update(session, modify)
    return local.delete(session, modify)
