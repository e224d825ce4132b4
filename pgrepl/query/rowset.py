"""The rows of an analysed query from the engine chosen for it: Python values, or a DataFrame.

    rows = rows_of(session, query)
    if isinstance(rows, SparkRows): rows.frame        # columns c1 … cn
    for row in rows: …                                # tuples of Python values, in either case

The caller has checked the privileges (`permissions`); views are expanded here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.engine import choice as engine_choice
from pgrepl.engine.choice import Choice
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.views import expand_views
from pgrepl.expr.tree import Column, Query
from pgrepl.expr.walk import calls_volatile_routines
from pgrepl.ground.errors import Declined, PgError
from pgrepl.query.engine_choice import choose, gives_few
from pgrepl.query.local.env import Env, LazyRows
from pgrepl.query.local.select import compile_query
from pgrepl.query.reads import note_reads
from pgrepl.query.shape import is_user_table, levels, locks_rows, reads_catalogs_alone, with_values
from pgrepl.rows.changes import members

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session

Row: TypeAlias = tuple[Any, ...]

_PORTION = 4096


@dataclass(frozen=True)
class LocalRows:
    """Rows as tuples of Python values."""

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    frame = None

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def batches(self, *, whole: bool = False) -> Iterator[Sequence[Row]]:
        if self.rows:
            yield self.rows


@dataclass(frozen=True)
class PassingRows:
    """Rows that this process computes while they are read; they can be read only once."""

    columns: tuple[Column, ...]
    rows: Iterator[Row]

    def __iter__(self) -> Iterator[Row]:
        return self.rows

    def batches(self, *, whole: bool = False) -> Iterator[Sequence[Row]]:
        """Some rows at a time; those before an error come before it."""
        more = True
        while more:
            batch: list[Row] = []
            try:
                batch.extend(islice(self.rows, _PORTION))
            except PgError:
                if batch:
                    yield batch
                raise
            if more := bool(batch):
                yield batch


@dataclass(frozen=True)
class SparkRows:
    """Rows that Spark computes when they are read: columns c1 … cn in the Spark forms of their types."""

    columns: tuple[Column, ...]
    frame: DataFrame
    data_path: str  # a folder that all of Spark's machines reach
    few: bool = False  # they may be fetched in one piece

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches():
            yield from batch

    def batches(self, *, whole: bool = False) -> Iterator[Sequence[Row]]:
        """Some rows at a time: no more than a few batches are ever in memory. `whole`: the caller keeps all rows
        anyway, so they may come in one piece."""
        from pgrepl.query.spark.setops import batches

        return batches(self.frame, self.columns, self.data_path, whole=whole or self.few)


def rows_of(session: Session, query: Query, *, expanded: bool = False) -> LocalRows | SparkRows:
    """The rows of a query; `expanded`: its views have been expanded."""
    rows = passing_rows(session, query, expanded=expanded)
    return rows if isinstance(rows, SparkRows) else LocalRows(rows.columns, list(rows.rows))


def passing_rows(
    session: Session, query: Query, *, expanded: bool = False, choice: Choice | None = None
) -> PassingRows | SparkRows:
    """The rows for a caller that reads them once and keeps none. `choice`: the caller has chosen the engine."""
    query = query if expanded else expand_views(session, query)
    context = Context(session)
    if session.unsettled and session.reads_at is None:
        session.settle(_tables_of(session, query), writes=False)
    if locks_rows(query) or _reads_statements(query):
        return PassingRows(query.columns, _computed(session, query, context))
    choice = choice or choose(session, query, context)
    if choice.engine is engine_choice.Engine.COLUMNS:
        try:
            groups = _grouped(session, query, context)
        except Declined as reason:
            engine_choice.declined(session, "SELECT", reason, "the query is not carried out by whole columns")
            choice = choose(session, query, context, by_columns=False)
        else:
            engine_choice.done(session, "SELECT", engine_choice.Engine.COLUMNS)
            return PassingRows(query.columns, _computed(session, groups, context))
    if choice.on_spark:
        with_found = with_values(session, query, _apart)
        if with_found != query:  # the values may let files be skipped
            query = with_found
            choice = choose(session, query, context, by_columns=False)
    if choice.on_spark:
        for level in levels(query):
            for entry in level.rtable:
                if is_user_table(entry):
                    note_reads(session, members(session, entry.relid, entry.inh), ())
        try:
            frame = _frame(session, query, context)
        except Declined as reason:
            engine_choice.declined(session, "SELECT", reason, "the query is not carried out by Spark")
        else:
            engine_choice.done(session, "SELECT", engine_choice.Engine.SPARK)
            return SparkRows(query.columns, frame, session.catalog.data_path, gives_few(query, context, choice))
    return PassingRows(query.columns, _computed(session, query, context))


def _computed(session: Session, query: Query, context: Context) -> Iterator[Row]:
    """The rows, computed while they are read. A query whose functions may write sees tables as they were when it
    began."""
    of_catalogs = session.instruments is None and reads_catalogs_alone(query)
    if of_catalogs:
        from pgrepl.query.local.pull_up import pulled_up

        query = pulled_up(session, query)
    if session.reads_at is not None or not calls_volatile_routines(query):
        return iter(compile_query(query, context, of_catalogs=of_catalogs)(Env([], None)))
    return _as_it_began(session, query, context)


def _as_it_began(session: Session, query: Query, context: Context) -> Iterator[Row]:
    from pgrepl.lake.read.data_file import Overlays
    from pgrepl.lake.read.files import last_snapshot

    snapshot, pending = last_snapshot(session), session.transaction.pending
    with pending.keeping(snapshot) if isinstance(pending, Overlays) else nullcontext():
        with session.reading_at(snapshot):
            rows = compile_query(query, context)(Env([], None))
        yield from session.read_at(snapshot, rows)


def _reads_statements(query: Query) -> bool:
    """Whether the query reads rows of a statement in WITH, which runs as they are read."""
    return any(isinstance(entry.rows, LazyRows) for level in levels(query) for entry in level.rtable)


def _tables_of(session: Session, query: Query) -> set[int]:
    """The tables that a query reads, those below them included."""
    tables = {entry.relid for level in levels(query) for entry in level.rtable if is_user_table(entry)}
    return {oid for table in tables for oid in inheritors(session, table)}


def _grouped(session: Session, query: Query, context: Context) -> Query:
    """The query over its groups. EXPLAIN ANALYZE shows a scan of these as the node that makes groups."""
    from pgrepl.query.group_columns import over_groups

    instruments = session.instruments
    if instruments is None:
        return over_groups(session, query, context)
    groups = instruments.of(query, "group").before(lambda: over_groups(session, query, context))
    instruments.stands_for(groups, query, {frozenset((1,)): "group"})
    return groups


def frame_of(session: Session, query: Query) -> DataFrame:
    """The rows as Spark's frame with columns c1 … cn, however few they are; or Declined. The views of the query have
    been expanded."""
    return _frame(session, with_values(session, query, _apart), Context(session))


def _apart(session: Session, query: Query) -> LocalRows | SparkRows:
    """The rows of a subquery that is executed by itself."""
    return rows_of(session, query, expanded=True)


def _frame(session: Session, query: Query, context: Context) -> DataFrame:
    from pgrepl.query.spark import compile_frame

    return compile_frame(session, query, context, _apart)


def stream(session: Session, query: Query) -> Iterator[Row]:
    """The rows one by one, from either engine."""
    return iter(passing_rows(session, query))
