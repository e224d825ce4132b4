"""Phase 3 of ALTER TABLE: existing rows are checked and rewritten (ATRewriteTables).

The modules that read and write rows are imported only when there is something to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgrepl.query.rowset import rows_of
from pgrepl.rows.requirements import Requirement

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.writing.rows_spark import NewColumnValue


def require(session: Session, requirement: Requirement) -> None:
    """Raise PostgreSQL's error unless all rows satisfy the requirement."""
    from pgrepl.rows.validate import validate

    validate(session, requirement, rows_of)


def rewrite(session: Session, values: Mapping[int, list[NewColumnValue]]) -> set[int]:
    """Give existing rows of tables new values in some columns; returns the tables whose rows were rewritten."""
    if not values:
        return set()
    from pgrepl.writing.rewrite import rewrite

    return rewrite(session, values)
