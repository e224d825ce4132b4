"""A piece of SQL of a body (PLpgSQL_expr), parsed once, analysed when it first runs; and statements as closures over
the frame.

    run(frame)        the value of an expression, as one of the wanted type if there is one
    answer(frame)     the result of a statement (SpiResult)

`compile_stmt` dispatches on the statement's class; the modules named exec_… register theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, singledispatch
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.user_types import user_types
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.analyse.fragment import (
    analyze_assignment,
    going_on,
    meaning_of,
    names_types_of_users,
    plain_expression,
)
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.rewrite.folding import folded
from pgrepl.expr.tree import CoerceViaIO, Expr, FuncExpr, Query, Variable
from pgrepl.expr.walk import walk
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql import sql as running
from pgrepl.plpgsql.assignment import cast
from pgrepl.plpgsql.datums import Mode, Rec, SqlText
from pgrepl.plpgsql.frame import Code, ExecStmt, Frame, FrameVariables, RecordError, ReturnCode, field_of
from pgrepl.plpgsql.sql import (
    OfPlpgsql,
    SpiCursor,
    SpiResult,
    check_allowed,
    columns_of_query,
    is_plain_query,
    opened,
    run_statement,
    speaking_of,
    variables_of,
)
from pgrepl.sql.nodes import MODIFYING, AnalyzedStmt, PlAssign, SelectStmt
from pgrepl.sql.parser import parse, parse_fragment
from pgrepl.types import oids
from pgrepl.types.oids import FIRST_USER_OID

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.dml_tree import Modify
    from pgrepl.plpgsql.nodes import Statement as NodesStatement
    from pgrepl.plpgsql.nodes import Statements
    from pgrepl.sql.nodes import Statement

Run = Callable[["Frame"], Any]
_ONE = 2  # rows that are read to see whether there is only one


class PlpgsqlExpr:
    """A piece of SQL of a body, as its function has it: one for all calls."""

    def __init__(self, code: Code, sql: SqlText, wanted: int = 0, names: int = 1) -> None:
        """`wanted`: the type that the value is cast to. `names`: the words of an assignment's target."""
        self.code = code
        self.sql = sql
        self.type, self.typmod = oids.UNKNOWN, -1  # of the value, once it has been computed
        self.run: Run = self._first
        self._wanted = wanted
        self._names = names
        self._query: Query | None = None
        self._is_simple = True
        self._is_noted = False  # the meaning of a statement that changes rows is kept
        self._number = len(code.pieces)
        code.pieces.append(self)

    def forget(self) -> None:
        self.run = self._first
        self._query = None

    @cached_property
    def tree(self) -> Statement | None:
        if self.sql.mode is Mode.STATEMENT:
            statements = parse(self.sql.text)
            return statements[0].stmt if statements else None
        return parse_fragment(self.sql.text, assignment=self.sql.mode is Mode.ASSIGNMENT)

    # --- expressions --------------------------------------------------------------------------------------------------

    def _first(self, frame: Frame) -> Any:
        """Analyse the expression, and run it as it will be run from now on."""
        session, analysed = self.code.session, self.code.function.analysed
        with speaking_of(frame, self.sql):
            with variables_of(frame, self.sql, as_values=False) as variables:
                try:
                    query = self._meant(session, lambda: self._analysed(session), variables)
                except RecordError as error:
                    # once it has a plan, PostgreSQL looks at the record when it runs the plan, not when it makes one
                    raise error if self._number not in analysed else OfPlpgsql.said(error) from None
            analysed.add(self._number)
            expr = plain_expression(query) if self._is_simple else None
            if expr is not None:
                expr = self._folded(expr)
        self._query = query
        if expr is None:
            self.run = self._by_query
        else:
            expr = self._cast(expr)
            self.type, self.typmod = expr.type, expr.typmod
            compiled = evaluate.compile(expr, self.code.context, lambda node: self._variable(node, frame))
            if any(isinstance(node, FuncExpr) and node.func >= FIRST_USER_OID for node in walk(expr)):
                compiled = self._once(compiled)
            self.run = self._checked(compiled, frame, variables.records) if variables.records else compiled
        return self.run(frame)

    def _folded(self, expr: Expr) -> Expr:
        """Fold constants. An expression of which that failed is run as a query later, with the values of its variables
        among the constants (exec_simple_check_plan is not called again)."""
        try:
            return folded(self.code.session, expr)
        except PgError:
            self._is_simple = False
            raise

    def _meant(self, session: Session, analyse: Callable[[], Query], variables: FrameVariables) -> Query:
        """The analysed tree; the one that the function has had, if only the names of types and labels have changed."""
        kept = self._kept(session, variables)
        if kept is not None:
            assert isinstance(kept, Query)
            return kept
        tree = analyse()
        self._keep(session, tree, variables)
        return tree

    def _kept(self, session: Session, variables: FrameVariables) -> Query | Modify | None:
        """The tree that the function has had, as things are now, and the variables that were looked up for it."""
        known = self.code.function.meanings.get(self._number)
        meaning = None if known is None else going_on(session, known[0])
        if known is None or meaning is None or variables.fields_at(known[1]) != known[2]:
            return None
        self.code.function.meanings[self._number] = meaning, *known[1:]
        variables.found_at(known[1])
        return meaning.tree

    def _keep(self, session: Session, tree: Query | Modify, variables: FrameVariables) -> None:
        meanings = self.code.function.meanings
        meanings.pop(self._number, None)
        if names_types_of_users(session, tree):
            fields = variables.fields_at(variables.places)
            if fields is not None:
                meanings[self._number] = meaning_of(session, tree), variables.places, fields

    def _analysed(self, session: Any) -> Query:
        session.transaction.snapshot_taken = True
        tree = self.tree
        if isinstance(tree, PlAssign):
            return analyze_assignment(session, tree, self._names)
        assert isinstance(tree, SelectStmt)
        return analyze_query(session, tree)

    def _cast(self, expr: Expr) -> Expr:
        wanted = self._wanted
        if not wanted or expr.type == wanted:
            return expr
        scope = Scope(self.code.session)
        coerced = coerce_to_target(scope, expr, expr.type, wanted, -1, Context.PLPGSQL, IMPLICIT_CAST, -1)
        return coerced if coerced is not None else CoerceViaIO(wanted, arg=expr)

    def _variable(self, node: Expr, frame: Frame) -> Run | None:
        if not isinstance(node, Variable):
            return None
        number = node.number
        datum = self.code.function.datums[number]
        if not isinstance(datum, Rec) or node.field is None:
            return itemgetter(number)
        place = field_of(frame, datum, node.field)[3]
        return lambda frame: None if (record := frame[number]) is None else record[place]

    def _once(self, compiled: Run) -> Run:
        """The closure of an expression that may call its own function: while it is being computed, it is computed again
        as a query, with its line of CONTEXT (expr_simple_in_use)."""
        in_use = False

        def run(frame: Frame) -> Any:
            nonlocal in_use
            if in_use:
                with speaking_of(frame, self.sql):
                    return compiled(frame)
            in_use = True
            try:
                return compiled(frame)
            finally:
                in_use = False

        return run

    def _checked(self, compiled: Run, frame: Frame, records: set[int]) -> Run:
        """The closure, which is made anew when a record variable has taken another row type."""
        known = [(number, frame[number]) for number in records]

        def run(frame: Frame) -> Any:
            for number, before in known:
                now = frame[number]
                if now is not before and not _are_alike(now, before):
                    self.forget()
                    return self.run(frame)
            return compiled(frame)

        return run

    def _by_query(self, frame: Frame) -> Any:
        """The value of an expression that is a query (exec_run_select)."""
        assert self._query is not None
        columns = columns_of_query(self._query)
        with speaking_of(frame, self.sql):
            if is_plain_query(self._query):
                rows = running.rows_of(frame, self._query, _ONE)
            else:
                assert self.tree is not None
                rows = list(run_statement(frame, self.tree, self.sql).rows)  # type: ignore[arg-type]
        frame.row_count = len(rows)
        said = f"query: {self.sql.text}"
        if len(columns) != 1:
            plural = "s" * (len(columns) != 1)
            raise PgError("42601", f"query returned {len(columns)} column{plural}", context=said)
        if len(rows) > 1:
            raise PgError("21000", "query returned more than one row", context=said)
        _, self.type, self.typmod = columns[0]
        value = rows[0][0] if rows else None
        if self._wanted and self._wanted != self.type:
            value = cast(frame.code, value, self.type, self.typmod, self._wanted, -1)
            self.type, self.typmod = self._wanted, -1
        return value

    def parsed(self, frame: Frame) -> Statement | None:
        """`tree`, with the place of an error: a compilation at a call leaves the syntax of SQL alone."""
        with speaking_of(frame, self.sql):
            return self.tree

    # --- statements ---------------------------------------------------------------------------------------------------

    def answer(self, frame: Frame, most: int | None = None) -> SpiResult:
        """Run the statement; of a query no more than `most` rows are wanted."""
        tree = self.parsed(frame)
        if tree is not None:
            check_allowed(tree)
        with speaking_of(frame, self.sql):
            if tree is None:
                raise PgError("42601", "empty query does not return tuples")
            if isinstance(tree, SelectStmt) and tree.into is None:
                query = self._of_select(frame, tree)
                if is_plain_query(query):
                    rows = running.rows_of(frame, query, most)
                    return SpiResult(columns_of_query(query), rows, len(rows), selects=True)
            if isinstance(tree, MODIFYING):
                return self._change(frame, tree)
            return run_statement(frame, tree, self.sql)

    def _change(self, frame: Frame, tree: Statement) -> SpiResult:
        """Run a statement that changes rows. It is analysed with the values of variables each time."""
        session = self.code.session
        if self._is_noted or not user_types(session).data:
            return run_statement(frame, tree, self.sql)
        with variables_of(frame, self.sql, as_values=False) as variables:
            kept = self._kept(session, variables)
        if kept is not None:
            assert not isinstance(kept, Query)
            return run_statement(frame, AnalyzedStmt(kept), self.sql)
        answer = run_statement(frame, tree, self.sql)
        self._is_noted = True
        with suppress(PgError), variables_of(frame, self.sql, as_values=False) as variables:
            self._keep(session, analyze_modifying(session, tree), variables)
        return answer

    def variables(self, frame: Frame) -> list[int]:
        """The variables that a SELECT, or a statement that changes rows, names."""
        tree, session = self.tree, self.code.session
        with variables_of(frame, self.sql, as_values=False) as variables:
            if isinstance(tree, SelectStmt):
                analyze_query(session, tree)
            elif isinstance(tree, MODIFYING):
                analyze_modifying(session, tree)
        return sorted({number for number, _ in variables.places.values()})

    def open(self, frame: Frame, scroll: bool | None) -> SpiCursor:
        """The statement as a cursor's."""
        tree = self.parsed(frame)
        with speaking_of(frame, self.sql), variables_of(frame, self.sql, as_values=True):
            return opened(frame, tree, self.sql.text, scroll)

    def loop(self, frame: Frame) -> SpiCursor:
        """The statement as that of a loop over its rows."""
        tree = self.parsed(frame)
        with speaking_of(frame, self.sql):
            if isinstance(tree, SelectStmt) and tree.into is None:
                query = self._of_select(frame, tree)
                if is_plain_query(query):
                    return running.loop_rows(frame, query, self.sql.text)
            with variables_of(frame, self.sql, as_values=True):
                return opened(frame, tree, self.sql.text, None, is_loop=True)

    def _of_select(self, frame: Frame, tree: SelectStmt) -> Query:
        """The analysed query, which is kept."""
        query, session = self._query, self.code.session
        if query is None:
            with variables_of(frame, self.sql, as_values=False) as variables:
                query = self._meant(session, lambda: analyze_query(session, tree), variables)
            if not variables.records:  # record variables may have other row types next time
                self._query = query
        return query


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two values of a record variable have the same columns. Rows of one query share the tuples."""
    if one is None or other is None:
        return one is other
    if one.types is other.types and one.names is other.names:
        return True
    return bool(one.types == other.types and one.names == other.names)


# --- exec -------------------------------------------------------------------------------------------------------------


@singledispatch
def compile_stmt(stmt: Any, code: Code) -> ExecStmt:
    raise AssertionError(f"{type(stmt).__name__} cannot be executed")


def compile_stmts(statements: Statements, code: Code) -> ExecStmt:
    """One closure for a list of statements (exec_stmts), each noted in the frame for CONTEXT."""
    pairs: list[tuple[NodesStatement, ExecStmt]] = [(stmt, compile_stmt(stmt, code)) for stmt in statements]
    if len(pairs) == 1:
        ((only, exec_stmt),) = pairs

        def single(frame: Frame) -> ReturnCode | None:
            around = frame.statement
            frame.statement = only
            rc = exec_stmt(frame)
            frame.statement = around
            return rc

        return single

    def run(frame: Frame) -> ReturnCode | None:
        around = frame.statement
        for stmt, exec_stmt in pairs:
            frame.statement = stmt
            rc = exec_stmt(frame)
            if rc is not None:
                frame.statement = around
                return rc
        frame.statement = around
        return None

    return run


def condition(code: Code, sql: SqlText) -> PlpgsqlExpr:
    """A condition; NULL is not true (exec_eval_boolean)."""
    return PlpgsqlExpr(code, sql, oids.BOOL)


def required(value: Any, message: str) -> Any:
    if value is None:
        raise PgError("22004", message)
    return value
