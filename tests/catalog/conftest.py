"""Sessions over a fresh catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.connection import Catalog
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import Report


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def catalog(path: Path) -> Iterator[Catalog]:
    opened = open_catalog(path)
    yield opened
    opened.close()


Connect = Callable[..., Session]


@pytest.fixture
def connect(catalog: Catalog) -> Iterator[Connect]:
    """A session; what it is told stands in its `told`."""
    made: list[Session] = []

    def connect(user: str = "postgres", database: str = "postgres", **settings: str) -> Session:
        session = open_session(catalog, database, user, settings=settings)
        told: list[Report] = []
        session.on_report = told.append
        session.told = told  # type: ignore[attr-defined]
        made.append(session)
        return session

    yield connect
    for session in made:
        session.close()


@pytest.fixture
def session(connect: Connect) -> Session:
    return connect()
