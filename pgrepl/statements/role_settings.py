"""ALTER ROLE … SET, ALTER DATABASE … SET: settings a session begins with (pg_db_role_setting.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import parameters, tables
from pgrepl.catalog.acl import check_owner
from pgrepl.catalog.databases import database_by_name
from pgrepl.catalog.parameter_values import check_custom_name
from pgrepl.catalog.roles import has_attribute, is_admin_of_role, is_superuser, resolve_role, role_row
from pgrepl.catalog.store import delete, insert, one, update
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterRoleSetStmt, VariableSetKind, VariableSetStmt
from pgrepl.statements.role import check_not_reserved
from pgrepl.statements.settings import setting_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def alter_role_set(stmt: AlterRoleSetStmt, session: Session) -> Result:
    """As AlterRoleSet."""
    role = 0
    if stmt.role is not None:
        check_not_reserved(stmt.role)
        role = resolve_role(session, stmt.role)
        _check_may_alter(session, role)
    database = 0
    if stmt.database is not None:
        row = database_by_name(session, stmt.database)
        database = row.oid
        if stmt.role is None:
            check_owner(session, "database", stmt.database, row.datdba)
    if not role and not database and not is_superuser(session):
        raise PgError(
            "42501",
            "permission denied to alter setting",
            detail="Only roles with the SUPERUSER attribute may alter settings globally.",
        )
    alter_setting(session, database, role, stmt.setting)
    return Result("ALTER ROLE")


def _check_may_alter(session: Session, role: int) -> None:
    row = role_row(session, role)
    assert row is not None
    if row.rolsuper:
        if not is_superuser(session):
            raise PgError(
                "42501",
                "permission denied to alter role",
                detail="Only roles with the SUPERUSER attribute may alter roles with the SUPERUSER attribute.",
            )
    elif role != session.role and not (
        has_attribute(session, session.role, "rolcreaterole") and is_admin_of_role(session, session.role, role)
    ):
        raise PgError(
            "42501",
            "permission denied to alter role",
            detail=f'Only roles with the CREATEROLE attribute and the ADMIN option on role "{row.rolname}" '
            "may alter this role.",
        )


def alter_setting(session: Session, database: int, role: int, stmt: VariableSetStmt) -> None:
    """As AlterSetting: one row for a database and role, a list of name=value."""
    text = setting_text(session, stmt)
    where = {"setdatabase": database, "setrole": role}
    row = one(session, tables.pg_db_role_setting, **where)
    before: list[str] = [] if row is None else list(row.setconfig)
    if stmt.kind is VariableSetKind.RESET_ALL:
        after = [item for item in before if not may_reset(session, item.partition("=")[0])]
    elif row is None and text is None:
        return
    else:
        assert stmt.name is not None
        name = checked_name(session, stmt.name, text)
        after = with_item(before, name, text)
    if row is None:
        if after:
            insert(session, tables.pg_db_role_setting, **where, setconfig=after)
    elif after:
        update(session, tables.pg_db_role_setting, where, setconfig=after)
    else:
        delete(session, tables.pg_db_role_setting, **where)


def with_item(items: list[str], name: str, text: str | None) -> list[str]:
    """The list with the item in its old place, or at the end if it is new; without the item if `text` is None."""
    if text is None:
        return [item for item in items if not item.startswith(f"{name}=")]
    fresh = f"{name}={text}"
    if any(item.startswith(f"{name}=") for item in items):
        return [fresh if item.startswith(f"{name}=") else item for item in items]
    return [*items, fresh]


def checked_name(session: Session, name: str, text: str | None) -> str:
    """The canonical name, if the current role may set it and the value is valid (validate_option_array_item)."""
    settings = session.settings
    parameter = parameters.find(name)
    if parameter is None:
        check_custom_name(name)
        if not is_superuser(session):
            raise PgError("42501", f'permission denied to set parameter "{name}"')
        return name
    settings.check_may_set(name)
    if text is not None:
        settings.check_value(name, text)
    elif parameter.key in parameters.NO_RESET:
        raise PgError("0A000", f'parameter "{name}" cannot be reset')
    return parameter.name


def may_reset(session: Session, name: str) -> bool:
    """Whether RESET ALL by the current role removes this setting. A superuser's removes all."""
    if is_superuser(session):
        return True
    parameter = parameters.find(name)
    return parameter is not None and parameter.context == "user"
