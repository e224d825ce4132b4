"""The syntax trees of the project's modules."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from pathlib import Path


def tree_of(source: Path | str) -> ast.Module:
    """A file's syntax tree, or a text's. Without garbage collection meanwhile: Python 3.11.7 and older end in a
    SystemError where a collection runs other code inside the parser (gh-106905)."""
    text = source if isinstance(source, str) else source.read_text(encoding="utf-8")
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collects:
            gc.enable()


def nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree, as `ast.walk` finds them, in half of its time: contexts and operators are left out."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for value in node.__dict__.values():
            if isinstance(value, list):
                todo += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                todo.append(value)
