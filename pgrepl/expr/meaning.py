"""The analysed tree of a statement that is run again (plancache.c): types and labels of enums are OIDs in it, so that
their new names do not change what it means.

PostgreSQL keeps such a tree as long as the relations and functions that the statement names are what they were. Here a
statement is analysed anew when a definition has changed; its tree is kept for when types of users have changed, and
nothing else that it names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_CLASS, PG_COLLATION, PG_OPERATOR, PG_PROC, PG_TYPE, ObjectAddress
from pgrepl.catalog.collations import collation_row
from pgrepl.catalog.operators import operator_row
from pgrepl.catalog.relation import relation_or_none
from pgrepl.catalog.routines import routine_row
from pgrepl.catalog.user_types import type_row, user_types
from pgrepl.expr import stored
from pgrepl.expr.dml.mapping import query_of, with_literals
from pgrepl.expr.references import objects_of
from pgrepl.expr.tree import Query, has_modifying_cte
from pgrepl.expr.walk import walk_deep
from pgrepl.frozen import frozen
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.dml.plan import Modify
    from pgrepl.types.user_types import UserTypes


@frozen
class Meaning:
    """The analysed tree of a statement, in which parameters are variables."""

    tree: Query | Modify
    types: UserTypes
    named: dict[ObjectAddress, str]  # what it names, as it was then
    is_all: bool = False  # the raw tree would not give it any more


def names_types_of_users(session: Session, tree: Query | Modify) -> bool:
    """Whether the statement may mean something else by the names of types and labels, and can be kept."""
    if not user_types(session).data:
        return False
    query = tree if isinstance(tree, Query) else query_of(tree)
    if query.row_marks or has_modifying_cte(query.ctes):
        return False
    return any(isinstance(expr.type, UserType) for expr, _ in walk_deep(query))


def meaning_of(session: Session, tree: Query | Modify) -> Meaning:
    query = tree if isinstance(tree, Query) else query_of(tree)
    named = _named(session, objects_of(session, [query]))
    return Meaning(tree if isinstance(tree, Query) else with_literals(tree), user_types(session), named)


def going_on(session: Session, meaning: Meaning | None) -> Meaning | None:
    """The meaning as things are now, if types of users have changed, but nothing else that the statement names."""
    types = user_types(session)
    if meaning is None or not (meaning.is_all or types.data != meaning.types.data):
        return None
    if _named(session, meaning.named) != meaning.named:
        return None
    tree = stored.from_json(stored.to_json(meaning.tree), session)
    return replace(meaning, tree=tree, types=types, is_all=True)


def _named(session: Session, objects: Iterable[ObjectAddress]) -> dict[ObjectAddress, str]:
    """The names of a statement's objects, in words that do not depend on what types of users mean."""
    return {each: _state(session, each) for each in objects}


def _state(session: Session, address: ObjectAddress) -> str:
    if address.classid == PG_CLASS:
        found = relation_or_none(session, address.objid)
        return "" if found is None else found.kind if found.kind == "c" else repr(found)
    if address.classid == PG_PROC:
        return repr(routine_row(session, address.objid))
    if address.classid == PG_OPERATOR:
        return repr(operator_row(session, address.objid))
    if address.classid == PG_COLLATION:
        return repr(collation_row(session, address.objid))
    row = type_row(session, address.objid) if address.classid == PG_TYPE else None
    return "" if row is None else row.typtype
