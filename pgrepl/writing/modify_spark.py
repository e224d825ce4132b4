"""Statements over many rows by Spark's SQL, INSERT … ON CONFLICT among them: the rows never come into this process.

The statement reads one snapshot; the write lock is taken once all files are written. SparkChanges checks rows while
it writes, and keys thereafter. ON CONFLICT is for one unique index on plain columns of a plain table. For MERGE Spark
joins the target with the source, and finds the WHEN clause of each row: the rows of the join are persisted with the
number of their action; then each action is a query over its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import indexes
from pgrepl.engine import spark
from pgrepl.engine.result_spark import condition_text
from pgrepl.expr.analyse.lookup import TABLEOID, relation_rte
from pgrepl.expr.analyse.queries.insert import rows_rte
from pgrepl.expr.analyse.queries.merge import Joined, joined_query, numbered_query, staged_query
from pgrepl.expr.analyse.sorting import equality_operator
from pgrepl.expr.dml_tree import TARGET, Command, Conflict, MergeAction, Modify
from pgrepl.expr.exchange import Statement
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite.dml_queries import TargetRowsQuery, insert_query, map_level, row_columns, target_rows_query
from pgrepl.expr.tree import PLACE, BoolExpr, Const, Expr, OpExpr, Query, RangeRef, Rte, SortGroup, SubLink, Target, Var
from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.lazy import F
from pgrepl.query.rowset import frame_of
from pgrepl.rows.arrivals import Arrival
from pgrepl.rows.changes import ModifyKind, members
from pgrepl.rows.checks import affected_twice
from pgrepl.rows.checks_spark import FoundTwice, SparkChanges, check_fits
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.requirements import every, is_not_null, more_than_one
from pgrepl.rows.triggers import TriggerEvent
from pgrepl.sql.nodes import BoolOp, SubLinkType
from pgrepl.types import oids
from pgrepl.writing.modify import changed_tables
from pgrepl.writing.rows_spark import (
    UNSTEADY,
    FrameRows,
    Numbered,
    new_rows,
    numbered,
    query_frame,
    with_generated,
    without_numbers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session

_PROPOSED = 2  # the range table entry beside the target
_PLAIN = (
    oids.INT2, oids.INT4, oids.INT8, oids.OID, oids.BOOL, oids.TEXT, oids.VARCHAR, oids.DATE, oids.TIMESTAMP,
    oids.TIMESTAMPTZ, oids.UUID,
)  # whose equality is that of their forms  # fmt: skip
_Side = Callable[[int], Var]


class ArbiterKey(NamedTuple):
    """The columns of the arbiter with their = operators."""

    columns: tuple[int, ...]
    operators: tuple[int, ...]


def arbiter_key(session: Session, modify: Modify, arbiters: frozenset[int]) -> ArbiterKey:
    """The key of the only arbiter; or Declined."""
    target = relation(session, modify.relid)
    if target.kind != "r" or target.is_partition:
        raise Declined("ON CONFLICT of a partitioned table")
    unique = [i for i in indexes(session, target.oid) if i.indisunique and (not arbiters or i.indexrelid in arbiters)]
    if len(unique) != 1:
        raise Declined("ON CONFLICT of several keys")
    (index,) = unique
    columns = tuple(index.indkey[: index.indnkeyatts])
    if not all(columns) or index.indpred is not None or index.indnullsnotdistinct or not index.indimmediate:
        raise Declined("ON CONFLICT of a key that is not one of plain columns")
    return ArbiterKey(columns, tuple(equality_operator(opclass) for opclass in index.indclass[: len(columns)]))


def insert_or_update(session: Session, modify: Modify, key: ArbiterKey, changes: SparkChanges) -> None:
    """Hand the updated and the inserted rows to `changes`; or Declined."""
    conflict = modify.conflict
    assert conflict is not None
    target = relation(session, modify.relid)
    with ExitStack() as held:
        proposed = _proposed(session, modify, target, held)
        rows = _Parted(session, modify, conflict, target, key, proposed)
        if rows.has_twice():
            if conflict.assigned is not None or not rows.keys_are_plain():
                raise Declined("ON CONFLICT of rows with the same key")
            rows.keep_first()
        new, taken = rows.new(), rows.found() if conflict.assigned is not None else None
        if taken is not None:
            changes.update(target, taken)
        changes.insert(new)


def _proposed(session: Session, modify: Modify, target: Relation, held: ExitStack) -> DataFrame:
    """The rows to insert, computed, checked and persisted until `held` is closed."""

    def persisted(frame: DataFrame) -> DataFrame:
        held.callback(frame.unpersist)
        return frame.persist()

    plain, numbers = without_numbers(insert_query(session, modify))
    frame = query_frame(session, plain)
    if numbers:
        frame, _ = numbered(session, persisted(frame), numbers)
    kept = persisted(_complete(session, target, frame))
    Arrival(session, target, target, modify.named).check(kept)
    return kept


def _complete(session: Session, target: Relation, frame: DataFrame) -> DataFrame:
    """The frame with its generated columns computed."""
    generated = table_rules(session, target).generated
    if not generated:
        return frame
    statement = Statement(Context(session))
    return with_generated(statement, frame, {number: condition_text(expr, statement) for number, expr in generated})


@dataclass
class _Parted:
    session: Session
    modify: Modify
    conflict: Conflict
    target: Relation
    key: ArbiterKey
    proposed: DataFrame

    def has_twice(self) -> bool:
        """Whether two of the proposed rows have the same key."""
        keys = [self._proposed(number, 1) for number in self.key.columns]
        query = Query(
            tuple(Target(expr, f"c{n}", n) for n, expr in enumerate(keys, 1)),
            (self._outside(),),
            (RangeRef(1),),
            where=every([is_not_null(expr) for expr in keys]),
            group=tuple(SortGroup(n, op, 0) for n, op in enumerate(self.key.operators, 1)),
            having=more_than_one(),
            limit=Const(oids.INT8, value=1),
            has_aggregates=True,
        )
        try:
            frame = frame_of(self.session, query)
        except Declined:
            return True  # unknown
        with spark.pg_errors():
            return bool(frame.take(1))

    def keys_are_plain(self) -> bool:
        return all(self.target.attributes[n - 1].type in _PLAIN for n in self.key.columns)

    def keep_first(self) -> None:
        """Keep only the first of rows with the same key."""
        from pyspark.sql import Window

        names = [f"c{n}" for n in self.key.columns]
        order = Window.partitionBy(*names).orderBy("__order")
        ranked = self.proposed.withColumn("__order", F.monotonically_increasing_id())
        ranked = ranked.withColumn("__rank", F.row_number().over(order))
        some_null = " OR ".join(f"{name} IS NULL" for name in names)
        self.proposed = ranked.filter(f"__rank = 1 OR {some_null}").drop("__order", "__rank")

    def new(self) -> DataFrame:
        """The proposed rows whose key is not in the table."""
        same = every(self._same(self._own, lambda number: self._proposed(number, 1, levelsup=1)))
        one = Target(Const(oids.INT4, value=1), "one", 1)
        inside = Query((one,), (relation_rte(self.target, inh=False),), (RangeRef(1),), same)
        there = SubLink(oids.BOOL, kind=SubLinkType.EXISTS, query=inside)
        targets = tuple(
            Target(Const(oids.INT4) if a.dropped else self._proposed(a.num, 1), a.name, a.num)
            for a in self.target.attributes
        )
        missing = BoolExpr(oids.BOOL, op=BoolOp.NOT, args=(there,))
        return frame_of(self.session, Query(targets, (self._outside(),), (RangeRef(1),), missing, has_sublinks=True))

    def found(self) -> DataFrame:
        """The rows of the table that DO UPDATE changes: c{attnum} of the new version, and `place`."""
        conflict, target = self.conflict, self.target
        assert conflict.assigned is not None

        def renumbered(expr: Expr) -> Expr:
            def other(var: Var, depth: int) -> Expr | None:
                return replace(var, varno=_PROPOSED) if var.varno == conflict.excluded else None

            return map_level(expr, other)

        exprs: list[Expr] = [Var(oids.TID, varno=TARGET, attnum=PLACE), Var(oids.OID, varno=TARGET, attnum=TABLEOID)]
        exprs += [self._own(a.num) for a in target.kept]
        exprs += [renumbered(a.expr) for a in conflict.assigned]
        conditions = self._same(self._own, lambda number: self._proposed(number, _PROPOSED))
        if conflict.where is not None:
            conditions.append(renumbered(conflict.where))
        query = Query(
            tuple(Target(expr, f"c{n}", n) for n, expr in enumerate(exprs, 1)),
            (relation_rte(target, inh=False), self._outside()),
            (RangeRef(TARGET), RangeRef(_PROPOSED)),
            every(conditions),
            ctes=self.modify.ctes,
            recursive=self.modify.recursive,
            has_sublinks=True,
        )
        frame = frame_of(self.session, query)
        columns = tuple(a.num for a in target.kept)
        return new_rows(target, TargetRowsQuery(query, columns, tuple(a.attnum for a in conflict.assigned)), frame)

    # --- parts of the queries -----------------------------------------------------------------------------------------

    def _outside(self) -> Rte:
        return rows_rte("excluded", tuple(row_columns(self.target)), FrameRows(self.proposed))

    def _proposed(self, number: int, varno: int, levelsup: int = 0) -> Var:
        return replace(self._own(number), varno=varno, levelsup=levelsup)

    def _own(self, number: int) -> Var:
        column = self.target.attributes[number - 1]
        return Var(column.type, typmod=column.typmod, collation=column.collation, varno=TARGET, attnum=number)

    def _same(self, one: _Side, other: _Side) -> list[Expr]:
        """Conditions that the keys of the two sides are equal."""
        return [
            OpExpr(oids.BOOL, op=op, args=(one(n), other(n)), input_collation=one(n).collation)
            for n, op in zip(self.key.columns, self.key.operators, strict=True)
        ]


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
    if any(of_query != numbers[0] for of_query in numbers):
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
        rows_query = target_rows_query(session, modify, own, None if updates else frozenset())
        frame = query_frame(session, rows_query.query)
        if updates:
            rows = new_rows(table, rows_query, frame)
            changes.update(table, rows.dropDuplicates(["place"]) if once else rows)
        else:
            changes.delete(table, frame.withColumnRenamed("c1", "place").select("place"))


# --- MERGE ------------------------------------------------------------------------------------------------------------


def stage_merge(session: Session, modify: Modify) -> SparkChanges:
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
        for number, merge_action in enumerate(modify.merge.actions, 1):
            if merge_action.command is not None:
                _carry_out(session, modify, joined, merge_action, rows.filter(f"{action} = {number}"), changes)
    finally:
        rows.unpersist()


def _changes_twice(actions: tuple[MergeAction, ...], rows: DataFrame, action: str) -> bool:
    """Whether several rows of the source change one row of the target."""
    changing = [
        str(n) for n, merge_action in enumerate(actions, 1) if merge_action.command in (Command.UPDATE, Command.DELETE)
    ]
    if not changing:
        return False
    changed = rows.filter(f"{action} IN ({', '.join(changing)})").groupBy("c2", "c1").count()
    with spark.pg_errors():
        return bool(changed.filter("count > 1").take(1))


def _carry_out(
    session: Session, modify: Modify, joined: Joined, action: MergeAction, rows: DataFrame, changes: SparkChanges
) -> None:
    target = relation(session, modify.relid)
    rows_query = staged_query(session, modify, joined, action, FrameRows(rows))
    if action.command is Command.INSERT:
        if without_numbers(rows_query.query)[1]:
            raise Declined("numbers of sequences in MERGE")
        changes.insert(query_frame(session, rows_query.query))
        return
    frame = query_frame(session, rows_query.query)
    for member in members(session, target.oid, True):
        table = member.relation
        own = frame if target.kind != "p" else frame.filter(f"c2 = {table.oid}")
        if action.command is Command.DELETE:
            changes.delete(table, own.withColumnRenamed("c1", "place").select("place"))
        else:
            changes.update(table, _in_leaf(new_rows(target, rows_query, own), target, table))


def _in_leaf(rows: DataFrame, target: Relation, leaf: Relation) -> DataFrame:
    """The new rows in the layout of the table that they are in."""
    numbers = {a.name: a.num for a in target.kept}
    return rows.select("place", *[F.col(f"c{numbers[a.name]}").alias(f"c{a.num}") for a in leaf.kept])
