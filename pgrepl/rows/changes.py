"""What a statement does to single rows."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.lake.place import RowPlace

Row = tuple[Any, ...]  # column n of a table stands at n - 1


class ModifyKind(Enum):
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@frozen
class ModifiedRow:
    """One row of a statement.

    An INSERT gives (table: the relation it names, new: in that relation's layout). UPDATE and DELETE give the table
    where the row stands (a leaf, or a child by inheritance), its place, and the whole row as it was; UPDATE the whole
    row as it shall be; both rows in the layout of that table. What comes back from `RowChecks.local` names in `to` the
    table where the new row goes, and has `new` in the layout of that one.
    """

    table: int
    place: RowPlace | None = None
    old: Row | None = None
    new: Row | None = None  # None: the row is deleted
    to: int = 0


@frozen
class ConflictAction:
    """What an INSERT does about a row that is there already.

    `arbiters` are unique indexes of the relation the statement names (empty: all of them). `update` is given the
    table, the row that is there and the row proposed, both in that table's layout, and gives the row's new version, or
    None when its WHERE is not true; `update` None is DO NOTHING. What is updated comes back from `RowChecks.local` as
    a change with a place; what was left alone does not come back.
    """

    arbiters: frozenset[int] = frozenset()
    update: Callable[[Relation, Row, Row], Row | None] | None = None
    modified: frozenset[int] = frozenset()  # the columns that DO UPDATE sets, by the named relation
