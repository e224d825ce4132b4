"""Default privileges (pg_default_acl): the access control lists with which new objects begin (aclchk.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.acl import Acl, AclItem, ObjectKind, default_acl, parse_acl, store_acl
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.tables import pg_default_acl

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

OBJECT_TYPES = {
    ObjectKind.TABLE: "r",
    ObjectKind.SEQUENCE: "S",
    ObjectKind.FUNCTION: "f",
    ObjectKind.TYPE: "T",
    ObjectKind.SCHEMA: "n",
}
KINDS = {letter: kind for kind, letter in OBJECT_TYPES.items()}
EVERYWHERE = 0  # the namespace of a global entry


def user_default_acl(session: Session, kind: ObjectKind, owner: int, namespace: int) -> list[str] | None:
    """The list of a new object, None for the built-in one (get_user_default_acl). What a schema's entry grants is added
    to what the global entry, or else PostgreSQL, grants."""
    entries = rows(
        session, pg_default_acl, datid=session.database_oid, defaclrole=owner, defaclobjtype=OBJECT_TYPES[kind]
    )  # fmt: skip
    if not entries:
        return None
    by_schema = {entry.defaclnamespace: entry for entry in entries}
    everywhere = by_schema.get(EVERYWHERE)
    here = by_schema.get(namespace) if namespace else None
    usual = default_acl(kind, owner)
    merged = usual if everywhere is None else parse_acl(everywhere.defaclacl) or ()
    if here is not None:
        merged = _merged(merged, parse_acl(here.defaclacl) or ())
    result = in_order(merged)
    return None if result == in_order(usual) else store_acl(result)


def default_entries(session: Session) -> list[pg_default_acl]:
    """The entries of the database, the oldest first."""
    return sorted(rows(session, pg_default_acl, datid=session.database_oid), key=lambda entry: int(entry.oid))


def default_entry(session: Session, role: int, namespace: int, kind: ObjectKind) -> pg_default_acl | None:
    return one(
        session,
        pg_default_acl,
        datid=session.database_oid,
        defaclrole=role,
        defaclnamespace=namespace,
        defaclobjtype=OBJECT_TYPES[kind],
    )


def built_in(kind: ObjectKind, role: int, namespace: int) -> Acl:
    """The list that an entry changes: of a schema, nothing (SetDefaultACL)."""
    return () if namespace else default_acl(kind, role)


def in_order(acl: Acl) -> Acl:
    """As aclitemsort."""
    return tuple(sorted(acl, key=lambda item: (item.grantee, item.grantor, item.options, item.privileges)))


def _merged(acl: Acl, more: Acl) -> Acl:
    """As aclmerge."""
    items = {item[:2]: item for item in acl}
    for item in more:
        known = items.get(item[:2])
        privileges, options = (known.privileges, known.options) if known is not None else (0, 0)
        items[item[:2]] = AclItem(*item[:2], privileges | item.privileges, options | item.options)
    return tuple(items.values())
