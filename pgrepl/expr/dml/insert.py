"""INSERT (transformInsertStmt)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pgrepl.catalog.relation import Relation
from pgrepl.errors import PgError
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.dml.assign import AssignedColumn, assigned
from pgrepl.expr.dml.plan import Assignment, Command, Conflict, Modify
from pgrepl.expr.dml.returning import transform_returning
from pgrepl.expr.dml.target import NamedColumn, insert_columns, open_target
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.query import analyze_subquery
from pgrepl.expr.scope import NsItem, Scope, item_vars
from pgrepl.expr.targets import expand_expressions
from pgrepl.expr.tree import (
    CoerceToDomain,
    Column,
    Const,
    Expr,
    FieldStore,
    RangeRef,
    RowExpr,
    Rte,
    RteKind,
    SubscriptingRef,
    Target,
    Var,
)
from pgrepl.expr.walk import first_location, location_of
from pgrepl.sql.nodes import InsertStmt, SelectStmt
from pgrepl.types import oids

_TOO_MANY = "INSERT has more expressions than target columns"
_TOO_FEW = "INSERT has more target columns than expressions"
_PARENTHESES = (
    "The insertion source is a row expression containing the same number of columns expected by the INSERT. "
    "Did you accidentally use extra parentheses?"
)


def analyze_insert(stmt: InsertStmt, scope: Scope) -> Modify:
    if stmt.with_ is not None:
        from pgrepl.expr.ctes import transform_with

        transform_with(scope, stmt.with_)
    relation = open_target(scope, stmt.relation)
    columns = insert_columns(relation, stmt.columns)
    source = InsertSource(scope, relation, columns, listed=bool(stmt.columns))
    values = source.read(stmt.select)
    target = scope.target_item
    assert target is not None
    scope.namespace = []
    if stmt.on_conflict is not None or stmt.returning:
        scope.show(target)
    conflict: Conflict | None = None
    if stmt.on_conflict is not None:
        from pgrepl.expr.dml.on_conflict import transform_on_conflict

        conflict = transform_on_conflict(scope, stmt.on_conflict, relation)
    returning = transform_returning(scope, stmt.returning)
    return Modify(
        Command.INSERT,
        relation.oid,
        tuple(scope.rtable),
        (RangeRef(source.varno),) if source.varno else (),
        assigned=tuple(
            Assignment(column.attnum, assign_collations(value)) for column, value in zip(columns, values, strict=False)
        ),
        named=frozenset(column.attnum for column in columns[: len(values)]),
        overriding=stmt.overriding,
        values=source.varno if source.is_values else 0,
        conflict=conflict,
        returning=returning,
        ctes=tuple(item.finished() for item in scope.ctes),
        recursive=stmt.with_ is not None and stmt.with_.recursive,
    )


def _is_plain_values(select: SelectStmt) -> bool:
    """Whether the source is a bare VALUES list. With further clauses it is an ordinary query, in which DEFAULT is not
    allowed."""
    rest = (select.order_by, select.offset, select.limit, select.locking, select.with_)
    return select.values is not None and not any(rest)


class InsertSource:
    """The source of an INSERT: one expression for each column, over the query or VALUES list at `varno` (0:
    neither)."""

    def __init__(self, scope: Scope, relation: Relation, columns: list[NamedColumn], *, listed: bool) -> None:
        self.scope = scope
        self.relation = relation
        self.columns = columns
        self.listed = listed
        self.varno = 0
        self.is_values = False

    def read(self, select: SelectStmt | None) -> list[Expr]:
        if select is None:
            return []
        if not _is_plain_values(select):
            return self._query(select)
        assert select.values is not None
        if len(select.values) == 1:
            row = expand_expressions(self.scope, select.values[0], ExprKind.VALUES_SINGLE, allow_default=True)
            return self.fitted(row)
        from pgrepl.expr.dml.literals import literal_rows

        rows = literal_rows(self.scope.session, self.relation, self.columns, select.values, listed=self.listed)
        if rows is not None:
            return self._literals(rows)
        return self._lists(select)

    def _query(self, select: SelectStmt) -> list[Expr]:
        """Analyse the source query. Its literals of unknown type stay unknown, because the target column decides their
        type."""
        query = analyze_subquery(select, self.scope, resolve_unknown=False)
        item = self._add(Rte(RteKind.SUBQUERY, "*SELECT*", query.columns, alias="*SELECT*", subquery=query))
        exprs: list[Expr] = []
        for target in query.targets:
            if target.junk:
                continue
            if isinstance(target.expr, Const) and target.expr.type == oids.UNKNOWN:
                exprs.append(target.expr)
            else:
                exprs.append(_var(item, target))
        return self.fitted(exprs)

    def _lists(self, select: SelectStmt) -> list[Expr]:
        assert select.values is not None
        rows: list[tuple[Expr, ...]] = []
        length = -1
        for raw in select.values:
            row = expand_expressions(self.scope, raw, ExprKind.VALUES, allow_default=True)
            if length not in (-1, len(row)):
                message = "VALUES lists must all be the same length"
                raise PgError("42601", message, location=first_location(row))
            length = len(row)
            rows.append(tuple([assign_collations(_stripped(value)) for value in self.fitted(row)]))
        columns = tuple(Column(f"column{n}", value.type, value.typmod) for n, value in enumerate(rows[0], 1))
        return self._over_values(Rte(RteKind.VALUES, "*VALUES*", columns, alias="*VALUES*", values=tuple(rows)))

    def _literals(self, rows: tuple[tuple[object, ...], ...]) -> list[Expr]:
        columns = []
        for named in self.columns[: len(rows[0])]:
            column = self.relation.attributes[named.attnum - 1]
            columns.append(Column(named.name, column.type, column.typmod, column.collation))
        return self._over_values(rows_rte("*VALUES*", tuple(columns), rows))

    def _over_values(self, rte: Rte) -> list[Expr]:
        self.is_values = True
        item = self._add(rte)
        return self.fitted([var for _, var in item_vars(item, 0, -1)])

    def _add(self, rte: Rte) -> NsItem:
        item = self.scope.add_rte(rte)
        self.varno = item.varno
        return item

    def fitted(self, exprs: list[Expr]) -> list[Expr]:
        """The expressions cast to the columns' types (transformInsertRow)."""
        columns = self.columns
        if len(exprs) > len(columns):
            raise PgError("42601", _TOO_MANY, location=location_of(exprs[len(columns)]))
        if self.listed and len(exprs) < len(columns):
            hint = _PARENTHESES if len(exprs) == 1 and self._row_width(exprs[0]) == len(columns) else None
            raise PgError("42601", _TOO_FEW, hint=hint, location=columns[len(exprs)].location)
        result = []
        for expr, column in zip(exprs, columns, strict=False):
            assigned_column = AssignedColumn(
                self.relation, column.name, column.attnum, column.indirection, column.location
            )
            result.append(assigned(self.scope, expr, assigned_column, ExprKind.INSERT_TARGET))
        return result

    def _row_width(self, expr: Expr) -> int:
        """As count_rowexpr_columns does."""
        if isinstance(expr, Var) and expr.attnum > 0 and expr.type == oids.RECORD:
            query = self.scope.rte(expr.varno).subquery
            found = next((t.expr for t in query.targets if t.resno == expr.attnum), None) if query is not None else None
            expr = found if found is not None else expr
        return len(expr.args) if isinstance(expr, RowExpr) else -1


def rows_rte(name: str, columns: tuple[Column, ...], rows: Iterable[tuple[Any, ...]]) -> Rte:
    """A range table entry for rows that are computed apart."""
    return Rte(RteKind.VALUES, name, columns, alias=name, rows=rows)


def _var(item: NsItem, target: Target) -> Var:
    """A column of the source query, with the location of the expression that it stands for."""
    expr = target.expr
    return Var(
        expr.type, typmod=expr.typmod, collation=expr.collation, location=location_of(expr),
        varno=item.varno, attnum=target.resno,
    )  # fmt: skip


def _stripped(expr: Expr) -> Expr:
    """The assigned value, without the nodes that put it into a part of the column."""
    while True:
        inner: Expr | None = expr
        while isinstance(inner, CoerceToDomain):
            inner = inner.arg
        if isinstance(inner, FieldStore):
            expr = inner.values[0]
        elif isinstance(inner, SubscriptingRef) and inner.assign is not None:
            expr = inner.assign
        else:
            return expr
