r"""`\du`, `\dg`, `\drg` and `\drds`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_AUTHID
from pgrepl.catalog.comments import shared_comment_on
from pgrepl.catalog.databases import database_name
from pgrepl.catalog.roles import memberships, role_display, roles, settings_of_roles
from pgrepl.shell.describe.listing import print_description, print_listing, read_pattern, session_of
from pgrepl.types.oids import TIMESTAMPTZ
from pgrepl.types.text import read_text, write_text

if TYPE_CHECKING:
    from pgrepl.catalog.roles import Role
    from pgrepl.shell.shell import Shell
    from pgrepl.types.style import TextStyle


def list_roles(shell: Shell, text: str | None, verbose: bool, system: bool) -> bool:
    pattern = read_pattern(shell, text)
    if isinstance(pattern, bool):
        return False
    session = session_of(shell)
    listed = []
    for row in roles(session):
        if pattern is not None and not pattern.name.matches(row.rolname):
            continue
        if pattern is None and not system and row.rolname.startswith("pg_"):
            continue
        cells = [row.rolname, attributes(row, session.text_style)]
        if verbose:
            cells.append(shared_comment_on(session, PG_AUTHID, row.oid) or "")
        listed.append(cells)
    headers = ("Role name", "Attributes", "Description")[: 3 if verbose else 2]
    return print_description(shell, "List of roles", headers, listed, [])


def attributes(row: Role, style: TextStyle) -> str:
    named = (
        (row.rolsuper, "Superuser"), (not row.rolinherit, "No inheritance"), (row.rolcreaterole, "Create role"),
        (row.rolcreatedb, "Create DB"), (not row.rolcanlogin, "Cannot login"), (row.rolreplication, "Replication"),
        (row.rolbypassrls, "Bypass RLS"),
    )  # fmt: skip
    lines = [", ".join(name for has, name in named if has)]
    if row.rolconnlimit == 0:
        lines.append("No connections")
    elif row.rolconnlimit > 0:
        lines.append(f"{row.rolconnlimit} connection{'' if row.rolconnlimit == 1 else 's'}")
    if row.rolvaliduntil:
        until = write_text(read_text(row.rolvaliduntil, TIMESTAMPTZ), TIMESTAMPTZ, style)
        lines.append(f"Password valid until {until}")
    return "\n".join(line for line in lines if line)


def list_role_grants(shell: Shell, text: str | None, system: bool) -> bool:
    pattern = read_pattern(shell, text)
    if isinstance(pattern, bool):
        return False
    session = session_of(shell)
    listed = []
    for row in memberships(session):
        member = role_display(session, row.member)
        if pattern.name.matches(member) if pattern is not None else system or not member.startswith("pg_"):
            options = ((row.admin_option, "ADMIN"), (row.inherit_option, "INHERIT"), (row.set_option, "SET"))
            given = ", ".join(name for has, name in options if has)
            listed.append([member, role_display(session, row.roleid), given, role_display(session, row.grantor)])
    listed.sort(key=lambda cells: (cells[0], cells[1], cells[3]))
    return print_listing(shell, "List of role grants", ("Role name", "Member of", "Options", "Grantor"), listed)


def list_settings(shell: Shell, role_text: str | None, database_text: str | None) -> bool:
    role, database = read_pattern(shell, role_text), read_pattern(shell, database_text)
    if isinstance(role, bool) or isinstance(database, bool):
        return False
    session = session_of(shell)
    listed: list[list[str | None]] = []
    for row in settings_of_roles(session):
        role_name = role_display(session, row.setrole) if row.setrole else None
        of_database = database_name(session, row.setdatabase)
        if role is not None and not (role_name and role.name.matches(role_name)):
            continue
        if database is not None and not (of_database and database.name.matches(of_database)):
            continue
        listed.append([role_name, of_database, "\n".join(row.setconfig or ())])
    if not listed and not shell.quiet:
        shell.error(_no_settings(role_text, database_text))
        return True
    listed.sort(key=lambda cells: (cells[0] is None, cells[0] or "", cells[1] is None, cells[1] or ""))
    return print_listing(shell, "List of settings", ("Role", "Database", "Settings"), listed)


def _no_settings(role: str | None, database: str | None) -> str:
    if role is not None and database is not None:
        return f'Did not find any settings for role "{role}" and database "{database}".'
    if role is not None:
        return f'Did not find any settings for role "{role}".'
    return "Did not find any settings."
