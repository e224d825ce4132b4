"""Records in pg_depend the columns, relations and row types that an expression or a query uses.

They are found as find_expr_references_walker does. What is PostgreSQL's own needs no record.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from pgrepl.catalog.facts.depend import Dependency, dependencies_of, record_dependencies, record_dependency
from pgrepl.catalog.facts.user_types import rowtype_relation, type_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import PG_CLASS, PG_COLLATION, PG_PROC, PG_TYPE, ObjectAddress
from pgrepl.expr.catalog_trees import distinct, objects_of, objects_of_expr
from pgrepl.expr.tree import Expr, Query, Rte, RteKind
from pgrepl.types import oids
from pgrepl.types.builtin import element_type
from pgrepl.types.user_types import RowArray


def record_expression_dependencies(
    session: Session,
    depender: ObjectAddress,
    expr: Expr,
    relid: int,
    self_kind: Dependency = Dependency.NORMAL,
    *,
    reverse_self: bool = False,
) -> None:
    """Record what an expression over one relation needs (recordDependencyOnSingleRelExpr). References to that relation
    are of `self_kind`; reversed, it is the columns that need the depender (of partition keys)."""
    rte = Rte(RteKind.RELATION, "", (), relid=relid)
    relations = [[rte, rte]]  # the condition of a trigger has two: OLD and NEW
    addresses = distinct(objects_of_expr(session, expr, relations))
    own = [a for a in addresses if a.classid == PG_CLASS and a.objid == relid]
    _know_types(session, addresses)
    if reverse_self:
        for address in own:
            record_dependency(session, address, depender, self_kind)
    elif self_kind is Dependency.NORMAL:
        record_dependencies(session, depender, addresses)
        return
    else:
        record_dependencies(session, depender, own, self_kind)
    record_dependencies(session, depender, [a for a in addresses if a not in own])


def record_query_dependencies(session: Session, depender: ObjectAddress, query: Query) -> None:
    """A view depends on all that its query names (recordDependencyOnExpr)."""
    addresses = objects_of(session, [query])
    _know_types(session, addresses)
    record_dependencies(session, depender, addresses)


def record_expressions(session: Session, depender: ObjectAddress, exprs: Iterable[Expr]) -> None:
    """The same for expressions over no relation."""
    addresses = distinct(address for expr in exprs for address in objects_of_expr(session, expr, []))
    _know_types(session, addresses)
    record_dependencies(session, depender, addresses)


def record_types(session: Session, depender: ObjectAddress, types: Iterable[int]) -> None:
    """Record that an object needs these types; only types of users are noted."""
    addresses = distinct(ObjectAddress(PG_TYPE, int(typoid)) for typoid in types if typoid >= oids.FIRST_USER_OID)
    _know_types(session, addresses)
    record_dependencies(session, depender, addresses)


def record_functions(session: Session, depender: ObjectAddress, functions: Iterable[int]) -> None:
    """Record that an object needs these functions; those that are 0 or PostgreSQL's own are not noted."""
    record_dependencies(session, depender, [ObjectAddress(PG_PROC, oid) for oid in functions if oid])


def record_query_parts(
    session: Session, depender: ObjectAddress, queries: Iterable[Query], columns: Iterable[ObjectAddress]
) -> None:
    """The same for several queries, as in a function's body, and the columns that they write."""
    addresses = distinct(chain(objects_of(session, queries), columns))
    _know_types(session, addresses)
    record_dependencies(session, depender, addresses)


def _know_types(session: Session, addresses: list[ObjectAddress]) -> None:
    for address in addresses:
        if address.classid == PG_TYPE:
            _know_type(session, address)


def record_collations(session: Session, depender: ObjectAddress, collations: Iterable[int]) -> None:
    """Record that an object needs these collations; only those of users are noted."""
    record_dependencies(session, depender, [ObjectAddress(PG_COLLATION, int(oid)) for oid in collations if oid])


def record_column_dependencies(session: Session, relid: int, columns: Iterable[tuple[int, int, int]]) -> None:
    """A column of a user's type, of a table's row type or with a user's collation, given as (number, type, collation),
    needs them."""
    for number, type_, collation in columns:
        if collation >= oids.FIRST_USER_OID:
            record_collations(session, ObjectAddress(PG_CLASS, relid, number), [collation])
        if type_ >= oids.FIRST_USER_OID:
            address = ObjectAddress(PG_TYPE, int(type_))
            _know_type(session, address)
            record_dependency(session, ObjectAddress(PG_CLASS, relid, number), address)


def _know_type(session: Session, type_: ObjectAddress) -> None:
    """Record that a row type is part of its table, when the type is used for the first time."""
    if type_row(session, type_.objid) is not None:
        return
    kind = session.type_of(type_.objid)
    source = rowtype_relation(session, element_type(kind) if isinstance(kind, RowArray) else kind)
    if source is not None and not dependencies_of(session, type_):
        record_dependency(session, type_, ObjectAddress(PG_CLASS, source.oid), Dependency.INTERNAL)
