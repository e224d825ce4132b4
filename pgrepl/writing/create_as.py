"""The first rows of a table: CREATE TABLE AS and SELECT INTO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation
from pgrepl.query.rowset import LocalRows, SparkRows
from pgrepl.rows.array_columns import keep_dimensions
from pgrepl.rows.write import define_now

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.write import Write


def append(session: Session, table: Relation, rows: LocalRows | SparkRows) -> int:
    """Write the rows, whose columns are in the table's order; returns their number."""
    from pgrepl.lake import commit
    from pgrepl.lake.table import lake_table
    from pgrepl.lake.write import Write

    if isinstance(rows, LocalRows):
        keep_dimensions(session, table, rows.rows)
    define_now(session)
    write = Write(session, lake_table(session, table.oid))
    count = add_rows(session, write, rows)
    if count:
        commit.apply(session, [write])
    return count


def add_rows(session: Session, write: Write, rows: LocalRows | SparkRows) -> int:
    """Add the rows to a write; returns their number."""
    if isinstance(rows, LocalRows):
        write.insert(rows.rows)
        return len(rows.rows)
    from pgrepl.lake.stage import write_frame

    files = write_frame(session, write.table, rows.frame)
    write.insert_files(files)
    return sum(file.record_count for file in files)
