"""Builders of DECLARE: variables, their types, aliases, bound cursors and their arguments (read_cursor_args)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.expr.analyse.casts import comparing_collation
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.build import line_of
from pgrepl.plpgsql.compilation import END, Lookup, Word, current, is_word
from pgrepl.plpgsql.datums import DataType, Datum, Mode, Rec, Row, SqlText, Var, build, find_name
from pgrepl.plpgsql.frame import REFCURSOR, array_of, named_type, row_type_of, type_like, type_of_text
from pgrepl.sql.building import Taken
from pgrepl.sql.keywords import UNRESERVED, quote_identifier
from pgrepl.sql.scanner import scan

if TYPE_CHECKING:
    from pgrepl.sql.scanner import Token


def read_cursor_arguments(cursor: Var, until: str) -> SqlText | None:
    """The arguments of a bound cursor as one expression with a column for each parameter (read_cursor_args)."""
    scanner = current().scanner
    token = scanner.next()
    if cursor.parameters is None:
        if token[0] == "LPAR":
            raise PgError("42601", f'cursor "{cursor.name}" has no arguments', location=token[2])
        if token[0] != until:
            raise scanner.error("syntax error")
        return None
    if token[0] != "LPAR":
        raise PgError("42601", f'cursor "{cursor.name}" has arguments', location=token[2])
    names = cursor.parameters.names
    values: dict[str, str] = {}
    any_named = False
    begin = scanner.peek()[2]
    for number, name in enumerate(names, 1):
        place = scanner.peek()[2]
        given = _argument_name(cursor)
        any_named = any_named or given is not None
        name = given or name
        if name in values:
            message = f'value for parameter "{name}" of cursor "{cursor.name}" specified more than once'
            raise PgError("42601", message, location=place)
        text, start, end = scanner.read_until(("COMMA", "RPAR"), '," or ")')
        values[name] = current().sql(text, Mode.EXPRESSION, start).text
        if end[0] == "RPAR" and number < len(names):
            raise PgError("42601", f'not enough arguments for cursor "{cursor.name}"', location=end[2])
        if end[0] == "COMMA" and number == len(names):
            raise PgError("42601", f'too many arguments for cursor "{cursor.name}"', location=end[2])
    if scanner.next()[0] != until:
        raise scanner.error("syntax error")
    parts = [values[name] + (f" AS {quote_identifier(name)}" if any_named else "") for name in names]
    return current().sql(", ".join(parts), Mode.EXPRESSION, begin)


def _argument_name(cursor: Var) -> str | None:
    """The name in `name := value`."""
    scanner = current().scanner
    token = scanner.next()
    named = isinstance(token[1], Word) or token[1] in UNRESERVED
    if not named or scanner.peek()[0] != "COLON_EQUALS":
        scanner.push_back(token)
        return None
    name: str = token[1].names[0] if isinstance(token[1], Word) else token[1]
    assert cursor.parameters is not None
    if name not in cursor.parameters.names:
        message = f'cursor "{cursor.name}" has no argument named "{name}"'
        raise PgError("42601", message, location=token[2])
    scanner.next()
    return name


# --- build declarations -----------------------------------------------------------------------------------------------


Name = tuple[str, int]  # and its line


@build
def declare(location: int) -> None:
    current().scanner.lookup = Lookup.NONE
    current().declared.append([])


@build
def no_declarations(location: int, label: str | None, *_: None) -> tuple[str | None, list[Datum]]:
    return declarations(location, label, *_)


@build
def declarations(location: int, label: str | None, *declared: None) -> tuple[str | None, list[Datum]]:
    compilation = current()
    compilation.scanner.lookup = Lookup.ALL
    return label, compilation.declared.pop() if declared else []


@build
def misplaced_label(location: int, name: str) -> None:
    raise PgError("42601", "block label must be placed before DECLARE, not after", location=location)


# --- names ------------------------------------------------------------------------------------------------------------


@build
def declared_name(location: int, word: Word) -> Name:
    return _new_name(word.names[0], location)


@build
def declared_keyword(location: int, name: str) -> Name:
    return _new_name(name, location)


def _new_name(name: str, location: int) -> Name:
    compilation = current()
    if find_name(compilation.names, (name,), local=True)[0] is not None:
        raise compilation.scanner.error("duplicate declaration")
    return name, line_of(location)


# --- variables --------------------------------------------------------------------------------------------------------


@build
def declare_variable(
    location: int,
    name: Name,
    kind: DataType,
    collation: tuple[int, int] | None,
    not_null: bool,
    default: SqlText | None,
    *,
    constant: bool = False,
) -> None:
    compilation = current()
    if collation is not None:
        oid, place = collation
        if not kind.collation:
            text = type_text(compilation.session, kind.oid)
            raise PgError("42804", f"collations are not supported by type {text}", location=place)
        kind = replace(kind, collation=oid)
    datum = compilation.variable(name[0], name[1], kind)
    datum.constant, datum.not_null, datum.default = constant, not_null, default
    if not_null and default is None:
        message = f'variable "{name[0]}" must have a default value, since it\'s declared NOT NULL'
        raise PgError("22004", message, location=_not_null_place(location))


@build
def declare_constant(
    location: int,
    name: Name,
    kind: DataType,
    collation: tuple[int, int] | None,
    not_null: bool,
    default: SqlText | None,
) -> None:
    declare_variable(location, name, kind, collation, not_null, default, constant=True)


def _not_null_place(location: int) -> int:
    """The location of NOT NULL in the declaration that has just been read."""
    text = current().scanner.text
    places = [start for terminal, _, start, _ in _until(scan(text[location:]), "SEMICOLON") if terminal == "NOT"]
    return location + places[0] if places else location


def _until(tokens: object, end: str) -> list[Token]:
    read: list[Token] = []
    for token in tokens:  # type: ignore[attr-defined]
        if token[0] in (end, END):
            break
        read.append(token)
    return read


@build
def default_value(location: int, _: None, value: SqlText) -> SqlText:
    return value


@build
def collation_word(location: int, word: Word) -> tuple[int, int]:
    return _collation((word.names[0],), location)


@build
def collation_keyword(location: int, word: str) -> tuple[int, int]:
    return _collation((word,), location)


@build
def collation_names(location: int, word: Word) -> tuple[int, int]:
    return _collation(word.names, location)


def _collation(names: tuple[str, ...], location: int) -> tuple[int, int]:
    return comparing_collation(current().session, names), location


# --- types ------------------------------------------------------------------------------------------------------------


@build
def read_datatype(location: int) -> DataType:
    return _datatype(current().scanner.next())


@build
def read_datatype_here(location: int) -> Taken:
    """The type whose first token the parser has read, to know that no other word stands here."""
    return Taken(_datatype(current().scanner.last))


def _datatype(token: Token) -> DataType:
    """A type (read_datatype)."""
    compilation, scanner = current(), current().scanner
    begin = token[2]
    names: tuple[str, ...] = ()
    if isinstance(token[1], Word) and token[0] in ("T_WORD", "T_CWORD"):
        names = token[1].names
    elif token[0] not in ("NOT", "COLLATE", END) and isinstance(token[1], str) and token[0] == token[1].upper():
        names = (token[1],)
    if names:
        token = scanner.next()
        if token[0] == "PERCENT":
            token = scanner.next()
            named = None
            if is_word(token, "type") or _is_plain(token, "type"):
                named = named_type(compilation, ("%type", *names), partial(type_like, compilation, names))
            elif is_word(token, "rowtype") or _is_plain(token, "rowtype"):
                named = named_type(compilation, ("%rowtype", *names), partial(row_type_of, compilation, names))
            if named is not None:
                return _array_over(named)
    depth = 0
    while token[0] != "SEMICOLON":
        if token[0] == END:
            raise scanner.error("mismatched parentheses" if depth else "incomplete data type declaration")
        if token[0] in ("COLLATE", "NOT", "EQUAL", "COLON_EQUALS", "DEFAULT"):
            break
        if token[0] in ("COMMA", "RPAR") and not depth:
            break
        depth += (token[0] == "LPAR") - (token[0] == "RPAR")
        token = scanner.next()
    text = scanner.text[begin : token[2]].rstrip()
    if not text:
        raise scanner.error("missing data type declaration")
    named = named_type(compilation, (text,), partial(type_of_text, compilation, text, begin))
    scanner.push_back(token)
    return named


def _is_plain(token: Token, word: str) -> bool:
    return token[0] == "T_WORD" and token[1].names == (word,) and not token[1].quoted


def _array_over(element: DataType) -> DataType:
    """`x%TYPE[]`, `x%TYPE ARRAY[3]`."""
    scanner = current().scanner
    token = scanner.next()
    is_array = is_word(token, "array")
    if is_array:
        token = scanner.next()
    while token[0] == "LSQB":
        is_array = True
        token = scanner.next()
        if token[0] == "ICONST":
            token = scanner.next()
        if token[0] != "RSQB":
            raise scanner.error('syntax error, expected "]"')
        token = scanner.next()
    scanner.push_back(token)
    return array_of(current().session, element) if is_array else element


# --- aliases ----------------------------------------------------------------------------------------------------------


@build
def alias_of_word(location: int, word: Word) -> Datum:
    return _aliased((word.names[0],), location)


@build
def alias_of_keyword(location: int, word: str) -> Datum:
    return _aliased((word,), location)


@build
def alias_of_names(location: int, word: Word) -> Datum:
    return _aliased(word.names[:2], location)


def _aliased(names: tuple[str, ...], location: int) -> Datum:
    item, _ = find_name(current().names, names)
    if item is None:
        raise PgError("42704", f'variable "{".".join(names)}" does not exist', location=location)
    return current().function.datums[item.number]


@build
def declare_alias(location: int, name: Name, datum: Datum) -> None:
    assert isinstance(datum, (Var, Rec))
    current().add_name(datum, name[0])


# --- cursors ----------------------------------------------------------------------------------------------------------


@build
def cursor_begins(location: int) -> None:
    """The parameters of a cursor are names of a level of their own."""
    current().push(None, other=True)


@build
def cursor_argument(location: int, name: Name, kind: DataType) -> Datum:
    return current().variable(name[0], name[1], kind)


@build
def cursor_arguments(location: int, arguments: list[Datum]) -> Row:
    return current().row("(unnamed row)", line_of(location), [(a.name, a.number) for a in arguments])


@build
def read_cursor_query(location: int) -> SqlText:
    scanner = current().scanner
    text, begin, _ = scanner.read_until(("SEMICOLON",), ";", is_expression=False)
    return current().sql(text, Mode.STATEMENT, begin)


@build
def declare_cursor(
    location: int, name: Name, scroll: bool | None, _: None, parameters: Row | None, __: None, query: SqlText
) -> None:
    compilation = current()
    compilation.pop()
    cursor = compilation.variable(name[0], name[1], REFCURSOR)
    assert isinstance(cursor, Var)
    cursor.query, cursor.parameters, cursor.scroll, cursor.is_bound = query, parameters, scroll, True
