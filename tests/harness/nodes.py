"""Instances in folders of their own: a primary that publishes, a subscriber, and room for a standby."""

from __future__ import annotations

from pathlib import Path

from pgrepl.replication.standby import create, promote
from tests.harness.database import Database, Errors

LARGE = "INSERT INTO t SELECT g, 'v' || g FROM generate_series({}, {}) g"


class Node(Database):
    """An instance in a folder of its own, seen from one database."""

    leaves = True  # its folder may be moved or copied next

    def __init__(self, folder: Path, database: str = "shop", *, new: bool = False) -> None:
        super().__init__(folder, database, new=new)

    def rows(self) -> list[int]:
        return [int(str(row[0])) for row in self("SELECT a FROM t ORDER BY a")]

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}


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
        self.subscriber.subscribe("p", conninfo, "WITH (failover = true)")
        assert self.subscriber.catch_up() == []

    def create(self, slot: str | None = None, *, link: bool = True, folder: str = "standby") -> Node:
        create(self.primary.session, self.folder / folder, slot=slot, link=link)
        return self.opened(Node(self.folder / folder))

    def opened(self, node: Node) -> Node:
        """A node that is closed with the others."""
        self._open.append(node)
        return node

    def fail_over(self, standby: Node) -> Errors:
        """The primary is lost, the standby takes its place for the subscription."""
        self.primary.close()
        self._open.remove(self.primary)
        (self.folder / "primary").rename(self.folder / "lost")
        promote(standby.session)
        return self.point_to(standby)

    def point_to(self, node: Node) -> Errors:
        self.subscriber(f"ALTER SUBSCRIPTION s CONNECTION 'host={node.folder} dbname=shop'")
        return self.subscriber.catch_up()

    def close(self) -> None:
        for node in self._open:
            node.close()
