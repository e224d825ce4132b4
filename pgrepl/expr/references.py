"""The columns, relations, routines and row types that an expression or a query names, found as
find_expr_references_walker does. What is PostgreSQL's own is not among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import (
    PG_CLASS,
    PG_COLLATION,
    PG_CONSTRAINT,
    PG_NAMESPACE,
    PG_OPERATOR,
    PG_PROC,
    PG_TYPE,
    ObjectAddress,
)
from pgrepl.catalog.routines import is_user_routine
from pgrepl.catalog.row_types import rowtype_relation
from pgrepl.expr import tree
from pgrepl.expr.tree import Expr, Query, Rte, RteKind
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, type_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_CONSTANTS = {
    oids.REGCLASS: PG_CLASS,
    oids.REGNAMESPACE: PG_NAMESPACE,
    oids.REGPROC: PG_PROC,
    oids.REGPROCEDURE: PG_PROC,
    oids.REGCOLLATION: PG_COLLATION,
    oids.REGOPER: PG_OPERATOR,
    oids.REGOPERATOR: PG_OPERATOR,
}
_OF_OPERATORS = (tree.OpExpr, tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOpExpr)
# the nodes whose type is a need of its own; any node may be of a table's row type
_TYPED = (
    tree.Const, tree.RelabelType, tree.CoerceViaIO, tree.ArrayCoerceExpr, tree.ConvertRowtypeExpr, tree.CoerceToDomain,
    tree.RowExpr, tree.FieldStore,
)  # fmt: skip


def objects_of(session: Session, queries: Iterable[Query]) -> list[ObjectAddress]:
    """The objects that queries name."""
    return distinct(address for query in queries for address in _of_query(session, query, []))


def distinct(found: Iterable[ObjectAddress]) -> list[ObjectAddress]:
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
        yield from objects_of_expr(session, expr, levels)
    for inner in subqueries(query):
        yield from _of_query(session, inner, levels)


def objects_of_expr(session: Session, expr: Expr, levels: list[list[Rte]]) -> Iterator[ObjectAddress]:
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
        elif isinstance(node, tree.CollateExpr):
            yield ObjectAddress(PG_COLLATION, int(node.collation))
        elif isinstance(node, _OF_OPERATORS) and node.func:
            yield ObjectAddress(PG_OPERATOR, node.op)
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
