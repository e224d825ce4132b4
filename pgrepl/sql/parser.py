"""The parser: the LALR loop over the parse tables; text becomes raw statements.

It behaves as PostgreSQL's to the token: a state with a single reduction reduces before the next token is looked at,
and a syntax error names the first token that cannot follow. `tables.bin` has layers (class of key words, action) with
exceptions, of which a row is put together when it is first needed. A number ≥ 0 shifts; -1 - r reduces by rule r;
ACCEPT ends; None is an error.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pgrepl.sql import nodes
from pgrepl.sql.building import BUILDERS, FAMILIES, AtCurrentToken, Builder, OnNotice, Taken, release
from pgrepl.sql.building import on_notice as notice_receiver
from pgrepl.sql.keywords import STANDARD, StringRules
from pgrepl.sql.nodes import Expr, RawStmt, TypeName, UnsupportedStmt
from pgrepl.sql.scanner import Token, error_at, tokens

if TYPE_CHECKING:
    from pgrepl.ground.errors import Report
    from pgrepl.sql.nodes import PlAssign, SelectStmt

ACCEPT = 1 << 30
MARSHAL_VERSION = 4
PATH = Path(__file__).with_name("tables.bin")
PLPGSQL = PATH.with_name("plpgsql.bin")

Row = dict[str, "int | None"]
TokenClass = tuple[str, ...]
PackedRow = tuple[tuple[tuple[int, "int | None"], ...], Row, "int | None"]
"""Layers (number of a token class, action), exceptions, default."""
PackedRule = tuple[int, int, "int | tuple[str, tuple[str, ...]]"]
"""Nonterminal, length, and the place on the stack of the one child that is the value, or an action (actions.py)."""


@dataclass(slots=True)
class Tables:
    fingerprint: str
    starts: dict[str, int]
    classes: list[TokenClass]
    packed_rows: list[PackedRow | int]
    """One for each state; a lone number is a reduction for which no token is needed."""
    gotos: list[tuple[dict[int, int], int]]
    """Per nonterminal: state before it → state after it, and the most usual one, which is left out of the dict."""
    rules: list[PackedRule]


def unpack_row(tables: Tables, state: int) -> tuple[Row, int | None]:
    """A state's full row and its default action."""
    packed = tables.packed_rows[state]
    assert not isinstance(packed, int)
    layers, exceptions, default = packed
    row: Row = {}
    for number, action in layers:
        row.update(dict.fromkeys(tables.classes[number], action))
    row.update(exceptions)
    return row, default


def pack(tables: Tables) -> bytes:
    fields = (tables.fingerprint, tables.starts, tables.classes, tables.packed_rows, tables.gotos, tables.rules)
    return marshal.dumps(fields, MARSHAL_VERSION)


@cache
def load(path: Path = PATH) -> Tables:
    fields: tuple[Any, ...] = marshal.loads(path.read_bytes())
    return Tables(*fields)


# --- parser -----------------------------------------------------------------------------------------------------------


FindBuilder = Callable[[str], Builder]


_LONGEST, _MOST = 2000, 100  # of texts whose statements are remembered, and how many of them
_Key = tuple[str, bool, bool, bool, int]  # a text and the rules
_known: dict[_Key, list[RawStmt] | None] = {}  # None: the text has been seen once


def parse(text: str, on_notice: OnNotice | None = None, rules: StringRules = STANDARD) -> list[RawStmt]:
    """The statements of a query string as raw_parser returns them, without empty ones. Those of a text that comes again
    are remembered: drivers send the same few texts."""
    key = text, rules.conforming, rules.warning, rules.quote, rules.release
    known = _known.get(key)
    if known is not None:
        return list(known)
    noticed = False

    def notice(report: Report) -> None:
        nonlocal noticed
        noticed = True
        if on_notice is not None:
            on_notice(report)

    statements: list[RawStmt] = _parser().parse("parse_toplevel", text, notice, rules)
    if not noticed and len(text) <= _LONGEST:
        _remember(key, statements)
    return statements


def _remember(key: _Key, statements: list[RawStmt]) -> None:
    known = list(statements) if key in _known else None
    while len(_known) >= _MOST:
        _known.pop(next(iter(_known), key), None)
    _known[key] = known


def parse_expression(text: str, on_notice: OnNotice | None = None) -> Expr:
    """The raw tree of a text that is one expression."""
    return cast(Expr, _parser().parse("parse_expression", text, on_notice))


def parse_type_name(text: str, on_notice: OnNotice | None = None) -> TypeName:
    """The raw tree of a text that is a type name, as in `'numeric(10,2)'::regtype`."""
    return cast(TypeName, _parser().parse("parse_type_name", text, on_notice))


def parse_fragment(text: str, *, assignment: bool) -> SelectStmt | PlAssign:
    """The raw tree of an expression or an assignment of PL/pgSQL."""
    start = "parse_plpgsql_assignment" if assignment else "parse_plpgsql_expression"
    return cast("SelectStmt | PlAssign", _parser().parse(start, text, None))


class _Unexpected(Exception):
    """A syntax error: the grammar does not allow this token here."""


class Reductions(dict[int, tuple[Any, ...]]):
    """The reduction of each rule, prepared when first used."""

    def __init__(self, tables: Tables, builder: FindBuilder) -> None:
        super().__init__()
        self.tables = tables
        self.builder = builder

    def __missing__(self, rule: int) -> tuple[Any, ...]:
        reduction = self[rule] = _reduction(self.tables, self.builder, *self.tables.rules[rule])
        return reduction


class Parser:
    """The parse tables, prepared for the loop as rules and rows are first used."""

    def __init__(self, tables: Tables, builder: FindBuilder | None = None) -> None:
        """`builder` finds the builder of an alias; None: SQL's."""
        self.tables = tables
        self.reductions = Reductions(tables, builder or _builder)
        self.rows: list[Row | int | None] = [row if isinstance(row, int) else None for row in tables.packed_rows]
        self.defaults: list[int | None] = [None] * len(self.rows)

    def row(self, state: int) -> Row:
        """A state's action row, unpacked at its first use."""
        row, self.defaults[state] = unpack_row(self.tables, state)
        self.rows[state] = row
        return row

    def parse(self, start: str, text: str, on_notice: OnNotice | None, rules: StringRules = STANDARD) -> Any:
        before, spoken = notice_receiver.set(on_notice), release.set(rules.release)
        try:
            return self.run(self.tables.starts[start], text, tokens(text, on_notice, rules))
        finally:
            notice_receiver.reset(before)
            release.reset(spoken)

    def run(self, state: int, text: str, source: Iterator[Token]) -> Any:
        """Three stacks side by side: states, values, and where in the text each value begins."""
        rows, defaults, reductions = self.rows, self.defaults, self.reductions
        states, values, locations = [state], [cast(Any, None)], [-1]
        token: Token | None = None
        last: Token = ("$END", None, 0, 0)
        action: Any
        try:
            while True:
                row: Any = rows[state]
                if row.__class__ is int:
                    action = row
                else:
                    if row is None:
                        row = self.row(state)
                    if token is None:
                        token = last = next(source)
                    action = row.get(token[0], defaults[state])
                    if action is None:
                        raise _Unexpected
                    if action >= 0:
                        if action == ACCEPT:
                            return values[-1]
                        state = action
                        states.append(state)
                        values.append(token[1])
                        locations.append(token[2])
                        token = None
                        continue
                length, (gotos, usual), build = reductions[-1 - action]
                value = values[build] if build.__class__ is int else build(values, locations)
                first = -1
                if length:
                    first = locations[-length]
                    del states[-length:], values[-length:], locations[-length:]
                elif value.__class__ is Taken:
                    value, token = value.value, None
                state = gotos.get(states[-1], usual)
                states.append(state)
                values.append(value)
                locations.append(first)
        except _Unexpected:
            raise error_at(last, "syntax error", text) from None
        except AtCurrentToken as fault:
            raise error_at(last, str(fault), text) from None


def _reduction(
    tables: Tables, find: FindBuilder, nonterminal: int, length: int, action: int | tuple[str, tuple[str, ...]]
) -> tuple[Any, ...]:
    """The parts of a rule for the loop: its length, the gotos behind it, and what makes its value."""
    if isinstance(action, int):
        return length, tables.gotos[nonterminal], action
    expression, names = action
    scope = {name: getattr(nodes, name) if name[0].isupper() else find(name) for name in names}
    return length, tables.gotos[nonterminal], eval(f"lambda v, at: {expression}", scope)


def _builder(alias: str) -> Builder:
    """The builder registered for an alias. `unsupported_create_function` needs none: the name says the command."""
    unread = iter(FAMILIES)
    while alias not in BUILDERS and (family := next(unread, None)) is not None:
        import_module(f"{__package__}.building.{family}")
    if alias in BUILDERS:
        return BUILDERS[alias]
    prefix, _, what = alias.partition("unsupported_")
    if prefix or not what:
        raise LookupError(f"no builder {alias} for the grammar")
    statement = what.upper().replace("_", " ")
    return lambda location, *_: UnsupportedStmt(statement, location)


@cache
def _parser() -> Parser:
    return Parser(load())
