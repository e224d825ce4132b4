"""CREATE DOMAIN and ALTER DOMAIN (typecmds.c): constraints, the columns whose values they hold for, and look-up of
types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import is_owner
from pgrepl.catalog.facts.depend import Dependency, dependents_of, forget_dependencies, record_dependency
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.user_types import check_usage, type_display_name, type_row
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import insert, new_oid, one, update
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE, PG_TYPE, ObjectAddress
from pgrepl.expr import stored
from pgrepl.expr.analyse.analyze import transform
from pgrepl.expr.analyse.casts import column_collation, type_name_text, type_of_name
from pgrepl.expr.analyse.coerce import coerce_to_boolean
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import is_row_of_table, type_text
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.evaluate.compiler import domain_value
from pgrepl.expr.tree import CoerceToDomainValue, Const, Expr
from pgrepl.expr.walk import rewrite
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.rows.requirements import DomainHolds, column
from pgrepl.sql import nodes
from pgrepl.sql.location import refuse_newer
from pgrepl.sql.nodes import AlterDomainKind, AlterDomainStmt, Constraint, ConstrType, CreateDomainStmt, TypeName
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.dependencies import record_expressions, record_types
from pgrepl.statements.table.heap import check_name_is_free, coerce_default, insert_type, namespace_of_new
from pgrepl.statements.table.names import choose_constraint_name
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.user_types import RowArray
from pgrepl.writing.phase3 import require

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def type_of_parts(session: Session, parts: Sequence[str]) -> int:
    """The type of a qualified name."""
    return type_of_name(session, TypeName(tuple(parts)))[0]


def domain_of_parts(session: Session, parts: Sequence[str]) -> tables.pg_type:
    """The domain of a qualified name, which the role must own (checkDomainOwner)."""
    oid = type_of_parts(session, parts)
    return _own_domain(session, oid, type_text(session, oid))


def domain_as_written(session: Session, name: TypeName) -> tables.pg_type:
    """The domain that a statement about any object names, such as COMMENT (get_object_address_type)."""
    return _own_domain(session, type_of_name(session, replace(name, location=-1))[0], f'"{type_name_text(name)}"')


def _own_domain(session: Session, oid: int, text: str) -> tables.pg_type:
    row = type_row(session, oid)
    if row is None or row.typtype != "d":
        raise PgError("42809", f"{text} is not a domain")
    check_type_owner(session, row)
    return row


def check_type_owner(session: Session, row: tables.pg_type) -> None:
    if not is_owner(session, row.typowner):
        raise PgError("42501", f"must be owner of type {type_display_name(session, row)}")


def refuse_users(session: Session, typoid: int, name: str) -> None:
    """No column of a table may be of the type, or of an array or row type that contains it
    (find_composite_type_dependencies)."""
    for row in dependents_of(session, ObjectAddress(PG_TYPE, typoid)):
        if row.classid == PG_TYPE:
            refuse_users(session, row.objid, name)
        elif row.classid == PG_CLASS and row.objsubid > 0:
            rel = relation(session, row.objid)
            if rel.kind in "rmp":
                attribute = rel.attributes[row.objsubid - 1].name
                message = f'cannot alter type "{name}" because column "{rel.name}.{attribute}" uses it'
                raise PgError("0A000", message)
            if rel.type:
                refuse_users(session, rel.type, name)


# --- domain columns ---------------------------------------------------------------------------------------------------


def check_columns(session: Session, domain: tables.pg_type, condition: Expr | None) -> None:
    """Raise PostgreSQL's error unless the condition over VALUE holds for all values in columns of the domain and of
    domains over it; None: NOT NULL."""
    numbers: dict[int, set[int]] = {}
    for relid, attnum in _columns(session, domain):
        numbers.setdefault(relid, set()).add(attnum)
    for relid, attnums in numbers.items():
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
            rel = relation(session, row.objid)
            if rel.type:
                refuse_users(session, rel.type, name)
            if rel.kind in "rm":
                yield row.objid, row.objsubid


# --- domain constraints -----------------------------------------------------------------------------------------------


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
    """Stores a domain's NOT NULL (domainAddNotNullConstraint)."""
    _store(session, domain, _name(session, domain, name, "not_null"), "n", None)


def cooked_check(session: Session, row: tables.pg_constraint) -> Expr:
    expr: Expr = stored.from_json(row.conbin, session)
    return expr


def domain_constraint(session: Session, domain: tables.pg_type, name: str) -> tables.pg_constraint:
    """A constraint of a domain by its name (get_domain_constraint_oid)."""
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
        confdelsetcols=None, conbin=expr, conenforced=True, conperiod=False,
    )  # fmt: skip
    record_dependency(session, ObjectAddress(PG_CONSTRAINT, oid), ObjectAddress(PG_TYPE, domain.oid), Dependency.AUTO)
    return oid


# --- domain -----------------------------------------------------------------------------------------------------------


_ALTER = Result("ALTER DOMAIN")
_REFUSED = {
    ConstrType.UNIQUE: "unique constraints not possible for domains",
    ConstrType.PRIMARY: "primary key constraints not possible for domains",
    ConstrType.EXCLUSION: "exclusion constraints not possible for domains",
    ConstrType.FOREIGN: "foreign key constraints not possible for domains",
}


def create_domain(stmt: CreateDomainStmt, session: Session) -> Result:
    if session.settings.release >= 18:
        return _define(stmt, session)
    return _without_place(lambda: _define(stmt, session))


def _without_place(action: Callable[[], Result]) -> Result:
    """ALTER DOMAIN, and 17's DefineDomain, have no text of the statement, so that no error of theirs points into it."""
    try:
        return action()
    except PgError as error:
        error.report = replace(error.report, position=None)
        raise


def _define(stmt: CreateDomainStmt, session: Session) -> Result:
    """CREATE DOMAIN (DefineDomain)."""
    name = stmt.name.name
    namespace = namespace_of_new(session, stmt.name)
    check_name_is_free(session, namespace, name)
    base, typmod = type_of_name(session, stmt.type_name)
    kind = type_by_oid(base)
    if kind is not None and kind.typtype == "p":
        message = f'"{type_name_text(stmt.type_name)}" is not a valid base type for a domain'
        raise PgError("42804", message, location=stmt.type_name.location)
    if is_row_of_table(base) or isinstance(base, RowArray):
        raise unsupported(f"a domain over the row type {type_name_text(stmt.type_name)}")
    check_usage(session, base)
    collation = column_collation(session, stmt.collation, stmt.collation_location, base)
    not_null, default = _properties(session, stmt, base, typmod)
    oid = insert_type(
        session, namespace, name, typtype="d", typbasetype=base, typtypmod=typmod, typcollation=collation,
        typndims=len(stmt.type_name.array_bounds), typnotnull=not_null,
        typdefaultbin=default,
    )  # fmt: skip
    row = type_row(session, oid)
    assert row is not None
    address = ObjectAddress(PG_TYPE, oid)
    record_types(session, address, [base])
    _record_default(session, row)
    for constraint in stmt.constraints:
        if constraint.kind is ConstrType.CHECK:
            add_check(session, row, constraint)
        elif constraint.kind is ConstrType.NOTNULL:
            add_not_null(session, row, constraint.name)
    return Result("CREATE DOMAIN")


def _properties(session: Session, stmt: CreateDomainStmt, base: int, typmod: int) -> tuple[bool, object]:
    """Whether the domain is NOT NULL, and its default as stored, which is by default that of the base type."""
    below = type_row(session, base)
    default = None if below is None else below.typdefaultbin
    not_null: bool | None = None
    saw_default = False
    for constraint in stmt.constraints:
        if session.settings.release < 18:
            refuse_newer(session.query, constraint.newer)
        _refuse(constraint)
        if constraint.kind is ConstrType.DEFAULT:
            if saw_default:
                raise PgError("42601", "multiple default expressions", location=constraint.location)
            saw_default = True
            assert constraint.expr is not None
            default = _cooked_default(session, constraint.expr, stmt.name.name, base, typmod)
        elif constraint.kind in (ConstrType.NOTNULL, ConstrType.NULL):
            wanted = constraint.kind is ConstrType.NOTNULL
            if not_null is not None and not_null is not wanted:
                raise PgError("42601", "conflicting NULL/NOT NULL constraints", location=constraint.location)
            if not_null and wanted:
                raise PgError("42601", "redundant NOT NULL constraint definition", location=constraint.location)
            not_null = wanted
    return bool(not_null), default


def _refuse(constraint: Constraint) -> None:
    refused = _REFUSED.get(constraint.kind)
    if refused is not None:
        raise PgError("42601", refused, location=constraint.location)
    if constraint.kind in (ConstrType.GENERATED, ConstrType.IDENTITY):
        raise PgError("0A000", "specifying GENERATED not supported for domains", location=constraint.location)
    if constraint.kind.name.startswith("ATTR"):
        what = "enforceability" if constraint.kind.name.endswith("ENFORCED") else "deferrability"
        message = f"specifying constraint {what} not supported for domains"
        raise PgError("0A000", message, location=constraint.location)
    if constraint.no_inherit:
        kind = "check" if constraint.kind is ConstrType.CHECK else "not-null"
        message = f"{kind} constraints for domains cannot be marked NO INHERIT"
        raise PgError("42P16", message, location=constraint.location)


def _cooked_default(session: Session, raw: nodes.Expr, name: str, base: int, typmod: int) -> object:
    """A default as stored, of the base type; None: it is just NULL."""
    scope = Scope(session)
    expr: Expr = assign_collations(
        coerce_default(session, scope, transform(scope, raw, ExprKind.DEFAULT), name, base, typmod)
    )
    return None if isinstance(expr, Const) and expr.value is None else stored.to_json(expr)


def _record_default(session: Session, row: tables.pg_type) -> None:
    if row.typdefaultbin is not None:
        record_expressions(session, ObjectAddress(PG_TYPE, row.oid), [stored.from_json(row.typdefaultbin, session)])


# --- ALTER DOMAIN -----------------------------------------------------------------------------------------------------


def alter_domain(stmt: AlterDomainStmt, session: Session) -> Result:
    return _without_place(lambda: _alter(stmt, session))


def _alter(stmt: AlterDomainStmt, session: Session) -> Result:
    row = domain_of_parts(session, stmt.name)
    kind = stmt.kind
    if kind is AlterDomainKind.SET_DEFAULT:
        _set_default(session, row, stmt.expr)
    elif kind is AlterDomainKind.SET_NOT_NULL:
        _set_not_null(session, row, None)
    elif kind is AlterDomainKind.DROP_NOT_NULL:
        _drop_not_null(session, row)
    elif kind is AlterDomainKind.ADD_CONSTRAINT:
        assert stmt.constraint is not None
        _add_constraint(session, row, stmt.constraint)
    elif kind is AlterDomainKind.DROP_CONSTRAINT:
        _drop_constraint(session, row, stmt)
    else:
        _validate(session, row, stmt.constraint_name or "")
    return _ALTER


def _set_default(session: Session, row: tables.pg_type, raw: nodes.Expr | None) -> None:
    """ALTER DOMAIN … SET and DROP DEFAULT (AlterDomainDefault)."""
    base = session.type_of(row.typbasetype)
    default = None if raw is None else _cooked_default(session, raw, row.typname, base, row.typtypmod)
    update(session, tables.pg_type, {"oid": row.oid}, typdefaultbin=default)
    address = ObjectAddress(PG_TYPE, row.oid)
    forget_dependencies(session, address, kind=Dependency.NORMAL)
    record_dependency(session, address, ObjectAddress(PG_NAMESPACE, row.typnamespace))
    record_types(session, address, [base])
    fresh = type_row(session, row.oid)
    assert fresh is not None
    _record_default(session, fresh)


def _set_not_null(session: Session, row: tables.pg_type, name: str | None) -> None:
    if row.typnotnull:
        return
    check_columns(session, row, None)
    update(session, tables.pg_type, {"oid": row.oid}, typnotnull=True)
    add_not_null(session, row, name)


def _drop_not_null(session: Session, row: tables.pg_type) -> None:
    if not row.typnotnull:
        return
    constraint = one(session, tables.pg_constraint, contypid=row.oid, contype="n")
    if constraint is not None:
        drop_objects(session, [ObjectAddress(PG_CONSTRAINT, constraint.oid)], cascade=False)
    update(session, tables.pg_type, {"oid": row.oid}, typnotnull=False)


def _add_constraint(session: Session, row: tables.pg_type, constraint: Constraint) -> None:
    """ALTER DOMAIN … ADD CONSTRAINT (AlterDomainAddConstraint)."""
    _refuse(constraint)
    if constraint.kind is ConstrType.NOTNULL:
        _set_not_null(session, row, constraint.name)
        return
    expr = add_check(session, row, constraint)
    if not constraint.skip_validation:
        check_columns(session, row, expr)


def _drop_constraint(session: Session, row: tables.pg_type, stmt: AlterDomainStmt) -> None:
    constraint = one(session, tables.pg_constraint, contypid=row.oid, conname=stmt.constraint_name)
    if constraint is None:
        name = ".".join(stmt.name)
        message = f'constraint "{stmt.constraint_name}" of domain "{name}" does not exist'
        if not stmt.missing_ok:
            raise PgError("42704", message)
        session.notice("NOTICE", f"{message}, skipping")
        return
    if constraint.contype == "n":
        update(session, tables.pg_type, {"oid": row.oid}, typnotnull=False)
    drop_objects(session, [ObjectAddress(PG_CONSTRAINT, constraint.oid)], cascade=stmt.cascade)


def _validate(session: Session, row: tables.pg_type, name: str) -> None:
    """ALTER DOMAIN … VALIDATE CONSTRAINT (AlterDomainValidateConstraint)."""
    constraint = one(session, tables.pg_constraint, contypid=row.oid, conname=name)
    shown = type_display_name(session, row)
    if constraint is None:
        raise PgError("42704", f'constraint "{name}" of domain "{shown}" does not exist')
    if constraint.contype != "c":
        raise PgError("42809", f'constraint "{name}" of domain "{shown}" is not a check constraint')
    check_columns(session, row, cooked_check(session, constraint))
    update(session, tables.pg_constraint, {"oid": constraint.oid}, convalidated=True)
