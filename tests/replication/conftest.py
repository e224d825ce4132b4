"""Publishers and subscribers that catch up when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.nodes import Nodes
from tests.harness.pair import Pair


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """A primary, a subscriber and room for a standby, each in a folder of its own."""
    made = Nodes(tmp_path)
    yield made
    made.close()
