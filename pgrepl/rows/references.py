"""The tables that reference others by foreign keys, for TRUNCATE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.constraint import constraint_row
from pgrepl.catalog.relation import relation
from pgrepl.catalog.tables import pg_constraint
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def referencing_tables(session: Session, tables: Sequence[int]) -> list[int]:
    """The OIDs of other tables with foreign keys to any of these. A key to a partition is a key to the whole table
    (heap_truncate_find_FKs)."""
    reached = list(tables)
    found: set[int] = set()
    for table in reached:
        for row in store.rows(session, pg_constraint, confrelid=table, contype="f"):
            if row.conrelid not in tables:
                found.add(row.conrelid)
            while row.conparentid:
                row = constraint_row(session, row.conparentid)
            if row.confrelid not in reached:
                reached.append(row.confrelid)
    return sorted(found)


def refuse_referenced(session: Session, tables: Sequence[int]) -> None:
    """Raise unless every table that references a truncated one is truncated too (heap_truncate_check_FKs)."""
    for table in tables:
        for other in referencing_tables(session, [table]):
            if other not in tables:
                name, others = relation(session, table).name, relation(session, other).name
                raise PgError(
                    "0A000",
                    "cannot truncate a table referenced in a foreign key constraint",
                    detail=f'Table "{others}" references "{name}".',
                    hint=f'Truncate table "{others}" at the same time, or use TRUNCATE ... CASCADE.',
                )
