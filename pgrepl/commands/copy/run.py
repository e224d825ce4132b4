"""COPY as a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.commands.base import Result, execute
from pgrepl.sql.nodes import CopyStmt

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@execute.register(CopyStmt)
def copy(stmt: CopyStmt, session: Session) -> Result:
    if stmt.is_from:
        from pgrepl.commands.copy.copy_from import copy_from

        return copy_from(stmt, session)
    from pgrepl.commands.copy.copy_to import copy_to

    return copy_to(stmt, session)
