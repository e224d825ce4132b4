r"""`\dp` and `\z`: privileges on tables, views and sequences; `\ddp`: default privileges; the text of access lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import acl_text
from pgrepl.catalog.default_privileges import default_entries
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.relation import Relation
from pgrepl.catalog.roles import role_display
from pgrepl.catalog.session import Session
from pgrepl.shell.describe.listing import print_listing, read_pattern, session_of
from pgrepl.shell.describe.matching import matching_relations

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

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
    if isinstance(pattern, bool):
        return False
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
    if isinstance(pattern, bool):
        return False
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


def _column_acls(session: Session, found: Relation) -> str:
    lines = []
    for column in found.columns:
        items = acl_text(session, column.acl)
        if items is not None:
            lines.append(f"{column.name}:\n  " + "\n  ".join(items))
    return "\n".join(lines)
