"""The privileges that statements on subscriptions need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.acl import check_owner
from pgrepl.catalog.classes import ROLE_CREATE_SUBSCRIPTION
from pgrepl.catalog.databases import check_may_create
from pgrepl.catalog.roles import has_privs_of_role, is_superuser, role_by_name
from pgrepl.errors import PgError
from pgrepl.replication.libpq.conninfo import names_files, parse_conninfo

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def check_may_subscribe(session: Session) -> None:
    if not has_privs_of_role(session, session.role, ROLE_CREATE_SUBSCRIPTION):
        raise PgError(
            "42501",
            "permission denied to create subscription",
            detail='Only roles with privileges of the "pg_create_subscription" role may create subscriptions.',
        )
    check_may_create(session)


def check_subscription_owner(session: Session, subscription: tables.pg_subscription) -> None:
    check_owner(session, "subscription", subscription.subname, subscription.subowner)


def check_may_read_files(session: Session, conninfo: str, role: int) -> None:
    """Files of changes are files of the server, as those of COPY."""
    if not names_files(conninfo):
        return
    wanted = {"pg_read_server_files": "read"}
    if parse_conninfo(conninfo).get("on_error", "stop") != "stop":
        wanted["pg_write_server_files"] = "write"
    for name, action in wanted.items():
        if not has_privs_of_role(session, role, int(role_by_name(session, name).oid)):
            raise PgError(
                "42501",
                f"permission denied to {action} files of changes",
                detail=f'Only roles with privileges of the "{name}" role may {action} them.',
            )


def check_password_exemption(session: Session, password_required: bool) -> None:
    """Only a superuser may create or change a subscription that needs no password."""
    if not password_required and not is_superuser(session):
        raise PgError(
            "42501",
            "password_required=false is superuser-only",
            hint="Subscriptions with the password_required option set to false "
            "may only be created or modified by the superuser.",
        )


def must_use_password(session: Session, subscription: tables.pg_subscription) -> bool:
    return bool(subscription.subpasswordrequired) and not is_superuser(session, subscription.subowner)
