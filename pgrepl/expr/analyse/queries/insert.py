"""INSERT (transformInsertStmt), ON CONFLICT, and VALUES of literals only, which are read directly into values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.casts import comparing_collation
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import relation_rte
from pgrepl.expr.analyse.queries.clauses import transform_returning
from pgrepl.expr.analyse.queries.ctes import transform_with
from pgrepl.expr.analyse.queries.query import analyze_subquery
from pgrepl.expr.analyse.queries.update import (
    AssignedColumn,
    NamedColumn,
    SetClause,
    assigned,
    attribute_at,
    insert_columns,
    open_target,
)
from pgrepl.expr.analyse.scope import NsItem, Scope, item_vars
from pgrepl.expr.analyse.targets import expand_expressions
from pgrepl.expr.analyse.transform import analyze_where, transform, transform_expr
from pgrepl.expr.dml_tree import Assignment, Command, Conflict, Inference, Modify
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.walk import first_location, location_of
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.types import oids
from pgrepl.types.builtin import access_method_by_name, opclasses
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

# shorter lists are analysed as expressions
_MANY = 16
_INT4 = 2**31


class _NotLiteral(Exception):
    """An item of the list is no literal, or needs the ordinary analysis for another reason."""


def literal_rows(
    session: Session,
    relation: Relation,
    columns: Sequence[NamedColumn],
    lists: Sequence[Sequence[nodes.Expr]],
    *,
    listed: bool,
) -> tuple[tuple[object, ...], ...] | None:
    """The rows as values of the columns' types; None: the list has an item that is not a literal."""
    width = len(lists[0])
    if len(lists) < _MANY or width > len(columns) or (listed and width < len(columns)):
        return None
    if any(column.indirection for column in columns):
        return None
    readers = [_Reader(session, relation, column.attnum) for column in columns[:width]]
    try:
        return tuple([_row(row, readers) for row in lists])
    except (_NotLiteral, PgError):
        return None


def _row(row: Sequence[nodes.Expr], readers: list[_Reader]) -> tuple[Any, ...]:
    if len(row) != len(readers):
        raise _NotLiteral
    return tuple([reader.read(node) for reader, node in zip(readers, row, strict=True)])


class _Reader:
    """The reader of one column: how a string or a number becomes a value of the column's type."""

    def __init__(self, session: Session, relation: Relation, attnum: int) -> None:
        self.column = attribute_at(relation, attnum)
        self.scope = Scope(session)
        self._style = session.text_style
        self._casts: dict[int, Callable[[Any], Any]] = {}
        self._text: Callable[[str], Any] | None = None

    def read(self, node: nodes.Expr) -> Any:
        if node.__class__ is not nodes.AConst:
            raise _NotLiteral
        kind, value = node.kind, node.value
        if kind is nodes.AConstKind.NULL:
            return None
        if kind is nodes.AConstKind.STRING:
            if self._text is None:
                self._text = self._text_reader()
            return self._text(str(value))
        typoid: int
        if kind is nodes.AConstKind.INTEGER and isinstance(value, int) and -_INT4 <= value < _INT4:
            typoid = oids.INT4
        else:
            constant = self._number(str(value)) if kind is nodes.AConstKind.FLOAT else None
            if constant is None:
                const = transform_expr(node, self.scope)
                assert isinstance(const, tree.Const)
                constant = const.type, const.value
            typoid, value = constant
        cast = self._casts.get(typoid)
        if cast is None:
            cast = self._casts[typoid] = self._cast(typoid)
        return cast(value)

    def _number(self, text: str) -> tuple[int, Any] | None:
        """A number with a decimal point or an exponent; None: it is an integer."""
        return None if text.isdigit() else (oids.NUMERIC, read_text(text, oids.NUMERIC, -1, self._style))

    def _text_reader(self) -> Callable[[str], Any]:
        """The type's input function, followed by its length coercion."""
        column, style = self.column, self._style
        base, typmod = lookup.base_and_typmod(column.type, column.typmod)
        if base != column.type:
            raise _NotLiteral
        input_typmod = typmod if base == oids.INTERVAL else -1
        fit = self._cast(base) if typmod >= 0 else None

        def read(text: str) -> Any:
            value = read_text(text, base, input_typmod, style)
            return value if fit is None else fit(value)

        return read

    def _cast(self, source: int) -> Callable[[Any], Any]:
        column = self.column
        given = tree.Param(source)
        cast = coerce_to_target(
            self.scope, given, source, column.type, column.typmod, CastContext.ASSIGNMENT, IMPLICIT_CAST, -1
        )
        if cast is None:
            raise _NotLiteral
        if cast is given:
            return lambda value: value
        return evaluate.compile(cast, Context(self.scope.session), _itself)


def _itself(node: tree.Expr) -> Callable[[Any], Any] | None:
    return (lambda env: env) if isinstance(node, tree.Param) else None


# --- on conflict ------------------------------------------------------------------------------------------------------


def transform_on_conflict(scope: Scope, clause: nodes.OnConflictClause, relation: Relation) -> Conflict:
    excluded: NsItem | None = None
    if not clause.do_nothing:
        excluded = scope.add_rte(relation_rte(relation, "excluded"))
    elements, where, constraint, columns = _arbiter(scope, clause, relation)
    if excluded is None:
        return Conflict(elements, where, constraint, constraint_columns=columns)
    scope.show(excluded)
    settled = SetClause(scope, relation)
    values = settled.read(clause.targets)
    condition = None
    if clause.where is not None:
        condition = assign_collations(analyze_where(scope, clause.where, ExprKind.WHERE, "WHERE"))
    scope.namespace.remove(excluded)
    return Conflict(elements, where, constraint, values, condition, excluded.varno, tuple(settled.multi), columns)


def _arbiter(
    scope: Scope, clause: nodes.OnConflictClause, relation: Relation
) -> tuple[tuple[Inference, ...], tree.Expr | None, int, frozenset[int]]:
    elements = [e for e in clause.elements if isinstance(e, nodes.IndexElem)]
    if not clause.do_nothing and not elements and clause.constraint is None:
        raise PgError(
            "42601",
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            hint="For example, ON CONFLICT (column_name).",
            location=clause.location,
        )
    if relation.is_catalog:
        message = "ON CONFLICT is not supported with system catalog tables"
        raise PgError("0A000", message, location=clause.location)
    inferred = tuple(_inference(scope, element, clause.target_location) for element in elements)
    where = None
    if clause.where_index is not None:
        where = assign_collations(transform(scope, clause.where_index, ExprKind.INDEX_PREDICATE))
    if clause.constraint is None:
        return inferred, where, 0, frozenset()
    constraint = next(iter(rows(scope.session, pg_constraint, conrelid=relation.oid, conname=clause.constraint)), None)
    if constraint is None:
        message = f'constraint "{clause.constraint}" for table "{relation.name}" does not exist'
        raise PgError("42704", message)
    return inferred, where, constraint.oid, frozenset(constraint.conkey or ())


def _inference(scope: Scope, element: nodes.IndexElem, location: int) -> Inference:
    """An element of ON CONFLICT (…): an expression with collation and operator class (resolve_unique_index_expr)."""
    if element.dir is not nodes.SortDir.DEFAULT:
        raise PgError("42P10", "ASC/DESC is not allowed in ON CONFLICT clause", location=location)
    if element.nulls is not nodes.NullsOrder.DEFAULT:
        raise PgError("42P10", "NULLS FIRST/LAST is not allowed in ON CONFLICT clause", location=location)
    node = element.expr
    if node is None:
        assert element.name is not None
        node = nodes.ColumnRef((element.name,), location)
    expr = transform(scope, node, ExprKind.INDEX_EXPRESSION)
    collation = opclass = 0
    if element.collation:
        collation = comparing_collation(scope.session, element.collation, location_of(expr))
    if element.opclass:
        opclass = _btree_opclass(element.opclass)
    return Inference(assign_collations(expr), collation, opclass)


def _btree_opclass(names: tuple[str, ...]) -> int:
    btree = access_method_by_name("btree")
    for opclass in opclasses:
        if btree is not None and opclass.method == btree.oid and opclass.name == names[-1]:
            return opclass.oid
    raise PgError("42704", f'operator class "{".".join(names)}" does not exist for access method "btree"')


# --- insert -----------------------------------------------------------------------------------------------------------


_TOO_MANY = "INSERT has more expressions than target columns"
_TOO_FEW = "INSERT has more target columns than expressions"
_PARENTHESES = (
    "The insertion source is a row expression containing the same number of columns expected by the INSERT. "
    "Did you accidentally use extra parentheses?"
)


def analyze_insert(stmt: nodes.InsertStmt, scope: Scope) -> Modify:
    if stmt.with_ is not None:
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
        conflict = transform_on_conflict(scope, stmt.on_conflict, relation)
    returning = transform_returning(scope, stmt.returning)
    return Modify(
        Command.INSERT,
        relation.oid,
        tuple(scope.rtable),
        (tree.RangeRef(source.varno),) if source.varno else (),
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


def _is_plain_values(select: nodes.SelectStmt) -> bool:
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

    def read(self, select: nodes.SelectStmt | None) -> list[tree.Expr]:
        if select is None:
            return []
        if not _is_plain_values(select):
            return self._query(select)
        assert select.values is not None
        if len(select.values) == 1:
            row = expand_expressions(self.scope, select.values[0], ExprKind.VALUES_SINGLE, allow_default=True)
            return self.fitted(row)

        rows = literal_rows(self.scope.session, self.relation, self.columns, select.values, listed=self.listed)
        if rows is not None:
            return self._literals(rows)
        return self._lists(select)

    def _query(self, select: nodes.SelectStmt) -> list[tree.Expr]:
        """Analyse the source query. Its literals of unknown type stay unknown, because the target column decides their
        type."""
        query = analyze_subquery(select, self.scope, resolve_unknown=False)
        item = self._add(tree.Rte(tree.RteKind.SUBQUERY, "*SELECT*", query.columns, alias="*SELECT*", subquery=query))
        exprs: list[tree.Expr] = []
        for target in query.targets:
            if target.junk:
                continue
            if isinstance(target.expr, tree.Const) and target.expr.type == oids.UNKNOWN:
                exprs.append(target.expr)
            else:
                exprs.append(_var(item, target))
        return self.fitted(exprs)

    def _lists(self, select: nodes.SelectStmt) -> list[tree.Expr]:
        assert select.values is not None
        rows: list[tuple[tree.Expr, ...]] = []
        length = -1
        for raw in select.values:
            row = expand_expressions(self.scope, raw, ExprKind.VALUES, allow_default=True)
            if length not in (-1, len(row)):
                message = "VALUES lists must all be the same length"
                raise PgError("42601", message, location=first_location(row))
            length = len(row)
            rows.append(tuple([assign_collations(_stripped(value)) for value in self.fitted(row)]))
        columns = tuple(tree.Column(f"column{n}", value.type, value.typmod) for n, value in enumerate(rows[0], 1))
        return self._over_values(
            tree.Rte(tree.RteKind.VALUES, "*VALUES*", columns, alias="*VALUES*", values=tuple(rows))
        )

    def _literals(self, rows: tuple[tuple[object, ...], ...]) -> list[tree.Expr]:
        columns = []
        for named in self.columns[: len(rows[0])]:
            column = self.relation.attributes[named.attnum - 1]
            columns.append(tree.Column(named.name, column.type, column.typmod, column.collation))
        return self._over_values(rows_rte("*VALUES*", tuple(columns), rows))

    def _over_values(self, rte: tree.Rte) -> list[tree.Expr]:
        self.is_values = True
        item = self._add(rte)
        return self.fitted([var for _, var in item_vars(item, 0, -1)])

    def _add(self, rte: tree.Rte) -> NsItem:
        item = self.scope.add_rte(rte)
        self.varno = item.varno
        return item

    def fitted(self, exprs: list[tree.Expr]) -> list[tree.Expr]:
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

    def _row_width(self, expr: tree.Expr) -> int:
        """The number of columns of a row-valued expression (count_rowexpr_columns)."""
        if isinstance(expr, tree.Var) and expr.attnum > 0 and expr.type == oids.RECORD:
            query = self.scope.rte(expr.varno).subquery
            built = next((t.expr for t in query.targets if t.resno == expr.attnum), None) if query is not None else None
            expr = built if built is not None else expr
        return len(expr.args) if isinstance(expr, tree.RowExpr) else -1


def rows_rte(name: str, columns: tuple[tree.Column, ...], rows: Iterable[tuple[Any, ...]]) -> tree.Rte:
    """A range table entry for rows that are computed apart."""
    return tree.Rte(tree.RteKind.VALUES, name, columns, alias=name, rows=rows)


def _var(item: NsItem, target: tree.Target) -> tree.Var:
    """A column of the source query, with the location of the expression that it stands for."""
    expr = target.expr
    return tree.Var(
        expr.type, typmod=expr.typmod, collation=expr.collation, location=location_of(expr),
        varno=item.varno, attnum=target.resno,
    )  # fmt: skip


def _stripped(expr: tree.Expr) -> tree.Expr:
    """The assigned value, without the nodes that put it into a part of the column."""
    while True:
        inner: tree.Expr | None = expr
        while isinstance(inner, tree.CoerceToDomain):
            inner = inner.arg
        if isinstance(inner, tree.FieldStore):
            expr = inner.values[0]
        elif isinstance(inner, tree.SubscriptingRef) and inner.assign is not None:
            expr = inner.assign
        else:
            return expr
