"""ALTER and DROP FUNCTION | PROCEDURE | ROUTINE, the options of CREATE and ALTER, and the routine that a statement
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import check_owner
from pgrepl.catalog.facts.namespace import (
    check_create,
    is_user_routine,
    routine_row,
    schema_for_creation,
    schema_name,
    schema_or_none,
)
from pgrepl.catalog.facts.privileges import with_new_owner
from pgrepl.catalog.facts.roles import is_superuser, resolve_role
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_PROC, ObjectAddress
from pgrepl.catalog.store.tables import pg_proc
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import procs_named
from pgrepl.expr.analyse.casts import type_name_text, type_of_name_or_none
from pgrepl.expr.analyse.scope import Scope
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.location import conflicting
from pgrepl.sql.nodes import (
    AlterFunctionStmt,
    DefElem,
    DropFunctionStmt,
    FloatText,
    ObjectType,
    RoutineName,
    VariableSetKind,
    VariableSetStmt,
)
from pgrepl.sql.statements import command_tag
from pgrepl.statements.deletion import check_may_drop, check_may_give, check_may_move, depend_on_schema, drop_objects
from pgrepl.statements.settings import checked_name, may_reset, setting_text, with_item
from pgrepl.types.builtin import Proc

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_KINDS = {ObjectType.FUNCTION: "fw", ObjectType.PROCEDURE: "p", ObjectType.ROUTINE: "fpwa"}


def find_routine(session: Session, kind: ObjectType, wanted: RoutineName) -> pg_proc:
    """The routine, which must be a user's."""
    routine = find_routine_or_none(session, kind, wanted)
    if isinstance(routine, PgError):
        raise routine
    return routine


def find_routine_or_none(session: Session, kind: ObjectType, wanted: RoutineName) -> pg_proc | PgError:
    """The routine, or the error that it does not exist. Others are raised."""
    name = ".".join(wanted.name)
    word = kind.value
    schema, _ = lookup.split_name(session, wanted.name)
    if schema is not None and schema_or_none(session, schema) is None:
        return PgError("3F000", f'schema "{schema}" does not exist')
    procs = procs_named(Scope(session), wanted.name)
    if wanted.parameters is None:
        return _only(session, kind, name, [p for p in procs if p.kind in _KINDS[kind]])
    types: list[int] = []
    for parameter in wanted.parameters:
        if not parameter.is_input:
            continue
        try:
            typoid = type_of_name_or_none(session, parameter.type_name)
        except PgError as error:
            if error.sqlstate != "3F000":
                raise
            return error  # its schema does not exist
        if typoid is None:
            return PgError("42704", f'type "{type_name_text(parameter.type_name)}" does not exist')
        types.append(typoid)
    proc = next((p for p in procs if list(p.argtypes) == types), None)
    if proc is None and kind is not ObjectType.FUNCTION:
        proc = _by_all_arguments(session, procs, wanted)
    signature = f"{name}({', '.join(lookup.type_text(session, t) for t in types)})"
    if proc is None:
        return PgError("42883", f"{word} {signature} does not exist")
    if proc.kind not in _KINDS[kind]:
        raise PgError("42809", f"{signature} is not a {word}")
    return _row(session, proc)


def _by_all_arguments(session: Session, procs: Sequence[Proc], wanted: RoutineName) -> Proc | None:
    """A procedure by the types of all its parameters, written without modes."""
    if wanted.parameters is None or any(parameter.mode != "d" for parameter in wanted.parameters):
        return None
    types = [type_of_name_or_none(session, parameter.type_name) for parameter in wanted.parameters]
    return next((p for p in procs if p.kind == "p" and list(p.allargtypes or ()) == types), None)


def _only(session: Session, kind: ObjectType, name: str, procs: Sequence[Proc]) -> pg_proc | PgError:
    distinct: dict[tuple[int, ...], Proc] = {}
    for proc in procs:
        distinct.setdefault(proc.argtypes, proc)
    word = kind.value
    if not distinct:
        return PgError("42883", f'could not find a {word} named "{name}"')
    if len(distinct) > 1:
        raise PgError(
            "42725",
            f'{word} name "{name}" is not unique',
            hint=f"Specify the argument list to select the {word} unambiguously.",
        )
    return _row(session, next(iter(distinct.values())))


def _row(session: Session, proc: Proc) -> pg_proc:
    row = routine_row(session, proc.oid) if is_user_routine(proc.oid) else None
    if row is None:
        raise unsupported(f"changing the built-in function {proc.name}")
    return row


# --- drop -------------------------------------------------------------------------------------------------------------


def drop_function(stmt: DropFunctionStmt, session: Session) -> Result:
    addresses = []
    for wanted in stmt.routines:
        routine = find_routine_or_none(session, stmt.kind, wanted)
        if isinstance(routine, PgError):
            if not stmt.missing_ok:
                raise routine
            session.notice("NOTICE", f"{_missing(stmt, wanted, routine)}, skipping")
            continue
        check_may_drop(session, routine_word(routine), routine.proname, routine.proowner, routine.pronamespace)
        addresses.append(ObjectAddress(PG_PROC, routine.oid))
    if addresses:
        drop_objects(session, addresses, cascade=stmt.cascade)
    return Result(command_tag(stmt))


def _missing(stmt: DropFunctionStmt, wanted: RoutineName, problem: PgError) -> str:
    """As does_not_exist_skipping: types as they were written."""
    if problem.sqlstate != "42883":
        return problem.message
    types = [type_name_text(p.type_name) for p in wanted.parameters or () if p.is_input]
    return f"{stmt.kind.value} {'.'.join(wanted.name)}({','.join(types)}) does not exist"


def routine_word(routine: pg_proc) -> str:
    return "procedure" if routine.prokind == "p" else "function"


# --- options ----------------------------------------------------------------------------------------------------------


_NOT_OF_PROCEDURES = ("volatility", "strict", "leakproof", "cost", "rows", "support", "parallel", "window")
_PARALLEL = {"safe": "s", "restricted": "r", "unsafe": "u"}


@dataclass(slots=True)
class RoutineOptions:
    """The options that were given; None: not given."""

    language: str | None = None
    source: tuple[str, ...] | None = None
    volatility: str | None = None
    strict: bool | None = None
    security_definer: bool | None = None
    leakproof: bool | None = None
    cost: float | None = None
    rows: float | None = None
    parallel: str | None = None
    settings: tuple[VariableSetStmt, ...] = ()


def read_options(options: Sequence[DefElem], *, is_procedure: bool) -> RoutineOptions:
    given_options = RoutineOptions()
    given: set[str] = set()
    for option in options:
        name, value = option.name, option.value
        if name == "set":
            assert isinstance(value, VariableSetStmt)
            given_options.settings = (*given_options.settings, value)
            continue
        if name in given:
            conflicting(option)
        given.add(name)
        if is_procedure and name in _NOT_OF_PROCEDURES:
            raise PgError("42P13", "invalid attribute in procedure definition", location=option.location)
        _read(given_options, name, value)
    return given_options


def _read(options: RoutineOptions, name: str, value: Any) -> None:
    if name == "language":
        options.language = value
    elif name == "as":
        options.source = value
    elif name == "volatility":
        options.volatility = value
    elif name == "strict":
        options.strict = value
    elif name == "security":
        options.security_definer = value
    elif name == "leakproof":
        options.leakproof = value
    elif name == "cost":
        options.cost = _positive(value, "COST")
    elif name == "rows":
        options.rows = _positive(value, "ROWS")
    elif name == "parallel":
        options.parallel = _PARALLEL.get(value)
        if options.parallel is None:
            raise PgError("42601", 'parameter "parallel" must be SAFE, RESTRICTED, or UNSAFE')
    else:
        raise unsupported(f"{name.upper()} of a function")


def _positive(value: int | FloatText, what: str) -> float:
    number = float(value.text if isinstance(value, FloatText) else value)
    if number <= 0:
        raise PgError("22023", f"{what} must be positive")
    return number


def with_settings(
    session: Session, config: Sequence[str] | None, settings: Sequence[VariableSetStmt]
) -> list[str] | None:
    """proconfig after SET and RESET clauses (update_proconfig_value)."""
    items = list(config or ())
    for setting in settings:
        if setting.kind is VariableSetKind.RESET_ALL:
            items = [item for item in items if not may_reset(session, item.partition("=")[0])]
            continue
        assert setting.name is not None
        text = setting_text(session, setting)
        items = with_item(items, checked_name(session, setting.name, text), text)
    return items or None


# --- alter ------------------------------------------------------------------------------------------------------------


def alter_function(stmt: AlterFunctionStmt, session: Session) -> Result:
    routine = find_routine(session, stmt.kind, stmt.routine)
    if stmt.new_owner is not None:
        change_routine_owner(session, routine, resolve_role(session, stmt.new_owner))
    elif stmt.new_schema is not None:
        _move(session, routine, schema_for_creation(session, stmt.new_schema))
    else:
        check_owner(session, routine_word(routine), routine.proname, routine.proowner)
        if stmt.new_name is not None:
            _rename(session, routine, stmt.new_name)
        else:
            _change(session, stmt, routine)
    return Result(command_tag(stmt))


def _change(session: Session, stmt: AlterFunctionStmt, routine: pg_proc) -> None:
    """ALTER FUNCTION with options (AlterFunction)."""
    options = read_options(stmt.options, is_procedure=routine.prokind == "p")
    if options.leakproof and not is_superuser(session):
        raise PgError("42501", "only superuser can define a leakproof function")
    if options.rows is not None and not routine.proretset:
        raise PgError("22023", "ROWS is not applicable when function does not return a set")
    given = {
        "provolatile": options.volatility,
        "proisstrict": options.strict,
        "prosecdef": options.security_definer,
        "proleakproof": options.leakproof,
        "procost": options.cost,
        "prorows": options.rows,
        "proparallel": options.parallel,
    }
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if options.settings:
        values["proconfig"] = with_settings(session, routine.proconfig, options.settings)
    store.update(session, pg_proc, {"oid": routine.oid}, **values)


def _rename(session: Session, routine: pg_proc, name: str) -> None:
    """ALTER FUNCTION … RENAME TO (AlterObjectRename_internal)."""
    _refuse_same(session, routine, name, routine.pronamespace)
    check_create(session, routine.pronamespace)
    store.update(session, pg_proc, {"oid": routine.oid}, proname=name)


def _refuse_same(session: Session, routine: pg_proc, name: str, namespace: int) -> None:
    """Raises for a routine of the same name and parameters (IsThereFunctionInNamespace)."""
    where = {"datid": session.database_oid, "proname": name, "pronamespace": namespace}
    for row in store.rows(session, pg_proc, **where):
        if row.proargtypes == routine.proargtypes:
            types = ", ".join(lookup.type_text(session, typoid) for typoid in routine.proargtypes)
            schema = schema_name(session, namespace)
            raise PgError("42723", f'function {name}({types}) already exists in schema "{schema}"')


def change_routine_owner(session: Session, routine: pg_proc, owner: int) -> None:
    """ALTER FUNCTION … OWNER TO (AlterObjectOwner_internal)."""
    if routine.proowner == owner:
        return
    word = routine_word(routine)
    check_may_give(session, word, routine.proname, routine.proowner, routine.pronamespace, owner)
    acl = with_new_owner(routine.proacl, routine.proowner, owner)
    store.update(session, pg_proc, {"oid": routine.oid}, proowner=owner, proacl=acl)


def _move(session: Session, routine: pg_proc, namespace: int) -> None:
    """ALTER FUNCTION … SET SCHEMA (AlterObjectNamespace_internal)."""
    check_owner(session, routine_word(routine), routine.proname, routine.proowner)
    check_may_move(session, routine.pronamespace, namespace)
    if namespace == routine.pronamespace:
        return
    _refuse_same(session, routine, routine.proname, namespace)
    store.update(session, pg_proc, {"oid": routine.oid}, pronamespace=namespace)
    depend_on_schema(session, ObjectAddress(PG_PROC, routine.oid), namespace)
