"""Analysis: raw parse trees become typed trees. The entry points, and the plain forms of expressions (parse_expr.c).

`analyze_expr` takes one expression and its scope; `analyze_query` and `analyze_modifying` take whole statements.
Modules of this folder call `transform` instead, which assigns no collations: they can be assigned only to whole
expressions. A scope carries the functions that analyse the statements nested in a statement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.expr import tree
from pgrepl.expr.analyse import comparisons, constructors, lookup
from pgrepl.expr.analyse.aggregates import make_grouping
from pgrepl.expr.analyse.calls import call_function, column_or_function
from pgrepl.expr.analyse.casts import Context, comparing_collation, type_of_name
from pgrepl.expr.analyse.coerce import (
    IMPLICIT_CAST,
    coerce_to_boolean,
    coerce_to_specific,
    coerce_to_target,
    coerce_type,
    coercion_location,
)
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.constructors import array_of, current_of, subscripted
from pgrepl.expr.analyse.kinds import (
    BoundText,
    ExprKind,
    InferredParameters,
    TypedParam,
    UnknownParam,
    chosen,
    not_read,
    resolved,
)
from pgrepl.expr.analyse.queries.query import analyze_select, analyze_subquery
from pgrepl.expr.analyse.scope import (
    NsItem,
    Scope,
    column_by_name,
    column_of_item,
    column_var,
    find_item,
    whole_row_type,
)
from pgrepl.expr.analyse.transform import analyze_where, missing_column, named_item, transform, transform_expr
from pgrepl.expr.dml_tree import modify_with_values, with_values
from pgrepl.expr.tree import MERGE_ACTION
from pgrepl.expr.walk import location_of
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql import nodes
from pgrepl.sql.nodes import AConstKind, AStar, CoercionForm, SelectStmt
from pgrepl.types import oids
from pgrepl.types.builtin import procs_by_name, type_by_oid
from pgrepl.types.names import time_precision

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.dml_tree import Modify

__all__ = ["analyze_expr", "analyze_modifying", "analyze_query", "analyze_where", "transform"]

FORMS = (comparisons, constructors)  # importing them registers the other forms


def analyze_expr(node: nodes.Expr, scope: Scope, kind: ExprKind) -> tree.Expr:
    """The typed tree of an expression in a scope, with its collations assigned."""
    return assign_collations(transform(scope, node, kind))


def analyze_query(
    session: Session, stmt: SelectStmt, *, resolve_unknown: bool = True, apart: bool = False
) -> tree.Query:
    """The typed tree of a top-level query. `apart`: of pgrepl's own, which sees no variables of a routine."""
    if stmt.query is not None:
        if session.variables is None:
            analysed: tree.Query = stmt.query
            return analysed

        return with_values(stmt.query, session.variables.value)
    scope = Scope(
        session,
        resolve_unknowns=resolve_unknown,
        analyze_subquery=analyze_subquery,
        analyze_modifying=analyze_modifying,
        variables=None if apart else session.variables,
    )
    return analyze_select(stmt, scope)


def analyze_modifying(session: Session, stmt: nodes.Statement, parent: Scope | None = None) -> Modify:
    """The typed tree of an INSERT, UPDATE, DELETE or MERGE, before rewriting. `parent` is the scope whose WITH list
    contains the statement."""
    if isinstance(stmt, nodes.AnalyzedStmt):
        return _with_arguments(session, stmt)

    scope = Scope(
        session,
        parent,
        analyze_subquery=analyze_subquery,
        analyze_modifying=analyze_modifying,
        variables=session.variables,
    )
    if isinstance(stmt, nodes.InsertStmt):
        from pgrepl.expr.analyse.queries.insert import analyze_insert

        return analyze_insert(stmt, scope)
    if isinstance(stmt, nodes.UpdateStmt):
        from pgrepl.expr.analyse.queries.update import analyze_update

        return analyze_update(stmt, scope)
    if isinstance(stmt, nodes.DeleteStmt):
        from pgrepl.expr.analyse.queries.update import analyze_delete

        return analyze_delete(stmt, scope)
    assert isinstance(stmt, nodes.MergeStmt)
    from pgrepl.expr.analyse.queries.merge import analyze_merge

    return analyze_merge(stmt, scope)


def _with_arguments(session: Session, stmt: nodes.AnalyzedStmt) -> Modify:
    """A statement of a standard body, or a prepared one, with the values of its parameters."""
    given: Modify = stmt.modify
    if session.variables is None:
        return given
    modify: Modify = modify_with_values(given, session.variables.value)
    return modify


@transform_expr.register
def _(node: nodes.UnsupportedExpr, scope: Scope) -> tree.Expr:
    raise unsupported(node.what, location=node.location)


@transform_expr.register
def _(node: nodes.SqlJsonExpr, scope: Scope) -> tree.Expr:
    from pgrepl.expr.analyse.json_expressions import transform_json  # large, and seldom used

    return transform_json(node, scope)


@transform_expr.register
def _(node: nodes.ParamRef, scope: Scope) -> tree.Expr:
    """The value that is bound to the parameter, as a constant; one without a type is as a string literal."""
    if scope.variables is not None:
        variable = scope.variables.numbered(node.number, node.location)
        if variable is not None:
            return variable
    given = scope.session.parameters
    if given is None or not 0 < node.number <= len(given):
        raise PgError("42P02", f"there is no parameter ${node.number}", location=node.location)
    typoid, text = given[node.number - 1]
    if isinstance(given, InferredParameters):
        if typoid == oids.UNKNOWN:
            return UnknownParam(typoid, location=node.location, number=node.number, inferred=given)
        typoid = lookup.existing_type(scope.session, typoid)
        collation = lookup.collation(typoid)
        return TypedParam(typoid, collation=collation, location=node.location, number=node.number)
    if text is None:
        return tree.Const(typoid, location=node.location)
    if typoid == oids.UNKNOWN:
        return BoundText(typoid, value=text, location=node.location, number=node.number)
    kind = type_by_oid(typoid)
    try:
        value = lookup.read_value(scope.session, text, typoid, -1)
    except PgError as error:
        raise not_read(error, node.number) from None
    return tree.Const(typoid, collation=0 if kind is None else kind.collation, value=value, location=node.location)


@transform_expr.register
def _(node: nodes.SetToDefault, scope: Scope) -> tree.Expr:
    raise PgError("42601", "DEFAULT is not allowed in this context", location=node.location)


@transform_expr.register
def _(node: nodes.CurrentOf, scope: Scope) -> tree.Expr:
    return current_of(node.cursor, scope)


# --- literals -----------------------------------------------------------------------------------------------------


@transform_expr.register
def _(node: nodes.AConst, scope: Scope) -> tree.Expr:
    """As make_const does: a number is of the narrowest of integer, bigint and numeric; a string is of no type yet."""
    kind, value, location = node.kind, node.value, node.location
    if kind is AConstKind.BOOLEAN:
        return tree.Const(oids.BOOL, value=value, location=location)
    if kind is AConstKind.NULL:
        return tree.Const(oids.UNKNOWN, location=location)
    if kind is AConstKind.STRING:
        return tree.Const(oids.UNKNOWN, value=value, location=location)
    text = str(value)
    number = _integer(text) if kind is not AConstKind.BITSTRING else None
    if number is not None:
        for typoid, bits in ((oids.INT4, 31), (oids.INT8, 63)):
            if -(2**bits) <= number < 2**bits:
                return tree.Const(typoid, value=number, location=location)
    typoid = oids.BIT if kind is AConstKind.BITSTRING else oids.NUMERIC
    try:
        return tree.Const(typoid, value=lookup.read_value(scope.session, text, typoid, -1), location=location)
    except PgError as error:
        raise error.at(location) from None


def _integer(text: str) -> int | None:
    try:
        return int(text, 0 if text.lstrip("-")[:2].lower() in ("0x", "0o", "0b") else 10)
    except ValueError:
        return None


@transform_expr.register
def _(node: nodes.SQLValueFunction, scope: Scope) -> tree.Expr:
    typoid, has_precision = _SQL_VALUES[node.name]
    typmod = node.typmod
    if has_precision and typmod >= 0:
        typmod = time_precision(typoid, typmod, lookup.warner(scope.session))
    return tree.SQLValueFunction(typoid, typmod=typmod, location=node.location, name=node.name)


_SQL_VALUES = {
    "current_date": (oids.DATE, False),
    "current_time": (oids.TIMETZ, True),
    "current_timestamp": (oids.TIMESTAMPTZ, True),
    "localtime": (oids.TIME, True),
    "localtimestamp": (oids.TIMESTAMP, True),
    "current_role": (oids.NAME, False),
    "current_user": (oids.NAME, False),
    "user": (oids.NAME, False),
    "session_user": (oids.NAME, False),
    "current_catalog": (oids.NAME, False),
    "current_schema": (oids.NAME, False),
}


# --- columns ------------------------------------------------------------------------------------------------------


@transform_expr.register
def _(node: nodes.ColumnRef, scope: Scope) -> tree.Expr:
    """A column, a whole row, or a field of one, by its name (transformColumnRef)."""
    location = node.location
    if scope.kind is ExprKind.DEFAULT:
        raise PgError("0A000", "cannot use column reference in DEFAULT expression", location=location)
    if scope.kind is ExprKind.PARTITION_BOUND:
        raise PgError("0A000", "cannot use column reference in partition bound expression", location=location)
    if scope.domain_value is not None and node.fields == ("value",):
        return replace(scope.domain_value, location=location)
    if scope.variables is None:
        return _column(node, scope)
    variables = scope.variables
    *qualifiers, last = map(str, node.fields)
    if isinstance(node.fields[-1], AStar):
        meant = chosen(
            variables.conflict,
            lambda _: variables.starred(tuple(qualifiers), location),
            lambda: _column(node, scope),
            ".".join([*qualifiers, "*"]),
            location,
        )
    else:
        meant = resolved(variables, (*qualifiers, last), location, lambda: _column(node, scope))
    assert meant is not None
    return meant


def _column(node: nodes.ColumnRef, scope: Scope) -> tree.Expr:
    location = node.location
    dotted = ".".join("*" if isinstance(f, AStar) else f for f in node.fields)
    if len(node.fields) == 1:
        return _unqualified(scope, node.fields[0], location)
    *qualifiers, column = node.fields
    names = [str(q) for q in qualifiers]
    item, levels = named_item(scope, names, dotted, location)
    if isinstance(column, AStar):
        return whole_row(scope, item, levels, location)
    var = column_of_item(scope, item, levels, column, location)
    if var is not None:
        return var
    row = whole_row(scope, item, levels, location)
    called = column_or_function(scope, column, row, scope.last_srf, location)
    if called is None:
        raise missing_column(scope, names[-1], column, location)
    return called


def _unqualified(scope: Scope, name: str | AStar, location: int) -> tree.Expr:
    assert isinstance(name, str)
    var = column_by_name(scope, name, location)
    if var is not None:
        return var
    item = find_item(scope, None, name, location)
    if item is not None:
        return whole_row(scope, *item, location)
    raise missing_column(scope, None, name, location)


def whole_row(scope: Scope, item: NsItem, levels: int, location: int) -> tree.Expr:
    """A relation's name as a value: its row (transformWholeRowRef)."""
    rte = item.rte
    if not item.whole:
        # the alias of JOIN … USING: only its merged columns
        columns = [column_var(c, levels, location) for c in item.columns[: len(item.names)]]
        return tree.RowExpr(oids.RECORD, args=tuple(columns), names=item.names, location=location)
    attnum, typoid = 0, whole_row_type(scope, rte)
    if rte.kind is tree.RteKind.FUNCTION and len(rte.functions) == 1 and not rte.ordinality:
        returned = rte.functions[0].type
        typoid = returned
        if not lookup.is_row(returned):
            attnum = 1  # a function that gives one value: its name means that value
    return tree.Var(
        typoid,
        collation=rte.columns[0].collation if attnum else 0,
        location=location,
        varno=item.varno,
        attnum=attnum,
        levelsup=levels,
    )


@transform_expr.register
def _(node: nodes.AIndirection, scope: Scope) -> tree.Expr:
    """Subscripts and fields behind an expression, as transformIndirection does."""
    last_srf = scope.last_srf
    result = transform_expr(node.arg, scope)
    location = location_of(result)
    subscripts: list[nodes.AIndices] = []
    for step in node.indirection:
        if isinstance(step, nodes.AIndices):
            subscripts.append(step)
            continue
        if isinstance(step, AStar):
            raise PgError("0A000", 'row expansion via "*" is not supported here', location=location)
        if subscripts:
            result = subscripted(scope, result, subscripts)
            subscripts = []
        field = column_or_function(scope, step, result, last_srf, location)
        if field is None:
            raise _unknown_field(scope, result, step, location)
        result = field
    return subscripted(scope, result, subscripts) if subscripts else result


def _unknown_field(scope: Scope, row: tree.Expr, name: str, location: int) -> PgError:
    """The error for a field that a row does not have (unknown_attribute)."""
    if isinstance(row, tree.Var) and row.attnum == 0:
        rte = scope.rte(row.varno, row.levelsup)
        return PgError("42703", f"column {rte.name}.{name} does not exist", location=location)
    text = lookup.type_text(scope.session, row.type)
    if lookup.is_complex(row.type):
        return PgError("42703", f'column "{name}" not found in data type {text}', location=location)
    if row.type == oids.RECORD:
        return PgError("42703", f'could not identify column "{name}" in record data type', location=location)
    message = f"column notation .{name} applied to type {text}, which is not a composite type"
    return PgError("42809", message, location=location)


# --- casts, collations, conditions --------------------------------------------------------------------------------


@transform_expr.register
def _(node: nodes.TypeCast, scope: Scope) -> tree.Expr:
    target, typmod = type_of_name(scope.session, node.type_name)
    arg = node.arg
    if isinstance(arg, nodes.AArrayExpr):
        base, base_typmod = lookup.base_and_typmod(target, typmod)
        element = lookup.element(base)
        expr = array_of(scope, arg, base, element, base_typmod) if element else transform_expr(arg, scope)
    else:
        expr = transform_expr(arg, scope)
    location = node.location if node.location >= 0 else node.type_name.location
    result = coerce_to_target(
        scope, expr, expr.type, target, typmod, Context.EXPLICIT, CoercionForm.EXPLICIT_CAST, location
    )
    if result is None:
        one, other = lookup.type_text(scope.session, expr.type), lookup.type_text(scope.session, target)
        raise PgError("42846", f"cannot cast type {one} to {other}", location=coercion_location(location, expr))
    return result


@transform_expr.register
def _(node: nodes.CollateClause, scope: Scope) -> tree.Expr:
    arg = transform_expr(node.arg, scope)
    if not lookup.is_collatable(arg.type) and arg.type != oids.UNKNOWN:
        text = lookup.type_text(scope.session, arg.type)
        raise PgError("42804", f"collations are not supported by type {text}", location=node.location)
    collation = comparing_collation(scope.session, node.collation, node.location)
    return tree.CollateExpr(arg.type, typmod=arg.typmod, collation=collation, location=node.location, arg=arg)


@transform_expr.register
def _(node: nodes.BoolExpr, scope: Scope) -> tree.Expr:
    name = node.op.name
    args = tuple(coerce_to_boolean(scope, transform_expr(arg, scope), name) for arg in node.args)
    return tree.BoolExpr(oids.BOOL, op=node.op, args=args, location=node.location)


@transform_expr.register
def _(node: nodes.NullTest, scope: Scope) -> tree.Expr:
    arg = transform_expr(node.arg, scope)
    is_row = lookup.is_row(arg.type)
    return tree.NullTest(oids.BOOL, arg=arg, kind=node.kind, argisrow=is_row, location=node.location)


@transform_expr.register
def _(node: nodes.BooleanTest, scope: Scope) -> tree.Expr:
    arg = coerce_to_boolean(scope, transform_expr(node.arg, scope), node.kind.value)
    return tree.BooleanTest(oids.BOOL, arg=arg, kind=node.kind, location=node.location)


@transform_expr.register
def _(node: nodes.IsDocument, scope: Scope) -> tree.Expr:
    """A call of the function that says the same of texts."""
    arg = transform_expr(node.arg, scope)
    document = coerce_to_specific(scope, arg, oids.XML, "IS DOCUMENT")
    text = coerce_type(scope, document, oids.XML, oids.TEXT, -1, Context.EXPLICIT, IMPLICIT_CAST, -1)
    (proc,) = procs_by_name("xml_is_well_formed_document")
    return tree.FuncExpr(oids.BOOL, func=proc.oid, args=(text,), form=CoercionForm.SQL_SYNTAX, location=node.location)


# --- calls --------------------------------------------------------------------------------------------------------


@transform_expr.register
def _(node: nodes.FuncCall, scope: Scope) -> tree.Expr:
    last_srf = scope.last_srf
    args = [transform_expr(arg, scope) for arg in node.args]
    if node.within_group:
        args += [transform(scope, item.node, ExprKind.ORDER_BY) for item in node.agg_order]
    condition = None
    if node.agg_filter is not None:
        condition = analyze_where(scope, node.agg_filter, ExprKind.FILTER, "FILTER")
    return call_function(scope, node, args, condition, last_srf)


@transform_expr.register
def _(node: nodes.NamedArg, scope: Scope) -> tree.Expr:
    arg = transform_expr(node.arg, scope)
    return tree.NamedArg(arg.type, typmod=arg.typmod, arg=arg, name=node.name, location=node.location)


@transform_expr.register
def _(node: nodes.MergeSupportFunc, scope: Scope) -> tree.Expr:
    """As transformMergeSupportFunc does: merge_action() may stand in a subquery of RETURNING, too."""
    level: Scope | None = scope
    depth = 0
    while level is not None and level.kind is not ExprKind.MERGE_RETURNING:
        level, depth = level.parent, depth + 1
    if level is None:
        message = "MERGE_ACTION() can only be used in the RETURNING list of a MERGE command"
        raise PgError("42601", message, location=node.location)
    return tree.Var(
        oids.TEXT, collation=lookup.collation(oids.TEXT), location=node.location, varno=1, attnum=MERGE_ACTION,
        levelsup=depth,
    )  # fmt: skip


@transform_expr.register
def _(node: nodes.GroupingFunc, scope: Scope) -> tree.Expr:
    return make_grouping(scope, node)
