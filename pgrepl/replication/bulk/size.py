"""Whether replication is to be Spark's: by `pgrepl.engine`, and by the number of rows it has to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def is_large(session: Session, rows: int) -> bool:
    least = least_rows(session)
    return least is not None and rows >= least


def least_rows(session: Session) -> int | None:
    """How many rows Spark is worth the while for; None: it is not wanted."""
    engine = session.settings.get("pgrepl.engine")
    if engine == "local":
        return None
    return 1 if engine == "spark" else int(session.settings.value("pgrepl.local_rows")) + 1
