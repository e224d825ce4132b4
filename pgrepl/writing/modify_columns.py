"""UPDATE and DELETE of many rows of one table, or of its partitions, by kernels over Arrow: in threads of this process
or as tasks of Spark's.

A kernel evaluates the condition by whole columns, returns the positions of the rows that go, and writes their new
versions with their row ids (lake/kernels/change_rows.py). A statement that needs more than the row itself is
`Declined`: then Spark's SQL carries it out, or this process row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, relation
from pgrepl.errors import Declined
from pgrepl.expr.dml.plan import TARGET, Command, Modify
from pgrepl.expr.dml.queries import in_layout
from pgrepl.expr.walk import var_attnums
from pgrepl.query.bounds import conjuncts
from pgrepl.query.serializable import note_reads
from pgrepl.rows.changes import ModifyKind
from pgrepl.rows.checks_columns import check_program
from pgrepl.rows.checks_spark import SparkChanges, check_fits
from pgrepl.rows.checks_table import own, table_rules
from pgrepl.rows.foreign_key import keys_of, keys_to
from pgrepl.rows.unique import unique_indexes
from pgrepl.writing.by_kernels import carry_out, check_forms, check_row_alone, computed, condition, few
from pgrepl.writing.targets import changed_tables

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.kernels.change import TableChange
    from pgrepl.lake.kernels.row_maker import KernelColumn
    from pgrepl.lake.table import LakeColumn
    from pgrepl.rows.members import Member


def check_simple(session: Session, modify: Modify) -> None:
    """Declined if the statement looks at more than one row at a time, or at more than the row."""
    if modify.returning or modify.check_options:
        raise Declined("rows that are looked at again")
    if modify.ctes or modify.around or modify.multi or len(modify.from_) > 1 or len(modify.rtable) > 1:
        raise Declined("more than one table")
    check_row_alone([*conjuncts(modify.where), *(each.expr for each in modify.assigned)], entry_of=TARGET)
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
    check_simple(session, modify)
    target = relation(session, modify.relid)
    snapshot = session.transaction.numbering.last_snapshot()
    changes = SparkChanges(session, target, ModifyKind(modify.command.value), modify.named, snapshot)
    members = changed_tables(session, modify)
    made = [(member.relation, _change_of(session, modify, target, member, snapshot)) for member in members]
    carry_out(session, changes, made, on_spark=on_spark)
    return changes


def _change_of(session: Session, modify: Modify, target: Relation, member: Member, snapshot: int) -> TableChange:
    from pgrepl.lake.kernels.change import TableChange
    from pgrepl.lake.kernels.copy import KernelSource
    from pgrepl.lake.table import lake_table

    rel = member.relation
    if rel.oid != target.oid:
        modify = in_layout(session, modify, target, rel)
    table = lake_table(session, rel.oid)
    check_forms(table, rel)
    where = [own(each, rel) for each in conjuncts(modify.where)]
    program, bounds = condition(session, where)
    note_reads(session, [member], bounds if rel.oid == target.oid else ())
    source = KernelSource(session, table, snapshot, (), program, bounds)
    if modify.command is Command.DELETE:
        return TableChange(source, table, (), None, True, 0)
    values = {each.attnum: own(each.expr, rel) for each in modify.assigned}
    columns = [
        computed(session, column, values[column.attnum], rel) if column.attnum in values else _kept(column, rel)
        for column in table.columns
    ]
    check = check_program(session, table_rules(session, rel), bound=False)
    return TableChange(source, table, tuple(columns), check, True, few(session, table))


def _kept(column: LakeColumn, rel: Relation) -> KernelColumn:
    from pgrepl.lake.kernels.row_maker import KernelColumn

    return KernelColumn(column.attnum, column.attnum, None, rel.attributes[column.attnum - 1].notnull)
