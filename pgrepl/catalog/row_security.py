"""Row security. There are no policies, so that a role to which it applies sees no row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import acl
from pgrepl.catalog.roles import role_row
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session


def is_active(session: Session, found: Relation, role: int | None = None) -> bool:
    """Does row security apply to the role (the current one)? Not to the owner, unless forced, nor to a role with
    BYPASSRLS (check_enable_rls)."""
    if not found.row_security:
        return False
    who = session.role if role is None else role
    row = role_row(session, who)
    if row is None or row.rolsuper or row.rolbypassrls:
        return False
    return found.force_row_security or not acl.is_owner(session, found.owner, who)


def hides_rows(session: Session, found: Relation, role: int) -> bool:
    """Does row security hide all rows from the role? An error with row_security = off."""
    if not is_active(session, found, role):
        return False
    if not session.settings.value("row_security"):
        hint = None
        if acl.is_owner(session, found.owner, role):
            hint = "To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY."
        raise PgError(
            "42501", f'query would be affected by row-level security policy for table "{found.name}"', hint=hint
        )
    return True
