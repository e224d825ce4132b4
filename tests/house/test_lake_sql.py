"""SQL on the catalog's tables stands in catalog/store/sql.py, lake/sql.py and iceberg/tables.py, by name; in the
catalog's own room that on pgrepl's tables stands beside what asks it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.test_circles import FILES
from tests.house.trees import nodes_of, tree_of

HOMES = {"pgrepl.catalog.store.sql", "pgrepl.lake.sql", "pgrepl.iceberg.tables"}
ABOVE = [module for module in FILES if not module.startswith("pgrepl.catalog") and module not in HOMES]
VERB = r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|FROM|JOIN)\b"
ON_LAKE = re.compile(VERB + r".*\b(ducklake_|pgrepl_(file|inlined)\b)", re.S)
ON_OWN = re.compile(VERB + r"\s+pgrepl_")
TO_CATALOG = re.compile(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b")


def text_of(node: ast.AST) -> str | None:
    """A string, or an f-string with its expressions left out."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join([text_of(each) or "{}" for each in node.values])
    return None


def found(module: str, pattern: re.Pattern[str]) -> Iterator[str]:
    source = FILES[module].read_text("utf-8")
    if "ducklake_" in source or "pgrepl_" in source:
        for node in nodes_of(tree_of(source)):
            text = text_of(node)
            if text is not None and pattern.search(text):
                yield f"{module}: {text}"


def test_statements_on_the_lake_have_names() -> None:
    assert [each for module in FILES if module not in HOMES for each in found(module, ON_LAKE)] == []


def test_statements_on_pgrepl_s_tables_are_the_catalog_s() -> None:
    assert [each for module in ABOVE for each in found(module, ON_OWN)] == []


def worded(source: str) -> Iterator[str]:
    """The statements that a module words and gives the catalog's connection, `link`."""
    tree = tree_of(source)
    named = {ast.unparse(each.targets[0]): each.value for each in tree.body if isinstance(each, ast.Assign)}
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and re.search(r"\blink\.execute(_many)?\Z", ast.unparse(node.func)):
            given = node.args[0]
            text = text_of(named.get(given.id, given) if isinstance(given, ast.Name) else given)
            if text is not None and TO_CATALOG.match(text):
                yield text


def test_the_catalog_words_what_it_is_asked() -> None:
    sources = [(module, FILES[module].read_text("utf-8")) for module in ABOVE]
    assert [(m, text) for m, source in sources if "link.execute" in source for text in worded(source)] == []


@pytest.mark.parametrize(
    "source",
    [
        'session.link.execute("SELECT slot_name FROM pg_replication_slot")',
        'link.execute(f"DELETE FROM {table}", ())',
        'ASKED = "UPDATE pg_class SET relname = ?"\nlink.execute_many(ASKED, names)',
    ],
)
def test_worded_statements_are_found(source: str) -> None:
    assert len(list(worded(source))) == 1


@pytest.mark.parametrize(
    "text",
    [
        '"SELECT value FROM ducklake_metadata"',
        'f"UPDATE ducklake_snapshot SET {column} = ?"',
        '("SELECT a" " FROM pgrepl_file")',
    ],
)
def test_statements_on_the_lake_are_found(text: str) -> None:
    assert any(ON_LAKE.search(text_of(node) or "") for node in nodes_of(ast.parse(text)))
