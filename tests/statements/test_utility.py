"""The tables by which statements find their functions: what they name is there, and every statement is in them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from pgrepl.sql import nodes
from pgrepl.sql.nodes import Statement
from pgrepl.sql.statements import KINDS
from pgrepl.statements.objects import ACTIONS

NAMED = {("pgrepl.statements." + path).rpartition(".")[::2] for kind in KINDS.values() if (path := kind.function)}


@pytest.mark.parametrize(("module", "function"), sorted({*NAMED, *ACTIONS.values()}))
def test_a_named_function_takes_a_statement_and_a_session(module: str, function: str) -> None:
    code = getattr(import_module(module), function).__code__
    assert code.co_varnames[: code.co_argcount] == ("stmt", "session")


def test_every_statement_has_a_function() -> None:
    for module in iter_modules(nodes.__path__):
        import_module(f"{nodes.__name__}.{module.name}")
    named = {found.__name__ for found in Statement.__subclasses__()}
    of_bodies = {"PlAssign", "ReturnStmt"}  # they stand in the bodies of routines only
    assert named - of_bodies == KINDS.keys()
    assert {name for name, kind in KINDS.items() if kind.function is None} == {"UnsupportedStmt", "ExecuteStmt"}
