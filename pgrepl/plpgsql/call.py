"""Calls: of DO, of functions and procedures, of trigger functions (pl_handler.c, the entries of pl_exec.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.context import Block
from pgrepl.expr.print.print_routine import row_of
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.assignment import cast, check_alike, row_columns
from pgrepl.plpgsql.compilation import FirstCompilation, Function
from pgrepl.plpgsql.exec_errors import located
from pgrepl.plpgsql.exec_sql import value_of
from pgrepl.plpgsql.frame import RC_RETURN, Frame
from pgrepl.plpgsql.function import TRIGGER_VARIABLES, code_of, compiled, new_compilation, values_of_parameters
from pgrepl.rows.triggers import TriggerLevel
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.input_checks import stack_depth_exceeded
from pgrepl.types.style import Record
from pgrepl.types.user_types import tests_null

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc
    from pgrepl.expr.functions.registry import Call
    from pgrepl.plpgsql.datums import Column
    from pgrepl.plpgsql.frame import Code
    from pgrepl.rows.triggers import TriggerData

_INLINE = "inline_code_block"
_STORING = "while storing call arguments into local variables"
_CASTING = "while casting return value to function's return type"
_EXIT = "during function exit"


def compiled_block(session: Session, source: str) -> Code:
    """The code of DO (plpgsql_compile_inline)."""
    function = Function(_INLINE, _INLINE, source, is_block=True)
    checks = bool(session.settings.value("check_function_bodies"))
    return compiled(new_compilation(session, function, FirstCompilation.now(session), checks_syntax=checks))


def run_block(session: Session, code: Code, *, atomic: bool) -> None:
    frame = Frame(code, session, atomic=atomic, is_alone=not session.contexts)
    with _Running(frame):
        _run(frame)


def call_function(session: Session, routine: pg_proc, args: Sequence[Any], call: Call) -> Any:
    """The value of a call; of a function that returns a set, the values (plpgsql_exec_function)."""
    code = code_of(session, routine, call.argtypes, _result_type(session, routine, call), call.collation)
    function = code.function
    frame = Frame(
        code,
        session,
        atomic=call.atomic,
        read_only=routine.provolatile != "v" and routine.prokind == "f",
        is_alone=routine.prokind == "p" and not session.contexts,
    )
    if function.returns_set:
        code.columns = _columns(session, routine, call, frame)
    tables, session.transition_tables = session.transition_tables, {}
    transaction = session.transaction
    alone = not call.atomic and transaction.block is Block.NONE
    if alone:
        transaction.begin_within()
    try:
        with _Running(frame):
            frame.phase = _STORING
            values_of_parameters(code, frame, args)
            frame.phase = ""
            _run(frame)
            if function.returns_set:
                return _rows(frame, code.columns)
            value = _value(frame, routine, call)
        if alone:
            transaction.leave_within()
        return value
    finally:
        session.transition_tables = tables


def call_trigger(session: Session, routine: pg_proc, data: TriggerData) -> tuple[Any, ...] | None:
    """The row that a trigger function returns (plpgsql_exec_trigger)."""
    code = code_of(session, routine, (), routine.prorettype, relation=data.relation)
    frame = Frame(code, session, atomic=True)
    layout: _Layout | None = code.layout
    if layout is None or layout.relation is not data.relation:
        layout = code.layout = _Layout(data.relation)
    new, old = layout.record(data.new), layout.record(data.old)
    first = code.function.extra["new"]
    frame[first : first + _TRIGGER_VARIABLES] = (new, old, *layout.constants(data))
    with _Running(frame):
        _run(frame)
        returned = frame.returned
        if returned is None or returned[0] is None or data.level is not TriggerLevel.ROW:
            return None
        if layout.is_whole and (returned[0] is new or returned[0] is old):
            return data.new if returned[0] is new else data.old
        frame.phase = _EXIT
        return layout.row(_trigger_row(frame, returned, layout.types))


_TRIGGER_VARIABLES = 2 + len(TRIGGER_VARIABLES)  # NEW and OLD before them, all numbered in their order


class _Layout:
    """The columns of a trigger's relation, the same for all its rows."""

    def __init__(self, relation: Relation) -> None:
        self.relation = relation
        live = [a for a in relation.attributes if not a.dropped]
        self._places = [a.num - 1 for a in live]
        self._names = tuple([a.name for a in live])
        self.types = tuple([a.type for a in live])
        self.is_whole = len(live) == len(relation.attributes)  # no column has been dropped
        self._constants: dict[object, tuple[Any, ...]] = {}

    def record(self, row: Sequence[Any] | None) -> Record | None:
        if row is None:
            return None
        return Record(row if self.is_whole else [row[place] for place in self._places], self.types, self._names)

    def row(self, record: Sequence[Any]) -> tuple[Any, ...]:
        whole: list[Any] = [None] * len(self.relation.attributes)
        for place, value in zip(self._places, record, strict=True):
            whole[place] = value
        return tuple(whole)

    def constants(self, data: TriggerData) -> tuple[Any, ...]:
        """The values of TRIGGER_VARIABLES, which are made for a trigger's first row."""
        key = (data.name, data.event, data.when, data.level, data.args)
        known = self._constants.get(key)
        if known is None:
            relation, count = self.relation, len(data.args)
            known = self._constants[key] = (
                data.name, data.when.value, data.level.value, data.event.value, relation.oid, relation.name,
                relation.name, relation.schema, count,
                PgArray(oids.TEXT, (count,), (0,), data.args) if count else None,
            )  # fmt: skip
        return known


def _trigger_row(frame: Frame, returned: tuple[Any, int, int], types: Sequence[int]) -> Sequence[Any]:
    row, source, _ = returned
    given = row_columns(frame, row, source)
    message = "returned row structure does not match the structure of the triggering table"
    check_alike(frame.code, given, types, message)
    return tuple(row)


class _Running:
    """Around a call: its line of CONTEXT for errors and notices."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._depth = 0

    def __enter__(self) -> None:
        frame = self._frame
        contexts = frame.session.contexts
        self._depth = len(contexts)
        contexts.append(frame.where)

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        frame = self._frame
        del frame.session.contexts[self._depth :]
        if isinstance(problem, PgError):
            located(frame, problem)
        elif isinstance(problem, RecursionError):
            raise located(frame, stack_depth_exceeded()) from None


def _run(frame: Frame) -> None:
    """Run the body. `frame.returned` is what RETURN has given."""
    code = frame.code
    function = code.function
    code.refresh()
    frame[function.found] = False
    rc = code.run(frame)
    frame.statement = None
    if rc is RC_RETURN or function.is_block:
        return
    if not function.may_end:
        what = "trigger procedure" if function.is_trigger else "function"
        raise PgError("2F005", f"control reached end of {what} without RETURN")
    if function.out >= 0:
        frame.returned = value_of(frame, function.datums[function.out])


def _result_type(session: Session, routine: pg_proc, call: Call) -> int:
    return oids.VOID if routine.prokind == "p" and routine.prorettype == oids.VOID else call.type


def _value(frame: Frame, routine: pg_proc, call: Call) -> Any:
    """The value of RETURN as one of the result's type."""
    function = frame.code.function
    returned = frame.returned
    if function.result.oid == oids.VOID and not function.is_procedure:
        return ""  # PL/pgSQL returns void, and not NULL
    if returned is None:
        return None
    value, source, typmod = returned
    frame.phase = _CASTING
    if value is None:
        may_refuse = not function.is_procedure and tests_null(function.result.oid)
        return cast(frame.code, None, source, typmod, function.result.oid, -1) if may_refuse else None
    if function.returns_record or function.is_procedure:
        return _record(frame, routine, call, value, source)
    return cast(frame.code, value, source, typmod, function.result.oid, -1)


def _record(frame: Frame, routine: pg_proc, call: Call, value: Any, source: int) -> Any:
    """A row as the call expects it (coerce_function_result_tuple)."""
    function = frame.code.function
    if function.out >= 0:
        return value
    given = row_columns(frame, value, source)
    wanted = _columns(frame.session, routine, call, frame)
    if not wanted:
        return value
    message = "returned record type does not match expected record type"
    check_alike(frame.code, given, [c[1] for c in wanted], message)
    return Record(value, [c[1] for c in wanted], [c[0] for c in wanted])


def _columns(session: Session, routine: pg_proc, call: Call, frame: Frame) -> list[Column]:
    """The columns of the result as rows; none: a record without known columns."""
    found = row_of(session, routine, call.argtypes) or call.columns
    if found is not None:
        return [(c.name, c.type, c.typmod) for c in found if not c.dropped]
    result = frame.code.function.result
    return [] if result.is_row else [("", result.oid, -1)]


def _rows(frame: Frame, columns: Sequence[Column]) -> list[Any]:
    if not frame.code.function.returns_record:
        return [row[0] for row in frame.rows]
    types, names = [c[1] for c in columns], [c[0] for c in columns]
    return [Record(row, types, names) for row in frame.rows]
