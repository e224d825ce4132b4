"""A database of an instance, which says statements and catches up with its publishers when a test says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.connection import Catalog
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError, Report
from pgrepl.replication.log import ServerLog
from pgrepl.replication.subscriber.launcher import CatchUp
from pgrepl.statements.run import run
from tests.harness.played import NO_WAIT

Rows = list[tuple[str | None, ...]]
Errors = list[tuple[str, str | None, str | None]]  # message, detail, context


def ask(session: Session, *statements: str) -> Rows:
    """The rows of the last statement."""
    rows: Rows = []
    for text in statements:
        for result in run(session, text):
            rows = [tuple(row) for row in result.rows]
    return rows


@contextmanager
def visit(catalog: Path, database: str = "postgres", data_path: str | None = None) -> Iterator[Session]:
    """A session in this process; nothing of the catalog is open behind it."""
    opened = open_catalog(catalog, data_path=data_path)
    try:
        session = open_session(opened, database, settings={"pgrepl.engine": "local"})
        try:
            yield session
        finally:
            session.close()
    finally:
        opened.close()


def identifiers_seen(opening: Callable[[], Catalog], visitors: int) -> list[str]:
    """The system identifier that each of them finds who open a catalog at once."""

    def arrive(_: int) -> str:
        with closing(opening()) as catalog, closing(catalog.connect()) as link:
            return str(link.execute("SELECT system_identifier FROM pgrepl_instance")[0][0])

    with ThreadPoolExecutor(visitors) as threads:
        return list(threads.map(arrive, range(visitors)))


class HeardLog(ServerLog):
    """Remembers what was logged."""

    def __init__(self) -> None:
        super().__init__(None)
        self.reports: list[Report] = []

    def report(self, report: Report, statement: str | None = None) -> None:
        self.reports.append(report)

    def messages(self, severity: str) -> list[str]:
        return [report.message for report in self.reports if report.severity == severity]

    @property
    def errors(self) -> Errors:
        return [(r.message, r.detail, r.context) for r in self.reports if r.severity == "ERROR"]


def by_columns(database: Database) -> None:
    """Its workers apply every batch by columns, and copy tables by Spark; its session does not change."""
    database(f"ALTER DATABASE {database.name} SET pgrepl.local_rows = 0")


def by_message(database: Database) -> None:
    """Its workers apply every batch message by message, in this process."""
    database(f"ALTER DATABASE {database.name} SET pgrepl.engine = local")
    database(f"ALTER DATABASE {database.name} SET pgrepl.local_rows = 1000000000")


class Database:
    """A session in a database; `new`: which is made first. Its workers log to `log`."""

    leaves = False  # does its worker go once it has caught up?

    def __init__(
        self, folder: Path, name: str = "postgres", *, new: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.name = name
        self.catalog = open_catalog(folder / "catalog.db")
        if new:
            first = open_session(self.catalog)
            list(run(first, f"CREATE DATABASE {name}"))
            first.close()
        self.notices: list[str] = []
        self.log = HeardLog()
        self.session = open_session(
            self.catalog,
            name,
            on_report=lambda report: self.notices.append(report.message),
            settings={**NO_WAIT, **(settings or {})},
        )
        self._catching: CatchUp | None = None

    def __call__(self, *statements: str) -> Rows:
        """The rows of the last statement."""
        return ask(self.session, *statements)

    def says(self, text: str) -> str:
        """What a statement that fails says."""
        with pytest.raises(PgError) as caught:
            self(text)
        report = caught.value.report
        return "\n".join(part for part in (report.message, report.detail, report.hint) if part)

    def ways(self) -> Counter[str]:
        """How often copies and batches were done by columns or by Spark, and how often they were left to the exact way
        instead."""
        found: Counter[str] = Counter()
        for work, declined, calls in self(
            "SELECT work, declined, calls FROM pgrepl_stat_engine WHERE datname = current_database()"
            " AND work IN ('initial copy', 'apply')"
        ):
            name = "copy" if work == "initial copy" else "apply"
            found[name if declined is None else f"{name} row by row"] += int(calls or 0)
        return found

    def subscribe(self, publications: str, conninfo: str, options: str = "", name: str = "s") -> None:
        """CREATE SUBSCRIPTION; `options` is its WITH clause."""
        self(f"CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' PUBLICATION {publications} {options}")

    def catch_up(self) -> Errors:
        """Let the database have all that its publishers have; the errors it met. What failed is tried anew."""
        if self._catching is not None and self.log.errors:
            self.leave()
        self.log.reports.clear()
        if self._catching is None:
            self._catching = CatchUp(self.session, self.log)
        self._catching.now()
        if self.leaves:
            self.leave()
        return self.log.errors

    def leave(self) -> None:
        """Workers that wait for more go, and leave their slots."""
        if self._catching is not None:
            self._catching.close()
            self._catching = None

    def close(self) -> None:
        self.session.close()
        self.catalog.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
