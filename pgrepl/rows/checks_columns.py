"""Rules and defaults of a table for kernels over Arrow, and unique keys over the files of a COPY.

A key that ascends in all parts is unique; otherwise key columns are compared. Whether keys are equal is all that is
told: the insertion row by row finds the row and raises PostgreSQL's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pgrepl.engine.copy_rows import KernelColumn
from pgrepl.expr import tree
from pgrepl.expr.arrow.program import none_is_false, program_of, value_of
from pgrepl.expr.catalog_trees import IndexInfo, column_default
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.walk import is_volatile, var_attnums
from pgrepl.ground.errors import Declined
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.lake.read import footers
from pgrepl.lake.read.extent import rows_of
from pgrepl.lake.read.files import estimate
from pgrepl.rows.checks_table import TableRules
from pgrepl.sql.nodes import NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import base_type
from pgrepl.types.lake.arrays import plain_array
from pgrepl.types.lake.forms import form, is_row_type

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Attribute
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.copy_rows import KeySpan
    from pgrepl.expr.arrow.program import Program
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.table import LakeColumn
    from pgrepl.rows.staged import StagedRows


def check_form(column: LakeColumn, typoid: int, typmod: int) -> None:
    """Declined if the lake keeps a column in another form than that of its type: DuckDB may have created it."""
    if is_row_type(typoid):  # the form depends on the table
        return
    if column.form.lake != form(typoid, typmod).lake:
        raise Declined(f'column "{column.name}" is kept as {column.form.lake}')


def check_program(session: Session, rules: TableRules, *, bound: bool) -> Program | None:
    """The CHECK constraints that new rows must pass. `bound`: the partition constraint as well."""
    exprs = [*(expr for _, expr in rules.checks), *(rules.bound if bound else ())]
    exprs += [tree.NullTest(oids.BOOL, arg=expr, kind=NullTestType.IS_NOT_NULL) for _, expr in rules.computed_not_null]
    if not exprs:
        return None
    program = program_of(none_is_false(exprs), Context(session))
    if program is None:
        raise Declined("a CHECK constraint" if rules.checks else "a partition constraint")
    return program


def bound_program(session: Session, rules: TableRules) -> Program | None:
    """The partition constraint: true for rows that the bound admits. None: it admits all."""
    return check_program(session, replace(rules, checks=(), computed_not_null=()), bound=True)


def columns_of(
    session: Session,
    kept: Sequence[LakeColumn],
    rules: TableRules,
    sent: Callable[[LakeColumn, Attribute], KernelColumn | None],
) -> tuple[KernelColumn, ...]:
    """How each column of new rows is made: generated, as `sent` says, or by its default where that is None."""
    table, generated = rules.relation, generated_columns(session, rules)
    kernel_columns = []
    for column in kept:
        attribute = table.attributes[column.attnum - 1]
        kernel_column = generated.get(column.attnum) or sent(column, attribute)
        if kernel_column is None:
            default = column_default(session, table, attribute)
            kernel_column = default_column(session, column, default, not_null=attribute.notnull)
        kernel_columns.append(kernel_column)
    return tuple(kernel_columns)


def default_column(session: Session, column: LakeColumn, expr: tree.Expr | None, *, not_null: bool) -> KernelColumn:
    """A column that has its default, NULL without one, in every row."""
    if expr is not None and (is_volatile(expr) or var_attnums(expr)):
        raise Declined(f'the default of column "{column.name}"')
    value = None if expr is None else evaluate(expr, (), Context(session))
    return KernelColumn(column.attnum, 0, column.form.to_array([value]), not_null)


def generated_columns(session: Session, rules: TableRules) -> dict[int, KernelColumn]:
    """Columns that are computed of the table's other ones, by number."""
    generated = {}
    for attnum, expr in rules.generated:
        value = value_of(expr, Context(session))
        attribute = rules.relation.attributes[attnum - 1]
        if value is None:
            raise Declined(f'generated column "{attribute.name}"')
        generated[attnum] = KernelColumn(attnum, 0, None, attribute.notnull, None, value, generated=True)
    return generated


# --- unique columns ---------------------------------------------------------------------------------------------------


_MANY = 1 << 24  # whole numbers looked at together
_MUCH = 1 << 29  # bytes of other keys

# types whose values agree exactly when their lake form does
_AS_STORED = frozenset(
    {
        *oids.INTEGERS, oids.BOOL, oids.OID, oids.TEXT, oids.VARCHAR, oids.NAME, oids.UUID, oids.DATE, oids.TIME,
        oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.BYTEA,
    }
)  # fmt: skip


def whole_keys(infos: Sequence[IndexInfo], staged: StagedRows) -> list[int]:
    """The columns of whole numbers whose keys the copy must watch, whether they ascend."""
    keys = []
    for info in infos:
        only = _only_column(info)
        if only is not None and base_type(staged.relation.attributes[only - 1].type) in oids.INTEGERS:
            keys.append(only)
    return sorted(set(keys))


def _only_column(info: IndexInfo) -> int | None:
    """The column of an index over one column."""
    if info.key_count != 1 or info.predicate is not None or info.nulls_not_distinct:
        return None
    return info.columns[0] or None


def keys_differ(
    session: Session, staged: StagedRows, info: IndexInfo, spans: Mapping[int, Sequence[KeySpan | None]]
) -> bool | None:
    """Whether no two rows have the same key; None: that cannot be decided here."""
    only = _only_column(info)
    bounds = key_bounds(staged, info)
    old = estimate(session, staged.table, bounds, staged.snapshot)
    if only is not None and not old and _ascend(spans.get(only, [None])):
        return True
    if not _is_known(staged, info):
        return None
    attnums = list(info.columns[: info.key_count])
    if only is not None and only in whole_keys([info], staged):
        return _numbers_differ(staged, only, old + staged.count, bounds, session if old else None)
    return _values_differ(staged, attnums, bounds, session if old else None)


def new_keys_differ(staged: StagedRows, info: IndexInfo) -> bool:
    """Whether no two staged rows have the same key, as far as their files' column of whole numbers tells."""
    only = _only_column(info)
    if only is None or only not in whole_keys([info], staged):
        return False
    return _numbers_differ(staged, only, staged.count, (), None)


def _ascend(spans: Sequence[KeySpan | None]) -> bool:
    """Whether each part's keys ascend, and the parts follow one another or do not overlap."""
    known = sorted((s.first, s.last) for s in spans if s is not None and s.first <= s.last)
    apart = all(one[1] < other[0] for one, other in pairwise(known))
    return apart and not any(span is None for span in spans)


def _is_known(staged: StagedRows, info: IndexInfo) -> bool:
    if info.predicate is not None or info.nulls_not_distinct or 0 in info.columns[: info.key_count]:
        return False
    for attnum in info.columns[: info.key_count]:
        attribute = staged.relation.attributes[attnum - 1]
        base = base_type(attribute.type)
        sized = base in (oids.BPCHAR, oids.NUMERIC) and attribute.type == base and attribute.typmod >= 4
        if base == oids.NUMERIC and staged.table.column(attnum).form.lake == "varchar":
            return False
        if base not in _AS_STORED and not sized:
            return False
    return True


# --- reading ----------------------------------------------------------------------------------------------------------


def key_bounds(staged: StagedRows, info: IndexInfo) -> list[Bound]:
    """The bounds within which the table can have equal keys."""
    attnums = [] if info.nulls_not_distinct else [attnum for attnum in info.columns[: info.key_count] if attnum]
    return [bound for attnum in attnums if (bound := staged.range_of(attnum)) is not None]


def _portions(
    session: Session | None, staged: StagedRows, attnums: Sequence[int], bounds: Sequence[Bound]
) -> Iterator[list[Any]]:
    """The key columns of the new rows, and, with a session, of those in the table that may have equal keys."""
    ids = [staged.table.column(attnum).column_id for attnum in attnums]
    for file in staged.files:
        footer = footers.footer(staged.table.location + file.name)
        with footers.DataFileReader(footer) as reader:
            for group in footer.row_groups:
                yield [plain_array(array) for array in reader.read([group], [footer.by_id[i] for i in ids])]
    if session is not None:
        for rows, _, _ in rows_of(session, staged.table, staged.snapshot, attnums, bounds):
            for arrays, _ in rows.portions(attnums):
                yield [arrays[attnum] for attnum in attnums]


def _numbers_differ(
    staged: StagedRows, attnum: int, count: int, bounds: Sequence[Bound], session: Session | None
) -> bool:
    """Whether no number occurs twice. Many numbers are compared in several turns, each over those with one
    remainder."""
    turns = -(-count // _MANY)
    for turn in range(turns):
        differing = []
        for (array,) in _portions(session, staged, [attnum], bounds):
            numbers = array.drop_null().to_numpy()
            differing.append(numbers if turns == 1 else numbers[numbers % turns == turn])
        numbers = np.concatenate(differing) if differing else np.empty(0, np.int64)
        numbers.sort()
        if bool((numbers[1:] == numbers[:-1]).any()):
            return False
    return True


def _values_differ(
    staged: StagedRows, attnums: Sequence[int], bounds: Sequence[Bound], session: Session | None
) -> bool | None:
    names = [f"k{attnum}" for attnum in attnums]
    portions, size = [], 0
    for arrays in _portions(session, staged, attnums, bounds):
        portion = pa.table(arrays, names=names).drop_null()
        size += portion.nbytes
        if size > _MUCH:
            return None
        portions.append(portion)
    if not portions:
        return True
    counts = pa.concat_tables(portions).group_by(names).aggregate([([], "count_all")])
    return (pc.max(counts.column("count_all")).as_py() or 0) <= 1
