"""Records in pg_depend the columns, relations and row types that an expression or a query uses.

They are found as find_expr_references_walker does. Operators, collations and what else is PostgreSQL's own need no
record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE, PG_PROC, PG_TYPE, ObjectAddress
from pgrepl.catalog.depend import Dependency, dependencies_of, record_dependencies, record_dependency
from pgrepl.catalog.routines import is_user_routine
from pgrepl.catalog.row_types import rowtype_relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.user_types import type_row
from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Query, Rte, RteKind
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, type_by_oid

_CONSTANTS = {
    oids.REGCLASS: PG_CLASS,
    oids.REGNAMESPACE: PG_NAMESPACE,
    oids.REGPROC: PG_PROC,
    oids.REGPROCEDURE: PG_PROC,
}
# the nodes whose type is a need of its own; any node may be of a table's row type
_TYPED = (
    tree.Const, tree.RelabelType, tree.CoerceViaIO, tree.ArrayCoerceExpr, tree.ConvertRowtypeExpr, tree.CoerceToDomain,
    tree.RowExpr, tree.FieldStore,
)  # fmt: skip


def record_expression_dependencies(
    session: Session,
    depender: ObjectAddress,
    expr: Expr,
    relid: int,
    kind: Dependency = Dependency.NORMAL,
    self_kind: Dependency = Dependency.NORMAL,
    *,
    reverse_self: bool = False,
) -> None:
    """As recordDependencyOnSingleRelExpr does for an expression over one relation. References to that relation are of
    `self_kind`; reversed, it is the columns that need the depender (of partition keys)."""
    rte = Rte(RteKind.RELATION, "", (), relid=relid)
    found = _distinct(_of_expr(session, expr, [[rte, rte]]))  # the condition of a trigger has two: OLD and NEW
    own = [a for a in found if a.classid == PG_CLASS and a.objid == relid]
    _know_types(session, found)
    if reverse_self:
        for address in own:
            record_dependency(session, address, depender, self_kind)
    elif self_kind is kind:
        record_dependencies(session, depender, found, kind)
        return
    else:
        record_dependencies(session, depender, own, self_kind)
    record_dependencies(session, depender, [a for a in found if a not in own], kind)


def record_query_dependencies(session: Session, depender: ObjectAddress, query: Query) -> None:
    """As recordDependencyOnExpr does for a view's query."""
    found = objects_of(session, [query])
    _know_types(session, found)
    record_dependencies(session, depender, found)


def record_expressions(session: Session, depender: ObjectAddress, exprs: Iterable[Expr]) -> None:
    """The same for expressions over no relation."""
    found = _distinct(address for expr in exprs for address in _of_expr(session, expr, []))
    _know_types(session, found)
    record_dependencies(session, depender, found)


def record_types(session: Session, depender: ObjectAddress, types: Iterable[int]) -> None:
    """Record that an object needs these types; only types of users are noted."""
    found = _distinct(ObjectAddress(PG_TYPE, int(typoid)) for typoid in types if typoid >= oids.FIRST_USER_OID)
    _know_types(session, found)
    record_dependencies(session, depender, found)


def record_query_parts(session: Session, depender: ObjectAddress, queries: Iterable[Query]) -> None:
    """The same for several queries, as in a function's body."""
    found = objects_of(session, queries)
    _know_types(session, found)
    record_dependencies(session, depender, found)


def objects_of(session: Session, queries: Iterable[Query]) -> list[ObjectAddress]:
    """The objects that queries name."""
    return _distinct(address for query in queries for address in _of_query(session, query, []))


def _know_types(session: Session, found: list[ObjectAddress]) -> None:
    for address in found:
        if address.classid == PG_TYPE:
            _know_type(session, address)


def record_type_dependencies(session: Session, relid: int, columns: Iterable[tuple[int, int]]) -> None:
    """A column of a user's type or of a table's row type, given as (number, type), needs that type."""
    for number, type_ in columns:
        if type_ >= oids.FIRST_USER_OID:
            address = ObjectAddress(PG_TYPE, int(type_))
            _know_type(session, address)
            record_dependency(session, ObjectAddress(PG_CLASS, relid, number), address)


def _know_type(session: Session, type_: ObjectAddress) -> None:
    """Record that a row type is part of its table, when the type is used for the first time."""
    if type_row(session, type_.objid) is not None:
        return
    source = rowtype_relation(session, type_.objid)
    if source is not None and not dependencies_of(session, type_):
        record_dependency(session, type_, ObjectAddress(PG_CLASS, source.oid), Dependency.INTERNAL)


def _distinct(found: Iterator[ObjectAddress]) -> list[ObjectAddress]:
    """Each object once, in OID order; a relation is left out if columns of it are listed."""
    unique = set(found)
    in_parts = {address._replace(subid=0) for address in unique if address.subid}
    return sorted(unique - in_parts, key=lambda a: (a.objid, a.classid, a.subid))


def _of_query(session: Session, query: Query, outer: list[list[Rte]]) -> Iterator[ObjectAddress]:
    levels = [*outer, list(query.rtable)]
    for rte in query.rtable:
        if rte.kind is RteKind.RELATION:
            yield ObjectAddress(PG_CLASS, rte.relid)
    for key in query.constraint_deps:
        yield ObjectAddress(PG_CONSTRAINT, key)
    # of a join's columns only the merged ones name anything that is not named elsewhere
    rtable = tuple(replace(rte, join_vars=rte.join_vars[: len(rte.join_using)]) for rte in query.rtable)
    for expr in query_exprs(replace(query, rtable=rtable)):
        yield from _of_expr(session, expr, levels)
    for inner in subqueries(query):
        yield from _of_query(session, inner, levels)


def _of_expr(session: Session, expr: Expr, levels: list[list[Rte]]) -> Iterator[ObjectAddress]:
    for node in walk(expr):
        if isinstance(node, tree.Var):
            yield from _of_var(node, levels)
        elif isinstance(node, tree.Const) and node.type in _CONSTANTS and node.value is not None:
            yield ObjectAddress(_CONSTANTS[node.type], int(node.value))
        elif isinstance(node, tree.NextValueExpr):
            yield ObjectAddress(PG_CLASS, node.sequence)
        elif isinstance(node, tree.SubLink) and node.query is not None:
            yield from _of_query(session, node.query, levels)
        elif isinstance(node, tree.FuncExpr) and is_user_routine(node.func):
            yield ObjectAddress(PG_PROC, node.func)
        elif isinstance(node, tree.FieldSelect) and node.arg is not None:
            row = rowtype_relation(session, base_type(node.arg.type))
            if row is not None:
                yield ObjectAddress(PG_CLASS, row.oid, node.fieldnum)
        if node.type >= oids.FIRST_USER_OID and (isinstance(node, _TYPED) or type_by_oid(node.type) is None):
            yield ObjectAddress(PG_TYPE, int(node.type))


def _of_var(var: tree.Var, levels: list[list[Rte]]) -> Iterator[ObjectAddress]:
    if var.levelsup >= len(levels):
        return
    rtable = levels[-1 - var.levelsup]
    rte = rtable[var.varno - 1]
    if rte.kind is RteKind.RELATION:
        # a whole row names no column; the relation is named by its range table entry
        if var.attnum:
            yield ObjectAddress(PG_CLASS, rte.relid, var.attnum)
