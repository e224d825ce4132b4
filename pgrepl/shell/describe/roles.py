r"""`\du`, `\dg`, `\drg`, `\drds`, `\dp`, `\z`, `\ddp`, `\l`, `\dn` and `\dconfig`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import acl_text
from pgrepl.catalog.facts.namespace import schema_name, schema_or_none, schemas
from pgrepl.catalog.facts.objects import comment_on, shared_comment_on
from pgrepl.catalog.facts.privileges import default_entries
from pgrepl.catalog.facts.publication import publications_of_schema
from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.roles import database_name, databases, memberships, role_display, roles, settings_of_roles
from pgrepl.catalog.session import parameters
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import PG_AUTHID, PG_DATABASE, PG_NAMESPACE
from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.shell.describe.listing import matching_relations, print_description, print_listing, read_pattern, session_of
from pgrepl.types.input_checks import NAMES
from pgrepl.types.oids import TIMESTAMPTZ
from pgrepl.types.text import read_text, write_text

if TYPE_CHECKING:
    from pgrepl.catalog.facts.roles import Role
    from pgrepl.shell.shell import Shell
    from pgrepl.types.style import TextStyle


KINDS = {
    "r": "table", "v": "view", "m": "materialized view", "S": "sequence", "f": "foreign table",
    "p": "partitioned table",
}  # fmt: skip


def shown_acl(session: Session, stored: Sequence[str] | None) -> str | None:
    """The list with one item a line (printACLColumn)."""
    items = acl_text(session, stored)
    if items is None:
        return None
    return "\n".join(items) if items else "(none)"


def list_privileges(shell: Shell, text: str | None, system: bool) -> bool:
    pattern = read_pattern(shell, text, qualified=True)
    session = session_of(shell)
    hidden = () if system or pattern is not None else ("pg_catalog", "information_schema")
    listed = [
        [r.schema, r.name, KINDS[r.kind], shown_acl(session, r.acl), _column_acls(session, r), ""]
        for r in matching_relations(session, pattern, KINDS)
        if r.schema not in hidden
    ]
    headers = ("Schema", "Name", "Type", "Access privileges", "Column privileges", "Policies")
    return print_listing(shell, "Access privileges", headers, listed)


_DEFAULTS = {"r": "table", "S": "sequence", "f": "function", "T": "type", "n": "schema"}


def list_default_privileges(shell: Shell, text: str | None) -> bool:
    """The pattern is that of a schema or an owner (listDefaultACLs)."""
    pattern = read_pattern(shell, text, dots=2)
    session = session_of(shell)
    listed: list[list[str | None]] = []
    for entry in default_entries(session):
        owner = role_display(session, entry.defaclrole)
        schema = schema_name(session, entry.defaclnamespace) if entry.defaclnamespace else None
        if pattern is None or any(pattern.name.matches(name) for name in (owner, schema) if name is not None):
            listed.append([owner, schema, _DEFAULTS[entry.defaclobjtype], shown_acl(session, entry.defaclacl)])
    listed.sort(key=lambda cells: (cells[0], cells[1] is None, cells[1] or "", cells[2]))
    headers = ("Owner", "Schema", "Type", "Access privileges")
    return print_listing(shell, "Default access privileges", headers, listed)


def _column_acls(session: Session, rel: Relation) -> str:
    lines = []
    for column in rel.columns:
        items = acl_text(session, column.acl) if column.expands else None
        if items is not None:
            lines.append(f"{column.name}:\n  " + "\n  ".join(items))
    return "\n".join(lines)


# --- databases --------------------------------------------------------------------------------------------------------


PROVIDERS = {"b": "builtin", "c": "libc", "i": "icu"}


def list_databases(shell: Shell, text: str | None, verbose: bool) -> bool:
    pattern = read_pattern(shell, text)
    session = session_of(shell)
    listed = []
    for row in databases(session):
        if pattern is not None and not pattern.name.matches(row.datname):
            continue
        cells = [
            row.datname, role_display(session, row.datdba), NAMES[row.encoding], PROVIDERS[row.datlocprovider],
            row.datcollate, row.datctype, None, None, shown_acl(session, row.datacl),
        ]  # fmt: skip
        if verbose:
            from pgrepl.query.system.functions.relations import database_size

            cells += [
                pg_size_pretty(database_size(session, row.oid)),
                "pg_default",
                shared_comment_on(session, PG_DATABASE, row.oid),
            ]
        listed.append(cells)
    headers = [
        "Name", "Owner", "Encoding", "Locale Provider", "Collate", "Ctype", "Locale", "ICU Rules", "Access privileges",
    ]  # fmt: skip
    return print_listing(
        shell, "List of databases", headers + (["Size", "Tablespace", "Description"] if verbose else []), listed
    )


def list_schemas(shell: Shell, text: str | None, verbose: bool, system: bool) -> bool:
    pattern = read_pattern(shell, text, dots=1)
    session = session_of(shell)
    listed = []
    for row in schemas(session):
        if pattern is not None and not pattern.name.matches(row.nspname):
            continue
        if pattern is None and not system and (row.nspname.startswith("pg_") or row.nspname == "information_schema"):
            continue
        cells: list[str | None] = [row.nspname, role_display(session, row.nspowner)]
        if verbose:
            cells += [shown_acl(session, row.nspacl), comment_on(session, PG_NAMESPACE, row.oid)]
        listed.append(cells)
    headers = ("Name", "Owner", "Access privileges", "Description")[: 4 if verbose else 2]
    footers = _publications(session, text) if text is not None else None
    return print_listing(shell, "List of schemas", headers, listed, footers=footers)


def _publications(session: Session, schema: str) -> list[str] | None:
    """The lines of publications FOR TABLES IN SCHEMA of this schema."""
    row = schema_or_none(session, schema)
    if row is None:
        return None
    names = publications_of_schema(session, row.oid)
    return ["Publications:", *(f'    "{name}"' for name in sorted(names))] if names else None


# --- roles ------------------------------------------------------------------------------------------------------------


def list_roles(shell: Shell, text: str | None, verbose: bool, system: bool) -> bool:
    pattern = read_pattern(shell, text)
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


def list_parameters(shell: Shell, text: str | None, verbose: bool) -> bool:
    """List the parameters; without a pattern those that do not have their default."""
    pattern = read_pattern(shell, text, dots=None)
    settings = session_of(shell).settings
    listed = []
    for parameter in sorted(parameters.all_parameters(), key=lambda p: p.name):
        if not settings.may_examine(parameter.name):
            continue
        if pattern is not None:
            if not pattern.name.matches(parameter.name.lower()):
                continue
        elif (
            settings.source(parameter.name) == "default"
            or parameters.setting(parameter, settings.value(parameter.name)) == parameter.boot
        ):
            continue
        cells: list[str | None] = [parameter.name, settings.get(parameter.name)]
        listed.append(cells + ([parameter.vartype, parameter.context, None] if verbose else []))
    headers = ("Parameter", "Value", "Type", "Context", "Access privileges")[: 5 if verbose else 2]
    title = "List of configuration parameters" if text is not None else "List of non-default configuration parameters"
    return print_listing(shell, title, headers, listed)
