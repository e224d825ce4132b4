r"""`\dRp`, `\dRp+`, `\dRs` and `\dRs+`: publications and subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.publication import PublicationFacts, member_schemas, member_tables, publication_facts
from pgrepl.catalog.facts.roles import is_superuser, role_display
from pgrepl.catalog.facts.subscription import SubscriptionFacts, subscription_facts
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.shell.describe.listing import (
    NamePattern,
    member_clauses,
    print_description,
    print_listing,
    read_pattern,
    session_of,
    yes,
)
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.plain import lsn_text
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

# psql's header, the column of pg_publication, and the text that is shown
PublicationColumn = tuple[str, str, Callable[[Session, PublicationFacts], str]]
FLAGS: tuple[PublicationColumn, ...] = (
    ("Owner", "pg_catalog.pg_get_userbyid(pubowner)", lambda session, p: role_display(session, p.owner)),
    ("All tables", "puballtables", lambda _, p: yes(p.all_tables)),
    ("Inserts", "pubinsert", lambda _, p: yes("insert" in p.operations)),
    ("Updates", "pubupdate", lambda _, p: yes("update" in p.operations)),
    ("Deletes", "pubdelete", lambda _, p: yes("delete" in p.operations)),
    ("Truncates", "pubtruncate", lambda _, p: yes("truncate" in p.operations)),
    ("Via root", "pubviaroot", lambda _, p: yes(p.via_root)),
)
_ALL_SEQUENCES: PublicationColumn = ("All sequences", "puballsequences", lambda _, p: yes(p.all_sequences))
_GENERATED: PublicationColumn = (
    "Generated columns",
    "CASE pubgencols WHEN 'n' THEN 'none' WHEN 's' THEN 'stored' END",
    lambda _, p: p.generated,
)


def flags(session: Session, publications: Sequence[PublicationFacts]) -> tuple[PublicationColumn, ...]:
    """The columns that psql shows of publications. psql 17 knows neither sequences nor generated columns: they are
    shown if some are published."""
    after = [header for header, _, _ in FLAGS].index("All tables") + 1
    sequences = (_ALL_SEQUENCES,) if any(publication.all_sequences for publication in publications) else ()
    is_told = session.settings.release >= 18 or any(publication.generated != "none" for publication in publications)
    return FLAGS[:after] + sequences + FLAGS[after:-1] + ((_GENERATED,) if is_told else ()) + FLAGS[-1:]


def matching_publications(session: Session, pattern: NamePattern | None) -> list[PublicationFacts]:
    if pattern is None:
        return publication_facts(session)
    return [p for p in publication_facts(session, pattern.name.literal) if pattern.name.matches(p.name)]


def list_publications(shell: Shell, text: str | None) -> bool:
    pattern = read_pattern(shell, text)
    session = session_of(shell)
    publications = matching_publications(session, pattern)
    columns = flags(session, publications)
    listed = [[p.name, *(shown(session, p) for _, _, shown in columns)] for p in publications]
    return print_listing(shell, "List of publications", ("Name", *(header for header, _, _ in columns)), listed)


def describe_publications(shell: Shell, text: str | None) -> bool:
    pattern = read_pattern(shell, text)
    session = session_of(shell)
    publications = matching_publications(session, pattern)
    if not publications:
        if not shell.quiet:
            shell.error(
                "Did not find any publications." if text is None else f'Did not find any publication named "{text}".'
            )
        return False
    columns = flags(session, publications)
    headers = [header for header, _, _ in columns]
    for publication in publications:
        shown = [show(session, publication) for _, _, show in columns]
        if not print_description(
            shell, f"Publication {publication.name}", headers, [shown], _members(session, publication) or None
        ):
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


def _publications(subscription: SubscriptionFacts) -> str:
    return write_text(array_of(oids.TEXT, subscription.publications), oids.TEXT_ARRAY)


# psql's header, the column of pg_subscription, and the text that is shown
SubscriptionColumn = tuple[str, str, Callable[[Session, SubscriptionFacts], str]]
COLUMNS: tuple[SubscriptionColumn, ...] = (
    ("Name", "subname", lambda _, s: s.name),
    ("Owner", "pg_catalog.pg_get_userbyid(subowner)", lambda session, s: role_display(session, s.owner)),
    ("Enabled", "subenabled", lambda _, s: yes(s.enabled)),
    ("Publication", "subpublications", lambda _, s: _publications(s)),
)
MORE: tuple[SubscriptionColumn, ...] = (
    ("Binary", "subbinary", lambda _, s: yes(s.binary)),
    ("Streaming", "substream", lambda _, s: s.streaming),
    ("Two-phase commit", "subtwophasestate", lambda _, s: s.two_phase),
    ("Disable on error", "subdisableonerr", lambda _, s: yes(s.disable_on_error)),
    ("Origin", "suborigin", lambda _, s: s.origin),
    ("Password required", "subpasswordrequired", lambda _, s: yes(s.password_required)),
    ("Run as owner?", "subrunasowner", lambda _, s: yes(s.run_as_owner)),
    ("Failover", "subfailover", lambda _, s: yes(s.failover)),
    ("Synchronous commit", "subsynccommit", lambda _, s: s.synchronous_commit),
    ("Conninfo", "subconninfo", lambda _, s: s.conninfo),
    ("Skip LSN", "subskiplsn", lambda _, s: lsn_text(s.skip_lsn)),
)
# shown only where a subscription has it set: PostgreSQL has no such column
SCHEMA: tuple[SubscriptionColumn, ...] = (("Schema changes", "subschemachanges", lambda _, s: s.schema_changes),)
SERVER: tuple[SubscriptionColumn, ...] = (("Server", "subserver", lambda _, s: s.server or ""),)
RETENTION: tuple[SubscriptionColumn, ...] = (
    ("Retain dead tuples", "subretaindeadtuples", lambda _, s: yes(s.retain_dead_tuples)),
    ("Max retention duration", "submaxretention", lambda _, s: str(s.max_retention_duration)),
)
SEQUENCES: tuple[SubscriptionColumn, ...] = (("Sequences", "subsequences", lambda _, s: yes(s.sequences)),)
LOG: tuple[SubscriptionColumn, ...] = (("Conflict log", "subconflictlog", lambda _, s: yes(s.conflict_log)),)
HISTORY: tuple[SubscriptionColumn, ...] = (("History", "subhistory", lambda _, s: s.history),)


def list_subscriptions(shell: Shell, text: str | None, verbose: bool) -> bool:
    pattern = read_pattern(shell, text)
    session = session_of(shell)
    if verbose and not is_superuser(session):
        raise PgError("42501", "permission denied for table pg_subscription")
    facts = [s for s in subscription_facts(session) if pattern is None or pattern.name.matches(s.name)]
    columns = COLUMNS + (MORE if verbose else ())
    columns += SCHEMA if verbose and any(s.schema_changes != "none" for s in facts) else ()
    columns += LOG if verbose and any(s.conflict_log for s in facts) else ()
    columns += SERVER if verbose and any(s.server for s in facts) else ()
    columns += RETENTION if verbose and any(s.retain_dead_tuples or s.max_retention_duration for s in facts) else ()
    columns += SEQUENCES if verbose and any(s.sequences for s in facts) else ()
    columns += HISTORY if verbose and any(s.history != "none" for s in facts) else ()
    listed = [[shown(session, s) for _, _, shown in columns] for s in facts]
    return print_listing(shell, "List of subscriptions", [header for header, _, _ in columns], listed)
