"""Versions of DuckLake's own rows, begun and ended at the running statement's snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog import store

if TYPE_CHECKING:
    from pgrepl.catalog.declarative import SystemRow
    from pgrepl.catalog.session import Session


class Version(Protocol):
    """A row that is valid from `begin_snapshot` on."""

    begin_snapshot: int

    def _asdict(self) -> dict[str, Any]: ...


def begin(session: Session, table: type[SystemRow], **values: Any) -> None:
    store.insert(session, table, begin_snapshot=session.snapshot(), **values)


def begin_many(session: Session, table: type[SystemRow], values: list[dict[str, Any]]) -> None:
    snapshot = session.snapshot()
    store.insert_many(session, table, [{"begin_snapshot": snapshot, **row} for row in values])


def end(session: Session, table: type[SystemRow], **eq: Any) -> None:
    """End current versions; those that began at this snapshot are deleted."""
    snapshot = session.snapshot()
    store.delete(session, table, begin_snapshot=snapshot, end_snapshot=None, **eq)
    store.update(session, table, {"end_snapshot": None, **eq}, end_snapshot=snapshot)


def change(session: Session, table: type[SystemRow], row: Version, eq: dict[str, Any], **values: Any) -> None:
    """Begin another version of a current row, which `eq` finds."""
    if row.begin_snapshot == session.snapshot():
        store.update(session, table, {"end_snapshot": None, **eq}, **values)
        return
    end(session, table, **eq)
    store.insert(session, table, **{**row._asdict(), **values, "begin_snapshot": session.snapshot()})
