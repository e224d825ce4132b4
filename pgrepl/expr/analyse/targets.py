"""The target list: the expansion of `*`, column names, columns of row-valued expressions (parse_target.c); and the
trees that a routine stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.namespace import routine, routine_row
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.kinds import ExprKind, chosen
from pgrepl.expr.analyse.polymorphic import resolve
from pgrepl.expr.analyse.scope import NsItem, Scope, WithItem, item_vars
from pgrepl.expr.analyse.sorting import known_type
from pgrepl.expr.analyse.transform import named_item, transform
from pgrepl.expr.stored import from_json
from pgrepl.ground.errors import PgError
from pgrepl.sql import nodes
from pgrepl.sql.nodes import AExprKind, AIndirection, AStar, ColumnRef, ResTarget, SubLinkType
from pgrepl.types import builtin, oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.dml_tree import Modify


def default_arguments(session: Session, oid: int) -> tuple[tree.Expr, ...]:
    """The defaults of the last input parameters of a user's routine."""
    row = routine_row(session, oid)
    if row is None or row.proargdefaults is None:
        return ()
    return tuple(from_json(data, session) for data in row.proargdefaults)


def body_of(session: Session, stored: dict[str, Any]) -> list[tree.Query | Modify]:
    """The statements of a body that is no string. {"statements": […]}; "return": the body is RETURN alone; "returns":
    the numbers of the statements that are RETURN."""
    return [from_json(data, session) for data in stored["statements"]]


# --- rows -------------------------------------------------------------------------------------------------------------


def function_columns(scope: Scope, call: tree.Expr) -> tuple[tree.Column, ...] | None:
    """The columns of a function's result, from OUT parameters or a named row type; None: it has neither."""
    if isinstance(call, tree.FuncExpr):
        proc = routine(scope.session, call.func)
        if proc is not None and proc.allargtypes is not None and proc.argmodes is not None:
            outs = [i for i, mode in enumerate(proc.argmodes) if mode in ("o", "b", "t")]
            if proc.rettype == oids.RECORD and outs:
                return _out_columns(scope.session, call, proc, outs)
    if lookup.is_complex(call.type):
        return named_row_columns(scope, call.type)
    return None


def _out_columns(session: Session, call: tree.FuncExpr, proc: builtin.Proc, outs: list[int]) -> tuple[tree.Column, ...]:
    assert proc.allargtypes is not None
    declared = [proc.allargtypes[i] for i in outs]
    if any(t in lookup.POLYMORPHIC for t in declared):
        actual = [arg.type for arg in call.args]
        declared = [resolve(session, actual, proc.argtypes, t)[1] for t in declared]
    names = proc.argnames or ("",) * len(proc.allargtypes)
    return tuple(
        tree.Column(names[i] or f"column{n}", typoid, -1, lookup.collation(typoid))
        for n, (i, typoid) in enumerate(zip(outs, declared, strict=True), 1)
    )


def named_row_columns(scope: Scope, typoid: int) -> tuple[tree.Column, ...]:
    return tuple(
        tree.Column(a.name, a.type, a.typmod, a.collation or lookup.collation(a.type), a.dropped)
        for a in lookup.row_attributes(scope.session, lookup.base(typoid))
    )


def row_columns(scope: Scope, row: tree.Expr) -> tuple[tree.Column, ...] | None:
    """The columns of a row-valued expression; None: unknown."""
    if isinstance(row, tree.Var) and row.type == oids.RECORD:
        return record_var_columns(scope, row)
    if isinstance(row, tree.RowExpr) and row.type == oids.RECORD:
        return tuple(
            tree.Column(name, arg.type, arg.typmod, arg.collation)
            for name, arg in zip(row.names, row.args, strict=True)
        )
    if isinstance(row, (tree.FuncExpr, tree.OpExpr)):
        return function_columns(scope, row)
    if lookup.is_complex(row.type):
        return named_row_columns(scope, row.type)
    return None


def record_var_columns(scope: Scope, var: tree.Var) -> tuple[tree.Column, ...] | None:
    """The columns of a Var of type record, traced to the expression that built the row (expandRecordVariable)."""
    level = scope.up(var.levelsup)
    rte = level.rtable[var.varno - 1]
    if var.attnum == 0:
        return tuple(c for c in rte.columns if not c.dropped)
    expr: tree.Expr | None = None
    inner = level
    if rte.kind is tree.RteKind.SUBQUERY and rte.subquery is not None:
        expr = _target(rte.subquery, var.attnum)
        inner = query_scope(level, rte.subquery)
    elif rte.kind is tree.RteKind.JOIN:
        expr = rte.join_vars[var.attnum - 1]
    elif rte.kind is tree.RteKind.CTE and not rte.self_reference:
        cte = _cte_query(level, rte)
        if cte is not None:
            query, home = cte
            expr = _target(query, var.attnum)
            inner = query_scope(home, query)
    if expr is None:
        return None
    if isinstance(expr, tree.Var) and expr.type == oids.RECORD:
        return record_var_columns(inner, expr)
    return row_columns(inner, expr)


def _target(query: tree.Query, attnum: int) -> tree.Expr | None:
    return next((t.expr for t in query.targets if t.resno == attnum and not t.junk), None)


def _cte_query(scope: Scope, rte: tree.Rte) -> tuple[tree.Query, Scope] | None:
    home = scope.up(rte.cte_levelsup)
    cte = next((c for c in home.ctes if c.name == rte.cte), None)
    return (cte.query, home) if cte is not None and cte.query is not None else None


def query_scope(parent: Scope, query: tree.Query) -> Scope:
    """The scope of an analysed query, rebuilt."""
    ctes = [WithItem(c.name, c.columns, query=c.query) for c in query.ctes]
    return Scope(parent.session, parent, rtable=list(query.rtable), ctes=ctes)


# --- targets ----------------------------------------------------------------------------------------------------------


def is_star(node: object) -> bool:
    """Whether a target is `*`, `t.*` or `(row).*`."""
    if isinstance(node, ColumnRef):
        return isinstance(node.fields[-1], AStar)
    return isinstance(node, AIndirection) and isinstance(node.indirection[-1], AStar)


def transform_targets(scope: Scope, items: Sequence[ResTarget], kind: ExprKind) -> list[tree.Target]:
    """The targets of a select list, `*` expanded (transformTargetList)."""
    targets: list[tree.Target] = []
    for item in items:
        assert item.value is not None
        if is_star(item.value):
            for name, expr in expand_star(scope, item.value, kind):
                targets.append(tree.Target(expr, name, _next_resno(scope)))
            continue
        expr = transform(scope, item.value, kind)
        name = item.name if item.name is not None else column_name(item.value, scope)
        targets.append(tree.Target(expr, name, _next_resno(scope)))
    return targets


def _next_resno(scope: Scope) -> int:
    scope.next_resno += 1
    return scope.next_resno - 1


def expand_expressions(
    scope: Scope, items: Sequence[nodes.Expr], kind: ExprKind, *, allow_default: bool = False
) -> list[tree.Expr]:
    """A list of expressions with `*` expanded (transformExpressionList). DEFAULT is kept where it is allowed."""
    result: list[tree.Expr] = []
    for item in items:
        if is_star(item):
            result += [expr for _, expr in expand_star(scope, item, kind)]
        elif allow_default and isinstance(item, nodes.SetToDefault):
            result.append(tree.SetToDefault(oids.UNKNOWN, location=item.location))
        else:
            result.append(transform(scope, item, kind))
    return result


def expand_star(scope: Scope, node: nodes.Expr, kind: ExprKind) -> list[tuple[str, tree.Expr]]:
    """The columns a `*` stands for, with their names."""
    if isinstance(node, ColumnRef):
        return _expand_relations(scope, node)
    assert isinstance(node, AIndirection)
    inner: nodes.Expr = node.arg
    if len(node.indirection) > 1:
        inner = replace(node, indirection=node.indirection[:-1])
    return _expand_row(scope, transform(scope, inner, kind))


def _expand_relations(scope: Scope, node: ColumnRef) -> list[tuple[str, tree.Expr]]:
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
    return _expand_row(scope, meant) if isinstance(meant, tree.Expr) else meant


def _expand_relation(scope: Scope, names: list[str], location: int) -> list[tuple[str, tree.Expr]]:
    return _item_columns(*named_item(scope, names, ".".join([*names, "*"]), location), location)


def _item_columns(item: NsItem, levels: int, location: int) -> list[tuple[str, tree.Expr]]:
    return [(name, var) for name, var in item_vars(item, levels, location)]


def _expand_row(scope: Scope, row: tree.Expr) -> list[tuple[str, tree.Expr]]:
    """`(row).*`, as ExpandRowReference does."""
    if isinstance(row, tree.Var) and row.attnum == 0:
        return _item_columns(scope.item(row.varno, row.levelsup), row.levelsup, row.location)
    columns = row_columns(scope, row)
    if columns is None:
        if row.type == oids.RECORD:
            raise PgError("42809", "record type has not been registered")
        raise PgError("42809", f"type {lookup.type_text(scope.session, row.type)} is not composite")
    return [
        (
            column.name,
            tree.FieldSelect(
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


def resolve_unknowns(scope: Scope, targets: list[tree.Target]) -> list[tree.Target]:
    """Cast literals that are still of unknown type to text (resolveTargetListUnknowns)."""
    return [replace(t, expr=known_type(scope, t.expr)) for t in targets]


def mark_origins(scope: Scope, targets: list[tree.Target]) -> list[tree.Target]:
    """Record for each target the relation and column that it comes from (markTargetListOrigins)."""
    return [replace(t, origin=_origin(scope, t.expr)) for t in targets]


def _origin(scope: Scope, expr: tree.Expr) -> tuple[int, int] | None:
    if not isinstance(expr, tree.Var):
        return None
    rte = scope.rte(expr.varno, expr.levelsup)
    if rte.kind is tree.RteKind.RELATION:
        return None if expr.attnum == tree.MERGE_ACTION else (rte.relid, expr.attnum)
    query = rte.subquery
    if rte.kind is tree.RteKind.CTE and not rte.self_reference:
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
    """The name that a column of an index gets from its expression (FigureIndexColname)."""
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
