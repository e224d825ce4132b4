"""Builders of SQL statements, EXECUTE, RETURN, RAISE, ASSERT and cursors."""

from __future__ import annotations

from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.plpgsql import nodes
from pgrepl.plpgsql.build import line_of, read_expression, read_sqlstate, unknown_variable
from pgrepl.plpgsql.build_declarations import read_cursor_arguments
from pgrepl.plpgsql.build_loops import read_list, read_target
from pgrepl.plpgsql.compilation import END, Lookup, Word, current, is_word
from pgrepl.plpgsql.datums import Mode, Rec, Row, SqlText, Var, build, sqlstates_of
from pgrepl.plpgsql.frame import REFCURSOR
from pgrepl.sql.keywords import UNRESERVED
from pgrepl.types import oids

_OVER = "unexpected end of function definition"

# --- SQL statements ---------------------------------------------------------------------------------------------------


@build
def sql_keyword(location: int) -> nodes.Sql:
    return _statement(current().scanner.last[0], location)


@build
def sql_word(location: int, word: Word) -> nodes.Sql:
    if current().scanner.peek()[0] in ("EQUAL", "COLON_EQUALS", "LSQB", "DOT"):
        raise unknown_variable(word, location)
    return _statement(word.names[0], location)


@build
def sql_names(location: int, word: Word) -> nodes.Sql:
    if current().scanner.peek()[0] in ("EQUAL", "COLON_EQUALS", "LSQB"):
        raise unknown_variable(word, location)
    return _statement(word.names[0], location)


def _statement(first: str, location: int) -> nodes.Sql:
    """A statement up to its semicolon. The target behind INTO is taken out of it (make_execsql_stmt)."""
    scanner = current().scanner
    saved, scanner.lookup = scanner.lookup, Lookup.DOTTED
    before, depth, bodies = first, 0, 0
    words = [first]
    target: Rec | Row | None = None
    strict, into, behind = False, -1, -1
    while True:
        token = scanner.next()
        if into >= 0 and behind < 0:
            behind = token[2]
        kind = token[0]
        if len(words) < 4 and isinstance(token[1], Word):
            words.append(token[1].names[0])
        depth += (kind == "LPAR") - (kind == "RPAR")
        if _defines_routine(words) and not depth:
            bodies += (kind == "BEGIN" or (kind == "CASE" and bodies > 0)) - (kind == "END" and bodies > 0)
        if kind == "SEMICOLON" and not depth and not bodies:
            break
        if kind == END:
            raise scanner.error(_OVER)
        if kind == "INTO" and before not in ("INSERT", "MERGE") and first != "IMPORT":
            if into >= 0:
                raise scanner.error("INTO specified more than once")
            into = token[2]
            scanner.lookup = Lookup.ALL
            target, strict = read_target(may_be_strict=True)
            scanner.lookup = Lookup.DOTTED
        before = kind
    scanner.lookup = saved
    text = scanner.text[location : token[2]]
    if into >= 0:
        text = text[: into - location] + " " * (behind - into) + text[behind - location :]
    query = current().sql(text.rstrip(" \t\n\r\f\v"), Mode.STATEMENT, location)
    return nodes.Sql(line_of(location), query, target, strict)


def _defines_routine(words: list[str]) -> bool:
    """CREATE [OR REPLACE] FUNCTION | PROCEDURE: there may be semicolons in its BEGIN ATOMIC."""
    return words[0] == "create" and any(word in ("function", "procedure") for word in words[1:])


def _read_statement() -> SqlText:
    text, begin, _ = current().scanner.read_until(("SEMICOLON",), ";", is_expression=False)
    return current().sql(text, Mode.STATEMENT, begin)


@build
def perform(location: int) -> nodes.Perform:
    scanner = current().scanner
    scanner.push_back(scanner.last)
    text, begin, _ = scanner.read_until(("SEMICOLON",), ";", is_expression=False)
    text = "SELECT" + text[len("perform") :]
    return nodes.Perform(line_of(location), current().sql(text, Mode.STATEMENT, begin, leader=-1))


@build
def call(location: int) -> nodes.Call:
    current().scanner.push_back(current().scanner.last)
    return nodes.Call(line_of(location), _read_statement())


@build
def do(location: int) -> nodes.Do:
    current().scanner.push_back(current().scanner.last)
    return nodes.Do(line_of(location), _read_statement())


@build
def execute(location: int) -> nodes.Execute:
    compilation, scanner = current(), current().scanner
    text, begin, end = scanner.read_until(("INTO", "USING", "SEMICOLON"), "INTO or USING or ;")
    query = compilation.sql(text, Mode.EXPRESSION, begin)
    target: Rec | Row | None = None
    strict = False
    parameters: list[SqlText] = []
    kind = end[0]
    while kind != "SEMICOLON":
        if kind == "INTO" and target is None:
            target, strict = read_target(may_be_strict=True)
            kind = scanner.next()[0]
        elif kind == "USING" and not parameters:
            parameters, kind = read_list(("SEMICOLON", "INTO"), ", or ; or INTO")
        else:
            raise scanner.error("syntax error")
    return nodes.Execute(line_of(location), query, target, strict, parameters)


# --- RETURN -----------------------------------------------------------------------------------------------------------


@build
def return_(location: int) -> nodes.Statement:
    scanner = current().scanner
    token = scanner.next()
    if token[0] == END:
        raise scanner.error(_OVER)
    if is_word(token, "next"):
        return _return_next(location)
    if is_word(token, "query"):
        return _return_query(location)
    scanner.push_back(token)
    return _return(location)


def _return(location: int) -> nodes.Return:
    function = current().function
    line = line_of(location)
    if function.returns_set:
        hint = "Use RETURN NEXT or RETURN QUERY."
        _no_value("RETURN cannot have a parameter in function returning set", hint)
        return nodes.Return(line, None)
    if function.is_procedure or function.result.oid == oids.VOID:
        what = "a procedure" if function.is_procedure else "function returning void"
        _no_value(f"RETURN cannot have a parameter in {what}")
        return nodes.Return(line, None)
    if function.out >= 0:
        _no_value("RETURN cannot have a parameter in function with OUT parameters")
        return nodes.Return(line, None, function.out)
    return nodes.Return(line, *_value())


def _no_value(message: str, hint: str | None = None) -> None:
    token = current().scanner.next()
    if token[0] != "SEMICOLON":
        raise PgError("42804", message, hint=hint, location=token[2])


def _value() -> tuple[SqlText | None, int]:
    """An expression, or a plain variable."""
    scanner = current().scanner
    token = scanner.next()
    if token[0] == "T_DATUM" and isinstance(token[1].datum, (Var, Rec, Row)) and scanner.peek()[0] == "SEMICOLON":
        scanner.next()
        return None, token[1].datum.number
    scanner.push_back(token)
    return read_expression("SEMICOLON", expected=";"), -1


def _return_next(location: int) -> nodes.ReturnNext:
    function = current().function
    if not function.returns_set:
        raise PgError("42804", "cannot use RETURN NEXT in a non-SETOF function", location=location)
    if function.out >= 0:
        _no_value("RETURN NEXT cannot have a parameter in function with OUT parameters")
        return nodes.ReturnNext(line_of(location), None, function.out)
    return nodes.ReturnNext(line_of(location), *_value())


def _return_query(location: int) -> nodes.ReturnQuery:
    scanner = current().scanner
    if not current().function.returns_set:
        raise PgError("42804", "cannot use RETURN QUERY in a non-SETOF function", location=location)
    token = scanner.next()
    if token[0] != "EXECUTE":
        scanner.push_back(token)
        return nodes.ReturnQuery(line_of(location), _read_statement(), False, [])
    query, parameters = _dynamic("; or USING")
    return nodes.ReturnQuery(line_of(location), query, True, parameters)


def _dynamic(expected: str) -> tuple[SqlText, list[SqlText]]:
    """The text of a query behind EXECUTE, and its parameters."""
    text, begin, end = current().scanner.read_until(("SEMICOLON", "USING"), expected)
    query = current().sql(text, Mode.EXPRESSION, begin)
    return query, read_list(("SEMICOLON",), ", or ;")[0] if end[0] == "USING" else []


# --- RAISE, ASSERT ----------------------------------------------------------------------------------------------------

_SEVERITIES = {
    "exception": "ERROR", "warning": "WARNING", "notice": "NOTICE", "info": "INFO", "log": "LOG", "debug": "DEBUG1",
}  # fmt: skip
_OPTIONS = ("errcode", "message", "detail", "hint", "column", "constraint", "datatype", "table", "schema")


@build
def raise_(location: int) -> nodes.Raise:
    scanner = current().scanner
    raised = nodes.Raise(line_of(location), "ERROR")
    token = scanner.next()
    if token[0] == END:
        raise scanner.error(_OVER)
    if token[0] == "SEMICOLON":
        return raised
    severity = next((word for word in _SEVERITIES if is_word(token, word)), None)
    if severity is not None:
        raised.severity = _SEVERITIES[severity]
        token = scanner.next()
        if token[0] == END:
            raise scanner.error(_OVER)
    kind = _message(raised) if token[0] == "SCONST" else token[0]
    if token[0] not in ("SCONST", "USING"):
        raised.condition = _condition(token)
        kind = scanner.next()[0]
        if kind not in ("SEMICOLON", "USING"):
            raise scanner.error("syntax error")
    if kind == "USING":
        _options(raised)
    if raised.message is not None:
        wanted = raised.message.replace("%%", "").count("%")
        if wanted != len(raised.parameters):
            few = "few" if wanted > len(raised.parameters) else "many"
            raise PgError("42601", f"too {few} parameters specified for RAISE")
    return raised


def _message(raised: nodes.Raise) -> str:
    """The format and its parameters; the terminal behind them."""
    scanner = current().scanner
    raised.message = scanner.last[1]
    kind: str = scanner.next()[0]
    if kind not in ("COMMA", "SEMICOLON", "USING"):
        raise scanner.error("syntax error")
    if kind == "COMMA":
        raised.parameters, kind = read_list(("SEMICOLON", "USING"), ", or ; or USING")
    return kind


def _condition(token: Any) -> str:
    if is_word(token, "sqlstate"):
        return read_sqlstate()
    if token[0] == "T_WORD":
        name = token[1].names[0]
    elif token[1] in UNRESERVED and token[0] == token[1].upper():
        name = token[1]
    else:
        raise current().scanner.error("syntax error")
    sqlstates_of(name)
    return str(name)


def _options(raised: nodes.Raise) -> None:
    scanner = current().scanner
    kind = "COMMA"
    while kind == "COMMA":
        token = scanner.next()
        if token[0] == END:
            raise scanner.error(_OVER)
        option = next((word for word in _OPTIONS if is_word(token, word)), None)
        if option is None:
            raise scanner.error("unrecognized RAISE statement option")
        if scanner.next()[0] not in ("EQUAL", "COLON_EQUALS"):
            raise scanner.error('syntax error, expected "="')
        text, begin, end = scanner.read_until(("COMMA", "SEMICOLON"), ", or ;")
        raised.options.append((option, current().sql(text, Mode.EXPRESSION, begin)))
        kind = end[0]


@build
def assert_(location: int) -> nodes.Assert:
    text, begin, end = current().scanner.read_until(("COMMA", "SEMICOLON"), ", or ;")
    condition = current().sql(text, Mode.EXPRESSION, begin)
    message = read_expression("SEMICOLON", expected=";") if end[0] == "COMMA" else None
    return nodes.Assert(line_of(location), condition, message)


# --- cursors ----------------------------------------------------------------------------------------------------------


@build
def cursor_variable(location: int, word: Word) -> Var:
    datum = word.datum
    if not isinstance(datum, Var) or current().scanner.peek()[0] == "LSQB":
        raise PgError("42804", "cursor variable must be a simple variable", location=location)
    if datum.type.oid != REFCURSOR.oid:
        message = f'variable "{datum.name}" must be of type cursor or refcursor'
        raise PgError("42804", message, location=location)
    return datum


@build
def unknown_cursor(location: int, word: Word) -> Var:
    raise unknown_variable(word, location)


@build
def open_(location: int, cursor: Var) -> nodes.Open:
    scanner = current().scanner
    line = line_of(location)
    if cursor.is_bound:
        return nodes.Open(line, cursor, arguments=read_cursor_arguments(cursor, "SEMICOLON"), scroll=cursor.scroll)
    scroll: bool | None = None
    token = scanner.next()
    if is_word(token, "no"):
        token = scanner.next()
        if is_word(token, "scroll"):
            scroll = False
            token = scanner.next()
    elif is_word(token, "scroll"):
        scroll = True
        token = scanner.next()
    if token[0] != "FOR":
        raise scanner.error('syntax error, expected "FOR"')
    token = scanner.next()
    if token[0] == "EXECUTE":
        query, parameters = _dynamic("USING or ;")
        return nodes.Open(line, cursor, query=query, is_dynamic=True, parameters=parameters, scroll=scroll)
    scanner.push_back(token)
    return nodes.Open(line, cursor, query=_read_statement(), scroll=scroll)


_FROM = ("FROM", "IN")


@build
def read_fetch_direction(location: int) -> nodes.Direction:
    scanner = current().scanner
    token = scanner.next()
    if token[0] == END:
        raise scanner.error(_OVER)
    for word, direction in (
        ("next", nodes.Direction()),
        ("prior", nodes.Direction("backward")),
        ("first", nodes.Direction("absolute", 1)),
        ("last", nodes.Direction("absolute", -1)),
    ):
        if is_word(token, word):
            return _from(direction)
    if token[0] == "ALL":
        return _from(nodes.Direction("forward", None, several=True))
    for word in ("absolute", "relative"):
        if is_word(token, word):
            return nodes.Direction(word, 0, _until_from())
    for word in ("forward", "backward"):
        if is_word(token, word):
            return _counted(word)
    if token[0] in _FROM:
        return nodes.Direction()
    scanner.push_back(token)
    if token[0] == "T_DATUM":
        return nodes.Direction()
    return nodes.Direction("forward", 0, _until_from(), several=True)


def _counted(word: str) -> nodes.Direction:
    """The direction by the words behind FORWARD or BACKWARD (complete_direction)."""
    scanner = current().scanner
    token = scanner.next()
    if token[0] in _FROM:
        return nodes.Direction(word)
    if token[0] == "ALL":
        return _from(nodes.Direction(word, None, several=True))
    scanner.push_back(token)
    return nodes.Direction(word, 0, _until_from(), several=True)


def _until_from() -> SqlText:
    return read_expression(*_FROM, expected="FROM or IN")


def _from(direction: nodes.Direction) -> nodes.Direction:
    scanner = current().scanner
    if scanner.next()[0] not in _FROM:
        raise scanner.error("expected FROM or IN")
    return direction


@build
def fetch(location: int, direction: nodes.Direction, cursor: Var) -> nodes.Fetch:
    target, _ = read_target(may_be_strict=False)
    scanner = current().scanner
    if scanner.next()[0] != "SEMICOLON":
        raise scanner.error("syntax error")
    if direction.several:
        raise PgError("0A000", "FETCH statement cannot return multiple rows", location=location)
    return nodes.Fetch(line_of(location), cursor, direction, target)


@build
def move(location: int, direction: nodes.Direction, cursor: Var) -> nodes.Move:
    return nodes.Move(line_of(location), cursor, direction)


@build
def close(location: int, cursor: Var) -> nodes.Close:
    return nodes.Close(line_of(location), cursor)
