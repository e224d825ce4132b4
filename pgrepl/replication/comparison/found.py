"""What a comparison finds of a table, and who is told of its progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.ground.errors import PgError

Texts = tuple[str | None, ...]  # of the columns of a row
KINDS = MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"


@frozen
class Difference:
    """A row that is missing here, is here too many, or differs. `there`: its texts as it ought to be here; `sent`: as
    the publisher sends it; `here`: as it is."""

    kind: str
    key: Any  # of the values of the key, or of the whole row; equal for equal rows
    there: Texts | None = None
    here: Texts | None = None
    sent: Texts | None = None

    @property
    def texts(self) -> Texts:
        row = self.here if self.there is None else self.there
        assert row is not None
        return row

    def differing(self) -> list[int]:
        """The places of the columns that differ."""
        if self.there is None or self.here is None:
            return []
        return [n for n, (one, other) in enumerate(zip(self.there, self.here, strict=True)) if one != other]


@dataclass
class TableComparison:
    """What is found of a table."""

    name: str
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()  # none: whole rows are compared
    rows_there: int = 0
    rows_here: int = 0
    differences: list[Difference] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    pieces: int = 0
    differing: list[int] = field(default_factory=list)  # the pieces that differ
    known: int = 0  # pieces that an earlier run has found equal, and this one has not looked at
    is_complete: bool = True  # whether all differences were looked for
    unjudged: tuple[str, ...] = ()  # what replication does not bring, so that it is no difference
    error: PgError | None = None  # why it could not be told

    @property
    def is_equal(self) -> bool:
        return self.error is None and not any(self.counts.values())


class Progress:
    """Told of the rows that both sides have looked at; others override its methods."""

    def begins(self, table: str, rows: int) -> None:
        """A table of about so many rows."""

    def looked(self, table: str, rows: int) -> None:
        """So many more rows."""

    def ends(self, comparison: TableComparison) -> None: ...
