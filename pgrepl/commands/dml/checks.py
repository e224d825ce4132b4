"""What must hold of the rows a statement writes, in the order PostgreSQL looks at it.

A statement makes a `RowChecks` for the relation it names and hands its changes over; what comes back is ready to be
written:

    checks = prepare(session, relation, Kind.UPDATE, modified=frozenset({2}))
    changes = checks.local(changes)      # routes, computes generated columns; NOT NULL, CHECK, bounds, unique keys
    write(session, changes)              # lake.write, one Write for each table (keeper.write_changes)
    checks.after(changes)                # foreign keys: what is referenced, what referenced it, CASCADE and its like

For each row, in the order of the rows: routing to a partition, generated columns, NOT NULL, CHECK, the partition's
bound, unique indexes (ExecInsert, ExecUpdate, ExecConstraints). Foreign keys come after the last row, as the triggers
that they are in PostgreSQL.

Rows are tuples by attribute number: column n of a table stands at n - 1, dropped columns hold None. A stored generated
column need not be filled in: `local` and `spark` do that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.relation import Relation
from pgrepl.catalog.session import Session
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.lake.place import Place

Row = tuple[Any, ...]


class Kind(Enum):
    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@frozen
class Change:
    """One row of a statement.

    An INSERT gives (table: the relation it names, new: in that relation's layout). UPDATE and DELETE give the table
    where the row stands (a leaf, or a child by inheritance), its place, and the whole row as it was; UPDATE the whole
    row as it shall be; both rows in the layout of that table. What comes back from `local` names in `to` the table
    where the new row goes, and has `new` in the layout of that one.
    """

    table: int
    place: Place | None = None
    old: Row | None = None
    new: Row | None = None  # None: the row is deleted
    to: int = 0


@frozen
class OnConflict:
    """What an INSERT does about a row that is there already.

    `arbiters` are unique indexes of the relation the statement names (empty: any of its table's). `update` is given
    the table, the row that is there and the row proposed, both in that table's layout, and gives the row's new
    version, or None when its WHERE is not true; `update` None is DO NOTHING. What is updated comes back from `local`
    as a change with a place.
    """

    arbiters: frozenset[int]
    update: Callable[[Relation, Row, Row], Row | None] | None = None
    modified: frozenset[int] = frozenset()  # the columns that DO UPDATE sets, by the named relation


class RowChecks:
    """The checks of one statement on one relation."""

    def local(self, changes: Iterable[Change], conflict: OnConflict | None = None) -> list[Change]:
        """The changes as they shall be written. The first violation in the order of the rows is raised; an error that
        `changes` itself raises comes after the violations of the rows before it."""
        raise NotImplementedError

    def after(self, changes: Sequence[Change]) -> None:
        """Once the changes are written: foreign keys on both sides. Their actions are further snapshots."""
        raise NotImplementedError

    def named(self, change: Change) -> Row:
        """The new row (of a DELETE the old one) in the layout of the relation that the statement names, for
        RETURNING."""
        raise NotImplementedError


def prepare(session: Session, relation: Relation, kind: Kind, modified: frozenset[int] = frozenset()) -> RowChecks:
    """`modified` are the columns the statement names: who may not read the others is told of these only."""
    raise NotImplementedError
