"""pytest's plugin: fixtures for people who test their pipelines.

    def test_big_orders_arrive(pgrepl_pair):
        pgrepl_pair.publisher.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        …
        pgrepl_pair.catch_up()

pytest imports this module in every run where pgrepl is installed, so it imports nothing of pgrepl before a fixture is
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pgrepl.api.connection import Connection
    from pgrepl.api.rounds import SubscriptionRound


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Have pytest import pgrepl's modules as they are. It would parse and rewrite each of them, as it does with every
    package that has a plugin, and that takes long."""
    marked = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= {"pgrepl", "pyspark_pgrepl"}


PUBLISHER, SUBSCRIBER = "publisher", "subscriber"


class TestCatalog:
    """A catalog of a test's own. `path` is its file."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: list[Connection] = []

    def connect(self, dbname: str = "postgres", *, autocommit: bool = True, **options: Any) -> Connection:
        """A connection that is closed when the test ends."""
        from pgrepl.api.connection import connect

        connection = connect(self.path, dbname, autocommit=autocommit, **options)
        self._opened.append(connection)
        return connection

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()


class Pair:
    """Two databases of one catalog, `publisher` and `subscriber`, each with a connection."""

    def __init__(self, catalog: TestCatalog) -> None:
        self.catalog = catalog
        first = catalog.connect()
        first.execute(f"CREATE DATABASE {PUBLISHER}")
        first.execute(f"CREATE DATABASE {SUBSCRIBER}")
        self.publisher = catalog.connect(PUBLISHER)
        self.subscriber = catalog.connect(SUBSCRIBER)

    def subscribe(self, *publications: str, name: str = "subscription", options: str = "") -> None:
        """Create a subscription to publications of the publisher, and copy its tables. `options`: of WITH."""
        from pgrepl.sql.keywords import quote_identifier

        listed = ", ".join(map(quote_identifier, publications))
        extra = f" WITH ({options})" if options else ""
        self.subscriber.execute(
            f"CREATE SUBSCRIPTION {quote_identifier(name)} CONNECTION 'dbname={PUBLISHER}' PUBLICATION {listed}{extra}"
        )
        self.catch_up()

    def catch_up(self) -> tuple[SubscriptionRound, ...]:
        """Bring all that the publisher has committed to the subscriber; an error of a subscription is raised."""
        from pgrepl.api.replication import apply

        return apply(self.catalog.path, dbname=SUBSCRIBER)


@pytest.fixture
def pgrepl_catalog(tmp_path: Path) -> Iterator[TestCatalog]:
    """A new catalog in a folder of the test's own."""
    catalog = TestCatalog(tmp_path / "catalog.db")
    yield catalog
    catalog.close()


@pytest.fixture
def pgrepl_pair(pgrepl_catalog: TestCatalog) -> Pair:
    """A publisher and a subscriber."""
    return Pair(pgrepl_catalog)
