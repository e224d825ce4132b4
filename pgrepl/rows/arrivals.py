"""Rows of a DataFrame on their way into a table or its partitions: the rules of checks_table, and tuple routing, as
plain data for the kernels that write them, and PostgreSQL's error for the first wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
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
from pgrepl.expr.arrow.program import Program, Value, all_are_true, program_of, value_of
from pgrepl.expr.catalog_trees import KeyColumn
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.partition_constraint import bound_constraint, partition_desc
from pgrepl.expr.partition_hash import hash_of_class, integer_hashes, row_hash
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import map_attnums, var_attnums
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pc
from pgrepl.lake.read.part import SourceColumns, forms_of
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.rows.checks_columns import bound_program, check_program, generated_columns
from pgrepl.rows.checks_table import Router, TableChecks, converter, table_rules
from pgrepl.types import oids
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.run_kernels import ChangedTable

    Arrays = Mapping[int, Any]
    Step = Callable[[Arrays, int], list[tuple[int, Any]]]
    Mask = Callable[[Arrays, int], Any]


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
        self._part = FramePart(FrameColumns({}), targets, router, places, stays, within)

    def write(self, frame: DataFrame) -> list[ChangedTable]:
        """The files of each table, which the catalog does not refer to yet; or the error of the first wrong row."""
        return self._run(frame, self._part)

    def check(self, frame: DataFrame) -> None:
        """Only check the rows."""
        self._run(frame, replace(self._part, only_checks=True))

    def _run(self, frame: DataFrame, part: FramePart) -> list[ChangedTable]:
        given = set(frame.columns)
        kept = {a.num: FrameColumn(a.type, a.typmod) for a in self._layout.kept if f"c{a.num}" in given}
        try:
            return write(self._session, frame, replace(part, source=FrameColumns(kept)))
        except WrongRowInFrame as problem:
            raise self._error(problem.row) from None

    def _bound(self, rel: Relation) -> Program | None:
        return bound_program(self._session, table_rules(self._session, rel))

    def _target(self, rel: Relation, *, own: bool) -> FrameTarget:
        session, changed = self._session, self._changed if own else None
        table, rules = lake_table(session, rel.oid), table_rules(session, rel)
        check_arrays(table)
        generated_exprs = [(n, expr) for n, expr in rules.generated if changed is None or changed & var_attnums(expr)]
        generated = generated_columns(session, replace(rules, generated=tuple(generated_exprs)))
        numbers = {a.name: a.num for a in self._layout.columns}
        columns = []
        for column in table.columns:
            attribute = rel.attributes[column.attnum - 1]
            copied = KernelColumn(column.attnum, numbers[attribute.name], None, attribute.notnull)
            columns.append(generated.get(column.attnum, copied))
        bound = own and self._bounded and self._watched and rel.is_partition
        return FrameTarget(table, tuple(columns), check_program(session, rules, bound=bound))

    def _error(self, wrong: WrongRow) -> Exception:
        """What the row's rules say of it."""
        if wrong.error is not None:
            return wrong.error
        try:
            if wrong.target == NOWHERE:
                root = self._named if self._layout.kind != "p" else self._layout
                Router(self._session, root).route(converter(self._layout, root)(self._whole(wrong, self._layout)))
            elif wrong.target == OUTSIDE:
                self._checks(self._layout).bound(self._whole(wrong, self._layout))
            else:
                rel = self.tables[wrong.target]
                checks = self._checks(rel)
                checks.constraints(self._whole(wrong, rel))
                if rel is self._layout and self._bounded:
                    checks.bound(self._whole(wrong, rel))
        except PgError as error:
            return error
        return Declined("a rule of the table")

    def _checks(self, rel: Relation) -> TableChecks:
        changed = self._changed if rel is self._layout else None
        return TableChecks(self._session, rel, self._named, self._modified, changed)

    def _whole(self, wrong: WrongRow, rel: Relation) -> tuple[Any, ...]:
        return wrong.row + (None,) * (len(rel.attributes) - len(wrong.row))


# --- tuple routing ----------------------------------------------------------------------------------------------------


@frozen
class HashTest:
    """Whether the hash of a partition key has this remainder."""

    key: tuple[Value, ...]
    opclasses: tuple[int, ...]
    modulus: int
    remainder: int

    def test(self, source: SourceColumns) -> Mask:
        values = [value.values(forms_of(source, value.attnums)) for value in self.key]
        types = [value.expr.type for value in self.key]
        forms = [form(value.expr.type, value.expr.typmod) for value in self.key]
        functions = [hash_of_class(*operator_class) for operator_class in zip(self.opclasses, types, strict=True)]

        def mask(arrays: Arrays, count: int) -> Any:
            columns = [value(arrays, count) for value in values]
            if len(columns) == 1 and types[0] in oids.INTEGERS:
                numbers = columns[0].fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
                hashes = integer_hashes(numbers)
                hashes[np.asarray(columns[0].is_null())] = 0
                return pa.array(hashes % np.uint64(self.modulus) == self.remainder)
            rows = zip(*[of.from_array(column) for of, column in zip(forms, columns, strict=True)], strict=True)
            return pa.array([row_hash(functions, row) % self.modulus == self.remainder for row in rows], pa.bool_())

        return mask


@frozen
class Level:
    """A partitioned table: a test for each partition, in order, and what its rows meet next, a level or a target."""

    tests: tuple[Program | HashTest, ...]
    steps: tuple[Level | int, ...]
    otherwise: Level | int

    def router(self, source: SourceColumns) -> Step:
        """The targets that get rows, or NOWHERE, with the numbers of their rows, ascending."""
        masks = [
            test.test(source) if isinstance(test, HashTest) else test.test(forms_of(source, test.attnums))
            for test in self.tests
        ]
        steps = [_step(below, source) for below in (*self.steps, self.otherwise)]

        def route(arrays: Arrays, count: int) -> list[tuple[int, Any]]:
            targets: list[tuple[int, Any]] = []
            left = pa.array(np.arange(count))
            for mask, step in zip([*masks, None], steps, strict=True):
                passed = None if mask is None else mask(arrays, len(left))
                rows = left if passed is None else left.filter(passed)
                if len(rows):
                    some = arrays if passed is None else {n: array.filter(passed) for n, array in arrays.items()}
                    targets += [(target, rows.take(own)) for target, own in step(some, len(rows))]
                if passed is not None and len(rows):
                    others = pc.invert(passed)
                    left, arrays = left.filter(others), {n: array.filter(others) for n, array in arrays.items()}
                if not len(left):
                    break
            return targets

        return route


def _step(step: Level | int, source: SourceColumns) -> Step:
    if isinstance(step, Level):
        return step.router(source)
    return lambda arrays, count: [(step, pa.array(np.arange(count)))]


class Leaves:
    """The routing of a partitioned table; `leaves` are the targets, from number `first` on."""

    def __init__(self, session: Session, root: Relation, numbers: Mapping[int, int], first: int = 0) -> None:
        """`numbers`: the numbers of the columns to route by, for those of the root."""
        self.leaves: list[Relation] = []
        self._session = session
        self._first = first
        self.level = self._level(root, numbers)

    def _level(self, rel: Relation, numbers: Mapping[int, int]) -> Level:
        desc = partition_desc(self._session, rel.oid)
        names = {a.name: numbers[a.num] for a in rel.columns}
        tests: list[Program | HashTest] = []
        steps: list[Level | int] = []
        otherwise: Level | int = NOWHERE
        key = self._key(desc.key.columns, numbers) if desc.key.strategy == "h" else ()
        for oid, bound in zip(desc.oids, desc.bounds, strict=True):
            part = relation(self._session, oid)
            step = self._part(part, {a.num: names[a.name] for a in part.columns})
            if bound.default:
                otherwise = step
                continue
            steps.append(step)
            if key:
                opclasses = tuple([column.opclass for column in desc.key.columns])
                tests.append(HashTest(key, opclasses, bound.modulus, bound.remainder))
                continue
            exprs = [map_attnums(e, dict(numbers)) for e in bound_constraint(self._session, rel.oid, desc.key, bound)]
            program = program_of(all_are_true(exprs), Context(self._session))
            if program is None:
                raise Declined("a partition key that needs the session")
            tests.append(program)
        return Level(tuple(tests), tuple(steps), otherwise)

    def _part(self, part: Relation, numbers: Mapping[int, int]) -> Level | int:
        if part.kind == "p":
            return self._level(part, numbers)
        self.leaves.append(part)
        return self._first + len(self.leaves) - 1

    def _key(self, columns: Sequence[KeyColumn], numbers: Mapping[int, int]) -> tuple[Value, ...]:
        values = [value_of(_of_column(column, numbers), Context(self._session)) for column in columns]
        if None in values:
            raise Declined("a partition key that needs the session")
        return tuple([value for value in values if value is not None])


def _of_column(column: KeyColumn, numbers: Mapping[int, int]) -> Expr:
    if column.expr is not None:
        return map_attnums(column.expr, dict(numbers))
    return Var(column.type, typmod=column.typmod, collation=column.own_collation, attnum=numbers[column.attnum])
