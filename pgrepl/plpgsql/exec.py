"""Statements of a body as closures over the frame (exec_stmts in pl_exec.c).

`compile_stmt` dispatches on the statement's class; the modules named exec_… register theirs.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.plpgsql.expr import PlpgsqlExpr
from pgrepl.plpgsql.frame import Code, ExecStmt, Frame, ReturnCode
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.plpgsql.datums import SqlText
    from pgrepl.plpgsql.nodes import Statement, Statements


@singledispatch
def compile_stmt(stmt: Any, code: Code) -> ExecStmt:
    raise AssertionError(f"{type(stmt).__name__} cannot be executed")


def compile_stmts(statements: Statements, code: Code) -> ExecStmt:
    """One closure for a list of statements (exec_stmts), each noted in the frame for CONTEXT."""
    pairs: list[tuple[Statement, ExecStmt]] = [(stmt, compile_stmt(stmt, code)) for stmt in statements]
    if len(pairs) == 1:
        ((only, exec_stmt),) = pairs

        def single(frame: Frame) -> ReturnCode | None:
            around = frame.statement
            frame.statement = only
            rc = exec_stmt(frame)
            frame.statement = around
            return rc

        return single

    def run(frame: Frame) -> ReturnCode | None:
        around = frame.statement
        for stmt, exec_stmt in pairs:
            frame.statement = stmt
            rc = exec_stmt(frame)
            if rc is not None:
                frame.statement = around
                return rc
        frame.statement = around
        return None

    return run


def condition(code: Code, sql: SqlText) -> PlpgsqlExpr:
    """A condition; NULL is not true (exec_eval_boolean)."""
    return PlpgsqlExpr(code, sql, oids.BOOL)


def required(value: Any, message: str) -> Any:
    if value is None:
        raise PgError("22004", message)
    return value
