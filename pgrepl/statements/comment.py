"""COMMENT ON (comment.c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import classes, tables
from pgrepl.catalog.acl import check_owner
from pgrepl.catalog.classes import ObjectAddress
from pgrepl.catalog.databases import database_by_name, database_or_none
from pgrepl.catalog.namespace import schema_by_name
from pgrepl.catalog.relation import Relation, find_relation, range_var
from pgrepl.catalog.relkind import not_supported
from pgrepl.catalog.roles import has_attribute, is_admin_of_role, is_superuser, role_by_name, role_name
from pgrepl.catalog.store import delete, insert, one
from pgrepl.catalog.triggers import trigger_named
from pgrepl.catalog.user_types import type_row
from pgrepl.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CommentStmt, OperatorName, RoutineName, TypeName
from pgrepl.sql.nodes.utility import ObjectType

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_RELATIONS = {
    ObjectType.TABLE: ("rp", "a table"),
    ObjectType.VIEW: ("v", "a view"),
    ObjectType.INDEX: ("iI", "an index"),
    ObjectType.SEQUENCE: ("S", "a sequence"),
    ObjectType.MATVIEW: ("m", "a materialized view"),
    ObjectType.FOREIGN_TABLE: ("f", "a foreign table"),
}
_SHARED = (ObjectType.DATABASE, ObjectType.ROLE)


def comment_on(stmt: CommentStmt, session: Session) -> Result:
    """As CommentObject: find the object, check its owner, store the comment."""
    if stmt.kind is ObjectType.DATABASE and database_or_none(session, stmt.name[-1]) is None:
        # a dump may name the database it came from
        session.notice("WARNING", f'database "{stmt.name[-1]}" does not exist', sqlstate="3D000")
        return Result("COMMENT")
    if isinstance(stmt.named, RoutineName):
        address = _routine(session, stmt.kind, stmt.named)
    elif isinstance(stmt.named, OperatorName):
        address = _operator(session, stmt.named)
    elif isinstance(stmt.named, TypeName):
        address = _type(session, stmt.kind, stmt.named)
    else:
        find = _FINDERS.get(stmt.kind)
        if find is None:
            raise unsupported(f"COMMENT ON {stmt.kind.value.upper()}")
        address = find(session, stmt.kind, stmt.name)
    if stmt.kind in _SHARED:
        _set(session, tables.pg_shdescription, stmt.comment, objoid=address.objid, classoid=address.classid)
    else:
        _set(
            session,
            tables.pg_description,
            stmt.comment,
            datid=session.database_oid,
            objoid=address.objid,
            classoid=address.classid,
            objsubid=address.subid,
        )
    return Result("COMMENT")


def _set(session: Session, table: Any, comment: str | None, **key: int) -> None:
    """Store a comment; an empty one removes it."""
    delete(session, table, **key)
    if comment:
        insert(session, table, **key, description=comment)


def _relation(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    found = find_relation(session, range_var(name))
    kinds, words = _RELATIONS[kind]
    if found.kind not in kinds:
        raise PgError("42809", f'"{found.name}" is not {words}')
    check_owner(session, kind.value, found.name, found.owner)
    return ObjectAddress(classes.PG_CLASS, found.oid)


def _routine(session: Session, kind: ObjectType, name: RoutineName) -> ObjectAddress:
    from pgrepl.statements.routine.drop import routine_word
    from pgrepl.statements.routine.find import find_routine

    found = find_routine(session, kind, name)
    check_owner(session, routine_word(found), found.proname, found.proowner)
    return ObjectAddress(classes.PG_PROC, found.oid)


def _operator(session: Session, name: OperatorName) -> ObjectAddress:
    from pgrepl.statements.operator.alter import find_operator

    found = find_operator(session, name)
    check_owner(session, "operator", ".".join(name.name), found.oprowner)
    return ObjectAddress(classes.PG_OPERATOR, found.oid)


def _column(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    if len(name) < 2:
        raise PgError("42601", "column name must be qualified")
    found = find_relation(session, range_var(name[:-1]))
    attribute = found.attribute(name[-1])
    if attribute is None:
        raise PgError("42703", f'column "{name[-1]}" of relation "{_written(name[:-1])}" does not exist')
    _check_relation_owner(session, found)
    if found.kind not in "rvmcfp":
        raise PgError("42809", f'cannot set comment on relation "{found.name}"', detail=not_supported(found.kind))
    return ObjectAddress(classes.PG_CLASS, found.oid, attribute.num)


def _written(parts: Sequence[str]) -> str:
    """As NameListToString."""
    return ".".join(parts)


def _check_relation_owner(session: Session, found: Relation) -> None:
    """A part of a relation belongs to the relation's owner; the message calls it a relation."""
    check_owner(session, "relation", found.name, found.owner)


def _constraint(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    found = find_relation(session, range_var(name[:-1]))
    row = one(session, tables.pg_constraint, conrelid=found.oid, conname=name[-1])
    if row is None:
        raise PgError("42704", f'constraint "{name[-1]}" for table "{found.name}" does not exist')
    _check_relation_owner(session, found)
    return ObjectAddress(classes.PG_CONSTRAINT, row.oid)


def _trigger(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    found = find_relation(session, range_var(name[:-1]))
    trigger = trigger_named(session, found.oid, name[-1])
    if trigger is None:
        raise PgError("42704", f'trigger "{name[-1]}" for table "{found.name}" does not exist')
    _check_relation_owner(session, found)
    return ObjectAddress(classes.PG_TRIGGER, trigger.oid)


def _schema(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    row = schema_by_name(session, name[-1])
    check_owner(session, "schema", name[-1], row.nspowner)
    return ObjectAddress(classes.PG_NAMESPACE, row.oid)


def _database(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    row = database_by_name(session, name[-1])
    check_owner(session, "database", name[-1], row.datdba)
    return ObjectAddress(classes.PG_DATABASE, row.oid)


def _role(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    """A role is owned by roles with CREATEROLE and ADMIN OPTION on it, a superuser by superusers."""
    role = role_by_name(session, name[-1]).oid
    current = session.role
    if is_superuser(session, role):
        missing = None if is_superuser(session, current) else "SUPERUSER attribute"
    elif not has_attribute(session, current, "rolcreaterole"):
        missing = "CREATEROLE attribute"
    elif not is_admin_of_role(session, current, role):
        missing = f'ADMIN option on role "{role_name(session, role)}"'
    else:
        missing = None
    if missing is not None:
        raise PgError("42501", "permission denied", detail=f"The current user must have the {missing}.")
    return ObjectAddress(classes.PG_AUTHID, role)


def _publication(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    row = one(session, tables.pg_publication, datid=session.database_oid, pubname=name[-1])
    if row is None:
        raise PgError("42704", f'publication "{name[-1]}" does not exist')
    check_owner(session, "publication", name[-1], row.pubowner)
    return ObjectAddress(classes.PG_PUBLICATION, row.oid)


def _subscription(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    row = one(session, tables.pg_subscription, subdbid=session.database_oid, subname=name[-1])
    if row is None:
        raise PgError("42704", f'subscription "{name[-1]}" does not exist')
    check_owner(session, "subscription", name[-1], row.subowner)
    return ObjectAddress(classes.PG_SUBSCRIPTION, row.oid)


def _type(session: Session, kind: ObjectType, name: TypeName) -> ObjectAddress:
    from pgrepl.expr.typenames import type_name_text, type_of_name
    from pgrepl.statements.type.names import check_type_owner, domain_as_written

    if kind is ObjectType.DOMAIN:
        return ObjectAddress(classes.PG_TYPE, domain_as_written(session, name).oid)
    oid, _ = type_of_name(session, replace(name, location=-1))
    row = type_row(session, oid)
    if row is not None:
        check_type_owner(session, row)
    elif not is_superuser(session, session.role):
        raise PgError("42501", f"must be owner of type {type_name_text(name)}")
    return ObjectAddress(classes.PG_TYPE, int(oid))


def _collation(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    from pgrepl.expr.typenames import collation_of_name

    oid = collation_of_name(session, tuple(name))
    row = one(session, tables.pg_collation, oid=oid)
    check_owner(session, "collation", _written(name), classes.BOOTSTRAP_SUPERUSER if row is None else row.collowner)
    if row is None:
        raise unsupported(f"commenting on the built-in collation {name[-1]}")
    return ObjectAddress(classes.PG_COLLATION, row.oid)


def _domain_constraint(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    from pgrepl.statements.type.domain_constraints import domain_constraint
    from pgrepl.statements.type.names import domain_as_written

    row = domain_constraint(session, domain_as_written(session, TypeName(tuple(name[:-1]))), name[-1])
    return ObjectAddress(classes.PG_CONSTRAINT, row.oid)


_FINDERS: dict[ObjectType, Callable[[Session, ObjectType, Sequence[str]], ObjectAddress]] = {
    **dict.fromkeys(_RELATIONS, _relation),
    ObjectType.COLLATION: _collation,
    ObjectType.COLUMN: _column,
    ObjectType.DOMCONSTRAINT: _domain_constraint,
    ObjectType.TABCONSTRAINT: _constraint,
    ObjectType.TRIGGER: _trigger,
    ObjectType.SCHEMA: _schema,
    ObjectType.DATABASE: _database,
    ObjectType.ROLE: _role,
    ObjectType.PUBLICATION: _publication,
    ObjectType.SUBSCRIPTION: _subscription,
}
