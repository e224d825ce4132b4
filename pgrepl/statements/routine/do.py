"""DO: a block of PL/pgSQL that runs at once (ExecuteDoStmt)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.context import Block
from pgrepl.errors import PgError
from pgrepl.plpgsql.call import compiled_block, run_block
from pgrepl.query.result import Result
from pgrepl.statements.routine.errors import transposed
from pgrepl.statements.routine.languages import LANGUAGES

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.plpgsql.frame import Code
    from pgrepl.sql.nodes import DoStmt


def execute_do(stmt: DoStmt, session: Session) -> Result:
    code = compiled_do(stmt, session)
    transaction = session.transaction
    atomic = transaction.block is not Block.NONE or bool(session.contexts)
    if not atomic:
        transaction.begin_within()
    run_block(session, code, atomic=atomic)
    if not atomic:
        transaction.leave_within()
    return Result("DO")


def compiled_do(stmt: DoStmt, session: Session) -> Code:
    """The code of the block, which has been checked."""
    given: dict[str, str] = {}
    for option in stmt.options:
        if option.name in given:
            raise PgError("42601", "conflicting or redundant options", location=option.location)
        given[option.name] = str(option.value)
    if "as" not in given:
        raise PgError("42601", "no inline code specified")
    language = given.get("language", "plpgsql")
    if language not in LANGUAGES:
        raise PgError("42704", f'language "{language}" does not exist')
    if language != "plpgsql":
        raise PgError("0A000", f'language "{language}" does not support inline code execution')
    source = given["as"]
    with transposed(session, source):
        return compiled_block(session, source)
