"""Input and output functions answer what PostgreSQL 17 answered (`literals.jsonl`, made by `make_literals`)."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.types.style import TextStyle
from pgrepl.types.text import read_text, write_text
from tests.types.asked import Answer, error_of, load
from tests.types.make_literals import ANSWERS, type_of

GROUPS: dict[tuple[str, str], list[tuple[str, Answer]]] = defaultdict(list)
for typename, settings, literal, answer in load(ANSWERS):
    GROUPS[typename, json.dumps(settings)].append((literal, answer))


def style_of(settings: str) -> TextStyle:
    given: dict[str, Any] = json.loads(settings)
    if "extra_float_digits" in given:
        given["extra_float_digits"] = int(given["extra_float_digits"])
    return TextStyle(**given)


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_literals(group: tuple[str, str]) -> None:
    typename, settings = group
    typoid, typmod = type_of(typename)
    style = style_of(settings)
    wrong = []
    for literal, expected in GROUPS[group]:
        found: Answer
        try:
            found = write_text(read_text(literal, typoid, typmod, style), typoid, style)
        except PgError as error:
            found = error_of(error)
        if found != expected:
            wrong.append((literal, found, expected))
    assert wrong == []
