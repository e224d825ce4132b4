r"""`\l` and `\dn`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_DATABASE, PG_NAMESPACE
from pgrepl.catalog.comments import comment_on, shared_comment_on
from pgrepl.catalog.databases import databases
from pgrepl.catalog.namespace import schema_or_none, schemas
from pgrepl.catalog.publication_facts import publications_of_schema
from pgrepl.catalog.roles import role_display
from pgrepl.catalog.session import Session
from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.query.system.sizes import database_size
from pgrepl.shell.describe.listing import print_listing, read_pattern, session_of
from pgrepl.shell.describe.privileges import shown_acl
from pgrepl.types.encodings import NAMES

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

PROVIDERS = {"b": "builtin", "c": "libc", "i": "icu"}


def list_databases(shell: Shell, text: str | None, verbose: bool) -> bool:
    pattern = read_pattern(shell, text)
    if isinstance(pattern, bool):
        return False
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
    if isinstance(pattern, bool):
        return False
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
