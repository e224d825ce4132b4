"""The columns of a domain's type, whose values a new constraint must hold for (get_rels_with_domain)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import PG_CLASS, PG_TYPE, ObjectAddress
from pgrepl.catalog.depend import dependents_of
from pgrepl.catalog.relation import relation
from pgrepl.catalog.user_types import type_display_name, type_row
from pgrepl.expr.tree import CoerceToDomainValue, Expr
from pgrepl.expr.walk import rewrite
from pgrepl.rows.queries import column
from pgrepl.rows.requirements import DomainHolds
from pgrepl.statements.type.users import refuse_users
from pgrepl.writing.rewrite.phase3 import require

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def check_columns(session: Session, domain: tables.pg_type, condition: Expr | None) -> None:
    """Raise PostgreSQL's error unless the condition over VALUE holds for all values in columns of the domain and of
    domains over it; None: NOT NULL."""
    found: dict[int, set[int]] = {}
    for relid, attnum in _columns(session, domain):
        found.setdefault(relid, set()).add(attnum)
    for relid, attnums in found.items():
        rel = relation(session, relid)
        require(session, DomainHolds(relid, tuple([(n, _about(condition, column(rel, n))) for n in sorted(attnums)])))


def _about(condition: Expr | None, var: Expr) -> Expr | None:
    return None if condition is None else rewrite(condition, partial(_instead_of_value, var))


def _instead_of_value(var: Expr, node: Expr) -> Expr | None:
    return var if isinstance(node, CoerceToDomainValue) else None


def _columns(session: Session, domain: tables.pg_type) -> Iterator[tuple[int, int]]:
    name = type_display_name(session, domain)
    for row in dependents_of(session, ObjectAddress(PG_TYPE, domain.oid)):
        if row.classid == PG_TYPE:
            other = type_row(session, row.objid)
            if other is not None and other.typtype == "d":
                yield from _columns(session, other)
            else:
                refuse_users(session, row.objid, name)
        elif row.classid == PG_CLASS and row.objsubid > 0:
            found = relation(session, row.objid)
            if found.type:
                refuse_users(session, found.type, name)
            if found.kind in "rm":
                yield row.objid, row.objsubid
