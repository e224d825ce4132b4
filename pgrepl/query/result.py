"""What a statement answers."""

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
    """What a statement answers: its command tag, and rows as text (None is NULL) if it has any.

    To a session that streams, rows may be a `StreamedRows`, which fetches them when they are asked for; the tag has no
    number then.
    """

    tag: str | None
    columns: tuple[ResultColumn, ...] | None = None
    rows: Sequence[tuple[str | None, ...]] = ()
