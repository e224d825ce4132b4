"""Common parts of the statements that kernels over Arrow carry out: conditions, values and rules as programs, the
staging of the kernels' results, and the error for the first wrong row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation
from pgrepl.engine import spark
from pgrepl.engine.choice import Engine
from pgrepl.engine.copy_rows import KernelColumn
from pgrepl.engine.run_kernels import change
from pgrepl.expr import tree
from pgrepl.expr.arrow.program import all_are_true, program_of, value_of
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.walk import is_volatile, walk_deep
from pgrepl.ground import interrupts
from pgrepl.ground.errors import Declined, PgError
from pgrepl.lake import storage
from pgrepl.lake.define.inlined import can_inline
from pgrepl.lake.define.options import inlining_limit
from pgrepl.query.reads import bounds_in
from pgrepl.rows.checks_columns import check_form
from pgrepl.rows.checks_table import TableChecks
from pgrepl.rows.staged import together
from pgrepl.types.lake.forms import is_row_type

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.copy_rows import KeySpan
    from pgrepl.engine.modify_rows import ChangedPart
    from pgrepl.engine.run_kernels import ChangedTable, TableChange
    from pgrepl.expr.arrow.program import Program
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.table import LakeColumn, LakeTable
    from pgrepl.rows.checks_spark import SparkChanges

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
    found = value_of(expr, Context(session))
    if found is None:
        raise Declined(f'the value of column "{column.name}" needs the session')
    if isinstance(found.expr, tree.Const):
        return KernelColumn(column.attnum, 0, column.form.to_array([found.expr.value]), not_null)
    if isinstance(found.expr, tree.Var):
        return KernelColumn(column.attnum, found.expr.attnum, None, not_null)
    if is_row_type(found.expr.type):
        raise Declined("rows as values")
    return KernelColumn(column.attnum, 0, None, not_null, None, found)


def check_forms(table: LakeTable, rel: Relation) -> None:
    """Declined if values of a column are not read and written by kernels."""
    for column in table.columns:
        attribute = rel.attributes[column.attnum - 1]
        check_form(column, attribute.type, attribute.typmod)


def most_inlined(session: Session, table: LakeTable) -> int:
    """Up to how many rows are inlined, not written to a file."""
    return inlining_limit(session, table.table_id) if can_inline(session, table) else 0


def carry_out(
    session: Session, changes: SparkChanges, made: Sequence[tuple[Relation, TableChange]], *, on_spark: bool
) -> dict[int, list[KeySpan | None]]:
    """Run the kernels over all parts and stage their results. Returns the spans of each key column, part by part, or
    raises Declined."""
    changes.engine = Engine.SPARK if on_spark else Engine.COLUMNS
    if not made:
        return {}
    tables = [each for _, each in made]
    words = _Words(session, changes, [rel for rel, _ in made])
    try:
        with spark.described(f"{changes.kind.value} {changes.relation.name}"):
            done = change(session, tables, on_spark=on_spark, check=interrupts.check_for_interrupts, judge=words.judge)
    except PgError as problem:
        far = any(storage.local_path(each.target.location) is None for each in tables)
        if on_spark and far and problem.sqlstate in _OF_PLACES:
            raise Declined(problem.message) from problem
        raise
    spans: dict[int, list[KeySpan | None]] = {}
    for (rel, each), found in zip(made, done, strict=True):
        _take(changes, rel, each, found)
        for number, key in enumerate(each.keys):
            spans.setdefault(key, []).extend(part.spans[number] for part in found.parts if part.spans)
    return spans


def _take(changes: SparkChanges, rel: Relation, made: TableChange, done: ChangedTable) -> None:
    staged = changes.of(rel)
    changes.count += sum(part.count for part in done.parts)
    rows = [each for part in done.parts for each in part.few]
    if done.files or len(rows) > made.few:
        staged.take(done, versions=made.leaves)
        return
    if not rows:  # a DELETE, or nothing has changed: an UPDATE deletes the rows of which it has new versions by itself
        staged.delete(together(done.parts))
    for place, row in rows:
        if place is None:
            staged.write.insert([row])
        else:
            staged.write.update(place, row)


class _Words:
    """Raises the error for the first wrong row."""

    def __init__(self, session: Session, changes: SparkChanges, tables: Sequence[Relation]) -> None:
        self._session = session
        self._changes = changes
        self._tables = tables

    def judge(self, number: int, part: ChangedPart) -> None:
        if part.error is not None:
            raise part.error
        if part.failing is not None:
            changes = self._changes
            checks = TableChecks(self._session, self._tables[number], changes.relation, changes.modified)
            checks.constraints(part.failing)
            checks.bound(part.failing)
            raise Declined("a rule of the table")
