"""The changes of single rows by INSERT, UPDATE, DELETE and MERGE, and ON CONFLICT's action."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.lake.ctid import RowPlace

Row = tuple[Any, ...]  # column n of a table stands at n - 1


class ModifyKind(Enum):
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    MERGE = "MERGE"


@frozen
class ModifiedRow:
    """The change of one row.

    An INSERT fills `table` (the relation it names) and `new` (in that relation's layout). UPDATE and DELETE fill the
    table where the row stands (a leaf, or a child by inheritance), its place, and the whole old row; UPDATE also the
    whole new row. Both rows are in the layout of that table. `RowChecks.local` returns changes whose `to` is the table
    of the new row, and whose `new` is in the layout of that one.
    """

    table: int
    place: RowPlace | None = None
    old: Row | None = None
    new: Row | None = None  # None: the row is deleted
    to: int = 0


@frozen
class ConflictAction:
    """ON CONFLICT's action for a row whose key exists already.

    `arbiters` are unique indexes of the relation the statement names (empty: all of them). `update` gets the table, the
    existing row and the proposed row, both in that table's layout, and returns the row's new version, or None when its
    WHERE is not true. `update` None is DO NOTHING. `RowChecks.local` returns an updated row as a change with a place,
    and nothing for a row that was left alone.
    """

    arbiters: frozenset[int] = frozenset()
    update: Callable[[Relation, Row, Row], Row | None] | None = None
    modified: frozenset[int] = frozenset()  # the columns that DO UPDATE sets, by the named relation
