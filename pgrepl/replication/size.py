"""Whether replication is to work in bulk: by `pgrepl.engine`, and by the number of rows it has to look at.

Whole columns are worth the while for more than `pgrepl.local_rows`. Spark has its price, most of all when it has to be
started first: one by one, a message costs some 60 microseconds and a copied row 30; a job costs a second or two, the
first ones several, and the start of a session some more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

WARM, COLD = 3, 10  # times `pgrepl.local_rows` that Spark is for, once it has been started, and when it has not


def least_rows(session: Session) -> int | None:
    """From how many rows on work is done by whole columns; None: it never is."""
    engine = session.settings.get("pgrepl.engine")
    if engine == "local":
        return None
    return 1 if engine == "spark" else int(session.settings.value("pgrepl.local_rows")) + 1


def is_large(session: Session, rows: int) -> bool:
    least = least_rows(session)
    return least is not None and rows >= least


def is_for_spark(session: Session, rows: int) -> bool:
    """Whether it is worth a job of Spark's."""
    from pgrepl import jobs

    least = least_rows(session)
    if least is None:
        return False
    if session.settings.get("pgrepl.engine") == "auto":
        least *= WARM if jobs.started() else COLD
    return rows >= least
