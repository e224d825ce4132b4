"""Portals: the open cursors of a transaction, of SQL, PL/pgSQL and the protocol, and the places of their rows
(portalmem.c).

A portal has the rows of its query as they were when it was opened, and computes them when they are first fetched; a
statement that changes rows is run at the first FETCH. Those WITH HOLD stay until they are closed.
Which rows are computed when a cursor is opened, and whether it goes backward, is said here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Query, RangeRef, Rte, RteKind, Target, Var, has_modifying_cte
from pgrepl.expr.walk import has_effects, returns_set
from pgrepl.ground.errors import PgError
from pgrepl.lake.read.files import last_snapshot
from pgrepl.lake.read.local import pin
from pgrepl.query.rowset import passing_rows
from pgrepl.query.shape import is_user_table, levels, locks_rows
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Row = Sequence[Any]


class Standing:
    """tableoid and ctid of each row in each of the tables."""

    def __init__(self, is_marked: bool) -> None:
        self.is_marked = is_marked  # rows are locked: of these tables alone
        self.relids: list[int] = []
        self.places: list[Row] = []  # of each row that is known

    def noted(self, rows: Iterator[Row], width: int) -> Iterator[Row]:
        """The rows without their places, which are noted."""
        for row in rows:
            if self.relids:
                self.places.append(row[width:])
                row = row[:width]
            yield row


def placed_rows(session: Session, query: Query) -> tuple[Standing, Iterator[Row]]:
    """The rows of a cursor's query, and where they stand as they are read."""
    standing = Standing(bool(query.row_marks))
    placed = _with_places(query, standing)

    def rows() -> Iterator[Row]:
        yield from standing.noted(iter(passing_rows(session, placed)), len(query.columns))

    return standing, rows()


def _with_places(query: Query, standing: Standing) -> Query:
    """The query with tableoid and ctid of each table whose rows the cursor stands on, behind its columns."""
    varnos = _scanned(query)
    if not varnos:
        return query
    targets = list(query.targets)
    resno = max((target.resno for target in targets), default=0)
    visible = [target for target in targets if not target.junk]
    junk = [target for target in targets if target.junk]
    more = []
    for varno in varnos:
        standing.relids.append(query.rtable[varno - 1].relid)
        for attnum, typoid in ((-6, oids.OID), (-1, oids.TID)):
            resno += 1
            more.append(Target(Var(typoid, varno=varno, attnum=attnum), "?column?", resno))
    return replace(query, targets=(*visible, *more, *junk))


def _scanned(query: Query) -> list[int]:
    """The tables of which each row of the query is a row: those that are locked, or the only one (execCurrentOf)."""
    plain = not (
        query.group or query.grouping_sets or query.having is not None or query.windows or query.has_aggregates
        or query.distinct is not None or query.set_operation is not None or query.has_target_srfs
    )  # fmt: skip
    if not plain:
        return []
    if query.row_marks:
        marked = dict.fromkeys(mark.varno for mark in query.row_marks)
        return [varno for varno in marked if is_user_table(query.rtable[varno - 1])]
    only = query.from_[0] if len(query.from_) == 1 else None
    if not isinstance(only, RangeRef) or not is_user_table(query.rtable[only.varno - 1]):
        return []
    return [only.varno]


# --- portal -----------------------------------------------------------------------------------------------------------


Column = tuple[str, int, int]  # name, type, typmod
PortalRow = Sequence[Any]

_PORTION = 1000  # rows that are taken together
_AT_ONCE = "57"  # errors of this class (operator intervention) are nobody's row


def reads_table(session: Session, query: Query, relid: int) -> bool:
    """Whether a query reads a table, or one that it is a partition or child of."""
    read = [entry for level in levels(query) for entry in level.rtable if is_user_table(entry)]
    return any(relid == entry.relid or (entry.inh and relid in inheritors(session, entry.relid)) for entry in read)


class CursorRows(Sequence[PortalRow]):
    """Rows that are computed when they are asked for, and kept."""

    def __init__(self, source: Iterator[PortalRow], query: Query | None = None) -> None:
        """`query`: what keeps its tables in use while the rows are read."""
        self._query = query
        self._source: Iterator[PortalRow] | None = source
        self._known: list[PortalRow] = []
        self._error: PgError | None = None  # of the row behind those that are known

    def upto(self, count: int) -> int:
        """The number of rows that there are, or `count` if there may be more."""
        while self._source is not None and len(self._known) < count:
            row = next(self._source, None)
            if row is None:
                self._source = None
            else:
                self._known.append(row)
        if self._error is not None and len(self._known) < count:
            raise self._error
        return min(count, len(self._known))

    def compute(self, count: int | None = None) -> None:
        """Compute rows before they are asked for (None: all of them), as what they are computed from is about to go.
        An error is told when its row is asked for."""
        try:
            if count is not None:
                self.upto(count)
            elif self._source is not None:
                self._known.extend(self._source)
                self._source = None
        except PgError as error:
            if error.sqlstate.startswith(_AT_ONCE):
                raise
            self._source, self._error = None, error

    def reads(self, session: Session, relid: int) -> bool:
        """Whether the rows are from a table, or from one that it is a partition or child of."""
        return self._query is not None and reads_table(session, self._query, relid)

    @property
    def all_known(self) -> bool:
        return self._source is None and self._error is None

    def hold(self) -> None:
        """Compute what the end of the transaction would take away (PersistHoldablePortal)."""
        self.compute()
        if self._error is not None:
            raise self._error

    def __len__(self) -> int:
        self.hold()
        return len(self._known)

    def __iter__(self) -> Iterator[PortalRow]:
        return iter(self._known[: len(self)])

    def __getitem__(self, index: Any) -> Any:
        """Rows among those that are known."""
        return self._known[index]


class PassingRows(CursorRows):
    """Rows that are seen once: `take` gives the next ones, fewer than wanted at the end."""

    def __init__(self, take: Callable[[int], Sequence[PortalRow]]) -> None:
        super().__init__(iter(()))
        self._take = take
        self.gone = 0
        self._ended = False

    def upto(self, count: int) -> int:
        missing = count - self.gone - len(self._known)
        if missing > 0 and not self._ended:
            taken = self._take(missing)
            self._ended = len(taken) < missing
            self._known += taken
        return min(count, self.gone + len(self._known))

    def __len__(self) -> int:
        while not self._ended:
            self.upto(self.gone + len(self._known) + _PORTION)
        return self.gone + len(self._known)

    def __getitem__(self, index: Any) -> Any:
        """The next rows, up to the last one known, are forgotten then. A single row that has gone is an empty one."""
        if not isinstance(index, slice):
            return self._known[index - self.gone] if index >= self.gone else ()
        portion = self._known[index.start - self.gone :]
        self.gone, self._known = index.stop, []
        return portion


class RowsAtOnce(CursorRows):
    """Rows that are all computed when the first is asked for."""

    def upto(self, count: int) -> int:
        self.compute()
        return super().upto(count)


class StatementRows(CursorRows):
    """The rows of another statement than SELECT, which runs when they are first asked for."""

    def __init__(self, run: Callable[[], Iterable[PortalRow]]) -> None:
        super().__init__(iter(()))
        self._run: Callable[[], Iterable[PortalRow]] | None = run

    def upto(self, count: int) -> int:
        if self._run is not None:
            self._known = list(self._run())
            self._run = None
        return super().upto(count)

    def __len__(self) -> int:
        self.upto(0)
        return len(self._known)

    def hold(self) -> None:
        raise PgError("2D000", "cannot perform transaction commands inside a cursor loop that is not read-only")


@dataclass(frozen=True, slots=True)
class Declared:
    """The options of DECLARE; pg_cursors shows them."""

    text: str = ""
    binary: bool = False
    holds: bool = False
    standing: Standing | None = None  # None: of a query that is no plain SELECT
    origins: Sequence[tuple[int, int]] | None = None  # of the columns; None: of no table's


@dataclass(eq=False, slots=True)
class Portal:
    """`position` 0 is before the first row, and one behind the number of rows is behind the last."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[PortalRow]
    scrolls: bool = True
    position: int = 0
    declared: Declared = field(default_factory=Declared)
    created_at: int = 0  # microseconds since 2000
    is_held: bool = False  # the transaction that opened it has committed
    is_active: bool = False  # it runs
    has_failed: bool = False  # while rows were fetched (MarkPortalFailed)
    returns_rows: bool = True

    def fetch(self, word: str, count: int | None) -> Sequence[PortalRow]:
        """The rows in a direction: forward, backward, absolute or relative (DoPortalRunFetch). None: all of them."""
        with self.running():
            if not self.returns_rows:
                raise PgError("XX000", "unsupported portal strategy")
            self._upto(0)
            return self._fetch(word, count)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block in which the portal runs (MarkPortalActive)."""
        if self.is_active or self.has_failed:
            raise PgError("55000", f'portal "{self.name}" cannot be run')
        self.is_active = True
        try:
            yield
        except PgError:
            self.has_failed = True
            raise
        finally:
            self.is_active = False

    def reads(self, session: Session, relid: int) -> bool:
        """Whether its rows are from a table."""
        return isinstance(self.rows, CursorRows) and self.rows.reads(session, relid)

    def walked(self) -> Iterator[PortalRow]:
        """The rows from here on, one by one, as the cursor moves."""
        while rows := self.fetch("forward", 1):
            yield rows[0]

    def _fetch(self, word: str, count: int | None) -> Sequence[PortalRow]:
        if word == "absolute":
            return self._absolute(count or 0)
        if word == "relative" and count:
            step = 1 if count > 0 else -1
            self._move(count - step)
            return self._move(step)
        wanted = len(self.rows) + 1 if count is None else count
        if word == "backward":
            wanted = -wanted
        return self._move(wanted) if wanted else self._again()

    @property
    def current(self) -> PortalRow | None:
        """The row on which the cursor stands."""
        here = self.position
        return self.rows[here - 1] if 0 < here <= self._upto(here) else None

    def _upto(self, count: int) -> int:
        rows = self.rows
        return rows.upto(count) if isinstance(rows, CursorRows) else min(count, len(rows))

    def _current(self) -> Sequence[PortalRow]:
        row = self.current
        return () if row is None else (row,)

    def _again(self) -> Sequence[PortalRow]:
        """FETCH 0: the row where the cursor stands, which is read anew."""
        current = self._current()
        if current and not self.scrolls:
            raise self._only_forward()
        return current

    def _absolute(self, count: int) -> Sequence[PortalRow]:
        there = count if count >= 0 else max(len(self.rows) + 1 + count, 0)
        if not self.scrolls and count <= self.position:
            if count == self.position == 0:
                return ()
            raise self._only_forward()
        self.position = min(there, self._upto(there) + 1)
        return self._current()

    def _move(self, count: int) -> Sequence[PortalRow]:
        here = self.position
        if count < 0 and not self.scrolls:
            raise self._only_forward()
        if count >= 0:
            total = self._upto(here + count)
            self.position = min(here + count, total + 1)
            return self.rows[here : min(self.position, total)]
        self.position = max(here + count, 0)
        return self.rows[self.position - 1 if self.position else 0 : max(here - 1, 0)][::-1]

    def _only_forward(self) -> PgError:
        hint = "Declare it with SCROLL option to enable backward scan."
        return PgError("55000", "cursor can only scan forward", hint=hint)


def open_portal(
    session: Session,
    name: str | None,
    columns: Sequence[Column],
    rows: Any,
    *,
    scrolls: bool,
    declared: Declared | None = None,
) -> Portal:
    """A new portal; without a name it gets one that no other has."""
    portals = session.transaction.portals
    if name is None:
        name = new_name(session)
    elif name in portals:
        raise PgError("42P03", f'cursor "{name}" already in use')
    portal = portals[name] = Portal(name, columns, rows, scrolls, declared=declared or Declared())
    portal.created_at = session.transaction.statement_now
    return portal


def new_name(session: Session) -> str:
    while True:
        session.portal_count += 1
        name = f"<unnamed portal {session.portal_count}>"
        if name not in session.transaction.portals:
            return name


def find_portal(session: Session, name: str) -> Portal:
    portal: Portal | None = session.transaction.portals.get(name)
    if portal is None:
        raise PgError("34000", f'cursor "{name}" does not exist')
    return portal


def close_portal(session: Session, name: str) -> None:
    """Closes a portal by its name (PortalDrop)."""
    portal = find_portal(session, name)
    if any(portal.rows is rows for rows in session.transaction.pinned):
        raise PgError("24000", f'cannot drop pinned portal "{name}"')
    if portal.is_active:
        raise PgError("24000", f'cannot drop active portal "{name}"')
    del session.transaction.portals[name]


def close_all(session: Session) -> None:
    """Closes all portals that may be closed (PortalHashTableDeleteAll)."""
    transaction = session.transaction
    transaction.portals = {name: portal for name, portal in transaction.portals.items() if portal.is_active}


def cursor_rows(session: Session, query: Query, *, waits: bool = False) -> tuple[Standing, CursorRows]:
    """The rows of a query whose privileges have been checked, and where they stand. `waits`: nothing but the query says
    what they are, so that they may be computed when the first is fetched."""
    standing, rows_read = placed_rows(session, query)
    snapshot, stays = (reading_moment(session, query) if waits else None) or (None, False)
    if stays:
        return standing, CursorRows(session.read_at(snapshot, rows_read), query)
    rows = CursorRows(rows_read, query)
    rows.compute(1 if may_wait(session, query) else None)  # the first row fixes what is read
    return standing, rows


def reading_moment(session: Session, query: Query) -> tuple[int | None, bool] | None:
    """The snapshot that shows a query what it would see now (None: as things are), and whether it does so when this
    session has changed something. None: it does more than read."""
    if locks_rows(query) or has_modifying_cte(query.ctes):
        return None
    expanded = expand_views(session, query)
    if has_effects(expanded):
        return None
    entries = [entry for level in levels(expanded) for entry in level.rtable if entry.kind is RteKind.RELATION]
    if not entries:
        return None, True
    snapshot = last_snapshot(session)
    if any(map(is_user_table, entries)):
        pin(session, snapshot)
    return snapshot, all(map(is_user_table, entries)) and not session.transaction.has_written


def scrolls(query: Query, wanted: bool | None) -> bool:
    """Whether the cursor goes backward. `wanted`: SCROLL or NO SCROLL."""
    return wanted if wanted is not None else not query.row_marks and _goes_backward(query)


def may_wait(session: Session, query: Query) -> bool:
    """Whether the rows may be computed later: they come from one table or function, which is opened at the first."""
    if len(query.rtable) != 1 or query.has_sublinks or query.ctes or query.row_marks:
        return False
    (entry,) = query.rtable
    if is_user_table(entry):
        return entry.relkind in ("r", "m") and not relation(session, entry.relid).has_subclass
    return entry.kind is RteKind.FUNCTION


def _goes_backward(query: Query) -> bool:
    """Whether the plan can be run backward, so that the cursor scrolls without SCROLL (ExecSupportsBackwardScan)."""
    if query.set_operation is not None or (query.ctes and any(cte.recursive for cte in query.ctes)):
        return False
    if query.sort:
        return True
    if (
        query.group or query.grouping_sets or query.having is not None or query.windows or query.has_aggregates
        or query.distinct is not None or any(returns_set(target.expr) for target in query.targets)
    ):  # fmt: skip
        return False
    only = query.from_[0] if len(query.from_) == 1 else None
    if not isinstance(only, RangeRef):
        return False
    entry: Rte = query.rtable[only.varno - 1]
    if entry.kind is RteKind.SUBQUERY:
        return entry.subquery is not None and _goes_backward(entry.subquery)
    return True
