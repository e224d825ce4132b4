"""A query as a DataFrame, or as SQL text; the row counts and times of EXPLAIN ANALYZE from Spark's metrics.

A node gets a count only if one place in Spark's plan returns exactly its rows; its time is that of the stage which
made them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from pgrepl.engine.spark import pg_errors, planned_query
from pgrepl.ground.errors import Declined, PgError
from pgrepl.internals import pyspark
from pgrepl.query.spark.level import Job, PlayApart
from pgrepl.query.spark.select import compile_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.functions.registry import Context
    from pgrepl.expr.tree import Query
    from pgrepl.ground.memory import Instruments
    from pgrepl.internals.pyspark import SparkNode


def compile_frame(session: Session, query: Query, context: Context, apart: PlayApart) -> DataFrame:
    """The query, its views expanded, as a frame with columns c1 … cn in their lake forms; or Declined."""
    return _frame(*sql_of(session, query, context, apart))


def sql_of(session: Session, query: Query, context: Context, apart: PlayApart | None = None) -> tuple[Job, str]:
    """The query as SQL; or Declined. Without `apart` no subquery is executed for its text."""
    job = Job(session, context, apart)
    try:
        return job, compile_query(query, job).text
    except PgError as problem:
        if problem.sqlstate != "0A000":
            raise
        raise Declined(problem.message) from problem


# SQLSTATE classes of errors that are not the query's: no memory or disk, interrupted, Spark has ended
_NOT_OF_THE_QUERY = ("53", "57", "58")


def _frame(job: Job, text: str) -> DataFrame:
    """The statement as a frame. Its physical plan is made at once, because Spark refuses a query only then."""
    try:
        with pg_errors():
            frame = job.run(text)
            _explained(frame)
        planned_query()
        return frame
    except PgError as problem:
        if problem.sqlstate.startswith(_NOT_OF_THE_QUERY):
            raise
        raise Declined(problem.message) from problem


def physical_plan(job: Job, text: str) -> str:
    """Spark's physical plan of the statement."""
    return _explained(_frame(job, text), "formatted")


def _explained(frame: DataFrame, mode: str = "simple") -> str:
    said = StringIO()
    with redirect_stdout(said):
        frame.explain(mode)
    return said.getvalue().strip("\n")


# --- measured ---------------------------------------------------------------------------------------------------------


Relation = tuple[object, Hashable]
_BELOW = frozenset(
    ("Project", "InputAdapter", "Exchange", "BroadcastExchange", "ColumnarToRow", "AQEShuffleRead", "Sort")
)
_SAME = ("WholeStageCodegen", "ShuffleQueryStage", "BroadcastQueryStage", "ResultQueryStage")


@dataclass(frozen=True)
class Wanted:
    """A node of EXPLAIN's plan: the relations below it, whether it groups, whether it has a filter of its own."""

    query: object
    step: Hashable
    relations: frozenset[Relation]
    groups: bool
    filters: bool


@dataclass(frozen=True)
class Measured:
    """The number of rows that a node returns, of those that its filter has removed, and when its stage began and ended,
    in seconds since the query began."""

    rows: int
    removed: int
    times: tuple[float, float] | None


def carry_out(frame: DataFrame, wanted: Sequence[Wanted], instruments: Instruments) -> int:
    """Execute the query without fetching rows, and note the counts of nodes; returns the number of rows."""
    with pg_errors():
        count, done, columns = pyspark.carry_out(frame)
    aliases = {relation: columns[alias] for alias, relation in instruments.aliases.items() if alias in columns}
    known = {relation for node in wanted for relation in node.relations}
    plan = _Plan(done, {relation: ids for relation, ids in aliases.items() if relation in known})
    for node in wanted:
        beside = [other for other in wanted if other.groups and other.relations == node.relations]
        measured = plan.find(node, alone=len(beside) == 1)
        if measured is not None:
            told = instruments.of(node.query, node.step)
            told.loops, told.rows, told.removed = 1, measured.rows, measured.removed
            told.is_timed &= measured.times is not None
            told.startup, told.total = measured.times or (0.0, 0.0)
    return count


class _Plan:
    def __init__(self, root: SparkNode, columns: Mapping[Relation, frozenset[int]]) -> None:
        self._root = root
        self._below: dict[int, frozenset[Relation | None]] = {}
        self._note(root, columns)

    def _note(self, node: SparkNode, columns: Mapping[Relation, frozenset[int]]) -> frozenset[Relation | None]:
        """Note the relations below each node; None among them: an unknown relation."""
        if node.children:
            relations = frozenset[Relation | None]().union(*[self._note(child, columns) for child in node.children])
        else:
            names = [relation for relation, ids in columns.items() if node.columns & ids]
            if not node.columns and len(columns) == 1 and sum(1 for _ in _leaves(self._root)) == 1:
                names = list(columns)
            relations = frozenset(names if len(names) == 1 else (None,))
        self._below[id(node)] = relations
        return relations

    def find(self, wanted: Wanted, *, alone: bool) -> Measured | None:
        """What is known of a node. `alone`: it is the only one that groups the rows of its relations."""
        places = list(self._places(wanted.relations))
        groups = [place for place, node in enumerate(places) if node.name.endswith("Aggregate")]
        if not places or (wanted.groups and not (groups and alone)):
            return None
        top = groups[0] if wanted.groups else len(places) - 1
        while top and _passes(places[top - 1]):
            top -= 1
        passed = _passed(places[top], scan=len(wanted.relations) == 1 and not wanted.groups)
        if passed is None:
            return None
        times = places[top].times
        if not wanted.filters:
            return Measured(passed.before, 0, times)
        if not passed.filtered and not wanted.groups:  # Spark may test it on rows before it groups them
            return None
        return Measured(passed.after, passed.before - passed.after if passed.told else 0, times)

    def _places(self, relations: frozenset[Relation]) -> Iterator[SparkNode]:
        """The nodes whose rows are made of those of all these relations, and of no others, from the top down."""
        node: SparkNode | None = self._root
        while node is not None:
            below = self._below[id(node)]
            if below == relations:
                yield node
            elif node.name == "Union" and None in below:
                return  # the unknown relation may be one of these
            inside = [child for child in node.children if self._below[id(child)] >= relations]
            node = inside[0] if len(inside) == 1 else None


def _leaves(node: SparkNode) -> Iterator[SparkNode]:
    if not node.children:
        yield node
    for child in node.children:
        yield from _leaves(child)


@dataclass(frozen=True)
class _Passed:
    """Numbers of rows before and after a filter. `told`: the filter was applied there to all rows; `filtered`: at least
    to some."""

    before: int
    after: int
    told: bool
    filtered: bool
    joined: bool = False


def _passed(node: SparkNode, *, scan: bool) -> _Passed | None:
    """The counts at a node. `scan`: of a table's scan, in which a join and a filter leave out deleted rows."""
    if node.name == "Filter":
        passed = _passed(node.children[0], scan=scan)
        if passed is None or node.rows is None:
            return None
        if scan and passed.joined:
            return _Passed(node.rows, node.rows, told=False, filtered=True, joined=True)
        return _Passed(passed.before, node.rows, told=True, filtered=True)
    if node.name == "Union":
        of_children = [_passed(child, scan=scan) for child in node.children]
        known = [counts for counts in of_children if counts is not None]
        if len(known) < len(of_children):
            return None
        return _Passed(
            sum(counts.before for counts in known),
            sum(counts.after for counts in known),
            told=all(counts.told for counts in known),
            filtered=any(counts.filtered for counts in known),
            joined=any(counts.joined for counts in known),
        )
    if _passes(node):
        return _passed(node.children[0], scan=scan)
    joined = node.name.endswith("Join")
    return None if node.rows is None else _Passed(node.rows, node.rows, told=False, filtered=False, joined=joined)


def _passes(node: SparkNode) -> bool:
    """Whether the node returns the rows of its one child, or some of them."""
    same = node.name in _BELOW or node.name.startswith(_SAME) or node.name.endswith("EvalPython")
    return len(node.children) == 1 and (same or node.name == "Filter")
