"""Dead code (make lint): vulture, with the reviewed list of pyproject.toml, and told of functions that are looked up by
name in a table of ("module", "function"), or of statements."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from vulture import Vulture
from vulture.config import make_config

from pgrepl.sql.statements import KINDS
from tests.house.test_circles import FILES
from tests.house.trees import tree_of

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


def looked_up() -> Iterator[str]:
    yield from (kind.function.rpartition(".")[2] for kind in KINDS.values() if kind.function)
    for path in FILES.values():
        tree = tree_of(path)
        constants = dict(pair for node in tree.body if isinstance(node, ast.Assign) for pair in assigned(node))
        for node in ast.walk(tree):
            if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[1], ast.Constant):
                module, name = node.elts[0], node.elts[1].value
                said = constants.get(module.id) if isinstance(module, ast.Name) else getattr(module, "value", None)
                if said in FILES and isinstance(name, str):
                    yield name


def main() -> int:
    config = make_config([])
    vulture = Vulture(ignore_names=config["ignore_names"], ignore_decorators=config["ignore_decorators"])
    vulture.scavenge(config["paths"])
    vulture.used_names.update(looked_up())
    found = [each for each in vulture.get_unused_code() if not str(each.filename).endswith(DECLARATIONS)]
    print(*(each.get_report() for each in found), sep="\n", end="\n" if found else "")
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
