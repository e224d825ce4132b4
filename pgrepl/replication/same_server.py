"""Whether a subscription's publisher is still the server that it was.

A slot of the same name at another server, whose log happens to be as far on, would go on as if nothing had happened,
and what lies between the two were lost without a word. Therefore the system identifier of the server is remembered
with the subscription, and compared when a worker connects. A standby has that of its primary, promoted or not. What
carries a slot on under another identifier, as pg_upgrade does, is accepted by naming the slot anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.store import Row, delete, insert, one
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.publisher import Publisher


def remember(session: Session, subid: int, publisher: Publisher) -> None:
    """From here on the subscription belongs to this server; in a write transaction."""
    identifier = publisher.system_identifier
    if identifier is not None and one(session, tables.pgrepl_publisher, subid=subid) is None:
        insert(session, tables.pgrepl_publisher, subid=subid, system_identifier=identifier)


def forget(session: Session, subid: int) -> None:
    """Whatever server the next worker finds is the right one."""
    delete(session, tables.pgrepl_publisher, subid=subid)


def check(session: Session, subscription: Row, publisher: Publisher) -> None:
    """An error if this is another server than the one remembered."""
    before = one(session, tables.pgrepl_publisher, subid=subscription.oid)
    if before is None:
        return
    identifier = publisher.system_identifier
    if identifier is None or identifier == before.system_identifier:
        return
    raise PgError(
        "55000",
        f'the publisher of subscription "{subscription.subname}" is another server than before',
        detail=f"The server's identifier is {identifier}, that of the server whose changes are applied here is "
        f"{before.system_identifier}.",
        hint="Drop the subscription, empty its tables and create it again; or, if the slot goes on there from where it "
        "was, as after pg_upgrade, name it anew with ALTER SUBSCRIPTION ... SET (slot_name = ...).",
    )
