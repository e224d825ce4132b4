"""INSERT, UPDATE and DELETE of many rows of one table by kernels over Arrow, in threads of this process or as tasks of
Spark's.

Declined, as more than the row itself is looked at: joins, subqueries, groups and the like; RETURNING and WITH CHECK
OPTION; volatile functions; SET on columns of unique, foreign or partition keys; tables with foreign keys that the
change concerns; constraints that may be deferred; INSERT into a partitioned table or one with generated columns. Then
Spark's SQL carries it out, or this process row by row; EXPLAIN says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.engine import spark
from pgrepl.engine.choice import Engine
from pgrepl.engine.copy_rows import KernelColumn
from pgrepl.engine.run_kernels import KernelSource, SeriesSource, TableChange, change
from pgrepl.expr import tree
from pgrepl.expr.arrow.program import all_are_true, program_of, value_of
from pgrepl.expr.dml_tree import TARGET, Command, Modify
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_queries import in_layout, insert_query
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Expr, Query, RangeRef, Rte, RteKind, Var
from pgrepl.expr.walk import is_volatile, rewrite, var_attnums, walk_deep
from pgrepl.ground import interrupts
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake import storage
from pgrepl.lake.define.inlined import can_inline
from pgrepl.lake.define.options import inlining_limit
from pgrepl.lake.read.part import SeriesRows
from pgrepl.lake.table import lake_table
from pgrepl.query.engine_choice import ENDLESS, is_whole_series, length_of, series_ends
from pgrepl.query.reads import bounds_in, conjuncts, note_reads
from pgrepl.query.shape import is_user_table
from pgrepl.rows.changes import ModifyKind, members
from pgrepl.rows.checks_columns import check_form, check_program, keys_differ, whole_keys
from pgrepl.rows.checks_spark import SparkChanges, check_fits
from pgrepl.rows.checks_table import TableChecks, own, table_rules
from pgrepl.rows.foreign.key import keys_of, keys_to
from pgrepl.rows.staged import together
from pgrepl.rows.unique import unique_indexes
from pgrepl.types.lake.forms import is_row_type
from pgrepl.writing.modify import changed_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.copy_rows import KeySpan
    from pgrepl.engine.modify_rows import ChangedPart
    from pgrepl.engine.run_kernels import ChangedTable
    from pgrepl.expr.arrow.program import Program
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.table import LakeColumn, LakeTable
    from pgrepl.rows.changes import Member


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


def stage_insert(session: Session, modify: Modify, *, on_spark: bool) -> SparkChanges:
    """Carry out a statement as far as it goes without the write lock; or Declined."""
    rows = rows_from(session, modify)
    rel = relation(session, modify.relid)
    changes = SparkChanges(session, rel, ModifyKind.INSERT, modify.named, session.transaction.numbering.last_snapshot())
    staged = changes.of(rel)
    infos = unique_indexes(session, rel)
    keys = tuple(whole_keys(infos, staged))
    table_changes = [
        (rel, _change_of(session, changes, rows, member, keys, with_keys=bool(infos)))
        for member in _members(session, rows.entry)
    ]
    spans = carry_out(session, changes, table_changes, on_spark=on_spark)
    if staged.files and any(keys_differ(session, staged, info, spans) is not True for info in infos):
        changes.discard()
        raise Declined("a unique key")
    return changes


def _members(session: Session, entry: Rte) -> list[Member | None]:
    """The tables that hold the rows; None stands for a series."""
    if not is_user_table(entry):
        return [None]
    tables = members(session, entry.relid, entry.inh)
    note_reads(session, tables, ())
    return list(tables)


def _change_of(
    session: Session,
    changes: SparkChanges,
    rows: RowsFrom,
    member: Member | None,
    keys: tuple[int, ...],
    *,
    with_keys: bool,
) -> TableChange:
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
    return TableChange(source, table, columns, check, False, 0 if with_keys else most_inlined(session, table), keys)


def _source(
    session: Session, entry: Rte, member: Member | None, where: Sequence[Expr], snapshot: int
) -> KernelSource | SeriesSource:
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


def check_simple(session: Session, modify: Modify) -> None:
    """Declined if the statement looks at more than one row at a time, or at more than the row."""
    if modify.returning or modify.check_options:
        raise Declined("rows that are looked at again")
    if modify.ctes or modify.around or modify.multi or len(modify.from_) > 1 or len(modify.rtable) > 1:
        raise Declined("more than one table")
    check_row_alone([*conjuncts(modify.where), *(assignment.expr for assignment in modify.assigned)], entry_of=TARGET)
    target = relation(session, modify.relid)
    kind = ModifyKind(modify.command.value)
    check_fits(session, target, kind, modify.named, by_kernels=True)
    for member in changed_tables(session, modify):
        _check_keys(session, member, modify)


def _check_keys(session: Session, member: Member, modify: Modify) -> None:
    """Declined if the change concerns a key, a generated column or the partition key."""
    rel = member.relation
    if modify.command is Command.DELETE:
        if keys_to(session, rel.oid):
            raise Declined("a table that foreign keys reference")
        return
    changed = {member.numbers[assignment.attnum] for assignment in modify.assigned}
    for key in keys_of(session, rel.oid):
        if changed.intersection(key.columns):
            raise Declined("a column of a foreign key")
    for key in keys_to(session, rel.oid):
        if changed.intersection(key.referenced_columns):
            raise Declined("a column that foreign keys reference")
    for info in unique_indexes(session, rel):
        looked_at = set(info.columns[: info.key_count])
        for expr in (*info.exprs, *([info.predicate] if info.predicate is not None else [])):
            looked_at |= var_attnums(expr)
        if changed & looked_at:
            raise Declined("a column of a unique key")
    rules = table_rules(session, rel)
    if any(changed & var_attnums(expr) for _, expr in rules.generated):
        raise Declined("a generated column")
    if any(changed & var_attnums(expr) for expr in rules.bound):
        raise Declined("a column of the partition key")


def stage_modify(session: Session, modify: Modify, *, on_spark: bool) -> SparkChanges:
    """Carry out a statement as far as it goes without the write lock; or Declined."""
    check_simple(session, modify)
    target = relation(session, modify.relid)
    snapshot = session.transaction.numbering.last_snapshot()
    changes = SparkChanges(session, target, ModifyKind(modify.command.value), modify.named, snapshot)
    members = changed_tables(session, modify)
    table_changes = [(member.relation, _modified(session, modify, target, member, snapshot)) for member in members]
    carry_out(session, changes, table_changes, on_spark=on_spark)
    return changes


def _modified(session: Session, modify: Modify, target: Relation, member: Member, snapshot: int) -> TableChange:
    rel = member.relation
    if rel.oid != target.oid:
        modify = in_layout(session, modify, target, rel)
    table = lake_table(session, rel.oid)
    check_forms(table, rel)
    where = [own(conjunct, rel) for conjunct in conjuncts(modify.where)]
    program, bounds = condition(session, where)
    note_reads(session, [member], bounds if rel.oid == target.oid else ())
    source = KernelSource(session, table, snapshot, (), program, bounds)
    if modify.command is Command.DELETE:
        return TableChange(source, table, (), None, True, 0)
    values = {assignment.attnum: own(assignment.expr, rel) for assignment in modify.assigned}
    columns = [
        computed(session, column, values[column.attnum], rel)
        if column.attnum in values
        else KernelColumn(column.attnum, column.attnum, None, rel.attributes[column.attnum - 1].notnull)
        for column in table.columns
    ]
    check = check_program(session, table_rules(session, rel), bound=False)
    return TableChange(source, table, tuple(columns), check, True, most_inlined(session, table))


_OF_PLACES = ("42501", "58P01", "58030", "XX001")  # errors of an executor that cannot reach the driver's store


def condition(session: Session, where: Sequence[tree.Expr]) -> tuple[Program | None, tuple[Bound, ...]]:
    """WHERE over one relation as a program, and the bounds that follow from it. Conditions with bounds are tested
    first."""
    if not where:
        return None, ()
    context = Context(session)
    query = tree.Query((), (tree.Rte(tree.RteKind.RELATION, "", ()),))
    first: list[tree.Expr] = []
    rest: list[tree.Expr] = []
    bounds: list[Bound] = []
    for part in where:
        said = [bound for _, bound in bounds_in(query, part, context)]
        bounds += said
        (first if said else rest).append(part)
    program = program_of(all_are_true([*first, *rest]), context)
    if program is None:
        raise Declined("a condition that needs the session")
    return program, tuple(bounds)


def check_row_alone(exprs: Iterable[tree.Expr], entry_of: int | None) -> None:
    """Declined if an expression needs more than single columns of the row. `entry_of`: the only range table entry whose
    columns it may use; None: the query has only one entry."""
    for expr in exprs:
        if is_volatile(expr):
            raise Declined("a volatile function")
        for node, _ in walk_deep(expr):
            if isinstance(node, tree.SubLink):
                raise Declined("a subquery")
            if isinstance(node, tree.Var) and (node.attnum == 0 or entry_of not in (None, node.varno)):
                raise Declined("a row as a value")


def computed(session: Session, column: LakeColumn, expr: tree.Expr, rel: Relation) -> KernelColumn:
    """The kernel column that gets the value of an expression over the source."""
    not_null = rel.attributes[column.attnum - 1].notnull
    value = value_of(expr, Context(session))
    if value is None:
        raise Declined(f'the value of column "{column.name}" needs the session')
    if isinstance(value.expr, tree.Const):
        return KernelColumn(column.attnum, 0, column.form.to_array([value.expr.value]), not_null)
    if isinstance(value.expr, tree.Var):
        return KernelColumn(column.attnum, value.expr.attnum, None, not_null)
    if is_row_type(value.expr.type):
        raise Declined("rows as values")
    return KernelColumn(column.attnum, 0, None, not_null, None, value)


def check_forms(table: LakeTable, rel: Relation) -> None:
    """Declined if values of a column are not read and written by kernels."""
    for column in table.columns:
        attribute = rel.attributes[column.attnum - 1]
        check_form(column, attribute.type, attribute.typmod)


def most_inlined(session: Session, table: LakeTable) -> int:
    """Up to how many rows are inlined, not written to a file."""
    return inlining_limit(session, table.table_id) if can_inline(session, table) else 0


def carry_out(
    session: Session, changes: SparkChanges, table_changes: Sequence[tuple[Relation, TableChange]], *, on_spark: bool
) -> dict[int, list[KeySpan | None]]:
    """Run the kernels over all parts and stage their results. Returns the spans of each key column, part by part, or
    raises Declined."""
    changes.engine = Engine.SPARK if on_spark else Engine.COLUMNS
    if not table_changes:
        return {}
    tables = [table_change for _, table_change in table_changes]

    def judge(number: int, part: ChangedPart) -> None:
        if part.error is not None:
            raise part.error
        if part.failing is not None:
            checks = TableChecks(session, table_changes[number][0], changes.relation, changes.modified)
            checks.constraints(part.failing)
            checks.bound(part.failing)
            raise Declined("a rule of the table")

    try:
        with spark.described(f"{changes.kind.value} {changes.relation.name}"):
            done = change(session, tables, on_spark=on_spark, check=interrupts.check_for_interrupts, judge=judge)
    except PgError as problem:
        far = any(storage.local_path(table_change.target.location) is None for table_change in tables)
        if on_spark and far and problem.sqlstate in _OF_PLACES:
            raise Declined(problem.message) from problem
        raise
    spans: dict[int, list[KeySpan | None]] = {}
    for (rel, table_change), changed in zip(table_changes, done, strict=True):
        _take(changes, rel, table_change, changed)
        for number, key in enumerate(table_change.keys):
            spans.setdefault(key, []).extend(part.spans[number] for part in changed.parts if part.spans)
    return spans


def _take(changes: SparkChanges, rel: Relation, planned: TableChange, done: ChangedTable) -> None:
    staged = changes.of(rel)
    changes.count += sum(part.count for part in done.parts)
    rows = [placed for part in done.parts for placed in part.few]
    if done.files or len(rows) > planned.few:
        staged.take(done, versions=planned.leaves)
        return
    if not rows:  # a DELETE, or nothing has changed: an UPDATE deletes the rows of which it has new versions by itself
        staged.delete(together(done.parts))
    for place, row in rows:
        if place is None:
            staged.write.insert([row])
        else:
            staged.write.update(place, row)
