"""The page of a server at `/`: who may see it, and what of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.api import overview_history
from pgrepl.api.overview import Overview, overview, visible
from pgrepl.api.overview_history import History
from pgrepl.catalog.session.transaction import reading
from pgrepl.engine import spark
from pgrepl.ground.errors import PgError
from pgrepl.server.http import Answer, Request
from pgrepl.server.iceberg import STATUS
from pgrepl.server.iceberg_access import Access, BadGrant, Unauthorized, Visitor
from pgrepl.server.metrics import Family, of_publishers
from pgrepl.shell.page import page, policy

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_CHALLENGE = ("WWW-Authenticate", 'Basic realm="pgrepl", charset="UTF-8"')
_ALWAYS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


@dataclass
class Watched:
    """The last overview, and the curves: a collector's thread brings them up to date."""

    history: History
    spark_file: Path | None = None  # where `pgrepl status --html` finds what Spark does
    found: Overview | None = field(default=None)

    def collect(self, session: Session) -> list[Family]:
        """Gather an overview; the families of metrics for which publishers are asked, too, are in it."""
        facts = spark.facts()
        overview_history.keep(self.spark_file, facts)
        seen = replace(overview(session), spark=facts)
        self.history.note(seen)
        self.found = seen
        return of_publishers(subscription.status for subscription in seen.subscriptions)


@dataclass(frozen=True)
class PageRoutes:
    """Answers requests for the page, each as the role that asks may see it."""

    access: Access
    watched: Watched

    def answer(self, outside: Session, request: Request) -> Answer:
        """`outside` is a session that has entered no database."""
        try:
            with reading(outside):
                visitor = self.access.visitor(outside, request, passwords=True)
                entered = _entered(visitor, outside)
                if self.watched.found is None:
                    return self.complaint(503, "nothing is known of the catalog yet")
                shown = visible(self.watched.found, entered)
        except BadGrant as problem:
            return self.complaint(400, str(problem))
        except Unauthorized as problem:
            return self.complaint(401, str(problem))
        text = page(shown, self.watched.history, is_served=True)
        policies = (("Content-Security-Policy", policy(is_served=True)),)
        return Answer(200, text, "text/html; charset=utf-8", (*_ALWAYS, *policies))

    def failure(self, request: Request, error: PgError) -> Answer:
        status = STATUS.get(error.sqlstate, 500)
        if status == 403 and "authorization" not in request.headers:  # who has a password is asked for it
            status = 401
        return self.complaint(status, error.report.message)

    def complaint(self, status: int, text: str) -> Answer:
        challenge = (_CHALLENGE,) if status == 401 else ()
        return Answer(status, f"{text}\n", headers=(*_ALWAYS, *challenge))

    def has_password(self, request: Request) -> bool:
        return request.headers.get("authorization", "").lower().startswith("basic ")


def _entered(visitor: Visitor, outside: Session) -> dict[str, Session]:
    """Sessions of the role in the databases that it may enter."""
    return {name: visitor.admit(outside, name) for name in visitor.databases(outside)}
