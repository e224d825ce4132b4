"""The result of a statement."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.frozen import frozen


@frozen
class ResultColumn:
    name: str
    type: int
    typmod: int = -1


@frozen
class Result:
    """A command tag, and rows as text (None is NULL) if there are any.

    In a session that streams, rows may be a `StreamedRows`, which fetches them when they are read; the tag then has no
    number.
    """

    tag: str | None
    columns: tuple[ResultColumn, ...] | None = None
    rows: Sequence[tuple[str | None, ...]] = ()
