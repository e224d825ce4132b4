"""Instances in folders of their own: a primary that publishes, a subscriber, and room for a standby."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.engine import open_catalog
from pgrepl.errors import PgError
from pgrepl.replication.standby.synchronize import create, promote
from pgrepl.replication.subscriber.catch_up import CatchUp
from pgrepl.statements.run import run
from tests.replication.conftest import HeardLog, Rows

LARGE = "INSERT INTO t SELECT g, 'v' || g FROM generate_series({}, {}) g"


class Node:
    """An instance in a folder of its own, seen from one database."""

    def __init__(self, folder: Path, database: str = "shop", *, new: bool = False) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        if new:
            first = open_session(open_catalog(folder / "catalog.db"))
            for _ in run(first, f"CREATE DATABASE {database}"):
                pass
            first.close()
        self.catalog = open_catalog(folder / "catalog.db")
        self.session = open_session(self.catalog, database)
        self.log = HeardLog()
        self.session.on_report = self.log.report

    def __call__(self, *statements: str) -> Rows:
        rows: Rows = []
        for text in statements:
            for result in run(self.session, text):
                rows = list(result.rows)
        return rows

    def says(self, text: str) -> str:
        """What a statement that fails says."""
        with pytest.raises(PgError) as caught:
            self(text)
        report = caught.value.report
        return "\n".join(part for part in (report.message, report.detail, report.hint) if part)

    def catch_up(self) -> list[str]:
        """The errors that its subscriptions met."""
        self.log.reports.clear()
        worker = CatchUp(self.session, self.log)
        worker.now()
        worker.close()
        return [message for message, _, _ in self.log.errors]

    def rows(self) -> list[int]:
        return [int(str(row[0])) for row in self("SELECT a FROM t ORDER BY a")]

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}

    def close(self) -> None:
        self.session.close()
        self.catalog.close()


class Nodes:
    """A primary with a table and a publication, a subscriber in another folder, and the place of a standby."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.primary = Node(folder / "primary", new=True)
        self.subscriber = Node(folder / "subscriber", new=True)
        self._open = [self.primary, self.subscriber]
        self.primary(
            "CREATE TABLE t (a int PRIMARY KEY, b text)", LARGE.format(1, 300), "CREATE PUBLICATION p FOR TABLE t"
        )

    def subscribe(self) -> None:
        self.subscriber("CREATE TABLE t (a int PRIMARY KEY, b text)")
        conninfo = f"host={self.folder / 'primary'} dbname=shop"
        self.subscriber(f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p WITH (failover = true)")
        assert self.subscriber.catch_up() == []

    def create(self, slot: str | None = None, *, link: bool = True) -> Node:
        create(self.primary.session, self.folder / "standby", slot=slot, link=link)
        made = Node(self.folder / "standby")
        self._open.append(made)
        return made

    def fail_over(self, standby: Node) -> list[str]:
        """The primary is lost, the standby takes its place for the subscription."""
        self.primary.close()
        self._open.remove(self.primary)
        (self.folder / "primary").rename(self.folder / "lost")
        promote(standby.session)
        return self.point_to(standby)

    def point_to(self, node: Node) -> list[str]:
        self.subscriber(f"ALTER SUBSCRIPTION s CONNECTION 'host={node.folder} dbname=shop'")
        return self.subscriber.catch_up()

    def close(self) -> None:
        for node in self._open:
            node.close()
