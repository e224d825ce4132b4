"""INSERT, UPDATE and DELETE in this process, row by row as PostgreSQL does, and which relations can be changed
(CheckValidResultRel).

Rows are computed from the state before the statement, checked one after the other, and written at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.session.session import Session
from pgrepl.expr.dml_tree import TARGET, Command, Conflict, MergeMatch, Modify
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_queries import (
    TargetRowsQuery,
    check_query,
    conflict_query,
    insert_query,
    pinned,
    returning_query,
    row_versions,
    target_rows_query,
)
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.row_filter_checks import check_replica_identity
from pgrepl.expr.tree import PinnedRow, Query, Var
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.local.env import Env
from pgrepl.query.local.select import compile_query
from pgrepl.query.reads import conjuncts, is_never_true
from pgrepl.query.rowset import rows_of, stream
from pgrepl.rows.changes import ConflictAction, Member, ModifiedRow, ModifyKind, Row, members
from pgrepl.rows.checks import RowChecks, prepare
from pgrepl.rows.checks_table import converter
from pgrepl.rows.foreign.key import failing_row
from pgrepl.rows.locking import Newer, Standing, lock_changes
from pgrepl.rows.trigger_events import before_statement, fire_instead, instead_one_by_one
from pgrepl.rows.triggers import TriggerEvent, enabled_triggers
from pgrepl.rows.unwritten import Materialize
from pgrepl.writing.pruning import contradicts, leaves, restrictions_of

if TYPE_CHECKING:
    from pgrepl.lake.read.data_file import RowPlace

_UNCHANGEABLE = {"S": "sequence", "t": "TOAST relation", "m": "materialized view"}


def check_targets(session: Session, modify: Modify) -> None:
    target = relation(session, modify.relid)
    if target.kind == "v":
        return  # it has INSTEAD OF triggers
    check_kind(target)
    if modify.conflict is not None and modify.conflict.assigned is not None:
        check_replica_identity(session, target, "UPDATE")
    finding = [command for command in modify.commands if command is not Command.INSERT]
    for member in changed_tables(session, modify) if finding else ():
        for command in finding:
            check_replica_identity(session, member.relation, command.value)


def check_kind(target: Relation) -> None:
    if target.is_catalog:
        raise PgError("42501", f'permission denied: "{target.name}" is a system catalog')
    if target.kind in ("r", "p"):
        return
    what = _UNCHANGEABLE.get(target.kind)
    if what is not None:
        raise PgError("42809", f'cannot change {what} "{target.name}"')
    if target.kind == "f":
        raise unsupported("a foreign table")
    raise PgError("42809", f'cannot change relation "{target.name}"')


def changed_tables(session: Session, modify: Modify) -> list[Member]:
    """The tables with rows that an UPDATE, DELETE or MERGE may find. If no table of a tree can have any, the table that
    the statement names."""
    tables = members(session, modify.relid, modify.rtable[0].inh)
    target = relation(session, modify.relid)
    if target.kind != "p" and len(tables) < 2:
        return tables
    where = modify.where
    if modify.merge is not None and MergeMatch.NOT_MATCHED_BY_SOURCE not in modify.merge.matches:
        where = modify.merge.joined_where(where)
    context, conditions = Context(session), conjuncts(where)
    what = restrictions_of(Query((), modify.rtable, modify.from_, where), conditions, TARGET, context)
    if contradicts(what) or any(is_never_true(condition, context) for condition in conditions):
        return [member for member in tables if member.relation.oid == target.oid]
    if target.kind != "p":
        return tables
    kept = {leaf.oid for leaf in leaves(session, target, what)}
    return [member for member in tables if member.relation.oid in kept]


_LOCKER = 2  # FrozenTransactionId, as in the system columns of rows that are read


@dataclass
class Pending:
    """A statement whose changes are computed but not written yet: the changed rows, and the rows of RETURNING."""

    modify: Modify
    checks: RowChecks
    changes: list[ModifiedRow]
    returned: Sequence[tuple[Any, ...]] = ()

    @property
    def count(self) -> int:
        return len(self.changes)


@dataclass
class Running:
    """A statement that is ready to be carried out. Its rows are computed as `changes` is read; of each `carried` gets
    what RETURNING needs beside the row: `columns`, if it is not what only RETURNING uses."""

    session: Session
    modify: Modify
    checks: RowChecks
    changes: Iterable[ModifiedRow]
    conflict: ConflictAction | None = None
    carried: Sequence[Row] = ()
    columns: Sequence[Var] | None = None

    def run(self) -> Pending:
        """Carry it out. RETURNING sees what the statement saw."""
        session, checks = self.session, self.checks
        started = self._begun()
        done = fire_instead(session, checks, started) if self._is_view else checks.local(started, self.conflict)
        test = self._view_test()
        if test is not None:
            for change in done:
                test(change)
        returned: list[Row] = []
        if self.modify.returning:
            carried = [self.carried[number] for number in checks.kept] if self.carried else ((),) * len(done)
            shown = [self._shown(change, more) for change, more in zip(done, carried, strict=True)]
            returned = list(rows_of(session, returning_query(session, self.modify, shown, self.columns)))
        return Pending(self.modify, checks, done, returned)

    def one_by_one(self, snapshot: int) -> Iterator[tuple[ModifiedRow, Row]]:
        """Carry it out as the changes are read, which come with the rows of RETURNING. Tables are read as they were at
        the snapshot."""
        session, checks = self.session, self.checks
        self._fire_before()
        changes = session.read_at(snapshot, self.changes)
        if self._is_view:
            done = instead_one_by_one(session, checks, changes)
        else:
            done = checks.one_by_one(changes, self._conflict_at(snapshot))
        test = self._view_test()
        now: list[Row] = []
        returning = None
        if self.modify.returning:
            returning = replayed(session, returning_query(session, self.modify, now, self.columns))
        for number, change in done:
            if test is not None:
                with session.reading_at(snapshot):
                    test(change)
            row: Row = ()
            if returning is not None:
                now[:] = [self._shown(change, self.carried[number] if self.carried else ())]
                with session.reading_at(snapshot):
                    row = returning()[0]
            yield change, row

    @property
    def _is_view(self) -> bool:
        return self.checks.relation.kind == "v"

    def _begun(self) -> Iterable[ModifiedRow]:
        """Fire the BEFORE triggers of the statement. It reads tables as they were before."""
        session = self.session
        if not enabled_triggers(session, self.checks.relation.oid):
            return self.changes
        source = Materialize(self.changes)
        session.unsettled.append(source)
        try:
            self._fire_before()
        finally:
            session.unsettled.remove(source)
        return source

    def _fire_before(self) -> None:
        session, checks, conflict = self.session, self.checks, self.conflict
        for event in checks.events:
            before_statement(session, checks.relation, event, checks.set_columns(checks.relation), checks.begun)
        if conflict is not None and conflict.update is not None:
            before_statement(session, checks.relation, TriggerEvent.UPDATE, conflict.modified, checks.begun)

    def _conflict_at(self, snapshot: int) -> ConflictAction | None:
        """ON CONFLICT's action, whose subqueries read tables as they were at the snapshot."""
        conflict, session = self.conflict, self.session
        if conflict is None or conflict.update is None:
            return conflict
        update = conflict.update

        def then(table: Relation, old: Row, proposed: Row) -> Row | None:
            with session.reading_at(snapshot):
                return update(table, old, proposed)

        return replace(conflict, update=then)

    def _shown(self, change: ModifiedRow, more: Row) -> Row:
        """A changed row as RETURNING sees it."""
        row = (*self.checks.named(change), change.to or change.table, *more)
        if self.modify.command is Command.INSERT:
            row = (*row, 0 if change.old is None else _LOCKER)  # xmax: who has locked the row that ON CONFLICT updates
        elif self.modify.command is not Command.MERGE and self._versions:
            row = (*row, None)  # there is no action of a MERGE
        for version in self._versions:
            row = (*row, *self._version(change, version))
        return row

    def _version(self, change: ModifiedRow, version: str) -> Row:
        """The row before or after the change, and its table; all NULL where there is none."""
        if version == "old" and change.old is not None:
            return (*self.checks.named(replace(change, new=None, to=0)), change.table)
        if version == "new" and change.new is not None:
            return (*self.checks.named(change), change.to or change.table)
        return (None,) * (len(self.checks.relation.attributes) + 1)

    @cached_property
    def _versions(self) -> tuple[str, ...]:
        return tuple(row_versions(self.modify).values())

    def _view_test(self) -> Callable[[ModifiedRow], None] | None:
        """A test of WITH CHECK OPTION: no row may be written through a view that the view would not show
        (ExecWithCheckOptions)."""
        session, modify, checks = self.session, self.modify, self.checks
        target = relation(session, modify.relid)
        now: list[Row] = []
        tests = [
            (option.view, replayed(session, check_query(session, modify, option, now)))
            for option in modify.check_options
            if option.view
        ]

        def test(change: ModifiedRow) -> None:
            if change.new is None:
                return
            row = checks.named(change)
            now[:] = [(*row, change.to)]
            for view, passes in tests:
                if not passes():
                    message = f'new row violates check option for view "{view}"'
                    raise PgError("44000", message, detail=failing_row(session, target, row, modify.named))

        return test if tests else None


def insert(session: Session, modify: Modify, arbiters: frozenset[int], *, hidden: bool = False) -> Running:
    """`hidden`: row security lets no row in."""
    target = relation(session, modify.relid)
    checks = prepare(session, target, ModifyKind.INSERT, modify.named)
    conflict = _on_conflict(session, modify, modify.conflict, arbiters) if modify.conflict is not None else None

    def changes() -> Iterator[ModifiedRow]:
        rows = stream(session, insert_query(session, modify))
        for row in _refused(target, rows) if hidden else rows:
            yield ModifiedRow(target.oid, new=row)

    return Running(session, modify, checks, changes(), conflict)


def _refused(target: Relation, rows: Iterator[Row]) -> Iterator[Row]:
    for _ in rows:
        raise PgError("42501", f'new row violates row-level security policy for table "{target.name}"')
    yield from ()


def _on_conflict(session: Session, modify: Modify, conflict: Conflict, arbiters: frozenset[int]) -> ConflictAction:
    if conflict.assigned is None:
        return ConflictAction(arbiters)
    target = relation(session, modify.relid)
    assigned = [a.attnum for a in conflict.assigned]
    now: list[Row] = []  # the row in conflict and the one proposed, as the query sees them
    query = conflict_query(session, modify, conflict, now)
    compiled = replayed(session, query)

    def update(table: Relation, old: Row, proposed: Row) -> Row | None:
        to_named, back = converter(table, target), converter(target, table)
        existing = to_named(old)
        now[:] = [(*existing, *to_named(proposed), table.oid)]
        values = compiled()
        if not values:
            return None
        return back(with_values(existing, assigned, values[0]))

    return ConflictAction(arbiters, update, frozenset(assigned))


def replayed(session: Session, query: Any) -> Callable[[], list[Row]]:
    """A query compiled once, over rows that change between its runs."""
    compiled = compile_query(expand_views(session, query), Context(session))
    return lambda: list(compiled(Env([], None)))


def with_values(row: Row, attnums: Iterable[int], values: Iterable[Any]) -> Row:
    changed = list(row)
    for attnum, value in zip(attnums, values, strict=False):
        changed[attnum - 1] = value
    return tuple(changed)


# --- UPDATE and DELETE ----------------------------------------------------------------------------------------------


def update_or_delete(session: Session, modify: Modify) -> Running:
    target = relation(session, modify.relid)
    checks = prepare(session, target, ModifyKind(modify.command.value), modify.named)
    carried: list[Row] = []

    def changes() -> Iterator[ModifiedRow]:
        for change, rest in _found_and_locked(session, modify, target):
            carried.append(rest)
            yield change

    return Running(session, modify, checks, changes(), carried=carried)


def nothing(session: Session, modify: Modify) -> Running:
    """An UPDATE or DELETE that finds no row."""
    checks = prepare(session, relation(session, modify.relid), ModifyKind(modify.command.value), modify.named)
    return Running(session, modify, checks, ())


def _found_and_locked(session: Session, modify: Modify, target: Relation) -> Iterator[tuple[ModifiedRow, Row]]:
    """The rows to change, locked. A row that another transaction has changed since comes in its newest version, if that
    still satisfies the conditions (ExecUpdate, ExecDelete, EvalPlanQual)."""
    if not session.transaction.locks_rows:
        yield from found_rows(session, modify, target)
        return
    standing = {Standing(c.table, c.place): (c, rest) for c, rest in found_rows(session, modify, target) if c.place}
    verb = "updating" if modify.command is Command.UPDATE else "deleting"
    changed = lock_changes(session, [change for change, _ in standing.values()], verb)
    for row, pair in standing.items():
        if row not in changed:
            yield pair
            continue
        newer = changed[row]
        if newer is None:
            continue
        for again in found_rows(session, modify, target, (row.table, newer)):
            lock_changes(session, [again[0]], verb)
            yield again
            break


def found_rows(
    session: Session, modify: Modify, target: Relation, newer: tuple[int, Newer] | None = None
) -> Iterator[tuple[ModifiedRow, Row]]:
    """The rows to change, each once, in the layout of the table that holds them; with the other values that RETURNING
    needs. `newer`: the newest version of one row, and its table; only this row is looked at."""
    updates = modify.command is Command.UPDATE
    seen: set[tuple[int, RowPlace]] = set()
    for rows_query, layout in _queries(session, modify, target):
        width, count = len(layout.attributes), 2 + len(rows_query.columns)
        behind = count + len(rows_query.assigned)
        for row in (
            stream(session, rows_query.query) if newer is None else _pinned(session, rows_query, target, layout, newer)
        ):
            place, oid = row[0], row[1]
            if len(modify.from_) > 1 and place is not None:
                # joined to several rows it is changed by the first
                if (oid, place) in seen:
                    continue
                seen.add((oid, place))
            old = with_values((None,) * width, rows_query.columns, row[2:count])
            new = with_values(old, rows_query.assigned, row[count:behind]) if updates else None
            if oid != layout.oid:
                convert = converter(layout, relation(session, oid))
                old, new = convert(old), convert(new) if new is not None else None
            yield ModifiedRow(oid, place, old, new), row[behind:]


def _pinned(
    session: Session, rows_query: TargetRowsQuery, target: Relation, layout: Relation, newer: tuple[int, Newer]
) -> Iterable[Row]:
    """The query over one row of the target."""
    oid, version = newer
    if layout.oid != oid and target.kind != "p":
        return ()
    row = version.row if layout.oid == oid else converter(relation(session, oid), layout)(version.row)
    return replayed(session, pinned(rows_query.query, PinnedRow(version.place, oid, row)))()


def _queries(session: Session, modify: Modify, target: Relation) -> Iterator[tuple[TargetRowsQuery, Relation]]:
    """One query over all partitions; children by inheritance may have columns of their own, so each has its query."""
    tables = () if target.kind == "v" else changed_tables(session, modify)
    if target.kind in "pv" or len(tables) == 1:
        yield target_rows_query(session, modify), target
        return
    for member in tables:
        yield target_rows_query(session, modify, member.relation), member.relation


def instead(session: Session, modify: Modify) -> Running:
    """The triggers change whatever they do; here nothing is written."""
    view = relation(session, modify.relid)
    checks = prepare(session, view, ModifyKind(modify.command.value), modify.named)
    carried: list[Row] = []

    def changes() -> Iterator[ModifiedRow]:
        if modify.command is Command.INSERT:
            for row in stream(session, insert_query(session, modify)):
                yield ModifiedRow(view.oid, new=row)
            return
        for change, rest in found_rows(session, modify, view):
            carried.append(rest)
            yield change

    return Running(session, modify, checks, changes(), carried=carried)
