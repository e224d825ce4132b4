"""The syntax of advanced regular expressions, as regcomp.c reads it: a pattern becomes nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgrepl.errors import PgError

MAX_BOUND = 255


@dataclass(frozen=True, slots=True)
class One:
    """One character: a fragment of Python's syntax that matches exactly one."""

    fragment: str


@dataclass(frozen=True, slots=True)
class Border:
    """A constraint without width."""

    fragment: str


@dataclass(frozen=True, slots=True)
class Look:
    opening: str  # (?= (?! (?<= (?<!
    node: Node


@dataclass(frozen=True, slots=True)
class Group:
    node: Node
    number: int  # 0: not captured


@dataclass(frozen=True, slots=True)
class BackReference:
    number: int


@dataclass(frozen=True, slots=True)
class Repeat:
    node: Node
    low: int
    high: int | None
    greedy: bool
    exact: bool = False  # {m}: it prefers what its atom prefers


@dataclass(frozen=True, slots=True)
class Sequence:
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternatives:
    nodes: tuple[Node, ...] = ()


Node = One | Border | Look | Group | BackReference | Repeat | Sequence | Alternatives


def _invalid(reason: str) -> PgError:
    return PgError("2201B", f"invalid regular expression: {reason}")


_CLASSES = {
    "alpha": r"^\W\d_",
    "digit": "0-9",
    "alnum": r"^\W_",
    "upper": "A-ZÀ-ÖØ-Þ",
    "lower": "a-zß-öø-ÿ",
    "space": r"\s",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
    "print": r" -~\u00a0-\U0010ffff",
    "graph": r"!-~\u00a1-\U0010ffff",
    "cntrl": r"\x00-\x1f\x7f-\x9f",
    "xdigit": "0-9A-Fa-f",
    "word": r"\w",
}
_ESCAPED = {"a": "\a", "b": "\b", "B": "\\", "e": "\033", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SHORTHANDS = {"d": "[0-9]", "D": "[^0-9]", "s": r"\s", "S": r"\S", "w": r"\w", "W": r"\W"}
_BORDERS = {
    "A": r"\A",
    "Z": r"\Z",
    "m": r"(?<!\w)(?=\w)",
    "M": r"(?<=\w)(?!\w)",
    "y": r"\b",
    "Y": r"\B",
}


@dataclass(slots=True)
class _Options:
    ignore_case: bool = False
    expanded: bool = False
    literal: bool = False
    newline_stops: bool = False  # . and [^…] do not match a newline
    newline_anchors: bool = False  # ^ and $ match at newlines
    basic: bool = False

    def set(self, flag: str) -> bool:
        if flag == "i":
            self.ignore_case = True
        elif flag == "c":
            self.ignore_case = False
        elif flag == "x":
            self.expanded = True
        elif flag == "t":
            self.expanded = False
        elif flag == "q":
            self.literal = True
        elif flag == "b":
            self.basic = True
        elif flag in "nm":
            self.newline_stops = self.newline_anchors = True
        elif flag == "s":
            self.newline_stops = self.newline_anchors = False
        elif flag == "p":
            self.newline_stops, self.newline_anchors = True, False
        elif flag == "w":
            self.newline_stops, self.newline_anchors = False, True
        else:
            return flag == "e"
        return True


class Parser:
    def __init__(self, pattern: str, flags: str) -> None:
        self.text = pattern
        self.at = 0
        self.options = _Options()
        self.groups = 0
        self.open_groups: list[int] = []
        for flag in flags:
            self.options.set(flag)
        if self.options.basic:
            raise PgError("0A000", "basic regular expressions (option b) are not supported")
        self.prefixes()

    def prefixes(self) -> None:
        """`***:`, `***=` and `(?options)` in front."""
        if self.text.startswith("***="):
            self.options.literal = True
            self.at = 4
        elif self.text.startswith("***:"):
            self.at = 4
        elif self.text.startswith("***"):
            raise _invalid("quantifier operand invalid")
        if self.options.literal:
            return
        found = re.compile(r"\(\?([^\W\d_]+)(.?)", re.DOTALL).match(self.text, self.at)
        if found:
            for flag in found[1]:
                if not self.options.set(flag):
                    raise _invalid("invalid embedded option")
            if found[2] != ")":
                raise _invalid("invalid embedded option")
            self.at = found.end()

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def parse(self) -> Node:
        if self.options.literal:
            return Sequence(tuple(One(re.escape(char)) for char in self.text[self.at :]))
        node = self.alternatives()
        if self.at < len(self.text):
            raise _invalid("parentheses () not balanced")
        return node

    def skip_comments(self) -> None:
        """White space and # comments in expanded syntax, and (?#…) everywhere."""
        while True:
            if self.peek(3) == "(?#":
                end = self.text.find(")", self.at)
                self.at = len(self.text) if end < 0 else end + 1
            elif self.options.expanded and self.peek() and self.peek() in " \t\n\r\f\v":
                self.at += 1
            elif self.options.expanded and self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end + 1
            else:
                return

    def alternatives(self) -> Node:
        branches = [self.branch()]
        while self.peek() == "|":
            self.at += 1
            branches.append(self.branch())
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def branch(self) -> Node:
        nodes: list[Node] = []
        while True:
            self.skip_comments()
            char = self.peek()
            if not char or char == "|" or (char == ")" and self.open_groups):
                return Sequence(tuple(nodes))
            nodes.append(self.quantified())

    def quantified(self) -> Node:
        char = self.peek()
        if char in ("*", "+", "?"):
            raise _invalid("quantifier operand invalid")
        if char == "{" and self.text[self.at + 1 : self.at + 2].isdigit():
            raise _invalid("quantifier operand invalid")
        node = self.atom()
        self.skip_comments()
        start = self.at
        bounds = self.bounds()
        if bounds is None:
            return node
        if isinstance(node, (Border, Look)):
            raise _invalid("quantifier operand invalid")
        greedy = True
        if self.peek() == "?":
            self.at += 1
            greedy = False
        self.skip_comments()
        if self.peek() in ("*", "+", "?") and self.peek():
            raise _invalid("quantifier operand invalid")
        exact = self.text[start : self.at].strip("{}?").isdigit()
        return Repeat(node, bounds[0], bounds[1], greedy, exact)

    def bounds(self) -> tuple[int, int | None] | None:
        char = self.peek()
        if char and char in "*+?":
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        if char != "{" or not self.text[self.at + 1 : self.at + 2].isdigit():
            return None
        found = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?").match(self.text, self.at)
        assert found is not None
        low = int(found[1])
        high = low if found[2] is None else int(found[3]) if found[3] else None
        if low > MAX_BOUND or (high is not None and (high > MAX_BOUND or high < low)):
            raise _invalid("invalid repetition count(s)")
        self.at = found.end()
        if self.peek() != "}":
            raise _invalid("braces {} not balanced" if not self.peek() else "invalid repetition count(s)")
        self.at += 1
        return low, high

    def atom(self) -> Node:
        char = self.peek()
        self.at += 1
        if char == "(":
            return self.parenthesized()
        if char == ")":
            raise _invalid("parentheses () not balanced")
        if char == "[":
            return self.bracket()
        if char == ".":
            return One(r"[^\n]" if self.options.newline_stops else r"[\s\S]")
        if char == "^":
            return Border(r"(?m:^)" if self.options.newline_anchors else r"\A")
        if char == "$":
            return Border(r"(?m:$)" if self.options.newline_anchors else r"\Z")
        if char == "\\":
            return self.escape()
        return One(re.escape(char))

    def parenthesized(self) -> Node:
        opening = next((o for o in ("?<=", "?<!", "?:", "?=", "?!") if self.text.startswith(o, self.at)), "")
        if self.peek() == "?" and not opening:
            raise _invalid("quantifier operand invalid")
        self.at += len(opening)
        number = 0
        if not opening:
            self.groups += 1
            number = self.groups
        self.open_groups.append(number)
        node = self.alternatives()
        self.open_groups.pop()
        if self.peek() != ")":
            raise _invalid("parentheses () not balanced")
        self.at += 1
        if opening not in ("", "?:"):
            return Look("(" + opening, node)
        return Group(node, number)

    def escape(self) -> Node:
        char = self.peek()
        if not char:
            raise _invalid("invalid escape \\ sequence")
        if char in _BORDERS:
            self.at += 1
            return Border(_BORDERS[char])
        if char in _SHORTHANDS:
            self.at += 1
            return One(self.shorthand(char))
        if char in "123456789":
            found = re.compile("[0-9]+").match(self.text, self.at)
            assert found is not None
            number = int(found[0])
            if len(found[0]) == 1 or number <= self.groups:
                self.at = found.end()
                if number > self.groups or number in self.open_groups:
                    raise _invalid("invalid backreference number")
                return BackReference(number)
        return One(re.escape(self.escaped_character()))

    def shorthand(self, char: str) -> str:
        if self.options.newline_stops and char in "DSW":
            return {"D": r"[^0-9\n]", "S": r"\S", "W": r"[^\w\n]"}[char]
        return _SHORTHANDS[char]

    def escaped_character(self) -> str:
        """The character that an escape stands for; `at` is behind the backslash."""
        char = self.peek()
        self.at += 1
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char == "c":
            control = self.peek()
            if not control:
                raise _invalid("invalid escape \\ sequence")
            self.at += 1
            return chr(ord(control) & 0x1F)
        if char in "uUx":
            digits = {"u": "[0-9a-fA-F]{4}", "U": "[0-9a-fA-F]{8}", "x": "[0-9a-fA-F]+"}[char]
            found = re.compile(digits).match(self.text, self.at)
            if found is None or int(found[0], 16) > 0x10FFFF:
                raise _invalid("invalid escape \\ sequence")
            self.at = found.end()
            return chr(int(found[0], 16))
        if char in "01234567":
            found = re.compile("[0-7]{1,3}").match(self.text, self.at - 1)
            assert found is not None
            self.at = found.end()
            return chr(int(found[0], 8))
        if char.isascii() and char.isalnum():
            raise _invalid("invalid escape \\ sequence")
        return char

    def bracket(self) -> Node:
        """A bracket expression as a Python fragment; classes of several parts become alternatives of one character."""
        if self.text.startswith("[:<:]]", self.at):
            self.at += 6
            return Border(_BORDERS["m"])
        if self.text.startswith("[:>:]]", self.at):
            self.at += 6
            return Border(_BORDERS["M"])
        negated = self.peek() == "^"
        self.at += negated
        parts: list[str] = []
        whole: list[str] = []  # fragments that cannot stand inside another bracket
        first = True
        while first or self.peek() != "]":
            if not self.peek():
                raise _invalid("brackets [] not balanced")
            first = False
            if self.peek(2) == "[:":
                name = self.named("[:", ":]")
                if name not in _CLASSES:
                    raise _invalid("invalid character class")
                self.add_class(_CLASSES[name], parts, whole)
                continue
            if self.peek() == "\\" and self.text[self.at + 1 : self.at + 2] in ("d", "s", "w", "D", "S", "W"):
                short = self.text[self.at + 1]
                self.at += 2
                if short in "DSW":
                    whole.append(self.shorthand(short))
                else:
                    parts.append({"d": "0-9", "s": r"\s", "w": r"\w"}[short])
                continue
            low = self.element()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.element()
                if high < low:
                    raise _invalid("invalid character range")
                parts.append(f"{_in_bracket(low)}-{_in_bracket(high)}")
            else:
                parts.append(_in_bracket(low))
        self.at += 1
        return One(self.joined(parts, whole, negated))

    def add_class(self, members: str, parts: list[str], whole: list[str]) -> None:
        if members.startswith("^"):
            whole.append(f"[{members}]")
        else:
            parts.append(members)

    def joined(self, parts: list[str], whole: list[str], negated: bool) -> str:
        if negated and self.options.newline_stops:
            parts = [*parts, "\\n"]
        if not whole:
            return f"[{'^' if negated else ''}{''.join(parts)}]"
        alternatives = "|".join([f"[{''.join(parts)}]"] * bool(parts) + whole)
        return rf"(?!{alternatives})[\s\S]" if negated else f"(?:{alternatives})"

    def element(self) -> str:
        for opening, closing in (("[.", ".]"), ("[=", "=]")):
            if self.peek(2) == opening:
                name = self.named(opening, closing)
                if len(name) != 1:
                    raise _invalid("invalid collating element")
                return name
        char = self.peek()
        if not char:
            raise _invalid("brackets [] not balanced")
        self.at += 1
        if char == "\\":
            if not self.peek() or re.compile("[1-9](?![0-9])").match(self.text, self.at):
                raise _invalid("invalid escape \\ sequence")
            return self.escaped_character()
        return char

    def named(self, opening: str, closing: str) -> str:
        end = self.text.find(closing, self.at + 2)
        if end < 0:
            raise _invalid("brackets [] not balanced")
        name = self.text[self.at + 2 : end]
        self.at = end + 2
        return name


def _in_bracket(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char
