"""Tuple routing by columns: a plan of plain data that travels to tasks, and says which leaf of a partitioned table each
row goes to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.engine.frame_rows import NOWHERE
from pgrepl.expr.arrow.program import Program, Value, all_are_true, program_of, value_of
from pgrepl.expr.catalog_trees import KeyColumn
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.partition_constraint import bound_constraint, partition_desc
from pgrepl.expr.partition_hash import hash_of_class, integer_hashes, row_hash
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import map_attnums
from pgrepl.ground.errors import Declined
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read.part import SourceColumns, forms_of
from pgrepl.types import oids
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

    Arrays = Mapping[int, Any]
    Step = Callable[[Arrays, int], list[tuple[int, Any]]]
    Mask = Callable[[Arrays, int], Any]


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
        functions = [hash_of_class(*each) for each in zip(self.opclasses, types, strict=True)]

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
        steps = [_step(each, source) for each in (*self.steps, self.otherwise)]

        def route(arrays: Arrays, count: int) -> list[tuple[int, Any]]:
            found: list[tuple[int, Any]] = []
            left = pa.array(np.arange(count))
            for mask, step in zip([*masks, None], steps, strict=True):
                passed = None if mask is None else mask(arrays, len(left))
                rows = left if passed is None else left.filter(passed)
                if len(rows):
                    some = arrays if passed is None else {n: array.filter(passed) for n, array in arrays.items()}
                    found += [(target, rows.take(own)) for target, own in step(some, len(rows))]
                if passed is not None and len(rows):
                    others = pc.invert(passed)
                    left, arrays = left.filter(others), {n: array.filter(others) for n, array in arrays.items()}
                if not len(left):
                    break
            return found

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
        found = [value_of(_of_column(column, numbers), Context(self._session)) for column in columns]
        if None in found:
            raise Declined("a partition key that needs the session")
        return tuple([value for value in found if value is not None])


def _of_column(column: KeyColumn, numbers: Mapping[int, int]) -> Expr:
    if column.expr is not None:
        return map_attnums(column.expr, dict(numbers))
    return Var(column.type, typmod=column.typmod, collation=column.own_collation, attnum=numbers[column.attnum])
