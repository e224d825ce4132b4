"""The first rows of a table: CREATE TABLE AS and SELECT INTO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation
from pgrepl.query.rowset import LocalRows, SparkRows
from pgrepl.rows.write import define_now

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def append(session: Session, table: Relation, rows: LocalRows | SparkRows) -> int:
    """Write the rows, whose columns are in the table's order; returns their number."""
    from pgrepl.lake import commit
    from pgrepl.lake.table import lake_table
    from pgrepl.lake.write import Write

    define_now(session)
    write = Write(session, lake_table(session, table.oid))
    if isinstance(rows, LocalRows):
        count = len(rows.rows)
        write.insert(rows.rows)
    else:
        from pgrepl.lake.stage import write_frame

        files = write_frame(session, write.table, rows.frame)
        count = sum(file.record_count for file in files)
        write.insert_files(files)
    if count:
        commit.apply(session, [write])
    return count
