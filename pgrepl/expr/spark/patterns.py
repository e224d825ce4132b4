"""LIKE, ILIKE and regular expressions: native for constant patterns that mean the same in Java.

Spark reads files faster by a prefix than by a pattern, so `x LIKE 'ab%'` becomes startswith. Java's regular expressions
backtrack: Java gets only texts so short that the number of attempts is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pgrepl.expr import tree
from pgrepl.expr.spark.fallback import fall_back
from pgrepl.expr.spark.functions import SparkFunctionCall, native
from pgrepl.expr.spark.sql import Sql
from pgrepl.types.regex.matching import compile_regex
from pgrepl.types.regex.native import ANY_LENGTH

_ANY, _ONE = "%", "_"
Token = tuple[str, bool]  # a character, and whether it is a wildcard


def tokens(pattern: str) -> list[Token] | None:
    """The tokens of a LIKE pattern; None when it ends in its escape character, which is an error only for texts that
    reach it."""
    found: list[Token] = []
    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            following = next(chars, None)
            if following is None:
                return None
            found.append((following, False))
        elif char == _ANY:
            if found[-1:] != [(_ANY, True)]:
                found.append((_ANY, True))
        else:
            found.append((char, char == _ONE))
    return found


def _like(negated: bool, ignore_case: bool) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        pattern = call.constant(1)
        if not isinstance(pattern, str):
            return None
        parts = tokens(pattern)
        if parts is None or (ignore_case and not pattern.isascii()):
            return None
        subject = call.text(0)
        if ignore_case:
            parts = [(char if special else char.lower(), special) for char, special in parts]
            subject = f"lower(translate({subject}, '\\u0130', 'i'))"  # Java's lower() makes two characters of it
        found = _matched(subject, parts, call.compiler.statement.bind)
        return Sql(f"(NOT {found})" if negated else found, "BOOLEAN")

    return make


def _matched(subject: str, parts: list[Token], bind: Callable[[str], str]) -> str:
    special = [n for n, (_, special) in enumerate(parts) if special]
    word = "".join(char for char, special in parts if not special)
    count = len(parts)
    if all(parts[n][0] == _ANY for n in special):
        if not special:
            return f"({subject} = {bind(word)})"
        if special == [count - 1]:
            return f"startswith({subject}, {bind(word)})"
        if special == [0]:
            return f"endswith({subject}, {bind(word)})"
        if special == [0, count - 1]:
            return f"contains({subject}, {bind(word)})"
    if sum(char == _ANY and wild for char, wild in parts) > 1:
        return f"({subject} RLIKE {bind(_in_pieces(parts))})"
    pattern = "".join(char if wild or char not in "%_\\" else "\\" + char for char, wild in parts)
    return f"({subject} LIKE {bind(pattern)})"


def _in_pieces(parts: list[Token]) -> str:
    """A Java pattern that keeps the first match of each piece between two %, without backtracking (atomic groups)."""
    pieces = [""]
    for char, wild in parts:
        if wild and char == _ANY:
            pieces.append("")
        else:
            pieces[-1] += "." if wild else re.escape(char) if char.isascii() else char
    first, *inner, last = pieces
    return f"(?s)\\A{first}{''.join(f'(?>.*?{piece})' for piece in inner)}.*{last}\\z"


for _prefix in ("text", "name"):
    native(f"{_prefix}like")(_like(negated=False, ignore_case=False))
    native(f"{_prefix}nlike")(_like(negated=True, ignore_case=False))
    native(f"{_prefix}iclike")(_like(negated=False, ignore_case=True))
    native(f"{_prefix}icnlike")(_like(negated=True, ignore_case=True))


# ------------------------------------------------------------------------------------------------- regular expressions

_PLAIN = r"[A-Za-z0-9 _,;:=<>@#%&'\"~`!/-]"
_CLASS = r"\[\^?(?:[A-Za-z0-9_ ,;:=@#%.](?:-[A-Za-z0-9])?)+\]"
_ESCAPED = r"\\[.\\*+?()\[\]{}|^$]"
_ATOM = rf"(?:{_PLAIN}|{_CLASS}|{_ESCAPED}|\.)"
_QUANTIFIER = r"(?:[*+?]|\{\d{1,2}(?:,\d{0,2})?\})?"
_BRANCH = rf"\^?(?:{_ATOM}{_QUANTIFIER})*\$?"
_SIMPLE = re.compile(rf"{_BRANCH}(?:\|{_BRANCH})*", re.ASCII)
_RANGE = re.compile(r"([A-Za-z0-9])-([A-Za-z0-9])")


def java_regex(pattern: str) -> str | None:
    """The regular expression in Java's syntax; None where Java might read it differently. It only tests for a match, so
    it does not matter which of several matches Java finds."""
    if _SIMPLE.fullmatch(pattern) is None or any(a > b for a, b in _RANGE.findall(pattern)):
        return None
    if re.search(r"[*+?}][*+?{]", pattern) or (
        re.search(r"\{(\d+),(\d+)\}", pattern) and not _bounds_in_order(pattern)
    ):
        return None
    out = []
    at = 0
    for found in re.finditer(rf"{_CLASS}|{_ESCAPED}|\$", pattern):
        out += [pattern[at : found.start()], r"\z" if found[0] == "$" else found[0]]
        at = found.end()
    return "(?s)" + "".join(out) + pattern[at:]


def _longest_text(pattern: str) -> int:
    """The length up to which Java may search a text."""
    native = compile_regex(pattern).native
    return 0 if native is None else native.exists_upto


def _bounds_in_order(pattern: str) -> bool:
    return all(int(low) <= int(high) for low, high in re.findall(r"\{(\d+),(\d+)\}", pattern))


def _regex(negated: bool) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        pattern = call.constant(1)
        java = java_regex(pattern) if isinstance(pattern, str) else None
        if java is None:
            return None
        found = f"({call.text(0)} RLIKE {call.compiler.statement.bind(java)})"
        if negated:
            found = f"(NOT {found})"
        upto = _longest_text(pattern)
        if upto == ANY_LENGTH:
            return Sql(found, "BOOLEAN")
        column = call.compiler.named(call.args[0])
        if upto == 0 or column is None or not isinstance(call.node, tree.Expr):
            return None
        short = f"(char_length({column.text}) <= {upto})"
        rest = fall_back(call.node, call.compiler, unless=short)
        return Sql(f"CASE WHEN {short} THEN {found} ELSE {rest.text} END", "BOOLEAN")

    return make


for _prefix in ("text", "name"):
    native(f"{_prefix}regexeq")(_regex(negated=False))
    native(f"{_prefix}regexne")(_regex(negated=True))
