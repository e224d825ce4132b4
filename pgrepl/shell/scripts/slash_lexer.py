r"""The lexer of backslash commands: a name and its arguments (psqlscanslash.l); the stack of `\if` blocks.

An argument ends at white space or a backslash. `'…'` has `''` and backslash escapes, `"…"` keeps its quotes, `` `…`
`` runs in the shell, and `:name` in its four forms is replaced by a variable's value, which is not scanned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from pgrepl.ground.frozen import frozen
from pgrepl.shell.scripts.lexer import Lexer, LexerState
from pgrepl.types.input_checks import LETTER_OR_DIGIT


class Outcome(Enum):
    SEND = auto()
    NEXT = auto()
    QUIT = auto()
    EDITED = auto()  # the query buffer holds new text to be scanned
    FAILED = auto()
    UNKNOWN = auto()


# --- conditional ------------------------------------------------------------------------------------------------------


class Branch(Enum):
    """The state of an `\\if` block (psql's ifState)."""

    TRUE = auto()  # in the branch that runs
    FALSE = auto()  # no branch has run yet
    IGNORED = auto()  # one has run, or the block stands in a branch that does not
    ELSE_TRUE = auto()
    ELSE_FALSE = auto()


@dataclass(slots=True)
class _Block:
    branch: Branch
    query_length: int | None = None
    lexer: LexerState | None = None


@dataclass(slots=True)
class Conditionals:
    blocks: list[_Block] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.blocks)

    @property
    def branch(self) -> Branch | None:
        return self.blocks[-1].branch if self.blocks else None

    @property
    def active(self) -> bool:
        return not self.blocks or self.blocks[-1].branch in (Branch.TRUE, Branch.ELSE_TRUE)

    def push(self, branch: Branch) -> None:
        self.blocks.append(_Block(branch))

    def pop(self) -> None:
        self.blocks.pop()

    def turn(self, branch: Branch) -> None:
        self.blocks[-1].branch = branch

    def remember(self, query_length: int | None, lexer: LexerState) -> None:
        """Remember the query buffer before a branch, to return to it if the branch is not taken."""
        self.blocks[-1].query_length = query_length
        self.blocks[-1].lexer = lexer

    def remembered(self) -> tuple[int | None, LexerState | None]:
        return self.blocks[-1].query_length, self.blocks[-1].lexer


# --- slash lexer ------------------------------------------------------------------------------------------------------


_SPACES = " \t\n\r\f\v"
_NAME = re.compile(r"[^ \t\n\r\f\v\\]*")
_VARIABLE = re.compile(
    rf":(?:(?P<plain>{LETTER_OR_DIGIT}+)|'(?P<literal>{LETTER_OR_DIGIT}+)'"
    rf'|"(?P<identifier>{LETTER_OR_DIGIT}+)"|\{{\?(?P<test>{LETTER_OR_DIGIT}+)\}})'
)
_SHELL_VARIABLE = re.compile(rf":(?:(?P<plain>{LETTER_OR_DIGIT}+)|'(?P<shell>{LETTER_OR_DIGIT}+)')")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)")
_LETTER_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "r": "\r", "f": "\f"}


class Argument(Enum):
    """The way to read an argument (slash_option_type)."""

    NORMAL = auto()
    SQL_IDENTIFIER = auto()  # double quotes stripped, the rest folded
    SQL_IDENTIFIER_HACK = auto()  # double quotes stripped, nothing folded
    FILE_OR_PIPE = auto()  # after a leading | the whole line
    WHOLE_LINE = auto()


@frozen
class Word:
    text: str
    quote: str  # the last kind of quote in it: ', ", `, : or none


class UnterminatedQuote(Exception):
    """The line ended inside quotes."""


Run = Callable[[str], "str | None"]


@dataclass(slots=True)
class SlashLexer:
    """Reads on where the SQL lexer stopped at the backslash. `run` gives the function that evaluates backticks; None:
    the branch of \\if is not taken."""

    lexer: Lexer
    run: Callable[[], Run | None]

    def _next(self) -> tuple[str, int]:
        """The text that is read, and the place in it. After a variable's value its line continues."""
        sources = self.lexer.sources
        while len(sources) > 1 and sources[-1].at >= len(sources[-1].text):
            sources.pop()
        return (sources[-1].text, sources[-1].at) if sources else ("", 0)

    def _move_to(self, at: int) -> None:
        if self.lexer.sources:
            self.lexer.sources[-1].at = at

    def command(self) -> str:
        text, at = self._next()
        match = _NAME.match(text, at)
        assert match is not None
        self._move_to(match.end())
        self.lexer.state = ""
        return match[0]

    def end(self) -> None:
        r"""Read a `\\` that ends the command."""
        text, at = self._next()
        if text.startswith("\\\\", at):
            self._move_to(at + 2)

    def argument(self, kind: Argument = Argument.NORMAL, *, semicolon: bool = False) -> Word | None:
        """The next argument; None: there is none. `semicolon` removes unquoted semicolons from its end."""
        text, at = self._next()
        if kind is Argument.WHOLE_LINE:
            return self._whole_line(text, at, semicolon)
        while at < len(text) and text[at] in _SPACES:
            at += 1
        if kind is Argument.FILE_OR_PIPE and text.startswith("|", at):
            return self._whole_line(text, at, semicolon)
        out: list[str] = []
        quote = ""
        bare = 0  # unquoted characters at the end
        while at < len(text) and text[at] not in _SPACES and text[at] != "\\":
            char = text[at]
            if char == "'":
                quote, bare = "'", 0
                at = self._single_quoted(text, at + 1, out)
            elif char == "`":
                quote, bare = "`", 0
                at = self._backticked(text, at + 1, out)
            elif char == '"':
                quote, bare = '"', 0
                end = text.find('"', at + 1)
                if end < 0:
                    self._fail()
                out.append(text[at : end + 1])
                at = end + 1
            elif char == ":" and (match := _VARIABLE.match(text, at)):
                if match["test"]:
                    out.append("FALSE" if self.lexer.lookup(match["test"], "plain") is None else "TRUE")
                else:
                    quote, bare = ":", 0
                    name = match[match.lastgroup or 0]
                    value = self.lexer.lookup(name, match.lastgroup)  # type: ignore[arg-type]
                    out.append(match[0] if value is None else value)
                at = match.end()
            else:
                out.append(char)
                bare += 1
                at += 1
        self._move_to(at)
        word = "".join(out)
        while semicolon and bare > 0 and word.endswith(";"):
            word, bare = word[:-1], bare - 1
        if kind in (Argument.SQL_IDENTIFIER, Argument.SQL_IDENTIFIER_HACK):
            word = dequote_identifier(word, fold=kind is Argument.SQL_IDENTIFIER)
        return Word(rejoined(word), quote) if word or quote else None

    def _fail(self) -> None:
        text, _ = self._next()
        self._move_to(len(text))
        raise UnterminatedQuote

    def _whole_line(self, text: str, at: int, semicolon: bool) -> Word | None:
        line = text[at:].lstrip(_SPACES)
        self._move_to(len(text))
        if semicolon:
            line = line.rstrip(_SPACES + ";")
        return Word(line, "") if line else None

    def _single_quoted(self, text: str, at: int, out: list[str]) -> int:
        while at < len(text):
            char = text[at]
            if char == "'":
                if not text.startswith("''", at):
                    return at + 1
                out.append("'")
                at += 2
            elif char == "\\" and (match := _ESCAPE.match(text, at)):
                out.append(_unescaped(match[1]))
                at = match.end()
            else:
                out.append(char)
                at += 1
        self._fail()
        return at

    def _backticked(self, text: str, at: int, out: list[str]) -> int:
        command: list[str] = []
        while at < len(text):
            if text[at] == "`":
                run = self.run()
                output = run(rejoined("".join(command))) if run is not None else "".join(command)
                out.append(output or "")
                return at + 1
            match = _SHELL_VARIABLE.match(text, at)
            if match is None:
                command.append(text[at])
                at += 1
                continue
            name = match[match.lastgroup or 0]
            value = self.lexer.lookup(name, match.lastgroup)  # type: ignore[arg-type]
            command.append(match[0] if value is None else value)
            at = match.end()
        self._fail()
        return at


def _unescaped(escape: str) -> str:
    r"""The character of an escape: `\n`, `\101`, `\x41`; any other character is itself."""
    if escape in _LETTER_ESCAPES:
        return _LETTER_ESCAPES[escape]
    if escape[0] in "01234567":
        return one_byte(int(escape, 8) & 0xFF)
    if escape[0] == "x" and len(escape) > 1:
        return one_byte(int(escape[1:], 16))
    return escape


def one_byte(code: int) -> str:
    """One byte in text: above 127 a surrogate, which `rejoined` joins with others to a character."""
    return chr(code) if code < 0x80 else chr(0xDC00 + code)


def rejoined(text: str) -> str:
    """The text with bytes that were escaped one by one joined to characters. It ends at a NUL, as a C string does."""
    if text.isascii() and "\0" not in text:
        return text
    whole = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    return whole.partition("\0")[0]


def dequote_identifier(text: str, *, fold: bool) -> str:
    """`FOO"Bar"BAZ` as `fooBarbaz`; without `fold` as `FOOBarBAZ` (dequote_downcase_identifier)."""
    out: list[str] = []
    quoted = False
    at = 0
    while at < len(text):
        char = text[at]
        if char == '"':
            if quoted and text.startswith('""', at):
                out.append('"')
                at += 1
            else:
                quoted = not quoted
        else:
            out.append(char.lower() if fold and not quoted and char.isascii() else char)
        at += 1
    return "".join(out)
