r"""`\dRp` and `\dRp+`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.publication import (
    MemberTable,
    PublicationFacts,
    member_schemas,
    member_tables,
    publication_facts,
)
from pgrepl.catalog.facts.roles import role_display
from pgrepl.catalog.session.session import Session
from pgrepl.expr.print.deparse import stored_expression_text
from pgrepl.shell.describe.listing import NamePattern, print_description, print_listing, read_pattern, session_of, yes

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

# psql's header, the column of pg_publication, and the text that is shown
Shown = tuple[str, str, Callable[[Session, PublicationFacts], str]]
FLAGS: tuple[Shown, ...] = (
    ("Owner", "pg_catalog.pg_get_userbyid(pubowner)", lambda session, p: role_display(session, p.owner)),
    ("All tables", "puballtables", lambda _, p: yes(p.all_tables)),
    ("Inserts", "pubinsert", lambda _, p: yes("insert" in p.operations)),
    ("Updates", "pubupdate", lambda _, p: yes("update" in p.operations)),
    ("Deletes", "pubdelete", lambda _, p: yes("delete" in p.operations)),
    ("Truncates", "pubtruncate", lambda _, p: yes("truncate" in p.operations)),
    ("Via root", "pubviaroot", lambda _, p: yes(p.via_root)),
)
_ALL_SEQUENCES: Shown = ("All sequences", "puballsequences", lambda _, p: yes(p.all_sequences))
_GENERATED: Shown = (
    "Generated columns",
    "CASE pubgencols WHEN 'n' THEN 'none' WHEN 's' THEN 'stored' END",
    lambda _, p: p.generated,
)


def flags(session: Session, found: Sequence[PublicationFacts]) -> tuple[Shown, ...]:
    """The columns that psql shows of publications. psql 17 knows neither sequences nor generated columns: they are
    shown if some are published."""
    after = [header for header, _, _ in FLAGS].index("All tables") + 1
    sequences = (_ALL_SEQUENCES,) if any(each.all_sequences for each in found) else ()
    is_told = session.settings.release >= 18 or any(each.generated != "none" for each in found)
    return FLAGS[:after] + sequences + FLAGS[after:-1] + ((_GENERATED,) if is_told else ()) + FLAGS[-1:]


def matching_publications(session: Session, pattern: NamePattern | None) -> list[PublicationFacts]:
    if pattern is None:
        return publication_facts(session)
    return [p for p in publication_facts(session, pattern.name.literal) if pattern.name.matches(p.name)]


def list_publications(shell: Shell, text: str | None) -> bool:
    pattern = read_pattern(shell, text)
    session = session_of(shell)
    found = matching_publications(session, pattern)
    columns = flags(session, found)
    listed = [[p.name, *(shown(session, p) for _, _, shown in columns)] for p in found]
    return print_listing(shell, "List of publications", ("Name", *(header for header, _, _ in columns)), listed)


def describe_publications(shell: Shell, text: str | None) -> bool:
    pattern = read_pattern(shell, text)
    session = session_of(shell)
    found = matching_publications(session, pattern)
    if not found:
        if not shell.quiet:
            shell.error(
                "Did not find any publications." if text is None else f'Did not find any publication named "{text}".'
            )
        return False
    columns = flags(session, found)
    headers = [header for header, _, _ in columns]
    for each in found:
        shown = [show(session, each) for _, _, show in columns]
        if not print_description(shell, f"Publication {each.name}", headers, [shown], _members(session, each) or None):
            return False
    return True


def _members(session: Session, publication: PublicationFacts) -> list[str]:
    """The footers: tables with column list and row filter, or those that are left out, then schemas."""
    footers = []
    listed = member_tables(session, publication)
    if listed:
        footers.append("Except tables:" if publication.all_tables else "Tables:")
    for member in sorted(listed, key=lambda m: (m.table.schema, m.table.name)):
        footers.append(f'    "{member.table.qualified_name}"{member_clauses(session, member)}')
    schemas = member_schemas(session, publication)
    if schemas:
        footers.append("Tables from schemas:")
    return footers + [f'    "{schema}"' for schema in sorted(schemas)]


def member_clauses(session: Session, member: MemberTable) -> str:
    """The column list and row filter of a table: ` (a, b) WHERE (a > 5)`."""
    text = ""
    if member.columns is not None:
        text += f" ({', '.join(member.columns)})"
    if member.filter is not None:
        text += f" WHERE {stored_expression_text(session, member.filter, member.table.oid)}"
    return text
