"""COMMIT, ROLLBACK, CALL and DO in a body."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.plpgsql.code import Code
from pgrepl.plpgsql.frame import Frame, Step
from pgrepl.plpgsql.nodes import Commit, Rollback
from pgrepl.plpgsql.steps import make


@make.register(Commit)
@make.register(Rollback)
def _(stmt: Commit | Rollback, code: Code) -> Step:
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
