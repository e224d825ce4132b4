"""From the row of pg_proc, or a body, to code: parsed, compiled to closures (do_compile), kept as long as no definition
changes; and its calls, as DO, function, procedure or trigger function (pl_handler.c, the entries of pl_exec.c).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.context import Block
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.polymorphic import resolve
from pgrepl.expr.print.print_routine import row_of
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql import (
    build,
    build_declarations,
    build_loops,
    build_sql,
    dynamic,
    exec_control,
    exec_errors,
    exec_sql,
)
from pgrepl.plpgsql.assignment import cast, check_alike, move_row, row_columns
from pgrepl.plpgsql.compilation import Compilation, FirstCompilation, Function, compiling
from pgrepl.plpgsql.datums import DataType, Rec, Variable, builder, find_name
from pgrepl.plpgsql.exec_errors import located
from pgrepl.plpgsql.exec_sql import value_of
from pgrepl.plpgsql.expr import compile_stmts
from pgrepl.plpgsql.frame import RC_RETURN, Code, Frame, data_type
from pgrepl.rows.triggers import TriggerLevel
from pgrepl.sql.parser import PLPGSQL, Parser, load
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.input_checks import stack_depth_exceeded
from pgrepl.types.style import Record
from pgrepl.types.user_types import tests_null

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc
    from pgrepl.expr.functions.registry import Call
    from pgrepl.plpgsql.datums import Column
    from pgrepl.rows.triggers import TriggerData

# importing them registers builders and statements
FORMS = (
    build, build_declarations, build_loops, build_sql, exec_control, exec_sql, exec_errors, exec_sql,
    dynamic,
)  # fmt: skip


@cache
def _parser() -> Parser:
    return Parser(load(PLPGSQL), builder)


def new_compilation(
    session: Session, function: Function, first: FirstCompilation, *, checks_syntax: bool = True
) -> Compilation:
    """A compilation with the level of the function's own names, to which the caller adds the parameters."""
    compilation = Compilation(session, function, first, checks_syntax=checks_syntax)
    compilation.push(function.name)
    return compilation


def compiled(compilation: Compilation, *, is_call: bool = False) -> Code:
    """The code of the body. An error has a place in the body, or a line of CONTEXT; of a call it has both
    (plpgsql_compile_error_callback)."""
    function, session = compilation.function, compilation.session
    try:
        found = compilation.variable("found", 0, data_type(session, oids.BOOL))
        function.found = found.number
        with compiling(compilation):
            tables = _parser()
            function.block = tables.run(
                tables.tables.starts["parse_function"], function.source, iter(compilation.scanner)
            )
    except PgError as error:
        if is_call:
            error.inside(function.source)
        if error.report.position is None:
            line = compilation.scanner.latest_line
            error.with_context(f'compilation of PL/pgSQL function "{function.name}" near line {line}')
        raise
    code = Code(session, function)
    assert function.block is not None
    code.run = compile_stmts([function.block], code)
    return code


# --- function ---------------------------------------------------------------------------------------------------------


# the variables of a trigger function, besides NEW and OLD
TRIGGER_VARIABLES = {
    "tg_name": oids.NAME, "tg_when": oids.TEXT, "tg_level": oids.TEXT, "tg_op": oids.TEXT, "tg_relid": oids.OID,
    "tg_relname": oids.NAME, "tg_table_name": oids.NAME, "tg_table_schema": oids.NAME, "tg_nargs": oids.INT4,
    "tg_argv": oids.TEXT_ARRAY,
}  # fmt: skip

# what stands for polymorphic types when a function is only checked (plpgsql_resolve_polymorphic_argtypes)
_STAND_INS = {
    oids.ANYARRAY: oids.INT4_ARRAY, oids.ANYCOMPATIBLEARRAY: oids.INT4_ARRAY, oids.ANYRANGE: oids.INT4RANGE,
    oids.ANYCOMPATIBLERANGE: oids.INT4RANGE, oids.ANYMULTIRANGE: oids.INT4MULTIRANGE,
    oids.ANYCOMPATIBLEMULTIRANGE: oids.INT4MULTIRANGE,
}  # fmt: skip


def stand_in(typoid: int) -> int:
    return _STAND_INS.get(typoid, oids.INT4) if typoid in lookup.POLYMORPHIC else typoid


def check_types(session: Session, routine: pg_proc) -> None:
    """Raises for a parameter or result of a type that PL/pgSQL does not take (plpgsql_validator)."""
    result = routine.prorettype
    allowed = (oids.VOID, oids.RECORD, oids.TRIGGER, oids.EVENT_TRIGGER, *lookup.POLYMORPHIC)
    if _is_pseudo(result) and result not in allowed:
        text = lookup.type_text(session, result)
        raise PgError("0A000", f"PL/pgSQL functions cannot return type {text}")
    for typoid in routine.proallargtypes or routine.proargtypes:
        if _is_pseudo(typoid) and typoid != oids.RECORD and typoid not in lookup.POLYMORPHIC:
            text = lookup.type_text(session, typoid)
            raise PgError("0A000", f"PL/pgSQL functions cannot accept type {text}")


def _is_pseudo(typoid: int) -> bool:
    known = type_by_oid(typoid)
    return known is not None and known.typtype == "p"


def code_of(
    session: Session,
    routine: pg_proc,
    argtypes: Sequence[int],
    result: int,
    collation: int = 0,
    relation: Relation | None = None,
) -> Code:
    """The code of a routine for argument types; of a trigger function for the trigger's relation."""
    key = (
        "plpgsql_function", routine.oid, tuple(argtypes), result, collation, None if relation is None else relation.oid,
        session.settings.found(("search_path",)), session.role,
    )  # fmt: skip
    known: Code | None = session.derived.get(key)
    if known is None:
        known = compiled_function(session, routine, argtypes, result, collation, relation, is_call=True)
        session.derived[key] = known
    return known


def forget(session: Session, routine: pg_proc) -> None:
    """Forget what the first compilations of a routine have found: it is defined anew."""
    for key in [key for key in session.compiled if key[0] == routine.oid]:
        del session.compiled[key]


def compiled_function(
    session: Session,
    routine: pg_proc,
    argtypes: Sequence[int],
    result: int,
    collation: int = 0,
    relation: Relation | None = None,
    *,
    is_call: bool = False,
) -> Code:
    """`is_call`: it is to be run, and not only checked."""
    key = (routine.oid, tuple(map(int, argtypes)), collation, None if relation is None else relation.oid)
    definition = repr(routine)
    row, first = session.compiled.get(key, ("", None))
    if row != definition:
        first = FirstCompilation.now(session, session.object_name(oids.REGPROCEDURE, routine.oid))
    function = Function(
        routine.proname,
        first.signature,
        routine.prosrc,
        routine.oid,
        is_procedure=routine.prokind == "p",
        collation=collation,
    )
    compilation = new_compilation(session, function, first, checks_syntax=not is_call)
    try:
        if routine.prorettype == oids.TRIGGER:
            _trigger(compilation, routine, relation)
        elif routine.prorettype == oids.EVENT_TRIGGER:
            for name in ("tg_event", "tg_tag"):
                compilation.variable(name, 0, data_type(session, oids.TEXT))
        else:
            _parameters(compilation, routine, argtypes, result)
    except PgError as error:
        raise error.with_context(f'compilation of PL/pgSQL function "{function.name}" near line 1') from None
    code = compiled(compilation, is_call=is_call)
    session.compiled[key] = definition, first
    return code


def _trigger(compilation: Compilation, routine: pg_proc, relation: Relation | None) -> None:
    session, function = compilation.session, compilation.function
    if routine.proargtypes:
        hint = "The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead."
        raise PgError("42P13", "trigger functions cannot have declared arguments", hint=hint)
    function.is_trigger = True
    row = oids.RECORD if relation is None else lookup.row_type(session, relation.oid)
    for name in ("new", "old"):
        function.extra[name] = compilation.variable(name, 0, data_type(session, row)).number
    for name, typoid in TRIGGER_VARIABLES.items():
        function.extra[name] = compilation.variable(name, 0, data_type(session, typoid)).number
    function.result = DataType(row, is_row=True)
    function.returns_record = True


def _parameters(compilation: Compilation, routine: pg_proc, argtypes: Sequence[int], result: int) -> None:
    session, function = compilation.session, compilation.function
    every = list(routine.proallargtypes or routine.proargtypes)
    modes = list(routine.proargmodes or "i" * len(every))
    names = list(routine.proargnames or [""] * len(every))
    given = iter(argtypes)
    out: list[tuple[str, int]] = []
    for number, (typoid, mode, name) in enumerate(zip(every, modes, names, strict=True), 1):
        is_input = mode in "ibv"
        actual = next(given) if is_input else _resolved(session, routine, argtypes, typoid)
        kind = data_type(session, actual)
        if function.collation and kind.collation:
            kind = DataType(kind.oid, kind.typmod, function.collation, kind.name, kind.is_row)
        datum = compilation.variable(name or f"${number}", 0, kind, named=False)
        compilation.add_name(datum, f"${number}")
        if name:
            _add_parameter(compilation, datum, name)
        if is_input:
            function.parameters.append(datum.number)
        if mode in "obt":
            out.append((name, datum.number))
    if len(out) > 1 or (out and function.is_procedure):
        function.out = compilation.row("(unnamed row)", 0, out).number
    elif out:
        function.out = out[0][1]
    function.returns_set = routine.proretset
    function.result = data_type(session, result)
    function.returns_record = function.result.is_row
    function.may_end = result == oids.VOID or routine.proretset or function.out >= 0 or function.is_procedure
    if routine.prorettype in lookup.POLYMORPHIC and not out:
        compilation.variable("$0", 0, function.result)


def _resolved(session: Session, routine: pg_proc, argtypes: Sequence[int], typoid: int) -> int:
    if typoid not in lookup.POLYMORPHIC:
        return typoid
    return resolve(session, argtypes, routine.proargtypes, typoid)[1]


def _add_parameter(compilation: Compilation, datum: Variable, name: str) -> None:
    if find_name(compilation.names, (name,), local=True)[0] is not None:
        raise PgError("42P13", f'parameter name "{name}" used more than once')
    compilation.add_name(datum, name)


def values_of_parameters(code: Code, frame: Any, args: Sequence[Any]) -> None:
    """The arguments into the variables of the parameters."""
    datums = code.function.datums
    for number, value in zip(code.function.parameters, args, strict=True):
        datum = datums[number]
        if isinstance(datum, Rec) and value is not None:
            move_row(frame, datum, row_columns(frame, value, datum.type.oid), value)
        else:
            frame[number] = value


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
    row_columns = row_of(session, routine, call.argtypes) or call.columns
    if row_columns is not None:
        return [(c.name, c.type, c.typmod) for c in row_columns if not c.dropped]
    result = frame.code.function.result
    return [] if result.is_row else [("", result.oid, -1)]


def _rows(frame: Frame, columns: Sequence[Column]) -> list[Any]:
    if not frame.code.function.returns_record:
        return [row[0] for row in frame.rows]
    types, names = [c[1] for c in columns], [c[0] for c in columns]
    return [Record(row, types, names) for row in frame.rows]
