"""The state of a compilation: the variables and names of the function so far (plpgsql_curr_compile and the functions
of pl_comp.c that fill it)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from pgrepl.errors import PgError
from pgrepl.expr.variables import Conflict
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
from pgrepl.plpgsql.scanner import PlpgsqlScanner
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.meaning import Meaning


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
        from pgrepl.sql.parser import parse, parse_fragment

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
    from pgrepl.types.builtin import type_by_oid

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
