"""What stands behind `->` in the grammar: what is made of the children of an alternative.

    "DROP" "ROLE" "IF" "EXISTS" role_list    -> DropRoleStmt(roles, missing_ok=true)

makes the node DropRoleStmt, whose field `roles` is the first child of the alternative, and `missing_ok` is always True.
grammar/README.md has the syntax, which is a subset of Python's. When the tables are made, an action becomes a Python
expression over the parser's stacks of values `v` and locations `at`, which the parser compiles when it first needs the
rule: `DropRoleStmt(tuple(v[-1] or ()), missing_ok=True)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import MISSING
from itertools import takewhile

from pgrepl.sql import nodes

ACTION = r'->[ ]*((?:"[^"\n]*"|[^"|/\n])+)'
_PLACE = re.compile(r"@(\d+)")
_ABSENT = "v[0]"  # which is None
_CONSTANTS = {"true": "True", "false": "False", "none": "None"}
_SEQUENCE = re.compile(r"tuple\[[^|]*, \.\.\.\]")

Action = tuple[str, tuple[str, ...]]
"""A Python expression over `v` and `at`, and the names in it: of builders, nodes, and nodes' kinds."""


def declarations(text: str) -> Iterator[str]:
    """The nodes that a grammar makes, with their fields: who changes them has to make the tables again."""
    for name in sorted(set(re.findall(r"[A-Z]\w+(?=\()", text))):
        fields = getattr(nodes, name).__dataclass_fields__
        yield f"{name} {[(field, str(declared.type)) for field, declared in fields.items()]}"


class ActionError(Exception):
    """An action that does not fit its alternative or its node."""


def translate(text: str, length: int, children: tuple[int, ...]) -> Action:
    """An action as Python. `length`: of the alternative; `children`: their places on the stack, 0 for None."""
    translator = _Translator(length, [f"v[{place}]" for place in children])
    try:
        action = ast.parse(_PLACE.sub(r"at[\1]", text), mode="eval").body
        action_code = translator.whole(action)
    except (ActionError, SyntaxError, AttributeError) as error:
        raise ActionError(f"{text}: {error}") from None
    if translator.children and isinstance(action, (ast.Call, ast.List)):
        raise ActionError(f"{text}: it takes too few children")
    return action_code, tuple(translator.names)


class _Translator:
    def __init__(self, length: int, children: list[str]) -> None:
        self.length = length
        self.children = children
        self.names: dict[str, None] = {}

    def whole(self, action: ast.expr) -> str:
        """A lone name is a builder, which takes all children in their order."""
        if not isinstance(action, ast.Name) or action.id in _CONSTANTS:
            return self.value(action)
        children, self.children = self.children, []
        return self.called(action.id, [self.location(1), *children])

    def value(self, action: ast.expr) -> str:
        match action:
            case ast.Name(name):
                return _CONSTANTS.get(name) or self.child()
            case ast.Constant() | ast.UnaryOp(ast.USub(), ast.Constant()):
                return ast.unparse(action)
            case ast.Attribute(ast.Name(kind), word):
                getattr(getattr(nodes, kind), word)
                self.names[kind] = None
                return f"{kind}.{word}"
            case ast.List(items):
                values = [(self.value(item), item) for item in items]
                return "(" + "".join(f"{value}, " for value, item in values if ast.unparse(item) != "_") + ")"
            case ast.Subscript(ast.Name("at"), ast.Constant(int(symbol))):
                return self.location(symbol)
            case ast.Call(ast.Name(name)):
                return self.node(action, name) if name[0].isupper() else self.builder(action, name)
        raise ActionError(f"what is {ast.unparse(action)}?")

    def child(self) -> str:
        if not self.children:
            raise ActionError("it takes too many children")
        return self.children.pop(0)

    def location(self, symbol: int) -> str:
        """Where a symbol of the alternative stands; -1 if the alternative is empty."""
        if symbol > max(self.length, 1):
            raise ActionError(f"there is no symbol {symbol}")
        return f"at[{symbol - 1 - self.length}]" if self.length else "-1"

    def called(self, name: str, arguments: list[str]) -> str:
        self.names[name] = None
        return f"{name}({', '.join(arguments)})"

    def parts(self, call: ast.Call) -> Iterator[tuple[str, str]]:
        """The arguments of a call with their names. An argument `_` is a child that is left out."""
        for argument in call.args:
            name = argument.id if isinstance(argument, ast.Name) else ""
            if isinstance(argument, ast.Subscript):
                name = "location"
            value = self.value(argument)
            if name != "_":
                yield name, value
        yield from ((str(keyword.arg), self.value(keyword.value)) for keyword in call.keywords)

    def builder(self, call: ast.Call, name: str) -> str:
        """A builder takes the location (or several), and the rest by the names of its parameters."""
        if name == "replace":
            return self.replaced(call)
        parts = list(self.parts(call))
        places = [value for name, value in parts if name == "location"] or [self.location(1)]
        location = places[0] if len(places) == 1 else f"({', '.join(places)})"
        return self.called(name, [location, *(f"{field}={value}" for field, value in parts if field != "location")])

    def replaced(self, call: ast.Call) -> str:
        """The child `node` with other fields: `replace(node, array_bounds, setof=true)`."""
        parts = dict(self.parts(call))
        node = parts.pop("node")
        changes = [f"{field}={self.sequence(value, '')}" for field, value in parts.items() if value != _ABSENT]
        return self.called("replace", [node, *changes])

    def node(self, call: ast.Call, name: str) -> str:
        fields = getattr(nodes, name).__dataclass_fields__
        given: dict[str, str] = {}
        for field, value in self.parts(call):
            if field not in fields or field in given:
                raise ActionError(f"{name} has no {field}, or has it already")
            if value != _ABSENT or fields[field].default is MISSING:
                given[field] = self.sequence(value, str(fields[field].type))
        leading = list(takewhile(given.__contains__, fields))
        named = [f"{field}={value}" for field, value in given.items() if field not in leading]
        return self.called(name, [*map(given.__getitem__, leading), *named])

    def sequence(self, value: str, kind: str) -> str:
        """A list among the children becomes a tuple. An absent one is empty, unless the field may be None."""
        if _SEQUENCE.fullmatch(kind):
            return f"tuple({value} or ())" if value.startswith("v[") else value
        many = "tuple" in kind or kind in ("", "Any", "object")
        return self.called("listed", [value]) if many and value.startswith("v[") else value
