"""Rows that Spark computes, written by the kernels that write for this process: Spark moves, Arrow computes.

A task gets a partition of a frame as Arrow's batches (`mapInArrow`), routes its rows, completes, checks and writes them
into the job's folders, and answers descriptions of files. The first wrong row of a task ends its work.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.engine import run_kernels, spark
from pgrepl.engine.copy_rows import CopyPart, KernelColumn, KernelCondition
from pgrepl.engine.modify_rows import BrokenRule, Change, ChangedPart, ChangePart
from pgrepl.engine.on_spark import package_check, ship
from pgrepl.engine.run_kernels import ChangedTable
from pgrepl.engine.task import NoWatch
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import F, np, pa, pc
from pgrepl.internals import pyspark as internals
from pgrepl.lake.read.data_file import RowPlace
from pgrepl.lake.read.footers import ROWS_IN_GROUP
from pgrepl.lake.read.part import SourceColumns, forms_of
from pgrepl.types.lake.arrays import Form, plain_array, storage_type
from pgrepl.types.lake.forms import form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeTable

    Arrays = Mapping[int, Any]
    Row = tuple[Any, ...]

FEW = 1000  # rows of a partition that are answered, so that neighbouring ones share a file
NOWHERE, OUTSIDE = -1, -2  # in place of a target: no partition takes the row, or the bound of the table itself does not
_HELD = 8 * ROWS_IN_GROUP  # rows that a task keeps for the row groups of all its files
_PLACE = "place"


class KernelRouter(Protocol):
    """Tuple routing over columns (rows/arrivals.py)."""

    def router(self, source: SourceColumns) -> Callable[[Arrays, int], list[tuple[int, Any]]]:
        """The targets that get rows, or NOWHERE, with the numbers of their rows, ascending."""


@frozen
class FrameColumn:
    type: int
    typmod: int

    @property
    def form(self) -> Form:
        return form(self.type, self.typmod)


@frozen
class FrameColumns:
    """The columns c1 … of a frame, by number: type and modifier."""

    types: Mapping[int, FrameColumn]

    def column(self, number: int) -> FrameColumn:
        return self.types[number]


@frozen
class FrameTarget:
    """A table that gets rows, and how its columns are made of the frame's (KernelTarget)."""

    table: LakeTable
    columns: tuple[KernelColumn, ...]
    check: KernelCondition | None


@frozen
class FramePart:
    """What each task does. `places`: the frame has the places of the rows' old versions, which go; rows for which
    `stays` is true, or all without it, get new versions in the first target, the others are routed. `within` is the
    bound of the table whose partitions the router knows."""

    source: FrameColumns
    targets: tuple[FrameTarget, ...]
    router: KernelRouter | None = None
    places: bool = False
    stays: KernelCondition | None = None
    within: KernelCondition | None = None
    only_checks: bool = False
    folders: tuple[str, ...] = ()


@frozen
class WrongRow:
    """The first row of a partition that cannot be written, by column number of the frame, or, if it is at a target, of
    that. `error`: what could not be computed."""

    target: int
    row: Row
    error: PgError | None


class WrongRowInFrame(Exception):
    """The first wrong row of the frame, or in a task of its partition."""

    def __init__(self, row: WrongRow) -> None:
        super().__init__("a wrong row")
        self.row = row


# --- the driver -------------------------------------------------------------------------------------------------------


def write(session: Session, frame: DataFrame, part: FramePart) -> list[ChangedTable]:
    """Write the rows of a frame with columns c{number}, and `place` if the part says so; the answers by target. The
    catalog does not refer to the files yet. Raises WrongRowInFrame or Declined, and leaves no file then."""
    tables = [target.table for target in part.targets]
    with ExitStack() as folders:
        names = tuple(folders.enter_context(run_kernels.job_folder(table)) for table in tables)
        places = list(zip(tables, names, strict=True))
        with run_kernels.watch_folder(
            session, lambda: [file for place in places for file in run_kernels.written(*place)]
        ):
            answers = _answers(frame, part, names)
        return run_kernels.changed_tables(tables, names, [[part[n] for part in answers] for n in range(len(tables))])


def _answers(frame: DataFrame, part: FramePart, folders: tuple[str, ...]) -> list[tuple[ChangedPart, ...]]:
    """The answers of the tasks, in the order of the frame's partitions."""
    columns = [F.col(f"c{n}").cast(column.form.spark).alias(f"c{n}") for n, column in part.source.types.items()]
    if part.places:
        columns.append(F.col(_PLACE))
    task = pickle.dumps(replace(part, folders=folders))
    with spark.pg_errors():
        ship(spark.session())
        done = internals.map_in_arrow(frame.select(*columns), _function(task), "part int, answer binary")
        rows = done.toArrow().to_pylist()
    answers = []
    for row in sorted(rows, key=lambda row: row["part"]):
        answer = pickle.loads(row["answer"])  # of our own tasks
        if isinstance(answer, WrongRow):
            raise WrongRowInFrame(answer)
        if isinstance(answer, str):
            raise Declined(answer)
        answers.append(answer)
    return answers


def _function(task: bytes) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function for mapInArrow. It is pickled by value, so it imports all that it uses."""
    check = package_check()

    def function(batches: Iterable[Any]) -> Iterator[Any]:
        check()
        from pgrepl.engine.frame_rows import answered

        yield answered(task, batches)

    return function


# --- the kernel -------------------------------------------------------------------------------------------------------


def answered(task: bytes, batches: Iterable[Any]) -> Any:
    """The answer of a task as a batch for Spark: its partition, and the pickled ChangedParts by target, WrongRow, or
    reason to decline."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    answer = pickle.dumps(write_rows(pickle.loads(task), batches))  # of our own driver
    return pa.RecordBatch.from_pydict({"part": pa.array([number], pa.int32()), "answer": pa.array([answer])})


def write_rows(part: FramePart, batches: Iterable[Any]) -> tuple[ChangedPart, ...] | WrongRow | str:
    arrival = _Arrival(part)
    try:
        for batch in batches:
            if batch.num_rows:
                arrival.take(batch)
        return tuple(
            [own.changed() if (own := arrival.targets.get(n)) else ChangedPart() for n in range(len(part.targets))]
        )
    except Declined as reason:
        return str(reason)
    except WrongRowInFrame as problem:
        return problem.row
    finally:
        for own in arrival.targets.values():
            own.discard()


class _Target(Change):
    """The rows of one target."""

    def __init__(self, part: FramePart, number: int) -> None:
        target = part.targets[number]
        of = CopyPart((), part.source, None, target.table, target.columns, target.check, (), part.folders[number])
        super().__init__(ChangePart(of, part.places and number == 0, FEW), NoWatch())
        self._only_checks = part.only_checks

    def arrive(self, arrays: Arrays, count: int, places: Any) -> None:
        _, new = self.rows_made(arrays, count)
        if self._only_checks:
            return
        self.total += count
        if self.leaves:
            self.leave(places)
            new.append(places.field("row"))
        if self.total <= self.few:
            self.places += _row_places(places) if self.leaves else [None] * count
        self.hold(new, count)

    def leave(self, places: Any) -> None:
        """Note the places of rows that go."""
        files = places.field("file")
        inlined = files.is_null()
        self.row_ids += places.field("row").filter(inlined).to_pylist()
        kept = files.is_valid()
        numbers = files.filter(kept).to_numpy()
        positions = places.field("pos").filter(kept).to_numpy()
        for file_id in np.unique(numbers):
            self.note(int(file_id), positions[numbers == file_id])


class _Arrival:
    def __init__(self, part: FramePart) -> None:
        self.part = part
        self.targets: dict[int, _Target] = {}
        self._kinds = {number: storage_type(column.form.arrow()) for number, column in part.source.types.items()}
        self._route = None if part.router is None else part.router.router(part.source)
        self._tests = [
            (condition.attnums, condition.test(forms_of(part.source, condition.attnums))) if condition else None
            for condition in (part.stays, part.within)
        ]

    def take(self, batch: Any) -> None:
        arrays = {number: _stored(batch.column(f"c{number}"), kind) for number, kind in self._kinds.items()}
        places = batch.column(_PLACE) if self.part.places else None
        count = batch.num_rows
        wrong: list[tuple[int, WrongRow]] = []
        for number, rows in self._routed(arrays, count):
            some, size = (arrays, count) if rows is None else (_some(arrays, rows), len(rows))
            if number < 0:
                first = int(rows[0].as_py())
                wrong.append((first, WrongRow(number, self._row(arrays, first), None)))
                continue
            target = self._target(number)
            at = places if rows is None or places is None else places.take(rows)
            if self.part.places and number:
                self._target(0).leave(at)
            try:
                target.arrive(some, size, at)
            except (BrokenRule, PgError) as problem:
                if isinstance(problem, PgError) and problem.is_of_machine:
                    raise
                place = target.reached if rows is None else int(rows[target.reached].as_py())
                row, error = (problem.row, None) if isinstance(problem, BrokenRule) else ((), problem)
                wrong.append((place, WrongRow(number, row, error)))
        if wrong:
            raise WrongRowInFrame(min(wrong, key=lambda wrong_row: wrong_row[0])[1])
        if sum(target.count for target in self.targets.values()) > _HELD:
            max(self.targets.values(), key=lambda target: target.count).write()

    def _target(self, number: int) -> _Target:
        target = self.targets.get(number)
        if target is None:
            target = self.targets[number] = _Target(self.part, number)
        return target

    def _routed(self, arrays: Arrays, count: int) -> list[tuple[int, Any]]:
        if self._route is None:
            return [(0, None)]
        stays, within = self._tests
        parts: list[tuple[int, Any]] = []
        rows: Any = None  # all
        if stays is not None:
            mask = stays[1](arrays, count)
            parts = [(0, pc.indices_nonzero(mask))]
            rows = pc.indices_nonzero(pc.invert(mask))
        if within is not None and rows is None:
            outside = pc.indices_nonzero(pc.invert(within[1](arrays, count)))
            parts.append((OUTSIDE, outside))
        if rows is None or len(rows):
            some, size = (arrays, count) if rows is None else (_some(arrays, rows), len(rows))
            parts += [(number, own if rows is None else rows.take(own)) for number, own in self._route(some, size)]
        return [(number, own) for number, own in parts if len(own)]

    def _row(self, arrays: Arrays, place: int) -> Row:
        row: list[Any] = [None] * max(arrays)
        for number, array in arrays.items():
            row[number - 1] = self.part.source.column(number).form.from_array(array.slice(place, 1))[0]
        return tuple(row)


def _some(arrays: Arrays, rows: pa.Array) -> Arrays:
    return {number: array.take(rows) for number, array in arrays.items()}


def _stored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    array = plain_array(array)
    return array if array.type == kind else array.cast(kind)


def _row_places(places: Any) -> list[RowPlace | None]:
    fields = (places.field(name).to_pylist() for name in ("file", "pos", "row"))
    return [RowPlace(file, pos, row) for file, pos, row in zip(*fields, strict=True)]
