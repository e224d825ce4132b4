"""Positions come back as they were given, each once, however they are kept."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pgrepl.lake.read.data_file import PositionSet


@pytest.mark.parametrize("span", [30, 5000, 10**9])
@pytest.mark.parametrize("seed", range(4))
def test_positions_come_back(seed: int, span: int) -> None:
    chance = random.Random(seed)
    found, expected = PositionSet(), set[int]()
    for _ in range(12):
        first = chance.randrange(span)
        given = [first + chance.randrange(max(span // 20, 2)) for _ in range(chance.randrange(40))]
        found.add(np.array(given, np.int64))
        expected.update(given)
        assert found.positions.tolist() == sorted(expected)
    assert len(found) == len(expected)
    assert found.positions.dtype == np.int64


def test_many_positions_take_a_bit_each() -> None:
    found = PositionSet.of(np.arange(0, 1 << 20, 2))
    assert len(found) == 1 << 19
    assert found.positions[-1] == (1 << 20) - 2
