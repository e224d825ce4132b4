"""Whether a subscription's publisher is still the server that it was.

A slot of the same name at another server, whose log happens to be as far on, would go on as if nothing had happened,
and what lies between the two were lost without a word. Therefore the system identifier of the server, or of the
instance that publishes, is remembered with the subscription, and compared when a worker connects. A standby has that of
its primary, promoted or not. What carries a slot on under another identifier, as pg_upgrade does, is accepted by naming
the slot anew.

Subscriptions to instances that were made before format 5 remember nothing yet (UNKNOWN), and those of one instance had
slots that moved further than their origins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.store import delete, insert, one, update
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.publisher.protocol import PublisherConnection

UNKNOWN = ""  # in place of an identifier; catalog/migration.py writes it


def remember(session: Session, subid: int, publisher: PublisherConnection) -> None:
    """From here on the subscription belongs to this server; in a write transaction."""
    known = one(session, tables.pgrepl_publisher, subid=subid)
    if known is None:
        insert(session, tables.pgrepl_publisher, subid=subid, system_identifier=publisher.system_identifier)
    elif known.system_identifier == UNKNOWN:
        update(session, tables.pgrepl_publisher, {"subid": subid}, system_identifier=publisher.system_identifier)


def is_known(session: Session, subid: int) -> bool:
    """Has a worker connected to the server, and remembered it?"""
    known = one(session, tables.pgrepl_publisher, subid=subid)
    return known is not None and known.system_identifier != UNKNOWN


def is_unknown(session: Session, subid: int) -> bool:
    """Was the subscription made before format 5, and has no worker connected since?"""
    return one(session, tables.pgrepl_publisher, subid=subid, system_identifier=UNKNOWN) is not None


def forget(session: Session, subid: int) -> None:
    """Whatever server the next worker finds is the right one."""
    delete(session, tables.pgrepl_publisher, subid=subid)


def check(session: Session, subscription: tables.pg_subscription, publisher: PublisherConnection) -> None:
    """An error if this is another server than the one remembered."""
    before = one(session, tables.pgrepl_publisher, subid=subscription.oid)
    if before is None:
        return
    identifier = publisher.system_identifier
    if before.system_identifier in (UNKNOWN, identifier):
        return
    raise PgError(
        "55000",
        f'the publisher of subscription "{subscription.subname}" is another server than before',
        detail=f"The server's identifier is {identifier}, that of the server whose changes are applied here is "
        f"{before.system_identifier}.",
        hint="Drop the subscription, empty its tables and create it again; or, if the slot goes on there from where it "
        "was, as after pg_upgrade, name it anew with ALTER SUBSCRIPTION ... SET (slot_name = ...).",
    )
