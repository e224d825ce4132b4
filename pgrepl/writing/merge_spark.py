"""MERGE of many rows: Spark joins the target with the source, and finds the WHEN clause of each row.

The rows of the join are persisted with the number of their action; then each action is a query over its rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.engine import spark
from pgrepl.expr.analyse.queries.merge import Joined, joined_query, numbered_query, staged_query
from pgrepl.expr.dml_tree import Command, MergeAction, Modify
from pgrepl.ground.errors import Declined
from pgrepl.ground.lazy import F
from pgrepl.rows.changes import ModifyKind, members
from pgrepl.rows.checks import affected_twice
from pgrepl.rows.checks_spark import FoundTwice, SparkChanges
from pgrepl.rows.triggers import TriggerEvent
from pgrepl.writing.modify_spark import staged
from pgrepl.writing.rows_spark import FrameRows, new_rows, query_frame, without_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session


def stage(session: Session, modify: Modify) -> SparkChanges:
    """Carry out a MERGE as far as it goes without the write lock; or Declined."""
    target = relation(session, modify.relid)
    if target.kind != "p" and len(members(session, target.oid, modify.rtable[0].inh)) > 1:
        raise Declined("a MERGE into a table that has children by inheritance")
    events = [TriggerEvent(command.value) for command in modify.commands]
    fill = partial(_merge, session, modify)
    try:
        return staged(session, target, ModifyKind.MERGE, modify.named, fill, events)
    except FoundTwice:
        raise affected_twice() from None


def _merge(session: Session, modify: Modify, changes: SparkChanges) -> None:
    assert modify.merge is not None
    joined = joined_query(session, modify, on_spark=True)
    action = f"c{len(joined.query.targets) + 1}"
    rows = query_frame(session, numbered_query(session, modify, joined)).persist()
    try:
        if _changes_twice(modify.merge.actions, rows, action):
            raise affected_twice()
        for number, each in enumerate(modify.merge.actions, 1):
            if each.command is not None:
                _carry_out(session, modify, joined, each, rows.filter(f"{action} = {number}"), changes)
    finally:
        rows.unpersist()


def _changes_twice(actions: tuple[MergeAction, ...], rows: DataFrame, action: str) -> bool:
    """Whether several rows of the source change one row of the target."""
    changing = [str(n) for n, each in enumerate(actions, 1) if each.command in (Command.UPDATE, Command.DELETE)]
    if not changing:
        return False
    changed = rows.filter(f"{action} IN ({', '.join(changing)})").groupBy("c2", "c1").count()
    with spark.pg_errors():
        return bool(changed.filter("count > 1").take(1))


def _carry_out(
    session: Session, modify: Modify, joined: Joined, action: MergeAction, rows: DataFrame, changes: SparkChanges
) -> None:
    target = relation(session, modify.relid)
    found = staged_query(session, modify, joined, action, FrameRows(rows))
    if action.command is Command.INSERT:
        if without_numbers(found.query)[1]:
            raise Declined("numbers of sequences in MERGE")
        changes.insert(query_frame(session, found.query))
        return
    frame = query_frame(session, found.query)
    for member in members(session, target.oid, True):
        table = member.relation
        own = frame if target.kind != "p" else frame.filter(f"c2 = {table.oid}")
        if action.command is Command.DELETE:
            changes.delete(table, own.withColumnRenamed("c1", "place").select("place"))
        else:
            changes.update(table, _in_leaf(new_rows(target, found, own), target, table))


def _in_leaf(rows: DataFrame, target: Relation, leaf: Relation) -> DataFrame:
    """The new rows in the layout of the table that they are in."""
    numbers = {a.name: a.num for a in target.kept}
    return rows.select("place", *[F.col(f"c{numbers[a.name]}").alias(f"c{a.num}") for a in leaf.kept])
