"""json and jsonb: a parser that keeps locations and raises PostgreSQL's errors, and jsonb's canonical text.

A json value is its text. A jsonb value is its canonical text too (class `Jsonb`); `jsonb_tree` gives it as Python
objects: dict, list, str, Decimal, bool, None.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.types.input_checks import LETTER_OR_DIGIT, stack_depth_exceeded
from pgrepl.types.numeric import read_numeric, write_numeric


class Jsonb(str):
    """A jsonb value, as its canonical text."""

    __slots__ = ()


@dataclass(slots=True)
class JsonNode:
    """A parsed JSON value and its location. value: pairs, nodes, the string, or None."""

    kind: str  # object, array, string, number, true, false, null
    start: int
    end: int
    value: Any = None


def _reject(text: str) -> NoReturn:
    raise ValueError(text)


_VALIDATOR = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_reject)


def read_json(text: str) -> str:
    """The text of a json value, validated."""
    try:
        _VALIDATOR.decode(text)
    except ValueError:
        parse_json(text, decode=False)
    except RecursionError:
        raise stack_depth_exceeded() from None
    return text


def read_jsonb(text: str) -> Jsonb:
    return to_jsonb(parse_tree(text))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return sorted_object(dict(pairs))


_TREE_DECODER = json.JSONDecoder(
    parse_float=read_numeric, parse_int=read_numeric, parse_constant=_reject, object_pairs_hook=_pairs
)
_DOUBTFUL = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def parse_tree(text: str) -> Any:
    """A JSON text as Python objects; keys in jsonb's order, the last of equal keys is kept."""
    if not _DOUBTFUL.search(text):
        try:
            return _TREE_DECODER.decode(text)
        except ValueError:
            pass
        except RecursionError:
            raise stack_depth_exceeded() from None
    return tree_of(parse_json(text, decode=True), text)


def tree_of(node: JsonNode, text: str) -> Any:
    if node.kind == "object":
        return sorted_object({key: tree_of(value, text) for key, value in node.value})
    if node.kind == "array":
        return [tree_of(value, text) for value in node.value]
    if node.kind == "string":
        return node.value
    if node.kind == "number":
        return read_numeric(text[node.start : node.end])
    return {"true": True, "false": False, "null": None}[node.kind]


def jsonb_tree(value: Jsonb | str) -> Any:
    return parse_tree(value)


def sorted_object(pairs: dict[str, Any]) -> dict[str, Any]:
    """An object with its keys in jsonb's order: shorter keys first, then by bytes."""
    if len(pairs) < 2:
        return pairs
    return dict(sorted(pairs.items(), key=lambda pair: _key_order(pair[0])))


def _key_order(key: str) -> tuple[int, bytes]:
    encoded = key.encode()
    return len(encoded), encoded


def to_jsonb(tree: Any) -> Jsonb:
    out: list[str] = []
    try:
        _write(tree, out)
    except RecursionError:
        raise stack_depth_exceeded() from None
    return Jsonb("".join(out))


def _write(tree: Any, out: list[str]) -> None:
    if isinstance(tree, str):
        out.append(escape_json(tree))
    elif tree is None:
        out.append("null")
    elif isinstance(tree, bool):
        out.append("true" if tree else "false")
    elif isinstance(tree, dict):
        out.append("{")
        for n, (key, value) in enumerate(tree.items()):
            out.append(f"{', ' if n else ''}{escape_json(key)}: ")
            _write(value, out)
        out.append("}")
    elif isinstance(tree, list):
        out.append("[")
        for n, value in enumerate(tree):
            if n:
                out.append(", ")
            _write(value, out)
        out.append("]")
    else:
        assert isinstance(tree, Decimal)
        out.append(write_numeric(tree))


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def escape_json(text: str) -> str:
    """As escape_json does: a quoted JSON string."""
    return '"' + _TO_ESCAPE.sub(lambda m: _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04x}", text) + '"'


_SPACE = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(LETTER_OR_DIGIT + "+")
_NUMBER = re.compile(rf"-?(?:0|[1-9][0-9]*)(?:(?:\.[0-9]+)?[eE][-+]?[0-9]+|\.[0-9]+|(?!\.))(?!{LETTER_OR_DIGIT})")
_NUMBER_LIKE = re.compile(rf"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]*)?{LETTER_OR_DIGIT}*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_UNESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_DETAILS = {
    "END": "Expected end of input, but found",
    "VALUE": "Expected JSON value, but found",
    "STRING": "Expected string, but found",
    "ARRAY_NEXT": 'Expected "," or "]", but found',
    "OBJECT_START": 'Expected string or "}", but found',
    "OBJECT_LABEL": 'Expected ":", but found',
    "OBJECT_NEXT": 'Expected "," or "}", but found',
}


def parse_json(text: str, *, decode: bool) -> JsonNode:
    """The text as nodes. decode: unescape strings, and reject escapes of characters that text cannot hold."""
    return _Parser(text, decode).parse()


class _Parser:
    """As json_lex and pg_parse_json do, but with an explicit stack, so that nesting needs no recursion."""

    def __init__(self, text: str, decode: bool) -> None:
        self.text = text
        self.decode = decode
        self.start = 0  # of the current token
        self.end = 0
        self.kind = ""
        self.value = ""

    def parse(self) -> JsonNode:
        stack: list[JsonNode] = []
        keys: list[str] = []
        self.next()
        while True:
            if self.kind in ("{", "["):
                opening = self.kind
                node = JsonNode("object" if opening == "{" else "array", self.start, 0, [])
                stack.append(node)
                self.next()
                if self.kind == ("}" if opening == "{" else "]"):
                    done = self.close(stack)
                else:
                    if opening == "{":
                        keys.append(self.key("OBJECT_START"))
                    continue
            elif self.kind in ("string", "number", "true", "false", "null"):
                done = JsonNode(self.kind, self.start, self.end, self.value if self.kind == "string" else None)
            else:
                self.unexpected("VALUE")
            # a value is complete: add it to its parent
            while True:
                self.next()
                if not stack:
                    if self.kind != "end":
                        self.unexpected("END")
                    return done
                parent = stack[-1]
                if parent.kind == "object":
                    parent.value.append((keys.pop(), done))
                    if self.kind == ",":
                        self.next()
                        keys.append(self.key("STRING"))
                        break
                    if self.kind != "}":
                        self.unexpected("OBJECT_NEXT")
                else:
                    parent.value.append(done)
                    if self.kind == ",":
                        self.next()
                        break
                    if self.kind != "]":
                        self.unexpected("ARRAY_NEXT")
                done = self.close(stack)

    def close(self, stack: list[JsonNode]) -> JsonNode:
        node = stack.pop()
        node.end = self.end
        return node

    def key(self, expected: str) -> str:
        if self.kind != "string":
            self.unexpected(expected)
        key = self.value
        self.next()
        if self.kind != ":":
            self.unexpected("OBJECT_LABEL")
        self.next()
        return key

    def next(self) -> None:
        space = _SPACE.match(self.text, self.end)
        assert space is not None
        self.start = self.end = space.end()
        char = self.text[self.start : self.start + 1]
        if not char:
            self.kind = "end"
        elif char in "{}[],:":
            self.end += 1
            self.kind = char
        elif char == '"':
            self.string()
            self.kind = "string"
        elif char in "-0123456789":
            match = _NUMBER.match(self.text, self.start)
            if match is None:
                match = _NUMBER_LIKE.match(self.text, self.start)
                assert match is not None
                self.end = match.end()
                self.invalid_token()
            self.end = match.end()
            self.kind = "number"
        else:
            match = _WORD.match(self.text, self.start)
            self.end = match.end() if match else self.start + 1
            if match is None or match[0] not in ("true", "false", "null"):
                self.invalid_token()
            self.kind = match[0]

    def string(self) -> None:
        out: list[str] = []
        high = 0  # a high surrogate that waits for its low one
        at = self.start + 1
        while True:
            char = self.text[at : at + 1]
            if not char:
                self.end = at
                self.invalid_token()
            if char == '"':
                break
            if char == "\\":
                escape = self.text[at + 1 : at + 2]
                at += 2
                if not escape:
                    self.end = at - 1
                    self.invalid_token()
                if escape == "u":
                    code = self.hex4(at)
                    at += 4
                    if not self.decode:
                        continue
                    if 0xD800 <= code <= 0xDBFF:
                        if high:
                            self.fail_at(at, "Unicode high surrogate must not follow a high surrogate.")
                        high = code
                        continue
                    if (0xDC00 <= code <= 0xDFFF) != bool(high):
                        self.fail_at(at, "Unicode low surrogate must follow a high surrogate.")
                    if high:
                        code, high = 0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF), 0
                    if code == 0:
                        self.end = at
                        self.fail(
                            "\\u0000 cannot be converted to text.", "22P05", "unsupported Unicode escape sequence"
                        )
                    out.append(chr(code))
                    continue
                if high:
                    self.fail_at(at, "Unicode low surrogate must follow a high surrogate.")
                if escape not in _UNESCAPED:
                    self.fail_at(at, f'Escape sequence "\\{escape}" is invalid.')
                out.append(_UNESCAPED[escape])
                continue
            if high:
                self.fail_at(at + 1, "Unicode low surrogate must follow a high surrogate.")
            if char < " ":
                self.fail_at(at, f"Character with value 0x{ord(char):02x} must be escaped.")
            match = _PLAIN.match(self.text, at)
            assert match is not None
            out.append(match[0])
            at = match.end()
        if high:
            self.fail_at(at + 1, "Unicode low surrogate must follow a high surrogate.")
        self.end = at + 1
        self.value = "".join(out)

    def hex4(self, at: int) -> int:
        for n in range(4):
            digit = self.text[at + n : at + n + 1]
            if not digit:
                self.end = at + n
                self.invalid_token()
            if digit not in "0123456789abcdefABCDEF":
                self.fail_at(at + n + 1, '"\\u" must be followed by four hexadecimal digits.')
        return int(self.text[at : at + 4], 16)

    def fail_at(self, end: int, detail: str) -> NoReturn:
        self.end = end
        self.fail(detail)

    def invalid_token(self) -> NoReturn:
        self.fail(f'Token "{self.text[self.start : self.end]}" is invalid.')

    def unexpected(self, expected: str) -> NoReturn:
        if self.kind == "end":
            self.fail("The input string ended unexpectedly.")
        self.fail(f'{_DETAILS[expected]} "{self.text[self.start : self.end]}".')

    def fail(
        self, detail: str, sqlstate: str = "22P02", message: str = "invalid input syntax for type json"
    ) -> NoReturn:
        """As report_json_context does: the line up to the end of the token, at most 50 bytes of it."""
        line_start = self.text.rfind("\n", 0, self.start) + 1
        start = line_start
        while len(self.text[start : self.end].encode()) >= 50:
            start += 1
        if len(self.text[line_start:start].encode()) <= 3:
            start = line_start
        following = self.text[self.end : self.end + 1]
        line = self.text.count("\n", 0, line_start) + 1
        shown = ("..." if start > line_start else "") + self.text[start : self.end]
        shown += "..." if self.kind != "end" and following not in ("", "\n", "\r") else ""
        raise PgError(sqlstate, message, detail=detail, context=f"JSON data, line {line}: {shown}")
