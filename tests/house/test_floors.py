"""The house stands on floors: a module imports from floors below its own, or from its own room, and never upwards."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.house.trees import nodes_of, tree_of

PACKAGE = Path(__file__).resolve().parents[2] / "pgrepl"

FLOORS = {
    "__main__": 15,
    "cli": 14,
    "server": 13,
    "shell": 12,
    "api": 11,
    "backend": 10,
    "statements": 9,
    "replication": 8,
    "plpgsql": 8,
    "writing": 7,
    "query": 6,
    "rows": 5,
    "iceberg": 4,
    "engine": 4,
    "lake": 3,
    "expr": 3,
    "catalog": 2,
    "sql": 1,
    "types": 0,
    "internals": 0,
    "processes": -1,
    "ground": -1,
    "__init__": -4,
}

PATHS = sorted(PACKAGE.rglob("*.py"))

_NAMED = re.compile(r"pgrepl(\.\w+){2,}")


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


class Module(NamedTuple):
    """What these tests want to know of a module."""

    name: str
    is_silent: bool
    upwards: list[str]
    ways_around: list[tuple[int, str]]
    fillings: list[str]
    heavy: list[str]
    twice: set[str]


@cache
def modules() -> list[Module]:
    """Each is parsed once."""
    found = []
    for path in PATHS:
        tree = tree_of(path)
        nodes = list(nodes_of(tree))
        found.append(
            Module(
                str(path.relative_to(PACKAGE)),
                not ast.get_docstring(tree),
                list(upwards(path, nodes)),
                list(ways_around(nodes)),
                list(fillings(path, tree)),
                [name for name in names_at_top(tree) if name.split(".")[0] in HEAVY],
                imported(tree.body) & imported_for_types(tree),
            )
        )
    return found


def imports_of(path: Path, nodes: list[ast.AST]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written in full"
            base = node.module or ""
            if base == "pgrepl":
                found += [(node.lineno, f"pgrepl.{alias.name}") for alias in node.names if alias.name != "__version__"]
            else:
                found.append((node.lineno, base))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAMED.fullmatch(node.value):
            found.append((node.lineno, node.value))  # in a table of modules to import
    return [(line, name) for line, name in found if name == "pgrepl" or name.startswith("pgrepl.")]


def upwards(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    relative = path.relative_to(PACKAGE)
    room = relative.parts[0].removesuffix(".py")
    floor = FLOORS[room]
    for line, name in imports_of(path, nodes):
        other = room_of(name)
        if room == "__init__" and other == "api":  # the package's face names what is found there when it is asked for
            continue
        if other != room and FLOORS[other] >= floor:
            yield f"{relative}:{line} on floor {floor} imports {name} of floor {FLOORS[other]}"


def test_imports_go_downwards_only() -> None:
    assert [each for module in modules() for each in module.upwards] == []


def imported(body: list[ast.stmt]) -> set[str]:
    """The names that statements import, in full."""
    found = {f"{node.module}.{alias.name}" for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return found | {alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}


def imported_for_types(tree: ast.Module) -> set[str]:
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {name for block in blocks for name in imported(block.body)}


def test_nothing_is_imported_again_for_types() -> None:
    assert {module.name: module.twice for module in modules() if module.twice} == {}


def test_every_room_says_what_it_is_for() -> None:
    assert [module.name for module in modules() if module.is_silent] == []


# --- ways around --------------------------------------------------------------------------------------------------

_OWN_FOLDER = re.compile(r"f'\{(__name__|__package__)\}\.[\w.]*\{\w+\}'")  # as ast.unparse() writes it


def ways_around(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Imports that do not stand as imports. What is found by what is asked for may be imported by name: a folder's own
    modules, and those that a table in the same module names in full, whose floors are looked at as those of others."""
    names = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    has_table = any(map(_NAMED.fullmatch, names))
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "importlib" for alias in node.names):
            yield line, "import importlib"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "importlib":
            for alias in node.names:
                if (node.module, alias.name) not in (("importlib", "import_module"), ("importlib.util", "find_spec")):
                    yield line, f"from {node.module} import {alias.name}"
        elif isinstance(node, ast.Attribute) and node.attr == "modules" and ast.unparse(node) == "sys.modules":
            yield line, "sys.modules"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = node.func.id
            if called == "__import__" or (called == "import_module" and not _is_known(node, has_table)):
                yield line, ast.unparse(node)


def _is_known(node: ast.Call, has_table: bool) -> bool:
    argument = ast.unparse(node.args[0])
    return _OWN_FOLDER.fullmatch(argument) is not None or (has_table and argument == "module")


_STANDS_IN = "internals/pyarrow.py"  # puts a module of pyarrow's where pyarrow looks for it
_LAZY = "ground/lazy.py"  # imports a library when something of it is used


def test_nothing_is_imported_by_name() -> None:
    found = {module.name: module.ways_around for module in modules() if module.ways_around}
    assert {name: {what for _, what in ways} for name, ways in found.items()} == {
        _STANDS_IN: {"sys.modules"},
        _LAZY: {"import_module(self.__name__)", "import_module(module.__name__)"},
    }


_HARMLESS = ("pgrepl.ground.frozen.frozen", "pgrepl.cli.main", "pgrepl.shell.commands.subcommand.on_spark")


def fillings(path: Path, tree: ast.Module) -> Iterator[str]:
    """What a module calls as it is imported, of a room other than its own, and what it decorates with it."""
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    origins: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pgrepl"):
            origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in tree.body:
        used: list[ast.expr] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            used.append(node.value.func)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            used += [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
        for each in used:
            origin = origins.get(ast.unparse(each).split(".")[0])
            if origin is not None and room_of(origin) != room:
                yield origin


def test_no_import_fills_a_table_of_another_room() -> None:
    found = {(origin, module.name) for module in modules() for origin in module.fillings}
    assert {(origin, name) for origin, name in found if origin not in _HARMLESS} == set()


def test_what_these_tests_see() -> None:
    def seen(text: str) -> list[str]:
        return [what for _, what in ways_around(list(nodes_of(tree_of(text))))]

    assert seen("import_module('pgrepl.engine.spark')") == ["import_module('pgrepl.engine.spark')"]
    assert seen("import_module(module)") == ["import_module(module)"]
    assert seen("module = 'pgrepl.engine.spark'\nimport_module(module)") == []
    assert seen("import_module(f'pgrepl.{room}')") == ["import_module(f'pgrepl.{room}')"]
    assert seen("import_module(f'{__name__}.{family}')") == []
    assert seen("def f():\n    return sys.modules.get(name)") == ["sys.modules"]


HEAVY = {"pyspark", "sqlglot", "pandas", "lark"}  # pyarrow and numpy: test_startup.py sees what small commands load


def names_at_top(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


# classes that Spark asks for, and that nobody else imports
OF_SPARK = ("api/datasource/source.py",)


def test_nothing_heavy_is_imported_at_the_top_of_a_module() -> None:
    """Only the maker of the parse tables imports lark, and only the data source's classes pyspark."""
    found = {module.name: module.heavy for module in modules() if module.heavy and module.name[:4] != "sql/"}
    assert {name: set(heavy) for name, heavy in found.items() if name not in OF_SPARK} == {}
    assert {name.split(".")[0] for name in OF_SPARK for name in found[name]} <= {"pyspark", "pgrepl"}
