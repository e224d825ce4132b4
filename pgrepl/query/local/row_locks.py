"""SELECT … FOR UPDATE and the other locking clauses: rows are locked when they have been found and sorted, before LIMIT
counts them (LockRows).

    SELECT a FROM t, v ORDER BY b LIMIT 1 FOR UPDATE
      → the places of the rows of t, and of the tables that v shows, are added as columns
      → each row of the result is locked; a row that has changed since is checked again, in its newest version

A simple subquery or view in FROM is treated as if it were pulled up: its rows are locked when they have passed all
conditions. Any other locks the rows that it returns itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.locks.lock_table import ROW_MODES, LockKind, LockRequest, RelationMode, RowMode
from pgrepl.catalog.locks.locks import LockNotAvailable, Wait
from pgrepl.expr.analyse.lookup import TABLEOID
from pgrepl.expr.tree import PLACE, Column, Join, PinnedRow, Query, RangeRef, RowMark, Rte, Target, Var
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.query.shape import is_simple, is_user_table
from pgrepl.rows.checks_table import converter
from pgrepl.rows.locking import Standing, as_found, lock_rows, refuse_changed
from pgrepl.sql.nodes import JoinType
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.rows.locking import Newer

Row = tuple[Any, ...]
_AT_ONCE = 1000  # rows locked together, unless a LIMIT needs fewer


@frozen
class LockedTable:
    """A table whose rows are locked: its path through the range tables, and the columns with the places of its rows.
    `mode` None: it is only joined, and its rows stay as they were found."""

    path: tuple[int, ...]
    mode: RowMode | None
    wait: Wait
    place: int  # numbers of target columns
    table: int


def with_places(query: Query, *, junk: bool = True) -> tuple[Query, list[LockedTable]]:
    """The query with the places of its tables' rows as further columns."""
    _check_outer_joins(query)
    marks: list[LockedTable] = []
    known = {mark.varno: mark for mark in query.row_marks}
    targets, rtable = list(query.targets), list(query.rtable)

    def add(expr: Var) -> int:
        number = max((t.resno for t in targets), default=0) + 1
        targets.append(Target(expr, f"lock{number}", number, junk=junk))
        return number

    for varno, entry in enumerate(query.rtable, 1):
        if not entry.in_from:
            continue
        asked = known.get(varno)
        if is_user_table(entry):
            place, table = (add(Var(t, varno=varno, attnum=n)) for t, n in ((oids.TID, PLACE), (oids.OID, TABLEOID)))
            marks.append(LockedTable((varno,), _mode(asked), _wait(asked), place, table))
        elif asked is not None and entry.subquery is not None and is_simple(entry.subquery):
            inner, below = with_places(entry.subquery, junk=False)
            rtable[varno - 1] = replace(entry, subquery=inner, columns=_columns(entry, inner))
            for mark in below:
                place, table = (
                    add(Var(t, varno=varno, attnum=_attnum(inner, n)))
                    for t, n in ((oids.TID, mark.place), (oids.OID, mark.table))
                )
                marks.append(LockedTable((varno, *mark.path), mark.mode, mark.wait, place, table))
    order = list(known)  # as the FOR clauses name them
    marks.sort(key=lambda mark: order.index(mark.path[0]) if mark.path[0] in known else len(order))
    return replace(query, targets=tuple(targets), rtable=tuple(rtable), row_marks=()), marks


def _columns(entry: Rte, inner: Query) -> tuple[Column, ...]:
    return (*entry.columns, *inner.columns[len(entry.columns) :])


def _attnum(inner: Query, resno: int) -> int:
    return next(n for n, target in enumerate((t for t in inner.targets if not t.junk), 1) if target.resno == resno)


def _mode(mark: RowMark | None) -> RowMode | None:
    return None if mark is None else ROW_MODES[mark.strength]


def _wait(mark: RowMark | None) -> Wait:
    return Wait.BLOCK if mark is None or mark.wait is None else Wait(mark.wait)


def _check_outer_joins(query: Query) -> None:
    """Refuse to lock the nullable side of an outer join (make_outerjoininfo)."""
    marked = {mark.varno: mark for mark in query.row_marks}

    def refuse(varnos: Iterable[int]) -> None:
        for varno in varnos:
            if varno in marked:
                strength = marked[varno].strength
                raise PgError("0A000", f"FOR {strength} cannot be applied to the nullable side of an outer join")

    def visit(item: RangeRef | Join) -> set[int]:
        if isinstance(item, RangeRef):
            return {item.varno}
        left, right = visit(item.left), visit(item.right)
        if item.kind in (JoinType.LEFT, JoinType.FULL):
            refuse(sorted(right))
        if item.kind in (JoinType.RIGHT, JoinType.FULL):
            refuse(sorted(left))
        return left | right

    for item in query.from_:
        visit(item)


# --- locking --------------------------------------------------------------------------------------------------------


class RowLocker:
    """Locks the rows of one query. `again` runs a query in the same environment."""

    def __init__(
        self, session: Session, query: Query, marks: Sequence[LockedTable], again: Callable[[Query, Any], Iterable[Row]]
    ) -> None:
        self._session = session
        self._query = replace(query, limit=None, offset=None, with_ties=False)
        self._marks = marks
        self._locking = [mark for mark in marks if mark.mode is not None]
        self._again = again
        at = {target.resno: n for n, target in enumerate(query.targets)}
        self._at = [(at[mark.place], at[mark.table]) for mark in marks]

    def rows(self, rows: Iterable[Row], env: Any, wanted: int | None) -> Iterator[Row]:
        """The locked rows; no more than `wanted`."""
        if not self._session.transaction.locks_rows:
            yield from rows
            return
        source = iter(rows)
        given = 0
        while wanted is None or given < wanted:
            some = list(islice(source, _AT_ONCE if wanted is None else min(wanted - given, _AT_ONCE)))
            if not some:
                return
            for row in self._locked(some, env):
                given += 1
                yield row

    def _locked(self, rows: list[Row], env: Any) -> Iterator[Row]:
        alive: list[Row] = rows
        changes: dict[Standing, Newer | None] = {}
        for mark, (place, table) in zip(self._marks, self._at, strict=True):
            if mark.mode is None:
                continue
            asked = list(dict.fromkeys(Standing(row[table], row[place]) for row in alive if row[place] is not None))
            missed, changed = self._lock(mark, asked)
            refuse_changed(self._session, changed, locking=True)
            alive = [row for row in alive if row[place] is None or Standing(row[table], row[place]) not in missed]
            changes.update(changed)
        for row in alive:
            standing = [None if row[place] is None else Standing(row[table], row[place]) for place, table in self._at]
            if not any(locked in changes for locked in standing if locked is not None):
                yield row
                continue
            yield from islice(self._looked_at_again(standing, changes, env), 1)

    def _lock(self, mark: LockedTable, rows: Sequence[Standing]) -> tuple[set[Standing], dict[Standing, Newer | None]]:
        session = self._session
        locks = session.transaction.locks
        assert mark.mode is not None
        tables = dict.fromkeys(row.table for row in rows)
        fresh = [oid for oid in tables if not locks.has_relation(oid, RelationMode.ROW_SHARE)]
        if fresh:
            locks.take([LockRequest(LockKind.RELATION, oid, 0, RelationMode.ROW_SHARE) for oid in fresh])
        try:
            return lock_rows(session, rows, [mark.mode] * len(rows), verb="locking", blocked=mark.wait)
        except LockNotAvailable as busy:
            name = relation(session, busy.wanted.object).name
            raise PgError("55P03", f'could not obtain lock on row in relation "{name}"') from None

    def _looked_at_again(
        self, standing: Sequence[Standing | None], changes: dict[Standing, Newer | None], env: Any
    ) -> Iterable[Row]:
        """The row with its newest versions, if they still satisfy the query (EvalPlanQual)."""
        query = self._query
        for mark, locked in zip(self._marks, standing, strict=True):
            if locked is None:
                query = pinned_at(self._session, query, mark.path, None)
                continue
            newer = changes[locked] if locked in changes else as_found(self._session, locked)
            if newer is None:
                return ()
            query = pinned_at(self._session, query, mark.path, PinnedRow(newer.place, locked.table, newer.row))
        return self._again(query, env)


def pinned_at(session: Session, query: Query, path: Sequence[int], row: PinnedRow | None) -> Query:
    """The query in which a table has this row alone; None: it has none."""
    varno = path[0]
    entry = query.rtable[varno - 1]
    if len(path) > 1:
        assert entry.subquery is not None
        entry = replace(entry, subquery=pinned_at(session, entry.subquery, path[1:], row))
    elif row is None:
        entry = replace(entry, pinned=())
    else:
        if row.table != entry.relid:
            convert = converter(relation(session, row.table), relation(session, entry.relid))
            row = replace(row, row=convert(row.row))
        entry = replace(entry, pinned=(row,))
    return replace(query, rtable=(*query.rtable[: varno - 1], entry, *query.rtable[varno:]))
