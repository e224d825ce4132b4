"""The base of the steps: how a statement becomes a closure over the frame, and how closures follow each other.

`make` dispatches on the statement's class; the other modules named steps_… register theirs.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.plpgsql.frame import Code, Frame, Signal, Step
from pgrepl.plpgsql.piece import Piece
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.plpgsql.datums import SqlText
    from pgrepl.plpgsql.nodes import Statement, Statements


@singledispatch
def make(stmt: Any, code: Code) -> Step:
    raise AssertionError(f"{type(stmt).__name__} has no step")


def sequence(statements: Statements, code: Code) -> Step:
    """The statements one after the other, each noted in the frame for CONTEXT."""
    pairs: list[tuple[Statement, Step]] = [(stmt, make(stmt, code)) for stmt in statements]
    if len(pairs) == 1:
        ((only, step),) = pairs

        def single(frame: Frame) -> Signal | None:
            around = frame.statement
            frame.statement = only
            signal = step(frame)
            frame.statement = around
            return signal

        return single

    def run(frame: Frame) -> Signal | None:
        around = frame.statement
        for stmt, step in pairs:
            frame.statement = stmt
            signal = step(frame)
            if signal is not None:
                frame.statement = around
                return signal
        frame.statement = around
        return None

    return run


def condition(code: Code, sql: SqlText) -> Piece:
    """A condition; NULL is not true (exec_eval_boolean)."""
    return Piece(code, sql, oids.BOOL)


def required(value: Any, message: str) -> Any:
    if value is None:
        raise PgError("22004", message)
    return value
