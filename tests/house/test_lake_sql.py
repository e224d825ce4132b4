"""SQL for DuckLake's tables stands in lake/sql.py, by name; the catalog's own modules have theirs beside them."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.test_circles import FILES
from tests.house.trees import tree_of

ELSEWHERE = [m for m in FILES if not m.startswith("pgrepl.catalog") and m != "pgrepl.lake.sql"]
STATEMENT = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|JOIN)\b.*\b(ducklake_(?!metadata)|pgrepl_(file|inlined)\b)", re.S
)


@pytest.mark.parametrize("module", ELSEWHERE)
def test_statements_have_names(module: str) -> None:
    tree = tree_of(FILES[module])
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert [text for text in texts if STATEMENT.search(text)] == []
