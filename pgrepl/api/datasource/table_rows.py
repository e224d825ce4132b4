"""The rows of a table, or those of it that a publication publishes, in parts for tasks.

A part has the files or row groups of one table at one snapshot, the row filter as a program, and the columns. A row
filter that needs a session is evaluated while the read is planned; then the parts have the rows themselves. The option
`where` is one more condition: what it says of columns leaves out files and row groups.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.api.datasource.options import ShownColumn, find_table, shown_column
from pgrepl.catalog.facts.acl import has_column_privilege, has_table_privilege, permission_denied
from pgrepl.catalog.facts.publication import publication_by_name, published_tables
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.relation_parts import hides_rows
from pgrepl.engine.run_kernels import KernelSource
from pgrepl.expr.analyse.analyze import analyze_where
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import scope_of_relation
from pgrepl.expr.arrow.program import all_are_true, program_of
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import BoolExpr
from pgrepl.expr.walk import map_attnums, var_attnums
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa
from pgrepl.lake.read.extent import divide
from pgrepl.lake.read.files import last_snapshot
from pgrepl.lake.read.part import FileRows, forms_of
from pgrepl.lake.table import lake_table
from pgrepl.query.reads import filter_bounds
from pgrepl.replication.publisher.lake.copy import LakeRows, Uncopyable, copied_rows, copy_plan
from pgrepl.rows.changes import members
from pgrepl.sql.nodes import BoolOp
from pgrepl.sql.parser import parse_expression
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Attribute, Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.arrow.program import Program
    from pgrepl.expr.tree import Expr
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.read.part import PartRows
    from pgrepl.lake.table import LakeTable
    from pgrepl.replication.publisher.lake.copy import CopyPlan
    from pgrepl.sql import nodes
    from pgrepl.types.lake.arrays import Form

_ROWS = 1_000_000  # of a part
_FEW = 100_000  # rows that are not divided
_PORTION = 50_000  # rows that are sent with their part


@frozen
class StoredRows:
    """Rows to read from files; `attnums` are the columns to show, in their order."""

    rows: tuple[PartRows, ...]
    table: LakeTable
    filter: Program | None
    attnums: tuple[int, ...]
    columns: tuple[ShownColumn, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        test = None if self.filter is None else self.filter.test(forms_of(self.table, self.filter.attnums))
        asked = frozenset() if self.filter is None else self.filter.attnums
        read = sorted(asked.union(self.attnums))
        for rows in self.rows:
            for arrays, count in _portions(rows, read):
                if test is not None:
                    mask = test(arrays, count)
                    arrays = {attnum: array.filter(mask) for attnum, array in arrays.items()}
                    count = mask.true_count
                if count:
                    forms = [self.table.column(attnum).form for attnum in self.attnums]
                    yield batch(self.columns, [arrays[attnum] for attnum in self.attnums], forms, count=count)


def _portions(rows: PartRows, read: Sequence[int]) -> Iterator[tuple[dict[int, pa.Array], int]]:
    """Portions without single rows outside of the bounds."""
    if isinstance(rows, FileRows) and rows.bounds:
        for arrays, count, _ in rows.placed(read, row_ids=False):
            yield arrays, count
        return
    yield from rows.portions(read)


@frozen
class GivenRows:
    """Rows that came with the part, as an Arrow stream."""

    stream: bytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from pa.ipc.open_stream(self.stream)


def batch(
    columns: Sequence[ShownColumn],
    arrays: Sequence[pa.Array],
    stored: Sequence[Form | None] | None = None,
    *,
    count: int = 0,
) -> pa.RecordBatch:
    """`count`: the number of rows, which a batch without columns has, too."""
    if not columns:
        return pa.record_batch([pa.nulls(count)], names=[""]).select([])
    forms = stored or [None] * len(columns)
    return pa.RecordBatch.from_arrays(
        [column.shown(array, form) for column, array, form in zip(columns, arrays, forms, strict=True)],
        names=[column.name for column in columns],
    )


Part = StoredRows | GivenRows


# --- planning --------------------------------------------------------------------------------------------------------


@frozen
class TableSource:
    """The rows that a read is about. `plan`: how a publication publishes the table; None: the whole table, or the rows
    for which `where` is true. In a plan that condition is part of the filters."""

    table: Relation
    plan: CopyPlan | None
    columns: tuple[ShownColumn, ...]
    where: Expr | None = None

    def attnum(self, name: str) -> int:
        attribute = self.table.attribute(name)
        assert attribute is not None
        return attribute.num


def source_of(
    session: Session,
    table: str | None,
    publication: str | None,
    where: str | None = None,
    pushed: Sequence[nodes.Expr] = (),
) -> TableSource:
    """The table with the columns that may be read; the caller is `reading`. `pushed`: Spark's filters."""
    if publication is None:
        if table is None:
            raise PgError(
                "22023", "the data source needs the option \"table\" or \"publication\"",
                hint='Add .option("table", "schema.name").',
            )  # fmt: skip
        rel = find_table(session, table)
        _check_readable(session, rel)
        shown = _shown(session, rel, rel.kept)
        return TableSource(rel, None, shown, _condition(session, rel, where, pushed))
    rel = published_table(session, publication, table)
    try:
        plan = copy_plan(session, rel.schema, rel.name, [publication])
    except Uncopyable as refused:
        raise refused.error from refused
    condition = _condition(session, rel, where, pushed)
    if condition is not None:
        plan = _narrowed(plan, condition)
    return TableSource(rel, plan, _shown(session, rel, [rel.attributes[n - 1] for n in plan.columns]))


def _shown(session: Session, table: Relation, columns: Sequence[Attribute]) -> tuple[ShownColumn, ...]:
    """The columns as Spark sees them. One is text if any partition keeps arrays of several dimensions in it."""
    texts = set()
    for member in members(session, table.oid, True):
        stored = lake_table(session, member.relation.oid)
        if stored.has_dimensions:
            texts |= {number for number, own in member.numbers.items() if stored.column(own).has_dimensions}
    return tuple([shown_column(c.name, c.type, c.typmod, is_text=c.num in texts) for c in columns])


def _condition(session: Session, table: Relation, where: str | None, pushed: Sequence[nodes.Expr]) -> Expr | None:
    """The condition of the option `where` and of Spark's filters, which are on columns that may be read."""
    parts = [] if where is None else [_where(session, table, where)]
    parts += [_analyzed(session, table, node) for node in pushed]
    return BoolExpr(oids.BOOL, op=BoolOp.AND, args=tuple(parts)) if len(parts) > 1 else next(iter(parts), None)


def _analyzed(session: Session, table: Relation, node: nodes.Expr) -> Expr:
    return assign_collations(analyze_where(scope_of_relation(session, table), node, ExprKind.WHERE, "WHERE"))


def _where(session: Session, table: Relation, where: str) -> Expr:
    """The condition of the option `where`; an error if it asks for more than the row, as a subquery does."""
    expr = _analyzed(session, table, parse_expression(where))
    attnums = var_attnums(expr)
    if not has_table_privilege(session, table, "SELECT") and not all(
        has_column_privilege(session, table, attnum, "SELECT") for attnum in attnums
    ):
        raise permission_denied(table)
    program = program_of(expr, Context(session)) if min(attnums, default=1) > 0 else None
    if program is None:
        raise PgError(
            "0A000", f'the condition of option "where" cannot be computed from the columns of a row alone: {where}',
            detail="Subqueries, system columns and functions that are not immutable are not allowed.",
            hint="Query it instead: pgrepl.connect(…).execute(…).spark().",
        )  # fmt: skip
    return program.expr


def _narrowed(plan: CopyPlan, condition: Expr) -> CopyPlan:
    """The plan, with a condition that all rows are to pass."""
    filters = tuple([all_are_true([row_filter, condition]) for row_filter in plan.filters]) or (condition,)
    return replace(plan, filters=filters)


def published_table(session: Session, publication: str, table: str | None) -> Relation:
    """The table of a publication: the one that is named, or the only one."""
    publication_by_name(session, publication)
    oids = dict.fromkeys(published.relid for published in published_tables(session, [publication]))
    if table is not None:
        rel = find_table(session, table)
        if rel.oid not in oids:
            raise PgError("42704", f'relation "{rel.name}" is not part of the publication "{publication}"')
        return rel
    if len(oids) != 1:
        names = ", ".join(sorted(relation(session, oid).qualified_name for oid in oids)) or "none"
        raise PgError(
            "22023",
            f'publication "{publication}" does not publish one table',
            detail=f"Its tables: {names}.",
            hint='Choose one with .option("table", …).',
        )
    return relation(session, next(iter(oids)))


def _check_readable(session: Session, table: Relation) -> None:
    if not has_table_privilege(session, table, "SELECT") and not all(
        has_column_privilege(session, table, column.num, "SELECT") for column in table.columns
    ):
        raise permission_denied(table)


def parts_of(
    session: Session, source: TableSource, names: Sequence[str], wanted: int | None = None, snapshot: int | None = None
) -> list[Part]:
    """The parts of the rows at a snapshot (None: now) with the named columns. `wanted`: about how many parts."""
    columns = [next(c for c in source.columns if c.name == name) for name in names]
    if hides_rows(session, source.table, session.role):
        return []
    try:
        sources = list(_sources(session, source, snapshot))
    except Declined:
        return list(_given(session, source, columns))
    parts: list[Part] = []
    listed = []
    for kernel, numbers in sources:
        attnums = tuple([numbers[source.attnum(name)] for name in names])
        asked = frozenset() if kernel.filter is None else kernel.filter.attnums
        listed.append((kernel, attnums, kernel.rows(sorted(asked.union(attnums)))))
    total = sum(count for _, _, rows in listed for _, count, _ in rows)
    slots = wanted or (1 if total <= _FEW else max(os.cpu_count() or 1, -(-total // _ROWS)))
    for kernel, attnums, rows in listed:
        share = max(1, round(slots * sum(count for _, count, _ in rows) / max(total, 1)))
        for piece in divide(rows, share):
            if piece:
                parts.append(StoredRows(tuple(piece), kernel.table, kernel.filter, attnums, tuple(columns)))  # type: ignore[arg-type]
    return parts


def _sources(
    session: Session, source: TableSource, snapshot: int | None
) -> Iterator[tuple[KernelSource, dict[int, int]]]:
    """The stored tables with the rows, and the numbers of the source's columns in each."""
    if source.plan is not None:
        yield from LakeRows(session, source.plan, snapshot).sources_with_numbers()
        return
    at = last_snapshot(session) if snapshot is None else snapshot
    for member in members(session, source.table.oid, True):
        table = lake_table(session, member.relation.oid, at)
        filter, bounds = _of_member(session, source.where, member.numbers)
        yield KernelSource(session, table, at, (), filter, bounds), member.numbers


def _of_member(
    session: Session, where: Expr | None, numbers: dict[int, int]
) -> tuple[Program | None, tuple[Bound, ...]]:
    """The condition with a stored table's column numbers, and what it says of columns."""
    if where is None:
        return None, ()
    program = program_of(map_attnums(where, numbers), Context(session))
    assert program is not None, "it was one with the numbers of the table that is asked for"
    return program, filter_bounds(program.expr, Context(session))


def _given(session: Session, source: TableSource, columns: Sequence[ShownColumn]) -> Iterator[GivenRows]:
    """Rows that pass a filter which needs the session."""
    assert source.plan is not None
    places = [next(n for n, c in enumerate(source.columns) if c.name == column.name) for column in columns]
    rows = copied_rows(session, source.plan)
    while portion := list(islice(rows, _PORTION)):
        yield given_rows(columns, [[row[place] for row in portion] for place in places], len(portion))


def given_rows(columns: Sequence[ShownColumn], values: Sequence[Sequence[Any]], count: int = 0) -> GivenRows:
    """Rows of Python values, by column."""
    arrays = [c.array_of(list(v)) for c, v in zip(columns, values, strict=True)]
    return stream_of([batch(columns, arrays, count=count)])


def stream_of(batches: Sequence[pa.RecordBatch]) -> GivenRows:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for given in batches:
            writer.write_batch(given)
    return GivenRows(sink.getvalue().to_pybytes())
