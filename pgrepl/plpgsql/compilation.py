"""The state of a compilation (plpgsql_curr_compile), and the tokens of a body (pl_scanner.c).

A name of one to three words is one token: T_DATUM for a variable, T_WORD or T_CWORD for an unknown name. Builders
take tokens from the parser's scanner, and push back what they have read too far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from pgrepl.expr.analyse.kinds import Conflict
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.plpgsql.datums import (
    DataType,
    Datum,
    ItemKind,
    Mode,
    NameItem,
    Rec,
    RecField,
    Row,
    SqlText,
    Var,
    Variable,
    find_name,
)
from pgrepl.plpgsql.nodes import Block
from pgrepl.sql.keywords import RESERVED, TOKENS, UNRESERVED, near
from pgrepl.sql.parser import parse, parse_fragment
from pgrepl.sql.scanner import Token, scan
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.analyse.fragment import Meaning

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
        datum = self._find((names[0],)) if may_be and self.lookup is Lookup.ALL else None
        word_value = Word((names[0],), quoted, datum)
        if datum is not None:
            return "T_DATUM", word_value, start, end
        if not quoted and names[0] in _UNRESERVED:
            return _UNRESERVED[names[0]], names[0], start, end
        return "T_WORD", word_value, start, end

    def _dotted(self, names: tuple[str, ...], start: int, end: int) -> Token:
        datum = self._find(names) if self.lookup is not Lookup.NONE else None
        return ("T_DATUM" if datum is not None else "T_CWORD"), Word(names, False, datum), start, end

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


# --- compilation ------------------------------------------------------------------------------------------------------


# by a piece's number; with the variables that stand where, and the types of fields among them
Meanings: TypeAlias = "dict[int, tuple[Meaning, dict[int, tuple[int, str | None]], list[int]]]"


@dataclass(eq=False)
class Function:
    """A compiled body."""

    name: str  # in messages of the compilation
    signature: str  # in CONTEXT lines
    source: str
    oid: int = 0
    datums: list[Datum] = field(default_factory=list)
    block: Block | None = None
    found: int = -1  # the variable FOUND
    parameters: list[int] = field(default_factory=list)  # the variables of input parameters
    out: int = -1  # the variable of the results: a Row, or the only one
    result: DataType = field(default_factory=lambda: DataType(oids.VOID))
    returns_set: bool = False
    may_end: bool = False  # without RETURN
    returns_record: bool = False  # a row type or record
    is_procedure: bool = False
    is_trigger: bool = False
    is_block: bool = False  # of DO
    collation: int = 0
    conflict: Conflict = Conflict.ERROR
    print_strict: bool = False
    extra: dict[str, int] = field(default_factory=dict)  # variables of triggers: new, old
    analysed: set[int] = field(default_factory=set)  # as its first compilation has them
    meanings: Meanings = field(default_factory=dict)


_CONFLICTS = {each.value: each for each in Conflict}


@dataclass(eq=False)
class FirstCompilation:
    """The settings, and the types of the names in declarations, that a function's first compilation in a session has
    found. Later ones keep them, as PostgreSQL keeps the compiled function until its definition changes."""

    conflict: Conflict
    print_strict: bool
    signature: str = ""  # its name in CONTEXT lines: a type of its arguments may have another one by now
    analysed: set[int] = field(default_factory=set)  # the pieces of SQL that have been, by number
    meanings: Meanings = field(default_factory=dict)  # of those that name types of users
    types: dict[tuple[str, ...], tuple[DataType, str]] = field(default_factory=dict)  # with the state of each

    @classmethod
    def now(cls, session: Session, signature: str = "") -> FirstCompilation:
        settings = session.settings
        conflict = _CONFLICTS[settings.get("plpgsql.variable_conflict")]
        return cls(conflict, bool(settings.value("plpgsql.print_strict_params")), signature)


class Compilation:
    def __init__(self, session: Session, function: Function, first: FirstCompilation, *, checks_syntax: bool) -> None:
        """`checks_syntax`: of the SQL in the body, too."""
        self.session = session
        self.function = function
        self.first = first
        self._checks_syntax = checks_syntax
        function.conflict, function.print_strict = first.conflict, first.print_strict
        function.analysed, function.meanings = first.analysed, first.meanings
        self.names: NameItem | None = None
        self.scanner = PlpgsqlScanner(function.source, self.find)
        self.declared: list[list[Datum]] = []  # by the open DECLARE sections

    # --- names --------------------------------------------------------------------------------------------------------

    def push(self, label: str | None, *, loop: bool = False, other: bool = False) -> None:
        self.names = NameItem(ItemKind.LABEL, 0, label or "", self.names, loop, other)

    def pop(self) -> None:
        item = self.names
        while item is not None and item.kind is not ItemKind.LABEL:
            item = item.before
        assert item is not None
        self.names = item.before

    def add_name(self, datum: Variable, name: str) -> None:
        kind = ItemKind.VAR if isinstance(datum, Var) else ItemKind.REC
        self.names = NameItem(kind, datum.number, name, self.names)

    def find(self, names: tuple[str, ...]) -> Datum | None:
        """The variable that a name in the body means (plpgsql_parse_word, …_dblword, …_tripword)."""
        item, used = find_name(self.names, names)
        if item is None:
            return None
        datum = self.function.datums[item.number]
        if isinstance(datum, Var):
            return datum if used == len(names) else None
        assert isinstance(datum, Rec)
        return datum if used == len(names) else self.field(datum, names[used])

    # --- variables ----------------------------------------------------------------------------------------------------

    def field(self, record: Rec, name: str) -> RecField:
        for known in self.function.datums:
            if isinstance(known, RecField) and known.record == record.number and known.name == name:
                return known
        new = RecField(name, len(self.function.datums), record.number)
        self.function.datums.append(new)
        return new

    def variable(self, name: str, line: int, kind: DataType, *, named: bool = True) -> Variable:
        """A new variable (plpgsql_build_variable)."""
        number = len(self.function.datums)
        new: Variable
        if kind.is_row:
            new = Rec(name, number, line, kind)
        elif _is_pseudo(kind.oid):
            raise PgError("0A000", f'variable "{name}" has pseudo-type {kind.name}')
        else:
            new = Var(name, number, line, kind)
        self.function.datums.append(new)
        if self.declared:
            self.declared[-1].append(new)
        if named:
            self.add_name(new, name)
        return new

    def row(self, name: str, line: int, targets: list[tuple[str, int]]) -> Row:
        new = Row(name, len(self.function.datums), line, [n for n, _ in targets], [t for _, t in targets])
        self.function.datums.append(new)
        return new

    # --- SQL ----------------------------------------------------------------------------------------------------------

    def sql(self, text: str, mode: Mode, begin: int, *, leader: int = 0, target: int = -1) -> SqlText:
        """A piece of SQL, whose syntax may be checked (check_sql_expr). `leader`: characters that the text has in place
        of the body's own."""
        if not self._checks_syntax:
            return SqlText(text, mode, self.names, target)
        try:
            if mode is Mode.STATEMENT:
                statements = parse(text)
                if len(statements) > 1:
                    raise PgError("42601", "query has several statements")
            else:
                parse_fragment(text, assignment=mode is Mode.ASSIGNMENT)
        except PgError as error:
            raise self.placed(error, begin - leader) from None
        return SqlText(text, mode, self.names, target)

    def placed(self, error: PgError, begin: int) -> PgError:
        """An error in a piece of SQL with its position in the body (plpgsql_sql_error_callback)."""
        inside = error.report.position
        error.report = replace(error.report, position=begin + (inside if inside is not None else 1))
        return error


def _is_pseudo(oid: int) -> bool:
    known = type_by_oid(oid)
    return known is not None and known.typtype == "p"


_current: ContextVar[Compilation] = ContextVar("compilation")


def current() -> Compilation:
    return _current.get()


@contextmanager
def compiling(compilation: Compilation) -> Iterator[None]:
    before = _current.set(compilation)
    try:
        yield
    finally:
        _current.reset(before)
