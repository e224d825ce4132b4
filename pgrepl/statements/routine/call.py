"""The call of a user's routine, whatever its language, as the evaluator's function (session.Hooks.routine)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.acl import check_execute
from pgrepl.catalog.context import LOCAL_USERID_CHANGE
from pgrepl.catalog.routines import LANGUAGE_NAMES, routine_row
from pgrepl.errors import PgError, unsupported
from pgrepl.rows.trigger_builtin import call_builtin
from pgrepl.statements.routine.languages import Language, language_of
from pgrepl.types.builtin import proc_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc
    from pgrepl.expr.context import Call
    from pgrepl.rows.changes import Row
    from pgrepl.rows.trigger_data import TriggerData
    from pgrepl.types.builtin import Proc


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
    language = _language(routine)
    sees = session.reads_at if routine.provolatile != "v" else None
    if not routine.prosecdef and routine.proconfig is None and session.reads_at == sees:
        return language.call(session, routine, args, call)
    with _surroundings(session, routine), session.reading_at(sees):
        found = language.call(session, routine, args, call)
        return list(found) if routine.proretset else found


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
        known = session.derived["trigger function", function] = row, _language(row)
    routine, language = known
    if not routine.prosecdef and routine.proconfig is None:
        return language.call_trigger(session, routine, data)
    with _surroundings(session, routine):
        return language.call_trigger(session, routine, data)


def _language(routine: pg_proc) -> Language:
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
