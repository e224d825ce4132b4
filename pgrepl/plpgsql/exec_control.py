"""Assignments, IF, CASE, loops, EXIT and CONTINUE."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pgrepl.expr.analyse import lookup
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.plpgsql.assignment import assign, null_value
from pgrepl.plpgsql.datums import DataType, Rec, RecField, Row, SqlText, Var, find_name
from pgrepl.plpgsql.expr import PlpgsqlExpr, compile_stmt, compile_stmts, condition, required
from pgrepl.plpgsql.frame import Code, ExecStmt, Frame, RcContinue, RcExit, ReturnCode
from pgrepl.plpgsql.nodes import Assign, Case, Continue, Exit, Foreach, ForInteger, If, Loop, While
from pgrepl.sql.nodes import PlAssign
from pgrepl.sql.parser import parse_fragment
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray

_CHECKED = 256  # rounds of a loop between two looks at interrupts
_INT4_MAX, _INT4_MIN = 2**31 - 1, -(2**31)


# --- assignment -------------------------------------------------------------------------------------------------------


@compile_stmt.register
def _(stmt: Assign, code: Code) -> ExecStmt:
    datum = code.function.datums[stmt.target]
    words = _words(code, stmt.value, datum)
    piece = PlpgsqlExpr(code, stmt.value, names=words)
    number = stmt.target
    if isinstance(datum, Var) and not datum.not_null:

        def to_variable(frame: Frame) -> None:
            frame[number] = piece.run(frame)

        return to_variable
    if isinstance(datum, Var):
        variable = datum

        def to_required(frame: Frame) -> None:
            value = piece.run(frame)
            if value is None:
                raise null_value(variable)
            frame[number] = value

        return to_required

    def to_row(frame: Frame) -> None:
        value = piece.run(frame)
        assign(frame, number, value, piece.type, piece.typmod)

    return to_row


def _words(code: Code, sql: SqlText, datum: Any) -> int:
    """The number of words of the target that name the variable: `block.r.field := …`."""
    tree = parse_fragment(sql.text, assignment=True)
    assert isinstance(tree, PlAssign)
    words = [tree.name]
    for part in tree.indirection[:2]:
        if not isinstance(part, str):
            break
        words.append(part)
    for count in range(1, len(words) + 1):
        item, used = find_name(sql.names, tuple(words[:count]))
        if item is None or used > count:
            continue
        wanted = datum.record if isinstance(datum, RecField) else datum.number
        if item.number == wanted:
            longer = used + 1 if isinstance(datum, RecField) else used
            if longer == count:
                return count
    return 1


# --- IF, CASE ---------------------------------------------------------------------------------------------------------


@compile_stmt.register
def _(stmt: If, code: Code) -> ExecStmt:
    branches = [(condition(code, test), compile_stmts(body, code)) for test, body in stmt.branches]
    other = compile_stmts(stmt.other, code) if stmt.other is not None else None
    if len(branches) == 1:
        ((test, body),) = branches

        def only(frame: Frame) -> ReturnCode | None:
            if test.run(frame):
                return body(frame)
            return other(frame) if other is not None else None

        return only

    def run(frame: Frame) -> ReturnCode | None:
        for test, body in branches:
            if test.run(frame):
                return body(frame)
        return other(frame) if other is not None else None

    return run


@compile_stmt.register
def _(stmt: Case, code: Code) -> ExecStmt:
    operand = PlpgsqlExpr(code, stmt.operand) if stmt.operand is not None else None
    branches = [(condition(code, test), compile_stmts(body, code)) for test, body in stmt.branches]
    other = compile_stmts(stmt.other, code) if stmt.other is not None else None

    def run(frame: Frame) -> ReturnCode | None:
        if operand is not None:
            value = operand.run(frame)
            variable = code.function.datums[stmt.variable]
            assert isinstance(variable, Var)
            if variable.type.oid != operand.type:  # it takes the type of the operand
                typoid = operand.type
                variable.type = DataType(typoid, operand.typmod, lookup.collation(typoid))
                for test, _ in branches:
                    test.forget()
            frame[stmt.variable] = value
        for test, body in branches:
            if test.run(frame):
                if operand is not None:
                    frame[stmt.variable] = None
                return body(frame)
        if operand is not None:
            frame[stmt.variable] = None
        if other is None:
            hint = "CASE statement is missing ELSE part."
            raise PgError("20000", "case not found", hint=hint)
        return other(frame)

    return run


# --- loops ------------------------------------------------------------------------------------------------------------


@compile_stmt.register
def _(stmt: Loop, code: Code) -> ExecStmt:
    body = compile_stmts(stmt.body, code)
    label = stmt.label

    def run(frame: Frame) -> ReturnCode | None:
        rounds = 0
        while True:
            rounds += 1
            if not rounds % _CHECKED:
                check_for_interrupts()
            rc = body(frame)
            if rc is not None and (rc := after(rc, label)) is not NEXT_ROUND:
                return rc

    return run


NEXT_ROUND = ReturnCode()


def after(rc: ReturnCode, label: str | None) -> ReturnCode | None:
    """Decide how a loop goes on after its body has returned `rc`: with the next round, not at all (None), or by
    returning it (LOOP_RC_PROCESSING)."""
    if isinstance(rc, RcExit) and rc.label in (None, label):
        return None
    if isinstance(rc, RcContinue) and rc.label in (None, label):
        return NEXT_ROUND
    return rc


@compile_stmt.register
def _(stmt: While, code: Code) -> ExecStmt:
    test = condition(code, stmt.condition)
    body = compile_stmts(stmt.body, code)
    label = stmt.label

    def run(frame: Frame) -> ReturnCode | None:
        rounds = 0
        while test.run(frame):
            rounds += 1
            if not rounds % _CHECKED:
                check_for_interrupts()
            rc = body(frame)
            if rc is not None and (rc := after(rc, label)) is not NEXT_ROUND:
                return rc
        return None

    return run


@compile_stmt.register
def _(stmt: ForInteger, code: Code) -> ExecStmt:
    lower, upper = PlpgsqlExpr(code, stmt.lower, oids.INT4), PlpgsqlExpr(code, stmt.upper, oids.INT4)
    step = PlpgsqlExpr(code, stmt.step, oids.INT4) if stmt.step is not None else None
    body = compile_stmts(stmt.body, code)
    number, label, found_number = stmt.variable.number, stmt.label, code.function.found

    def run(frame: Frame) -> ReturnCode | None:
        first = required(lower.run(frame), "lower bound of FOR loop cannot be null")
        last = required(upper.run(frame), "upper bound of FOR loop cannot be null")
        by = 1
        if step is not None:
            by = required(step.run(frame), "BY value of FOR loop cannot be null")
            if by <= 0:
                raise PgError("22023", "BY value of FOR loop must be greater than zero")
        values = range(first, last - 1, -by) if stmt.reverse else range(first, last + 1, by)
        for start in range(0, len(values), _CHECKED):
            check_for_interrupts()
            for value in values[start : start + _CHECKED]:
                frame[number] = value
                rc = body(frame)
                if rc is not None and (rc := after(rc, label)) is not NEXT_ROUND:
                    frame[found_number] = True
                    return rc
        frame[found_number] = bool(values)
        return None

    return run


def over(
    frame: Frame, items: Iterable[Any], take: Callable[[Any], None], body: ExecStmt, label: str | None
) -> ReturnCode | None:
    """The body for each item, which `take` puts into the loop's variables. FOUND tells whether there was any."""
    found_number = frame.code.function.found
    any_item = False
    result: ReturnCode | None = None
    for rounds, item in enumerate(items):
        if not rounds % _CHECKED:
            check_for_interrupts()
        any_item = True
        take(item)
        rc = body(frame)
        if rc is not None and (rc := after(rc, label)) is not NEXT_ROUND:
            result = rc
            break
    frame[found_number] = any_item
    return result


@compile_stmt.register
def _(stmt: Foreach, code: Code) -> ExecStmt:
    array = PlpgsqlExpr(code, stmt.array)
    body = compile_stmts(stmt.body, code)
    target = code.function.datums[stmt.target]

    def run(frame: Frame) -> ReturnCode | None:
        value = required(array.run(frame), "FOREACH expression must not be null")
        element = lookup.element(lookup.base(array.type))
        if not element:
            text = lookup.type_text(frame.session, array.type)
            raise PgError("42804", f"FOREACH expression must yield an array, not type {text}")
        if stmt.slice < 0 or stmt.slice > len(value.dims):
            message = f"slice dimension ({stmt.slice}) is out of the valid range 0..{len(value.dims)}"
            raise PgError("2202E", message)
        wanted = target.type.oid if isinstance(target, (Var, Rec)) else oids.UNKNOWN
        is_array = bool(lookup.element(lookup.base(wanted)))
        if stmt.slice > 0 and not is_array:
            raise PgError("42804", "FOREACH ... SLICE loop variable must be of an array type")
        if stmt.slice == 0 and is_array and not isinstance(target, Row):
            raise PgError("42804", "FOREACH loop variable must not be of an array type")
        items = _slices(value, stmt.slice) if stmt.slice else value.items
        typoid = array.type if stmt.slice else element
        return over(frame, items, lambda item: assign(frame, stmt.target, item, typoid), body, stmt.label)

    return run


def _slices(array: PgArray, depth: int) -> Iterable[PgArray]:
    """The parts of an array in its last `depth` dimensions."""
    dims, bounds = array.dims[-depth:], array.lbounds[-depth:]
    size = 1
    for length in dims:
        size *= length
    for start in range(0, len(array.items), size):
        yield PgArray(array.elemtype, dims, bounds, tuple(array.items[start : start + size]))


@compile_stmt.register(Exit)
@compile_stmt.register(Continue)
def _(stmt: Exit | Continue, code: Code) -> ExecStmt:
    rc: ReturnCode = RcExit(stmt.label) if isinstance(stmt, Exit) else RcContinue(stmt.label)
    if stmt.condition is None:
        return lambda frame: rc
    test = condition(code, stmt.condition)
    return lambda frame: rc if test.run(frame) else None
