"""Descriptions of objects in messages (`column a of table t`; getObjectDescription), and comments on objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import PROPERTIES
from pgrepl.catalog.facts.namespace import LANGUAGE_NAMES, collation_text, operator
from pgrepl.catalog.facts.relation import Relation, display_name, relation_or_none
from pgrepl.catalog.facts.roles import role_name
from pgrepl.catalog.facts.user_types import type_display_name, type_row
from pgrepl.catalog.store import system, tables
from pgrepl.catalog.store.store import insert, one
from pgrepl.catalog.store.system import (
    PG_AM,
    PG_EXTENSION,
    PG_LANGUAGE,
    PLPGSQL_EXTENSION,
    PLPGSQL_LANGUAGE,
    ObjectAddress,
)
from pgrepl.catalog.store.tables import pg_description, pg_shdescription
from pgrepl.ground.errors import PgError
from pgrepl.types.builtin import element_type, proc_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.oids import REGOPERATOR, REGPROCEDURE
from pgrepl.types.user_types import RowArray

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_RELATION_KINDS = {
    "r": "table", "p": "table", "i": "index", "I": "index", "S": "sequence", "v": "view", "m": "materialized view",
    "t": "toast table", "c": "composite type", "f": "foreign table",
}  # fmt: skip


_BY_NAME = frozenset(
    (system.PG_NAMESPACE, system.PG_DATABASE, system.PG_PUBLICATION, system.PG_SUBSCRIPTION, system.PG_FOREIGN_SERVER)
)


def describe_object(session: Session, address: ObjectAddress) -> str:
    """The description of an object that must exist."""
    text = describe_object_or_none(session, address)
    if text is None:
        raise PgError("XX000", f"cache lookup failed for object {address.objid} of class {address.classid}")
    return text


def describe_relation(session: Session, rel: Relation) -> str:
    """`table t`, with the schema if the bare name would not find it (getRelationDescription)."""
    return f"{_RELATION_KINDS.get(rel.kind, 'relation')} {display_name(session, rel)}"


def describe_object_or_none(session: Session, address: ObjectAddress) -> str | None:
    classid, objid, subid = address
    if classid == system.PG_CLASS:
        return _relation(session, objid, subid)
    if classid == system.PG_CONSTRAINT:
        constraint = one(session, tables.pg_constraint, oid=objid)
        if constraint is None:
            return None
        if constraint.contypid:
            return f"constraint {constraint.conname}"
        return f"constraint {constraint.conname} on {_relation(session, constraint.conrelid, 0)}"
    if classid == system.PG_ATTRDEF:
        default = one(session, tables.pg_attrdef, oid=objid)
        return None if default is None else f"default value for {_relation(session, default.adrelid, default.adnum)}"
    if classid == system.PG_REWRITE:
        rule = one(session, tables.pg_rewrite, oid=objid)
        return None if rule is None else f"rule {rule.rulename} on {_relation(session, rule.ev_class, 0)}"
    if classid == system.PG_TRIGGER:
        trigger = one(session, tables.pg_trigger, oid=objid)
        return None if trigger is None else f"trigger {trigger.tgname} on {_relation(session, trigger.tgrelid, 0)}"
    if classid == system.PG_AUTHID:
        role = one(session, tables.pg_authid, oid=objid)
        return None if role is None else f"role {role.rolname}"
    if classid == system.PG_AUTH_MEMBERS:
        membership = one(session, tables.pg_auth_members, oid=objid)
        if membership is None:
            return None
        member, role_of = role_name(session, membership.member), role_name(session, membership.roleid)
        return f"membership of role {member} in role {role_of}"
    if classid == system.PG_DEFAULT_ACL:
        return _default_privileges(session, objid)
    if classid == system.PG_PROC:
        known = proc_by_oid(objid) is not None or one(session, tables.pg_proc, oid=objid) is not None
        return None if not known else f"function {session.object_name(REGPROCEDURE, objid)}"
    if classid == system.PG_COLLATION:
        text = collation_text(session, objid)
        return None if text is None else f"collation {text}"
    if classid == system.PG_OPERATOR:
        known = operator(session, objid) is not None
        return f"operator {session.object_name(REGOPERATOR, objid)}" if known else None
    if classid == system.PG_TYPE:
        return _type(session, objid)
    if classid == system.PG_LANGUAGE:
        return f"language {LANGUAGE_NAMES[objid]}" if objid in LANGUAGE_NAMES else None
    if classid == system.PG_EXTENSION:
        return "extension plpgsql" if objid == system.PLPGSQL_EXTENSION else None
    if classid in _BY_NAME:
        columns = PROPERTIES[classid]
        row = columns.row_or_none(session, objid)
        return None if row is None else f"{columns.word} {getattr(row, columns.name)}"
    return _of_replication(session, address)


def _type(session: Session, oid: int) -> str:
    """The description of a user's type, of a table's row type, or of one of PostgreSQL's types."""
    user_type = type_row(session, oid)
    if user_type is not None:
        if user_type.typelem:
            element = _type(session, user_type.typelem)
            return f"{element}[]"
        return f"type {type_display_name(session, user_type)}"
    array = session.type_of(oid)
    if isinstance(array, RowArray):
        return f"{_type(session, element_type(array))}[]"
    row = one(session, tables.pg_class, datid=session.database_oid, reltype=oid)
    rel = None if row is None else relation_or_none(session, row.oid)
    return f"type {format_type(oid) if rel is None else display_name(session, rel)}"


def _default_privileges(session: Session, oid: int) -> str | None:
    entry = one(session, tables.pg_default_acl, oid=oid)
    if entry is None:
        return None
    words = {"r": "relations", "S": "sequences", "f": "functions", "T": "types", "n": "schemas"}
    text = f"default privileges on new {words[entry.defaclobjtype]} belonging to role"
    text += f" {role_name(session, entry.defaclrole)}"
    schema = one(session, tables.pg_namespace, datid=entry.datid, oid=entry.defaclnamespace)
    return text if schema is None else f"{text} in schema {schema.nspname}"


def _relation(session: Session, oid: int, subid: int) -> str | None:
    rel = relation_or_none(session, oid)
    if rel is None:
        return None
    if subid == 0:
        return describe_relation(session, rel)
    attribute = rel.attribute_by_number(subid)
    return None if attribute is None else f"column {attribute.name} of {describe_relation(session, rel)}"


def _of_replication(session: Session, address: ObjectAddress) -> str | None:
    classid, objid, _ = address
    if classid == system.PG_USER_MAPPING:
        mapping = one(session, tables.pg_user_mapping, oid=objid)
        server = None if mapping is None else one(session, tables.pg_foreign_server, oid=mapping.umserver)
        if mapping is None or server is None:
            return None
        who = role_name(session, mapping.umuser) if mapping.umuser else "public"
        return f"user mapping for {who} on server {server.srvname}"
    if classid == system.PG_PUBLICATION_REL:
        table = one(session, tables.pg_publication_rel, oid=objid)
        if table is None:
            return None
        publication = one(session, tables.pg_publication, oid=table.prpubid)
        name = publication.pubname if publication is not None else table.prpubid
        return f"publication of {_relation(session, table.prrelid, 0)} in publication {name}"
    if classid == system.PG_PUBLICATION_NAMESPACE:
        whole = one(session, tables.pg_publication_namespace, oid=objid)
        if whole is None:
            return None
        publication = one(session, tables.pg_publication, oid=whole.pnpubid)
        schema = one(session, tables.pg_namespace, datid=session.database_oid, oid=whole.pnnspid)
        if publication is None or schema is None:
            return None
        return f"publication of schema {schema.nspname} in publication {publication.pubname}"
    raise PgError("XX000", f"unsupported object class: {classid}")


# --- comments ---------------------------------------------------------------------------------------------------------


PLPGSQL = "PL/pgSQL procedural language"
OF_INITDB: dict[tuple[int, int], str] = {
    (PG_LANGUAGE, 12): "built-in functions",
    (PG_LANGUAGE, 13): "dynamically-loaded C functions",
    (PG_LANGUAGE, 14): "SQL-language functions",
    (PG_LANGUAGE, PLPGSQL_LANGUAGE): PLPGSQL,
    (PG_EXTENSION, PLPGSQL_EXTENSION): PLPGSQL,
    (PG_AM, 2): "heap table access method",
    (PG_AM, 403): "b-tree index access method",
    (PG_AM, 405): "hash index access method",
    (PG_AM, 783): "GiST index access method",
    (PG_AM, 2742): "GIN index access method",
    (PG_AM, 4000): "SP-GiST index access method",
    (PG_AM, 3580): "block range index (BRIN) access method",
}  # (table, OID): comments that initdb makes


def comment_on(session: Session, classid: int, oid: int, column: int = 0) -> str | None:
    if (classid, oid) in OF_INITDB:
        return OF_INITDB[classid, oid]
    row = one(session, pg_description, datid=session.database_oid, objoid=oid, classoid=classid, objsubid=column)
    return None if row is None else str(row.description)


def shared_comment_on(session: Session, classid: int, oid: int) -> str | None:
    """The comment on a database or a role."""
    row = one(session, pg_shdescription, objoid=oid, classoid=classid)
    return None if row is None else str(row.description)


def put_comment(session: Session, address: ObjectAddress, text: str) -> None:
    """Store the comment on an object that had none."""
    insert(
        session,
        pg_description,
        datid=session.database_oid,
        classoid=address.classid,
        objoid=address.objid,
        objsubid=address.subid,
        description=text,
    )
