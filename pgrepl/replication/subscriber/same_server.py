"""Whether a subscription's publisher is still the server that it was.

Another server may have a slot of the same name, and a log that reaches as far. The subscription would then go on with
it, and silently lose the changes in between. Therefore the system identifier of the server, or of the publishing
instance, is stored with the subscription, and compared when a worker connects. A standby has the identifier of its
primary, promoted or not. After pg_upgrade, which keeps the slot under another identifier, setting slot_name anew
accepts the new server.

Subscriptions to instances that were made before format 5 have no identifier yet (UNKNOWN); the slots of those within
one instance moved further than their origins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.store import delete, insert, one, update
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.publisher.protocol import Publisher

UNKNOWN = ""  # in place of an identifier; catalog/migration.py writes it


def remember(session: Session, subid: int, publisher: Publisher) -> None:
    """Store the publisher's identifier with the subscription, if it has none; in a write transaction."""
    known = one(session, tables.pgrepl_publisher, subid=subid)
    if known is None:
        insert(session, tables.pgrepl_publisher, subid=subid, system_identifier=publisher.system_identifier)
    elif known.system_identifier == UNKNOWN:
        update(session, tables.pgrepl_publisher, {"subid": subid}, system_identifier=publisher.system_identifier)


def is_known(session: Session, subid: int) -> bool:
    """Has a worker stored the publisher's identifier?"""
    known = one(session, tables.pgrepl_publisher, subid=subid)
    return known is not None and known.system_identifier != UNKNOWN


def is_unknown(session: Session, subid: int) -> bool:
    """Was the subscription made before format 5, and has no worker connected since?"""
    return one(session, tables.pgrepl_publisher, subid=subid, system_identifier=UNKNOWN) is not None


def forget(session: Session, subid: int) -> None:
    """Remove the identifier: the next worker accepts any server."""
    delete(session, tables.pgrepl_publisher, subid=subid)


def check(session: Session, subscription: tables.pg_subscription, publisher: Publisher) -> None:
    """Raise if the publisher's identifier differs from the stored one."""
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
