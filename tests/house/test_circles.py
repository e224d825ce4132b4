"""No module imports, however far around, one that imports it; nor inside a function, for types only, or by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.trees import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "pgrepl").rglob("*.py"))
}

ROOMS = sorted(path.parent.name for path in (ROOT / "pgrepl").glob("*/__init__.py"))


def imports_of(module: str) -> set[str]:
    """All modules that a module imports anywhere. Its own package, which is imported before it, counts only where the
    module takes something from it."""
    nodes = list(nodes_of(tree_of(FILES[module])))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    found |= set(named_imports(module, nodes))
    taken = {name.rpartition(".")[0] for name in found - FILES.keys()}
    packages = {name for name in found if module.startswith(name + ".") and FILES.get(name, Path()).stem == "__init__"}
    return (found & FILES.keys()) - (packages - taken) - {module}


def named_imports(module: str, nodes: list[ast.AST]) -> Iterator[str]:
    """Modules whose names stand as text in a module that imports by name: whole ones, and such as
    `import_module(f"{__name__}.{family}")` completes."""
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    yield from texts
    package = module if FILES[module].stem == "__init__" else module.rpartition(".")[0]
    known = {"__name__": module, "__package__": package}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            prefix = ""
            for part in node.values:
                if isinstance(part, ast.Constant):
                    prefix += str(part.value)
                elif isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
                    if part.value.id not in known:
                        break
                    prefix += known[part.value.id]
            if prefix.startswith("pgrepl."):
                yield from (prefix + text for text in texts)


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in edges[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            members = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(members) > 1:
                found.append(sorted(members))

    for module in edges:
        if module not in index:
            visit(module)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_runs_in_circles(room: str) -> None:
    inside = {module for module in FILES if f"{module}.".startswith(f"pgrepl.{room}.")}
    assert inside
    edges = {module: imports_of(module) & inside for module in sorted(inside)}
    assert circles(edges) == []


def test_what_the_test_sees() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert "pgrepl.types.plain" in imports_of("pgrepl.types.text")  # by name
    assert "pgrepl.catalog.session.session" in imports_of("pgrepl.expr.analyse.scope")  # for types only
