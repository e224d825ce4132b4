"""From the row of pg_proc, or a body, to code: parsed, compiled to closures (do_compile), kept as long as no definition
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.polymorphic import resolve
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql import (
    build,
    build_declarations,
    build_loops,
    build_sql,
    dynamic,
    exec_control,
    exec_cursors,
    exec_errors,
    exec_sql,
)
from pgrepl.plpgsql.assignment import move_row, row_columns
from pgrepl.plpgsql.compilation import Compilation, FirstCompilation, Function, compiling
from pgrepl.plpgsql.datums import DataType, Rec, Variable, builder, find_name
from pgrepl.plpgsql.expr import compile_stmts
from pgrepl.plpgsql.frame import Code, data_type
from pgrepl.sql.parser import PLPGSQL, Parser, load
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc

# importing them registers builders and statements
FORMS = (
    build, build_declarations, build_loops, build_sql, exec_control, exec_cursors, exec_errors, exec_sql,
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
