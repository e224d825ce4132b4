"""The target list: the expansion of `*`, and column names (parse_target.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.missing import missing_relation
from pgrepl.expr.rows import row_columns
from pgrepl.expr.scope import NsItem, Scope, find_item, item_vars
from pgrepl.expr.sorting import known_type
from pgrepl.expr.transform import transform
from pgrepl.expr.tree import MERGE_ACTION, Expr, FieldSelect, RteKind, Target, Var
from pgrepl.expr.variables import chosen
from pgrepl.sql import nodes
from pgrepl.sql.nodes import AExprKind, AIndirection, AStar, ColumnRef, ResTarget, SubLinkType
from pgrepl.types import oids


def is_star(node: object) -> bool:
    """Whether a target is `*`, `t.*` or `(row).*`."""
    if isinstance(node, ColumnRef):
        return isinstance(node.fields[-1], AStar)
    return isinstance(node, AIndirection) and isinstance(node.indirection[-1], AStar)


def transform_targets(scope: Scope, items: Sequence[ResTarget], kind: ExprKind) -> list[Target]:
    """As transformTargetList does."""
    targets: list[Target] = []
    for item in items:
        assert item.value is not None
        if is_star(item.value):
            for name, expr in expand_star(scope, item.value, kind):
                targets.append(Target(expr, name, _next_resno(scope)))
            continue
        expr = transform(scope, item.value, kind)
        name = item.name if item.name is not None else column_name(item.value, scope)
        targets.append(Target(expr, name, _next_resno(scope)))
    return targets


def _next_resno(scope: Scope) -> int:
    scope.next_resno += 1
    return scope.next_resno - 1


def expand_expressions(
    scope: Scope, items: Sequence[nodes.Expr], kind: ExprKind, *, allow_default: bool = False
) -> list[Expr]:
    """A list of expressions with `*` expanded (transformExpressionList). DEFAULT is kept where it is allowed."""
    from pgrepl.expr.tree import SetToDefault

    result: list[Expr] = []
    for item in items:
        if is_star(item):
            result += [expr for _, expr in expand_star(scope, item, kind)]
        elif allow_default and isinstance(item, nodes.SetToDefault):
            result.append(SetToDefault(oids.UNKNOWN, location=item.location))
        else:
            result.append(transform(scope, item, kind))
    return result


def expand_star(scope: Scope, node: nodes.Expr, kind: ExprKind) -> list[tuple[str, Expr]]:
    """The columns a `*` stands for, with their names."""
    if isinstance(node, ColumnRef):
        return _expand_relations(scope, node)
    assert isinstance(node, AIndirection)
    inner: nodes.Expr = node.arg
    if len(node.indirection) > 1:
        inner = replace(node, indirection=node.indirection[:-1])
    return _expand_row(scope, transform(scope, inner, kind))


def _expand_relations(scope: Scope, node: ColumnRef) -> list[tuple[str, Expr]]:
    location = node.location
    if len(node.fields) == 1:
        shown = [item for item in scope.namespace if item.cols_visible]
        if not shown:
            raise PgError("42601", "SELECT * with no tables specified is not valid", location=location)
        return [pair for item in shown for pair in _item_columns(item, 0, location)]
    names = [str(f) for f in node.fields[:-1]]
    variables = scope.variables
    if variables is None:
        return _expand_relation(scope, names, location)
    meant = chosen(
        variables.conflict,
        lambda _: variables.starred(tuple(names), location),
        lambda: _expand_relation(scope, names, location),
        ".".join([*names, "*"]),
        location,
    )
    assert meant is not None
    return _expand_row(scope, meant) if isinstance(meant, Expr) else meant


def _expand_relation(scope: Scope, names: list[str], location: int) -> list[tuple[str, Expr]]:
    dotted = ".".join([*names, "*"])
    if len(names) > 3:
        message = f"improper qualified name (too many dotted names): {dotted}"
        raise PgError("42601", message, location=location)
    if len(names) == 3 and names[0] != scope.session.database.name:
        raise PgError("0A000", f"cross-database references are not implemented: {dotted}", location=location)
    schema = names[-2] if len(names) > 1 else None
    found = find_item(scope, schema, names[-1], location)
    if found is None:
        raise missing_relation(scope, schema, names[-1], location)
    return _item_columns(found[0], found[1], location)


def _item_columns(item: NsItem, levels: int, location: int) -> list[tuple[str, Expr]]:
    return [(name, var) for name, var in item_vars(item, levels, location)]


def _expand_row(scope: Scope, row: Expr) -> list[tuple[str, Expr]]:
    """`(row).*`, as ExpandRowReference does."""
    if isinstance(row, Var) and row.attnum == 0:
        return _item_columns(scope.item(row.varno, row.levelsup), row.levelsup, row.location)
    columns = row_columns(scope, row)
    if columns is None:
        if row.type == oids.RECORD:
            raise PgError("42809", "record type has not been registered")
        raise PgError("42809", f"type {typefacts.type_text(scope.session, row.type)} is not composite")
    return [
        (
            column.name,
            FieldSelect(
                column.type,
                typmod=column.typmod,
                collation=column.collation,
                arg=row,
                fieldnum=number,
                name=column.name,
            ),
        )
        for number, column in enumerate(columns, 1)
        if not column.dropped
    ]


def resolve_unknowns(scope: Scope, targets: list[Target]) -> list[Target]:
    """Cast literals that are still of unknown type to text (resolveTargetListUnknowns)."""
    return [replace(t, expr=known_type(scope, t.expr)) for t in targets]


def mark_origins(scope: Scope, targets: list[Target]) -> list[Target]:
    """Record for each target the relation and column that it comes from (markTargetListOrigins)."""
    return [replace(t, origin=_origin(scope, t.expr)) for t in targets]


def _origin(scope: Scope, expr: Expr) -> tuple[int, int] | None:
    if not isinstance(expr, Var):
        return None
    rte = scope.rte(expr.varno, expr.levelsup)
    if rte.kind is RteKind.RELATION:
        return None if expr.attnum == MERGE_ACTION else (rte.relid, expr.attnum)
    query = rte.subquery
    if rte.kind is RteKind.CTE and not rte.self_reference:
        home = scope.up(expr.levelsup + rte.cte_levelsup)
        query = next((c.query for c in home.ctes if c.name == rte.cte), None)
    if query is None or not expr.attnum:
        return None
    return next((t.origin for t in query.targets if t.resno == expr.attnum and not t.junk), None)


# --- names --------------------------------------------------------------------------------------------------------


def column_name(node: nodes.Expr, scope: Scope | None = None) -> str:
    """The name of an output column without AS (FigureColname)."""
    return _figure(node, scope)[0] or "?column?"


def index_column_name(node: nodes.Expr) -> str | None:
    """As FigureIndexColname does."""
    return _figure(node, None)[0]


def _last_name(fields: Sequence[object]) -> str | None:
    names = [f for f in fields if isinstance(f, str)]
    return names[-1] if names else None


def _figure(node: object, scope: Scope | None) -> tuple[str | None, int]:
    """The name and its strength: 2 for a name of its own, 1 for the kind of expression."""
    if isinstance(node, ColumnRef):
        name = _last_name(node.fields)
        return (name, 2) if name is not None else (None, 0)
    if isinstance(node, AIndirection):
        name = _last_name(node.indirection)
        return (name, 2) if name is not None else _figure(node.arg, scope)
    if isinstance(node, nodes.FuncCall):
        return node.name[-1], 2
    if isinstance(node, nodes.AExpr):
        return ("nullif", 2) if node.kind is AExprKind.NULLIF else (None, 0)
    if isinstance(node, nodes.TypeCast):
        name, strength = _figure(node.arg, scope)
        return (node.type_name.names[-1], 1) if strength <= 1 else (name, strength)
    if isinstance(node, nodes.CollateClause):
        return _figure(node.arg, scope)
    if isinstance(node, nodes.CaseExpr):
        name, strength = _figure(node.default, scope)
        return ("case", 1) if strength <= 1 else (name, strength)
    if isinstance(node, nodes.SubLink):
        return _figure_subquery(node, scope)
    if isinstance(node, nodes.MinMaxExpr):
        return ("greatest" if node.greatest else "least"), 2
    if isinstance(node, nodes.SQLValueFunction):
        return node.name, 2
    if isinstance(node, nodes.SqlJsonExpr):
        return _figure_json(node)
    name = _CONSTRUCTS.get(type(node))
    return (name, 2) if name is not None else (None, 0)


_CONSTRUCTS: dict[type, str] = {
    nodes.GroupingFunc: "grouping",
    nodes.MergeSupportFunc: "merge_action",
    nodes.AArrayExpr: "array",
    nodes.RowExpr: "row",
    nodes.CoalesceExpr: "coalesce",
}


def _figure_json(node: nodes.SqlJsonExpr) -> tuple[str | None, int]:
    if isinstance(node, nodes.JsonFuncExpr):
        return node.function.lower(), 2
    if isinstance(node, nodes.JsonAggregate):
        return "json_arrayagg" if node.key is None else "json_objectagg", 2
    name = {
        nodes.JsonObjectExpr: "json_object",
        nodes.JsonArrayExpr: "json_array",
        nodes.JsonArrayQuery: "json_array",
        nodes.JsonParseExpr: "json",
        nodes.JsonScalarExpr: "json_scalar",
        nodes.JsonSerializeExpr: "json_serialize",
    }.get(type(node))
    return (name, 2) if name is not None else (None, 0)


def _figure_subquery(node: nodes.SubLink, scope: Scope | None) -> tuple[str | None, int]:
    if node.kind is SubLinkType.EXISTS:
        return "exists", 2
    if node.kind is SubLinkType.ARRAY:
        return "array", 2
    if node.kind is SubLinkType.EXPR and scope is not None:
        query = scope.subqueries.get(id(node))
        if query is not None:
            return query.targets[0].name, 2
    return None, 0
