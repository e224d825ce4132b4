"""Builders of the grammar in grammar/plpgsql: blocks, labels, handlers and plain statements (pl_gram.y).

A builder gets the place of its first symbol and its children. Builders of empty rules named `read_…` take SQL from the
scanner. build_declarations, build_loops and build_sql have the rest.
"""

from __future__ import annotations

from typing import Any

from pgrepl.expr.analyse.kinds import Conflict
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.plpgsql import nodes
from pgrepl.plpgsql.compilation import Word, current, is_word
from pgrepl.plpgsql.datums import (
    DataType,
    Datum,
    Mode,
    Rec,
    RecField,
    Row,
    SqlText,
    Var,
    build,
    find_label,
    is_sqlstate,
    nearest_loop,
    sqlstates_of,
)
from pgrepl.types import oids

_TEXT = DataType(oids.TEXT, -1, oids.DEFAULT_COLLATION, "text")


def line_of(location: int) -> int:
    return current().scanner.line(location)


# --- the function and its options -------------------------------------------------------------------------------------


@build
def function(location: int, options: None, block: nodes.Block, _: None) -> nodes.Block:
    return block


@build
def option_dump(location: int) -> None:
    raise unsupported("#option dump", location=location)


@build
def print_strict_params(location: int, value: Word | str) -> None:
    word = value.text if isinstance(value, Word) else value
    if word not in ("on", "off"):
        raise PgError("XX000", f"unrecognized print_strict_params option {word}")
    current().function.print_strict = word == "on"


@build
def conflict(location: int, meaning: str) -> None:
    current().function.conflict = Conflict(meaning)


# --- blocks -----------------------------------------------------------------------------------------------------------


@build
def begin(location: int) -> int:
    return line_of(location)


@build
def block(
    location: int,
    declared: tuple[str | None, list[Datum]],
    line: int,
    body: nodes.Statements,
    handlers: nodes.Handlers | None,
    end_label: Label | None,
) -> nodes.Block:
    label, variables = declared
    check_labels(label, end_label)
    current().pop()
    return nodes.Block(line, label, variables, body, handlers)


Label = tuple[str, int]  # and its place


@build
def label(location: int, name: str) -> Label:
    return name, location


def check_labels(start: str | None, given: Label | None) -> None:
    if given is None:
        return
    end, location = given
    if start is None:
        raise PgError("42601", f'end label "{end}" specified for unlabeled block', location=location)
    if start != end:
        message = f'end label "{end}" differs from block\'s label "{start}"'
        raise PgError("42601", message, location=location)


@build
def no_block_label(location: int) -> str | None:
    current().push(None)
    return None


@build
def block_label(location: int, name: str) -> str | None:
    current().push(name)
    return name


@build
def no_loop_label(location: int) -> str | None:
    current().push(None, loop=True)
    return None


@build
def loop_label(location: int, name: str) -> str | None:
    current().push(name, loop=True)
    return name


@build
def identifier(location: int, word: Word) -> str:
    return word.names[0]


@build
def identifier_of_datum(location: int, word: Word) -> str:
    if len(word.names) > 1:
        raise current().scanner.error("syntax error")
    return word.names[0]


@build
def no_statements(location: int) -> nodes.Statements:
    return []


@build
def more_statements(location: int, done: nodes.Statements, statement: nodes.Statement | None) -> nodes.Statements:
    if statement is not None:
        done.append(statement)
    return done


@build
def more_side_by_side(location: int, items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


@build
def place(location: int) -> int:
    return location


# --- handlers ---------------------------------------------------------------------------------------------------------


@build
def exception_begins(location: int) -> tuple[int, int]:
    """SQLSTATE and SQLERRM are variables of the handlers."""
    compilation = current()
    numbers = []
    for name in ("sqlstate", "sqlerrm"):
        datum = compilation.variable(name, line_of(location), _TEXT)
        assert isinstance(datum, Var)
        datum.constant = True
        numbers.append(datum.number)
    return numbers[0], numbers[1]


@build
def exceptions(location: int, variables: tuple[int, int], handlers: list[nodes.Handler]) -> nodes.Handlers:
    return nodes.Handlers(*variables, handlers)


@build
def exception(location: int, conditions: list[tuple[str, frozenset[str]]], body: nodes.Statements) -> nodes.Handler:
    return nodes.Handler(line_of(location), conditions, body)


@build
def more_conditions(location: int, one: list[Any], other: list[Any]) -> list[Any]:
    return one + other


@build
def condition(location: int, name: str) -> list[tuple[str, frozenset[str]]]:
    if name == "others":
        return [(name, frozenset())]
    if name != "sqlstate":
        return [(name, frozenset(sqlstates_of(name)))]
    code = read_sqlstate()
    return [(code, frozenset((code,)))]


def read_sqlstate() -> str:
    """The code behind the word SQLSTATE."""
    scanner = current().scanner
    token = scanner.next()
    if token[0] != "SCONST":
        raise scanner.error("syntax error")
    if not is_sqlstate(token[1]):
        raise scanner.error("invalid SQLSTATE code")
    return str(token[1])


# --- IF, CASE ---------------------------------------------------------------------------------------------------------


def read_expression(*ends: str, expected: str) -> SqlText:
    text, begin_, _ = current().scanner.read_until(ends, expected)
    return current().sql(text, Mode.EXPRESSION, begin_)


@build
def read_until_then(location: int) -> SqlText:
    return read_expression("THEN", expected="THEN")


@build
def read_until_loop(location: int) -> SqlText:
    return read_expression("LOOP", expected="LOOP")


@build
def read_until_semicolon(location: int) -> SqlText:
    return read_expression("SEMICOLON", expected=";")


@build
def if_(
    location: int,
    condition: SqlText,
    body: nodes.Statements,
    elsifs: list[tuple[SqlText, nodes.Statements]],
    other: Any,
) -> nodes.If:
    return nodes.If(line_of(location), [(condition, body), *elsifs], other)


@build
def no_elsifs(location: int) -> list[tuple[SqlText, nodes.Statements]]:
    return []


@build
def more_elsifs(location: int, done: list[Any], _: int, condition: SqlText, body: nodes.Statements) -> list[Any]:
    done.append((condition, body))
    return done


@build
def else_(location: int, body: nodes.Statements) -> nodes.Statements:
    return body


@build
def read_case_operand(location: int) -> SqlText | None:
    scanner = current().scanner
    token = scanner.next()
    scanner.push_back(token)
    if token[0] == "WHEN":
        return None
    text, begin_, end = scanner.read_until(("WHEN",), "WHEN")
    scanner.push_back(end)
    return current().sql(text, Mode.EXPRESSION, begin_)


@build
def when(location: int, condition: SqlText, body: nodes.Statements) -> tuple[SqlText, nodes.Statements]:
    return condition, body


@build
def case(
    location: int, operand: SqlText | None, whens: list[tuple[SqlText, nodes.Statements]], other: Any
) -> nodes.Case:
    """A CASE statement. Its operand is kept in a variable, and each WHEN becomes `"variable" IN (…)` (make_case)."""
    line = line_of(location)
    if operand is None:
        return nodes.Case(line, None, -1, whens, other)
    compilation = current()
    name = f"__Case__Variable_{len(compilation.function.datums)}__"
    number = compilation.variable(name, line, DataType(oids.INT4, -1, 0, "int4")).number
    for condition, _ in whens:
        condition.text = f'"{name}" IN ({condition.text})'
        condition.names = compilation.names
    return nodes.Case(line, operand, number, whens, other)


# --- plain statements -------------------------------------------------------------------------------------------------


def check_assignable(datum: Datum | None, location: int) -> None:
    datums = current().function.datums
    if isinstance(datum, (Var, Rec)) and datum.constant:
        raise PgError("22005", f'variable "{datum.name}" is declared CONSTANT', location=location)
    if isinstance(datum, RecField):
        check_assignable(datums[datum.record], location)
    if isinstance(datum, Row):
        for target in datum.targets:
            check_assignable(datums[target], location)


@build
def assignment(location: int, word: Word) -> nodes.Assign:
    compilation, scanner = current(), current().scanner
    assert word.datum is not None
    check_assignable(word.datum, location)
    scanner.push_back(scanner.last)
    text, begin_, _ = scanner.read_until(("SEMICOLON",), ";")
    value = compilation.sql(text, Mode.ASSIGNMENT, begin_, target=word.datum.number)
    return nodes.Assign(line_of(location), word.datum.number, value)


@build
def exit_word(location: int) -> tuple[bool, int]:
    return True, location


@build
def continue_word(location: int) -> tuple[bool, int]:
    return False, location


@build
def exit_condition(location: int, condition: SqlText) -> SqlText:
    return condition


@build
def exit(
    location: int, word: tuple[bool, int], label: Label | None, condition: SqlText | None
) -> nodes.Exit | nodes.Continue:
    is_exit, _ = word
    names = current().names
    line = line_of(location)
    name, at = label or (None, -1)
    if name is not None:
        enclosing = find_label(names, name)
        if enclosing is None:
            message = f'there is no label "{name}" attached to any block or loop enclosing this statement'
            raise PgError("42601", message, location=at)
        if not enclosing.is_loop and not is_exit:
            raise PgError("42601", f'block label "{name}" cannot be used in CONTINUE', location=at)
    elif nearest_loop(names) is None:
        message = "CONTINUE cannot be used outside a loop"
        if is_exit:
            message = "EXIT cannot be used outside a loop, unless it has a label"
        raise PgError("42601", message, location=location)
    return nodes.Exit(line, name, condition) if is_exit else nodes.Continue(line, name, condition)


@build
def null(location: int) -> None:
    """NULL does nothing, and is no statement of the tree."""


@build
def read_chain(location: int) -> bool:
    """AND [NO] CHAIN and the semicolon."""
    scanner = current().scanner
    token = scanner.next()
    chain = False
    if token[0] == "AND":
        token = scanner.next()
        chain = token[0] != "NO"
        if not chain:
            token = scanner.next()
        if token[0] != "CHAIN":
            raise scanner.error("syntax error")
        token = scanner.next()
    if token[0] != "SEMICOLON":
        raise scanner.error("syntax error")
    return chain


@build
def commit(location: int, chain: bool) -> nodes.Commit:
    return nodes.Commit(line_of(location), chain)


@build
def rollback(location: int, chain: bool) -> nodes.Rollback:
    return nodes.Rollback(line_of(location), chain)


# --- GET DIAGNOSTICS --------------------------------------------------------------------------------------------------

_CURRENT_ITEMS = ("row_count", "pg_context", "pg_routine_oid")
_STACKED_ITEMS = (
    "pg_exception_context", "pg_exception_detail", "pg_exception_hint", "returned_sqlstate", "column_name",
    "constraint_name", "pg_datatype_name", "message_text", "table_name", "schema_name",
)  # fmt: skip


@build
def read_diagnostics_kind(location: int) -> str:
    scanner = current().scanner
    token = scanner.next()
    for kind in _CURRENT_ITEMS + _STACKED_ITEMS:
        if is_word(token, kind):
            return kind
    raise scanner.error("unrecognized GET DIAGNOSTICS item")


@build
def diagnostics_item(location: int, target: int, _: None, kind: str) -> tuple[int, str]:
    return target, kind


@build
def diagnostics_target(location: int, word: Word) -> int:
    scanner = current().scanner
    if isinstance(word.datum, (Row, Rec)) or scanner.peek()[0] == "LSQB":
        raise PgError("42601", f'"{word.text}" is not a scalar variable', location=location)
    assert word.datum is not None
    check_assignable(word.datum, location)
    return word.datum.number


@build
def diagnostics_word(location: int, word: Word) -> int:
    raise unknown_variable(word, location)


def unknown_variable(word: Word, location: int) -> PgError:
    return PgError("42601", f'"{word.text}" is not a known variable', location=location)


@build
def get_diagnostics(
    location: int, stacked: bool, items: list[tuple[int, str]]
) -> nodes.GetDiagnostics | nodes.GetStackedDiagnostics:
    allowed = _STACKED_ITEMS if stacked else _CURRENT_ITEMS
    for _, kind in items:
        if kind not in allowed:
            area = "STACKED" if stacked else "CURRENT"
            message = f"diagnostics item {kind.upper()} is not allowed in GET {area} DIAGNOSTICS"
            raise PgError("42601", message, location=location)
    line = line_of(location)
    return nodes.GetStackedDiagnostics(line, items) if stacked else nodes.GetDiagnostics(line, items)
