"""The number of rows that an initial copy of a table would have.

Without filters the files' row counts give it, less deleted rows. With filters Spark counts a large table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.row_security import hides_rows
from pgrepl.engine import choose_job
from pgrepl.lake.files import data_files, last_snapshot
from pgrepl.replication.publisher.lake.copy import copied_rows
from pgrepl.replication.publisher.lake.copy_plan import copy_plan
from pgrepl.replication.publisher.lake.copy_spark import LakeRows

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeTable


def published_count(session: Session, schema: str, name: str, publications: Sequence[str]) -> int:
    plan = copy_plan(session, schema, name, publications)
    if hides_rows(session, plan.table, session.role):
        return 0
    rows = LakeRows(session, plan)
    if not plan.filters:
        return sum(count_rows(session, table) for table in rows.lake_tables())
    if choose_job(session, rows.estimate).on_spark:
        return rows.frame().count()
    return sum(1 for _ in copied_rows(session, plan))


def count_rows(session: Session, table: LakeTable) -> int:
    """The rows of a table in the running transaction; reads delete files, but no data file."""
    from pgrepl.lake import inlined
    from pgrepl.lake.deleted_rows import deleted_positions

    at = last_snapshot(session)
    in_files = sum(
        file.record_count - len(deleted_positions(session, table, file, at)) for file in data_files(session, table, at)
    )
    return in_files + inlined.count_rows(session, table, at)
