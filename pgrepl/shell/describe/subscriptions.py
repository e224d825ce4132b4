r"""`\dRs` and `\dRs+`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.roles import is_superuser, role_display
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import rows
from pgrepl.catalog.tables import pg_subscription
from pgrepl.errors import PgError
from pgrepl.shell.describe.listing import print_listing, read_pattern, session_of, yes
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.lsn import lsn_text
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

HEADERS = ("Name", "Owner", "Enabled", "Publication")
MORE = (
    "Binary", "Streaming", "Two-phase commit", "Disable on error", "Origin", "Password required", "Run as owner?",
    "Failover", "Synchronous commit", "Conninfo", "Skip LSN",
)  # fmt: skip
STREAMING = {"f": "off", "t": "on", "p": "parallel"}


def list_subscriptions(shell: Shell, text: str | None, verbose: bool) -> bool:
    pattern = read_pattern(shell, text)
    if isinstance(pattern, bool):
        return False
    session = session_of(shell)
    if verbose and not is_superuser(session):
        raise PgError("42501", "permission denied for table pg_subscription")
    found = rows(session, pg_subscription, subdbid=session.database.oid)
    if pattern is not None:
        found = [s for s in found if pattern.name.matches(s.subname)]
    found.sort(key=lambda s: s.subname)
    listed = [_cells(session, s) + (_more(s) if verbose else []) for s in found]
    return print_listing(shell, "List of subscriptions", HEADERS + (MORE if verbose else ()), listed)


def _cells(session: Session, row: Any) -> list[str]:
    publications = write_text(array_of(oids.TEXT, row.subpublications), oids.TEXT_ARRAY)
    return [row.subname, role_display(session, row.subowner), yes(row.subenabled), publications]


def _more(row: Any) -> list[str]:
    return [
        yes(row.subbinary), STREAMING[row.substream], row.subtwophasestate, yes(row.subdisableonerr), row.suborigin,
        yes(row.subpasswordrequired), yes(row.subrunasowner), yes(row.subfailover), row.subsynccommit,
        row.subconninfo, lsn_text(row.subskiplsn),
    ]  # fmt: skip
