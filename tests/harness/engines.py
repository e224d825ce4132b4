"""Cases that are the same on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def on_engines(fixture: str, names: str, cases: Sequence[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Each case in this process, by rows and by columns; on Spark the first one; its others are slow."""
    parameters = []
    for engine in ("local", "columns", "spark"):
        for number, case in enumerate(cases):
            marks = [pytest.mark.slow] if engine == "spark" and number else []
            named = case[0][:60] if isinstance(case[0], str) else number
            parameters.append(pytest.param(engine, *case, marks=marks, id=f"{engine}-{named}"))
    return pytest.mark.parametrize(f"{fixture}, {names}", parameters, indirect=[fixture])
