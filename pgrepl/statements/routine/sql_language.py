"""Functions in SQL: their statements are analysed when the function starts, and run one by one (functions.c); how a row
becomes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import body_of
from pgrepl.expr.dml_tree import with_values
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.print.print_routine import row_of
from pgrepl.expr.rewrite.inline import SqlVariables, analysing, input_names
from pgrepl.expr.tree import Column, Expr, Query, Var, has_modifying_cte
from pgrepl.expr.walk import calls_routines
from pgrepl.ground.errors import PgError
from pgrepl.ground.interrupts import check_for_interrupts
from pgrepl.query import run
from pgrepl.query.rowset import passing_rows
from pgrepl.query.shape import writing_tag
from pgrepl.sql.nodes import MODIFYING, AnalyzedStmt, CoercionForm, SelectStmt, Statement, TransactionStmt
from pgrepl.sql.parser import parse
from pgrepl.sql.statements import command_tag
from pgrepl.statements.routine.parameters import transposed
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.style import Record

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc
    from pgrepl.expr.dml_tree import Modify
    from pgrepl.expr.functions.registry import Call

Shape = Callable[[tuple[Any, ...]], Any]
_SCALARS = "bderm"  # pg_type.typtype


def shape_of(
    session: Session,
    routine: pg_proc,
    result: int,
    argtypes: Sequence[int],
    columns: Sequence[Column] | None,
    defined: Sequence[Column] | None,
) -> Shape:
    """The function that makes the result of a row of the last statement, whose columns are given; None: it returns no
    rows. `defined`: the columns of the call's column definition list."""
    if result == oids.VOID:
        return lambda row: None
    declared = lookup.type_text(session, routine.prorettype)
    if columns is None:
        raise _mismatch(declared, "Function's final statement must be SELECT or INSERT/UPDATE/DELETE/MERGE RETURNING.")
    kind = type_by_oid(result)
    if not lookup.is_row(result) and kind is not None and kind.typtype in _SCALARS:
        return _scalar(session, result, columns, declared)
    if not lookup.is_row(result):
        text = lookup.type_text(session, result)
        raise PgError("42P13", f"return type {text} is not supported for SQL functions")
    if len(columns) == 1 and routine.prokind != "p":
        whole = _cast(session, columns[0], 1, result, -1)
        if whole is not None:
            return whole
    row = row_of(session, routine, argtypes) or defined
    if row is None:
        types, names = [c.type for c in columns], [c.name for c in columns]
        return lambda values: Record(values, types, names)
    return _row(session, row, columns, declared)


def _scalar(session: Session, result: int, columns: Sequence[Column], declared: str) -> Shape:
    if len(columns) != 1:
        raise _mismatch(declared, "Final statement must return exactly one column.")
    cast = _cast(session, columns[0], 1, result, -1)
    if cast is None:
        raise _mismatch(declared, f"Actual return type is {lookup.type_text(session, columns[0].type)}.")
    return cast


def _row(session: Session, row: Sequence[Column], columns: Sequence[Column], declared: str) -> Shape:
    wanted = [column for column in row if not column.dropped]
    casts: list[Shape] = []
    for number, column in enumerate(columns, 1):
        if number > len(wanted):
            raise _mismatch(declared, "Final statement returns too many columns.")
        target = wanted[number - 1]
        cast = _cast(session, column, number, target.type, target.typmod)
        if cast is None:
            given, asked = lookup.type_text(session, column.type), lookup.type_text(session, target.type)
            raise _mismatch(declared, f"Final statement returns {given} instead of {asked} at column {number}.")
        casts.append(cast)
    if len(columns) < len(wanted):
        raise _mismatch(declared, "Final statement returns too few columns.")
    types, names = [c.type for c in wanted], [c.name for c in wanted]
    return lambda values: Record([cast(values) for cast in casts], types, names)


def _cast(session: Session, column: Column, number: int, target: int, typmod: int) -> Shape | None:
    """The function that casts a column of a row; None: there is no assignment cast."""
    var: Expr = Var(column.type, typmod=column.typmod, collation=column.collation, attnum=number)
    typed = coerce_to_target(
        Scope(session), var, column.type, target, typmod, CastContext.ASSIGNMENT, CoercionForm.IMPLICIT_CAST, -1
    )
    if typed is None:
        return None
    if typed is var:
        place = number - 1
        return lambda row: row[place]
    return compile(assign_collations(typed), Context(session))


def _mismatch(declared: str, detail: str) -> PgError:
    return PgError("42P13", f"return type mismatch in function declared to return {declared}", detail=detail)


# --- sql language -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement of the body; `query`: its analysed tree, if it only reads."""

    stmt: Statement
    query: Query | None
    columns: tuple[Column, ...] | None  # of its rows; None: it returns none
    writes: str | None = None  # its tag, if it does more than read

    @property
    def is_plain(self) -> bool:
        """Whether it only computes expressions: one row, from no table."""
        query = self.query
        return query is not None and query == Query(query.targets) and not calls_routines(query)


@dataclass(frozen=True, slots=True)
class _Plan:
    steps: tuple[_Step, ...]
    variables: SqlVariables
    shape: Shape


class SqlLanguage:
    def validate(self, session: Session, routine: pg_proc) -> None:
        """Checks a routine in SQL when it is made (fmgr_sql_validator)."""
        _check_types(session, routine)
        if not session.settings.value("check_function_bodies"):
            return
        with transposed(session, routine.prosrc, f'SQL function "{routine.proname}"'):
            statements = _statements(session, routine)
            if not any(typoid in lookup.POLYMORPHIC for typoid in routine.proargtypes):
                _planned(session, routine, statements, routine.proargtypes, routine.prorettype)

    def call(self, session: Session, routine: pg_proc, args: Sequence[Any], call: Call) -> Any:
        plan = _plan(session, routine, call)
        rows = self._rows(session, routine, plan, args)
        if routine.proretset:
            return rows
        first = None
        for value in rows:
            first = value
            break
        return first

    def _rows(self, session: Session, routine: pg_proc, plan: _Plan, args: Sequence[Any]) -> Iterator[Any]:
        variables = plan.variables.of(args)
        last = len(plan.steps)
        for number, step in enumerate(plan.steps, 1):
            with _context(routine, f"statement {number}"):
                check_for_interrupts()
                with _inside(session, routine, number):
                    result = _run(session, step, variables)
                is_result = number == last and step.columns is not None
                for row in _each(session, routine, number, result):
                    if is_result:
                        yield plan.shape(row)
                        if not routine.proretset:
                            break


SQL = SqlLanguage()


def _check_types(session: Session, routine: pg_proc) -> None:
    result = type_by_oid(routine.prorettype)
    allowed = (oids.RECORD, oids.VOID, *lookup.POLYMORPHIC)
    if result is not None and result.typtype == "p" and routine.prorettype not in allowed:
        text = lookup.type_text(session, routine.prorettype)
        raise PgError("42P13", f"SQL functions cannot return type {text}")
    for typoid in routine.proargtypes:
        kind = type_by_oid(typoid)
        if kind is not None and kind.typtype == "p" and typoid not in lookup.POLYMORPHIC:
            text = lookup.type_text(session, typoid)
            raise PgError("42P13", f"SQL functions cannot have arguments of type {text}")


@contextmanager
def _context(routine: pg_proc, where: str) -> Iterator[None]:
    try:
        yield
    except PgError as error:
        raise error.inside(routine.prosrc).with_context(f'SQL function "{routine.proname}" {where}') from None


@contextmanager
def _inside(session: Session, routine: pg_proc, number: int) -> Iterator[None]:
    """Add the statement to the CONTEXT of what runs in here, which is then called by a function."""
    depth = len(session.contexts)
    session.contexts.append(lambda: f'SQL function "{routine.proname}" statement {number}')
    try:
        yield
    finally:
        del session.contexts[depth:]


def _each(
    session: Session, routine: pg_proc, number: int, rows: Iterator[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """The rows, each of which the statement makes when it is asked for."""
    while True:
        with _inside(session, routine, number):
            row = next(rows, None)
        if row is None:
            return
        yield row


# --- the plan -------------------------------------------------------------------------------------------------------


def _plan(session: Session, routine: pg_proc, call: Call) -> _Plan:
    """The analysed statements, kept as long as no definition changes."""
    key = (
        "sql_function",
        routine.oid,
        call.argtypes,
        call.type,
        call.columns,
        session.settings.get("search_path"),
        session.role,
    )
    known: _Plan | None = session.derived.get(key)
    if known is None:
        with _context(routine, "during startup"):
            known = _planned(session, routine, _statements(session, routine), call.argtypes, call.type, call.columns)
            _check_allowed(routine, known)
        session.derived[key] = known
    return known


def _statements(session: Session, routine: pg_proc) -> Sequence[Statement | Query]:
    """The raw statements of the body; those of a standard body have been analysed."""
    if routine.prosqlbody is not None:
        body = body_of(session, routine.prosqlbody)
        return [part if isinstance(part, Query) else AnalyzedStmt(part) for part in body]
    return [raw.stmt for raw in parse(routine.prosrc, session.report, session.settings.string_rules)]


def _planned(
    session: Session,
    routine: pg_proc,
    statements: Sequence[Statement | Query],
    argtypes: Sequence[int],
    result: int,
    defined: Sequence[Column] | None = None,
) -> _Plan:
    """`defined`: the columns of the call's column definition list."""
    names = input_names(routine.proargnames, routine.proargmodes, routine.pronargs)
    variables = SqlVariables(session, routine.proname, names, argtypes)
    with analysing(session, variables):
        steps = tuple([_step(session, stmt) for stmt in statements])
    columns = steps[-1].columns if steps else None
    return _Plan(steps, variables, shape_of(session, routine, result, argtypes, columns, defined))


def _step(session: Session, stmt: Statement | Query) -> _Step:
    if isinstance(stmt, Query):
        return _Step(SelectStmt(), stmt, stmt.columns, writing_tag(stmt))
    if isinstance(stmt, AnalyzedStmt):
        return _Step(stmt, None, _returned(stmt.modify), command_tag(stmt))
    if isinstance(stmt, MODIFYING):
        modify = analyze_modifying(session, stmt)
        return _Step(stmt, None, _returned(modify), command_tag(stmt))
    if isinstance(stmt, SelectStmt) and stmt.into is None:
        query = analyze_query(session, stmt)
        kept = None if has_modifying_cte(query.ctes) or query.row_marks else query
        return _Step(stmt, kept, query.columns, writing_tag(query))
    return _Step(stmt, None, None, command_tag(stmt))


def _returned(modify: Modify) -> tuple[Column, ...] | None:
    """The columns of RETURNING; None: there is none."""
    return tuple(Column(t.name, t.expr.type, t.expr.typmod, t.expr.collation) for t in modify.returning) or None


def _check_allowed(routine: pg_proc, plan: _Plan) -> None:
    """Raises for a statement that a function in SQL must not have (init_execution_state)."""
    for step in plan.steps:
        if isinstance(step.stmt, TransactionStmt):
            raise PgError("0A000", f"{step.writes} is not allowed in an SQL function")
        if routine.provolatile != "v" and step.writes is not None:
            raise PgError("0A000", f"{step.writes} is not allowed in a non-volatile function")


def _run(session: Session, step: _Step, variables: SqlVariables) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement."""
    if step.query is None:
        with analysing(session, variables):
            result = session.hooks.execute(session, step.stmt)
        return iter(result.values or ())
    query = with_values(step.query, variables.value)
    if step.is_plain:
        context = Context(session)
        run.check_functions(session, query)
        return iter((tuple([compile(target.expr, context)(()) for target in query.targets]),))
    run.check(session, query)
    run.check_functions(session, query)
    return iter(passing_rows(session, query))
