"""ON DELETE CASCADE, SET NULL and SET DEFAULT after a statement of Spark's.

Spark finds the removed keys that are referenced. When they are few, their rows are changed one by one, with all that
follows; when they are many, by Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.engine import scan_spark, spark
from pgrepl.engine.choice import local_rows
from pgrepl.engine.result_spark import condition_text
from pgrepl.expr.catalog_trees import default_of
from pgrepl.expr.exchange import Statement
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Const, Expr
from pgrepl.lake.table import lake_table
from pgrepl.rows.after_triggers import Queue
from pgrepl.rows.changes import Member, ModifyKind
from pgrepl.rows.checks_spark import SparkChanges, raise_first
from pgrepl.rows.foreign.actions import as_owner, may_change, set_columns
from pgrepl.rows.foreign.key import CASCADE, NO_ACTION, SET_DEFAULT, SET_NULL, ForeignKey
from pgrepl.rows.foreign.lookup_spark import (
    Failure,
    SparkKey,
    TablesAfter,
    first_keys,
    first_referenced,
    referencing_keys,
    removed_keys,
    side,
)
from pgrepl.rows.foreign.statements import action_statement, in_statement
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.unwritten import Event, EventKind
from pgrepl.rows.write import next_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session


def apply(changes: SparkChanges) -> None:
    """Commit the staged changes, then make those of foreign keys' actions; the session holds the write lock."""
    changes.commit()
    acting = changes.acting()
    if not acting:
        return
    session = changes.after.session
    next_snapshot(session)
    for deleted, key in acting:
        _act(changes.after, deleted, key)
    now = TablesAfter(session, {}, session.transaction.numbering.last_snapshot())
    raise_first(
        first_referenced(now, deleted, key, restrict=False)
        for deleted, key in changes.referenced()
        if changes.action(key) == NO_ACTION
    )


def _act(before: TablesAfter, deleted: Sequence[StagedRows], foreign: ForeignKey) -> None:
    """Carry out one key's action. `before`: the tables when the statement began; they have been written since."""
    session = before.session
    now = TablesAfter(session, {}, session.transaction.numbering.last_snapshot())
    key = SparkKey(session, foreign)
    removed = removed_keys(before, deleted, key)
    frames = {"old": removed, "used": referencing_keys(now, key)}
    few = local_rows(session)
    text = f"SELECT a.* FROM {{old}} a LEFT SEMI JOIN {{used}} b ON {key.on}"
    rows = first_keys(key, text, few + 1, frames)
    if not rows:
        return
    if len(rows) <= few and not _are_many(now, key, removed, few):
        queue = Queue(session)
        queue.events += [Event(foreign, EventKind.DELETE, foreign.referenced, row) for _, row in rows]
        queue.run()
        return
    _act_by_spark(now, key, removed, deleted)


def _are_many(now: TablesAfter, key: SparkKey, removed: DataFrame, few: int) -> bool:
    """Whether more than `few` rows reference the keys."""
    text = f"SELECT 1 AS one FROM {{used}} b LEFT SEMI JOIN {{old}} a ON {key.on} LIMIT {few + 1}"
    frames = {"old": removed, "used": referencing_keys(now, key)}
    with spark.pg_errors():
        return bool(key.statement.run(spark.session(), text, frames).toArrow().num_rows > few)


def _act_by_spark(now: TablesAfter, key: SparkKey, removed: DataFrame, deleted: Sequence[StagedRows]) -> None:
    session, foreign = now.session, key.key
    rel = relation(session, foreign.referencing)
    remove = foreign.on_delete == CASCADE
    columns = set_columns(foreign, foreign.on_delete, True)
    kind = ModifyKind.DELETE if remove else ModifyKind.UPDATE
    failure: Failure | None = None
    statement = action_statement, session, foreign, rel, foreign.on_delete, True, columns
    with as_owner(session, rel), in_statement(*statement):
        may_change(session, rel, kind)
        changes = SparkChanges(session, rel, kind, frozenset(() if remove else columns), now.snapshot)
        for member in side(session, rel.oid):
            rows = _referencing_rows(now, key, member, removed)
            if remove:
                changes.delete(member.relation, rows.select("place"))
            else:
                changes.update(member.relation, _with_values(session, rel, foreign, columns, member, rows))
        if foreign.on_delete == SET_DEFAULT:  # the default may be the removed key itself
            after = TablesAfter(session, changes.staged, now.snapshot)
            failure = first_referenced(after, deleted, foreign, restrict=False)
    if failure is not None:
        raise failure[1]
    with as_owner(session, rel), in_statement(*statement):
        changes.check()
        apply(changes)


def _referencing_rows(now: TablesAfter, key: SparkKey, member: Member, removed: DataFrame) -> DataFrame:
    """Whole rows with `place` that reference a removed key."""
    session = now.session
    table = lake_table(session, member.relation.oid)
    attnums = [column.attnum for column in table.columns]
    rows = scan_spark.frame(session, table, attnums, now.snapshot, places=True)
    shown = ", ".join([*(f"c{attnum}" for attnum in attnums), "place"])
    keyed = key.referencing(rows, member.numbers, shown)
    text = f"SELECT {', '.join(f'b.{name}' for name in shown.split(', '))} FROM {{rows}} b LEFT SEMI JOIN {{old}} a"
    return key.statement.run(spark.session(), f"{text} ON {key.on}", {"rows": keyed, "old": removed})


def _with_values(
    session: Session, rel: Relation, foreign: ForeignKey, columns: Sequence[int], member: Member, rows: DataFrame
) -> DataFrame:
    """The rows with NULL or the defaults in the columns of the key."""
    statement = Statement(Context(session))
    values: dict[str, str] = {}
    for number in columns:
        attribute = rel.attributes[number - 1]
        expr: Expr | None = None
        if foreign.on_delete != SET_NULL and attribute.has_default:
            expr = default_of(session, rel.oid, number)
        expr = expr or Const(attribute.type, typmod=attribute.typmod)
        values[f"c{member.numbers[number]}"] = condition_text(expr, statement)
    shown: list[Any] = [f"{values[name]} AS {name}" if name in values else name for name in rows.columns]
    return statement.run(spark.session(), f"SELECT {', '.join(shown)} FROM {{f}}", {"f": rows})
