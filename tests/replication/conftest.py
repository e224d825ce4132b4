"""Publishers and subscribers that catch up when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.nodes import Nodes
from tests.harness.pair import Pair
from tests.harness.trio import Trio


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    made = Trio(tmp_path)
    yield made
    made.close()


@pytest.fixture
def usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers apply a few changes as they apply many: read without a lock, with a lease."""
    monkeypatch.setattr("pgrepl.replication.subscriber.worker.catch_up_at_once", lambda context: None)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """A primary, a subscriber and room for a standby, each in a folder of its own."""
    made = Nodes(tmp_path)
    yield made
    made.close()
