"""Rows of a DataFrame on their way into a table or its partitions: the rules of checks_table as programs for the
kernels that write them, and PostgreSQL's error for the first wrong one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.engine.copy_rows import KernelColumn
from pgrepl.engine.frame_rows import (
    NOWHERE,
    OUTSIDE,
    FrameColumn,
    FrameColumns,
    FramePart,
    FrameTarget,
    WrongRow,
    WrongRowInFrame,
    write,
)
from pgrepl.expr.arrow.program import Program
from pgrepl.expr.walk import var_attnums
from pgrepl.ground.errors import Declined, PgError
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.rows.checks_columns import bound_program, check_program, generated_columns
from pgrepl.rows.checks_table import Router, TableChecks, converter, table_rules
from pgrepl.rows.route_columns import Leaves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.run_kernels import ChangedTable


def check_arrays(table: LakeTable) -> None:
    """Declined if the table keeps arrays of several dimensions, which Spark does not have."""
    if table.has_dimensions:
        raise Declined("arrays of several dimensions")


class Arrival:
    """The rows of one frame. Its columns are those of `layout`: c{attnum}. Rows of a partitioned table go to its
    leaves; with `places` they are new versions of rows of `layout`, and go to other leaves of `named`, the relation
    that the statement names, where the bound of `layout` does not admit them."""

    def __init__(
        self,
        session: Session,
        layout: Relation,
        named: Relation,
        modified: frozenset[int],
        changed: frozenset[int] | None = None,
        *,
        places: bool = False,
    ) -> None:
        """`modified` and `changed` as for TableChecks."""
        self._session = session
        self._layout = layout
        self._named = named
        self._modified = modified
        self._changed = changed
        self._watched = changed is None or any(changed & var_attnums(e) for e in table_rules(session, layout).bound)
        moves = places and layout.oid != named.oid and layout.is_partition and self._watched
        within = stays = router = None
        self.tables = [] if layout.kind == "p" else [layout]
        if moves or layout.kind == "p":
            root = named if moves else layout
            numbers = {a.name: a.num for a in layout.columns}
            leaves = Leaves(session, root, {a.num: numbers[a.name] for a in root.columns}, len(self.tables))
            self.tables += leaves.leaves
            router = leaves.level
            stays = self._bound(layout) if moves else None
            within = self._bound(layout) if layout.kind == "p" and layout.is_partition else None
        self._bounded = layout.kind != "p" and not moves
        targets = tuple([self._target(rel, own=rel is layout) for rel in self.tables])
        self._part = FramePart(FrameColumns(()), targets, router, places, stays, within)

    def write(self, frame: DataFrame) -> list[ChangedTable]:
        """The files of each table, which the catalog does not refer to yet; or the error of the first wrong row."""
        given = set(frame.columns)
        kept = [(a.num, FrameColumn(a.type, a.typmod)) for a in self._layout.kept if f"c{a.num}" in given]
        try:
            return write(self._session, frame, replace(self._part, source=FrameColumns(tuple(kept))))
        except WrongRowInFrame as problem:
            raise self._error(problem.found) from None

    def check(self, frame: DataFrame) -> None:
        """Only check the rows."""
        self._part = replace(self._part, only_checks=True)
        self.write(frame)

    def _bound(self, rel: Relation) -> Program | None:
        return bound_program(self._session, table_rules(self._session, rel))

    def _target(self, rel: Relation, *, own: bool) -> FrameTarget:
        session, changed = self._session, self._changed if own else None
        table, rules = lake_table(session, rel.oid), table_rules(session, rel)
        check_arrays(table)
        made = [(n, expr) for n, expr in rules.generated if changed is None or changed & var_attnums(expr)]
        generated = generated_columns(session, replace(rules, generated=tuple(made)))
        numbers = {a.name: a.num for a in self._layout.columns}
        columns = []
        for column in table.columns:
            attribute = rel.attributes[column.attnum - 1]
            found = KernelColumn(column.attnum, numbers[attribute.name], None, attribute.notnull)
            columns.append(generated.get(column.attnum, found))
        bound = own and self._bounded and self._watched and rel.is_partition
        return FrameTarget(table, tuple(columns), check_program(session, rules, bound=bound))

    def _error(self, found: WrongRow) -> Exception:
        """What the row's rules say of it."""
        if found.error is not None:
            return found.error
        try:
            if found.target == NOWHERE:
                root = self._named if self._layout.kind != "p" else self._layout
                Router(self._session, root).route(converter(self._layout, root)(self._whole(found, self._layout)))
            elif found.target == OUTSIDE:
                self._checks(self._layout).bound(self._whole(found, self._layout))
            else:
                rel = self.tables[found.target]
                checks = self._checks(rel)
                checks.constraints(self._whole(found, rel))
                if rel is self._layout and self._bounded:
                    checks.bound(self._whole(found, rel))
        except PgError as error:
            return error
        return Declined("a rule of the table")

    def _checks(self, rel: Relation) -> TableChecks:
        changed = self._changed if rel is self._layout else None
        return TableChecks(self._session, rel, self._named, self._modified, changed)

    def _whole(self, found: WrongRow, rel: Relation) -> tuple[Any, ...]:
        return found.row + (None,) * (len(rel.attributes) - len(found.row))


__all__ = ["Arrival", "check_arrays"]
