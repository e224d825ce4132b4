"""Whether replication is to be Spark's: by `pgrepl.engine`, and by the number of rows it has to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def is_large(session: Session, rows: int) -> bool:
    engine = session.settings.get("pgrepl.engine")
    if engine != "auto":
        return engine == "spark" and rows > 0
    return rows > int(session.settings.value("pgrepl.local_rows"))
