"""CASE, COALESCE, GREATEST, ROW, ARRAY, subscripts, subqueries in expressions, and WHERE CURRENT OF."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.relation_parts import inheritors
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context, castable
from pgrepl.expr.analyse.coerce import (
    IMPLICIT_CAST,
    coerce_to_boolean,
    coerce_to_common,
    coerce_to_target,
    common_type,
    common_typmod,
)
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.comparisons import compare_rows
from pgrepl.expr.analyse.kinds import subquery_refused
from pgrepl.expr.analyse.operators import make_operator
from pgrepl.expr.analyse.queries.query import analyze_subquery
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import expand_expressions
from pgrepl.expr.analyse.transform import transform, transform_expr
from pgrepl.expr.walk import location_of
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql import nodes
from pgrepl.sql.location import expr_location
from pgrepl.sql.nodes import BoolOp, CoercionForm, SubLinkType
from pgrepl.types import builtin, oids
from pgrepl.types.arrays import check_dimensions
from pgrepl.types.input_checks import MAX_ROW


def _no_sets(scope: Scope, last_srf: tree.Expr | None, construct: str) -> None:
    if scope.last_srf is not last_srf:
        raise PgError(
            "0A000",
            f"set-returning functions are not allowed in {construct}",
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
            location=location_of(scope.last_srf),
        )


@transform_expr.register
def _(node: nodes.CaseExpr, scope: Scope) -> tree.Expr:
    last_srf = scope.last_srf
    arg = placeholder = None
    if node.arg is not None:
        arg = transform_expr(node.arg, scope)
        if arg.type == oids.UNKNOWN:
            arg = coerce_to_common(scope, arg, oids.TEXT, "CASE")
        arg = assign_collations(arg)
        placeholder = tree.CaseTestExpr(arg.type, typmod=arg.typmod, collation=arg.collation)
    conditions: list[tree.Expr] = []
    results: list[tree.Expr] = []
    for when in node.whens:
        condition = transform_expr(when.condition, scope)
        if placeholder is not None:
            condition = make_operator(scope, ("=",), placeholder, condition, when.location)
        conditions.append(coerce_to_boolean(scope, condition, "CASE/WHEN"))
        results.append(transform_expr(when.result, scope))
    default: tree.Expr = tree.Const(oids.UNKNOWN) if node.default is None else transform_expr(node.default, scope)
    common = common_type(scope, [default, *results], "CASE")
    default = coerce_to_common(scope, default, common, "CASE/ELSE")
    results = [coerce_to_common(scope, result, common, "CASE/WHEN") for result in results]
    _no_sets(scope, last_srf, "CASE")
    return tree.CaseExpr(
        common,
        typmod=common_typmod([default, *results], common),
        location=node.location,
        arg=arg,
        whens=tuple(zip(conditions, results, strict=True)),
        default=default,
    )


@transform_expr.register
def _(node: nodes.CoalesceExpr, scope: Scope) -> tree.Expr:
    last_srf = scope.last_srf
    args = [transform_expr(arg, scope) for arg in node.args]
    common = common_type(scope, args, "COALESCE")
    args = [coerce_to_common(scope, arg, common, "COALESCE") for arg in args]
    _no_sets(scope, last_srf, "COALESCE")
    return tree.CoalesceExpr(common, typmod=common_typmod(args, common), location=node.location, args=tuple(args))


@transform_expr.register
def _(node: nodes.MinMaxExpr, scope: Scope) -> tree.Expr:
    construct = "GREATEST" if node.greatest else "LEAST"
    args = [transform_expr(arg, scope) for arg in node.args]
    common = common_type(scope, args, construct)
    args = [coerce_to_common(scope, arg, common, construct) for arg in args]
    typmod = common_typmod(args, common)
    return tree.MinMaxExpr(common, typmod=typmod, location=node.location, greatest=node.greatest, args=tuple(args))


@transform_expr.register
def _(node: nodes.RowExpr, scope: Scope) -> tree.Expr:
    args = expand_expressions(scope, node.args, scope.kind)
    if len(args) > MAX_ROW:
        message = f"ROW expressions can have at most {MAX_ROW} entries"
        raise PgError("54011", message, location=node.location)
    names = tuple(f"f{n}" for n in range(1, len(args) + 1))
    return tree.RowExpr(oids.RECORD, location=node.location, args=tuple(args), names=names)


# --- arrays -------------------------------------------------------------------------------------------------------


@transform_expr.register
def _(node: nodes.AArrayExpr, scope: Scope) -> tree.Expr:
    return array_of(scope, node, 0, 0, -1)


def array_of(scope: Scope, node: nodes.AArrayExpr, array: int, element: int, typmod: int) -> tree.ArrayExpr:
    """ARRAY[…]; with the type of the cast around it, if there is one (transformArrayExpr)."""
    multidims = False
    items: list[tree.Expr] = []
    for part in node.elements:
        if isinstance(part, nodes.AArrayExpr):
            item: tree.Expr = array_of(scope, part, array, element, typmod)
            multidims = True
        else:
            item = transform_expr(part, scope)
            if item.type not in (oids.INT2VECTOR, oids.OIDVECTOR) and lookup.is_array(item.type):
                multidims = True
        items.append(item)
    if array:
        target = array if multidims else element
        items = [_cast_element(scope, item, target, typmod) for item in items]
    else:
        if not items:
            raise PgError(
                "42P18",
                "cannot determine type of empty array",
                hint="Explicitly cast to the desired type, for example ARRAY[]::integer[].",
                location=node.location,
            )
        common = common_type(scope, items, "ARRAY")
        array, element = _array_types(scope, common, multidims, node.location)
        items = [coerce_to_common(scope, item, common, "ARRAY") for item in items]
    return tree.ArrayExpr(
        array,
        typmod=common_typmod(items, array if multidims else element),
        location=node.location,
        element_type=element,
        elements=tuple(items),
        multidims=multidims,
    )


def _cast_element(scope: Scope, item: tree.Expr, target: int, typmod: int) -> tree.Expr:
    result = coerce_to_target(scope, item, item.type, target, typmod, Context.EXPLICIT, CoercionForm.EXPLICIT_CAST, -1)
    if result is None:
        one, other = lookup.type_text(scope.session, item.type), lookup.type_text(scope.session, target)
        raise PgError("42846", f"cannot cast type {one} to {other}", location=location_of(item))
    return result


def _array_types(scope: Scope, common: int, multidims: bool, location: int) -> tuple[int, int]:
    array, element = (common, lookup.element(common)) if multidims else (lookup.array_over(common), common)
    if array and element:
        return array, element
    what = "element" if multidims else "array"
    text = lookup.type_text(scope.session, common)
    raise PgError("42704", f"could not find {what} type for data type {text}", location=location)


def subscripted(scope: Scope, container: tree.Expr, indirection: Sequence[nodes.AIndices]) -> tree.SubscriptingRef:
    """a[1], a[1:2], j['key'] (transformContainerSubscripts)."""
    typoid, typmod = lookup.base_and_typmod(container.type, container.typmod)
    typoid = {oids.INT2VECTOR: oids.INT2_ARRAY, oids.OIDVECTOR: oids.OID_ARRAY}.get(typoid, typoid)
    known = builtin.type_by_oid(typoid)
    handler = known.subscript if known is not None else "-"
    if handler == "jsonb_subscript_handler":
        return _json_subscripts(scope, container, indirection)
    if handler == "-" or not handler or known is None:
        text = lookup.type_text(scope.session, typoid)
        message = f"cannot subscript type {text} because it does not support subscripting"
        raise PgError("42804", message, location=location_of(container))
    is_slice = any(step.is_slice for step in indirection)
    upper: list[tree.Expr | None] = []
    lower: list[tree.Expr | None] = []
    for step in indirection:
        if is_slice:
            if step.is_slice:
                lower.append(_subscript(scope, step.lower) if step.lower is not None else None)
            else:
                lower.append(tree.Const(oids.INT4, value=1))
        upper.append(_subscript(scope, step.upper) if step.upper is not None else None)
    check_dimensions(len(upper))
    return tree.SubscriptingRef(
        typoid if is_slice else known.elem,
        typmod=typmod,
        container=container,
        upper=tuple(upper),
        lower=tuple(lower),
        is_slice=is_slice,
    )


def _subscript(scope: Scope, node: nodes.Expr) -> tree.Expr:
    index = transform(scope, node, scope.kind)
    cast = coerce_to_target(scope, index, index.type, oids.INT4, -1, Context.ASSIGNMENT, IMPLICIT_CAST, -1)
    if cast is None:
        raise PgError("42804", "array subscript must have type integer", location=expr_location(node))
    return cast


def _json_subscripts(scope: Scope, container: tree.Expr, indirection: Sequence[nodes.AIndices]) -> tree.SubscriptingRef:
    """As jsonb_subscript_transform does: each subscript is an integer or a text."""
    upper: list[tree.Expr | None] = []
    for step in indirection:
        if step.is_slice:
            place = step.upper if step.upper is not None else step.lower
            raise PgError("42804", "jsonb subscript does not support slices", location=expr_location(place))
        assert step.upper is not None
        index = transform(scope, step.upper, scope.kind)
        target = _json_subscript_target(scope, index)
        upper.append(coerce_to_target(scope, index, index.type, target, -1, Context.IMPLICIT, IMPLICIT_CAST, -1))
    return tree.SubscriptingRef(oids.JSONB, container=container, upper=tuple(upper))


def _json_subscript_target(scope: Scope, index: tree.Expr) -> int:
    if index.type == oids.UNKNOWN:
        return oids.TEXT
    targets = [target for target in (oids.INT4, oids.TEXT) if castable(index.type, target, Context.IMPLICIT)]
    if len(targets) == 1:
        return targets[0]
    text = lookup.type_text(scope.session, index.type)
    choice = "only one type, integer or text" if targets else "either integer or text"
    hint = f"jsonb subscript must be coercible to {choice}."
    raise PgError("42804", f"subscript type {text} is not supported", hint=hint, location=location_of(index))


@transform_expr.register
def _(node: nodes.SubLink, scope: Scope) -> tree.Expr:
    """A subquery in an expression: EXISTS, ANY, ALL, a scalar, an array, several columns (transformSubLink)."""
    problem = subquery_refused(scope.kind, node.location)
    if problem is not None:
        raise problem
    scope.has_sublinks = True
    query = analyze_subquery(node.subselect, scope)
    scope.subqueries[id(node)] = query
    columns = query.columns
    if node.kind is SubLinkType.EXISTS:
        return tree.SubLink(oids.BOOL, location=node.location, kind=node.kind, query=query)
    if node.kind in (SubLinkType.EXPR, SubLinkType.ARRAY):
        if len(columns) != 1:
            raise PgError("42601", "subquery must return only one column", location=node.location)
        column = columns[0]
        typoid = column.type
        if node.kind is SubLinkType.ARRAY:
            # an array of arrays is an array of one more dimension
            typoid = column.type if lookup.is_array(column.type) else lookup.array_over(column.type)
            if not typoid:
                text = lookup.type_text(scope.session, column.type)
                raise PgError("42704", f"could not find array type for data type {text}")
        return tree.SubLink(
            typoid,
            typmod=column.typmod,
            collation=column.collation,
            location=node.location,
            kind=node.kind,
            query=query,
        )
    assert node.test is not None
    operator = node.operator or ("=",)
    left = transform_expr(node.test, scope)
    lefts = left.args if isinstance(left, tree.RowExpr) else (left,)
    rights = tuple(
        tree.Param(c.type, typmod=c.typmod, collation=c.collation, number=n) for n, c in enumerate(columns, 1)
    )
    if len(lefts) < len(rights):
        raise PgError("42601", "subquery has too many columns", location=node.location)
    if len(lefts) > len(rights):
        raise PgError("42601", "subquery has too few columns", location=node.location)
    test = compare_rows(scope, operator, lefts, rights, node.location)
    return tree.SubLink(
        oids.BOOL,
        location=node.location,
        kind=node.kind,
        test=test,
        operator=node.operator[-1] if node.operator else "",
        query=query,
    )


# --- current of -------------------------------------------------------------------------------------------------------


_OID_EQ, _TID_EQ = 607, 387


def current_of(cursor: str, scope: Scope) -> tree.Expr:
    session = scope.session
    target = relation(session, scope.rtable[0].relid)
    if target.kind == "v":
        raise unsupported("WHERE CURRENT OF on a view")
    cursor = _named(scope, cursor)
    portal = session.transaction.portals.get(cursor)
    if portal is None:
        raise PgError("34000", f'cursor "{cursor}" does not exist')
    standing = portal.declared.standing
    if standing is None:
        raise PgError("24000", f'cursor "{cursor}" is not a SELECT query')
    if portal.is_held:
        raise PgError("24000", f'cursor "{cursor}" is held from a previous transaction')
    scanned = standing.relids
    below = set(inheritors(session, target.oid))
    scans = [
        number for number, relid in enumerate(scanned) if relid in below or target.oid in inheritors(session, relid)
    ]
    if not scans:
        if standing.is_marked:
            what = f'does not have a FOR UPDATE/SHARE reference to table "{target.name}"'
        else:
            what = f'is not a simply updatable scan of table "{target.name}"'
        raise PgError("24000", f'cursor "{cursor}" {what}')
    if portal.current is None:
        raise PgError("24000", f'cursor "{cursor}" is not positioned on a row')
    place = standing.places[portal.position - 1]
    table, ctid = place[scans[0] * 2 : scans[0] * 2 + 2]
    return tree.BoolExpr(
        oids.BOOL, op=BoolOp.AND, args=(_equal(_OID_EQ, oids.OID, -6, table), _equal(_TID_EQ, oids.TID, -1, ctid))
    )


def _named(scope: Scope, cursor: str) -> str:
    """The name of the cursor: the value of a refcursor variable of that name, if a routine has one
    (transformCurrentOfExpr, fetch_cursor_param_value)."""
    variables = scope.variables
    variable = None if variables is None else variables.named((cursor,), -1, must_have_field=False)
    if not isinstance(variable, tree.Const) or variable.type != oids.REFCURSOR:
        return cursor
    if variable.value is None and variables is not None:
        raise PgError("42704", f"no value found for parameter {variables.number_at(-1)}")
    return str(variable.value)


def _equal(op: int, typoid: int, attnum: int, value: object) -> tree.OpExpr:
    return tree.OpExpr(
        oids.BOOL, op=op, args=(tree.Var(typoid, varno=1, attnum=attnum), tree.Const(typoid, value=value))
    )
