"""Statements over many rows: Spark finds and computes them, and they never come into this process.

The statement reads one snapshot; the write lock is taken once all files are written. SparkChanges checks the rows while
it writes the files, and the keys thereafter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, relation
from pgrepl.errors import Declined, PgError
from pgrepl.expr.dml.plan import Command, Modify
from pgrepl.expr.dml.queries import insert_query, target_rows_query
from pgrepl.rows.changes import ModifyKind
from pgrepl.rows.checks_spark import FoundTwice, SparkChanges, check_fits
from pgrepl.writing.frames import new_rows, query_frame
from pgrepl.writing.nextval_spark import UNSTEADY, Numbered, numbered, without_numbers
from pgrepl.writing.on_conflict_spark import arbiter_key, insert_or_update
from pgrepl.writing.targets import changed_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.expr.tree import Query
    from pgrepl.rows.trigger_data import TriggerEvent


def stage(session: Session, modify: Modify, arbiters: frozenset[int] = frozenset()) -> SparkChanges:
    """Carry out a statement as far as it goes without the write lock; or Declined."""
    target = relation(session, modify.relid)
    if modify.conflict is not None:
        key = arbiter_key(session, modify, arbiters)
        return staged(session, target, ModifyKind.INSERT, modify.named, partial(insert_or_update, session, modify, key))
    if modify.command is Command.INSERT:
        queries = [insert_query(session, modify)]
        return staged(session, target, ModifyKind.INSERT, modify.named, partial(insert_rows_of, session, queries))
    kind = ModifyKind(modify.command.value)
    try:
        return staged(session, target, kind, modify.named, partial(_change, session, modify))
    except FoundTwice:
        return staged(session, target, kind, modify.named, partial(_change, session, modify, once=True))


def staged(
    session: Session,
    target: Relation,
    kind: ModifyKind,
    named: frozenset[int],
    fill: Callable[[SparkChanges], None],
    events: Collection[TriggerEvent] = (),
) -> SparkChanges:
    """The changes with the rows that `fill` hands over, checked. If either fails, no file is left."""
    check_fits(session, target, kind, named, events)
    changes = SparkChanges(session, target, kind, named, session.transaction.numbering.last_snapshot())
    try:
        fill(changes)
        changes.check()
    except BaseException:
        changes.discard()
        raise
    return changes


def insert_rows_of(session: Session, queries: Sequence[Query], changes: SparkChanges) -> None:
    """Insert the rows of all queries, one after the other. All must have sequence numbers in the same columns."""
    plain, numbers = zip(*[without_numbers(query) for query in queries], strict=True)
    frames = [query_frame(session, query) for query in plain]
    if any(found != numbers[0] for found in numbers):
        raise Declined("numbers of sequences in other columns of each query")
    frame = reduce(lambda all_rows, more: all_rows.unionAll(more), frames)
    # the query's columns are the table's by number
    if not numbers[0]:
        changes.insert(frame)
    elif not _insert_numbered(session, changes, frame, numbers[0]):
        frame = frame.persist()
        try:
            _insert_numbered(session, changes, frame, numbers[0])
        finally:
            frame.unpersist()


def _insert_numbered(session: Session, changes: SparkChanges, frame: DataFrame, numbers: list[Numbered]) -> bool:
    """Whether each row got its number. False: the second run of the frame gave other rows than were counted, and the
    changes are discarded."""
    rows, count = numbered(session, frame, numbers)
    try:
        changes.insert(rows)
    except PgError as problem:
        if UNSTEADY not in problem.message:
            raise
    else:
        if changes.count == count:
            return True
    changes.discard()
    return False


def _change(session: Session, modify: Modify, changes: SparkChanges, *, once: bool = False) -> None:
    """Change table by table, each by a query of its own, in its own layout. A row that FROM joins to several others is
    changed by one of them; `once` removes the others, which is needed only after FoundTwice."""
    target = relation(session, modify.relid)
    updates = modify.command is Command.UPDATE
    tables = changed_tables(session, modify)
    for member in tables:
        table = member.relation
        own = None if len(tables) == 1 and table.oid == target.oid else table
        found = target_rows_query(session, modify, own, None if updates else frozenset())
        frame = query_frame(session, found.query)
        if updates:
            rows = new_rows(table, found, frame)
            changes.update(table, rows.dropDuplicates(["place"]) if once else rows)
        else:
            changes.delete(table, frame.withColumnRenamed("c1", "place").select("place"))
