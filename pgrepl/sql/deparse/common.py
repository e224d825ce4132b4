"""The dispatch of deparsing, and spellings shared by expressions and queries."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from pgrepl.errors import unsupported
from pgrepl.sql.nodes import Node, Statement
from pgrepl.sql.quote import quote_identifier


@singledispatch
def deparse(node: Node) -> str:
    """The text of a query, an expression, or a part of one."""
    if isinstance(node, Statement):
        raise unsupported("a data-modifying statement in WITH")
    raise TypeError(f"{type(node).__name__} is no part of a query")


def listed(nodes: Iterable[Node]) -> str:
    return ", ".join(map(deparse, nodes))


def dotted(parts: Iterable[str]) -> str:
    return ".".join(map(quote_identifier, parts))


def in_parentheses(names: tuple[str, ...]) -> str:
    return f" ({', '.join(map(quote_identifier, names))})" if names else ""


def operator_text(name: tuple[str, ...]) -> str:
    return name[0] if len(name) == 1 else f"OPERATOR({dotted(name[:-1])}.{name[-1]})"
