"""Access control lists: their text form, their defaults, and checks of privileges (PostgreSQL's acl.c and aclchk.c).

A list is stored as PostgreSQL prints it, with role OIDs in place of names: `["=U/10", "10=UC/10"]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pgrepl.catalog.facts.roles import PUBLIC, current_database, has_privs_of_role, is_superuser, role_row
from pgrepl.catalog.store import system, tables
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.system import FIRST_NORMAL_OID, ROLE_MAINTAIN, ROLE_READ_ALL_DATA, ROLE_WRITE_ALL_DATA
from pgrepl.catalog.store.tables import pg_database, pg_foreign_server, pg_namespace, pg_proc, pg_type
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession

# objects with an owner and a list, beside relations
Owned: TypeAlias = "pg_namespace | pg_database | pg_proc | pg_type | pg_foreign_server"

LETTERS = "arwdDxtXUCTcsAm"  # in the order PostgreSQL prints them
NAMES = (
    "INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "EXECUTE", "USAGE", "CREATE",
    "TEMPORARY", "CONNECT", "SET", "ALTER SYSTEM", "MAINTAIN",
)  # fmt: skip
BIT = {name: 1 << i for i, name in enumerate(NAMES)}
BIT["TEMP"] = BIT["TEMPORARY"]


def mask_of(*names: str) -> int:
    mask = 0
    for name in names:
        mask |= BIT[name]
    return mask


class ObjectKind(Enum):
    """The kinds of objects that privileges are granted on; the value is the word that messages have for it."""

    TABLE = "table"
    COLUMN = "column"
    SEQUENCE = "sequence"
    DATABASE = "database"
    SCHEMA = "schema"
    FUNCTION = "function"
    PROCEDURE = "procedure"
    ROUTINE = "routine"
    TYPE = "type"
    LANGUAGE = "language"
    FOREIGN_SERVER = "foreign server"


@frozen
class ObjectProperty:
    """A system table of objects: its columns of names, owners and access lists, and the word that messages have for an
    object (ObjectProperty of objectaddress.c)."""

    table: type[Any]  # of its rows
    word: str
    name: str
    owner: str
    acl: str = ""
    kind: ObjectKind | None = None
    database: str = "datid"
    is_shared: bool = False  # in pg_shdepend the object belongs to the whole instance

    def row_or_none(self, session: CatalogSession, oid: int) -> Any:
        here = {"datid": session.database_oid} if self.table is tables.pg_namespace else {}
        return one(session, self.table, **here, oid=oid)

    def row(self, session: CatalogSession, oid: int) -> Any:
        """The row of an object that must exist."""
        row = self.row_or_none(session, oid)
        assert row is not None
        return row


PROPERTIES = {
    system.PG_CLASS: ObjectProperty(tables.pg_class, "relation", "relname", "relowner", "relacl", ObjectKind.TABLE),
    system.PG_NAMESPACE: ObjectProperty(
        tables.pg_namespace, "schema", "nspname", "nspowner", "nspacl", ObjectKind.SCHEMA
    ),
    system.PG_PROC: ObjectProperty(tables.pg_proc, "function", "proname", "proowner", "proacl", ObjectKind.FUNCTION),
    system.PG_COLLATION: ObjectProperty(tables.pg_collation, "collation", "collname", "collowner"),
    system.PG_OPERATOR: ObjectProperty(tables.pg_operator, "operator", "oprname", "oprowner"),
    system.PG_TYPE: ObjectProperty(tables.pg_type, "type", "typname", "typowner", "typacl", ObjectKind.TYPE),
    system.PG_DEFAULT_ACL: ObjectProperty(tables.pg_default_acl, "default privileges", "", "defaclrole", "defaclacl"),
    system.PG_PUBLICATION: ObjectProperty(tables.pg_publication, "publication", "pubname", "pubowner"),
    system.PG_FOREIGN_SERVER: ObjectProperty(
        tables.pg_foreign_server, "server", "srvname", "srvowner", "srvacl", ObjectKind.FOREIGN_SERVER
    ),
    system.PG_USER_MAPPING: ObjectProperty(tables.pg_user_mapping, "user mapping", "", "umuser"),
    system.PG_SUBSCRIPTION: ObjectProperty(
        tables.pg_subscription, "subscription", "subname", "subowner", database="subdbid", is_shared=True
    ),
    system.PG_DATABASE: ObjectProperty(
        tables.pg_database, "database", "datname", "datdba", "datacl", ObjectKind.DATABASE, "", is_shared=True
    ),
}
_OF_TABLE = {properties.table: properties for properties in PROPERTIES.values()}


def property_of(row: Owned) -> ObjectProperty:
    return _OF_TABLE[type(row)]


_ROUTINES = (ObjectKind.FUNCTION, ObjectKind.PROCEDURE, ObjectKind.ROUTINE)
ALL_RIGHTS = {
    ObjectKind.TABLE: mask_of("INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN"),
    ObjectKind.COLUMN: mask_of("INSERT", "SELECT", "UPDATE", "REFERENCES"),
    ObjectKind.SEQUENCE: mask_of("USAGE", "SELECT", "UPDATE"),
    ObjectKind.DATABASE: mask_of("CREATE", "TEMPORARY", "CONNECT"),
    ObjectKind.SCHEMA: mask_of("USAGE", "CREATE"),
    **dict.fromkeys(_ROUTINES, BIT["EXECUTE"]),
    ObjectKind.TYPE: BIT["USAGE"],
    ObjectKind.LANGUAGE: BIT["USAGE"],
    ObjectKind.FOREIGN_SERVER: BIT["USAGE"],
}
_WORLD = {
    ObjectKind.DATABASE: mask_of("TEMPORARY", "CONNECT"),
    **dict.fromkeys(_ROUTINES, BIT["EXECUTE"]),
    ObjectKind.TYPE: BIT["USAGE"],
    ObjectKind.LANGUAGE: BIT["USAGE"],
}


class AclItem(NamedTuple):
    grantee: int  # 0: PUBLIC
    grantor: int
    privileges: int
    options: int = 0  # the privileges WITH GRANT OPTION


Acl = tuple[AclItem, ...]


# --- text ---------------------------------------------------------------------------------------------------------


def letters(privileges: int, options: int = 0) -> str:
    return "".join(
        letter + ("*" if options >> i & 1 else "")
        for i, letter in enumerate(LETTERS)
        if (privileges | options) >> i & 1
    )


def parse_acl(stored: Sequence[str] | None) -> Acl | None:
    """The items of a list that a system table holds; None: the object has its default privileges."""
    if stored is None:
        return None
    out = []
    for item in stored:
        grantee, _, rest = item.partition("=")
        rights, _, grantor = rest.partition("/")
        privileges = options = last = 0
        for letter in rights:
            if letter == "*":
                options |= last
            else:
                last = 1 << LETTERS.index(letter)
                privileges |= last
        out.append(AclItem(int(grantee or 0), int(grantor), privileges, options))
    return tuple(out)


def store_acl(acl: Iterable[AclItem]) -> list[str]:
    return [f"{i.grantee or ''}={letters(i.privileges, i.options)}/{i.grantor}" for i in acl]


def acl_text(session: CatalogSession, stored: Sequence[str] | None) -> list[str] | None:
    """The items as aclitemout prints them."""
    acl = parse_acl(stored)
    return None if acl is None else [item_text(session, item) for item in acl]


def item_text(session: CatalogSession, item: AclItem) -> str:
    grantee = "" if item.grantee == PUBLIC else _role_text(session, item.grantee)
    return f"{grantee}={letters(item.privileges, item.options)}/{_role_text(session, item.grantor)}"


def _role_text(session: CatalogSession, oid: int) -> str:
    row = role_row(session, oid)
    if row is None:
        return str(oid)
    name = str(row.rolname)
    if all((c.isascii() and c.isalnum()) or c == "_" for c in name):
        return name
    return '"' + name.replace('"', '""') + '"'


def default_acl(kind: ObjectKind, owner: int) -> Acl:
    """The privileges that a new object of a kind has (acldefault)."""
    out = []
    world = _WORLD.get(kind, 0)
    if world:
        out.append(AclItem(PUBLIC, owner, world))
    if kind is not ObjectKind.COLUMN:
        out.append(AclItem(owner, owner, ALL_RIGHTS[kind]))
    return tuple(out)


# --- decisions ----------------------------------------------------------------------------------------------------


def aclmask(session: CatalogSession, acl: Acl, role: int, owner: int, mask: int) -> int:
    """The privileges in `mask` that the role has by this list (aclmask)."""
    options = mask >> 16
    granted = 0
    if options and has_privs_of_role(session, role, owner):
        granted |= mask & (options << 16)
        if granted == mask:
            return granted
    for item in acl:
        if item.grantee == PUBLIC or (item.grantee == role) or has_privs_of_role(session, role, item.grantee):
            granted |= mask & (item.privileges | item.options << 16)
            if granted == mask:
                break
    return granted


def has_privilege(
    session: CatalogSession, kind: ObjectKind, row: Owned, privilege: str, role: int | None = None
) -> bool:
    """Has the role (the current one) this privilege on a schema or database, given by its row?"""
    bit = BIT[privilege]
    return object_mask(session, kind, row, session.role if role is None else role, bit) == bit


def object_mask(session: CatalogSession, kind: ObjectKind, row: Owned, role: int, mask: int) -> int:
    """The privileges in `mask` that the role has on an object that is no relation (object_aclmask,
    pg_namespace_aclmask)."""
    if is_superuser(session, role):
        return mask
    owner, stored = owner_and_acl(row)
    granted = aclmask(session, parse_acl(stored) or _default_or_empty(kind, owner, stored), role, owner, mask)
    if kind is ObjectKind.SCHEMA and mask & BIT["USAGE"] and not granted & BIT["USAGE"]:
        if has_privs_of_role(session, role, ROLE_READ_ALL_DATA) or has_privs_of_role(
            session, role, ROLE_WRITE_ALL_DATA
        ):
            granted |= BIT["USAGE"]
    return granted


def check_execute(session: CatalogSession, routine: pg_proc) -> None:
    """Raise unless the current role has EXECUTE on a user's routine."""
    if not has_privilege(session, ObjectKind.FUNCTION, routine, "EXECUTE"):
        what = "procedure" if routine.prokind == "p" else "function"
        raise PgError("42501", f"permission denied for {what} {routine.proname}")


def owner_and_acl(row: Owned) -> tuple[int, list[str] | None]:
    columns = property_of(row)
    return getattr(row, columns.owner), getattr(row, columns.acl)


def _default_or_empty(kind: ObjectKind, owner: int, stored: Sequence[str] | None) -> Acl:
    return default_acl(kind, owner) if stored is None else ()


class AclColumn(Protocol):
    @property
    def acl(self) -> Sequence[str] | None: ...


class AclRelation(Protocol):
    """The properties of a relation (relation.py) that decide about privileges on it."""

    @property
    def oid(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def owner(self) -> int: ...

    @property
    def acl(self) -> Sequence[str] | None: ...

    def attribute_by_number(self, num: int) -> AclColumn | None: ...


def relation_acl(relation: AclRelation) -> Acl:
    kind = ObjectKind.SEQUENCE if relation.kind == "S" else ObjectKind.TABLE
    acl = parse_acl(relation.acl)
    return default_acl(kind, relation.owner) if acl is None else acl


_CHANGES = mask_of("INSERT", "UPDATE", "DELETE", "TRUNCATE", "USAGE")
_DML = mask_of("INSERT", "UPDATE", "DELETE")


def relation_mask(session: CatalogSession, relation: AclRelation, role: int, mask: int) -> int:
    """The privileges in `mask` that the role has on the whole relation (pg_class_aclmask_ext)."""
    if is_superuser(session, role):
        return mask
    if mask & _CHANGES and relation.oid < FIRST_NORMAL_OID and relation.kind != "v":
        mask &= ~_CHANGES
    granted = aclmask(session, relation_acl(relation), role, relation.owner, mask)
    select = BIT["SELECT"]
    if mask & select and not granted & select and has_privs_of_role(session, role, ROLE_READ_ALL_DATA):
        granted |= select
    if mask & _DML and not granted & _DML and has_privs_of_role(session, role, ROLE_WRITE_ALL_DATA):
        granted |= mask & _DML
    maintain = BIT["MAINTAIN"]
    if mask & maintain and not granted & maintain and has_privs_of_role(session, role, ROLE_MAINTAIN):
        granted |= maintain
    return granted


def has_table_privilege(
    session: CatalogSession, relation: AclRelation, privilege: str, role: int | None = None
) -> bool:
    bit = BIT[privilege]
    return relation_mask(session, relation, session.role if role is None else role, bit) == bit


def has_column_privilege(
    session: CatalogSession, relation: AclRelation, attnum: int, privilege: str, role: int | None = None
) -> bool:
    """Has the role the privilege on the column, by the column's own list or the relation's?"""
    who = session.role if role is None else role
    if has_table_privilege(session, relation, privilege, who):
        return True
    attribute = relation.attribute_by_number(attnum)
    acl = parse_acl(attribute.acl) if attribute is not None else None
    bit = BIT[privilege]
    return acl is not None and aclmask(session, acl, who, relation.owner, bit) == bit


# --- refusals -----------------------------------------------------------------------------------------------------


def check_privilege(session: CatalogSession, kind: ObjectKind, row: Owned, privilege: str, name: str) -> None:
    if not has_privilege(session, kind, row, privilege):
        raise PgError("42501", f"permission denied for {kind.value} {name}")


def check_table_privilege(session: CatalogSession, relation: AclRelation, privilege: str) -> None:
    if not has_table_privilege(session, relation, privilege):
        raise permission_denied(relation)


_RELATION_WORDS = {
    "S": "sequence",
    "v": "view",
    "m": "materialized view",
    "i": "index",
    "I": "index",
    "f": "foreign table",
}


def relation_word(kind: str) -> str:
    """The word for a relation's kind in messages (get_relkind_objtype)."""
    return _RELATION_WORDS.get(kind, "table")


def permission_denied(relation: AclRelation) -> PgError:
    return PgError("42501", f"permission denied for {relation_word(relation.kind)} {relation.name}")


def is_owner(session: CatalogSession, owner: int, role: int | None = None) -> bool:
    """As object_ownercheck: a member of the owning role counts as the owner."""
    return has_privs_of_role(session, session.role if role is None else role, owner)


def check_owner(session: CatalogSession, word: str, name: str, owner: int) -> None:
    """An error, `must be owner of publication p`, unless the role owns the object; `word` names its kind."""
    if not is_owner(session, owner):
        raise PgError("42501", f"must be owner of {word} {name}")


def check_relation_owner(session: CatalogSession, relation: AclRelation) -> None:
    check_owner(session, relation_word(relation.kind), relation.name, relation.owner)


def check_may_create(session: CatalogSession, role: int | None = None) -> None:
    """An error unless the role (the current one) has CREATE on the database, which a new schema, publication or
    subscription needs."""
    database = current_database(session)
    if not has_privilege(session, ObjectKind.DATABASE, database, "CREATE", role):
        raise PgError("42501", f"permission denied for database {database.datname}")
