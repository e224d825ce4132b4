"""Calls: of DO, of functions and procedures, of trigger functions (pl_handler.c, the entries of pl_exec.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.plpgsql.compilation import Function
from pgrepl.plpgsql.compile import compiled, new_compilation
from pgrepl.plpgsql.frame import RETURNED, Frame
from pgrepl.plpgsql.steps_errors import located
from pgrepl.types.depth import stack_depth_exceeded

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.plpgsql.code import Code

INLINE = "inline_code_block"


def compiled_block(session: Session, source: str) -> Code:
    """The code of DO (plpgsql_compile_inline)."""
    return compiled(new_compilation(session, Function(INLINE, INLINE, source, is_block=True)))


def run_block(session: Session, code: Code, *, atomic: bool) -> None:
    run(Frame(code, session, atomic=atomic))


def run(frame: Frame) -> None:
    """Run the body. `frame.returned` is what RETURN has given."""
    session, code = frame.session, frame.code
    function = code.function
    contexts = session.contexts
    depth = len(contexts)
    contexts.append(frame.where)
    code.refresh()
    frame[function.found] = False
    try:
        signal = code.run(frame)
        if signal is not RETURNED and not (function.is_block or function.may_end):
            frame.statement = None
            raise PgError("2F005", "control reached end of function without RETURN")
    except PgError as error:
        raise located(frame, error) from None
    except RecursionError:
        raise located(frame, stack_depth_exceeded()) from None
    finally:
        del contexts[depth:]
