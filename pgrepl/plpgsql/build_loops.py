"""Builders of LOOP, WHILE, FOR and FOREACH, and of target lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.plpgsql import nodes
from pgrepl.plpgsql.build import Label, check_assignable, check_labels, line_of, read_expression, unknown_variable
from pgrepl.plpgsql.build_declarations import read_cursor_arguments
from pgrepl.plpgsql.compilation import Word, current, is_word
from pgrepl.plpgsql.datums import DataType, Datum, Mode, Rec, Row, SqlText, Var, build
from pgrepl.plpgsql.frame import REFCURSOR
from pgrepl.types import oids

_INT4 = DataType(oids.INT4, -1, 0, "int4")
_RECORD = DataType(oids.RECORD, -1, 0, "record", True)
_MAX_TARGETS = 1024


@build
def loop_body(location: int, body: nodes.Statements, end_label: Label | None) -> tuple[nodes.Statements, Label | None]:
    return body, end_label


def _closed(label: str | None, body: tuple[nodes.Statements, Label | None]) -> nodes.Statements:
    statements, end_label = body
    check_labels(label, end_label)
    current().pop()
    return statements


@build
def loop(location: int, label: str | None, body: Any) -> nodes.Loop:
    return nodes.Loop(line_of(location), label, _closed(label, body))


@build
def while_(location: int, label: str | None, condition: SqlText, body: Any) -> nodes.While:
    return nodes.While(line_of(location), label, condition, _closed(label, body))


@dataclass(slots=True)
class _Target:
    """The variable of a FOR loop. A name that is no variable becomes one of the loop's own."""

    name: str
    location: int
    scalar: Datum | None = None
    row: Rec | Row | None = None


@build
def for_datum(location: int, word: Word) -> _Target:
    datum = word.datum
    target = _Target(word.names[-1] if len(word.names) > 1 else word.names[0], location)
    if isinstance(datum, (Rec, Row)):
        target.row = datum
        return target
    assert datum is not None
    target.scalar = datum
    if current().scanner.peek()[0] == "COMMA":
        target.row = scalar_list(target.name, datum, location)
    return target


@build
def for_word(location: int, word: Word) -> _Target:
    if current().scanner.peek()[0] == "COMMA":
        raise unknown_variable(word, location)
    return _Target(word.names[0], location)


@build
def for_names(location: int, word: Word) -> _Target:
    raise unknown_variable(word, location)


def scalar_list(name: str, datum: Datum, location: int) -> Row:
    """The targets `a, b, c`, of which the first has been read (read_into_scalar_list)."""
    scanner = current().scanner
    check_assignable(datum, location)
    targets = [(name, datum.number)]
    while (token := scanner.next())[0] == "COMMA":
        if len(targets) >= _MAX_TARGETS:
            raise PgError("54000", "too many INTO variables specified", location=token[2])
        token = scanner.next()
        if token[0] != "T_DATUM":
            raise not_a_variable(token)
        word: Word = token[1]
        assert word.datum is not None
        check_assignable(word.datum, token[2])
        if isinstance(word.datum, (Rec, Row)):
            raise PgError("42601", f'"{word.text}" is not a scalar variable', location=token[2])
        targets.append((word.names[-1], word.datum.number))
    scanner.push_back(token)
    return current().row("(unnamed row)", line_of(location), targets)


def not_a_variable(token: Any) -> PgError:
    if token[0] in ("T_WORD", "T_CWORD"):
        return unknown_variable(token[1], token[2])
    return current().scanner.error("syntax error")


def read_target(*, may_be_strict: bool) -> tuple[Rec | Row, bool]:
    """The target behind INTO, and whether it is STRICT (read_into_target)."""
    scanner = current().scanner
    token = scanner.next()
    strict = may_be_strict and token[0] == "STRICT"
    if strict:
        token = scanner.next()
    if token[0] != "T_DATUM":
        raise not_a_variable(token)
    datum = token[1].datum
    if not isinstance(datum, (Rec, Row)):
        return scalar_list(token[1].names[-1], datum, token[2]), strict
    check_assignable(datum, token[2])
    after = scanner.next()
    if after[0] == "COMMA":
        message = "record variable cannot be part of multiple-item INTO list"
        raise PgError("42601", message, location=after[2])
    scanner.push_back(after)
    return datum, strict


def read_list(ends: tuple[str, ...], expected: str) -> tuple[list[SqlText], str]:
    """Expressions with commas between them, and the terminal behind them."""
    listed: list[SqlText] = []
    while True:
        text, begin, end = current().scanner.read_until(("COMMA", *ends), expected)
        listed.append(current().sql(text, Mode.EXPRESSION, begin))
        if end[0] != "COMMA":
            return listed, end[0]


def _row_target(target: _Target) -> Rec | Row:
    if target.row is not None:
        check_assignable(target.row, target.location)
        return target.row
    if target.scalar is not None:
        check_assignable(target.scalar, target.location)
        return current().row("(unnamed row)", line_of(target.location), [(target.name, target.scalar.number)])
    message = "loop variable of loop over rows must be a record variable or list of scalar variables"
    raise PgError("42804", message, location=target.location)


@build
def for_control(location: int, target: _Target) -> nodes.Statement:
    """The loop without its label and body, which `for` fills in."""
    compilation, scanner = current(), current().scanner
    token = scanner.next()
    if token[0] == "EXECUTE":
        text, begin, end = scanner.read_until(("LOOP", "USING"), "LOOP or USING")
        query = compilation.sql(text, Mode.EXPRESSION, begin)
        row = _row_target(target)
        parameters = read_list(("LOOP",), ", or LOOP")[0] if end[0] == "USING" else []
        return nodes.ForExecute(0, None, row, query, parameters, [])
    if token[0] == "T_DATUM" and isinstance(token[1].datum, Var) and token[1].datum.type.oid == REFCURSOR.oid:
        return _over_cursor(target, token[1].datum, token[2])
    reverse = is_word(token, "reverse")
    if not reverse:
        scanner.push_back(token)
    text, begin, end = scanner.read_until(("DOT_DOT", "LOOP"), "LOOP")
    if end[0] == "DOT_DOT":
        lower = compilation.sql(text, Mode.EXPRESSION, begin)
        return _over_integers(target, lower, reverse)
    if reverse:
        raise PgError("42601", "cannot specify REVERSE in query FOR loop", location=token[2])
    query = compilation.sql(text, Mode.STATEMENT, begin)
    return nodes.ForQuery(0, None, _row_target(target), query, [])


def _over_integers(target: _Target, lower: SqlText, reverse: bool) -> nodes.ForInteger:
    compilation, scanner = current(), current().scanner
    text, begin, end = scanner.read_until(("LOOP", "BY"), "LOOP")
    upper = compilation.sql(text, Mode.EXPRESSION, begin)
    step = read_expression("LOOP", expected="LOOP") if end[0] == "BY" else None
    if target.scalar is not None and target.row is not None:
        message = "integer FOR loop must have only one target variable"
        raise PgError("42601", message, location=target.location)
    variable = compilation.variable(target.name, line_of(target.location), _INT4)
    assert isinstance(variable, Var)
    return nodes.ForInteger(0, None, variable, lower, upper, step, reverse, [])


def _over_cursor(target: _Target, cursor: Var, location: int) -> nodes.ForCursor:
    if target.scalar is not None and target.row is not None:
        message = "cursor FOR loop must have only one target variable"
        raise PgError("42601", message, location=target.location)
    if not cursor.is_bound:
        raise PgError("42601", "cursor FOR loop must use a bound cursor variable", location=location)
    arguments = read_cursor_arguments(cursor, "LOOP")
    record = current().variable(target.name, line_of(target.location), _RECORD)
    assert isinstance(record, Rec)
    return nodes.ForCursor(0, None, record, cursor, arguments, [])


@build
def for_(location: int, label: str | None, loop: Any, body: Any) -> nodes.Statement:
    loop.line, loop.label, loop.body = line_of(location), label, _closed(label, body)
    statement: nodes.Statement = loop
    return statement


@build
def no_slice(location: int) -> int:
    return 0


@build
def slice_(location: int, number: int) -> int:
    return number


@build
def foreach(location: int, label: str | None, target: _Target, slice_: int, array: SqlText, body: Any) -> nodes.Foreach:
    datum = target.row or target.scalar
    if datum is None:
        message = "loop variable of FOREACH must be a known variable or list of variables"
        raise PgError("42601", message, location=target.location)
    check_assignable(datum, target.location)
    return nodes.Foreach(line_of(location), label, datum.number, slice_, array, _closed(label, body))
