"""The mutants of a function, and putting one in its place in a running process.

A mutant has another comparison, lacks an operand, a condition, a call or an error, or counts one more. It takes the
place of the function's code, so that whoever has imported the function has the mutant.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from tests.house.trees import tree_of

VARIABLE = "TEST_MUTANT"  # module:function:number, for programs that a test starts (tests/harness)

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}
_UNTOUCHED = ("annotation", "returns", "decorator_list")
_NOT_RUN = (ast.arguments, ast.Assert, ast.JoinedStr)
_LEFT_OUT = (ast.Expr, ast.Raise, ast.AugAssign)


class Mutant(NamedTuple):
    number: int
    told: str  # what was, and what is; which of several that are alike
    module: ast.Module


def mutants(module: str, function: str) -> Iterator[Mutant]:
    """All of a function, or of a method `Class.name`."""
    tree = tree_of(path_of(module))
    for number, told in enumerate(changes(tree, function)):
        yield Mutant(number, told, deepcopy(tree))


def changes(tree: ast.Module, function: str) -> Iterator[str]:
    """Each change of the function, while the tree has it."""
    before = Counter[str]()
    for node, field, number in list(_places(_definition(tree, function))):
        value = getattr(node, field)
        was = value[number] if isinstance(value, list) else value
        for other in _others(was):
            _set(node, field, number, other)
            told = f"{_shown(was)} -> {_shown(other)}"
            before[told] += 1
            yield told if before[told] == 1 else f"{told} ({before[told]})"
            _set(node, field, number, was)


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int]]:
    """Where the parts of a function stand that are carried out: no annotations, no assertions, no texts."""
    for field, value in ast.iter_fields(node):
        for number, part in enumerate(value if isinstance(value, list) else [value]):
            if field in _UNTOUCHED or not isinstance(part, ast.AST) or isinstance(part, _NOT_RUN):
                continue
            yield node, field, number
            yield from _places(part)


def _set(node: ast.AST, field: str, number: int, part: ast.AST) -> None:
    value = getattr(node, field)
    if isinstance(value, list):
        value[number] = part
    else:
        setattr(node, field, part)


def _shown(part: ast.AST) -> str:
    return " ".join(ast.unparse(part).split())


def _others(part: Any) -> Iterator[ast.AST]:
    """What may stand in the place of a part."""
    for other in _replacements(part):
        yield ast.copy_location(ast.fix_missing_locations(ast.copy_location(other, part)), part)


def _replacements(part: Any) -> Iterator[Any]:
    match part:
        case ast.Compare(left, [operator], right):
            yield from (ast.Compare(left, [other()], right) for other in _COMPARISONS[type(operator)])
        case ast.BoolOp(operator, [left, right]):
            yield from (left, right)
        case ast.BoolOp(operator, values):
            yield from (ast.BoolOp(operator, values[:n] + values[n + 1 :]) for n in range(len(values)))
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.If(test, body, orelse) if isinstance(test, (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr)):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.comprehension(target, iter, ifs):
            yield from (ast.comprehension(target, iter, ifs[:n] + ifs[n + 1 :], part.is_async) for n in range(len(ifs)))
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            yield ast.BinOp(left, _OPERATORS[type(operator)](), right)
        case ast.Call(ast.Name(name), arguments, keywords) if name in _FUNCTIONS:
            yield ast.Call(ast.Name(_FUNCTIONS[name], ast.Load()), arguments, keywords)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield ast.Constant(value + 1)
        case ast.Expr(ast.Constant()):
            pass  # a docstring
        case _ if isinstance(part, _LEFT_OUT):
            yield ast.Pass()


def path_of(module: str) -> Path:
    return Path(str(import_module(module).__file__))


def _definition(tree: ast.AST, function: str) -> ast.AST:
    for name in function.split("."):
        tree = next(each for each in tree.body if getattr(each, "name", None) == name)  # type: ignore[attr-defined]
    return tree


def functions(module: str) -> list[str]:
    """The functions and methods of a module."""
    found = []
    for node in tree_of(path_of(module)).body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)]
    return found


# --- in its place -----------------------------------------------------------------------------------------------------


def put(module: str, function: str, mutant: Mutant) -> None:
    live = _live(module, function)
    code = compile(mutant.module, str(path_of(module)), "exec", dont_inherit=True)
    live.__code__ = next(each for each in _codes(code) if _place(each) == _place(live.__code__))


def put_named() -> None:
    """The mutant that the environment names."""
    if VARIABLE in os.environ:
        module, function, number = os.environ[VARIABLE].split(":")
        put(module, function, next(each for each in mutants(module, function) if each.number == int(number)))


def _live(module: str, function: str) -> FunctionType:
    found: Any = import_module(module)
    for name in function.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, cached_property):
        found = found.func
    elif isinstance(found, (classmethod, staticmethod)):
        found = found.__func__
    found = inspect.unwrap(found)
    assert isinstance(found, FunctionType)
    return found


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
