"""The tokens of a body, as pl_scanner.c gives them: SQL's tokens, with names looked up among the variables.

A name of one to three words comes as one token: T_DATUM for a variable, T_WORD or T_CWORD for an unknown name, or an
unreserved key word. Builders take tokens from the same scanner as the parser, and push back what they have read too
far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.plpgsql.datums import Datum
from pgrepl.sql.keywords import TOKENS
from pgrepl.sql.literals import near
from pgrepl.sql.plpgsql_keywords import RESERVED, UNRESERVED
from pgrepl.sql.scanner import Token, scan

END = "$END"
_RESERVED = {word: word.upper() for word in RESERVED}
_UNRESERVED = {word: word.upper() for word in UNRESERVED}
_WORDS = frozenset({"IDENT", "UIDENT", "NCHAR", *TOKENS.values()})
_OPERATORS = {"<<": "LESS_LESS", ">>": "GREATER_GREATER", "#": "HASH"}
_OPENS, _CLOSES = ("LPAR", "LSQB"), ("RPAR", "RSQB")
_AT_START = frozenset(("SEMICOLON", "BEGIN", "THEN", "ELSE", "LOOP"))
_ASSIGNS = ("EQUAL", "COLON_EQUALS", "LSQB")


class Lookup(Enum):
    """The kinds of names that are looked up as variables (IdentifierLookup)."""

    ALL = "all"
    NONE = "in declarations"
    DOTTED = "in SQL: only names with dots"


@frozen
class Word:
    """The value of a token that is a name. `datum`: the variable that it means."""

    names: tuple[str, ...]
    quoted: bool = False
    datum: Datum | None = None

    @property
    def text(self) -> str:
        return ".".join(self.names)


FindDatum = Callable[[tuple[str, ...]], "Datum | None"]


class PlpgsqlScanner:
    def __init__(self, text: str, find: FindDatum) -> None:
        self.text = text
        self.lookup = Lookup.ALL
        self.last: Token = (END, None, 0, 0)  # the token given last
        self._find = find
        self._source = scan(text)
        self._waiting: list[Token] = []  # SQL tokens read too far, the next one last
        self._pushed: list[Token] = []  # finished tokens pushed back

    def __iter__(self) -> Iterator[Token]:
        return self

    def __next__(self) -> Token:
        return self.next()

    def next(self) -> Token:
        """The next token (plpgsql_yylex)."""
        if self._pushed:
            self.last = self._pushed.pop()
        else:
            token = self._raw()
            self.last = self._name(token) if token[0] in ("WORD", "PARAM") else token
        return self.last

    def push_back(self, token: Token) -> None:
        self._pushed.append(token)

    def peek(self) -> Token:
        """The next token, which stays (plpgsql_peek)."""
        before = self.last
        token = self.next()
        self.push_back(token)
        self.last = before
        return token

    def line(self, location: int) -> int:
        return 1 + self.text.count("\n", 0, max(location, 0))

    @property
    def latest_line(self) -> int:
        """The line that the scanner has reached (plpgsql_latest_lineno)."""
        return self.line(self.last[2])

    def error(self, message: str, token: Token | None = None) -> PgError:
        """`message at or near "token"` (plpgsql_yyerror)."""
        _, _, start, end = token or self.last
        return near(message, self.text, start, end)

    def _raw(self) -> Token:
        """The next token of SQL, with PL/pgSQL's reserved words and operators; other words are WORD."""
        if self._waiting:
            return self._waiting.pop()
        terminal, value, start, end = next(self._source)
        if terminal in _WORDS:
            if self.text[start] != '"':
                word = _RESERVED.get(value)
                if word is not None:
                    return word, value, start, end
            return "WORD", value, start, end
        if terminal == "OP" and value in _OPERATORS:
            return _OPERATORS[value], value, start, end
        return terminal, value, start, end

    def _name(self, first: Token) -> Token:
        """A word with the dotted words behind it as one token."""
        start = first[2]
        spelled = self.text[start : first[3]]
        names: list[str] = [spelled if first[0] == "PARAM" else first[1]]
        end, dotted = first[3], None
        while len(names) < 3:
            dotted = self._raw()
            if dotted[0] != "DOT":
                self._waiting.append(dotted)
                break
            word = self._raw()
            if word[0] != "WORD":
                self._waiting += (word, dotted)
                break
            names.append(word[1])
            end = word[3]
        if len(names) > 1:
            return self._dotted(tuple(names), start, end)
        quoted = spelled.startswith('"')
        after = self._waiting[-1][0]
        may_be = after == "DOT" or self.last[0] not in _AT_START or after in _ASSIGNS
        found = self._find((names[0],)) if may_be and self.lookup is Lookup.ALL else None
        word_value = Word((names[0],), quoted, found)
        if found is not None:
            return "T_DATUM", word_value, start, end
        if not quoted and names[0] in _UNRESERVED:
            return _UNRESERVED[names[0]], names[0], start, end
        return "T_WORD", word_value, start, end

    def _dotted(self, names: tuple[str, ...], start: int, end: int) -> Token:
        found = self._find(names) if self.lookup is not Lookup.NONE else None
        return ("T_DATUM" if found is not None else "T_CWORD"), Word(names, False, found), start, end

    # --- SQL in the body ----------------------------------------------------------------------------------------------

    def read_until(self, ends: tuple[str, ...], expected: str, *, is_expression: bool = True) -> tuple[str, int, Token]:
        """The text up to one of these tokens, where it begins, and the token (read_sql_construct)."""
        saved, self.lookup = self.lookup, Lookup.DOTTED
        begin, end, depth = -1, 0, 0
        while True:
            token = self.next()
            if begin < 0:
                begin = token[2]
            if token[0] in ends and depth == 0:
                break
            if token[0] in _OPENS:
                depth += 1
            elif token[0] in _CLOSES:
                depth -= 1
                if depth < 0:
                    raise self.error("mismatched parentheses")
            elif token[0] in (END, "SEMICOLON"):
                if depth:
                    raise self.error("mismatched parentheses")
                if token[0] == END and len(ends) < 3:
                    raise self.error("syntax error")
                what = "SQL expression" if is_expression else "SQL statement"
                raise PgError("42601", f'missing "{expected}" at end of {what}', location=token[2])
            end = token[3]
        self.lookup = saved
        if begin >= end:
            raise self.error("missing expression" if is_expression else "missing SQL statement")
        return self.text[begin:end], begin, token


def is_word(token: Token, keyword: str) -> bool:
    """Whether the token is this unreserved key word, or a variable of that name (tok_is_keyword)."""
    if token[0] == keyword.upper():
        return True
    value: Any = token[1]
    return token[0] == "T_DATUM" and not value.quoted and value.names == (keyword,)
