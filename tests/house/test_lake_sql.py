"""SQL for DuckLake's tables stands in lake/sql.py, by name; the catalog's own modules have theirs beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.test_circles import FILES
from tests.house.trees import nodes_of, tree_of

ELSEWHERE = [m for m in FILES if not m.startswith("pgrepl.catalog") and m != "pgrepl.lake.sql"]
NAMED = re.compile(r"ducklake_|pgrepl_(file|inlined)")
STATEMENT = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|JOIN)\b.*\b(ducklake_(?!metadata)|pgrepl_(file|inlined)\b)", re.S
)


def texts_of(module: str) -> Iterator[str]:
    source = FILES[module].read_text("utf-8")
    if not NAMED.search(source):
        return
    for node in nodes_of(tree_of(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_statements_have_names() -> None:
    found = [(module, text) for module in ELSEWHERE for text in texts_of(module) if STATEMENT.search(text)]
    assert found == []
