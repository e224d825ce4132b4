"""The upgrade of a catalog from DuckLake 1.0 to 1.1, on request only: programs that know 1.0 alone cannot read it then.

As DuckDB's own migration does, it gives DuckLake's tables the columns that 1.1 adds, and DuckLake's columns of inlined
rows their new names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.ducklake import NEW_COLUMNS, NEW_TABLE, VERSIONS
from pgrepl.catalog.recovery import refuse_in_recovery
from pgrepl.errors import PgError
from pgrepl.lake import sql
from pgrepl.lake.ducklake_options import option, set_option

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

NEWEST = VERSIONS[-1]


def upgrade(session: Session) -> bool:
    """Upgrade the catalog in the running write transaction. False: it has DuckLake 1.1 already."""
    refuse_in_recovery(session, "an upgrade of DuckLake")
    session.transaction.require_write()
    session.forget_all()
    version = option(session, -1, "version")
    if version == NEWEST:
        return False
    if version not in VERSIONS:
        raise PgError("0A000", f"cannot upgrade DuckLake {version} to {NEWEST}")
    link = session.link
    for name, _ in link.execute(sql.EVERY_INLINED_TABLE):
        for column in sql.OWN_COLUMNS:
            link.execute(sql.rename_inlined_column(name, column))
    for table, columns in NEW_COLUMNS.items():
        for column in columns:
            link.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    link.execute(NEW_TABLE)
    set_option(session, "version", NEWEST)
    return True
