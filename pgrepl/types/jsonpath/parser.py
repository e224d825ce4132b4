"""The input function of jsonpath: tokens as items (jsonpath_gram.y), with its checks (jsonpath_in); and the canonical
text, which is the value (printJsonPathItem)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.input_checks import invalid_text, stack_depth_exceeded
from pgrepl.types.json import escape_json
from pgrepl.types.jsonpath.scanner import (
    COMPARISONS,
    KEYWORDS,
    LAST_LEVEL,
    Item,
    JsonPathScanner,
    Path,
    chained,
    fail,
    parts,
    steps,
)
from pgrepl.types.numbers import read_int4
from pgrepl.types.numeric import read_numeric, write_numeric
from pgrepl.types.regex.matching import compile_regex
from pgrepl.types.style import TextStyle

_METHODS = frozenset(
    {
        "abs", "size", "type", "floor", "double", "ceiling", "keyvalue", "bigint", "boolean", "date", "integer",
        "number", "string",
    }
)  # fmt: skip
_WITH_ARGUMENTS = frozenset({"decimal", "datetime", "time", "time_tz", "timestamp", "timestamp_tz"})


@lru_cache(maxsize=256)
def parse_path(text: str) -> Path:
    try:
        path = _Parser(text).path()
        _check(path.first, 0, False)
    except RecursionError:
        raise stack_depth_exceeded() from None
    return path


class _Parser:
    """A predicate and an expression may both stand in parentheses, so both are read by the same rules; a rule that
    needs one of them looks at the item's kind."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.scanner = JsonPathScanner(text)
        self.token = self.scanner.next()

    def path(self) -> Path:
        if self.token.kind == "end":
            raise invalid_text("jsonpath", self.text)
        lax = self.token.kind != "strict"
        if self.token.kind in ("strict", "lax"):
            self.advance()
        item = self.disjunction()
        if self.token.kind != "end":
            self.reject()
        return Path(lax, item)

    # --- tokens -------------------------------------------------------------------------------------------------------

    def advance(self) -> str:
        """Go to the next token. Returns the text of the one left behind."""
        text = self.token.text
        self.token = self.scanner.next()
        return text

    def expect(self, kind: str) -> str:
        if self.token.kind != kind:
            self.reject()
        return self.advance()

    def reject(self) -> NoReturn:
        fail("syntax error", self.token.shown)

    # --- predicates ---------------------------------------------------------------------------------------------------

    def predicate(self, item: Item) -> Item:
        """The item, which must be a predicate."""
        if not _is_predicate(item):
            self.reject()
        return item

    def expression(self, item: Item) -> Item:
        """The item, which must not be a predicate."""
        if _is_predicate(item):
            self.reject()
        return item

    def disjunction(self) -> Item:
        left = self.conjunction()
        while self.token.kind == "||":
            self.predicate(left)
            self.advance()
            left = Item("||", args=(left, self.predicate(self.conjunction())))
        return left

    def conjunction(self) -> Item:
        left = self.negation()
        while self.token.kind == "&&":
            self.predicate(left)
            self.advance()
            left = Item("&&", args=(left, self.predicate(self.negation())))
        return left

    def negation(self) -> Item:
        if self.token.kind != "!":
            return self.comparison()
        self.advance()
        if self.token.kind == "exists":
            return Item("!", args=(self.exists(),))
        self.expect("(")
        item = self.predicate(self.disjunction())
        self.expect(")")
        return Item("!", args=(item,))

    def exists(self) -> Item:
        self.advance()
        self.expect("(")
        item = self.expression(self.sum())
        self.expect(")")
        return Item("exists", args=(item,))

    def comparison(self) -> Item:
        left = self.sum()
        if _is_predicate(left):
            return left
        kind = self.token.kind
        if kind in COMPARISONS:
            self.advance()
            return Item(kind, args=(left, self.expression(self.sum())))
        if kind == "starts":
            self.advance()
            self.expect("with")
            if self.token.kind not in ("string", "variable"):
                self.reject()
            initial = Item(self.token.kind, self.advance())
            return Item("starts with", args=(left, initial))
        if kind == "like_regex":
            self.advance()
            pattern = self.expect("string")
            flags = ""
            if self.token.kind == "flag":
                self.advance()
                flags = self.expect("string")
            return _like_regex(left, pattern, flags)
        return left

    # --- expressions --------------------------------------------------------------------------------------------------

    def sum(self) -> Item:
        left = self.product()
        while self.token.kind in ("+", "-") and not _is_predicate(left):
            kind = self.advance()
            left = Item(kind, args=(left, self.expression(self.product())))
        return left

    def product(self) -> Item:
        left = self.signed()
        while self.token.kind in ("*", "/", "%") and not _is_predicate(left):
            kind = self.advance()
            left = Item(kind, args=(left, self.expression(self.signed())))
        return left

    def signed(self) -> Item:
        if self.token.kind not in ("+", "-"):
            return self.primary()
        sign = self.advance()
        item = self.expression(self.signed())
        if item.kind == "numeric" and item.next is None:
            return Item("numeric", -item.value if sign == "-" and item.value else item.value)
        return Item("u" + sign, args=(item,))

    def primary(self) -> Item:
        kind = self.token.kind
        if kind == "exists":
            return self.exists()
        if kind == "(":
            return self.in_parentheses()
        if kind in ("string", "variable"):
            item = Item(kind, self.advance())
        elif kind in ("integer", "numeric"):
            item = Item("numeric", read_numeric(self.advance()))
        elif kind in ("true", "false"):
            item = Item("bool", kind == "true")
            self.advance()
        elif kind in ("null", "$", "@", "last"):
            item = Item(kind)
            self.advance()
        else:
            self.reject()
        self.accessors(item)
        return item

    def in_parentheses(self) -> Item:
        self.advance()
        item = self.disjunction()
        self.expect(")")
        if self.token.kind in (".", "[", "?"):
            self.accessors(item)
        elif _is_predicate(item) and self.token.kind == "is":
            self.advance()
            self.expect("unknown")
            return Item("is unknown", args=(item,))
        return item

    def accessors(self, item: Item) -> None:
        while self.token.kind in (".", "[", "?"):
            chained(item, self.accessor())

    def accessor(self) -> Item:
        kind = self.token.kind
        self.advance()
        if kind == "[":
            return self.subscripts()
        if kind == "?":
            self.expect("(")
            condition = self.predicate(self.disjunction())
            self.expect(")")
            return Item("?", args=(condition,))
        if self.token.kind == "*":
            self.advance()
            return Item(".*")
        if self.token.kind == "**":
            self.advance()
            return self.levels()
        if self.token.kind not in KEYWORDS and self.token.kind not in ("word", "string"):
            self.reject()
        name = self.token.kind
        key = Item("key", self.advance())
        if self.token.kind == "(" and (name in _METHODS or name in _WITH_ARGUMENTS):
            self.advance()
            args = self.arguments(name)
            self.expect(")")
            return Item("method", name, args)
        return key

    def arguments(self, method: str) -> tuple[Item | None, ...]:
        if self.token.kind == ")" or method in _METHODS:
            return ()
        if method == "datetime":
            return (Item("string", self.expect("string")),)
        if method != "decimal":
            return (Item("numeric", read_numeric(self.expect("integer"))),)
        numbers = [self.signed_integer()]
        while self.token.kind == ",":
            self.advance()
            numbers.append(self.signed_integer())
        if self.token.kind == ")" and len(numbers) > 2:
            detail = ".decimal() can only have an optional precision[,scale]."
            raise PgError("42601", "invalid input syntax for type jsonpath", detail=detail)
        return tuple(numbers)

    def signed_integer(self) -> Item:
        sign = self.advance() if self.token.kind in ("+", "-") else ""
        value = read_numeric(self.expect("integer"))
        return Item("numeric", -value if sign == "-" and value else value)

    def subscripts(self) -> Item:
        if self.token.kind == "*":
            self.advance()
            self.expect("]")
            return Item("[*]")
        pairs: list[tuple[Item, Item | None]] = []
        while True:
            first = self.expression(self.sum())
            last = None
            if self.token.kind == "to":
                self.advance()
                last = self.expression(self.sum())
            pairs.append((first, last))
            if self.token.kind != ",":
                break
            self.advance()
        self.expect("]")
        return Item("[…]", tuple(pairs))

    def levels(self) -> Item:
        if self.token.kind != "{":
            return Item("**", (0, LAST_LEVEL))
        self.advance()
        first = last = self.level()
        if self.token.kind == "to":
            self.advance()
            last = self.level()
        self.expect("}")
        return Item("**", (first, last))

    def level(self) -> int:
        if self.token.kind == "last":
            self.advance()
            return LAST_LEVEL
        return read_int4(self.expect("integer"))


def _is_predicate(item: Item) -> bool:
    """Whether an item is a predicate; one with a step behind it is an expression."""
    return item.is_boolean and item.next is None


_FLAGS = "ismxq"


def _like_regex(left: Item, pattern: str, flags: str) -> Item:
    for flag in flags:
        if flag not in _FLAGS:
            detail = f'Unrecognized flag character "{flag}" in LIKE_REGEX predicate.'
            raise PgError("42601", "invalid input syntax for type jsonpath", detail=detail)
    known = "".join(flag for flag in _FLAGS if flag in flags)
    compile_regex(pattern, regex_flags(known))
    return Item("like_regex", (pattern, known), (left,))


def regex_flags(flags: str) -> str:
    """XQuery's flags as those of a regular expression (jspConvertRegexFlags)."""
    case = "i" if "i" in flags else ""
    if "q" in flags:
        return case + "q"
    if "x" in flags:
        raise PgError("0A000", 'XQuery "x" flag (expanded regular expressions) is not implemented')
    stops, anchors = "s" not in flags, "m" in flags
    return case + ("n" if stops and anchors else "p" if stops else "w" if anchors else "")


def _check(first: Item, depth: int, in_subscript: bool) -> None:
    """Refuse @ outside filters and LAST outside subscripts (flattenJsonPathParseItem)."""
    for item in steps(first):
        if item.kind == "@" and depth == 0:
            raise PgError("42601", "@ is not allowed in root expressions")
        if item.kind == "last" and not in_subscript:
            raise PgError("42601", "LAST is allowed only in array subscripts")
        for part in parts(item):
            _check(part, depth + (item.kind == "?"), in_subscript or item.kind == "[…]")


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
