r"""psql's lexer (psqlscan.l), which reads SQL line by line and stops at a semicolon or a backslash.

It knows PostgreSQL's quotes, comments and dollar quotes, counts parentheses and the BEGIN … END of SQL-standard
function bodies (a semicolon inside either ends nothing), and replaces `:name`, `:'name'`, `:"name"` and `:{?name}` by
variables' values. A value is scanned, too, so that it may contain other variables, but not itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from pgrepl.ground.frozen import frozen
from pgrepl.sql.keywords import CONTINUATION
from pgrepl.types.input_checks import LETTER, LETTER_OR_DIGIT, NAME_PART

Quoting = Literal["plain", "literal", "identifier", "shell"]
Lookup = Callable[[str, Quoting], "str | None"]
Warn = Callable[[str], None]


class Prompt(Enum):
    """The state in which the next line goes on (promptStatus_t); the value is the text of %R."""

    READY = "="
    CONTINUE = "-"
    COMMENT = "*"
    SINGLE_QUOTE = "'"
    DOUBLE_QUOTE = '"'
    DOLLAR_QUOTE = "$"
    PAREN = "("
    COPY = ""


class Stop(Enum):
    """Why the scan stopped (PsqlScanResult)."""

    SEMICOLON = "semicolon"
    BACKSLASH = "backslash"
    INCOMPLETE = "incomplete"
    END_OF_LINE = "end of line"


# States are named as PostgreSQL's scan.l names them; "" is its INITIAL.
_PROMPTS = {
    "xb": Prompt.SINGLE_QUOTE,
    "xh": Prompt.SINGLE_QUOTE,
    "xe": Prompt.SINGLE_QUOTE,
    "xq": Prompt.SINGLE_QUOTE,
    "xus": Prompt.SINGLE_QUOTE,
    "xd": Prompt.DOUBLE_QUOTE,
    "xui": Prompt.DOUBLE_QUOTE,
    "xdolq": Prompt.DOLLAR_QUOTE,
    "xc": Prompt.COMMENT,
}

_IDENTIFIER = LETTER + NAME_PART + "*"
_INTEGER = r"[0-9](?:_?[0-9])*"
_MANTISSA = rf"(?:{_INTEGER}(?:\.(?!\.)(?:{_INTEGER})?)?|\.{_INTEGER})"
_SPACE = r"[ \t\n\r\f\v]"
_COMMENT = r"--[^\n\r]*"

_INITIAL = re.compile(
    rf"""
      (?P<space>{_SPACE}+|{_COMMENT})
    | (?P<comment>/\*)
    | (?P<quoted>(?:[bBxXeE]|[uU]&)?')
    | (?P<dquoted>(?:[uU]&)?")
    | (?P<dollar>\$(?:{LETTER}{LETTER_OR_DIGIT}*)?\$)
    | (?P<word>{_IDENTIFIER})
    | (?P<open>\() | (?P<close>\)) | (?P<semicolon>;)
    | (?P<forced>\\[;:]) | (?P<backslash>\\)
    | (?P<colons>::|:=)
    | :'(?P<literal>{LETTER_OR_DIGIT}+)'
    | :"(?P<identifier>{LETTER_OR_DIGIT}+)"
    | :\{{\?(?P<test>{LETTER_OR_DIGIT}+)\}}
    | :(?P<variable>{LETTER_OR_DIGIT}+)
    # a number includes an identifier that follows it at once; so an exponent without sign is part of it
    | (?P<number>{_MANTISSA}(?:[Ee][-+]{_INTEGER})?(?:{_IDENTIFIER})?|\$[0-9]+(?:{_IDENTIFIER})?)
    | (?P<operator>(?:(?!/\*|--)[~!@#^&|`?+\-*/%<>=])+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)  # fmt: skip

_QUOTED = {
    "xb": re.compile("[^']*"),
    "xh": re.compile("[^']*"),
    "xq": re.compile("(?:[^']+|'')*"),
    "xus": re.compile("(?:[^']+|'')*"),
    "xe": re.compile(r"(?:[^'\\]+|''|\\.)*\\?", re.DOTALL),
    "xd": re.compile('(?:[^"]+|"")*'),
    "xui": re.compile('(?:[^"]+|"")*'),
}
_QUOTE_STATES = {"'": "xq", "b'": "xb", "x'": "xh", "e'": "xe", "u&'": "xus"}
_COMMENT_PART = re.compile(r"(?P<open>/\*)|(?P<close>\*/)|[^*/]+|.", re.DOTALL)

_ROUTINE_WORDS = frozenset(("create", "function", "procedure", "or", "replace"))
_COPY_WORDS = frozenset(("copy", "from", "stdin", "stdout"))
_FIRST_WORDS = 8


class QueryBuffer:
    """The statement read so far. Appending is cheap whatever its length."""

    __slots__ = ("_length", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    @property
    def text(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @text.setter
    def text(self, text: str) -> None:
        self._parts = [text] if text else []
        self._length = len(text)


@dataclass(slots=True)
class _Source:
    """A text that is scanned: the line, or the value of a variable in it."""

    text: str
    variable: str | None = None
    at: int = 0


@frozen
class LexerState:
    r"""The state of the lexer that an inactive branch of `\if` must not change."""

    paren_depth: int
    begin_depth: int
    copies: int
    words: tuple[str, ...]
    new_statement: bool


@dataclass(slots=True)
class Lexer:
    lookup: Lookup
    warn: Warn
    standard_strings: bool = True
    state: str = ""
    paren_depth: int = 0
    begin_depth: int = 0
    copies: int = 0  # COPY … FROM STDIN commands in the query so far
    query: QueryBuffer = field(default_factory=QueryBuffer)
    sources: list[_Source] = field(default_factory=list)
    _comment_depth: int = 0
    _dollar_tag: str = ""
    _before_stop: str = ""
    _words: list[str] = field(default_factory=list)
    _new_statement: bool = True

    # --- the line ----------------------------------------------------------------------------------------------------

    def begin(self, line: str) -> None:
        """Scan this line next, in the present state, such as inside a quote."""
        self.sources = [_Source(line)]

    def finish(self) -> None:
        """Leave the rest of the line unread."""
        self.sources = []

    def reset(self) -> None:
        r"""Forget the statement read so far, after it was sent or at `\r`."""
        self.state = ""
        self.paren_depth = self.begin_depth = self.copies = 0
        self._words, self._new_statement = [], True

    def save(self) -> LexerState:
        words = tuple(self._words)
        return LexerState(self.paren_depth, self.begin_depth, self.copies, words, self._new_statement)

    def restore(self, saved: LexerState) -> None:
        self.paren_depth, self.begin_depth, self.copies = saved.paren_depth, saved.begin_depth, saved.copies
        self._words, self._new_statement = list(saved.words), saved.new_statement

    def copy(self) -> Lexer:
        """A lexer in the same state, to try a text with; variables are not replaced."""
        twin = replace(self, lookup=lambda name, quoting: None, query=QueryBuffer(), sources=[])
        twin._words = list(self._words)
        if self.query:
            twin.query.text = " "
        return twin

    @property
    def in_quotes(self) -> bool:
        return self.state not in ("", "xqs")

    def count_copies(self) -> int:
        """The number of COPY … FROM STDIN in the query, including one without a semicolon at its end."""
        if not self._new_statement:
            self._end_statement()
        return self.copies

    # --- scanning ----------------------------------------------------------------------------------------------------

    def scan(self) -> tuple[Stop, Prompt]:
        """Read to the next stop, and append the text to the query buffer."""
        stop = self._scan()
        if stop is not None:
            return stop, Prompt.READY
        if self.in_quotes:
            return Stop.INCOMPLETE, _PROMPTS[self.state]
        if self.paren_depth > 0:
            return Stop.INCOMPLETE, Prompt.PAREN
        if self.begin_depth > 0:
            return Stop.INCOMPLETE, Prompt.CONTINUE
        if self.query:
            return Stop.END_OF_LINE, Prompt.CONTINUE
        return Stop.INCOMPLETE, Prompt.READY

    def _scan(self) -> Stop | None:
        while self.sources:
            source = self.sources[-1]
            if source.at >= len(source.text):
                if len(self.sources) == 1:
                    return None
                self.sources.pop()
                continue
            if not self.state:
                stop = self._scan_initial(source)
                if stop is not None:
                    return stop
            else:
                self._scan_quoted(source)
        return None

    def _scan_initial(self, source: _Source) -> Stop | None:
        text, at, match = source.text, source.at, _INITIAL.match
        size = len(text)
        while at < size:
            token = match(text, at)
            assert token is not None
            kind, start, at = token.lastgroup, at, token.end()
            source.at = at
            if kind == "space":
                # white space before a statement is not part of it
                if self.query:
                    self.query.append(token[0])
            elif kind == "word":
                self.query.append(token[0])
                if not self.paren_depth:
                    self._track_word(token[0])
            elif kind == "open":
                self.query.append("(")
                self.paren_depth += 1
            elif kind == "close":
                self.query.append(")")
                self.paren_depth = max(self.paren_depth - 1, 0)
            elif kind == "semicolon":
                self.query.append(";")
                if not self.paren_depth and not self.begin_depth:
                    self._end_statement()
                    return Stop.SEMICOLON
            elif kind == "quoted":
                self.query.append(token[0])
                opened = _QUOTE_STATES[token[0].lower()]
                self.state = "xe" if opened == "xq" and not self.standard_strings else opened
                return None
            elif kind == "dquoted":
                self.query.append(token[0])
                self.state = "xd" if token[0] == '"' else "xui"
                return None
            elif kind == "dollar":
                self.query.append(token[0])
                self.state, self._dollar_tag = "xdolq", token[0]
                return None
            elif kind == "comment":
                self.query.append("/*")
                self.state, self._comment_depth = "xc", 0
                return None
            elif kind == "forced":
                self.query.append(token[0][1])
                if token[0][1] == ";" and not self.paren_depth and not self.begin_depth:
                    self._end_statement()
            elif kind == "backslash":
                return Stop.BACKSLASH
            elif kind == "variable":
                if self._substitute(token["variable"], text[start:at]):
                    return None
            elif kind == "literal" or kind == "identifier":
                value = self.lookup(token[kind], kind)  # type: ignore[arg-type]
                self.query.append(text[start:at] if value is None else value)
            elif kind == "test":
                self.query.append("FALSE" if self.lookup(token["test"], "plain") is None else "TRUE")
            else:
                self.query.append(token[0])
        return None

    def _substitute(self, name: str, token: str) -> bool:
        """Continue in the variable's value; False: it has none, or is inside its own."""
        value = self.lookup(name, "plain")
        if value is None:
            self.query.append(token)
            return False
        if any(source.variable == name for source in self.sources):
            self.warn(f'skipping recursive expansion of variable "{name}"')
            self.query.append(token)
            return False
        self.sources.append(_Source(value, name))
        return True

    def _scan_quoted(self, source: _Source) -> None:
        state, text = self.state, source.text
        if state == "xqs":
            continued = CONTINUATION.match(text, source.at)
            if continued:
                self.query.append(continued[0])
                source.at = continued.end()
            self.state = self._before_stop if continued else ""
        elif state == "xc":
            self._scan_comment(source)
        elif state == "xdolq":
            end = text.find(self._dollar_tag, source.at)
            if end >= 0:
                self.state = ""
            stop = len(text) if end < 0 else end + len(self._dollar_tag)
            self.query.append(text[source.at : stop])
            source.at = stop
        else:
            match = _QUOTED[state].match(text, source.at)
            assert match is not None
            at = match.end()
            if at < len(text):
                at += 1
                if state in ("xd", "xui"):
                    self.state = ""
                else:
                    self._before_stop, self.state = state, "xqs"
            self.query.append(text[source.at : at])
            source.at = at

    def _scan_comment(self, source: _Source) -> None:
        start = source.at
        while source.at < len(source.text):
            part = _COMMENT_PART.match(source.text, source.at)
            assert part is not None
            source.at = part.end()
            if part["open"]:
                self._comment_depth += 1
            elif part["close"]:
                if not self._comment_depth:
                    self.state = ""
                    break
                self._comment_depth -= 1
        self.query.append(source.text[start : source.at])

    # --- the first words of a statement ------------------------------------------------------------------------------

    def _track_word(self, word: str) -> None:
        """Note the first words of a statement, and count BEGIN and END in a function's body."""
        if self._new_statement:
            self._words, self._new_statement = [], False
        words = self._words
        lower = word.lower() if word.isascii() else word
        if len(words) < _FIRST_WORDS:
            words.append(lower if lower in _ROUTINE_WORDS or lower in _COPY_WORDS else "")
        if words[0] != "create" or not self._creates_routine():
            return
        if lower == "begin":
            self.begin_depth += 1
        elif lower == "case":
            if self.begin_depth:
                self.begin_depth += 1
        elif lower == "end" and self.begin_depth:
            self.begin_depth -= 1

    def _creates_routine(self) -> bool:
        words = self._words[1:]
        if words[:2] == ["or", "replace"]:
            words = words[2:]
        return bool(words) and words[0] in ("function", "procedure")

    def _end_statement(self) -> None:
        words = self._words
        if not self._new_statement and words and words[0] == "copy" and "from" in words[1:-1]:
            after = words[words.index("from", 1) + 1]
            if after in ("stdin", "stdout"):
                self.copies += 1
        self._new_statement = True
