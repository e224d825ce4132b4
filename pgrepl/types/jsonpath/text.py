"""The input function of jsonpath, and its canonical text, which is the value (printJsonPathItem)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.types import oids
from pgrepl.types.input_checks import stack_depth_exceeded
from pgrepl.types.json import escape_json
from pgrepl.types.jsonpath.parser import parse_path
from pgrepl.types.jsonpath.scanner import LAST_LEVEL, Item, Path
from pgrepl.types.numeric import write_numeric
from pgrepl.types.style import TextStyle

_PRIORITIES = {"||": 0, "&&": 1, "+": 3, "-": 3, "*": 4, "/": 4, "%": 4, "u+": 5, "u-": 5} | dict.fromkeys(
    ("==", "!=", "<", ">", "<=", ">=", "starts with"), 2
)
_LOWEST = 6


def path_text(path: Path) -> str:
    out: list[str] = []
    _print(path.first, out, in_key=False, brackets=True)
    return ("" if path.lax else "strict ") + "".join(out)


def _priority(item: Item) -> int:
    return _PRIORITIES.get(item.kind, _LOWEST)


def _operand(item: Item, parent: Item, out: list[str]) -> None:
    _print(item, out, in_key=False, brackets=_priority(item) <= _priority(parent))


def _print(item: Item | None, out: list[str], *, in_key: bool, brackets: bool) -> None:
    while item is not None:
        _print_step(item, out, in_key, brackets)
        item, in_key, brackets = item.next, True, True


def _print_step(item: Item, out: list[str], in_key: bool, brackets: bool) -> None:
    kind, value = item.kind, item.value
    if kind == "string":
        out.append(escape_json(value))
    elif kind == "numeric":
        text = write_numeric(value)
        out.append(f"({text})" if item.next is not None else text)
    elif kind == "bool":
        out.append("true" if value else "false")
    elif kind in ("null", "$", "@", "last", "[*]"):
        out.append(kind)
    elif kind == "variable":
        out.append("$" + escape_json(value))
    elif kind == "key":
        out.append(("." if in_key else "") + escape_json(value))
    elif kind == ".*":
        out.append(kind if in_key else "*")
    elif kind == "**":
        out.append(("." if in_key else "") + _levels(*value))
    elif kind == "[…]":
        _print_subscripts(item, out)
    elif kind == "method":
        _print_method(item, out)
    elif kind in _ENCLOSED:
        before, after = _ENCLOSED[kind]
        out.append(before)
        _print(item.args[0], out, in_key=False, brackets=False)
        out.append(after)
    else:
        out.append("(" if brackets else "")
        _print_operation(item, out)
        out.append(")" if brackets else "")


_ENCLOSED = {"!": ("!(", ")"), "is unknown": ("(", ") is unknown"), "?": ("?(", ")"), "exists": ("exists (", ")")}


def _print_operation(item: Item, out: list[str]) -> None:
    left = item.args[0]
    assert left is not None
    if item.kind in ("u+", "u-"):
        out.append(item.kind[1])
        _operand(left, item, out)
        return
    _operand(left, item, out)
    out.append(f" {item.kind} ")
    if item.kind == "like_regex":
        pattern, flags = item.value
        out.append(escape_json(pattern) + (f' flag "{flags}"' if flags else ""))
        return
    right = item.args[1]
    assert right is not None
    _operand(right, item, out)


def _print_subscripts(item: Item, out: list[str]) -> None:
    out.append("[")
    for number, (first, last) in enumerate(item.value):
        out.append("," if number else "")
        _print(first, out, in_key=False, brackets=False)
        if last is not None:
            out.append(" to ")
            _print(last, out, in_key=False, brackets=False)
    out.append("]")


def _print_method(item: Item, out: list[str]) -> None:
    out.append(f".{item.value}(")
    for number, arg in enumerate(item.args):
        out.append("," if number else "")
        _print(arg, out, in_key=False, brackets=False)
    out.append(")")


def _levels(first: int, last: int) -> str:
    if first == 0 and last == LAST_LEVEL:
        return "**"
    one, two = ("last" if level == LAST_LEVEL else str(level) for level in (first, last))
    return f"**{{{one}}}" if first == last else f"**{{{one} to {two}}}"


def _read(text: str, typmod: int, style: TextStyle) -> str:
    try:
        return path_text(parse_path(text))
    except RecursionError:
        raise stack_depth_exceeded() from None


READ: dict[int, Callable[[str, int, TextStyle], Any]] = {oids.JSONPATH: _read}
