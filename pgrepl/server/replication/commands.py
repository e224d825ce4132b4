"""Replication commands: those about slots and the system (walsender.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.roles import has_attribute
from pgrepl.catalog.facts.subscription import system_identifier
from pgrepl.catalog.session.context import Block
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.transaction import aborted, is_read_only, reading
from pgrepl.ground.errors import PgError
from pgrepl.query.result import ResultColumn
from pgrepl.query.system.functions.activity import export
from pgrepl.replication.publisher import slots
from pgrepl.server import messages
from pgrepl.server.backend_loop import Backend
from pgrepl.server.replication import grammar
from pgrepl.server.replication.grammar import Command
from pgrepl.server.replication.sender import Sender
from pgrepl.sql.location import get_boolean, get_string
from pgrepl.sql.nodes import DefElem, VariableShowStmt
from pgrepl.statements.settings import execute_show
from pgrepl.types import oids
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_TIMELINE = 1
# options, and for which kind of slot
_OF_CREATE = {"snapshot": "LOGICAL", "two_phase": "LOGICAL", "failover": "LOGICAL", "reserve_wal": "PHYSICAL"}
_USE, _EXPORT = (f"CREATE_REPLICATION_SLOT ... (SNAPSHOT '{how}') must" for how in ("use", "export"))


def check_may_replicate(session: Session) -> None:
    """Raise unless the role may open a replication connection (InitPostgres)."""
    with reading(session):
        if not has_attribute(session, session.role, "rolreplication"):
            raise PgError(
                "42501",
                "permission denied to start WAL sender",
                detail="Only roles with the REPLICATION attribute may start a WAL sender process.",
                severity="FATAL",
            )


class ReplicationCommands:
    """The commands of one replication connection."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._session = backend.session
        self._exporting: Session | None = None  # whose transaction keeps the snapshot of a new slot
        self._session.at_close.append(self._end_export)

    def run(self, text: str) -> bool:
        """Carry out a command; False: the text is SQL."""
        self._end_export()
        if not grammar.is_command(text):
            return False
        self._session.query = text
        self._backend.log.command(text)
        if self._session.transaction.block is Block.ABORTED:
            raise aborted()
        command = grammar.parse(text, self._session.report)
        if self._session.on_command is not None:
            self._session.on_command(command.name)
        with self._backend.running():
            self._carry_out(command)
        return True

    def _carry_out(self, command: Command) -> None:
        match command.name:
            case "IDENTIFY_SYSTEM":
                self._identify()
            case "SHOW":
                self._show(command)
            case "CREATE_REPLICATION_SLOT":
                self._create(command)
            case "ALTER_REPLICATION_SLOT":
                self._alter(command)
            case "DROP_REPLICATION_SLOT":
                with slots.at_once(self._session) as there:
                    slots.drop_slot(there, command.slot)
                    self._backend.log.slot("acquired", command.slot)
            case "READ_REPLICATION_SLOT":
                self._read(command)
            case "START_REPLICATION":
                Sender(self._backend).start(command)
            case _:
                raise PgError("0A000", f"{command.name} is not supported")
        self._backend.complete(command.name)

    def _answer(self, columns: Sequence[tuple[str, int]], *answered: Sequence[str | None]) -> None:
        """Send rows; the command's tag follows by itself."""
        described = tuple(ResultColumn(name, typoid) for name, typoid in columns)
        channel, encode = self._backend.channel, self._backend.encode
        channel.send(b"T", messages.description(described, (), encode))
        encoder = messages.RowEncoder(described, (), self._session.text_style, encode)
        for message in encoder.messages(answered):
            channel.send_raw(message)

    def _identify(self) -> None:
        with reading(self._session):
            lsn = current_lsn(self._session)
            name = self._session.database.name
        self._answer(
            [("systemid", oids.TEXT), ("timeline", oids.INT8), ("xlogpos", oids.TEXT), ("dbname", oids.TEXT)],
            [str(system_identifier(self._session)), str(_TIMELINE), lsn_text(lsn), name],
        )

    def _show(self, command: Command) -> None:
        with reading(self._session):
            shown = execute_show(VariableShowStmt(command.setting), self._session)
        assert shown.columns is not None
        self._answer([(column.name, column.type) for column in shown.columns], *shown.rows)

    def _read(self, command: Command) -> None:
        with reading(self._session):
            row = slots.slot_or_none(self._session, command.slot)
        if row is not None and row.slot_type == "logical":
            raise PgError("0A000", "cannot use READ_REPLICATION_SLOT with a logical replication slot")
        columns = [("slot_type", oids.TEXT), ("restart_lsn", oids.TEXT), ("restart_tli", oids.INT8)]
        if row is None:
            self._answer(columns, [None, None, None])
        else:
            position = None if row.restart_lsn is None else lsn_text(row.restart_lsn)
            self._answer(columns, ["physical", position, None if position is None else str(_TIMELINE)])

    # --- slots ----------------------------------------------------------------------------------------------------

    def _create(self, command: Command) -> None:
        """CreateReplicationSlot."""
        session = self._session
        options = _options(command, _OF_CREATE)
        if command.kind == "PHYSICAL":
            raise PgError("0A000", "physical replication slots of replication connections are not supported")
        snapshot = get_string(options["snapshot"]) if "snapshot" in options else "export"
        if snapshot not in ("export", "use", "nothing"):
            text = f'unrecognized value for CREATE_REPLICATION_SLOT option "snapshot": "{snapshot}"'
            raise PgError("22023", text)
        with reading(session):
            slots.check_slot_permissions(session)
            slots.check_decoding_requirements(session)
        if snapshot == "export":
            if session.in_block:
                raise PgError("XX000", f"{_EXPORT} not be called inside a transaction")
        elif snapshot == "use":
            self._check_transaction()
        seen = self._pinned() if snapshot == "use" else None
        with slots.at_once(session) as there:
            slot = slots.create_slot(
                there,
                command.slot,
                plugin=command.plugin,
                two_phase=_flag(options, "two_phase"),
                failover=_flag(options, "failover"),
                temporary=command.temporary,
            )
            start = slot.confirmed_flush_lsn or 0
            if seen is not None and seen < start:
                start = slots.begin_at(there, slot, seen)
        if command.temporary:
            slots.drop_with_session(session, command.slot)
        self._backend.log.slot("released", command.slot)
        exported = self._exported(start - 1) if snapshot == "export" else None
        self._answer(
            [(n, oids.TEXT) for n in ("slot_name", "consistent_point", "snapshot_name", "output_plugin")],
            [command.slot, lsn_text(start), exported, command.plugin],
        )

    def _exported(self, snapshot: int) -> str:
        """The name under which other sessions may use the slot's snapshot, until the next command of the connection
        (SnapBuildExportSnapshot)."""
        session = self._session
        self._exporting = exporting = session.elsewhere(session.database_oid, session.role, apart=True)
        exporting.transaction.begin_statement()
        exporting.transaction.begin_block()
        for name, value in (("transaction_isolation", "repeatable read"), ("transaction_read_only", "on")):
            exporting.settings.set(name, value, local=True)
        name = export(exporting, snapshot)
        exporting.transaction.end_statement()
        return name

    def _end_export(self) -> None:
        """Ends the transaction whose snapshot was exported (SnapBuildClearExportedSnapshot)."""
        exporting, self._exporting = self._exporting, None
        if exporting is not None:
            exporting.close()

    def _check_transaction(self) -> None:
        session = self._session
        if not session.in_block:
            raise PgError("XX000", f"{_USE} be called inside a transaction")
        if session.settings.get("transaction_isolation") != "repeatable read":
            raise PgError("XX000", f"{_USE} be called in REPEATABLE READ isolation mode transaction")
        if not is_read_only(session):
            raise PgError("XX000", f"{_USE} be called in a read-only transaction")
        if session.transaction.snapshot_taken:
            raise PgError("XX000", f"{_USE} be called before any query")

    def _pinned(self) -> int:
        """The LSN of the transaction's snapshot, which it takes now: all before it is seen by its queries."""
        session = self._session
        with reading(session):
            session.transaction.snapshot_taken = True
            return current_lsn(session)

    def _alter(self, command: Command) -> None:
        options = _options(command, {"failover": "", "two_phase": ""})
        with slots.at_once(self._session) as there:
            slots.check_slot_permissions(there)
            failover, two_phase = (
                _flag(options, name) if name in options else None for name in ("failover", "two_phase")
            )
            slots.alter_slot(there, command.slot, failover=failover, two_phase=two_phase)


def _options(command: Command, known: dict[str, str]) -> dict[str, DefElem]:
    """The options by name (parseCreateReplSlotOptions)."""
    options: dict[str, DefElem] = {}
    for option in command.options:
        name = option.name
        if name in options or (known.get(name) and known[name] != command.kind):
            raise PgError("42601", "conflicting or redundant options")
        if name not in known:
            raise PgError("XX000", f"unrecognized option: {name}")
        options[name] = option
    return options


def _flag(options: dict[str, DefElem], name: str) -> bool:
    return name in options and get_boolean(options[name])
