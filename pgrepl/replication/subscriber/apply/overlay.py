"""One table while messages are applied: its rows as the messages so far have changed them.

Rows of the table are read when messages look for them, by the columns of the replica identity; then they are changed in
memory. At the end `steps` gives the result: places to delete, rows to update and to insert, in the order of their last
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.session.statistics import count_index_scans
from pgrepl.expr.analyse.sorting import sort_operators
from pgrepl.expr.row_filter_checks import check_replica_identity
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read import local
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.data_file import RowPlace
from pgrepl.lake.table import lake_table
from pgrepl.replication.subscriber.apply.progress import Changed, Journal, LiveRow
from pgrepl.replication.subscriber.apply.target import SearchKey
from pgrepl.replication.wire.messages import Row
from pgrepl.rows.checks_table import TableChecks
from pgrepl.rows.unique import UniqueChecks, UniqueIndex
from pgrepl.types.names import format_type
from pgrepl.types.values import hash_form

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


@frozen
class RowResult:
    """The result for one row."""

    place: RowPlace | None
    row: Row | None  # None: deleted


class Overlay:
    """The rows of one table that is not partitioned."""

    def __init__(self, session: Session, table: Relation, journal: Journal) -> None:
        self.relation = table
        self.truncated = False
        self._journal = journal
        self._session = session
        self._checks = TableChecks(session, table, table, frozenset())
        self._unique = UniqueChecks(session, table, deferrable=False)
        self._clock = count(1)
        self._finders: dict[SearchKey, _Finder] = {}
        self._rows: dict[RowPlace, LiveRow] = {}  # read from the table, deleted ones too
        self._live: dict[LiveRow, None] = {}  # changed or inserted, in the order of their last change
        self._deleted: dict[RowPlace, None] = {}
        self._allowed: set[str] = set()

    # --- finding ------------------------------------------------------------------------------------------------------

    def prefetch(self, identity: SearchKey, searched: Iterable[Sequence[Any]], inserted: Iterable[Row]) -> None:
        """Read at once the rows that messages will look for."""
        self._unique.load(inserted)
        self._finder(identity).load(searched)

    def prefetch_keys(self, rows: Iterable[Row]) -> None:
        self._unique.load(rows)

    def find(self, identity: SearchKey, searched: Sequence[Any]) -> LiveRow | None:
        """The row with the identity of this one (FindReplTupleInLocalRel)."""
        return self._finder(identity).find(searched)

    def _finder(self, identity: SearchKey) -> _Finder:
        finder = self._finders.get(identity)
        if finder is None:
            finder = self._finders[identity] = _Finder(self._session, self, identity)
            for live in self._live:
                finder.add(live)
        return finder

    def adopt(self, place: RowPlace, row: Row) -> LiveRow | None:
        """The LiveRow of a row that was read from the table; None: messages have changed or deleted it since."""
        if self.truncated or place in self._deleted:
            return None
        known = self._rows.get(place)
        if known is None:
            known = self._rows[place] = LiveRow(row, place)
            return known
        return None if known.changed else known

    # --- changing -----------------------------------------------------------------------------------------------------

    def insert(self, row: Row) -> Row:
        """Insert a row, after all checks (ExecSimpleRelationInsert); returns it with its generated columns."""
        row = self.checked(row)
        self.enter(row)
        return row

    def enter(self, row: Row) -> None:
        """Insert a row whose constraints have been checked, all but unique keys."""
        live = LiveRow(row, None)
        try:
            self._unique.enter(row, live)
        except PgError:
            self._unique.leave(live)
            raise
        self._touch(live)
        self._journal.add(Changed(self.relation, live, row, is_new=True))
        for finder in self._finders.values():
            finder.add(live)

    def update(self, live: LiveRow, row: Row) -> Row:
        """Replace a row, after all checks (ExecSimpleRelationUpdate)."""
        self._require("UPDATE")
        row = self.checked(row)
        old, holder = live.row, _holder(live)
        self._unique.enter(row, live, replaces=holder, old=old)
        for finder in self._finders.values():
            finder.remove(live)
        live.row = row
        self._touch(live)
        self._journal.add(Changed(self.relation, live, row, old))
        for finder in self._finders.values():
            finder.add(live)
        return row

    def taken(self, row: Row, live: LiveRow | None) -> Iterator[tuple[UniqueIndex, tuple[Any, ...], Any, Row | None]]:
        """The unique indexes in which another row than `live` has the key of this row (UniqueChecks.taken)."""
        own: frozenset[Any] = frozenset() if live is None else frozenset([live, live.place])
        return self._unique.taken(self.checked(row), own)

    def delete(self, live: LiveRow) -> None:
        self._require("DELETE")
        self.remove(live)

    def remove(self, live: LiveRow) -> None:
        """Remove a row that is deleted, or moved to another partition."""
        self._unique.leave(_holder(live))
        for finder in self._finders.values():
            finder.remove(live)
        self._live.pop(live, None)
        if live.place is not None:
            self._deleted[live.place] = None
            live.changed = next(self._clock)
        self._journal.add(Changed(self.relation, live, None, live.row))

    def truncate(self) -> None:
        self.truncated = True
        self._unique.clear()
        for finder in self._finders.values():
            finder.clear()
        self._live.clear()
        self._deleted.clear()

    @property
    def is_changed(self) -> bool:
        return self.truncated or bool(self._live) or bool(self._deleted)

    def fits(self, row: Row) -> bool:
        """Whether the partition's bound admits the row."""
        return not self.relation.is_partition or self._checks.in_bound(row)

    def _require(self, command: str) -> None:
        if command not in self._allowed:
            check_replica_identity(self._session, self.relation, command)
            self._allowed.add(command)

    def checked(self, row: Row) -> Row:
        """The row with its generated columns, after the checks that need no other row."""
        row = self._checks.complete(row)
        self._checks.constraints(row)
        self._checks.bound(row)
        return row

    def _touch(self, live: LiveRow) -> None:
        live.changed = next(self._clock)
        self._live.pop(live, None)
        self._live[live] = None

    # --- the result ---------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[RowResult]:
        """The results for all changed rows."""
        for place in self._deleted:
            yield RowResult(place, None)
        for live in self._live:
            yield RowResult(None if self.truncated else live.place, live.row)


def _holder(live: LiveRow) -> object:
    """The name of a row in UniqueChecks: the place of an unchanged row of the table, else the row itself."""
    return live if live.changed or live.place is None else live.place


class _Finder:
    """Finds rows by the columns of one identity."""

    def __init__(self, session: Session, overlay: Overlay, identity: SearchKey) -> None:
        self._session = session
        self._overlay = overlay
        self._table = overlay.relation
        self._identity = identity
        forms = [(n - 1, self._form(n)) for n in identity.attnums]
        known = next((n for n, (_, form) in enumerate(forms) if form is None), len(forms))
        self._positions = [position for position, _ in forms[:known]]
        self._forms = [form for _, form in forms[:known] if form is not None]
        self._rest = forms[known:]  # from the first column on whose type knows no equality
        self._found: dict[tuple[Any, ...], list[LiveRow]] = {}
        self._asked: set[tuple[Any, ...]] = set()
        self._empty = False

    def _form(self, attnum: int) -> Callable[[Any], Any] | None:
        attribute = self._table.attributes[attnum - 1]
        if not self._identity.by_index and not sort_operators(self._session, attribute.type).eq:
            return None
        return hash_form(attribute.type)

    def _key(self, row: Sequence[Any]) -> tuple[Any, ...]:
        if len(self._positions) == 1:  # most keys are one column
            value = row[self._positions[0]]
            return (None if value is None else self._forms[0](value),)
        return tuple(
            [
                None if (value := row[position]) is None else form(value)
                for position, form in zip(self._positions, self._forms, strict=True)
            ]
        )

    def find(self, searched: Sequence[Any]) -> LiveRow | None:
        key = self._key(searched)
        if key not in self._asked:
            self.load([searched])
        for live in self._found.get(key, ()):
            if not self._rest or self._rest_equal(live.row, searched):
                return live
        return None

    def _rest_equal(self, row: Sequence[Any], searched: Sequence[Any]) -> bool:
        """Whether the remaining columns are equal. A type without equality operator is an error only when two of its
        values have to be compared (tuples_equal)."""
        for position, form in self._rest:
            one, other = row[position], searched[position]
            if one is None or other is None:
                if one is not other:
                    return False
            elif form is None:
                name = format_type(self._table.attributes[position].type)
                raise PgError("42883", f"could not identify an equality operator for type {name}")
            elif form(one) != form(other):
                return False
        return True

    def load(self, searched: Iterable[Sequence[Any]]) -> None:
        wanted = {key: row for row in searched if (key := self._key(row)) not in self._asked}
        self._asked.update(wanted)
        if not wanted or self._empty or self._overlay.truncated:
            return
        table = lake_table(self._session, self._table.oid)
        everything = [column.num for column in self._table.kept]
        for values in self._read(table, everything, wanted):
            row: list[Any] = [None] * len(self._table.attributes)
            for number, value in zip(everything, values, strict=False):
                row[number - 1] = value
            key = self._key(row)
            live = self._overlay.adopt(values[-1], tuple(row)) if key in wanted else None
            if live is not None and live not in self._found.get(key, ()):
                self._found.setdefault(key, []).append(live)

    def _read(
        self, table: Any, everything: list[int], wanted: dict[tuple[Any, ...], Sequence[Any]]
    ) -> Iterator[tuple[Any, ...]]:
        """Read rows of the table: the wanted ones, and perhaps others."""
        rows = wanted.values()
        if self._positions and not any(row[position] is None for row in rows for position in self._positions):
            keys = [tuple([row[position] for position in self._positions]) for row in rows]
            attnums = [position + 1 for position in self._positions]
            count_index_scans(self._session, self._table.oid, attnums, len(keys))
            for _, values in local.lookup(self._session, table, attnums, keys, everything):
                yield values
            return
        bounds = []
        for position in self._positions:
            searched = {row[position] for row in rows}
            if None not in searched:
                bounds.append(Bound(position + 1, values=tuple(searched)))
        yield from local.rows(self._session, table, everything, bounds, places=True)

    def add(self, live: LiveRow) -> None:
        self._found.setdefault(self._key(live.row), []).append(live)

    def remove(self, live: LiveRow) -> None:
        rows = self._found.get(self._key(live.row))
        if rows and live in rows:
            rows.remove(live)

    def clear(self) -> None:
        self._empty = True
        self._found.clear()
