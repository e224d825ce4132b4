"""CALL: the procedure that is meant, its arguments, and the row of its output parameters (ExecuteCallStmt)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.acl import check_execute
from pgrepl.catalog.context import Block
from pgrepl.catalog.routines import routine_row
from pgrepl.errors import PgError
from pgrepl.expr.analyze import transform
from pgrepl.expr.calls import Ambiguous, argument_names, coerced_arguments, find_among, procs_named, signature
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.context import Call, Context
from pgrepl.expr.default_types import with_default_types
from pgrepl.expr.evaluate import compile
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.polymorphic import resolve
from pgrepl.expr.routines import default_arguments
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Expr, NamedArg
from pgrepl.frozen import frozen
from pgrepl.query.result import Result, ResultColumn
from pgrepl.query.rowset import LocalRows
from pgrepl.query.run import as_text
from pgrepl.sql.nodes import CallStmt
from pgrepl.statements.routine.call import run_routine

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc
    from pgrepl.types.builtin import Proc


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
        found = run_routine(session, self.routine, args, called)
        return (None,) * len(self.columns) if found is None else tuple(found)

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
    found = meaning.proc
    if found is None or found.kind != "p":
        raise PgError(
            "42809",
            f"{written} is not a procedure",
            hint="To call a function, use SELECT.",
            location=raw.location,
        )
    routine = routine_row(session, found.oid)
    assert routine is not None
    proc = _with_outputs(found)
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
