"""The defaults and generation expressions of columns (pg_attrdef), and what a column is without a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.sequences import identity_sequence
from pgrepl.catalog.tables import pg_attrdef
from pgrepl.catalog.user_types import type_row
from pgrepl.expr import stored, typefacts
from pgrepl.expr.tree import CoerceToDomain, Const, Expr, NextValueExpr
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.user_types import constrained

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Attribute, Relation
    from pgrepl.catalog.session import Session


def default_of(session: Session, relid: int, attnum: int) -> Expr | None:
    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    return None if row is None else stored.from_json(row.adbin, session)


def default_text(session: Session, relid: int, attnum: int, pretty: bool = False) -> str | None:
    """A column's default or generation expression as pg_get_expr prints it."""
    from pgrepl.expr.deparse import stored_expression_text

    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    return None if row is None else stored_expression_text(session, row.adbin, relid, pretty)


def defaults_of(session: Session, relid: int) -> dict[int, Expr]:
    """The defaults and generation expressions of a relation by column number."""
    rows = store.rows(session, pg_attrdef, adrelid=relid)
    return {row.adnum: stored.from_json(row.adbin, session) for row in rows}


def column_default(session: Session, target: Relation, column: Attribute) -> Expr | None:
    """The default expression of a column, or else of its domain; None: the default is NULL (build_column_default)."""
    if column.identity:
        return NextValueExpr(column.type, sequence=identity_sequence(session, target.oid, column.num))
    if column.generated:
        return None
    if not column.has_default:
        return domain_default(session, column)
    default = default_of(session, target.oid, column.num)
    assert default is not None
    return default


def domain_default(session: Session, column: Attribute) -> Expr | None:
    kind = type_by_oid(column.type)
    if kind is None or kind.typtype != "d":
        return None
    row = type_row(session, column.type)
    if row is None or row.typdefaultbin is None:
        return None
    return CoerceToDomain(column.type, collation=column.collation, arg=stored.from_json(row.typdefaultbin, session))


def null_of(column: Attribute) -> Expr:
    """NULL as a value of the column; a domain that has constraints tests it (coerce_null_to_domain)."""
    if constrained(column.type) and not typefacts.is_array(column.type):
        base, typmod = typefacts.base_and_typmod(column.type, -1)
        return CoerceToDomain(column.type, collation=column.collation, arg=Const(base, typmod=typmod))
    return Const(column.type, typmod=column.typmod, collation=column.collation)
