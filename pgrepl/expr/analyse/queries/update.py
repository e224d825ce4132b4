"""UPDATE and DELETE (transformUpdateStmt, transformDeleteStmt); for INSERT and MERGE, too, the target table of a
statement, the columns that it names, and assignment casts (setTargetTable, transformAssignedExpr).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.constructors import subscripted
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMN_NAMES, SYSTEM_COLUMNS, relation_rte
from pgrepl.expr.analyse.queries.clauses import settle_collations, transform_returning
from pgrepl.expr.analyse.queries.ctes import transform_with
from pgrepl.expr.analyse.queries.query import analyze_subquery, open_relation, transform_from
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import expand_expressions
from pgrepl.expr.analyse.transform import analyze_where, transform
from pgrepl.expr.dml_tree import TARGET, Assignment, Command, Modify
from pgrepl.expr.walk import location_of
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql import nodes
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import ResTarget
from pgrepl.types import oids


def analyze_update(stmt: nodes.UpdateStmt, scope: Scope) -> Modify:
    relation, modify = _searched(scope, Command.UPDATE, stmt.relation, stmt.from_, stmt.where, stmt.with_)
    returning = transform_returning(scope, stmt.returning)
    settled = SetClause(scope, relation)
    values = settled.read(stmt.targets)
    return replace(
        modify,
        rtable=tuple(scope.rtable),
        assigned=values,
        named=frozenset(a.attnum for a in values),
        returning=returning,
        multi=tuple(settled.multi),
        ctes=tuple(item.finished() for item in scope.ctes),
    )


def analyze_delete(stmt: nodes.DeleteStmt, scope: Scope) -> Modify:
    _, modify = _searched(scope, Command.DELETE, stmt.relation, stmt.using, stmt.where, stmt.with_)
    returning = transform_returning(scope, stmt.returning)
    return replace(
        modify, rtable=tuple(scope.rtable), returning=returning, ctes=tuple(item.finished() for item in scope.ctes)
    )


def _searched(
    scope: Scope,
    command: Command,
    name: nodes.RangeVar,
    items: tuple[nodes.FromItem, ...],
    where: nodes.Expr | None,
    with_: nodes.WithClause | None,
) -> tuple[Relation, Modify]:
    """Analyse WITH, the target, FROM or USING, and WHERE."""
    if with_ is not None:
        transform_with(scope, with_)
    relation = open_target(scope, name, inh=name.inh)
    target = scope.target_item
    assert target is not None
    scope.show(target)
    # subqueries in FROM cannot refer to the target
    target.lateral_only, target.lateral_ok = True, False
    from_ = transform_from(scope, items)
    target.lateral_only, target.lateral_ok = False, True
    condition = analyze_where(scope, where, ExprKind.WHERE, "WHERE") if where is not None else None
    settled = settle_collations(tree.Query((), tuple(scope.rtable), (tree.RangeRef(TARGET), *from_), condition))
    return (
        relation,
        Modify(
            command, relation.oid, (), settled.from_, settled.where, recursive=with_ is not None and with_.recursive
        ),
    )


class SetClause:
    """SET in UPDATE and in ON CONFLICT DO UPDATE (transformUpdateTargetList)."""

    def __init__(self, scope: Scope, relation: Relation) -> None:
        self.scope = scope
        self.relation = relation
        self.multi: list[tree.SubLink] = []

    def read(self, targets: tuple[ResTarget, ...]) -> tuple[Assignment, ...]:
        """Analyse all values first, then cast each to its column's type."""
        sources = [self._source(target) for target in targets]
        assignments: list[Assignment] = []
        for target, source in zip(targets, sources, strict=True):
            assert target.name is not None
            attnum = column_number(self.relation, target.name)
            if attnum == 0:
                item = self.scope.target_item
                hint = None
                if target.indirection and item is not None and item.name == target.name:
                    hint = "SET target columns cannot be qualified with the relation name."
                raise missing_column_of(self.relation, target.name, target.location, hint)
            assigned_column = AssignedColumn(
                self.relation, target.name, attnum, tuple(target.indirection), target.location, old_value=TARGET
            )
            value = assigned(self.scope, source, assigned_column, ExprKind.UPDATE_SOURCE)
            assignments.append(Assignment(attnum, assign_collations(value)))
        return tuple(assignments)

    def _source(self, target: ResTarget) -> tree.Expr:
        node = target.value
        if isinstance(node, nodes.MultiAssign):
            return self._part(node)
        assert node is not None
        if isinstance(node, nodes.SetToDefault):
            return tree.SetToDefault(oids.UNKNOWN, location=node.location)
        return transform(self.scope, node, ExprKind.UPDATE_SOURCE)

    def _part(self, node: nodes.MultiAssign) -> tree.Expr:
        """The value for one column of a multi-column assignment (transformMultiAssignRef)."""
        if node.number == 1:
            self._shared: tree.Expr | list[tree.Expr] = self._whole(node)
        shared = self._shared
        if isinstance(shared, list):
            return shared[node.number - 1]
        assert isinstance(shared, tree.SubLink) and shared.query is not None
        row = shared.query.targets[0].expr
        assert isinstance(row, tree.RowExpr)
        column = row.args[node.number - 1]
        return tree.FieldSelect(
            column.type,
            typmod=column.typmod,
            collation=column.collation,
            arg=shared,
            fieldnum=node.number,
            name=f"f{node.number}",
            location=location_of(column),
        )

    def _whole(self, node: nodes.MultiAssign) -> tree.Expr | list[tree.Expr]:
        source = node.source
        if isinstance(source, nodes.SubLink) and source.kind is nodes.SubLinkType.EXPR:
            link = self._subquery(source, node.count)
            self.multi.append(link)
            return link
        if isinstance(source, nodes.RowExpr):
            values = expand_expressions(self.scope, source.args, ExprKind.UPDATE_SOURCE, allow_default=True)
            if len(values) != node.count:
                raise _wrong_count(source.location)
            return values
        message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression"
        raise PgError("0A000", message, location=expr_location(source))

    def _subquery(self, source: nodes.SubLink, count: int) -> tree.SubLink:
        """A subquery of several columns as one value: SELECT ROW(…) FROM (subquery)."""
        self.scope.has_sublinks = True
        saved, self.scope.kind = self.scope.kind, ExprKind.UPDATE_SOURCE
        between = Scope(self.scope.session, self.scope)
        query = analyze_subquery(source.subselect, between)
        self.scope.kind = saved
        shown = [t for t in query.targets if not t.junk]
        if len(shown) != count:
            raise _wrong_count(source.location)
        item = between.add_rte(
            tree.Rte(tree.RteKind.SUBQUERY, "*MULTIEXPR*", query.columns, alias="*MULTIEXPR*", subquery=query)
        )
        columns = tuple(
            tree.Var(
                t.expr.type, typmod=t.expr.typmod, collation=t.expr.collation, location=location_of(t.expr),
                varno=item.varno, attnum=t.resno,
            )
            for t in shown
        )  # fmt: skip
        names = tuple(f"f{n}" for n in range(1, count + 1))
        row = tree.RowExpr(oids.RECORD, args=columns, names=names)
        outer = tree.Query((tree.Target(row, "row", 1),), tuple(between.rtable), (tree.RangeRef(item.varno),))
        return tree.SubLink(oids.RECORD, kind=nodes.SubLinkType.EXPR, query=outer, location=source.location)


def _wrong_count(location: int) -> PgError:
    return PgError("42601", "number of columns does not match number of values", location=location)


def merge_assignments(relation: Relation, assigned_: tuple[Assignment, ...]) -> dict[int, tree.Expr]:
    """The value of each assigned column. Assignments to parts of a column are nested; two to the whole column are an
    error."""
    values: dict[int, tree.Expr] = {}
    for assignment in assigned_:
        earlier = values.get(assignment.attnum)
        name = relation.attributes[assignment.attnum - 1].name
        values[assignment.attnum] = assignment.expr if earlier is None else merged(assignment.expr, earlier, name)
    return values


@frozen
class NamedColumn:
    """A column in an INSERT's column list, written or implied."""

    name: str
    attnum: int
    indirection: tuple[object, ...] = ()
    location: int = -1


def open_target(scope: Scope, name: nodes.RangeVar, *, inh: bool = False) -> Relation:
    """Open the target relation as the first range table entry; it is not yet in the namespace."""
    if name.schema is None and name.name in scope.session.transition_tables:
        raise PgError("0A000", f'relation "{name.name}" cannot be the target of a modifying statement')
    table = open_relation(scope, name)
    alias = name.alias
    rte = relation_rte(
        table, alias.name if alias is not None else None, alias.columns if alias is not None else (), inh
    )
    scope.target_item = scope.add_rte(rte)
    return table


def column_number(relation: Relation, name: str) -> int:
    """The attnum of a column, negative for system columns; 0: no such column (attnameAttNum)."""
    attribute = relation.attribute(name)
    if attribute is not None:
        return attribute.num
    if relation.kind in "vc":
        return 0
    return SYSTEM_COLUMNS.get(name, (0, 0))[0]


def missing_column_of(relation: Relation, name: str, location: int, hint: str | None = None) -> PgError:
    message = f'column "{name}" of relation "{relation.name}" does not exist'
    return PgError("42703", message, hint=hint, location=location)


def insert_columns(relation: Relation, columns: tuple[ResTarget, ...]) -> list[NamedColumn]:
    """The columns that an INSERT gives values (checkInsertTargets)."""
    if not columns:
        return [NamedColumn(a.name, a.num) for a in relation.columns]
    named: list[NamedColumn] = []
    whole: set[int] = set()
    partial: set[int] = set()
    for column in columns:
        assert column.name is not None
        attnum = relation.attribute(column.name)
        if attnum is None:
            raise missing_column_of(relation, column.name, column.location)
        if attnum.num in whole or (not column.indirection and attnum.num in partial):
            message = f'column "{column.name}" specified more than once'
            raise PgError("42701", message, location=column.location)
        (partial if column.indirection else whole).add(attnum.num)
        named.append(NamedColumn(column.name, attnum.num, tuple(column.indirection), column.location))
    return named


def attribute_at(relation: Relation, attnum: int) -> Attribute:
    attribute = relation.attribute_by_number(attnum)
    assert attribute is not None
    return attribute


# --- assign -----------------------------------------------------------------------------------------------------------


HINT = "You will need to rewrite or cast the expression."


@frozen
class AssignedColumn:
    """A column, or a part of it, that a value is assigned to, and its location in the text (ResTarget)."""

    relation: Relation
    name: str
    attnum: int
    indirection: tuple[object, ...] = ()
    location: int = -1
    old_value: int = 0  # varno of the row that has the column's old value; 0: INSERT, where it is NULL


def assigned(scope: Scope, expr: tree.Expr, target: AssignedColumn, kind: ExprKind) -> tree.Expr:
    if target.attnum <= 0:
        name = SYSTEM_COLUMN_NAMES.get(target.attnum, target.name)
        raise PgError("0A000", f'cannot assign to system column "{name}"', location=target.location)
    saved, scope.kind = scope.kind, kind
    try:
        return _assigned(scope, expr, target)
    finally:
        scope.kind = saved


def _assigned(scope: Scope, expr: tree.Expr, target: AssignedColumn) -> tree.Expr:
    column = attribute_at(target.relation, target.attnum)
    if isinstance(expr, tree.SetToDefault):
        expr = replace(expr, type=column.type, typmod=column.typmod, collation=column.collation)
        if target.indirection:
            what = "an array element" if isinstance(target.indirection[0], nodes.AIndices) else "a subfield"
            raise PgError("0A000", f"cannot set {what} to DEFAULT", location=target.location)
    if target.indirection:
        base: tree.Expr
        if target.old_value:
            base = tree.Var(
                column.type, typmod=column.typmod, collation=column.collation, location=target.location,
                varno=target.old_value, attnum=target.attnum,
            )  # fmt: skip
        else:
            base = tree.Const(column.type, typmod=column.typmod, collation=column.collation)
        return Parts(scope, target.location).into(
            base, target.name, False, (column.type, column.typmod, column.collation), target.indirection, expr
        )
    result = coerce_to_target(scope, expr, expr.type, column.type, column.typmod, Context.ASSIGNMENT, IMPLICIT_CAST, -1)
    if result is None:
        wanted, given = lookup.type_text(scope.session, column.type), lookup.type_text(scope.session, expr.type)
        message = f'column "{target.name}" is of type {wanted} but expression is of type {given}'
        # the error for a column of a subquery points into the subquery
        shown = (
            expr.location
            if isinstance(expr, tree.FieldSelect) and isinstance(expr.arg, tree.SubLink)
            else location_of(expr)
        )
        raise PgError("42804", message, hint=HINT, location=shown)
    return result


_Type = tuple[int, int, int]  # type, typmod, collation


class Parts:
    """Assignments to fields and elements, from the outermost container inwards (transformAssignmentIndirection)."""

    def __init__(self, scope: Scope, location: int, context: Context = Context.ASSIGNMENT) -> None:
        self.scope = scope
        self.context = context
        self.session = scope.session
        self.location = location

    def into(
        self,
        base: tree.Expr | None,
        name: str,
        subscripting: bool,
        target: _Type,
        steps: Sequence[object],
        value: tree.Expr,
    ) -> tree.Expr:
        if not steps:
            return self._value(name, subscripting, target, value)
        if base is None:
            base = tree.CaseTestExpr(target[0], typmod=target[1], collation=target[2])
        subscripts: list[nodes.AIndices] = []
        for number, step in enumerate(steps):
            if isinstance(step, nodes.AIndices):
                subscripts.append(step)
                continue
            if subscripts:
                return self._element(base, name, target, subscripts, steps[number:], value)
            if isinstance(step, nodes.AStar):
                raise PgError("0A000", 'row expansion via "*" is not supported here', location=self.location)
            return self._field(base, name, target, str(step), steps[number + 1 :], value)
        return self._element(base, name, target, subscripts, (), value)

    def _value(self, name: str, subscripting: bool, target: _Type, value: tree.Expr) -> tree.Expr:
        typoid, typmod, _ = target
        result = coerce_to_target(self.scope, value, value.type, typoid, typmod, self.context, IMPLICIT_CAST, -1)
        if result is not None:
            return result
        wanted, given = lookup.type_text(self.session, typoid), lookup.type_text(self.session, value.type)
        message = f'subfield "{name}" is of type {wanted} but expression is of type {given}'
        if subscripting:
            message = f'subscripted assignment to "{name}" requires type {wanted} but expression is of type {given}'
        raise PgError("42804", message, hint=HINT, location=self.location)

    def _field(
        self, base: tree.Expr, name: str, target: _Type, field: str, rest: Sequence[object], value: tree.Expr
    ) -> tree.Expr:
        wrong = f'cannot assign to field "{field}" of column "{name}" because '
        row, _ = lookup.base_and_typmod(target[0], target[1])
        text = lookup.type_text(self.session, target[0])
        if not lookup.is_complex(row):
            message = f"{wrong}its type {text} is not a composite type"
            raise PgError("42804", message, location=self.location)
        attribute = next(
            (a for a in lookup.row_attributes(self.session, row) if a.name == field and not a.dropped), None
        )
        if attribute is None:
            message = f"{wrong}there is no such column in data type {text}"
            raise PgError("42703", message, location=self.location)
        part = self.into(None, field, False, (attribute.type, attribute.typmod, attribute.collation), rest, value)
        stored = tree.FieldStore(row, arg=base, values=(part,), fieldnums=(attribute.num,), location=self.location)
        return self._of_domain(stored, row, target)

    def _of_domain(self, changed: tree.Expr, base: int, target: _Type) -> tree.Expr:
        """The changed container as a value of the domain over its type."""
        if base == target[0]:
            return changed
        cast = coerce_to_target(self.scope, changed, base, target[0], target[1], Context.ASSIGNMENT, IMPLICIT_CAST, -1)
        assert cast is not None
        return cast

    def _element(
        self,
        base: tree.Expr,
        name: str,
        target: _Type,
        subscripts: list[nodes.AIndices],
        rest: Sequence[object],
        value: tree.Expr,
    ) -> tree.Expr:
        """An assignment to elements of an array or of jsonb (transformAssignmentSubscripts)."""
        container = subscripted(self.scope, base, subscripts)
        typoid, typmod = lookup.base_and_typmod(target[0], target[1])
        needed = (container.type, container.typmod, target[2] if typoid == target[0] else lookup.collation(typoid))
        part = self.into(None, name, True, needed, rest, value)
        changed = replace(container, type=typoid, typmod=typmod, assign=part)
        return self._of_domain(changed, typoid, target)


# --- several assignments to one column ------------------------------------------------------------------------------


def merged(later: tree.Expr, earlier: tree.Expr, name: str) -> tree.Expr:
    """The assignments to parts of one column, nested into one; earlier assignments are the inner ones
    (process_matched_tle)."""
    outer, inner = later, earlier
    domain = None
    if isinstance(outer, tree.CoerceToDomain) and isinstance(inner, tree.CoerceToDomain) and outer.type == inner.type:
        domain = outer
        assert outer.arg is not None and inner.arg is not None
        outer, inner = outer.arg, inner.arg
    changed, bottom = _changed(outer), _changed(inner)
    if changed is None or bottom is None or outer.type != inner.type:
        raise _twice(name)
    while (below := _changed(bottom)) is not None:
        bottom = below
    if bottom != changed:
        raise _twice(name)
    result: tree.Expr
    if isinstance(outer, tree.FieldStore):
        if isinstance(inner, tree.FieldStore):
            result = replace(inner, values=inner.values + outer.values, fieldnums=inner.fieldnums + outer.fieldnums)
        else:
            result = replace(outer, arg=inner)
    else:
        assert isinstance(outer, tree.SubscriptingRef)
        result = replace(outer, container=inner)
    return replace(domain, arg=result) if domain is not None else result


def _changed(expr: tree.Expr) -> tree.Expr | None:
    """The value that an assignment to a part modifies (get_assignment_input)."""
    if isinstance(expr, tree.FieldStore):
        return expr.arg
    if isinstance(expr, tree.SubscriptingRef) and expr.assign is not None:
        return expr.container
    return None


def _twice(name: str) -> PgError:
    return PgError("42601", f'multiple assignments to same column "{name}"')
