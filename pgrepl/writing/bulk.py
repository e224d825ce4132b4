"""Statements over many rows: Spark finds and computes them, and they never come into this process.

What the statement reads is pinned at a snapshot; the write lock is taken when all files are there. `checks_bulk` checks
the rows on their way, writes the files and knows what else has to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, relation
from pgrepl.errors import PgError
from pgrepl.expr.context import Context
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.dml.queries import Found, found_query, insert_query
from pgrepl.expr.rewrite import expand_views
from pgrepl.query.initplans import with_values
from pgrepl.query.spark import compile_frame
from pgrepl.rows.changes import Kind
from pgrepl.rows.checks_bulk import Bulk, FoundTwice, fits
from pgrepl.writing.bulk_numbers import UNSTEADY, Numbered, numbered, without_numbers
from pgrepl.writing.targets import changed_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Query


def stage(session: Session, modify: Modify, arbiters: frozenset[int] = frozenset()) -> Bulk | None:
    """Carry out a statement as far as it goes without the write lock. None: it is not one for Spark."""
    target = relation(session, modify.relid)
    if modify.conflict is not None:
        from pgrepl.writing.bulk_conflict import arbiter_key, insert_or_update

        key = arbiter_key(session, modify, arbiters)
        if key is None:
            return None
        found = key
        return staged(
            session, target, Kind.INSERT, modify.named, lambda bulk: insert_or_update(session, modify, found, bulk)
        )
    if modify.command is Command.INSERT:
        queries = [insert_query(session, modify)]
        return staged(session, target, Kind.INSERT, modify.named, lambda bulk: insert_rows_of(session, queries, bulk))
    kind = Kind(modify.command.value)
    try:
        return staged(session, target, kind, modify.named, lambda bulk: _change(session, modify, bulk))
    except FoundTwice:
        return staged(session, target, kind, modify.named, lambda bulk: _change(session, modify, bulk, once=True))


def staged(
    session: Session, target: Relation, kind: Kind, named: frozenset[int], fill: Callable[[Bulk], bool]
) -> Bulk | None:
    """`fill` hands the rows over; if it cannot, nothing is left of them."""
    if not fits(session, target, kind, named):
        return None
    bulk = Bulk(session, target, kind, named, session.transaction.numbering.last_snapshot())
    try:
        if fill(bulk):
            bulk.check()
            return bulk
    except BaseException:
        bulk.discard()
        raise
    bulk.discard()
    return None


def _frame(session: Session, query: Query) -> DataFrame | None:
    """The rows as c1 … cn; None: Spark cannot compute them."""
    query = with_values(session, expand_views(session, query))
    return compile_frame(session, query, Context(session))


def insert_rows_of(session: Session, queries: Sequence[Query], bulk: Bulk) -> bool:
    """The rows of one query after the other; columns that are numbers of sequences are so in all of them."""
    plain, numbers = zip(*[without_numbers(query) for query in queries], strict=True)
    frames = [_frame(session, query) for query in plain]
    if any(frame is None for frame in frames) or any(found != numbers[0] for found in numbers):
        return False
    frame = reduce(lambda all_rows, more: all_rows.unionAll(more), [f for f in frames if f is not None])
    # the query's columns are the table's by number
    if not numbers[0]:
        bulk.insert(frame)
    elif not _insert_numbered(session, bulk, frame, numbers[0]):
        frame = frame.persist()
        try:
            _insert_numbered(session, bulk, frame, numbers[0])
        finally:
            frame.unpersist()
    return True


def _insert_numbered(session: Session, bulk: Bulk, frame: DataFrame, numbers: list[Numbered]) -> bool:
    """Whether each row got its number: the frame has dealt out its rows as they had been counted."""
    rows, count = numbered(session, frame, numbers)
    try:
        bulk.insert(rows)
    except PgError as problem:
        if UNSTEADY not in problem.message:
            raise
    else:
        if bulk.count == count:
            return True
    bulk.discard()
    return False


def _change(session: Session, modify: Modify, bulk: Bulk, *, once: bool = False) -> bool:
    """Table by table: each is its own query, in its own layout. A row that FROM joins to several others is changed by
    one of them; that each is there only `once` is seen to when it has turned out not to be."""
    target = relation(session, modify.relid)
    updates = modify.command is Command.UPDATE
    tables = changed_tables(session, modify)
    for member in tables:
        table = member.relation
        own = None if len(tables) == 1 and table.oid == target.oid else table
        found = found_query(session, modify, own, None if updates else frozenset())
        frame = _frame(session, found.query)
        if frame is None:
            return False
        if updates:
            rows = new_rows(table, found, frame)
            bulk.update(table, rows.dropDuplicates(["place"]) if once else rows)
        else:
            bulk.delete(table, frame.withColumnRenamed("c1", "place").select("place"))
    return True


def new_rows(table: Relation, found: Found, frame: DataFrame) -> DataFrame:
    """c{attnum} for each column as it shall be, and `place`."""
    from pyspark.sql import functions as F

    sources = {attnum: f"c{3 + n}" for n, attnum in enumerate(found.columns)}
    first = 3 + len(found.columns)
    sources |= {attnum: f"c{first + n}" for n, attnum in enumerate(found.assigned)}
    columns = [F.col(sources[a.num]).alias(f"c{a.num}") for a in table.columns]
    return frame.select(F.col("c1").alias("place"), *columns)
