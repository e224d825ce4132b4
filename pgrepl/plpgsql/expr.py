"""`PlpgsqlExpr` (PLpgSQL_expr), a piece of SQL of a body: parsed once, analysed when it first runs, and compiled if it
is a plain expression.

    run(frame)        the value of an expression, as one of the wanted type if there is one
    answer(frame)     the result of a statement (SpiResult)

`run` is replaced by the compiled closure at the first call. It is forgotten when definitions have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr import evaluate
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.casts import Context
from pgrepl.expr.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.folding import folded
from pgrepl.expr.fragment import analyze_assignment, plain_expression
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import CoerceViaIO, Expr, FuncExpr, Query, Variable
from pgrepl.expr.walk import walk
from pgrepl.plpgsql import sql as running
from pgrepl.plpgsql.assignment import cast
from pgrepl.plpgsql.datums import Mode, Rec, SqlText
from pgrepl.plpgsql.sql import (
    SpiResult,
    check_allowed,
    columns_of_query,
    cursor_rows,
    is_plain_query,
    run_statement,
    speaking_of,
    variables_of,
)
from pgrepl.plpgsql.variables import field_of
from pgrepl.sql.nodes import PlAssign, SelectStmt
from pgrepl.sql.parser import parse, parse_fragment
from pgrepl.types import oids
from pgrepl.types.oids import FIRST_USER_OID

if TYPE_CHECKING:
    from pgrepl.plpgsql.frame import Code, Frame
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
        session = self.code.session
        with speaking_of(frame, self.sql):
            with variables_of(frame, self.sql, as_values=False) as variables:
                query = self._analysed(session)
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
        made = coerce_to_target(scope, expr, expr.type, wanted, -1, Context.PLPGSQL, IMPLICIT_CAST, -1)
        return made if made is not None else CoerceViaIO(wanted, arg=expr)

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
                if self._query is None:
                    with variables_of(frame, self.sql, as_values=False) as variables:
                        self._query = analyze_query(self.code.session, tree)
                    query = self._query
                    if variables.records:
                        self._query = None  # record variables may have other row types next time
                else:
                    query = self._query
                if is_plain_query(query):
                    rows = running.rows_of(frame, query, most)
                    return SpiResult(columns_of_query(query), rows, len(rows), selects=True)
            return run_statement(frame, tree, self.sql)

    def open(self, frame: Frame) -> SpiResult:
        """As `answer`, for a cursor: the rows know where they stand."""
        tree = self.parsed(frame)
        if not isinstance(tree, SelectStmt) or tree.into is not None or _changes_rows(tree):
            return self.answer(frame)
        with speaking_of(frame, self.sql):
            return cursor_rows(frame, tree, self.sql)


def _changes_rows(tree: SelectStmt) -> bool:
    return tree.with_ is not None and any(type(cte.query).__name__ != "SelectStmt" for cte in tree.with_.ctes)


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two values of a record variable have the same columns. Rows of one query share the tuples."""
    if one is None or other is None:
        return one is other
    if one.types is other.types and one.names is other.names:
        return True
    return bool(one.types == other.types and one.names == other.names)
