"""UPDATE and DELETE (transformUpdateStmt, transformDeleteStmt)."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog.facts.relation import Relation
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.queries.clauses import settle_collations, transform_returning
from pgrepl.expr.analyse.queries.ctes import transform_with
from pgrepl.expr.analyse.queries.query import analyze_subquery, transform_from
from pgrepl.expr.analyse.queries.target import (
    AssignedColumn,
    assigned,
    column_number,
    merged,
    missing_column_of,
    open_target,
)
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import expand_expressions
from pgrepl.expr.analyse.transform import analyze_where, transform
from pgrepl.expr.dml_tree import TARGET, Assignment, Command, Modify
from pgrepl.expr.tree import (
    Expr,
    FieldSelect,
    Query,
    RangeRef,
    RowExpr,
    Rte,
    RteKind,
    SetToDefault,
    SubLink,
    Target,
    Var,
)
from pgrepl.expr.walk import location_of
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import DeleteStmt, FromItem, MultiAssign, RangeVar, ResTarget, SubLinkType, UpdateStmt, WithClause
from pgrepl.types import oids


def analyze_update(stmt: UpdateStmt, scope: Scope) -> Modify:
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


def analyze_delete(stmt: DeleteStmt, scope: Scope) -> Modify:
    _, modify = _searched(scope, Command.DELETE, stmt.relation, stmt.using, stmt.where, stmt.with_)
    returning = transform_returning(scope, stmt.returning)
    return replace(
        modify, rtable=tuple(scope.rtable), returning=returning, ctes=tuple(item.finished() for item in scope.ctes)
    )


def _searched(
    scope: Scope,
    command: Command,
    name: RangeVar,
    items: tuple[FromItem, ...],
    where: nodes.Expr | None,
    with_: WithClause | None,
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
    settled = settle_collations(Query((), tuple(scope.rtable), (RangeRef(TARGET), *from_), condition))
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
        self.multi: list[SubLink] = []

    def read(self, targets: tuple[ResTarget, ...]) -> tuple[Assignment, ...]:
        """Analyse all values first, then cast each to its column's type."""
        sources = [self._source(target) for target in targets]
        found: list[Assignment] = []
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
            found.append(Assignment(attnum, assign_collations(value)))
        return tuple(found)

    def _source(self, target: ResTarget) -> Expr:
        node = target.value
        if isinstance(node, MultiAssign):
            return self._part(node)
        assert node is not None
        if isinstance(node, nodes.SetToDefault):
            return SetToDefault(oids.UNKNOWN, location=node.location)
        return transform(self.scope, node, ExprKind.UPDATE_SOURCE)

    def _part(self, node: MultiAssign) -> Expr:
        """The value for one column of a multi-column assignment (transformMultiAssignRef)."""
        if node.number == 1:
            self._shared: Expr | list[Expr] = self._whole(node)
        shared = self._shared
        if isinstance(shared, list):
            return shared[node.number - 1]
        assert isinstance(shared, SubLink) and shared.query is not None
        row = shared.query.targets[0].expr
        assert isinstance(row, RowExpr)
        column = row.args[node.number - 1]
        return FieldSelect(
            column.type,
            typmod=column.typmod,
            collation=column.collation,
            arg=shared,
            fieldnum=node.number,
            name=f"f{node.number}",
            location=location_of(column),
        )

    def _whole(self, node: MultiAssign) -> Expr | list[Expr]:
        source = node.source
        if isinstance(source, nodes.SubLink) and source.kind is SubLinkType.EXPR:
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

    def _subquery(self, source: nodes.SubLink, count: int) -> SubLink:
        """A subquery of several columns as one value: SELECT ROW(…) FROM (subquery)."""
        self.scope.has_sublinks = True
        saved, self.scope.kind = self.scope.kind, ExprKind.UPDATE_SOURCE
        between = Scope(self.scope.session, self.scope)
        query = analyze_subquery(source.subselect, between)
        self.scope.kind = saved
        shown = [t for t in query.targets if not t.junk]
        if len(shown) != count:
            raise _wrong_count(source.location)
        item = between.add_rte(Rte(RteKind.SUBQUERY, "*MULTIEXPR*", query.columns, alias="*MULTIEXPR*", subquery=query))
        columns = tuple(
            Var(
                t.expr.type, typmod=t.expr.typmod, collation=t.expr.collation, location=location_of(t.expr),
                varno=item.varno, attnum=t.resno,
            )
            for t in shown
        )  # fmt: skip
        names = tuple(f"f{n}" for n in range(1, count + 1))
        row = RowExpr(oids.RECORD, args=columns, names=names)
        outer = Query((Target(row, "row", 1),), tuple(between.rtable), (RangeRef(item.varno),))
        return SubLink(oids.RECORD, kind=SubLinkType.EXPR, query=outer, location=source.location)


def _wrong_count(location: int) -> PgError:
    return PgError("42601", "number of columns does not match number of values", location=location)


def merge_assignments(relation: Relation, assigned_: tuple[Assignment, ...]) -> dict[int, Expr]:
    """The value of each assigned column. Assignments to parts of a column are nested; two to the whole column are an
    error."""
    found: dict[int, Expr] = {}
    for each in assigned_:
        earlier = found.get(each.attnum)
        name = relation.attributes[each.attnum - 1].name
        found[each.attnum] = each.expr if earlier is None else merged(each.expr, earlier, name)
    return found
