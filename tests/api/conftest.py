from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pgrepl


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def con(catalog: Path) -> Iterator[pgrepl.Connection]:
    """A connection whose statements are transactions of their own."""
    opened = pgrepl.connect(catalog, autocommit=True)
    yield opened
    opened.close()
