"""The position of the apply worker in the stream, for the CONTEXT of an error (apply_error_callback)."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.replication.wire.messages import SentRelation
from pgrepl.types.lsn import lsn_text

COMMANDS = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE", "truncate": "TRUNCATE"}


class Progress:
    """The current transaction, message, table and column."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.xid = 0
        self.finish_lsn = 0
        self.command = ""
        self.relation: SentRelation | None = None
        self.column: str | None = None

    def transaction(self, xid: int, finish_lsn: int) -> None:
        self.xid, self.finish_lsn = xid, finish_lsn
        self.command, self.relation, self.column = "", None, None

    def message(self, operation: str) -> None:
        self.command, self.relation, self.column = COMMANDS[operation], None, None

    @property
    def context(self) -> str:
        text = f'processing remote data for replication origin "{self.origin}" during message type "{self.command}"'
        if self.relation is not None:
            text += f' for replication target relation "{self.relation.qualified_name}"'
            if self.column is not None:
                text += f' column "{self.column}"'
        if self.xid:
            text += f" in transaction {self.xid}"
        if self.finish_lsn:  # transactions in files may have no number, and are skipped by this all the same
            text += f"{',' if self.xid else ' in a transaction'} finished at {lsn_text(self.finish_lsn)}"
        return text

    def explain(self, error: PgError) -> PgError:
        """The error with its CONTEXT."""
        if self.command:
            inner = error.report.context
            error.report = replace(
                error.report, context=self.context if inner is None else f"{inner}\n{self.context}", position=None
            )
        return error
