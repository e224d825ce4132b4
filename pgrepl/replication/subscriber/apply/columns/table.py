"""The messages of a batch for one target table, and the table's description for kernels: its columns, keys, rules and
defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.catalog.session.statistics import count_index_scans
from pgrepl.engine.copy_rows import KernelColumn
from pgrepl.expr.catalog_trees import column_default
from pgrepl.expr.row_filter_checks import check_replica_identity
from pgrepl.ground.errors import Declined
from pgrepl.lake.read.extent import rows_within
from pgrepl.lake.table import LakeTable, lake_table
from pgrepl.lake.write.statement import Write
from pgrepl.replication.subscriber.apply.columns.decide import RowsToWrite, decide, leaving, rows_to_write
from pgrepl.replication.subscriber.apply.columns.described import MOST_BYTES, DescribedTable, TableKeys
from pgrepl.replication.subscriber.apply.columns.recorded import LoggedTable, missed_messages
from pgrepl.replication.subscriber.apply.target import MatchedColumns, converted, identity_of
from pgrepl.replication.subscriber.apply.triggers import check_target_privilege
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE, RelationChanges
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.rows.checks_columns import check_form, check_program, default_column, generated_columns
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.unique import unique_indexes
from pgrepl.types import oids

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.replication.subscriber.conflicts import Foreign

    Numbers = npt.NDArray[Any]


def table_keys(
    session: Session, table: Relation, matched: MatchedColumns, unsent: Collection[int], *, needed: bool
) -> TableKeys:
    """The keys to look up. `needed`: some messages are UPDATE or DELETE, which must find rows. `unsent`: places whose
    values are missing in some messages. Declined for unique indexes that need another check."""
    infos = [info for info in unique_indexes(session, table) if info.immediate]
    if not infos and not needed:
        return TableKeys(())
    places = matched.places
    if not needed and len(infos) == 1:
        info = infos[0]
        attnums = tuple(info.columns[: info.key_count])
        if any(places[n - 1] < 0 for n in attnums if n):
            raise Declined("a key that is not sent")
    else:
        identity = identity_of(session, table, places, matched.sent)
        if not identity.by_index:
            raise Declined("a table without a key")
        attnums = identity.attnums
    others = []
    for info in infos:
        own = tuple(info.columns[: info.key_count])
        if info.predicate is not None or 0 in own or info.nulls_not_distinct:
            raise Declined("a unique index of another kind")
        if sorted(own) != sorted(attnums):
            if any(places[n - 1] < 0 for n in own):
                raise Declined("a key that is not sent")
            if any(places[n - 1] in unsent for n in own):
                raise Declined("a key that was not sent")
            others.append(own)
    if not infos:
        raise Declined("a key that is checked later")
    return TableKeys(attnums, tuple(others))


# --- describe ---------------------------------------------------------------------------------------------------------


def described(
    session: Session, target: Relation, table: Relation, matched: MatchedColumns, keys: TableKeys, *, inserts: bool
) -> DescribedTable:
    """The target of the messages, or the partition of it that their rows are routed to. `inserts`: there are INSERTs.
    Declined: new rows cannot be made by columns."""
    kept, rules = lake_table(session, table.oid), table_rules(session, table)
    if kept.has_dimensions:
        raise Declined("arrays of several dimensions")
    places = list(matched.places)
    same, columns = set(), []
    sent = matched.sent.columns
    for attribute in table.columns:
        place = places[attribute.num - 1]
        if place >= 0:
            if attribute.type == oids.NUMERIC:  # a HUGEINT is a double in files, and would take NaN
                check_form(kept.column(attribute.num), attribute.type, attribute.typmod)
            columns.append(converted(session, matched.sent.columns[place], attribute, place))
            if matched.same_type(attribute.num):
                same.add(attribute.num)
    defaults = {}
    named = {attribute.name: attribute for attribute in target.columns}
    for place, attribute in enumerate(matched.unsent, len(sent)):
        places[attribute.num - 1] = place
        expr = column_default(session, target, named[attribute.name]) if inserts else None
        defaults[place] = default_column(session, kept.column(attribute.num), expr, not_null=False).value
        columns.append(KernelColumn(attribute.num, place + 1, None, attribute.notnull))
        same.add(attribute.num)
    return DescribedTable(
        kept,
        keys,
        tuple(places),
        frozenset(same),
        sent,
        (*columns, *generated_columns(session, rules).values()),
        check_program(session, rules, bound=target.oid == table.oid),
        defaults,
    )


def described_leaves(session: Session, target: Relation, messages: MessageFiles) -> dict[int, DescribedTable]:
    """The table, or the leaf partitions of a partitioned one, by oid."""
    unsent = {place for file in messages.files for place in file.unchanged}
    leaves = {}
    for oid in inheritors(session, target.oid) if target.kind == "p" else [target.oid]:
        table = relation(session, oid)
        if table.kind == "p":
            continue
        matched = MatchedColumns(session, table, messages.relation)
        keys = table_keys(session, table, matched, unsent, needed=messages.searches)
        inserts = INSERT in messages.operations
        leaves[oid] = described(session, target, table, matched, keys, inserts=inserts)
    return leaves


# --- table ------------------------------------------------------------------------------------------------------------


class TableApply:
    """The changes of a batch to one table or leaf partition. `truncates` are sequence numbers."""

    def __init__(
        self,
        session: Session,
        target: Relation,
        table: Relation,
        changes: RelationChanges,
        since: int,
        truncates: Sequence[int],
        write: Write,
        *,
        left: Numbers | None = None,
        foreign: Foreign | None = None,
        logged: LoggedTable | None = None,
    ) -> None:
        """Changes with sequence numbers below `since` do not concern the table. `write` takes deleted rows and new
        files. The `target` is the table, or the partitioned table whose rows are routed to it. `left`: which changes
        delete a row that goes to another leaf. `foreign`: what other origins have written, if conflicts are kept.
        `logged`: the log that the messages are written into."""
        self.logged = logged
        self.relation = table
        self.table: LakeTable = write.table
        self.write = write
        assert write.snapshot is not None, "rows are looked for before the write lock is held"
        self._snapshot: int = write.snapshot
        self._session = session
        self._changes = changes
        self._since = since
        self._truncates = sorted(truncates)
        self._target = target
        self._left = left
        self._foreign = foreign

    def decide(self) -> None:
        """Raises NotClean with the sequence number of a message that cannot be carried out."""
        session, table, changes = self._session, self.relation, self._changes
        chosen = changes.seq >= self._since
        inserts, updates, deletes = (bool((chosen & (changes.op == kind)).any()) for kind in (INSERT, UPDATE, DELETE))
        check_rights(session, table, inserts, updates, deletes)
        matched = MatchedColumns(session, table, changes.relation)
        keys = table_keys(session, table, matched, changes.unchanged, needed=updates or deletes)
        self.described = described(session, self._target, table, matched, keys, inserts=inserts)
        self._decided = decide(
            self.described,
            changes,
            rows_within(self._session, self.table, self._snapshot),
            since=self._since,
            truncates=self._truncates,
            left=self._left,
            looks=self._foreign is not None,
        )
        self.missed = missed_messages(self._decided, self._foreign, self._left)
        for attnums, count in self._decided.looked_up.items():
            count_index_scans(self._session, self.table.oid, attnums, count)
        self._changes = self._decided.changes

    # --- carrying out -------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Enter the deleted and the replaced rows into the write."""
        if self._truncates:
            self.write.truncate()
            return
        files, inlined = leaving(self._decided)
        for file_id, positions in files:
            self.write.delete_positions(file_id, positions)
        self.write.delete_inlined(inlined)

    def columns(self) -> list[RowsToWrite]:
        """The new rows, to be written."""
        changes, places = self._changes, self.described.new_places
        if self._decided.places is None:
            changes.prepare(places, MOST_BYTES)
        if not changes.fits(places, MOST_BYTES):
            raise Declined("many large values")
        return rows_to_write(self.described, self._decided)

    def log(self) -> list[NewFile]:
        """The messages, to be written into the log."""
        assert self.logged is not None, "it has a log"
        return self.logged.write(self.described, self._decided, self._since)


def check_rights(session: Session, table: Relation, inserts: bool, updates: bool, deletes: bool) -> None:
    """Check the privileges of the role that applies changes of these kinds, and the table's replica identity."""
    for privilege, wanted in (("INSERT", inserts), ("UPDATE", updates), ("DELETE", deletes)):
        if wanted:
            check_target_privilege(session, table, privilege)
            if privilege != "INSERT":
                check_target_privilege(session, table, "SELECT")
                check_replica_identity(session, table, privilege)
