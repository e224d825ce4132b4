"""MERGE carried out in this process: for each row of the join the first WHEN clause that applies (ExecMerge)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.analyse.queries.merge import FIRST, action_query, condition_query, joined_query
from pgrepl.expr.dml_tree import Command, MergeAction, MergeMatch, Modify
from pgrepl.expr.rewrite.dml_queries import target_rows_query
from pgrepl.expr.tree import Const, RangeRef
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.query.rowset import stream
from pgrepl.rows.changes import ModifiedRow, ModifyKind, Row
from pgrepl.rows.checks import prepare
from pgrepl.rows.checks_table import converter
from pgrepl.rows.locking import Newer, Standing, lock_changes
from pgrepl.rows.triggers import TriggerEvent
from pgrepl.types import oids
from pgrepl.writing.modify import Running, replayed, with_values

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import RowPlace


@frozen
class _Joined:
    """A row of the join. `place` and `table` are those of the target's row; `target` is that row in the layout of the
    relation that the statement names."""

    place: RowPlace | None
    table: int
    target: Row | None
    source: Row | None


_Decided = tuple[MergeAction, ModifiedRow]


def merge(session: Session, modify: Modify, *, hidden: bool = False) -> Running:
    """`hidden`: row security shows no row of the target, and lets none in."""
    return _Merge(session, modify, hidden).running()


class _Merge:
    def __init__(self, session: Session, modify: Modify, hidden: bool) -> None:
        if hidden:
            modify = replace(modify, where=Const(oids.BOOL, value=False))
        assert modify.merge is not None
        self.session = session
        self.modify = modify
        self.actions = modify.merge.actions
        self.target = relation(session, modify.relid)
        self.hidden = hidden
        self._joined = joined_query(session, modify, hidden=hidden)
        self._now: list[Row] = []
        self._queries = {
            id(action): replayed(session, action_query(session, modify, action, self._joined.carried, self._now))
            for action in self.actions
        }
        self._children: dict[int, dict[RowPlace, Row]] = {}
        self._carried: list[Row] = []

    @cached_property
    def _matches(self) -> Callable[[], list[Row]]:
        query = condition_query(self.session, self.modify, self._joined.carried, self._now)
        return replayed(self.session, query)

    def running(self) -> Running:
        session, modify = self.session, self.modify
        checks = prepare(session, self.target, ModifyKind.MERGE, modify.named)
        checks.merges([TriggerEvent(c.value) for c in modify.commands], modify.named_by(Command.UPDATE))
        return Running(session, modify, checks, self._changes(), carried=self._carried, columns=self._joined.carried)

    def _changes(self) -> Iterator[ModifiedRow]:
        decided = self._locked() if self.session.transaction.locks_rows else self._decided()
        for action, change in decided:
            assert action.command is not None
            if self.modify.returning:
                self._carried.append((*self._now[0][len(self.target.attributes) + 1 :], action.command.value))
            yield change

    def _rows(self) -> Iterator[_Joined]:
        width = FIRST + len(self.target.attributes)
        for row in stream(self.session, self._joined.query):
            target = row[FIRST:width] if row[2] else None
            yield _Joined(row[0], row[1] or 0, target, row[width:] if row[3] else None)

    # --- one row ------------------------------------------------------------------------------------------------------

    def _decided(self) -> Iterator[_Decided]:
        return (decided for row in self._rows() if (decided := self._decide(row)) is not None)

    def _decide(self, row: _Joined) -> _Decided | None:
        """The first action whose condition is true, and what it does with the row."""
        if row.target is None:
            match = MergeMatch.NOT_MATCHED_BY_TARGET
        else:
            match = MergeMatch.MATCHED if row.source is not None else MergeMatch.NOT_MATCHED_BY_SOURCE
        self._show(row)
        for action in self.actions:
            if action.match is not match:
                continue
            assigned_row = self._queries[id(action)]()
            if not assigned_row:
                continue
            return (action, self._change(row, action, assigned_row[0])) if action.command is not None else None
        return None

    def _show(self, row: _Joined) -> None:
        """Let the queries of the WHEN clauses read this row."""
        nothing = (None,) * len(self.target.attributes)
        source = row.source if row.source is not None else (None,) * len(self._joined.carried)
        self._now[:] = [(*(row.target or nothing), row.table or None, *source)]

    def _change(self, row: _Joined, action: MergeAction, values: Row) -> ModifiedRow:
        if action.command is Command.INSERT:
            if self.hidden:
                message = f'new row violates row-level security policy for table "{self.target.name}"'
                raise PgError("42501", message)
            return ModifiedRow(self.target.oid, new=values)
        assert row.target is not None
        table = relation(self.session, row.table)
        old = row.target if table.oid == self.target.oid else self._own(table, row.place, row.target)
        if action.command is Command.DELETE:
            return ModifiedRow(table.oid, row.place, old)
        numbers = [a.attnum for a in action.assigned]
        if table.oid != self.target.oid:
            names = {a.num: a.name for a in self.target.columns}
            own = {a.name: a.num for a in table.columns}
            numbers = [own[names[n]] for n in numbers]
        return ModifiedRow(table.oid, row.place, old, with_values(old, numbers, values))

    def _own(self, table: Relation, place: RowPlace | None, row: Row) -> Row:
        """The row in the layout of its own table. A child by inheritance may have columns of its own, which are read
        with all its rows."""
        if self.target.kind == "p":
            return converter(self.target, table)(row)
        rows = self._children.get(table.oid)
        if rows is None:
            entry = relation_rte(table, None, inh=False)
            target_rows = target_rows_query(self.session, Modify(Command.DELETE, table.oid, (entry,), (RangeRef(1),)))
            nothing: Row = (None,) * len(table.attributes)
            read = stream(self.session, target_rows.query)
            rows = {target_row[0]: with_values(nothing, target_rows.columns, target_row[2:]) for target_row in read}
            self._children[table.oid] = rows
        assert place is not None
        return rows[place]

    # --- rows that other transactions change --------------------------------------------------------------------------

    def _locked(self) -> Iterator[_Decided]:
        """The same with locks on the rows to change. A row that another transaction has changed since is looked at
        again in its newest version: it may match no more, or another WHEN clause applies (ExecMergeMatched)."""
        joined = [(row, decided) for row in self._rows() if (decided := self._decide(row)) is not None]
        changed = lock_changes(self.session, [change for _, (_, change) in joined], "updating")
        for row, decided in joined:
            change = decided[1]
            if change.place is None or (standing := Standing(change.table, change.place)) not in changed:
                self._show(row)
                yield decided
                continue
            for again in self._newer(row, changed[standing]):
                redone = self._decide(again)
                if redone is not None:
                    lock_changes(self.session, [redone[1]], "updating")
                    yield redone

    def _newer(self, row: _Joined, newer: Newer | None) -> Iterator[_Joined]:
        if newer is None:
            if row.source is not None:
                yield replace(row, place=None, table=0, target=None)
            return
        table = relation(self.session, row.table)
        self._children.get(table.oid, {})[newer.place] = newer.row
        again = replace(row, place=newer.place, target=converter(table, self.target)(newer.row))
        self._show(again)
        if row.source is None or self._matches():
            yield again
            return
        yield replace(again, source=None)
        yield replace(row, place=None, table=0, target=None)
