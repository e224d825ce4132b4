"""MERGE (transformMergeStmt)."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog.relation import Relation
from pgrepl.errors import PgError
from pgrepl.expr.clauses import settle_collations
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.dml.insert import InsertSource
from pgrepl.expr.dml.plan import TARGET, Assignment, Command, Merge, MergeAction, MergeMatch, Modify
from pgrepl.expr.dml.returning import transform_returning
from pgrepl.expr.dml.target import insert_columns, open_target
from pgrepl.expr.dml.update import SetClause
from pgrepl.expr.from_clause import transform_from
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope
from pgrepl.expr.targets import expand_expressions
from pgrepl.expr.transform import analyze_where
from pgrepl.expr.tree import Expr, Query, RangeRef
from pgrepl.expr.walk import location_of, walk_deep
from pgrepl.sql.nodes import MergeStmt, MergeWhen

_KINDS = {"m": "materialized views", "S": "sequences", "f": "foreign tables", "t": "TOAST tables"}


def analyze_merge(stmt: MergeStmt, scope: Scope) -> Modify:
    _check_reachable(stmt)
    if stmt.with_ is not None:
        if stmt.with_.recursive:
            raise PgError("42601", "WITH RECURSIVE is not supported for MERGE statement")
        from pgrepl.expr.ctes import transform_with

        transform_with(scope, stmt.with_)
    target = open_target(scope, stmt.relation, inh=stmt.relation.inh)
    if target.kind not in "rpv":
        detail = f"This operation is not supported for {_KINDS[target.kind]}."
        raise PgError("42809", f'cannot execute MERGE on relation "{target.name}"', detail=detail)
    from_ = transform_from(scope, (stmt.source,))
    item, source = scope.target_item, scope.namespace[-1]
    assert item is not None
    if item.name == source.name:
        raise PgError(
            "42712",
            f'name "{item.name}" specified more than once',
            detail="The name is used both as MERGE target table and data source.",
        )
    scope.show(item)
    condition = analyze_where(scope, stmt.condition, ExprKind.JOIN_ON, "JOIN/ON")
    settled = settle_collations(Query((), tuple(scope.rtable), from_, condition))
    assert settled.where is not None
    returning = transform_returning(scope, stmt.returning, ExprKind.MERGE_RETURNING)
    actions = []
    for when in stmt.whens:
        match = MergeMatch(when.match)
        for each, hidden in ((item, MergeMatch.NOT_MATCHED_BY_TARGET), (source, MergeMatch.NOT_MATCHED_BY_SOURCE)):
            each.rel_visible = each.cols_visible = match is not hidden
        actions.append(_action(scope, target, when, match))
    return Modify(
        Command.MERGE,
        target.oid,
        tuple(scope.rtable),
        (RangeRef(TARGET), *settled.from_),
        named=frozenset(n for action in actions for n in action.named),
        returning=returning,
        ctes=tuple(each.finished() for each in scope.ctes),
        merge=Merge(settled.where, tuple(actions)),
    )


def _check_reachable(stmt: MergeStmt) -> None:
    unconditional: set[str] = set()
    for when in stmt.whens:
        if when.match in unconditional:
            raise PgError("42601", "unreachable WHEN clause specified after unconditional WHEN clause")
        if when.condition is None:
            unconditional.add(when.match)


def _refuse_sets(value: Expr) -> None:
    """As ExecInitFunc does: the values of an INSERT are computed for one row."""
    for node, depth in walk_deep(value):
        if not depth and getattr(node, "retset", False):
            message = "set-valued function called in context that cannot accept a set"
            raise PgError("0A000", message, location=location_of(node))


def _action(scope: Scope, target: Relation, when: MergeWhen, match: MergeMatch) -> MergeAction:
    condition: Expr | None = None
    if when.condition is not None:
        condition = assign_collations(analyze_where(scope, when.condition, ExprKind.MERGE_WHEN, "WHEN"))
    if when.action == "NOTHING":
        return MergeAction(match, None, condition)
    action = MergeAction(match, Command(when.action), condition)
    if when.action == "UPDATE":
        settled = SetClause(scope, target)
        assigned = settled.read(when.targets)
        return replace(
            action,
            assigned=assigned,
            named=frozenset(a.attnum for a in assigned),
            multi=tuple(settled.multi),
        )
    if when.action == "INSERT":
        columns = insert_columns(target, when.targets)
        row = expand_expressions(scope, when.values, ExprKind.VALUES_SINGLE, allow_default=True) if when.values else []
        for value in row:
            _refuse_sets(value)
        values = InsertSource(scope, target, columns, listed=bool(when.targets)).fitted(row) if row else []
        columns = columns[: len(values)]
        return replace(
            action,
            assigned=tuple(
                Assignment(column.attnum, assign_collations(value))
                for column, value in zip(columns, values, strict=True)
            ),
            named=frozenset(column.attnum for column in columns),
            overriding=when.overriding,
        )
    return action
