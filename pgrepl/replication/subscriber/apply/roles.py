"""The role that applies changes: the table's owner, or with run_as_owner the subscription's owner."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import check_table_privilege
from pgrepl.catalog.context import RESTRICTED_OPERATION
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.roles import member_can_set_role, role_name
from pgrepl.catalog.row_security import is_active
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog import tables
    from pgrepl.catalog.session import Session


_AS_IT_IS = nullcontext()


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
