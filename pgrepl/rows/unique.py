"""Unique indexes while a statement or an apply worker writes rows: which row holds which key, row by row, as a btree.

The keys of the new rows are looked up in the table once; after that `Holders` knows them. An UPDATE removes a row's old
key before it enters the new one, while the rows behind it still hold their old keys: so `UPDATE t SET id = id + 1`
fails where it meets a key that is still taken.

A deferrable constraint admits every key; its keys are checked again at the statement's end, or at commit. Of a key
WITHOUT OVERLAPS, or of a FOREIGN KEY with PERIOD, rows that agree in the other columns have `Periods`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cmp_to_key
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.relation_parts import partition_ancestors
from pgrepl.expr.catalog_trees import IndexInfo, index_infos
from pgrepl.expr.evaluate.compiler import Compiled
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.containers import contains, overlaps, parts
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_queries import column_of
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import var_attnums
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read.data_file import PROVISIONAL, own_rows
from pgrepl.lake.table import lake_table
from pgrepl.rows.checks_table import own
from pgrepl.rows.foreign.key import index_key, index_types, table_error
from pgrepl.types.ranges import PgMultirange, PgRange, compare_ranges, lower_key, make_multirange
from pgrepl.types.values import hash_form

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import RowPlace
    from pgrepl.lake.table import LakeTable

Row = tuple[Any, ...]
Key = tuple[Any, ...]


def unique_indexes(session: Session, rel: Relation) -> list[IndexInfo]:
    """The unique indexes of a table by OID, for what checks them by whole columns: which none WITHOUT OVERLAPS is."""
    indexes = all_unique_indexes(session, rel)
    if any(info.is_temporal for info in indexes):
        raise Declined("a key WITHOUT OVERLAPS")
    return indexes


def all_unique_indexes(session: Session, rel: Relation) -> list[IndexInfo]:
    """The unique indexes of a table by OID, the order in which PostgreSQL inserts into them."""
    if not rel.has_index:
        return []
    return [info for info in index_infos(session, rel.oid) if info.unique]


def unique_index(session: Session, rel: Relation, info: IndexInfo) -> UniqueIndex:
    return (TemporalIndex if info.is_temporal else UniqueIndex)(session, rel, info)


class UniqueIndex:
    """One unique index: the key of a row, and the rows of the table that hold a key."""

    def __init__(self, session: Session, rel: Relation, info: IndexInfo) -> None:
        self.info = info
        self.relation = rel
        self.session = session
        context = Context(session)
        exprs = [own(expr, rel) for expr in info.exprs]
        waiting = iter(exprs)
        columns = info.columns[: info.key_count]
        self.exprs: list[Expr] = [column_of(rel, attnum, 0) if attnum else next(waiting) for attnum in columns]
        self._values: list[Compiled] = [compile(expr, context) for expr in self.exprs]
        predicate = None if info.predicate is None else own(info.predicate, rel)
        self._predicate = None if predicate is None else compile(predicate, context)
        self._forms = [hash_form(typoid) for typoid in index_types(session, info)]
        self._plain = not exprs
        self._places = [attnum - 1 for attnum in columns] if self._plain else []
        read = {attnum for attnum in columns if attnum}
        for expr in (*exprs, *([] if predicate is None else [predicate])):
            used = var_attnums(expr)
            read |= {a.num for a in rel.kept} if 0 in used else used
        self._read = sorted(number for number in read if number > 0)

    @property
    def attnums(self) -> frozenset[int]:
        """The columns that a row's key is computed from."""
        return frozenset(self._read)

    def values(self, row: Row) -> tuple[Any, ...] | None:
        """The index's values for a row. None: the row is not in the index, or a NULL makes it distinct from every
        other."""
        if self._predicate is not None and self._predicate(row) is not True:
            return None
        places = self._places
        values = tuple([row[place] for place in places] if places else [value(row) for value in self._values])
        return None if None in values and not self.info.nulls_not_distinct else values

    def key(self, values: tuple[Any, ...]) -> Key:
        """A key that is equal exactly when the index calls the values equal."""
        return tuple([None if v is None else form(v) for form, v in zip(self._forms, values, strict=True)])

    @property
    def compared(self) -> int:
        """How many of the key's columns are compared by =."""
        return self.info.key_count

    def looked_up(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return values[: self.compared]

    def of_row(self, row: Row) -> Key | None:
        values = self.values(row)
        return None if values is None else self.key(values)

    def find(
        self, wanted: Iterable[tuple[Any, ...]], want: Sequence[int] = ()
    ) -> Iterable[tuple[Key, RowPlace, tuple[Any, ...]]]:
        """The rows of the table with any of these index values: key, place, and the row, with NULL for columns that
        neither the index nor `want` names."""
        from pgrepl.lake.read import local

        values = {self.key(index_values): self.looked_up(index_values) for index_values in wanted}
        table = lake_table(self.session, self.relation.oid)
        columns = [*dict.fromkeys([*self._read, *want])]
        width = len(self.relation.attributes)
        stored: Iterable[tuple[Any, ...]]
        if self._plain and not any(None in index_values for index_values in values.values()):
            attnums = self.info.columns[: self.compared]
            stored = (row for _, row in local.lookup(self.session, table, attnums, list(values.values()), columns))
        else:
            stored = self._scanned(table, list(values.values()), columns)
        for read in stored:
            row = [None] * width
            for number, value in zip(columns, read, strict=False):
                row[number - 1] = value
            key = self.of_row(tuple(row))
            if key is not None and key in values:
                yield key, read[-1], tuple(row)

    def _scanned(
        self, table: LakeTable, wanted: Sequence[tuple[Any, ...]], columns: Sequence[int]
    ) -> Iterable[tuple[Any, ...]]:
        """A superset of the rows with the keys, where statistics cannot find the keys."""
        from pgrepl.lake.read import local
        from pgrepl.rows.staged import is_large, rows_with_keys

        if wanted and is_large(self.session, table):
            return rows_with_keys(self.session, table, self.exprs, wanted, columns)
        return local.rows(self.session, table, columns, places=True)

    def is_twice(self, values: tuple[Any, ...]) -> bool:
        """Whether several rows of the table have these values."""
        return sum(1 for _ in self.find([values])) > 1

    def duplicate(self, values: tuple[Any, ...], other: tuple[Any, ...] = ()) -> PgError:
        """`other`: the values of the row that is there, which may not be the same."""
        key = index_key(self.session, self.info, values)
        detail = None if key is None else f"{key} already exists."
        message = f'duplicate key value violates unique constraint "{self.info.name}"'
        return table_error(self.relation, "23505", message, detail=detail, constraint=self.info.name)


class TemporalIndex(UniqueIndex):
    """The index of a key WITHOUT OVERLAPS: the key is what is compared by =, and rows that agree in it must not overlap
    in the last column."""

    @property
    def compared(self) -> int:
        return self.info.key_count - 1

    def values(self, row: Row) -> tuple[Any, ...] | None:
        """Operators of an exclusion constraint are strict: NULLS NOT DISTINCT changes nothing."""
        values = tuple([row[place] for place in self._places])
        return None if None in values else values

    def key(self, values: tuple[Any, ...]) -> Key:
        return super().key(values)[:-1]

    def refuse(self, row: Row) -> None:
        """An empty range is an error: it overlaps nothing (ExecWithoutOverlapsNotEmpty)."""
        place = self._places[-1]
        if row[place] is not None and is_empty(row[place]):
            rel = self.relation
            column = rel.attributes[place].name
            message = f'empty WITHOUT OVERLAPS value found in column "{column}" in relation "{rel.name}"'
            raise table_error(rel, "23514", message)

    def clash(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return overlaps(one[-1], other[-1])

    def is_twice(self, values: tuple[Any, ...]) -> bool:
        rows = [self.values(row) for _, _, row in self.find([values])]
        return sum(1 for other in rows if other is not None and self.clash(values, other)) > 1

    def duplicate(self, values: tuple[Any, ...], other: tuple[Any, ...] = ()) -> PgError:
        if not other:
            rows = [self.values(row) for _, _, row in self.find([values])]
            other = next((held for held in rows if held and held != values and self.clash(values, held)), values)
        shown, there = index_key(self.session, self.info, values), index_key(self.session, self.info, other)
        mine, its = ("Key", "key") if shown is None or there is None else (shown, f"k{there[1:]}")
        message = f'conflicting key value violates exclusion constraint "{self.info.name}"'
        detail = f"{mine} conflicts with existing {its}."
        return table_error(self.relation, "23P01", message, detail=detail, constraint=self.info.name)


@frozen
class KeyHolder:
    """The holder of a key: the place of a stored row, or the name of a new one; and the stored row."""

    holder: Any
    row: Row


class Holders:
    """The holders of the keys of one index: rows of the table by their places, new ones by any name."""

    def __init__(self, index: UniqueIndex) -> None:
        self.index = index
        self._holders: dict[Key, list[Any]] = {}
        self._keys: dict[Any, Key] = {}
        self._temporal = index if isinstance(index, TemporalIndex) else None
        self._periods: dict[Key, Periods] = {}
        self._values: dict[Any, tuple[Any, ...]] = {}  # of the rows, WITHOUT OVERLAPS
        self._loaded: set[Key] = set()
        self._gone: set[Any] = set()
        self._emptied = False
        self._rows: dict[Any, Row] = {}  # the row at a place, with the wanted columns
        self.places: list[RowPlace] = []  # places of the rows that have one of the keys
        self.unseen: set[Any] = set()  # rows inserted after the transaction's snapshot

    def load(self, rows: Iterable[Row], want: Sequence[int] = ()) -> None:
        """Look up the keys of these rows; the columns `want` of their holders are kept."""
        fresh: dict[Key, tuple[Any, ...]] = {}
        for row in rows:
            values = self.index.values(row)
            if values is not None:
                key = self.index.key(values)
                if key not in self._loaded:
                    fresh[key] = values
        self._look_up(fresh, want)

    def _look_up(self, fresh: Mapping[Key, tuple[Any, ...]], want: Sequence[int] = ()) -> None:
        self._loaded.update(fresh)
        if not fresh or self._emptied:
            return
        for key, place, row in self._found(list(fresh.values()), want):
            self.places.append(place)
            if place not in self._gone:
                self.add(key, place, self.index.values(row) or ())
                if want:
                    self._rows[place] = row

    def enter(self, row: Row, holder: Any, old: Row | None = None) -> tuple[Any, ...] | None:
        """Enter the key of a new row, or of a new version of `old`, which has been removed. A key that another row
        holds is an error; for a deferrable constraint it is returned, to be checked again."""
        if self._temporal is not None:
            self._temporal.refuse(row)
        values = self.index.values(row)
        if values is None:
            return None
        key, taken = self.index.key(values), False
        kept = old is not None and self._temporal is None and self.index.of_row(old) == key
        if (self._holders.get(key) or key not in self._loaded) and not kept:
            if key not in self._loaded:
                self._look_up({key: values})
            rivals = self.rivals(values)
            taken = bool(rivals)
            if taken and self.index.info.immediate:
                raise self.index.duplicate(values, self._values.get(rivals[0], ()))
        self.add(key, holder, values)
        return values if taken else None

    def rivals(self, values: tuple[Any, ...]) -> Sequence[Any]:
        """The names of the rows that another row with these values must not be beside."""
        key = self.index.key(values)
        if self._temporal is None:
            return self._holders.get(key, ())
        periods = self._periods.get(key)
        return () if periods is None else periods.rivals(values[-1])

    def _found(
        self, values: Sequence[tuple[Any, ...]], want: Sequence[int]
    ) -> Iterable[tuple[Key, RowPlace, tuple[Any, ...]]]:
        """The holders of the keys now. A transaction that keeps its snapshot sees its own rows here, and those
        committed since."""
        held = self.index.find(values, want)
        session = self.index.session
        transaction = session.transaction
        if not (transaction.keeps_snapshot and transaction.keeps_pending):
            return held
        from pgrepl.lake.read.local import begun_after

        snapshot = transaction.numbering.committed_snapshot()
        mine = own_rows(session, lake_table(session, self.index.relation.oid).table_id)
        before = {holder[1].row: holder for holder in held}
        now = [holder for row, holder in before.items() if row >= PROVISIONAL or row in mine]
        with session.beside.newest() as newest:
            index = unique_index(newest, self.index.relation, self.index.info)
            for holder in index.find(values, want):
                row = holder[1].row
                if row in mine:
                    continue
                now.append(before.get(row, holder))
                table = lake_table(newest, self.index.relation.oid)
                same = row in before and before[row][1] == holder[1]
                if not same or begun_after(newest, table, [holder[1]], snapshot):
                    self.unseen.add(now[-1][1])
        return now

    def add(self, key: Key, holder: Any, values: tuple[Any, ...]) -> None:
        self._holders.setdefault(key, []).append(holder)
        self._keys[holder] = key
        if self._temporal is not None:
            self._values[holder] = values
            self._periods.setdefault(key, Periods()).add(holder, values[-1])

    def remove(self, holder: Any) -> None:
        if holder is None:
            return
        self._gone.add(holder)
        key = self._keys.pop(holder, None)
        if key is not None:
            if self._values.pop(holder, None) is not None:
                self._periods[key].remove(holder)
            self._holders[key].remove(holder)

    def clear(self) -> None:
        """The table was truncated."""
        self._emptied = True
        self._holders.clear()
        self._keys.clear()
        self._values.clear()
        self._periods.clear()

    def of(self, row: Row) -> KeyHolder | None:
        """The holder of this row's key; None: no row holds it."""
        values = self.index.values(row)
        holders = () if values is None else self.rivals(values)
        return KeyHolder(holders[0], self._rows.get(holders[0], ())) if holders else None


class UniqueChecks:
    """All unique indexes of one table, while a statement or a batch of messages writes to it."""

    def __init__(
        self, session: Session, rel: Relation, changed: frozenset[int] | None = None, *, deferrable: bool = True
    ) -> None:
        """`changed`: of an UPDATE, the columns that can have another value. Without `deferrable`, immediate constraints
        only: deferrable ones are checked by triggers, which do not fire in an apply worker."""
        self.relation = rel
        self.late: list[tuple[int, UniqueIndex, tuple[Any, ...]]] = []  # keys to check again: holder, index, values
        self._session = session
        infos = [info for info in all_unique_indexes(session, rel) if deferrable or info.immediate]
        indexes = [unique_index(session, rel, info) for info in infos]
        if changed is not None:
            indexes = [index for index in indexes if index.attnums & changed]
        self._holders = [Holders(index) for index in indexes]

    def load(self, rows: Iterable[Row], want: Sequence[int] = ()) -> None:
        wanted = list(rows)
        for holders in self._holders:
            holders.load(wanted, want)

    def leave(self, holder: Any) -> None:
        """A row is deleted, or moves to another table."""
        for holders in self._holders:
            holders.remove(holder)

    def clear(self) -> None:
        """The table was truncated."""
        for holders in self._holders:
            holders.clear()

    @property
    def unseen(self) -> set[Any]:
        return set().union(*[holders.unseen for holders in self._holders])

    @property
    def places(self) -> list[RowPlace]:
        return [place for holders in self._holders for place in holders.places]

    def enter(self, row: Row, holder: Any, replaces: Any = None, old: Row | None = None) -> None:
        """Enter the keys of a new row, or of a new version of `replaces`; raises if a key is taken."""
        for holders in self._holders:
            holders.remove(replaces)
            values = holders.enter(row, holder, old)
            if values is not None:
                self.late.append((holder, holders.index, values))

    def taken(self, row: Row, own: frozenset[Any]) -> Iterator[tuple[UniqueIndex, tuple[Any, ...], Any, Row | None]]:
        """The indexes in which another row than `own` has the key of this row: the index, its values, and the other
        row's name, and as it is in the table if it is there unchanged."""
        for holders in self._holders:
            index = holders.index
            values = index.values(row)
            if values is None:
                continue
            holders.load([row])
            rival = next((holder for holder in holders.rivals(values) if holder not in own), None)
            if rival is not None:
                everything = [column.num for column in self.relation.kept]
                stored = {place: stored for _, place, stored in index.find([values], everything)}
                yield index, values, rival, stored.get(rival)

    def conflict(self, row: Row, arbiters: frozenset[int]) -> KeyHolder | None:
        """The holder of a key of this row in any of the arbiters (ExecCheckIndexConstraints)."""
        for holders in self._holders:
            info = holders.index.info
            if arbiters and not arbiters & {info.oid, *partition_ancestors(self._session, info.oid)}:
                continue
            if not info.immediate:
                message = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters"
                raise table_error(self.relation, "55000", message, constraint=info.name)
            holder = holders.of(row)
            if holder is not None:
                return holder
        return None


Period = PgRange | PgMultirange


def is_empty(value: Period) -> bool:
    return not parts(value)


def first_clash(periods: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Two rows' values whose last ones overlap. Ranges in order need be compared with their neighbours only."""
    if any(isinstance(values[-1], PgMultirange) for values in periods):
        return next((pair for pair in combinations(periods, 2) if overlaps(pair[0][-1], pair[1][-1])), None)
    ordered = sorted(periods, key=lambda values: cmp_to_key(compare_ranges)(values[-1]))
    return next((pair for pair in pairwise(ordered) if overlaps(pair[0][-1], pair[1][-1])), None)


class Periods:
    """Names of rows by their periods. While no two ranges overlap, a range is compared with its neighbours alone."""

    def __init__(self) -> None:
        self._periods: dict[Any, Period] = {}
        self._order: list[tuple[Any, int, Any]] = []  # the key of the lower bound, a number, the row's name
        self._places: dict[Any, tuple[Any, int, Any]] = {}
        self._is_plain = True
        self._count = 0

    def add(self, name: Any, period: Period) -> None:
        self._is_plain = self._is_plain and isinstance(period, PgRange) and not self.rivals(period)
        self._periods[name] = period
        if self._is_plain and isinstance(period, PgRange):
            self._count += 1
            place = self._places[name] = (lower_key(period), self._count, name)
            insort(self._order, place)

    def remove(self, name: Any) -> None:
        del self._periods[name]
        place = self._places.pop(name, None)
        if place is not None:
            del self._order[bisect_left(self._order, place)]

    def rivals(self, period: Period) -> list[Any]:
        """The rows whose periods overlap with this one."""
        if not self._is_plain or not isinstance(period, PgRange):
            return [name for name, other in self._periods.items() if overlaps(period, other)]
        at = bisect_left(self._order, (lower_key(period),))
        overlapping = [self._order[at - 1][2]] if at and self._overlaps(at - 1, period) else []
        while at < len(self._order) and self._overlaps(at, period):
            overlapping.append(self._order[at][2])
            at += 1
        return overlapping

    def _overlaps(self, at: int, period: Period) -> bool:
        return overlaps(self._periods[self._order[at][2]], period)


class Cover:
    """The union of periods (range_agg), and whether others lie in it or meet it."""

    def __init__(self, periods: Iterable[Period]) -> None:
        ranges = [part for period in periods for part in parts(period)]
        self._ranges = make_multirange(ranges[0].subtype, ranges).ranges if ranges else ()
        self._lowest = [lower_key(one) for one in self._ranges]

    def covers(self, period: Period) -> bool:
        """Whether a period lies in the union; an empty one does not."""
        pieces = parts(period)
        return bool(pieces) and all(any(contains(one, part) for one in self._near(part)) for part in pieces)

    def meets(self, period: Period) -> bool:
        return any(overlaps(one, part) for part in parts(period) for one in self._near(part))

    def _near(self, part: PgRange) -> tuple[PgRange, ...]:
        """The last range that does not begin behind this one, and the next: if this one meets any, it meets these."""
        after = bisect_right(self._lowest, lower_key(part))
        return self._ranges[max(after - 1, 0) : after + 1]
