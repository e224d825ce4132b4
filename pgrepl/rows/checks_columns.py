"""Rules and defaults of a table for kernels over Arrow, which see whole columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgrepl.errors import Declined
from pgrepl.expr import tree
from pgrepl.expr.context import Context
from pgrepl.expr.defaults import column_default
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.walk import is_volatile, var_attnums
from pgrepl.rows.checks_table import TableRules

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Attribute
    from pgrepl.catalog.session import Session
    from pgrepl.expr.arrow.program import Program
    from pgrepl.lake.kernels.row_maker import KernelColumn
    from pgrepl.lake.table import LakeColumn


def check_form(column: LakeColumn, typoid: int, typmod: int) -> None:
    """Declined if the lake keeps a column in another form than that of its type: DuckDB may have created it."""
    from pgrepl.types.lake_forms import form, is_row_type

    if is_row_type(typoid):  # the form depends on the table
        return
    if column.form.lake != form(typoid, typmod).lake:
        raise Declined(f'column "{column.name}" is kept as {column.form.lake}')


def check_program(session: Session, rules: TableRules, *, bound: bool) -> Program | None:
    """The CHECK constraints that new rows must pass. `bound`: the partition constraint as well."""
    from pgrepl.expr.arrow.program import none_is_false, program_of

    exprs = [*(expr for _, expr in rules.checks), *(rules.bound if bound else ())]
    if not exprs:
        return None
    found = program_of(none_is_false(exprs), Context(session))
    if found is None:
        raise Declined("a CHECK constraint" if rules.checks else "a partition constraint")
    return found


def columns_of(
    session: Session,
    kept: Sequence[LakeColumn],
    rules: TableRules,
    sent: Callable[[LakeColumn, Attribute], KernelColumn | None],
) -> tuple[KernelColumn, ...]:
    """How each column of new rows is made: generated, as `sent` says, or by its default where that is None."""
    table, generated = rules.relation, generated_columns(session, rules)
    made = []
    for column in kept:
        attribute = table.attributes[column.attnum - 1]
        found = generated.get(column.attnum) or sent(column, attribute)
        if found is None:
            default = column_default(session, table, attribute)
            found = default_column(session, column, default, not_null=attribute.notnull)
        made.append(found)
    return tuple(made)


def default_column(session: Session, column: LakeColumn, expr: tree.Expr | None, *, not_null: bool) -> KernelColumn:
    """A column that has its default, NULL without one, in every row."""
    from pgrepl.lake.kernels.row_maker import KernelColumn

    if expr is not None and (is_volatile(expr) or var_attnums(expr)):
        raise Declined(f'the default of column "{column.name}"')
    value = None if expr is None else evaluate(expr, (), Context(session))
    return KernelColumn(column.attnum, 0, column.form.to_array([value]), not_null)


def generated_columns(session: Session, rules: TableRules) -> dict[int, KernelColumn]:
    """Columns that are computed of the table's other ones, by number."""
    from pgrepl.expr.arrow.program import value_of
    from pgrepl.lake.kernels.row_maker import KernelColumn

    found = {}
    for attnum, expr in rules.generated:
        value = value_of(expr, Context(session))
        attribute = rules.relation.attributes[attnum - 1]
        if value is None:
            raise Declined(f'generated column "{attribute.name}"')
        found[attnum] = KernelColumn(attnum, 0, None, attribute.notnull, None, value, generated=True)
    return found
