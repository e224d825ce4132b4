"""Pattern matching: SIMILAR TO, POSIX regular expressions and the functions over them, LIKE and ILIKE.

`%` divides a pattern of LIKE into pieces of fixed length, and each piece is searched only once: the time is at most the
text's length times the pattern's.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pgrepl.expr.functions.registry import Family
from pgrepl.expr.functions.strings import in_sql_function, joined, lower
from pgrepl.ground.errors import PgError
from pgrepl.types import input_checks, oids
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.regex.matching import Found, Regex, compile_regex

implements = Family()

# ------------------------------------------------------------------------------------------------------------- SIMILAR


@implements("similar_escape")
def similar_escape(pattern: str | None, escape: str | None) -> str | None:
    """SIMILAR's pattern as a regular expression; NULL for a NULL escape as if there were none."""
    if pattern is None:
        return None
    return _similar(pattern, "\\" if escape is None else escape)


implements("similar_to_escape_1")(lambda pattern: _similar(pattern, "\\"))
implements("similar_to_escape_2")(lambda pattern, escape: _similar(pattern, escape))


def _similar(pattern: str, escape: str) -> str:
    """As similar_escape_internal does: `%` and `_`, alternatives, brackets, and `e"…e"` around the part to cut out."""
    if len(escape) > 1:
        raise PgError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    out = ["^(?:"]
    escaped = False
    quotes = 0
    bracket = 0  # 0 outside, 1 inside, 2 just behind [ or [^
    for char in pattern:
        if escaped:
            if char == '"' and not bracket:
                if quotes == 0:
                    out.append("){1,1}?(")
                elif quotes == 1:
                    out.append("){1,1}(?:")
                else:
                    raise PgError(
                        "2200C", "SQL regular expression may not contain more than two escape-double-quote separators"
                    )
                quotes += 1
            else:
                out.append("\\" + char)
            escaped = False
        elif char == escape:
            escaped = True
        elif bracket:
            out.append("\\\\" if char == "\\" else char)
            if char == "]" and bracket != 2:
                bracket = 0
            elif not (char == "^" and bracket == 2 and out[-2] == "["):
                bracket = 1
        elif char == "[":
            out.append(char)
            bracket = 2
        elif char == "%":
            out.append(".*")
        elif char == "_":
            out.append(".")
        elif char == "(":
            out.append("(?:")
        elif char in "\\.^$":
            out.append("\\" + char)
        else:
            out.append(char)
    return "".join(out) + ")$"


# ------------------------------------------------------------------------------------------------- regular expressions


def matches(text: str, pattern: str, flags: str = "") -> bool:
    return compile_regex(pattern, flags).matches(text)


implements("textregexeq", "nameregexeq")(lambda text, pattern: matches(text, pattern))
implements("textregexne", "nameregexne")(lambda text, pattern: not matches(text, pattern))
implements("texticregexeq", "nameicregexeq")(lambda text, pattern: matches(text, pattern, "i"))
implements("texticregexne", "nameicregexne")(lambda text, pattern: not matches(text, pattern, "i"))


def _options(flags: str, function: str | None = None) -> tuple[str, bool]:
    """The flags as parse_re_flags reads them, and whether `g` was among them."""
    for flag in flags:
        if flag not in "gbceimnpqstwx":
            raise PgError("22023", f'invalid regular expression option: "{flag}"')
    if "g" in flags and function is not None:
        hint = {"regexp_match": "Use the regexp_matches function instead."}.get(function)
        raise PgError("22023", f'{function}() does not support the "global" option', hint=hint)
    return flags.replace("g", ""), "g" in flags


@implements("textregexsubstr")
def textregexsubstr(text: str, pattern: str) -> str | None:
    """substring(text from pattern): the first group where there is one."""
    regex = compile_regex(pattern, "")
    match = regex.search(text)
    if match is None:
        return None
    return match.group(1 if regex.groups else 0)


@implements("substring(text,text,text)")
def substring_similar(text: str, pattern: str, escape: str) -> str | None:
    with in_sql_function("substring"):
        return textregexsubstr(text, _similar(pattern, escape))


@implements("regexp_match_no_flags", "regexp_match")
def regexp_match(text: str, pattern: str, flags: str = "") -> PgArray | None:
    options, _ = _options(flags, "regexp_match")
    regex = compile_regex(pattern, options)
    match = regex.search(text)
    return None if match is None else _groups(match)


def _groups(match: Found) -> PgArray:
    return array_of(oids.TEXT, match.groups() or (match.group(),))


@implements("regexp_matches_no_flags", "regexp_matches")
def regexp_matches(text: str, pattern: str, flags: str = "") -> list[PgArray]:
    options, every = _options(flags)
    regex = compile_regex(pattern, options)
    occurrences = regex.each(text)
    if not every:
        return [_groups(one) for one in [next(occurrences, None)] if one is not None]
    return [_groups(one) for one in occurrences]


def _split(text: str, pattern: str, flags: str, function: str) -> list[str]:
    options, _ = _options(flags, function)
    parts = []
    at = 0
    before = 0
    for match in compile_regex(pattern, options).each(text):
        # an empty match at either end, or right behind the match before, splits nothing
        if match.start() < len(text) and match.end() > before:
            parts.append(text[at : match.start()])
            at = match.end()
        before = match.end()
    parts.append(text[at:])
    return parts


@implements("regexp_split_to_table_no_flags", "regexp_split_to_table")
def regexp_split_to_table(text: str, pattern: str, flags: str = "") -> list[str]:
    return _split(text, pattern, flags, "regexp_split_to_table")


@implements("regexp_split_to_array_no_flags", "regexp_split_to_array")
def regexp_split_to_array(text: str, pattern: str, flags: str = "") -> PgArray:
    return array_of(oids.TEXT, _split(text, pattern, flags, "regexp_split_to_array"))


@lru_cache(maxsize=256)
def _replacement(text: str) -> tuple[str | int, ...]:
    """\\1 … \\9, \\& (the whole match) and \\\\; anything else stands for itself."""
    parts: list[str | int] = []
    at = 0
    for match in re.finditer(r"\\(?:([1-9])|(&)|(\\))", text):
        parts.append(text[at : match.start()])
        parts.append(int(match[1]) if match[1] else 0 if match[2] else "\\")
        at = match.end()
    return (*parts, text[at:])


def _expand(match: Found, parts: tuple[str | int, ...]) -> str:
    out = []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        elif part <= len(match.groups()):
            out.append(match.group(part) or "")
    return "".join(out)


def _replace(text: str, pattern: str, new: str, options: str, start: int, number: int) -> str:
    """Replace matches; number 0: all of them."""
    parts = _replacement(new)
    regex = compile_regex(pattern, options)
    finder = regex.finder(text)
    large = len(text) * (len(new) + 1) > input_checks.MAX_BYTES
    if finder is not None and not large and number == 0 and start == 1 and len(parts) == 1:
        return finder.sub(new.replace("\\", "\\\\"), text)
    out = []
    at = 0
    for count, match in enumerate(regex.each(text, start - 1), 1):
        if number and count != number:
            continue
        out += [text[at : match.start()], _expand(match, parts)]
        at = match.end()
        if number:
            break
    return joined([*out, text[at:]])


implements("textregexreplace_noopt")(lambda text, pattern, new: _replace(text, pattern, new, "", 1, 1))


@implements("textregexreplace")
def textregexreplace(text: str, pattern: str, new: str, flags: str) -> str:
    if flags[:1].isdigit():
        raise PgError(
            "22023",
            f'invalid regular expression option: "{flags[0]}"',
            hint="If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer "
            "explicitly.",
        )
    options, every = _options(flags)
    return _replace(text, pattern, new, options, 1, 0 if every else 1)


def _start(value: int) -> int:
    if value <= 0:
        raise PgError("22023", f'invalid value for parameter "start": {value}')
    return value


@implements("textregexreplace_extended", "textregexreplace_extended_no_flags", "textregexreplace_extended_no_n")
def textregexreplace_extended(text: str, pattern: str, new: str, start: int, number: int = 1, flags: str = "") -> str:
    _start(start)
    if number < 0:
        raise PgError("22023", f'invalid value for parameter "n": {number}')
    options, _ = _options(flags)
    return _replace(text, pattern, new, options, start, number)


@implements("regexp_count_no_start", "regexp_count_no_flags", "regexp_count")
def regexp_count(text: str, pattern: str, start: int = 1, flags: str = "") -> int:
    _start(start)
    options, _ = _options(flags, "regexp_count")
    return sum(1 for _ in compile_regex(pattern, options).each(text, start - 1))


def _nth(text: str, regex: Regex, start: int, number: int, group: int) -> tuple[int, int] | None:
    """The span of a group in the n-th match; without groups, of the whole match."""
    if group == 1 and not regex.groups:
        group = 0
    if group > regex.groups:
        return None
    for count, match in enumerate(regex.each(text, start - 1), 1):
        if count == number:
            return match.span(group) if match.span(group)[0] >= 0 else None
    return None


def _checked(start: int, number: int, group: int) -> None:
    _start(start)
    if number <= 0:
        raise PgError("22023", f'invalid value for parameter "n": {number}')
    if group < 0:
        raise PgError("22023", f'invalid value for parameter "subexpr": {group}')


@implements(
    "regexp_instr_no_start",
    "regexp_instr_no_n",
    "regexp_instr_no_endoption",
    "regexp_instr_no_flags",
    "regexp_instr_no_subexpr",
    "regexp_instr",
)
def regexp_instr(
    text: str, pattern: str, start: int = 1, number: int = 1, end: int = 0, flags: str = "", group: int = 0
) -> int:
    _start(start)
    if number <= 0:
        raise PgError("22023", f'invalid value for parameter "n": {number}')
    if end not in (0, 1):
        raise PgError("22023", f'invalid value for parameter "endoption": {end}')
    _checked(start, number, group)
    options, _ = _options(flags, "regexp_instr")
    span = _nth(text, compile_regex(pattern, options), start, number, group)
    return 0 if span is None else span[end] + 1


@implements("regexp_like_no_flags", "regexp_like")
def regexp_like(text: str, pattern: str, flags: str = "") -> bool:
    options, _ = _options(flags, "regexp_like")
    return matches(text, pattern, options)


@implements(
    "regexp_substr_no_start",
    "regexp_substr_no_n",
    "regexp_substr_no_flags",
    "regexp_substr_no_subexpr",
    "regexp_substr",
)
def regexp_substr(
    text: str, pattern: str, start: int = 1, number: int = 1, flags: str = "", group: int = 0
) -> str | None:
    _checked(start, number, group)
    options, _ = _options(flags, "regexp_substr")
    span = _nth(text, compile_regex(pattern, options), start, number, group)
    return None if span is None else text[span[0] : span[1]]


class _Piece:
    """The characters of a pattern between two %; None stands for _ (any character)."""

    def __init__(self, chars: list[str | None]) -> None:
        self.length = len(chars)
        self.text: str | None = None
        self.regex: re.Pattern[str] | None = None
        if None in chars:
            self.regex = re.compile("".join("." if char is None else re.escape(char) for char in chars), re.DOTALL)
        else:
            self.text = "".join(char for char in chars if char is not None)

    def stands_at(self, text: str, at: int) -> bool:
        if self.text is not None:
            return text.startswith(self.text, at)
        assert self.regex is not None
        return self.regex.match(text, at) is not None

    def find(self, text: str, start: int, stop: int) -> int:
        """The index of the first match that ends at `stop` or before; -1 if there is none."""
        if self.text is not None:
            return text.find(self.text, start, stop)
        assert self.regex is not None
        match = self.regex.search(text, start, stop)
        return -1 if match is None else match.start()


class _Pattern:
    def __init__(self, pattern: str) -> None:
        pieces: list[list[str | None]] = [[]]
        chars = iter(pattern)
        for char in chars:
            if char == "%":
                pieces.append([])
            elif char == "_":
                pieces[-1].append(None)
            elif char == "\\":
                following = next(chars, None)
                if following is None:
                    raise PgError("22025", "LIKE pattern must not end with escape character")
                pieces[-1].append(following)
            else:
                pieces[-1].append(char)
        self.first = _Piece(pieces[0])
        self.last = _Piece(pieces[-1]) if len(pieces) > 1 else None
        self.inner = [_Piece(piece) for piece in pieces[1:-1] if piece]

    def matches(self, text: str) -> bool:
        at, last = self.first.length, self.last
        if not self.first.stands_at(text, 0):
            return False
        if last is None:
            return at == len(text)
        stop = len(text) - last.length
        if stop < at or not last.stands_at(text, stop):
            return False
        for piece in self.inner:
            at = piece.find(text, at, stop)
            if at < 0:
                return False
            at += piece.length
        return True


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> _Pattern:
    return _Pattern(pattern)


def like(text: str, pattern: str, ignore_case: bool = False) -> bool:
    if ignore_case:
        text, pattern = lower(text), lower(pattern)
    try:
        return _compiled(pattern).matches(text)
    except PgError:
        # a lone escape at the end is an error only if matching reaches it
        if not _compiled(pattern[:-1] + "_%").matches(text):
            return False
        raise


implements("textlike", "namelike")(lambda text, pattern: like(text, pattern))
implements("textnlike", "namenlike")(lambda text, pattern: not like(text, pattern))
implements("texticlike", "nameiclike")(lambda text, pattern: like(text, pattern, True))
implements("texticnlike", "nameicnlike")(lambda text, pattern: not like(text, pattern, True))


def _bytes_as_text(value: bytes) -> str:
    return value.decode("latin-1")


implements("bytealike")(lambda value, pattern: like(_bytes_as_text(value), _bytes_as_text(pattern)))
implements("byteanlike")(lambda value, pattern: not like(_bytes_as_text(value), _bytes_as_text(pattern)))


@implements("like_escape")
def like_escape(pattern: str, escape: str) -> str:
    """The pattern with backslash as its escape, as do_like_escape makes it."""
    if not escape:
        return pattern.replace("\\", "\\\\")
    if len(escape) > 1:
        raise PgError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    if escape == "\\":
        return pattern
    out = []
    escaped = False
    for char in pattern:
        if char == escape and not escaped:
            out.append("\\")
            escaped = True
            continue
        out.append("\\\\" if char == "\\" and not escaped else char)
        escaped = False
    return "".join(out)
