"""What a subscription asks of its publisher, whoever that is.

This is the part that CREATE, ALTER and DROP SUBSCRIPTION need: the publisher's catalog as it is now, and its slots. An
operation that the publisher refuses raises PublisherError with the text that libpq would have for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from pgrepl.errors import PgError


class PublisherError(Exception):
    """The publisher said no."""

    def __init__(self, sqlstate: str, text: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


def refused(error: PgError) -> PublisherError:
    """A publisher's error as libpq shows it: `ERROR:  message`, then DETAIL and HINT."""
    return PublisherError(error.sqlstate, server_text(error))


def server_text(error: PgError) -> str:
    report = error.report
    lines = [f"{report.severity}:  {report.message}"]
    if report.detail:
        lines.append(f"DETAIL:  {report.detail}")
    if report.hint:
        lines.append(f"HINT:  {report.hint}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """A table as the publications of one subscription publish it."""

    schema: str
    name: str
    attrs: tuple[int, ...]


class Publisher(Protocol):
    """An open connection to a database that publishes."""

    @property
    def used_password(self) -> bool:
        """Did the publisher ask for the password?"""
        ...

    def existing_publications(self, names: Sequence[str]) -> set[str]:
        """Which of these publications there are."""
        ...

    def published_tables(self, names: Sequence[str]) -> list[RemoteTable]:
        """The tables of those publications, a table once for each different column list."""
        ...

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        """Which publications have tables that subscriptions of the publisher write to; (schema, table) pairs in `known`
        do not count."""
        ...

    def create_slot(self, name: str, *, two_phase: bool, failover: bool) -> int:
        """A new slot; its consistent point."""
        ...

    def alter_slot(self, name: str, *, failover: bool) -> None: ...

    def drop_slot(self, name: str) -> None: ...

    def close(self) -> None: ...
