"""Histories of two catalogs, a network and disks: each transaction is applied once and whole, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.simulation import World, made
from tests.harness.dose import dose


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        yield made(tmp_path_factory.mktemp("world"), patch)


@pytest.mark.parametrize("first", dose(range(100, 200, 10), 4, 3))
def test_histories(world: World, first: int) -> None:
    for seed in range(first, first + 10):
        world.play(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 10_000, 100))
def test_many_histories(world: World, first: int) -> None:
    for seed in range(first, first + 100):
        world.play(seed)
