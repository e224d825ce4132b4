"""Strings in Spark SQL: positions in code points, length coercion, LIKE and regular expressions.

Patterns go to Java if they are constant and mean the same there, and only for texts so short that backtracking is
bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from pgrepl.expr import tree
from pgrepl.expr.exchange.arithmetic import SparkFunctionCall
from pgrepl.expr.exchange.compiler import NOT_CONSTANT, fall_back
from pgrepl.expr.exchange.moments import output_text
from pgrepl.expr.exchange.sql import Sql, let, raised
from pgrepl.expr.functions import strings as evaluator
from pgrepl.expr.functions.registry import in_spark
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.regex.matching import compile_regex
from pgrepl.types.regex.native import ANY_LENGTH

_LONGEST = 1_000_000  # characters; a longer result may be too large for PostgreSQL


# ---------------------------------------------------------------------------------------------------------------- case


@cache
def _changed(upper: bool) -> tuple[str, str]:
    """The non-ASCII characters that upper() or lower() changes, and their mapping."""
    change = evaluator.upper if upper else evaluator.lower
    pairs = [(chr(n), change(chr(n))) for n in range(0x80, 0x20000) if not 0xD800 <= n < 0xE000]
    pairs = [(old, new) for old, new in pairs if old != new]
    return "".join(old for old, _ in pairs), "".join(new for _, new in pairs)


def _case(function: str) -> Callable[[SparkFunctionCall], Sql]:
    """upper() and lower(): Spark maps whole strings (`ß` to `SS`, a final sigma), PostgreSQL single characters."""

    def make(call: SparkFunctionCall) -> Sql:
        bind = call.compiler.statement.bind
        old, new = (bind(text) for text in _changed(function == "upper"))

        def body(a: str) -> str:
            plain = f"char_length({a}) = octet_length({a})"
            return f"CASE WHEN {plain} THEN {function}({a}) ELSE translate({_ascii(a)}, {old}, {new}) END"

        def _ascii(a: str) -> str:
            small, large = "'abcdefghijklmnopqrstuvwxyz'", "'ABCDEFGHIJKLMNOPQRSTUVWXYZ'"
            pair = (small, large) if function == "upper" else (large, small)
            return f"translate({a}, {pair[0]}, {pair[1]})"

        return Sql(let([call.value(0)], body), "STRING")

    return make


in_spark("lower")(_case("lower"))
in_spark("upper")(_case("upper"))


# ------------------------------------------------------------------------------------------------------------- cutting


@in_spark("text_substr_no_len")
def text_substr_no_len(call: SparkFunctionCall) -> Sql | None:
    start = call.constant(1)
    if start is NOT_CONSTANT:
        first = call.text(1)
        return Sql(f"substring({call.text(0)}, CASE WHEN {first} < 1 THEN 1 ELSE {first} END)", "STRING")
    return Sql(f"substring({call.text(0)}, {max(start, 1)})", "STRING")


@in_spark("text_substr")
def text_substr(call: SparkFunctionCall) -> Sql | None:
    start, length = call.constant(1), call.constant(2)
    if start is not NOT_CONSTANT and length is not NOT_CONSTANT:
        if length < 0:
            return None
        taken = min(max(start + length - max(start, 1), 0), 2**31 - 1)
        return Sql(f"substring({call.text(0)}, {max(start, 1)}, {taken})", "STRING")
    error = raised(PgError("22011", "negative substring length not allowed"))

    def body(a: str, first: str, size: str) -> str:
        begin = f"CASE WHEN {first} < 1 THEN 1 ELSE {first} END"
        rest = f"CAST({first} AS BIGINT) + {size} - {begin}"
        taken = f"CAST(CASE WHEN {rest} < 0 THEN 0 WHEN {rest} > 2147483647 THEN 2147483647 ELSE {rest} END AS INT)"
        known = f"{a} IS NOT NULL AND {first} IS NOT NULL"
        return f"CASE WHEN {size} < 0 AND {known} THEN {error} ELSE substring({a}, {begin}, {taken}) END"

    return Sql(let(call.values(), body), "STRING")


@in_spark("text_left")
def text_left(call: SparkFunctionCall) -> Sql | None:
    count = call.constant(1)
    if count is NOT_CONSTANT:
        return None
    if count >= 0:
        return Sql(f"substring({call.text(0)}, 1, {count})", "STRING")
    return Sql(let([call.value(0)], lambda a: f"substring({a}, 1, greatest(char_length({a}) - {-count}, 0))"), "STRING")


@in_spark("text_right")
def text_right(call: SparkFunctionCall) -> Sql | None:
    count = call.constant(1)
    if count is NOT_CONSTANT:
        return None
    if count == -(2**31):
        return Sql(call.text(0), "STRING")
    if count < 0:
        return Sql(f"substring({call.text(0)}, {min(1 - count, 2**31 - 1)})", "STRING")
    return Sql(f"right({call.text(0)}, {count})", "STRING")


@in_spark("split_part")
def split_part(call: SparkFunctionCall) -> Sql | None:
    separator, number = call.constant(1), call.constant(2)
    if not isinstance(separator, str) or not separator or number is NOT_CONSTANT or number == 0:
        return None
    return Sql(f"split_part({call.text(0)}, {call.text(1)}, {number})", "STRING")


def _padding(function: str) -> Callable[[SparkFunctionCall], Sql | None]:
    def make(call: SparkFunctionCall) -> Sql | None:
        length = call.constant(1)
        fill = call.constant(2) if len(call.args) > 2 else " "
        if length is NOT_CONSTANT or not isinstance(fill, str) or length > _LONGEST:
            return None
        if length <= 0 or not fill:
            return Sql(f"substring({call.text(0)}, 1, {max(length, 0)})", "STRING")
        return Sql(f"{function}({call.text(0)}, {length}, {call.compiler.statement.bind(fill)})", "STRING")

    return make


in_spark("lpad", "lpad(text,integer)")(_padding("lpad"))
in_spark("rpad", "rpad(text,integer)")(_padding("rpad"))


@in_spark("repeat")
def repeat(call: SparkFunctionCall) -> Sql | None:
    count = call.constant(1)
    if count is NOT_CONSTANT or count > 1000:
        return None
    return Sql(f"repeat({call.text(0)}, {max(count, 0)})", "STRING")


# ------------------------------------------------------------------------------------------------------------- joining


in_spark("anytextcat(anynonarray,text)")(lambda call: _joined(call, 0))
in_spark("textanycat(text,anynonarray)")(lambda call: _joined(call, 1))


def _joined(call: SparkFunctionCall, other: int) -> Sql | None:
    """|| of a text and a value of another type, cast to text."""
    written = output_text(call.args[other], call.compiler, as_cast=True)
    if written is None:
        return None
    parts = [call.text(1 - other)]
    parts.insert(other, written)
    return Sql(f"concat({', '.join(parts)})", "STRING")


in_spark("text_concat")(lambda call: _concatenated(call, "''", 0))
in_spark("text_concat_ws")(lambda call: _concatenated(call, call.text(0), 1))


def _concatenated(call: SparkFunctionCall, separator: str, first: int) -> Sql | None:
    """concat(): NULLs are skipped."""
    written = [output_text(arg, call.compiler) for arg in call.args[first:]]
    if any(text is None for text in written):
        return None
    return Sql(f"concat_ws({', '.join([separator, *[text for text in written if text is not None]])})", "STRING")


# ------------------------------------------------------------------------------------------------------------- lengths


def _fitted(typename: str, padded: bool) -> Callable[[SparkFunctionCall], Sql | None]:
    """varchar(n) and char(n): excess characters must be blanks, except in an explicit cast."""

    def make(call: SparkFunctionCall) -> Sql | None:
        typmod, explicit = call.constant(1), call.constant(2)
        if typmod is NOT_CONSTANT or explicit is NOT_CONSTANT:
            return None
        if typmod < 4:
            return Sql(call.text(0), "STRING")
        length = typmod - 4
        error = raised(PgError("22001", f"value too long for type {typename}({length})"))

        def body(a: str) -> str:
            short = f"rpad({a}, {length}, ' ')" if padded else a
            cut = f"substring({a}, 1, {length})"
            whens = [f"WHEN char_length({a}) <= {length} THEN {short}"]
            if not explicit:
                whens.append(f"WHEN rtrim(substring({a}, {length + 1})) <> '' THEN {error}")
            return f"CASE {' '.join(whens)} ELSE {cut} END"

        return Sql(let([call.value(0)], body), "STRING")

    return make


in_spark("varchar")(_fitted("character varying", padded=False))
in_spark("bpchar")(_fitted("character", padded=True))


@in_spark("to_hex32", "to_hex64")
def to_hex(call: SparkFunctionCall) -> Sql:
    value = call.value(0)
    if call.args[0].type == oids.INT4:
        return Sql(f"lower(hex(CAST({value.text} AS BIGINT) & 4294967295L))", "STRING")
    return Sql(f"lower(hex({value.text}))", "STRING")


# --- patterns ---------------------------------------------------------------------------------------------------------


_ANY, _ONE = "%", "_"
Token = tuple[str, bool]  # a character, and whether it is a wildcard


def tokens(pattern: str) -> list[Token] | None:
    """The tokens of a LIKE pattern; None when it ends in its escape character, which is an error only for texts that
    reach it."""
    pattern_tokens: list[Token] = []
    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            following = next(chars, None)
            if following is None:
                return None
            pattern_tokens.append((following, False))
        elif char == _ANY:
            if pattern_tokens[-1:] != [(_ANY, True)]:
                pattern_tokens.append((_ANY, True))
        else:
            pattern_tokens.append((char, char == _ONE))
    return pattern_tokens


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
        matched = _matched(subject, parts, call.compiler.statement.bind)
        return Sql(f"(NOT {matched})" if negated else matched, "BOOLEAN")

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
    in_spark(f"{_prefix}like")(_like(negated=False, ignore_case=False))
    in_spark(f"{_prefix}nlike")(_like(negated=True, ignore_case=False))
    in_spark(f"{_prefix}iclike")(_like(negated=False, ignore_case=True))
    in_spark(f"{_prefix}icnlike")(_like(negated=True, ignore_case=True))


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
    for match in re.finditer(rf"{_CLASS}|{_ESCAPED}|\$", pattern):
        out += [pattern[at : match.start()], r"\z" if match[0] == "$" else match[0]]
        at = match.end()
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
        matched = f"({call.text(0)} RLIKE {call.compiler.statement.bind(java)})"
        if negated:
            matched = f"(NOT {matched})"
        upto = _longest_text(pattern)
        if upto == ANY_LENGTH:
            return Sql(matched, "BOOLEAN")
        column = call.compiler.named(call.args[0])
        if upto == 0 or column is None or not isinstance(call.node, tree.Expr):
            return None
        short = f"(char_length({column.text}) <= {upto})"
        rest = fall_back(call.node, call.compiler, unless=short)
        return Sql(f"CASE WHEN {short} THEN {matched} ELSE {rest.text} END", "BOOLEAN")

    return make


for _prefix in ("text", "name"):
    in_spark(f"{_prefix}regexeq")(_regex(negated=False))
    in_spark(f"{_prefix}regexne")(_regex(negated=True))
