"""The checks of rows that Spark writes: NOT NULL, CHECK and bounds while the rows are written, keys before the commit.

    check_fits(session, relation, ModifyKind.UPDATE, modified)
    changes = SparkChanges(session, relation, ModifyKind.UPDATE, modified, snapshot)
    changes.insert(frame)         # INSERT: columns c{attnum} of the relation the statement names
    changes.update(table, frame)  # UPDATE, table by table: c{attnum} of the whole new row, and `place`
    changes.delete(table, frame)  # DELETE, table by table: `place`
    changes.check()               # unique keys and foreign keys
    …                             # take the write lock
    apply(changes)                # commit.Stale if a table that was read or written has changed since `snapshot`

Files are staged before `apply`; `changes.discard()` removes them. `apply` commits, and then makes the changes of ON
DELETE CASCADE, SET NULL and SET DEFAULT: Spark finds the removed keys that are referenced. When they are few, their
rows are changed one by one, with all that follows; when they are many, by Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.engine import scan_spark, spark
from pgrepl.engine.choice import Engine, local_rows
from pgrepl.engine.result_spark import condition_text, positions
from pgrepl.expr.catalog_trees import default_of
from pgrepl.expr.exchange import Statement
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import Const, Expr
from pgrepl.ground.errors import Declined
from pgrepl.lake import commit
from pgrepl.lake.table import lake_table
from pgrepl.rows.after_triggers import Queue
from pgrepl.rows.arrivals import Arrival, check_arrays
from pgrepl.rows.changes import Member, ModifyKind, members, next_snapshot
from pgrepl.rows.foreign.actions import as_owner, may_change, set_columns
from pgrepl.rows.foreign.key import CASCADE, NO_ACTION, RESTRICT, SET_DEFAULT, SET_NULL, ForeignKey, keys_of, keys_to
from pgrepl.rows.foreign.lookup import tables_of
from pgrepl.rows.foreign.statements import action_statement, in_statement
from pgrepl.rows.keys_spark import (
    Failure,
    SparkKey,
    TablesAfter,
    check_unique,
    first_keys,
    first_missing,
    first_referenced,
    referencing_keys,
    removed_keys,
)
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.triggers import TriggerEvent, refuse_triggers
from pgrepl.rows.unique import unique_indexes
from pgrepl.rows.unwritten import Event, EventKind
from pgrepl.types.lake.forms import is_row_type
from pgrepl.types.user_types import constrained

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import NewFile


def check_fits(
    session: Session,
    named: Relation,
    kind: ModifyKind,
    modified: frozenset[int],
    events: Collection[TriggerEvent] = (),
    *,
    by_kernels: bool = False,
) -> None:
    """Decline what Spark cannot check: a change of keys with an ON UPDATE action, and deferred constraints, are checked
    row by row. Triggers are called for each row. Spark SQL, unlike kernels, has neither rows as values nor domains'
    constraints. `events`: those of a MERGE."""
    refuse_triggers(session, named.oid, *(events or (TriggerEvent(kind.value),)))
    if not by_kernels and any(is_row_type(a.type) for a in named.columns):
        raise Declined("rows as values")
    if not by_kernels and any(constrained(a.type) for a in named.columns):
        raise Declined("a domain with constraints")
    for member in members(session, named.oid, True):
        check_arrays(lake_table(session, member.relation.oid))
    names = {a.name for a in named.columns if a.num in modified}
    _refuse_keys(session, named.oid, kind)
    for member in members(session, named.oid, True):
        rel = member.relation
        if kind is ModifyKind.MERGE and keys_to(session, rel.oid) and set(events) != {TriggerEvent.INSERT}:
            raise Declined("a MERGE of keys that others reference")
        if kind is not ModifyKind.UPDATE:
            continue
        for key in keys_to(session, rel.oid):
            touched = any(rel.attributes[number - 1].name in names for number in key.referenced_columns)
            if touched and key.on_update not in (NO_ACTION, RESTRICT):
                raise Declined("a key whose changes are passed on")


def _refuse_keys(session: Session, table: int, kind: ModifyKind, known: frozenset[int] = frozenset()) -> None:
    """Decline keys of a table that joins do not check, also of tables whose rows ON DELETE changes; those have no
    triggers."""
    for member in members(session, table, True):
        rel = member.relation
        to = keys_to(session, rel.oid)
        for key in [*keys_of(session, rel.oid), *to]:
            if key.deferrable:
                raise Declined("a foreign key that may be checked later")
            if key.period:
                raise Declined("a foreign key with PERIOD")
        if any(not info.immediate for info in unique_indexes(session, rel)):  # which declines others, too
            raise Declined("a key that may be checked later")
        for key in to if kind is ModifyKind.DELETE else ():
            if key.on_delete not in (NO_ACTION, RESTRICT) and key.oid not in known:
                change = ModifyKind.DELETE if key.on_delete == CASCADE else ModifyKind.UPDATE
                refuse_triggers(session, key.referencing, TriggerEvent(change.value))
                _refuse_keys(session, key.referencing, change, known | {key.oid})


class FoundTwice(Exception):
    """An UPDATE found a row more than once: the same row joined to several others."""


class SparkChanges:
    """The changes and checks of one statement on one relation."""

    def __init__(
        self, session: Session, named: Relation, kind: ModifyKind, modified: frozenset[int], snapshot: int
    ) -> None:
        self.relation = named
        self.kind = kind
        self.snapshot = snapshot
        self.count = 0
        self.engine = Engine.SPARK  # that does the work
        self.staged: dict[int, StagedRows] = {}
        self._session = session
        self.modified = modified
        self._moved = False  # rows have gone to other partitions
        self._read: set[int] = set()

    # --- rows ---------------------------------------------------------------------------------------------------------

    def insert(self, frame: DataFrame) -> None:
        rel = self.relation
        self._take(Arrival(self._session, rel, rel, self.modified), frame)

    def add_files(self, files: Sequence[NewFile]) -> None:
        """Add files with new rows of a table that is not partitioned. Their writer has checked the rows, keys
        included."""
        self.of(self.relation).add_files(files)
        self.count += sum(file.record_count for file in files)

    def update(self, table: Relation, frame: DataFrame) -> None:
        """Each row of the table at most once; else FoundTwice."""
        changed = self._changed(table)
        arrival = Arrival(self._session, table, self.relation, self.modified, changed, places=True)
        self._take(arrival, frame, updated=self.of(table))

    def _take(self, arrival: Arrival, frame: DataFrame, *, updated: StagedRows | None = None) -> None:
        count = gone = 0
        for rel, staged in zip(arrival.tables, arrival.write(frame), strict=True):
            of_table = sum(part.count for part in staged.parts)
            versions = updated is not None and rel.oid == updated.relation.oid
            if of_table or versions:
                gone += self.of(rel).take(staged, versions=versions)
            self._moved |= updated is not None and not versions and of_table > 0
            count += of_table
        self.count += count
        if updated is not None and gone != count:
            raise FoundTwice

    def delete(self, table: Relation, frame: DataFrame) -> None:
        self.count += self.of(table).delete(positions(frame))

    # --- one table ----------------------------------------------------------------------------------------------------

    def of(self, rel: Relation) -> StagedRows:
        staged = self.staged.get(rel.oid)
        if staged is None:
            staged = self.staged[rel.oid] = StagedRows(self._session, rel, self.snapshot)
        return staged

    def _changed(self, rel: Relation) -> frozenset[int] | None:
        if self.kind is not ModifyKind.UPDATE or not self.modified:
            return None
        names = {a.name for a in self.relation.columns if a.num in self.modified}
        return frozenset(a.num for a in rel.columns if a.name in names or a.generated)

    # --- keys ---------------------------------------------------------------------------------------------------------

    @property
    def after(self) -> TablesAfter:
        """The tables as the statement leaves them."""
        return TablesAfter(self._session, self.staged, self.snapshot)

    def check(self) -> None:
        """Check unique keys, then foreign keys: the triggers of foreign keys fire after the last row."""
        for staged in self.staged.values():
            check_unique(self._session, staged, None if staged.inserted else self._changed(staged.relation))
        raise_first(failure for staged in self.staged.values() if staged.files for failure in self._missing(staged))
        acting = bool(self.acting())
        raise_first(
            self._still_referenced(deleted, key)
            for deleted, key in self.referenced()
            if self.action(key) == RESTRICT or (self.action(key) == NO_ACTION and not acting)
        )

    def _still_referenced(self, deleted: Sequence[StagedRows], key: ForeignKey) -> Failure | None:
        self._note_read(key.referencing)
        restrict = self.action(key) == RESTRICT and not self._moved
        return first_referenced(self.after, deleted, key, restrict=restrict)

    def action(self, key: ForeignKey) -> str:
        """The ON DELETE or ON UPDATE action of a foreign key."""
        return key.on_delete if self.kind is ModifyKind.DELETE else key.on_update

    def _missing(self, staged: StagedRows) -> Iterator[Failure | None]:
        changed = None if staged.inserted else self._changed(staged.relation)
        for key in keys_of(self._session, staged.relation.oid):
            if changed is None or changed & set(key.columns):
                self._note_read(key.referenced)
                yield first_missing(self.after, staged, key)

    def referenced(self) -> list[tuple[list[StagedRows], ForeignKey]]:
        """The foreign keys to tables of which rows are deleted or keys are updated."""
        if self._moved:
            deleted = [staged for staged in self.staged.values() if staged.has_deletions]
            return [(deleted, key) for key in keys_to(self._session, self.relation.oid)]
        pairs = []
        for staged in self.staged.values():
            if staged.has_deletions:
                changed = self._changed(staged.relation)
                for key in keys_to(self._session, staged.relation.oid):
                    if changed is None or changed & set(key.referenced_columns):
                        pairs.append(([staged], key))
        return pairs

    def acting(self) -> list[tuple[list[StagedRows], ForeignKey]]:
        """The `referenced` keys with an action that changes the referencing rows."""
        return [(deleted, key) for deleted, key in self.referenced() if self.action(key) not in (NO_ACTION, RESTRICT)]

    def _note_read(self, table: int) -> None:
        for member in tables_of(self._session, table):
            if member.relation.oid not in self.staged:
                self._read.add(lake_table(self._session, member.relation.oid).table_id)

    # --- the end ------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit what was staged; the session holds the write lock."""
        commit.check_unchanged(self._session, sorted(self._read), self.snapshot)
        writes = [staged.write for staged in self.staged.values()]
        if self.count:
            commit.record_writes(self._session, writes)

    def discard(self) -> None:
        for staged in self.staged.values():
            staged.write.discard()
        self.staged = {}
        self.count = 0
        self._moved = False
        self._read = set()


def raise_first(failures: Iterable[Failure | None]) -> None:
    """Raise the error of the first row; for one row, the error of the first key."""
    met = [failure for failure in failures if failure is not None]
    if met:
        raise min(met, key=lambda failure: failure[0])[1]


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
        for member in tables_of(session, rel.oid):
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
