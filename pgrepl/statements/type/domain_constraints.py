"""The constraints of a domain in pg_constraint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import PG_CONSTRAINT, PG_TYPE, ObjectAddress
from pgrepl.catalog.depend import Dependency, record_dependency
from pgrepl.catalog.store import insert, new_oid, one
from pgrepl.catalog.user_types import type_display_name
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.expr.analyze import transform
from pgrepl.expr.coerce import coerce_to_boolean
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.domains import domain_value
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Expr
from pgrepl.sql.nodes import Constraint
from pgrepl.statements.dependencies import record_expressions
from pgrepl.statements.table.names import choose_constraint_name

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def add_check(session: Session, domain: tables.pg_type, constraint: Constraint) -> Expr:
    """As domainAddCheckConstraint; returns the analysed condition over VALUE."""
    name = _name(session, domain, constraint.name, "check")
    base = session.type_of(domain.typbasetype)
    scope = Scope(session, domain_value=domain_value(base, domain.typtypmod, domain.typcollation))
    assert constraint.expr is not None
    raw = transform(scope, constraint.expr, ExprKind.DOMAIN_CHECK)
    expr: Expr = assign_collations(coerce_to_boolean(scope, raw, "CHECK"))
    oid = _store(session, domain, name, "c", stored.to_json(expr), valid=not constraint.skip_validation)
    record_expressions(session, ObjectAddress(PG_CONSTRAINT, oid), [expr])
    return expr


def add_not_null(session: Session, domain: tables.pg_type, name: str | None) -> None:
    """As domainAddNotNullConstraint."""
    _store(session, domain, _name(session, domain, name, "not_null"), "n", None)


def cooked_check(session: Session, row: tables.pg_constraint) -> Expr:
    expr: Expr = stored.from_json(row.conbin, session)
    return expr


def domain_constraint(session: Session, domain: tables.pg_type, name: str) -> tables.pg_constraint:
    """As get_domain_constraint_oid."""
    row = one(session, tables.pg_constraint, contypid=domain.oid, conname=name)
    if row is None:
        shown = type_display_name(session, domain)
        raise PgError("42704", f'constraint "{name}" for domain {shown} does not exist')
    return row


def _name(session: Session, domain: tables.pg_type, name: str | None, label: str) -> str:
    if name is None:
        return choose_constraint_name(session, domain.typname, None, label, domain.typnamespace)
    if one(session, tables.pg_constraint, contypid=domain.oid, conname=name) is not None:
        raise PgError("42710", f'constraint "{name}" for domain "{domain.typname}" already exists')
    return name


def _store(session: Session, domain: tables.pg_type, name: str, kind: str, expr: object, *, valid: bool = True) -> int:
    oid = new_oid(session)
    insert(
        session, tables.pg_constraint, datid=session.database_oid, oid=oid, conname=name,
        connamespace=domain.typnamespace, contype=kind, condeferrable=False, condeferred=False, convalidated=valid,
        conrelid=0, contypid=domain.oid, conindid=0, conparentid=0, confrelid=0, confupdtype=" ", confdeltype=" ",
        confmatchtype=" ", conislocal=True, coninhcount=0, connoinherit=False, conkey=None, confkey=None,
        confdelsetcols=None, conbin=expr,
    )  # fmt: skip
    record_dependency(session, ObjectAddress(PG_CONSTRAINT, oid), ObjectAddress(PG_TYPE, domain.oid), Dependency.AUTO)
    return oid
