r"""`\dRs` and `\dRs+`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.roles import is_superuser, role_display
from pgrepl.catalog.facts.subscription import SubscriptionFacts, subscription_facts
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError
from pgrepl.shell.describe.listing import print_listing, read_pattern, session_of, yes
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.plain import lsn_text
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell


def _publications(subscription: SubscriptionFacts) -> str:
    return write_text(array_of(oids.TEXT, subscription.publications), oids.TEXT_ARRAY)


# psql's header, the column of pg_subscription, and the text that is shown
Shown = tuple[str, str, Callable[[Session, SubscriptionFacts], str]]
COLUMNS: tuple[Shown, ...] = (
    ("Name", "subname", lambda _, s: s.name),
    ("Owner", "pg_catalog.pg_get_userbyid(subowner)", lambda session, s: role_display(session, s.owner)),
    ("Enabled", "subenabled", lambda _, s: yes(s.enabled)),
    ("Publication", "subpublications", lambda _, s: _publications(s)),
)
MORE: tuple[Shown, ...] = (
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
SCHEMA: tuple[Shown, ...] = (("Schema changes", "subschemachanges", lambda _, s: s.schema_changes),)
SERVER: tuple[Shown, ...] = (("Server", "subserver", lambda _, s: s.server or ""),)
RETENTION: tuple[Shown, ...] = (
    ("Retain dead tuples", "subretaindeadtuples", lambda _, s: yes(s.retain_dead_tuples)),
    ("Max retention duration", "submaxretention", lambda _, s: str(s.max_retention_duration)),
)
SEQUENCES: tuple[Shown, ...] = (("Sequences", "subsequences", lambda _, s: yes(s.sequences)),)
LOG: tuple[Shown, ...] = (("Conflict log", "subconflictlog", lambda _, s: yes(s.conflict_log)),)
HISTORY: tuple[Shown, ...] = (("History", "subhistory", lambda _, s: s.history),)


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
