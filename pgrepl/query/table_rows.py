"""The rows of one table: those that pass a query's WHERE, as whole columns; and those of a time or an LSN that is past,
from the lake's snapshots, as far back as they are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.store.sql import SNAPSHOT_AT
from pgrepl.expr import tree
from pgrepl.expr.tree import Query, RangeRef, Rte
from pgrepl.expr.walk import var_attnums
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import pc
from pgrepl.ground.threads import ahead
from pgrepl.lake import sql
from pgrepl.lake.read import local
from pgrepl.lake.read.local import columns, count
from pgrepl.lake.table import lake_table
from pgrepl.query.reads import bounds_of, note_reads
from pgrepl.query.shape import is_user_table, only_entry, uses_groups
from pgrepl.rows.changes import members
from pgrepl.types import oids
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form, is_row_type

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.arrow.program import Program, Test
    from pgrepl.expr.functions.registry import Context
    from pgrepl.lake.table import LakeTable
    from pgrepl.rows.changes import Member
    from pgrepl.types.lake.arrays import Form

Portion = tuple[int, dict[int, Any]]  # the number of rows, and their columns by attnum


def only_table(query: Query) -> Rte | None:
    """The table that a query reads, if it reads nothing else."""
    entry = only_entry(query)
    plain = entry is not None and is_user_table(entry) and entry.sample is None and entry.pinned is None
    return entry if plain else None


def condition(query: Query, context: Context) -> Program | None:
    """WHERE for Arrow; None: it needs the session."""
    from pgrepl.expr.arrow.program import program_of

    return program_of(tree.Const(oids.BOOL, value=True) if query.where is None else query.where, context)


def plain_columns(query: Query) -> list[int] | None:
    """The columns of its only table that a query returns as they stand, in their order; None: it does more."""
    if only_table(query) is None or uses_groups(query):
        return None
    if query.distinct is not None or query.windows or query.has_target_srfs or query.has_sublinks or query.ctes:
        return None
    if query.sort or query.limit is not None or query.offset is not None or query.row_marks:
        return None
    exprs = [target.expr for target in query.targets if not target.junk]
    plain = [var.attnum for var in exprs if isinstance(var, tree.Var) and var.attnum > 0 and not var.levelsup]
    return plain if len(plain) == len(exprs) else None


class TableColumns:
    """The rows, in portions. `node`: of EXPLAIN ANALYZE, which counts those that are left out."""

    def __init__(
        self, session: Session, query: Query, context: Context, program: Program, attnums: Collection[int]
    ) -> None:
        """`attnums`: the columns that are wanted."""
        entry = only_table(query)
        assert entry is not None
        self._session = session
        read = {*attnums, *(() if query.where is None else var_attnums(program.expr))}
        self.attnums = sorted(read)
        columns = {attnum: entry.columns[attnum - 1] for attnum in self.attnums}
        self.forms: dict[int, Form] = {
            attnum: form(column.type, column.typmod)
            for attnum, column in columns.items()
            if not is_row_type(column.type)
        }
        self._program = None if query.where is None else program
        varno = query.from_[0].varno if isinstance(query.from_[0], RangeRef) else 0
        self._bounds = bounds_of(query, context).get(varno, ())
        scanned = members(session, entry.relid, entry.inh)
        note_reads(session, scanned, self._bounds)
        self._tables = [(member, lake_table(session, member.relation.oid)) for member in scanned]
        for member, table in self._tables:
            if any(table.column(member.numbers[n]).form.lake != form.lake for n, form in self.forms.items()):
                raise Declined("columns of other types in the lake")
        for attnum in self.attnums:
            if attnum not in self.forms:
                self._add_row_form(attnum)
        self.node = None if session.instruments is None else session.instruments.of(query, frozenset((varno,)))

    def _add_row_form(self, attnum: int) -> None:
        """Take down how a column of a composite type is kept, if that is the same in all tables."""
        kept = {table.column(member.numbers[attnum]).kept_alike for member, table in self._tables}
        if len(kept) == 1:
            self.forms[attnum] = kept.pop().form

    @property
    def filters(self) -> bool:
        return self._program is not None

    def count(self) -> int:
        """The number of all rows; there is no WHERE."""
        return sum(count(self._session, table) for _, table in self._tables)

    def portions(self, *, ends: bool = False) -> Iterator[Portion]:
        """The rows that pass WHERE, read by another thread while the caller works; the first portion is empty. `ends`:
        only the least and the greatest values are wanted; there is no WHERE."""
        yield 0, {attnum: plain_array(form.to_array([])) for attnum, form in self.forms.items()}
        for member, table in self._tables:
            test = self._test(member, table)
            own = [member.numbers[attnum] for attnum in self.attnums]
            portions = columns(self._session, table, own, member.bounds(self._bounds), ends=ends)
            for size, arrays in ahead(portions):
                yield self._passing(size, dict(zip(self.attnums, arrays, strict=True)), test)

    def _test(self, member: Member, table: LakeTable) -> Test | None:
        """WHERE over a table, which has its own fields for the attributes of composite types."""
        if self._program is None:
            return None
        rows = {n: table.column(member.numbers[n]).form for n in self.attnums if n not in self.forms}
        return self._program.test({**self.forms, **rows})

    def _passing(self, size: int, columns: dict[int, Any], test: Test | None) -> Portion:
        if test is None:
            return size, columns
        places = pc.indices_nonzero(test(columns, size))
        if self.node is not None:
            self.node.removed += size - len(places)
        if len(places) == size:
            return size, columns
        return len(places), {attnum: array.take(places) for attnum, array in columns.items()}


_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


def rows_at(session: Session, table: Relation, moment: int | None, is_lsn: bool) -> Iterator[tuple[Any, ...]]:
    """The rows by the table's present columns; one that it did not have then is NULL. `moment`: an LSN of the lake, or
    microseconds since 2000. None: there are no rows."""
    if moment is None:
        return
    snapshot = _snapshot(session, table, moment, is_lsn)
    for member in members(session, table.oid, True):
        try:
            then = lake_table(session, member.relation.oid, snapshot)
        except PgError as error:
            raise _unknown(session, table, moment, is_lsn, "It did not exist then.") from error
        there = {column.attnum for column in then.columns}
        numbers = {own: other for own, other in member.numbers.items() if other in there}
        places = [number - 1 for number in numbers]
        for values in local.rows(session, then, list(numbers.values()), snapshot=snapshot):
            row: list[Any] = [None] * len(table.attributes)
            for place, value in zip(places, values, strict=True):
                row[place] = value
            yield tuple(row)


def _snapshot(session: Session, table: Relation, moment: int, is_lsn: bool) -> int:
    """The last snapshot that was committed then."""
    session.transaction.require_read()
    last = session.transaction.numbering.last_snapshot()
    if is_lsn:
        snapshot: int | None = min(moment - 1, last)
    else:
        try:
            at = (_EPOCH + timedelta(microseconds=moment)).isoformat(sep=" ")
        except OverflowError:
            at = "9999" if moment > 0 else "0001"
        snapshot = session.link.execute(SNAPSHOT_AT, (at,))[0][0]
    oldest = int(session.link.execute(sql.FIRST_SNAPSHOT)[0][0])
    if snapshot is None or snapshot < oldest:
        raise _unknown(session, table, moment, is_lsn, "The snapshots of then have been removed, or there were none.")
    return int(snapshot)


def _unknown(session: Session, table: Relation, moment: int, is_lsn: bool, why: str) -> PgError:
    from pgrepl.types.plain import lsn_text
    from pgrepl.types.text import write_text

    then = lsn_text(moment) if is_lsn else write_text(moment, oids.TIMESTAMPTZ, session.text_style)
    hint = "pgrepl.keep_snapshots says how long they are kept; a subscription WITH (history = versions) keeps more."
    return PgError("55000", f'the rows of table "{table.name}" as of {then} are not known', detail=why, hint=hint)
