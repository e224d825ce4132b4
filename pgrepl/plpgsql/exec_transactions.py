"""COMMIT, ROLLBACK, CALL and DO in a body."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.expr.tree import Const, Expr
from pgrepl.plpgsql.assignment import assign
from pgrepl.plpgsql.datums import Rec, RecField, Var
from pgrepl.plpgsql.exec import compile_stmt
from pgrepl.plpgsql.expr import PlpgsqlExpr
from pgrepl.plpgsql.frame import Code, ExecStmt, Frame
from pgrepl.plpgsql.nodes import Call, Commit, Do, Rollback
from pgrepl.plpgsql.sql import speaking_of, variables_of
from pgrepl.plpgsql.variables import FrameVariables


@compile_stmt.register(Call)
def _(stmt: Call, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.query)

    def run(frame: Frame) -> None:
        session = frame.session
        with speaking_of(frame, stmt.query), variables_of(frame, stmt.query, as_values=True) as variables:
            prepared = session.hooks.procedure(session, piece.tree)
        targets = [
            _target(frame, variables, argument, prepared.columns[n].name)
            for n, (_, argument) in enumerate(prepared.outputs)
        ]
        with speaking_of(frame, stmt.query):
            row = prepared.run(session, atomic=frame.atomic)
        frame.code.refresh()
        frame.row_count = len(row) > 0
        for number, column, value in zip(targets, prepared.columns, row, strict=True):
            assign(frame, number, value, column.type, column.typmod)

    return run


def _target(frame: Frame, variables: FrameVariables, argument: Expr | None, name: str) -> int:
    """The variable that is the argument of an output parameter (make_callstmt_target)."""
    place = variables.places.get(argument.location) if isinstance(argument, Const) else None
    if place is None:
        message = f'procedure parameter "{name}" is an output parameter but corresponding argument is not writable'
        raise PgError("42601", message)
    number, field = place
    datums = frame.code.function.datums
    found = next(d for d in datums if isinstance(d, RecField) and (d.record, d.name) == place) if field else None
    datum = datums[number] if found is None else found
    owner = datums[number]
    if isinstance(owner, (Var, Rec)) and owner.constant:
        raise PgError("22005", f'variable "{owner.name}" is declared CONSTANT')
    return datum.number


@compile_stmt.register(Do)
def _(stmt: Do, code: Code) -> ExecStmt:
    piece = PlpgsqlExpr(code, stmt.query)

    def run(frame: Frame) -> None:
        piece.answer(frame)
        frame.row_count = 0

    return run


@compile_stmt.register(Commit)
@compile_stmt.register(Rollback)
def _(stmt: Commit | Rollback, code: Code) -> ExecStmt:
    commits, chain = isinstance(stmt, Commit), stmt.chain

    def run(frame: Frame) -> None:
        transaction = frame.session.transaction
        if frame.atomic:
            raise PgError("2D000", "invalid transaction termination")
        if transaction.savepoints:
            what = "commit" if commits else "roll back"
            raise PgError("2D000", f"cannot {what} while a subtransaction is active")
        transaction.end_within(commit=commits, chain=chain)
        frame.code.refresh()

    return run
