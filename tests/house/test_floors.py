"""The house stands on floors: a module imports from floors below its own, or from its own room, and never upwards."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pgrepl"

FLOORS = {
    "cli": 11,
    "__main__": 12,
    "shell": 10,
    "backend": 9,
    "statements": 8,
    "replication": 7,
    "writing": 6,
    "query": 5,
    "rows": 4,
    "lake": 3,
    "expr": 3,
    "catalog": 2,
    "sql": 1,
    "types": 0,
    "memory": 0,
    "interrupts": -1,
    "errors": -2,
    "frozen": -3,
    "__init__": -3,
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports_of(path: Path) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written in full"
            base = node.module or ""
            if base == "pgrepl":
                found += [(node.lineno, f"pgrepl.{alias.name}") for alias in node.names if alias.name != "__version__"]
            else:
                found.append((node.lineno, base))
    return [(line, name) for line, name in found if name == "pgrepl" or name.startswith("pgrepl.")]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards_only(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    room = relative.parts[0].removesuffix(".py")
    floor = FLOORS[room]
    for line, name in imports_of(path):
        other = room_of(name)
        allowed = other == room or FLOORS[other] < floor
        assert allowed, f"{relative}:{line} on floor {floor} imports {name} of floor {FLOORS[other]}"


def test_every_room_says_what_it_is_for() -> None:
    silent = [str(p.relative_to(PACKAGE)) for p in MODULES if not ast.get_docstring(ast.parse(p.read_text("utf-8")))]
    assert silent == []


HEAVY = {"pyspark", "pyarrow", "sqlglot", "pandas", "lark"}


def test_nothing_heavy_is_imported_at_the_top_of_a_module() -> None:
    """Only the maker of the parse tables imports lark."""
    found = []
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [(str(path.relative_to(PACKAGE)), n) for n in names if n.split(".")[0] in HEAVY]
    assert {n for p, n in found if not p.startswith("sql/")} == set()
