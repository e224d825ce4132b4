r"""`\dRp` and `\dRp+`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.roles import role_display
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import rows
from pgrepl.catalog.tables import pg_publication, pg_publication_namespace, pg_publication_rel
from pgrepl.expr.deparse import stored_expression_text
from pgrepl.shell.describe.listing import print_description, print_listing, read_pattern, session_of, yes
from pgrepl.shell.describe.patterns import Pattern

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

FLAGS = ("Owner", "All tables", "Inserts", "Updates", "Deletes", "Truncates", "Via root")


def _matching(session: Session, pattern: Pattern | None) -> list[Any]:
    datid = session.database.oid
    if pattern is None:
        found = rows(session, pg_publication, datid=datid)
    elif pattern.name.literal is not None:
        found = rows(session, pg_publication, datid=datid, pubname=pattern.name.literal)
    else:
        found = [p for p in rows(session, pg_publication, datid=datid) if pattern.name.matches(p.pubname)]
    return sorted(found, key=lambda p: p.pubname)


def _flags(session: Session, row: Any) -> list[str]:
    what = (row.puballtables, row.pubinsert, row.pubupdate, row.pubdelete, row.pubtruncate, row.pubviaroot)
    return [role_display(session, row.pubowner), *map(yes, what)]


def list_publications(shell: Shell, text: str | None) -> bool:
    pattern = read_pattern(shell, text)
    if isinstance(pattern, bool):
        return False
    session = session_of(shell)
    listed = [[row.pubname, *_flags(session, row)] for row in _matching(session, pattern)]
    return print_listing(shell, "List of publications", ("Name", *FLAGS), listed)


def describe_publications(shell: Shell, text: str | None) -> bool:
    pattern = read_pattern(shell, text)
    if isinstance(pattern, bool):
        return False
    session = session_of(shell)
    found = _matching(session, pattern)
    if not found:
        if not shell.quiet:
            shell.error(
                "Did not find any publications." if text is None else f'Did not find any publication named "{text}".'
            )
        return False
    for row in found:
        if not print_description(
            shell, f"Publication {row.pubname}", FLAGS, [_flags(session, row)], members(session, row) or None
        ):
            return False
    return True


def members(session: Session, publication: Any) -> list[str]:
    """The footers: tables with column list and row filter, then schemas."""
    if publication.puballtables:
        return []
    footers = []
    listed = []
    for member in rows(session, pg_publication_rel, prpubid=publication.oid):
        table = relation(session, member.prrelid)
        listed.append((table.schema, table.name, member, table))
    if listed:
        footers.append("Tables:")
    for schema, name, member, table in sorted(listed, key=lambda m: m[:2]):
        footers.append(f'    "{schema}.{name}"{member_clauses(session, member, table)}')
    schemas = [
        schema_name(session, m.pnnspid) for m in rows(session, pg_publication_namespace, pnpubid=publication.oid)
    ]
    if schemas:
        footers.append("Tables from schemas:")
    return footers + [f'    "{schema}"' for schema in sorted(schemas)]


def member_clauses(session: Session, member: Any, table: Relation) -> str:
    """` (a, b) WHERE (a > 5)`"""
    text = ""
    if member.prattrs is not None:
        text += f" ({', '.join(table.attributes[number - 1].name for number in member.prattrs)})"
    if member.prqual is not None:
        text += f" WHERE {stored_expression_text(session, member.prqual, table.oid)}"
    return text
