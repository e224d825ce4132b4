"""Dead code (make lint): vulture, with the reviewed list of pyproject.toml, and told of functions that are looked up by
name, by ("module", "function") in a table or a call, or in that of statements; and the names of a module that nobody
takes from it, which vulture does not see where a name of another module is the same."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from vulture import Vulture
from vulture.config import make_config

from pgrepl.sql.actions import ACTION
from pgrepl.sql.statements import KINDS
from tests.house.test_circles import FILES
from tests.house.trees import nodes_of, tree_of

DECLARATIONS = (
    "pgrepl/catalog/store/tables.py",
    "pgrepl/catalog/store/ducklake.py",
)  # columns, whether they are read or not


def assigned(node: ast.Assign) -> Iterator[tuple[str, object]]:
    """The names and constants of `A = "x"` and `A, B = "x", "y"`."""
    names, values = (getattr(each, "elts", [each]) for each in (node.targets[0], node.value))
    for name, value in zip(names, values, strict=False):
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
            yield name.id, value.value


def made_by_the_grammar() -> Iterator[str]:
    """The words of its actions: nodes, their kinds, builders."""
    for path in Path("grammar").rglob("*.lark"):
        for action in re.findall(ACTION, path.read_text("utf-8")):
            yield from re.findall(r"\w+", action)


def looked_up() -> Iterator[str]:
    yield from made_by_the_grammar()
    yield from (kind.function.rpartition(".")[2] for kind in KINDS.values() if kind.function)
    for path in FILES.values():
        tree = tree_of(path)
        constants = dict(pair for node in tree.body if isinstance(node, ast.Assign) for pair in assigned(node))
        for node in ast.walk(tree):
            pair = node.elts if isinstance(node, ast.Tuple) else node.args if isinstance(node, ast.Call) else []
            if len(pair) == 2 and isinstance(pair[1], ast.Constant):
                module, name = pair[0], pair[1].value
                said = constants.get(module.id) if isinstance(module, ast.Name) else getattr(module, "value", None)
                if said in FILES and isinstance(name, str):
                    yield name


def texts_of(path: Path) -> Iterator[str]:
    for node in nodes_of(tree_of(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 100:
            yield from (node.value, node.value.rpartition(".")[2], node.value.rpartition(":")[2])


def taken() -> Iterator[tuple[str, str]]:
    """The names that modules take from others, with the modules that have them."""
    for path in (*FILES.values(), *Path("benchmarks").rglob("*.py")):
        nodes = list(nodes_of(tree_of(path)))
        modules: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                yield from ((node.module, alias.name) for alias in node.names)
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                yield modules[node.value.id], node.attr


def untaken(seen: Collection[str]) -> Iterator[str]:
    """Functions, classes and values of modules that neither they nor others use. `seen`: names that are used by who is
    not seen. Whoever is decorated is kept by the decorator, and a name that stands as text is looked up by it."""
    names = set(taken())
    for module, path in FILES.items():
        tree, package = tree_of(path), module.rpartition(".")[0]  # which may be its door (sql/nodes)
        nodes = list(nodes_of(tree))
        own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                found = [each.id for each in node.targets if isinstance(each, ast.Name)]
            else:
                found = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
            if set(map(ast.unparse, getattr(node, "decorator_list", []))) <= {"cache", "contextmanager", "frozen"}:
                for name in found:
                    if (
                        name not in own
                        and name not in seen
                        and not names & {(module, name), (package, name)}
                        and name[:2] != "__"
                    ):
                        yield f"{path}:{node.lineno}: nobody uses {name} of {module}"


def main() -> int:
    config = make_config([])
    vulture = Vulture(ignore_names=config["ignore_names"], ignore_decorators=config["ignore_decorators"])
    vulture.scavenge(config["paths"])
    vulture.used_names.update(looked_up())
    found = [each for each in vulture.get_unused_code() if not str(each.filename).endswith(DECLARATIONS)]
    texts = {word for path in FILES.values() for word in texts_of(path)}
    seen = {*config["ignore_names"], *looked_up(), *texts}
    reports = [each.get_report() for each in found]
    reports += [each for each in untaken(seen) if not each.partition(":")[0].endswith(DECLARATIONS)]
    print(*reports, sep="\n", end="\n" if reports else "")
    return len(reports)


if __name__ == "__main__":
    sys.exit(main())
