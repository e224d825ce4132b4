"""ALTER SUBSCRIPTION … RENAME TO and OWNER TO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import subscription as catalog
from pgrepl.catalog import tables
from pgrepl.catalog.databases import check_may_create
from pgrepl.catalog.roles import check_can_set_role, resolve_role
from pgrepl.catalog.store import one, update
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterOwnerStmt, RenameStmt
from pgrepl.statements.subscription.rights import (
    check_may_read_files,
    check_password_exemption,
    check_subscription_owner,
)

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def rename_subscription(stmt: RenameStmt, session: Session) -> Result:
    """The slot keeps its name (AlterObjectRename_internal)."""
    assert stmt.name is not None
    subscription = catalog.subscription_by_name(session, stmt.name)
    check_subscription_owner(session, subscription)
    check_may_create(session)
    check_password_exemption(session, subscription.subpasswordrequired)
    if catalog.subscription_or_none(session, stmt.new_name) is not None:
        raise PgError("42710", f'subscription "{stmt.new_name}" already exists')
    update(session, tables.pg_subscription, {"oid": subscription.oid}, subname=stmt.new_name)
    return Result("ALTER SUBSCRIPTION")


def give_subscription(stmt: AlterOwnerStmt, session: Session) -> Result:
    """As AlterSubscriptionOwner: the current user needs CREATE on the database, the new owner nothing."""
    owner = resolve_role(session, stmt.new_owner)
    (name,) = stmt.name
    _change_owner(session, catalog.subscription_by_name(session, name), owner)
    return Result("ALTER SUBSCRIPTION")


def reassign_subscription(session: Session, oid: int, new_owner: int) -> None:
    row = one(session, tables.pg_subscription, oid=oid)
    assert row is not None
    _change_owner(session, row, new_owner)


def _change_owner(session: Session, subscription: tables.pg_subscription, owner: int) -> None:
    """As AlterSubscriptionOwner_internal."""
    if subscription.subowner != owner:
        check_subscription_owner(session, subscription)
        check_password_exemption(session, subscription.subpasswordrequired)
        check_can_set_role(session, session.role, owner)
        check_may_create(session)
        check_may_read_files(session, subscription.subconninfo, owner)
        update(session, tables.pg_subscription, {"oid": subscription.oid}, subowner=owner)
