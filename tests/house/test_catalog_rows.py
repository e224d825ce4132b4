"""Rows of the system tables are typed: mypy sees a misspelt column of a row, this test one of a look-up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pgrepl.catalog.store import ducklake, tables
from pgrepl.catalog.store.declarative import SystemRow
from tests.house.trees import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
LOOKUPS = {"rows", "one", "insert", "update", "delete", "amend", "count", "remember", "begin", "change", "end"}
ROWS: dict[str, type[SystemRow]] = {
    name: found
    for module in (tables, ducklake)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, SystemRow) and hasattr(found, "__table__")
}


def lookups(tree: ast.Module) -> Iterator[tuple[int, str, list[str]]]:
    """Each call of store.py for a table that is named in it: line, table, columns."""
    for node in nodes_of(tree):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        table = node.args[1].attr if isinstance(node.args[1], ast.Attribute) else getattr(node.args[1], "id", "")
        if called not in LOOKUPS or table not in ROWS:
            continue
        conditions = [arg for arg in node.args[2:] if isinstance(arg, ast.Dict)]
        given = [key.value for each in conditions for key in each.keys if isinstance(key, ast.Constant)]
        yield node.lineno, table, [str(key) for key in given] + [word.arg for word in node.keywords if word.arg]


def test_look_ups_name_columns_that_there_are() -> None:
    seen = 0
    wrong = []
    for path in sorted((ROOT / "pgrepl").rglob("*.py")):
        source = path.read_text("utf-8")
        if "tables" not in source and "ducklake" not in source:  # where the tables' classes are
            continue
        for line, table, columns in lookups(tree_of(source)):
            seen += 1
            for column in columns:
                if column not in ROWS[table]._fields:
                    wrong.append(f"{path.relative_to(ROOT)}:{line}: {table} has no column {column}")
    assert wrong == []
    assert seen > 400


def test_no_row_of_the_catalog_is_any() -> None:
    """What store.py gives has its table's class; no parameter or result that takes one is declared as Any."""
    declared = re.compile(r"\b(row|publication|subscription|slot|database|constraint|schema|member|index)s?: Any\b")
    wrong = []
    for path in sorted((ROOT / "pgrepl").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"catalog\.store import|catalog import .*\bstore\b|catalog\.tables import", text):
            continue
        for line, code in enumerate(text.splitlines(), 1):
            if declared.search(code):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {code.strip()}")
    assert wrong == []
