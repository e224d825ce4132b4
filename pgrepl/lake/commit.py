"""The catalog's rows for what statements have written: the one moment from which it is there.

Runs in the session's write transaction, at the statement's own snapshot; the transaction's COMMIT makes all of its
snapshots visible at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.write import Write


class Stale(Exception):
    """A table was changed by somebody else after the snapshot at which it was read: read again, stage again."""


def check_unchanged(session: Session, table_ids: Sequence[int], snapshot: int) -> None:
    """Raise Stale if a table has a newer snapshot (of data or definition) than `snapshot`; holding the write lock."""
    raise NotImplementedError


def apply(session: Session, writes: Sequence[Write], extra: Mapping[str, Any] | None = None) -> None:
    """Record what the writes do at session.snapshot(), the running statement's; stages what is not staged.

    `extra` goes into commit_extra_info as JSON (origin, transaction group); truncated tables are added to it.
    Raises Stale before anything is written if a Write's table has changed since its snapshot.
    """
    raise NotImplementedError
