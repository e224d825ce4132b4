"""A publisher and a subscriber: two databases of one catalog, which catch up when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.engine import open_catalog
from pgrepl.errors import Report
from pgrepl.replication.log import ServerLog
from pgrepl.replication.subscriber.catch_up import CatchUp
from pgrepl.statements.run import run

if TYPE_CHECKING:
    from tests.replication.nodes import Nodes

Rows = list[tuple[str | None, ...]]


class HeardLog(ServerLog):
    """Remembers what was logged."""

    def __init__(self) -> None:
        super().__init__(None)
        self.reports: list[Report] = []

    def report(self, report: Report, statement: str | None = None) -> None:
        self.reports.append(report)

    @property
    def errors(self) -> list[tuple[str, str | None, str | None]]:
        return [(r.message, r.detail, r.context) for r in self.reports if r.severity == "ERROR"]


class Database:
    def __init__(self, folder: Path, name: str) -> None:
        self.session = open_session(open_catalog(folder / "catalog.db"), name)
        self.notices: list[str] = []
        self.session.on_report = lambda report: self.notices.append(report.message)

    def __call__(self, text: str) -> Rows:
        """Run statements; the rows of the last."""
        rows: Rows = []
        for result in run(self.session, text):
            rows = list(result.rows)
        return rows


class Pair:
    def __init__(self, folder: Path) -> None:
        with_databases = open_session(open_catalog(folder / "catalog.db"))
        for name in ("pub", "sub"):
            for _ in run(with_databases, f"CREATE DATABASE {name}"):
                pass
        with_databases.close()
        self.pub, self.sub = Database(folder, "pub"), Database(folder, "sub")
        self.log = HeardLog()
        self._catch_up = CatchUp(self.sub.session, self.log)

    def both(self, text: str) -> None:
        self.pub(text)
        self.sub(text)

    def subscribe(self, publications: str = "p", options: str = "") -> None:
        """Subscribe, and copy what there is."""
        connection = "host=localhost dbname=pub"
        self.sub(f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION {publications} {options}")
        self.catch_up()

    def catch_up(self) -> list[tuple[str, str | None, str | None]]:
        """Let the subscriber catch up; the errors it met."""
        self.log.reports.clear()
        self._catch_up._quiet.clear()
        self._catch_up.now()
        return self.log.errors

    def close(self) -> None:
        for database in (self.pub, self.sub):
            database.session.close()
            database.session.catalog.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """A primary, a subscriber and room for a standby, each in a folder of its own."""
    from tests.replication.nodes import Nodes

    made = Nodes(tmp_path)
    yield made
    made.close()
