"""The call of a routine, CALL, DO, and the languages of routines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.facts.acl import check_execute
from pgrepl.catalog.facts.namespace import LANGUAGE_NAMES, routine_row
from pgrepl.catalog.session.context import LOCAL_USERID_CHANGE, Block
from pgrepl.expr.analyse.analyze import transform
from pgrepl.expr.analyse.calls import Ambiguous, argument_names, coerced_arguments, find_among, procs_named, signature
from pgrepl.expr.analyse.coerce import with_default_types
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.polymorphic import resolve
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import default_arguments
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Call, Context
from pgrepl.expr.tree import Expr, NamedArg
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.query.result import Result, ResultColumn
from pgrepl.query.rowset import LocalRows
from pgrepl.query.run import as_text
from pgrepl.rows.trigger_events import call_builtin
from pgrepl.sql.location import conflicting
from pgrepl.sql.nodes import CallStmt
from pgrepl.statements.routine.parameters import transposed
from pgrepl.types.builtin import proc_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc
    from pgrepl.plpgsql.frame import Code
    from pgrepl.rows.changes import Row
    from pgrepl.rows.triggers import TriggerData
    from pgrepl.sql.nodes import DoStmt
    from pgrepl.types.builtin import Proc


class Language(Protocol):
    """A language of routines: it checks and calls them. `routine` is a row of pg_proc."""

    def validate(self, session: Session, routine: pg_proc) -> None:
        """Check a routine that has just been stored. Its body is checked only if check_function_bodies is on."""

    def call(self, session: Session, routine: pg_proc, args: Sequence[Any], call: Call) -> Any:
        """Run the routine. `args` are the values of its input parameters; `call` has their actual types, where the
        declared ones are polymorphic, and that of the result. Returns a value (a Record for a row), or, if it returns
        a set, an iterable of values. A procedure returns the Record of its output parameters, or None."""

    def call_trigger(self, session: Session, routine: pg_proc, data: TriggerData) -> Row | None:
        """Call the routine for a trigger (see TriggerData for what it returns)."""


# the module and the name of each Language
LANGUAGES: dict[str, tuple[str, str]] = {
    "sql": ("pgrepl.statements.routine.sql_language", "SQL"),
    "plpgsql": ("pgrepl.statements.routine.plpgsql_language", "PLPGSQL"),
}


def language_oid(name: str) -> int:
    """The OID of a language that routines can be written in (get_language_oid)."""
    language = next((oid for oid, known in LANGUAGE_NAMES.items() if known == name), None)
    if language is None:
        raise PgError("42704", f'language "{name}" does not exist')
    if name in ("internal", "c"):
        raise unsupported(f"LANGUAGE {name}")
    return language


def language_of(routine: pg_proc) -> Language | None:
    """The language of a routine; None: routines in it can be created, but not called."""
    return _language(routine.prolang)


@cache
def _language(oid: int) -> Language | None:
    place = LANGUAGES.get(LANGUAGE_NAMES[oid])
    if place is None:
        return None
    module, name = place
    language: Language = getattr(import_module(module), name)
    return language


# --- do ---------------------------------------------------------------------------------------------------------------


def execute_do(stmt: DoStmt, session: Session) -> Result:
    from pgrepl.plpgsql.function import run_block

    code = compiled_do(stmt, session)
    transaction = session.transaction
    atomic = transaction.block is not Block.NONE or bool(session.contexts)
    if not atomic:
        transaction.begin_within()
    run_block(session, code, atomic=atomic)
    if not atomic:
        transaction.leave_within()
    return Result("DO")


def compiled_do(stmt: DoStmt, session: Session) -> Code:
    """The code of the block, which has been checked."""
    given: dict[str, str] = {}
    for option in stmt.options:
        if option.name in given:
            conflicting(option)
        given[option.name] = str(option.value)
    if "as" not in given:
        raise PgError("42601", "no inline code specified")
    language = given.get("language", "plpgsql")
    if language not in LANGUAGES:
        raise PgError("42704", f'language "{language}" does not exist')
    if language != "plpgsql":
        raise PgError("0A000", f'language "{language}" does not support inline code execution')
    from pgrepl.plpgsql.function import compiled_block

    source = given["as"]
    with transposed(session, source):
        return compiled_block(session, source)


# --- call -------------------------------------------------------------------------------------------------------------


def routine_function(session: Session, proc: Proc, call: Call) -> Callable[..., Any]:
    """The routine as a function of its arguments, for one call in a statement. The role needs EXECUTE."""
    routine = routine_row(session, proc.oid)
    if routine is None:
        raise PgError("XX000", f"cache lookup failed for function {proc.oid}")
    check_execute(session, routine)
    checked = session.role

    def function(*args: Any) -> Any:
        if session.role != checked:  # apply works with the privileges of the table's owner
            check_execute(session, routine)
        return run_routine(session, routine, args, call)

    return function


def run_routine(session: Session, routine: pg_proc, args: Sequence[Any], call: Call) -> Any:
    """Run the routine once, with its owner's privileges and settings of its own if it was made so. Only a volatile one
    sees what the query has written that calls it."""
    language = _call_language(routine)
    sees = session.reads_at if routine.provolatile != "v" else None
    if not routine.prosecdef and routine.proconfig is None and session.reads_at == sees:
        return language.call(session, routine, args, call)
    with _surroundings(session, routine), session.reading_at(sees):
        result = language.call(session, routine, args, call)
        return list(result) if routine.proretset else result


def call_trigger(session: Session, function: int, data: TriggerData) -> Row | None:
    """Call a trigger function. Nobody needs EXECUTE for that: it was asked for when the trigger was made."""
    known: tuple[pg_proc, Language] | None = session.derived.get(("trigger function", function))
    if known is None:
        proc = proc_by_oid(function)
        if proc is not None:
            return call_builtin(proc.src, data)
        row = routine_row(session, function)
        if row is None:
            raise PgError("XX000", f"cache lookup failed for function {function}")
        known = session.derived["trigger function", function] = row, _call_language(row)
    routine, language = known
    if not routine.prosecdef and routine.proconfig is None:
        return language.call_trigger(session, routine, data)
    with _surroundings(session, routine):
        return language.call_trigger(session, routine, data)


def _call_language(routine: pg_proc) -> Language:
    language = language_of(routine)
    if language is None:
        raise unsupported(f"LANGUAGE {LANGUAGE_NAMES[routine.prolang]}")
    return language


@contextmanager
def _surroundings(session: Session, routine: pg_proc) -> Iterator[None]:
    """SECURITY DEFINER and SET clauses (fmgr_security_definer)."""
    with ExitStack() as undo:
        if routine.prosecdef:
            undo.enter_context(session.acting_as(routine.proowner, LOCAL_USERID_CHANGE))
        undo.enter_context(session.settings.of_routine(routine.proconfig))
        yield


# --- procedure call ---------------------------------------------------------------------------------------------------


@frozen
class ProcedureCall:
    """A CALL that is ready to run."""

    routine: pg_proc
    inputs: tuple[Expr, ...]
    outputs: tuple[tuple[int, Expr | None], ...]  # for each output parameter its type and the argument in its place
    columns: tuple[ResultColumn, ...]

    def run(self, session: Session, *, atomic: bool) -> tuple[Any, ...]:
        """Run the procedure; the values of its output parameters. `atomic`: it must not end the transaction."""
        check_execute(session, self.routine)
        atomic = atomic or self.routine.prosecdef or self.routine.proconfig is not None
        context = Context(session)
        args = [compile(expr, context)(()) for expr in self.inputs]
        called = Call(context, self.argtypes, self.routine.prorettype, columns=None, atomic=atomic)
        values = run_routine(session, self.routine, args, called)
        return (None,) * len(self.columns) if values is None else tuple(values)

    @property
    def argtypes(self) -> tuple[int, ...]:
        return tuple(expr.type for expr in self.inputs)


def call(stmt: CallStmt, session: Session) -> Result:
    prepared = prepare_call(session, stmt)
    is_called = bool(session.contexts)  # by a function in SQL
    row = prepared.run(session, atomic=is_called or session.transaction.block is not Block.NONE)
    if not prepared.columns:
        return Result("CALL")
    if session.keeps_values:
        return Result("CALL", prepared.columns, values=LocalRows((), [row]))
    types = [column.type for column in prepared.columns]
    return Result("CALL", prepared.columns, as_text([row], types, session.text_style))


def prepare_call(session: Session, stmt: CallStmt) -> ProcedureCall:
    """Find the procedure and cast the arguments (transformCallStmt)."""
    scope = Scope(session, variables=session.variables)
    raw = stmt.call
    args = [transform(scope, arg, ExprKind.CALL_ARGUMENT) for arg in raw.args]
    names = argument_names(args)
    types = [arg.type for arg in args]
    written = signature(scope, raw.name, types, names)
    candidates = [_with_outputs(proc) for proc in procs_named(scope, raw.name)]
    try:
        meaning = find_among(scope, candidates, raw.name, args, names, expand_variadic=not raw.variadic)
    except Ambiguous:
        raise PgError(
            "42725",
            f"procedure {written} is not unique",
            hint="Could not choose a best candidate procedure. You might need to add explicit type casts.",
            location=raw.location,
        ) from None
    if meaning is None:
        raise PgError(
            "42883",
            f"procedure {written} does not exist",
            hint="No procedure matches the given name and argument types. You might need to add explicit type casts.",
            location=raw.location,
        )
    named = meaning.proc
    if named is None or named.kind != "p":
        raise PgError(
            "42809", f"{written} is not a procedure", hint="To call a function, use SELECT.", location=raw.location
        )
    routine = routine_row(session, named.oid)
    assert routine is not None
    proc = _with_outputs(named)
    args, _ = coerced_arguments(scope, raw, proc, meaning, args)
    given: dict[int, Expr] = {}
    for position, arg in enumerate(args):
        typed = assign_collations(arg)
        if isinstance(typed, NamedArg):
            assert typed.arg is not None
            given[typed.argnumber] = typed.arg
        else:
            given[position] = typed
    return _prepared(session, routine, given)


def _prepared(session: Session, routine: pg_proc, given: dict[int, Expr]) -> ProcedureCall:
    types = routine.proallargtypes or routine.proargtypes
    modes = routine.proargmodes or ["i"] * len(types)
    defaults = list(default_arguments(session, routine.oid))
    number_of_inputs = sum(mode in "ibv" for mode in modes)
    inputs: list[Expr] = []
    filled: set[int] = set()  # the inputs that are defaults
    outputs: list[tuple[int, Expr | None]] = []
    columns: list[ResultColumn] = []
    for number, (typoid, mode) in enumerate(zip(types, modes, strict=True)):
        if mode in "ibv":
            first = number_of_inputs - len(defaults)
            if number not in given:
                filled.add(len(inputs))
            inputs.append(given[number] if number in given else defaults[len(inputs) - first])
        if mode in "ob":
            name = (routine.proargnames or [""] * len(types))[number]
            outputs.append((typoid, given.get(number)))
            columns.append(ResultColumn(name or f"column{len(outputs)}", typoid))
    inputs = with_default_types(session, routine.proargtypes, inputs, filled)
    actual = [expr.type for expr in inputs]
    resolved = [resolve(session, actual, routine.proargtypes, column.type)[1] for column in columns]
    columns = [replace(column, type=typoid) for column, typoid in zip(columns, resolved, strict=True)]
    return ProcedureCall(routine, tuple(inputs), tuple(outputs), tuple(columns))


def _with_outputs(proc: Proc) -> Proc:
    """A routine whose output parameters are parameters of the call, too; of functions no less
    (FuncnameGetCandidates)."""
    if proc.allargtypes is None:
        return proc
    return proc._replace(argtypes=proc.allargtypes, nargs=len(proc.allargtypes), argmodes=None)
