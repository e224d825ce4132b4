"""Prepared statements, of PREPARE and of the extended protocol (plancache.c); PREPARE, EXECUTE and DEALLOCATE.

A statement is kept as its raw parse tree, and analysed anew when a definition has changed. One that names types of
users keeps its analysed tree, too (expr/analyse/fragment.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.namespace import search_path
from pgrepl.catalog.facts.relation import relation
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.casts import type_of_name
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.fragment import Meaning, going_on, meaning_of, names_types_of_users
from pgrepl.expr.analyse.kinds import ExprKind, InferredParameters
from pgrepl.expr.analyse.lookup import existing_type, read_value
from pgrepl.expr.analyse.queries.query import analyze_subquery
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.transform import transform
from pgrepl.expr.dml_tree import query_of
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.rewrite import folding
from pgrepl.expr.rewrite.inline import SqlVariables, analysing
from pgrepl.expr.tree import Query, has_modifying_cte
from pgrepl.expr.walk import location_of
from pgrepl.ground.errors import PgError
from pgrepl.query.result import Result, ResultColumn, listed_columns, sent_columns
from pgrepl.query.run import KeptPlan
from pgrepl.query.shape import levels
from pgrepl.sql.nodes import MODIFYING, AnalyzedStmt, DeallocateStmt, ExecuteStmt, PrepareStmt, SelectStmt, Statement
from pgrepl.sql.scanner import parameter_count, parameter_numbers
from pgrepl.sql.statements import command_tag, ends_block
from pgrepl.types.style import TextStyle
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Parameter, Session
    from pgrepl.expr.dml_tree import Modify

_CUSTOM_PLANS = 5  # choose_custom_plan: the executions of a statement with parameters that are planned for their values


@dataclass(slots=True)
class _Valid:
    """What holds until a definition changes."""

    definitions: object  # as they were
    path: tuple[int, ...]
    state: tuple[object, ...]  # as long as it stays, the path does
    by_tree: bool  # the meaning is kept in the analysed tree alone
    query: SelectStmt | None = None  # with its tree, in which parameters are variables, and its plan


@dataclass(slots=True)
class PreparedStatement:
    name: str
    text: str
    stmt: Statement | None  # None: the text has no statement
    prepared_at: int  # microseconds since 2000
    from_sql: bool
    types: tuple[int, ...] = ()  # of the parameters; plain OIDs
    columns: tuple[ResultColumn, ...] | None = None  # None: it returns no rows
    meaning: Meaning | None = None
    executions: int = 0
    has_constants: bool = False  # parts of it may be computed when it is planned
    valid: _Valid | None = field(default=None, compare=False)
    _sent: tuple[object, tuple[ResultColumn, ...]] | None = field(default=None, compare=False)  # of which columns

    @property
    def is_analyzed(self) -> bool:
        stmt = self.stmt
        return isinstance(stmt, MODIFYING) or (isinstance(stmt, SelectStmt) and stmt.into is None)

    @property
    def tree(self) -> Query | None:
        """The tree of a query that is kept."""
        kept = self.meaning.tree if self.meaning is not None else None
        if kept is None and self.valid is not None and self.valid.query is not None:
            kept = self.valid.query.query
        return kept if isinstance(kept, Query) else None

    @property
    def sent_columns(self) -> tuple[ResultColumn, ...] | None:
        """The columns as clients are told, with the base types of domains."""
        if self.columns is None:
            return None
        if self._sent is None or self._sent[0] is not self.columns:
            self._sent = self.columns, sent_columns(self.columns)
        return self._sent[1]

    @property
    def tag(self) -> str | None:
        return None if self.stmt is None else command_tag(self.stmt)

    @property
    def ends_block(self) -> bool:
        """May it run in an aborted transaction, which it ends?"""
        return self.stmt is not None and ends_block(self.stmt)

    @property
    def plans(self) -> tuple[int, int]:
        """The generic and the custom plans that PostgreSQL would have made."""
        custom = min(self.executions, _CUSTOM_PLANS) if self.types else 0
        return self.executions - custom, custom


def find_prepared(session: Session, name: str) -> PreparedStatement:
    prepared: PreparedStatement | None = session.prepared.get(name)
    if prepared is None:
        raise PgError("26000", f'prepared statement "{name}" does not exist')
    return prepared


def keep_prepared(session: Session, prepared: PreparedStatement) -> None:
    """Keeps a prepared statement, whose name must be new (StorePreparedStatement)."""
    if prepared.name in session.prepared:
        raise PgError("42P05", f'prepared statement "{prepared.name}" already exists')
    session.prepared[prepared.name] = prepared


# --- analysis ---------------------------------------------------------------------------------------------------------


def analyze(session: Session, prepared: PreparedStatement, parameters: InferredParameters) -> None:
    """Analyse a SELECT or a statement that changes rows, which tells the types of its parameters and its columns."""
    assert prepared.stmt is not None
    session.parameters = parameters
    try:
        tree = _tree(session, prepared.stmt)
    finally:
        session.parameters = None
    parameters.check()
    prepared.types = tuple(map(int, parameters.types))
    prepared.columns = _columns(tree)
    prepared.has_constants = folding.may_fail(tree if isinstance(tree, Query) else query_of(tree))
    # a statement without a name is seldom executed again
    by_meaning = bool(prepared.name) and names_types_of_users(session, tree)
    if parameters.types and (by_meaning or isinstance(tree, Query)):
        with analysing(session, _variables(session, parameters.types)):
            tree = _tree(session, prepared.stmt)
    prepared.meaning = meaning_of(session, tree) if by_meaning else None
    _note_valid(session, prepared, by_tree=False).query = _kept(session, prepared, tree)


def _tree(session: Session, stmt: Statement) -> Query | Modify:
    if isinstance(stmt, SelectStmt):
        return analyze_query(session, stmt)
    return analyze_modifying(session, stmt)


def _columns(tree: Query | Modify) -> tuple[ResultColumn, ...] | None:
    if isinstance(tree, Query):
        return listed_columns(tree.targets)
    return listed_columns(tree.returning) or None


@contextmanager
def without_values(session: Session, stmt: Statement) -> Iterator[None]:
    """A statement's parameters have the types that it gives them, but no values: EXPLAIN (GENERIC_PLAN)."""
    parameters = InferredParameters((), max(parameter_numbers(session.query), default=0))
    session.parameters = parameters
    try:
        if isinstance(stmt, (SelectStmt, *MODIFYING)):
            _tree(session, stmt)
    finally:
        session.parameters = None
    parameters.check()
    with analysing(session, _variables(session, parameters.types)):
        yield


def _variables(session: Session, types: Sequence[int], values: Sequence[Any] | None = None) -> SqlVariables:
    return SqlVariables(session, "", [""] * len(types), types, values)


# --- before each execution --------------------------------------------------------------------------------------------


def is_unchanged(session: Session, prepared: PreparedStatement) -> bool:
    """Whether nothing has changed since the statement was valid. False: it has to be looked at (`revalidate`)."""
    known = prepared.valid
    if known is None or known.definitions is not _definitions(session) or known.state != _state(session):
        return False
    return session.transaction.is_up_to_date()


def revalidate(session: Session, prepared: PreparedStatement) -> None:
    """Raise unless the statement can run as things are now, and returns what it was said to return
    (RevalidateCachedQuery)."""
    if not prepared.is_analyzed:
        return
    known = prepared.valid
    if known is not None and known.definitions is _definitions(session):
        state = _state(session)
        if known.state == state or known.path == tuple(search_path(session)):
            known.state = state
            return
    before = prepared.columns
    by_tree = _goes_on(session, prepared)
    if not by_tree:
        types = [existing_type(session, typoid) for typoid in prepared.types]
        analyze(session, prepared, InferredParameters(types, len(types)))
    if _shape(prepared.columns) != _shape(before):
        prepared.columns, prepared.valid = before, None
        # asyncpg and JDBC prepare such a statement anew
        raise PgError("0A000", "cached plan must not change result type")
    if by_tree:
        _note_valid(session, prepared, by_tree=True)


def _note_valid(session: Session, prepared: PreparedStatement, *, by_tree: bool) -> _Valid:
    prepared.valid = _Valid(_definitions(session), tuple(search_path(session)), _state(session), by_tree)
    return prepared.valid


def _definitions(session: Session) -> object:
    """An object that is another one when a definition has changed."""
    return session.derived.setdefault(("definitions",), object())


def _state(session: Session) -> tuple[object, ...]:
    return session.role, session.temporary_schema, session.settings.state


def _kept(session: Session, prepared: PreparedStatement, tree: Query | Modify) -> SelectStmt | None:
    """The query with its tree, and a place for its plan; None: each execution does more than to read."""
    if not isinstance(tree, Query) or prepared.meaning is not None or session.transition_tables:
        return None
    for level in levels(tree):
        if level.row_marks or has_modifying_cte(level.ctes) or any(e.rows is not None for e in level.rtable):
            return None
        if any(e.relid and relation(session, e.relid).persistence == "t" for e in level.rtable):
            return None  # the transaction is to know of temporary tables
    plan = KeptPlan(has_parameters=bool(prepared.types), has_constants=prepared.has_constants)
    return SelectStmt(query=tree, plan=plan)


def _goes_on(session: Session, prepared: PreparedStatement) -> bool:
    """Whether the statement goes on with its tree."""
    kept = going_on(session, prepared.meaning)
    if kept is None:
        return False
    prepared.meaning = kept
    prepared.columns = _columns(kept.tree)
    return True


def _shape(columns: Sequence[ResultColumn] | None) -> list[tuple[str, int, int]] | None:
    return None if columns is None else [(c.name, int(c.type), c.typmod) for c in columns]


def check_constants(session: Session, prepared: PreparedStatement, values: Sequence[Parameter]) -> None:
    """Raise the error of a part that is constant once parameters have values, as planning does. The statement is
    valid."""
    if not prepared.has_constants or not prepared.is_analyzed:
        return
    with _given(session, prepared, values) as stmt:
        tree = _tree(session, stmt)
        folding.check(session, tree if isinstance(tree, Query) else query_of(tree))


@contextmanager
def bound(session: Session, prepared: PreparedStatement, values: Sequence[Parameter]) -> Iterator[Statement]:
    """The statement, while the session knows the values of its parameters."""
    with looked_at(session, prepared, values) as stmt:
        prepared.executions += 1
        yield stmt


@contextmanager
def looked_at(session: Session, prepared: PreparedStatement, values: Sequence[Parameter]) -> Iterator[Statement]:
    """As `bound`, for a look at the statement, which is not executed."""
    revalidate(session, prepared)
    with _given(session, prepared, values) as stmt:
        yield stmt


@contextmanager
def _given(session: Session, prepared: PreparedStatement, values: Sequence[Parameter]) -> Iterator[Statement]:
    assert prepared.stmt is not None
    analysed = _analysed(prepared)
    if analysed is not None:
        given = [(session.type_of(typoid), text) for typoid, text in values]
        read = [None if text is None else read_value(session, text, typoid, -1) for typoid, text in given]
        variables = _variables(session, [typoid for typoid, _ in given], read) if given else None
        with analysing(session, variables):
            yield analysed
        return
    session.parameters = values
    try:
        yield prepared.stmt
    finally:
        session.parameters = None


def _analysed(prepared: PreparedStatement) -> Statement | None:
    """The statement as its tree, in which parameters are variables; None: it is analysed with their values."""
    valid = prepared.valid
    if valid is not None and valid.by_tree:
        assert prepared.meaning is not None
        tree = prepared.meaning.tree
        return SelectStmt(query=tree) if isinstance(tree, Query) else AnalyzedStmt(tree)
    return None if valid is None else valid.query


# --- prepared ---------------------------------------------------------------------------------------------------------


def prepare(stmt: PrepareStmt, session: Session) -> Result:
    """PREPARE (PrepareQuery)."""
    if not stmt.name:
        raise PgError("26000", "invalid statement name: must not be empty")
    declared = [type_of_name(session, name)[0] for name in stmt.types]
    count = parameter_count(session.query)
    now = session.transaction.statement_now
    prepared = PreparedStatement(stmt.name, session.query, stmt.query, now, from_sql=True)
    analyze(session, prepared, InferredParameters(declared, max(count, len(declared))))
    keep_prepared(session, prepared)
    return Result("PREPARE")


@contextmanager
def binding(session: Session, stmt: ExecuteStmt) -> Iterator[Statement]:
    """The statement that EXECUTE names, while the session knows the values of its parameters."""
    prepared = find_prepared(session, stmt.name)
    values = _values(session, prepared, stmt)
    try:
        revalidate(session, prepared)
    except PgError as problem:
        problem.report = replace(problem.report, position=None)  # it is one of the prepared text
        raise
    with bound(session, prepared, values) as meant:
        yield meant


def _values(session: Session, prepared: PreparedStatement, stmt: ExecuteStmt) -> list[Parameter]:
    """The values of the arguments (EvaluateParams); those of a statement without parameters are not looked at."""
    if not prepared.types:
        return []
    if len(stmt.args) != len(prepared.types):
        raise PgError(
            "42601",
            f'wrong number of parameters for prepared statement "{prepared.name}"',
            detail=f"Expected {len(prepared.types)} parameters but got {len(stmt.args)}.",
        )
    scope = Scope(session, analyze_subquery=analyze_subquery, variables=session.variables)
    style = TextStyle(lookup=session.text_style.lookup)
    values: list[Parameter] = []
    for number, (arg, typoid) in enumerate(zip(stmt.args, prepared.types, strict=True), 1):
        expected = existing_type(session, typoid)
        expr = transform(scope, arg, ExprKind.EXECUTE_PARAMETER)
        given = expr.type
        cast = coerce_to_target(scope, expr, given, expected, -1, CastContext.ASSIGNMENT, IMPLICIT_CAST, -1)
        if cast is None:
            raise PgError(
                "42804",
                f"parameter ${number} of type {lookup.type_text(session, given)} cannot be coerced to the expected"
                f" type {lookup.type_text(session, expected)}",
                hint="You will need to rewrite or cast the expression.",
                location=location_of(expr),
            )
        value = evaluate(assign_collations(cast), (), Context(session))
        values.append((expected, None if value is None else write_text(value, expected, style)))
    return values


def deallocate(stmt: DeallocateStmt, session: Session) -> Result:
    if stmt.name is None:
        session.prepared.clear()
        return Result("DEALLOCATE ALL")
    find_prepared(session, stmt.name)
    del session.prepared[stmt.name]
    return Result("DEALLOCATE")
