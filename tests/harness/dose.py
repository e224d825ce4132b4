"""A dose of many cases that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def dose(cases: Iterable[Any], every: int, first: int = 0) -> list[Any]:
    """Every so manieth case in each run, beginning with `first`; the others are slow."""
    return [
        case if number % every == first else pytest.param(*_values(case), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
