"""UPDATE and DELETE of many rows of one table, or of its partitions, by kernels over Arrow: in threads of this process
or as tasks of Spark's.

A kernel judges the condition by whole columns, says which rows go and writes their new versions with their row ids
(lake/kernels/change_rows.py). What needs more than the row itself is `Declined`: then Spark's SQL does it, or the row
by row way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl import interrupts
from pgrepl.catalog.relation import Relation, relation
from pgrepl.engine import Declined, Engine
from pgrepl.expr import tree
from pgrepl.expr.context import Context
from pgrepl.expr.dml.plan import TARGET, Command, Modify
from pgrepl.expr.dml.queries import in_layout
from pgrepl.expr.walk import is_volatile, var_attnums, walk_deep
from pgrepl.query.bounds import bounds_in, conjuncts
from pgrepl.query.serializable import note_reads
from pgrepl.rows.changes import ModifyKind
from pgrepl.rows.checks_spark import SparkChanges, check_fits
from pgrepl.rows.checks_table import TableChecks, own, table_rules
from pgrepl.rows.foreign_key import keys_of, keys_to
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.unique import unique_indexes
from pgrepl.writing.targets import changed_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session import Session
    from pgrepl.expr.arrow.program import Program
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.kernels.change import ChangedTable, TableChange
    from pgrepl.lake.kernels.change_rows import ChangedPart
    from pgrepl.lake.kernels.copy_rows import KernelColumn
    from pgrepl.lake.table import LakeColumn
    from pgrepl.rows.members import Member


def check_simple(session: Session, modify: Modify) -> None:
    """Declined if the statement looks at more than one row at a time, or at more than the row."""
    others = modify.ctes or modify.around or modify.multi or modify.returning or modify.check_options
    if others or len(modify.from_) > 1 or len(modify.rtable) > 1:
        raise Declined("more than one table")
    for expr in (modify.where, *(each.expr for each in modify.assigned)):
        if expr is None:
            continue
        if is_volatile(expr):
            raise Declined("a volatile function")
        for node, _ in walk_deep(expr):
            if isinstance(node, tree.SubLink):
                raise Declined("a subquery")
            if isinstance(node, tree.Var) and (node.varno != TARGET or node.attnum == 0):
                raise Declined("a row as a value")
    target = relation(session, modify.relid)
    kind = ModifyKind(modify.command.value)
    check_fits(session, target, kind, modify.named)
    for member in changed_tables(session, modify):
        _check_keys(session, member, modify)


def _check_keys(session: Session, member: Member, modify: Modify) -> None:
    """Nobody has to be asked about keys."""
    rel = member.relation
    if modify.command is Command.DELETE:
        if keys_to(session, rel.oid):
            raise Declined("a table that foreign keys reference")
        return
    changed = {member.numbers[each.attnum] for each in modify.assigned}
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


def stage(session: Session, modify: Modify, *, on_spark: bool) -> SparkChanges:
    """Carry out a statement as far as it goes without the write lock; or Declined."""
    from pgrepl.lake import spark
    from pgrepl.lake.kernels.change import change
    from pgrepl.lake.kernels.part import Unfit

    check_simple(session, modify)
    target = relation(session, modify.relid)
    kind = ModifyKind(modify.command.value)
    snapshot = session.transaction.numbering.last_snapshot()
    changes = SparkChanges(session, target, kind, modify.named, snapshot)
    changes.engine = Engine.SPARK if on_spark else Engine.COLUMNS
    members = changed_tables(session, modify)
    made = [_change_of(session, modify, target, member, snapshot) for member in members]
    if not made:
        return changes
    checks: dict[int, TableChecks] = {}

    def judge(number: int, part: ChangedPart) -> None:
        if part.error is not None:
            raise part.error
        if part.failing is not None:
            rel = members[number].relation
            if number not in checks:
                checks[number] = TableChecks(session, rel, target, modify.named)
            checks[number].constraints(part.failing)
            raise Declined("a rule of the table")

    try:
        with spark.described(f"{modify.command.value} {target.name}"):
            done = change(session, made, on_spark=on_spark, check=interrupts.check_for_interrupts, judge=judge)
    except Unfit as reason:
        raise Declined(str(reason)) from None
    for member, each in zip(members, done, strict=True):
        _take(changes, member.relation, each)
    return changes


def _take(changes: SparkChanges, rel: Relation, done: ChangedTable) -> None:
    staged: StagedRows = changes.of(rel)
    staged.arrive(done.files, versions=True)
    for part in done.parts:
        changes.count += part.count
        for file_id, positions in part.positions:
            staged.write.delete_positions(file_id, positions.positions)
        staged.write.delete_inlined(part.row_ids)
        for place, row in part.few:
            staged.write.update(place, row)


def _change_of(session: Session, modify: Modify, target: Relation, member: Member, snapshot: int) -> TableChange:
    from pgrepl.lake.definition_inlined import can_inline
    from pgrepl.lake.ducklake_options import inlining_limit
    from pgrepl.lake.kernels.change import TableChange
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.lake.table import lake_table

    rel = member.relation
    if rel.oid != target.oid:
        modify = in_layout(session, modify, target, rel)
    table = lake_table(session, rel.oid)
    program, bounds = condition(session, rel, modify.where)
    note_reads(session, [member], bounds if rel.oid == target.oid else ())
    source = KernelSource(session, table, snapshot, (), program, bounds)
    if modify.command is Command.DELETE:
        return TableChange(source, None, None, 0)
    computed = {each.attnum: own(each.expr, rel) for each in modify.assigned}
    columns = tuple(
        column_of(session, column, computed[column.attnum], rel) if column.attnum in computed else _kept(column, rel)
        for column in table.columns
    )
    few = inlining_limit(session, table) if can_inline(session, table) else 0
    return TableChange(source, columns, check_of(session, rel, bound=False), few)


def condition(session: Session, rel: Relation, where: tree.Expr | None) -> tuple[Program | None, tuple[Bound, ...]]:
    """WHERE as a program, and within which bounds rows are looked at: what says so comes first."""
    from pgrepl.expr.arrow.program import all_are_true, program_of

    context = Context(session)
    query = tree.Query((), (tree.Rte(tree.RteKind.RELATION, "", ()),))
    first: list[tree.Expr] = []
    rest: list[tree.Expr] = []
    bounds: list[Bound] = []
    for part in conjuncts(where):
        part = own(part, rel)
        said = [bound for _, bound in bounds_in(query, part, context)]
        bounds += said
        (first if said else rest).append(part)
    if where is None:
        return None, ()
    program = program_of(all_are_true([*first, *rest]), context)
    if program is None:
        raise Declined("a condition that needs the session")
    return program, tuple(bounds)


def column_of(session: Session, column: LakeColumn, expr: tree.Expr, rel: Relation) -> KernelColumn:
    """A column that is computed."""
    from pgrepl.expr.arrow.program import value_of
    from pgrepl.lake.kernels.copy_rows import KernelColumn

    not_null = rel.attributes[column.attnum - 1].notnull
    found = value_of(expr, Context(session))
    if found is None:
        raise Declined(f'the value of column "{column.name}" needs the session')
    if isinstance(found.expr, tree.Const):
        return KernelColumn(column.attnum, 0, column.form.to_array([found.expr.value]), not_null)
    if isinstance(found.expr, tree.Var):
        return KernelColumn(column.attnum, found.expr.attnum, None, not_null)
    return KernelColumn(column.attnum, 0, None, not_null, None, found)


def _kept(column: LakeColumn, rel: Relation) -> KernelColumn:
    from pgrepl.lake.kernels.copy_rows import KernelColumn

    return KernelColumn(column.attnum, column.attnum, None, rel.attributes[column.attnum - 1].notnull)


def check_of(session: Session, rel: Relation, *, bound: bool) -> Program | None:
    """What all new rows must pass. `bound`: that of a partition, too."""
    from pgrepl.expr.arrow.program import none_is_false, program_of

    rules = table_rules(session, rel)
    exprs: Sequence[Any] = [*(expr for _, expr in rules.checks), *(rules.bound if bound else ())]
    if not exprs:
        return None
    found = program_of(none_is_false(exprs), Context(session))
    if found is None:
        raise Declined("a CHECK constraint")
    return found
