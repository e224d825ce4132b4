"""INSERT of many rows from a query over one table or over a series of numbers: by kernels over Arrow, in threads of
this process or as tasks of Spark's.

The query may only choose rows and compute values of each. Unique keys are checked when all rows are in files, as COPY
does; INSERT row by row reports duplicates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import relation
from pgrepl.errors import Declined
from pgrepl.expr.context import Context
from pgrepl.expr.dml.plan import Modify
from pgrepl.expr.dml.queries import insert_query
from pgrepl.expr.rewrite import expand_views
from pgrepl.expr.tree import Expr, Query, RangeRef, Rte, RteKind, Var
from pgrepl.expr.walk import rewrite, var_attnums
from pgrepl.frozen import frozen
from pgrepl.query.bounds import conjuncts
from pgrepl.query.engine_choice import ENDLESS, is_whole_series, length_of, series_ends
from pgrepl.query.serializable import note_reads
from pgrepl.query.tables import is_user_table
from pgrepl.rows.changes import ModifyKind
from pgrepl.rows.checks_columns import check_program
from pgrepl.rows.checks_spark import SparkChanges, check_fits
from pgrepl.rows.checks_table import own, table_rules
from pgrepl.rows.foreign_key import keys_of
from pgrepl.rows.members import members
from pgrepl.rows.unique import unique_indexes
from pgrepl.writing.by_kernels import carry_out, check_forms, check_row_alone, computed, condition, few

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session import Session
    from pgrepl.lake.kernels.change import SeriesSource, TableChange
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.rows.members import Member


@frozen
class RowsFrom:
    """A query as the rows of one entry that pass all conditions, and the values of the target's columns, by number."""

    entry: Rte
    where: tuple[Expr, ...]
    values: dict[int, Expr]


def rows_from(session: Session, modify: Modify) -> RowsFrom:
    """The rows and values of the statement. Declined if it needs more than one row at a time, or more than the row."""
    rel = relation(session, modify.relid)
    if modify.conflict is not None:
        raise Declined("ON CONFLICT")
    if modify.ctes or modify.around:
        raise Declined("WITH")
    if modify.returning or modify.check_options:
        raise Declined("rows that are looked at again")
    if rel.kind != "r":
        raise Declined("a partitioned table")
    if table_rules(session, rel).generated:
        raise Declined("generated columns")
    if keys_of(session, rel.oid):
        raise Declined("a table with foreign keys")
    check_fits(session, rel, ModifyKind.INSERT, modify.named, by_kernels=True)
    query = expand_views(session, insert_query(session, modify))
    values = {number: target.expr for number, target in enumerate(query.targets, 1)}
    where: list[Expr] = []
    while True:
        entry = _only_entry(query)
        where = [*conjuncts(query.where), *where]  # the inner query's come first
        if entry.kind is not RteKind.SUBQUERY or entry.subquery is None:
            break
        below = [target.expr for target in entry.subquery.targets if not target.junk]
        values = {number: _through(expr, below) for number, expr in values.items()}
        where = [_through(expr, below) for expr in where]
        query = _numbered_from_one(entry.subquery)
    check_row_alone([*where, *values.values()], entry_of=None)
    return RowsFrom(entry, tuple(where), values)


def _only_entry(query: Query) -> Rte:
    does_more = (
        query.group or query.grouping_sets or query.having is not None or query.windows or query.sort
        or query.distinct is not None or query.limit is not None or query.offset is not None
        or query.set_operation is not None or query.ctes or query.has_aggregates or query.has_sublinks
        or query.has_target_srfs or query.row_marks
    )  # fmt: skip
    if does_more or len(query.from_) != 1 or not isinstance(query.from_[0], RangeRef):
        raise Declined("a query that does more than choose rows")
    return query.rtable[query.from_[0].varno - 1]


def _numbered_from_one(query: Query) -> Query:
    """The query with its only entry of FROM as the first."""
    only = query.from_[0] if len(query.from_) == 1 else None
    if not isinstance(only, RangeRef) or only.varno == 1:
        return query

    def visit(node: Expr) -> Expr | None:
        return replace(node, varno=1) if isinstance(node, Var) and node.varno == only.varno else None

    targets = tuple(replace(target, expr=rewrite(target.expr, visit)) for target in query.targets)
    where = None if query.where is None else rewrite(query.where, visit)
    return replace(query, targets=targets, where=where, rtable=(query.rtable[only.varno - 1],), from_=(RangeRef(1),))


def _through(expr: Expr, below: Sequence[Expr]) -> Expr:
    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Var):
            return None
        if node.attnum <= 0 or node.levelsup:
            raise Declined("a row as a value")
        return below[node.attnum - 1]

    return rewrite(expr, visit)


def stage(session: Session, modify: Modify, *, on_spark: bool) -> SparkChanges:
    """Carry out a statement as far as it goes without the write lock; or Declined."""
    from pgrepl.rows.unique_columns import keys_differ, whole_keys

    found = rows_from(session, modify)
    rel = relation(session, modify.relid)
    changes = SparkChanges(session, rel, ModifyKind.INSERT, modify.named, session.transaction.numbering.last_snapshot())
    staged = changes.of(rel)
    infos = unique_indexes(session, rel)
    keys = tuple(whole_keys(infos, staged))
    made = [
        (rel, _change_of(session, changes, found, member, keys, with_keys=bool(infos)))
        for member in _members(session, found.entry)
    ]
    spans = carry_out(session, changes, made, on_spark=on_spark)
    if staged.files and any(keys_differ(session, staged, info, spans) is not True for info in infos):
        changes.discard()
        raise Declined("a unique key")
    return changes


def _members(session: Session, entry: Rte) -> list[Member | None]:
    """The tables that hold the rows; None stands for a series."""
    if not is_user_table(entry):
        return [None]
    found = members(session, entry.relid, entry.inh)
    note_reads(session, found, ())
    return list(found)


def _change_of(
    session: Session,
    changes: SparkChanges,
    rows: RowsFrom,
    member: Member | None,
    keys: tuple[int, ...],
    *,
    with_keys: bool,
) -> TableChange:
    from pgrepl.lake.kernels.change import TableChange

    rel = changes.relation
    table = changes.of(rel).table
    check_forms(table, rel)
    values, where = rows.values, list(rows.where)
    if member is not None:
        values = {number: own(expr, member.relation) for number, expr in values.items()}
        where = [own(expr, member.relation) for expr in where]
        for attnum in set().union(*map(var_attnums, (*where, *values.values()))):
            if member.numbers.get(attnum) != attnum:
                raise Declined("partitions with columns in another order")
    source = _source(session, rows.entry, member, where, changes.snapshot)
    columns = tuple([computed(session, column, values[column.attnum], rel) for column in table.columns])
    check = check_program(session, table_rules(session, rel), bound=rel.is_partition)
    # rows in no file are not among those whose keys are looked at
    return TableChange(source, table, columns, check, False, 0 if with_keys else few(session, table), keys)


def _source(
    session: Session, entry: Rte, member: Member | None, where: Sequence[Expr], snapshot: int
) -> KernelSource | SeriesSource:
    from pgrepl.lake.kernels.change import SeriesSource
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.lake.kernels.part import SeriesRows
    from pgrepl.lake.table import lake_table

    program, bounds = condition(session, where)
    if member is not None:
        if entry.sample is not None or entry.pinned is not None:
            raise Declined("a sample")
        table = lake_table(session, member.relation.oid)
        check_forms(table, member.relation)
        return KernelSource(session, table, snapshot, (), program, bounds)
    function = entry.functions[0] if entry.kind is RteKind.FUNCTION and len(entry.functions) == 1 else None
    if function is None or not is_whole_series(function) or entry.ordinality:
        raise Declined("rows that are not those of one table")
    ends = series_ends(function, Context(session))
    if ends is None:
        raise Declined("a series without known ends")
    first, _, step = ends
    count = length_of(*ends)
    if count > ENDLESS:
        raise Declined("numbers without end")
    return SeriesSource(SeriesRows(function.type, first, step, count), program)
