"""The role that applies changes, the tables that a TRUNCATE empties, and triggers: those that are enabled for
replicas, and an initial copy into a table with triggers, as COPY FROM does it, with the CONTEXT of its errors.

Transactions that fire triggers are applied with the write lock, change by change, and so is such a copy. What is
applied in memory is written before a trigger's function reads or writes the same tables (Session.settle).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import check_table_privilege
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors, is_active
from pgrepl.catalog.facts.roles import member_can_set_role, role_name
from pgrepl.catalog.facts.sequences import check_sequences_owner
from pgrepl.catalog.facts.triggers import INSERT, constraint_triggers, is_enabled, triggers_of
from pgrepl.catalog.session.context import RESTRICTED_OPERATION
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.replication.subscriber.apply.progress import Progress
from pgrepl.replication.subscriber.apply.target import IncorrectBinary, TargetTable, target_or_none
from pgrepl.replication.wire.messages import Row, SentRelation, TruncateMessage, WireTransaction
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.rows.after_triggers import fire_triggers
from pgrepl.rows.changes import ModifiedRow, ModifyKind, write_changes
from pgrepl.rows.checks import prepare
from pgrepl.rows.in_use import refuse_referenced
from pgrepl.rows.trigger_events import before_statement
from pgrepl.rows.triggers import RelationTriggers, TriggerEvent, enabled_triggers, inserts_one_by_one, relation_triggers
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Unsettled
    from pgrepl.catalog.store import tables


_AS_IT_IS = nullcontext()
_ESCAPES = str.maketrans({"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"})
_SHOWN = 100  # bytes of a line that a CONTEXT shows


def acting_for(session: Session, subscription: tables.pg_subscription, table: Relation) -> AbstractContextManager[None]:
    """Act as the role that applies changes to the table. The subscription's owner must be able to SET ROLE to the
    table's owner (SwitchToUntrustedUser)."""
    if subscription.subrunasowner or session.role == table.owner:
        return _AS_IT_IS
    if not member_can_set_role(session, session.role, table.owner):
        ours, theirs = role_name(session, session.role), role_name(session, table.owner)
        raise PgError("42501", f'role "{ours}" cannot SET ROLE to "{theirs}"')
    return session.acting_as(table.owner, RESTRICTED_OPERATION)


def check_target_privilege(session: Session, table: Relation, privilege: str) -> None:
    """Check the current role's privilege, and that row-level security is not active (TargetPrivilegesCheck)."""
    check_table_privilege(session, table, privilege)
    if is_active(session, table):
        raise PgError(
            "0A000",
            f'user "{role_name(session, session.role)}" cannot replicate into relation with row-level security '
            f'enabled: "{table.name}"',
        )


def emptied_by(session: Session, targets: Iterable[Relation], *, restart_identity: bool) -> list[Relation]:
    """These tables with their partitions, each once, after all checks. It never cascades further than at the
    publisher."""
    emptied: dict[int, Relation] = {}
    for target in targets:
        for oid in inheritors(session, target.oid) if target.kind == "p" else [target.oid]:
            if oid not in emptied:
                table = relation(session, oid)
                check_target_privilege(session, table, "TRUNCATE")
                emptied[oid] = table
    refuse_referenced(session, list(emptied))
    if restart_identity:
        check_sequences_owner(session, list(emptied))
    return list(emptied.values())


# --- triggers ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class AppliedOrigin:
    """The origin of what triggers write while a transaction is applied. Applying itself moves its position."""

    name: str
    remote_lsn: int

    def advance(self, session: Session) -> None:
        pass


@contextmanager
def calling(session: Session, player: Unsettled, origin: AppliedOrigin) -> Iterator[None]:
    """Triggers may be called inside."""
    before, session.origin = session.origin, origin
    session.unsettled.append(player)
    try:
        yield
    finally:
        session.unsettled.remove(player)
        session.touched.clear()
        session.origin = before


class TriggeredTables:
    """The tables of a batch that have triggers which fire here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[SentRelation, bool] = {}

    def first_run(self, transactions: Sequence[WireTransaction]) -> tuple[int, int] | None:
        """The first run of transactions that change them: its start and its end. Transactions that are applied with the
        lock in any case are not looked at."""
        concerned = (not transaction.is_large and self.concern(transaction) for transaction in transactions)
        start = next((number for number, is_concerned in enumerate(concerned) if is_concerned), None)
        if start is None:
            return None
        return start, next(
            (number for number, is_concerned in enumerate(concerned, start + 1) if not is_concerned), len(transactions)
        )

    def concern(self, transaction: WireTransaction) -> bool:
        return any(self._is_one(sent) for sent in _relations(transaction))

    def _is_one(self, sent: SentRelation) -> bool:
        known = self._known.get(sent)
        if known is None:
            target = target_or_none(self._session, sent)
            known = self._known[sent] = target is not None and has_triggers(self._session, target.oid)
        return known


def has_triggers(session: Session, relid: int) -> bool:
    """Whether a table, or one below it, has triggers that fire here."""
    table = relation(session, relid)
    has_others = table.kind == "p" or table.has_subclass
    tables = inheritors(session, relid) if has_others else [relid]
    return any(enabled_triggers(session, oid) or _checks_keys(session, oid) for oid in tables)


def applied_triggers(session: Session, table: Relation) -> RelationTriggers | None:
    """The triggers that fire for replicated rows of a table. None: there are none, also of foreign keys."""
    triggers = relation_triggers(session, table)
    if triggers is None and _checks_keys(session, table.oid):
        triggers = RelationTriggers(session, table, ())
    return triggers


def _checks_keys(session: Session, relid: int) -> bool:
    """Whether triggers of a table's constraints are enabled for replicas."""
    return any(is_enabled(trigger, "replica") for trigger in constraint_triggers(session, relid))


def fire_in_pieces(session: Session, relid: int) -> bool:
    """Whether the triggers of a table that fire here when rows are inserted do so for one row after the other, however
    many come in a transaction: those of statements, transition tables, and what is checked when all rows are there are
    asked about the whole copy."""
    role = session.settings.get("session_replication_role")
    return not any(
        is_enabled(trigger, role)
        and trigger.type & INSERT
        and (trigger.constraint or not trigger.is_row or trigger.new_table is not None)
        for trigger in [*triggers_of(session, relid), *constraint_triggers(session, relid)]
    )


def _relations(transaction: WireTransaction) -> Iterable[SentRelation]:
    for message in transaction.messages:
        if isinstance(message, TruncateMessage):
            yield from message.relations
        else:
            yield message.relation


# --- copies into tables with triggers ---------------------------------------------------------------------------------


class Lines:
    """The CONTEXT of an error: its line of COPY's data (CopyFromErrorCallback). Binary data are not shown."""

    def __init__(self, table: str, sent: SentRelation, *, binary: bool) -> None:
        self.binary = binary
        self._table = table
        self._columns = sent.columns

    def of_number(self, error: PgError, line: int, more: str = "") -> PgError:
        error.report = replace(error.report, position=None)
        return error.with_context(f"COPY {self._table}, line {line}{more}")

    def of_row(self, error: PgError, line: int, row: Row) -> PgError:
        if self.binary:
            return self.of_number(error, line)
        text = "\t".join(_field(value, column.type) for value, column in zip(row, self._columns, strict=True))
        return self.of_number(error, line, f': "{_limited(text)}"')

    def of_column(self, error: PgError, line: int, name: str | None, row: Row) -> PgError:
        if isinstance(error, IncorrectBinary):
            error = PgError(error.sqlstate, "incorrect binary data format")
        for value, column in zip(row, self._columns, strict=True):
            if column.name == name:
                shown = "" if self.binary else f': "{_limited(write_text(value, column.type, WIRE_STYLE))}"'
                return self.of_number(error, line, f", column {name}{shown}")
        return self.of_number(error, line)


def _field(value: object, typoid: int) -> str:
    """The value in COPY's text format, which PostgreSQL's worker receives."""
    return "\\N" if value is None else write_text(value, typoid, WIRE_STYLE).translate(_ESCAPES)


def _limited(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= _SHOWN else raw[:_SHOWN].decode(errors="ignore") + "..."


def _portions(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    """The rows in portions. Those before a failure of the publisher come first."""
    portion: list[Row] = []
    try:
        for row in rows:
            portion.append(row)
            if len(portion) == size:
                yield portion
                portion = []
    except PgError:
        yield portion
        raise
    if portion:
        yield portion


def load(
    session: Session,
    table: Relation,
    rows: Iterator[Row],
    sent: SentRelation,
    lines: Lines,
    origin: str,
    portion_read: Callable[[list[Row]], None],
    portion: int,
) -> int:
    """Insert the rows, and write them; returns their number. `portion_read` is told of each `portion` of rows."""
    progress = Progress("")
    target = TargetTable(session, sent, progress, binary=lines.binary)
    checks = prepare(session, table, ModifyKind.INSERT)
    read: list[Row] = []  # the portion that is being inserted
    count = 0  # of rows before it and the present one
    one_by_one = inserts_one_by_one(session, table)

    def changes() -> Iterator[ModifiedRow]:
        nonlocal read, count
        for read in _portions(rows, portion):
            for row in read:
                count += 1
                try:
                    stored = target.complete(target.store(row))
                except PgError as error:
                    raise lines.of_column(error, count, progress.column, row) from None
                yield ModifiedRow(table.oid, new=stored)
            portion_read(read)

    def placed(error: PgError) -> PgError:
        failed = checks.failed
        if failed is None or (error.report.context is not None and error.report.context.startswith("COPY ")):
            return error
        first = (count - 1) // portion * portion  # of the rows that are still there
        if failed < first or (not one_by_one and (failed != count - 1 or error.sqlstate == "23505")):
            return lines.of_number(error, failed + 1)
        return lines.of_row(error, failed + 1, read[failed - first])

    before, session.origin = session.origin, AppliedOrigin(origin, 0)
    try:
        before_statement(session, table, TriggerEvent.INSERT, frozenset(), checks.begun)
        try:
            # nothing is read ahead: the rows come from no table here
            done = checks.local(changes(), entered=lambda number: number)
        except PgError as error:
            raise placed(error) from None
        write_changes(session, done[checks.written :])
        fire_triggers(session, checks, done)
        session.transaction.numbering.store_snapshot()
    finally:
        session.origin = before
    return count
