"""DROP, RENAME, OWNER TO and SET SCHEMA of any kind of object, each passed to the module of that kind; COMMENT ON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import PROPERTIES, check_owner
from pgrepl.catalog.facts.relation import Relation, find_relation, range_var
from pgrepl.catalog.facts.relation_parts import not_supported
from pgrepl.catalog.facts.roles import (
    database_or_none,
    has_attribute,
    is_admin_of_role,
    is_superuser,
    role_by_name,
    role_name,
)
from pgrepl.catalog.facts.triggers import trigger_named
from pgrepl.catalog.facts.user_types import type_row
from pgrepl.catalog.store import system, tables
from pgrepl.catalog.store.store import delete, insert, one
from pgrepl.catalog.store.system import ObjectAddress
from pgrepl.expr.analyse.casts import collation_of_name, type_name_text, type_of_name
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.nodes import (
    AlterObjectSchemaStmt,
    AlterOwnerStmt,
    CommentStmt,
    DefineStmt,
    DropStmt,
    OperatorName,
    RenameStmt,
    RoutineName,
    TypeName,
)
from pgrepl.sql.nodes.utility import ObjectType
from pgrepl.sql.statements import command_tag
from pgrepl.statements.routine.alter import find_routine, routine_word
from pgrepl.statements.type.domain import check_type_owner, domain_as_written, domain_constraint
from pgrepl.statements.type.operator import find_operator

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_DROP, _RENAME = "pgrepl.statements.table.relations", "pgrepl.statements.table.relations"
_PUBLICATION, _SUBSCRIPTION = (
    "pgrepl.statements.replication.publication",
    "pgrepl.statements.replication.create_subscription",
)
_FOREIGN = "pgrepl.statements.replication.foreign"
_SCHEMA, _DATABASE = "pgrepl.statements.roles.schema", "pgrepl.statements.roles.database"
_COLLATION = "pgrepl.statements.type.collation"
_TYPE = "pgrepl.statements.type.change"
_TYPES = (ObjectType.TYPE, ObjectType.DOMAIN)
_RELATIONS = (ObjectType.TABLE, ObjectType.INDEX, ObjectType.VIEW, ObjectType.MATVIEW, ObjectType.SEQUENCE)

# for each statement and kind the module and its function of (statement, session)
ACTIONS: dict[tuple[type, ObjectType], tuple[str, str]] = {
    (DefineStmt, ObjectType.OPERATOR): ("pgrepl.statements.type.operator", "create_operator"),
    (DefineStmt, ObjectType.COLLATION): (_COLLATION, "create_collation"),
    (DropStmt, ObjectType.COLLATION): (_COLLATION, "drop_collations"),
    (RenameStmt, ObjectType.COLLATION): (_COLLATION, "rename_collation"),
    (AlterOwnerStmt, ObjectType.COLLATION): (_COLLATION, "give_collation"),
    (AlterObjectSchemaStmt, ObjectType.COLLATION): (_COLLATION, "set_collation_schema"),
    **{(DropStmt, kind): (_DROP, "drop_relations") for kind in _RELATIONS},
    **{(RenameStmt, kind): (_RENAME, "rename") for kind in _RELATIONS},
    **{(AlterObjectSchemaStmt, kind): (_RENAME, "set_schema") for kind in _RELATIONS},
    (DropStmt, ObjectType.FOREIGN_TABLE): (_DROP, "drop_relations"),
    (RenameStmt, ObjectType.COLUMN): (_RENAME, "rename_part"),
    (RenameStmt, ObjectType.TABCONSTRAINT): (_RENAME, "rename_part"),
    **{(RenameStmt, kind): (_TYPE, "rename_type") for kind in _TYPES},
    **{(AlterOwnerStmt, kind): (_TYPE, "alter_type_owner") for kind in _TYPES},
    **{(AlterObjectSchemaStmt, kind): (_TYPE, "set_type_schema") for kind in _TYPES},
    (RenameStmt, ObjectType.ATTRIBUTE): (_RENAME, "rename_part"),
    (RenameStmt, ObjectType.DOMCONSTRAINT): (_TYPE, "rename_domain_constraint"),
    (DropStmt, ObjectType.SCHEMA): (_SCHEMA, "drop_schema"),
    (RenameStmt, ObjectType.SCHEMA): (_SCHEMA, "rename_schema"),
    (AlterOwnerStmt, ObjectType.SCHEMA): (_SCHEMA, "alter_schema_owner"),
    (DropStmt, ObjectType.PUBLICATION): (_PUBLICATION, "drop_publications"),
    (RenameStmt, ObjectType.PUBLICATION): (_PUBLICATION, "rename_publication"),
    (AlterOwnerStmt, ObjectType.PUBLICATION): (_PUBLICATION, "give_publication"),
    (RenameStmt, ObjectType.SUBSCRIPTION): (_SUBSCRIPTION, "rename_subscription"),
    (AlterOwnerStmt, ObjectType.SUBSCRIPTION): (_SUBSCRIPTION, "give_subscription"),
    (DropStmt, ObjectType.FOREIGN_SERVER): (_FOREIGN, "drop_servers"),
    (RenameStmt, ObjectType.FOREIGN_SERVER): (_FOREIGN, "rename_server"),
    (AlterOwnerStmt, ObjectType.FOREIGN_SERVER): (_FOREIGN, "give_server"),
    (DropStmt, ObjectType.TRIGGER): ("pgrepl.statements.table.trigger", "drop_trigger"),
    (RenameStmt, ObjectType.TRIGGER): ("pgrepl.statements.table.trigger", "rename_trigger"),
    (RenameStmt, ObjectType.DATABASE): (_DATABASE, "rename_database"),
    (AlterOwnerStmt, ObjectType.DATABASE): (_DATABASE, "alter_database_owner"),
    (RenameStmt, ObjectType.ROLE): ("pgrepl.statements.roles.role", "rename_role"),
}


def execute_about_object(
    stmt: DefineStmt | DropStmt | RenameStmt | AlterOwnerStmt | AlterObjectSchemaStmt, session: Session
) -> Result:
    path = ACTIONS.get((type(stmt), stmt.kind))
    if path is None:
        raise unsupported(command_tag(stmt))
    module, name = path
    action: Callable[[Any, Session], Result] = getattr(import_module(module), name)
    return action(stmt, session)


# --- comment ----------------------------------------------------------------------------------------------------------


_COMMENT_RELATIONS = {
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


def _set(
    session: Session, table: type[tables.pg_description | tables.pg_shdescription], comment: str | None, **key: int
) -> None:
    """Store a comment; an empty one removes it."""
    delete(session, table, **key)
    if comment:
        insert(session, table, **key, description=comment)


def _relation(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    rel = find_relation(session, range_var(name))
    kinds, words = _COMMENT_RELATIONS[kind]
    if rel.kind not in kinds:
        raise PgError("42809", f'"{rel.name}" is not {words}')
    check_owner(session, kind.value, rel.name, rel.owner)
    return ObjectAddress(system.PG_CLASS, rel.oid)


def _routine(session: Session, kind: ObjectType, name: RoutineName) -> ObjectAddress:
    routine = find_routine(session, kind, name)
    check_owner(session, routine_word(routine), routine.proname, routine.proowner)
    return ObjectAddress(system.PG_PROC, routine.oid)


def _operator(session: Session, name: OperatorName) -> ObjectAddress:
    operator = find_operator(session, name)
    check_owner(session, "operator", ".".join(name.name), operator.oprowner)
    return ObjectAddress(system.PG_OPERATOR, operator.oid)


def _column(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    if len(name) < 2:
        raise PgError("42601", "column name must be qualified")
    rel = find_relation(session, range_var(name[:-1]))
    attribute = rel.attribute(name[-1])
    if attribute is None:
        raise PgError("42703", f'column "{name[-1]}" of relation "{_written(name[:-1])}" does not exist')
    _check_relation_owner(session, rel)
    if rel.kind not in "rvmcfp":
        raise PgError("42809", f'cannot set comment on relation "{rel.name}"', detail=not_supported(rel.kind))
    return ObjectAddress(system.PG_CLASS, rel.oid, attribute.num)


def _written(parts: Sequence[str]) -> str:
    """A qualified name as it was written (NameListToString)."""
    return ".".join(parts)


def _check_relation_owner(session: Session, rel: Relation) -> None:
    """A part of a relation belongs to the relation's owner; the message calls it a relation."""
    check_owner(session, "relation", rel.name, rel.owner)


def _constraint(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    rel = find_relation(session, range_var(name[:-1]))
    row = one(session, tables.pg_constraint, conrelid=rel.oid, conname=name[-1])
    if row is None:
        raise PgError("42704", f'constraint "{name[-1]}" for table "{rel.name}" does not exist')
    _check_relation_owner(session, rel)
    return ObjectAddress(system.PG_CONSTRAINT, row.oid)


def _trigger(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    rel = find_relation(session, range_var(name[:-1]))
    trigger = trigger_named(session, rel.oid, name[-1])
    if trigger is None:
        raise PgError("42704", f'trigger "{name[-1]}" for table "{rel.name}" does not exist')
    _check_relation_owner(session, rel)
    return ObjectAddress(system.PG_TRIGGER, trigger.oid)


_NAMED = {  # and the error for a name that none has
    ObjectType.SCHEMA: (system.PG_NAMESPACE, "3F000"),
    ObjectType.DATABASE: (system.PG_DATABASE, "3D000"),
    ObjectType.PUBLICATION: (system.PG_PUBLICATION, "42704"),
    ObjectType.FOREIGN_SERVER: (system.PG_FOREIGN_SERVER, "42704"),
    ObjectType.SUBSCRIPTION: (system.PG_SUBSCRIPTION, "42704"),
}


def _named(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    classid, missing = _NAMED[kind]
    columns = PROPERTIES[classid]
    here = {columns.database: session.database_oid} if columns.database else {}
    row = one(session, columns.table, **here, **{columns.name: name[-1]})
    if row is None:
        raise PgError(missing, f'{columns.word} "{name[-1]}" does not exist')
    check_owner(session, kind.value, name[-1], getattr(row, columns.owner))
    return ObjectAddress(classid, row.oid)


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
    return ObjectAddress(system.PG_AUTHID, role)


def _type(session: Session, kind: ObjectType, name: TypeName) -> ObjectAddress:
    if kind is ObjectType.DOMAIN:
        return ObjectAddress(system.PG_TYPE, domain_as_written(session, name).oid)
    oid, _ = type_of_name(session, replace(name, location=-1))
    row = type_row(session, oid)
    if row is not None:
        check_type_owner(session, row)
    elif not is_superuser(session, session.role):
        raise PgError("42501", f"must be owner of type {type_name_text(name)}")
    return ObjectAddress(system.PG_TYPE, int(oid))


def _collation(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    oid = collation_of_name(session, tuple(name))
    row = one(session, tables.pg_collation, oid=oid)
    check_owner(session, "collation", _written(name), system.BOOTSTRAP_SUPERUSER if row is None else row.collowner)
    if row is None:
        raise unsupported(f"commenting on the built-in collation {name[-1]}")
    return ObjectAddress(system.PG_COLLATION, row.oid)


def _domain_constraint(session: Session, kind: ObjectType, name: Sequence[str]) -> ObjectAddress:
    row = domain_constraint(session, domain_as_written(session, TypeName(tuple(name[:-1]))), name[-1])
    return ObjectAddress(system.PG_CONSTRAINT, row.oid)


_FINDERS: dict[ObjectType, Callable[[Session, ObjectType, Sequence[str]], ObjectAddress]] = {
    **dict.fromkeys(_COMMENT_RELATIONS, _relation),
    ObjectType.COLLATION: _collation,
    ObjectType.COLUMN: _column,
    ObjectType.DOMCONSTRAINT: _domain_constraint,
    ObjectType.TABCONSTRAINT: _constraint,
    ObjectType.TRIGGER: _trigger,
    ObjectType.ROLE: _role,
    **dict.fromkeys(_NAMED, _named),
}
