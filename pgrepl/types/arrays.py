"""Arrays and their text: `{1,2,NULL}`, `[0:1]={a,"b c"}`, `{{1,2},{3,4}}`.

>>> read_array("{a,NULL,\\"b c\\"}", oids.TEXT, str).items
('a', None, 'b c')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types.input_checks import MAX_ITEMS

MAX_DIMENSIONS = 6
_SPACE = " \t\n\r\v\f"


@frozen
class PgArray:
    """items are in row-major order; an empty array has no dimensions."""

    elemtype: int
    dims: tuple[int, ...]
    lbounds: tuple[int, ...]
    items: tuple[Any, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def array_of(elemtype: int, items: tuple[Any, ...] | list[Any], lower: int = 1) -> PgArray:
    if not items:
        return PgArray(elemtype, (), (), ())
    return PgArray(elemtype, (len(items),), (lower,), tuple(items))


def vector_of(elemtype: int, items: tuple[int, ...] | list[int]) -> PgArray:
    """An oidvector or int2vector: one dimension from 0, even when it is empty."""
    return PgArray(elemtype, (len(items),), (0,), tuple(items))


def write_vector(value: PgArray) -> str:
    return " ".join(map(str, value.items))


_DIMENSION = re.compile(r"([-+]?[0-9]*)(?:(:)([-+]?[0-9]*))?", re.ASCII)


def read_array(
    text: str,
    elemtype: int,
    read_element: Callable[[str], Any],
    delimiter: str = ",",
    read_null: Callable[[], None] | None = None,
) -> PgArray:
    """The array of a literal, as array_in reads it. `read_null` is called for each NULL."""
    return _Reader(text, delimiter).read(elemtype, read_element, read_null)


class _Reader:
    """A one-pass reader of array literals. It learns the dimensions on the way unless they are given."""

    def __init__(self, text: str, delimiter: str) -> None:
        self.text = text
        self.delimiter = delimiter
        self.at = 0

    def fail(self, detail: str) -> NoReturn:
        raise PgError("22P02", f'malformed array literal: "{self.text}"', detail=detail)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1

    def read(self, elemtype: int, read_element: Callable[[str], Any], read_null: Callable[[], None] | None) -> PgArray:
        given = self.read_dimensions()
        if not given:
            if self.peek() != "{":
                self.fail('Array value must start with "{" or dimension information.')
        else:
            if self.peek() != "=":
                self.fail('Missing "=" after array dimensions.')
            self.at += 1
            self.skip_space()
            if self.peek() != "{":
                self.fail('Array contents must start with "{".')
        dims, items = self.read_contents([size for _, size in given], read_element, read_null)
        self.skip_space()
        if self.at < len(self.text):
            self.fail("Junk after closing right brace.")
        if not items:
            return PgArray(elemtype, (), (), ())
        lbounds = tuple(lower for lower, _ in given) or (1,) * len(dims)
        return PgArray(elemtype, tuple(dims), lbounds, tuple(items))

    def read_dimensions(self) -> list[tuple[int, int]]:
        """`[2][-1:3]` → (lower bound, size) each."""
        given: list[tuple[int, int]] = []
        while True:
            self.skip_space()
            if self.peek() != "[":
                return given
            self.at += 1
            if len(given) >= MAX_DIMENSIONS:
                raise _too_many_dimensions()
            match = _DIMENSION.match(self.text, self.at)
            assert match is not None
            if match[1].lstrip("+-") == "":
                self.fail('"[" must introduce explicitly-specified array dimensions.')
            lower, upper = 1, self.bound(match[1])
            self.at = match.end(1)
            if match[2]:
                if match[3].lstrip("+-") == "":
                    self.fail("Missing array dimension value.")
                lower, upper = upper, self.bound(match[3])
                self.at = match.end()
            if self.peek() != "]":
                self.fail('Missing "]" after array dimensions.')
            self.at += 1
            if upper < lower:
                raise PgError("2202E", "upper bound cannot be less than lower bound")
            if upper == 2**31 - 1:
                raise PgError("54000", f"array upper bound is too large: {upper}")
            if upper - lower + 1 > 2**31 - 1:
                raise PgError("54000", f"array size exceeds the maximum allowed ({MAX_ITEMS})")
            given.append((lower, upper - lower + 1))

    def bound(self, digits: str) -> int:
        value = int(digits)
        if not -(2**31) <= value < 2**31:
            raise PgError("54000", "array bound is out of integer range")
        return value

    def read_contents(
        self, given: list[int], read_element: Callable[[str], Any], read_null: Callable[[], None] | None
    ) -> tuple[list[int], list[Any]]:
        """As ReadArrayStr does: from the first { to the } that closes it."""
        dims = given + [-1] * (MAX_DIMENSIONS - len(given))
        ndim = len(given)
        frozen = bool(given)
        counts = [0] * MAX_DIMENSIONS
        items: list[Any] = []
        level = 0
        expect_delimiter = False
        while True:
            kind, word = self.token()
            if kind == "{":
                if expect_delimiter:
                    self.fail('Unexpected "{" character.')
                if level >= MAX_DIMENSIONS:
                    raise _too_many_dimensions()
                counts[level] = 0
                level += 1
                if level > ndim:
                    if frozen:
                        self.fail_dimensions(bool(given))
                    ndim = level
            elif kind == "}":
                if counts[level - 1] > 0 and not expect_delimiter:
                    self.fail('Unexpected "}" character.')
                level -= 1
                if level > 0:
                    counts[level - 1] += 1
                if dims[level] < 0:
                    dims[level] = counts[level]
                elif counts[level] != dims[level]:
                    self.fail_dimensions(bool(given))
                expect_delimiter = True
                if level == 0:
                    return dims[:ndim], items
            elif kind == "delimiter":
                if not expect_delimiter:
                    self.fail(f'Unexpected "{self.delimiter}" character.')
                expect_delimiter = False
            else:
                if expect_delimiter:
                    self.fail("Unexpected array element.")
                if kind == "null" and read_null is not None:
                    read_null()
                items.append(None if kind == "null" else read_element(word))
                frozen = True
                if level != ndim:
                    self.fail_dimensions(bool(given))
                counts[level - 1] += 1
                expect_delimiter = True

    def fail_dimensions(self, given: bool) -> NoReturn:
        if given:
            self.fail("Specified array dimensions do not match array contents.")
        self.fail("Multidimensional arrays must have sub-arrays with matching dimensions.")

    def token(self) -> tuple[str, str]:
        """As ReadArrayToken does: { } delimiter, null, or an element and its text."""
        self.skip_space()
        char = self.peek()
        if not char:
            self.fail("Unexpected end of input.")
        if char in "{}":
            self.at += 1
            return char, ""
        if char == '"':
            return "element", self.quoted()
        if char == self.delimiter:
            self.at += 1
            return "delimiter", ""
        return self.unquoted()

    def quoted(self) -> str:
        out = []
        self.at += 1
        while (char := self.peek()) != '"':
            if char == "\\":
                self.at += 1
                char = self.peek()
            if not char:
                self.fail("Unexpected end of input.")
            out.append(char)
            self.at += 1
        self.at += 1
        self.skip_space()
        if not self.peek():
            self.fail("Unexpected end of input.")
        if self.peek() not in (self.delimiter, "{", "}"):
            self.fail("Incorrectly quoted array element.")
        return "".join(out)

    def unquoted(self) -> tuple[str, str]:
        out: list[str] = []
        solid = 0  # length without trailing white space
        escaped = False
        while (char := self.peek()) not in (self.delimiter, "}"):
            if char == "{":
                self.fail('Unexpected "{" character.')
            if char == '"':
                self.fail("Incorrectly quoted array element.")
            if char == "\\":
                self.at += 1
                char = self.peek()
                escaped = True
                solid = len(out) + 1
            if not char:
                self.fail("Unexpected end of input.")
            out.append(char)
            if char not in _SPACE:
                solid = len(out)
            self.at += 1
        word = "".join(out[:solid])
        return ("null", "") if not escaped and word.lower() == "null" else ("element", word)


def _too_many_dimensions() -> PgError:
    return PgError("54000", f"number of array dimensions exceeds the maximum allowed ({MAX_DIMENSIONS})")


def check_dimensions(count: int) -> None:
    if count > MAX_DIMENSIONS:
        message = f"number of array dimensions ({count}) exceeds the maximum allowed ({MAX_DIMENSIONS})"
        raise PgError("54000", message)


def check_bounds(dims: Sequence[int], lbounds: Sequence[int]) -> None:
    """Check that every subscript fits an integer (ArrayCheckBounds)."""
    for size, lower in zip(dims, lbounds, strict=True):
        if lower + size >= 2**31:
            raise PgError("54000", f"array lower bound is too large: {lower}")


def write_array(value: PgArray, write_element: Callable[[Any], str], delimiter: str = ",") -> str:
    """The text of an array as array_out writes it: quotes where needed, dimensions only when a lower bound is not 1."""
    if not value.items:
        return "{}"
    special = re.compile(rf'[\s"\\{{}}{re.escape(delimiter)}]', re.ASCII)
    words = ["NULL" if item is None else _quoted_element(write_element(item), special) for item in value.items]
    for size in reversed(value.dims):
        words = ["{" + delimiter.join(words[start : start + size]) + "}" for start in range(0, len(words), size)]
    bounds = ""
    if any(lower != 1 for lower in value.lbounds):
        pairs = zip(value.lbounds, value.dims, strict=True)
        bounds = "".join(f"[{lower}:{lower + size - 1}]" for lower, size in pairs) + "="
    return bounds + words[0]


def _quoted_element(word: str, special: re.Pattern[str]) -> str:
    if word and not special.search(word) and word.lower() != "null":
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
