"""has_table_privilege and similar functions: for a role, or the current one; roles and objects by name or by OID.

The text of privileges is a list: true if the role has any of them, `WITH GRANT OPTION` included if the text says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from pgrepl.catalog.facts import acl
from pgrepl.catalog.facts.acl import BIT, ObjectKind
from pgrepl.catalog.facts.namespace import routine_row, schema_by_name, schema_row
from pgrepl.catalog.facts.relation import Relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import is_active
from pgrepl.catalog.facts.roles import (
    has_privs_of_role,
    is_admin_of_role,
    is_member_of_role,
    is_superuser,
    member_can_set_role,
    role_by_name,
)
from pgrepl.catalog.facts.subscription import server_by_name
from pgrepl.catalog.facts.user_types import rowtype_relation, type_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.tables import pg_database, pg_foreign_server
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.ground.errors import PgError
from pgrepl.query.run import is_public
from pgrepl.query.system.functions.names import relation_named
from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.builtin import proc_by_oid, type_by_oid

implements = Family()

PUBLIC = 0


def _role(session: Session, given: Any) -> int:
    if isinstance(given, int):
        return given
    return PUBLIC if given == "public" else int(role_by_name(session, given).oid)


def _masks(text: str, allowed: Iterable[str]) -> list[int]:
    """The masks of a list of privileges; grant options are in the upper bits (convert_any_priv_string)."""
    names = set(allowed)
    bits = []
    for word in text.split(","):
        name = word.strip().upper()
        plain = name.removesuffix(" WITH GRANT OPTION")
        if plain not in names:
            raise PgError("22023", f'unrecognized privilege type: "{word.strip()}"')
        bit = BIT[plain]
        bits.append(bit << 16 if plain != name else bit)
    return bits


_TABLE = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN")
_SEQUENCE = ("USAGE", "SELECT", "UPDATE")
_COLUMN = ("SELECT", "INSERT", "UPDATE", "REFERENCES")
_SCHEMA = ("CREATE", "USAGE")
_DATABASE = ("CREATE", "TEMPORARY", "TEMP", "CONNECT")

Check = Callable[..., bool | None]


def _family(name: str, check: Check, kinds: Iterable[str] = ("",)) -> None:
    """The forms of one function, by names and OIDs; `check` gets session, role and what follows it."""

    def with_role(call: Call, role: Any, *rest: Any) -> bool | None:
        return check(call.session, _role(call.session, role), *rest)

    def current(call: Call, *rest: Any) -> bool | None:
        return check(call.session, call.session.role, *rest)

    forms = [f"{of}{kind}" for of in ("name", "id") for kind in kinds]
    implements(*[f"{name}_{role}_{form}" for role in ("name", "id") for form in forms], context=True)(with_role)
    implements(*[f"{name}_{form}" for form in forms], context=True)(current)


def _on_object(session: Session, kind: ObjectKind, row: Any, role: int, masks: list[int]) -> bool | None:
    return None if row is None else any(acl.object_mask(session, kind, row, role, m) == m for m in masks)


def _relation(session: Session, given: Any) -> Relation | None:
    return relation_or_none(session, given) if isinstance(given, int) else relation_named(session, given)


def _on_table(session: Session, role: int, given: Any, text: str) -> bool | None:
    masks = _masks(text, _TABLE)
    rel = _relation(session, given)
    return None if rel is None else any(acl.relation_mask(session, rel, role, m) == m for m in masks)


def _on_sequence(session: Session, role: int, given: Any, text: str) -> bool | None:
    masks = _masks(text, _SEQUENCE)
    rel = _relation(session, given)
    if rel is not None and rel.kind != "S":
        raise PgError("42809", f'"{rel.name}" is not a sequence')
    return None if rel is None else any(acl.relation_mask(session, rel, role, m) == m for m in masks)


def _on_any_column(session: Session, role: int, given: Any, text: str) -> bool | None:
    masks = _masks(text, _COLUMN)
    rel = _relation(session, given)
    if rel is None:
        return None
    columns = [a.num for a in rel.columns]
    return any(_column(session, rel, number, role, m) for m in masks for number in columns)


def _column(session: Session, rel: Relation, number: int, role: int, mask: int) -> bool:
    if acl.relation_mask(session, rel, role, mask) == mask:
        return True
    attribute = rel.attribute_by_number(number)
    listed = acl.parse_acl(attribute.acl) if attribute is not None else None
    return listed is not None and acl.aclmask(session, listed, role, rel.owner, mask) == mask


def _on_schema(session: Session, role: int, given: Any, text: str) -> bool | None:
    masks = _masks(text, _SCHEMA)
    row = schema_row(session, given) if isinstance(given, int) else schema_by_name(session, given)
    return _on_object(session, ObjectKind.SCHEMA, row, role, masks)


def _on_database(session: Session, role: int, given: Any, text: str) -> bool | None:
    masks = _masks(text, _DATABASE)
    if isinstance(given, int):
        row = one(session, pg_database, oid=given)
    else:
        row = one(session, pg_database, datname=given)
        if row is None:
            raise PgError("3D000", f'database "{given}" does not exist')
    return _on_object(session, ObjectKind.DATABASE, row, role, masks)


def _on_function(session: Session, role: int, given: Any, text: str) -> bool | None:
    masks = _masks(text, ("EXECUTE",))
    oid = given if isinstance(given, int) else session.object_oid(oids.REGPROCEDURE, given)
    row = routine_row(session, oid)
    if row is not None:
        return _on_object(session, ObjectKind.FUNCTION, row, role, masks)
    proc = proc_by_oid(oid)
    return None if proc is None else is_superuser(session, role) or is_public(proc)


def _on_server(session: Session, role: int, given: Any, text: str) -> bool | None:
    masks = _masks(text, ("USAGE",))
    by_oid = isinstance(given, int)
    row = one(session, pg_foreign_server, oid=given) if by_oid else server_by_name(session, given)
    return _on_object(session, ObjectKind.FOREIGN_SERVER, row, role, masks)


def _on_type(session: Session, role: int, given: Any, text: str) -> bool | None:
    masks = _masks(text, ("USAGE",))
    oid = given if isinstance(given, int) else session.object_oid(oids.REGTYPE, given)
    known = type_by_oid(session.type_of(oid))
    row = type_row(session, int(known.elem) if known is not None and known.category == "A" else oid)
    if row is not None:
        return _on_object(session, ObjectKind.TYPE, row, role, masks)
    if known is None and rowtype_relation(session, oid) is None:
        return None
    return is_superuser(session, role) or any(m >> 16 == 0 for m in masks)


_family("has_type_privilege", _on_type)
_family("has_server_privilege", _on_server)
_family("has_function_privilege", _on_function)
_family("has_table_privilege", _on_table)
_family("has_sequence_privilege", _on_sequence)
_family("has_any_column_privilege", _on_any_column)
_family("has_schema_privilege", _on_schema)
_family("has_database_privilege", _on_database)


def _on_column(session: Session, role: int, given: Any, column: Any, text: str) -> bool | None:
    masks = _masks(text, _COLUMN)
    rel = _relation(session, given)
    if rel is None:
        return None
    if isinstance(column, int):
        attribute = rel.attribute_by_number(column)
    else:
        attribute = rel.attribute(column)
        if attribute is None:
            raise PgError("42703", f'column "{column}" of relation "{rel.name}" does not exist')
    if attribute is None or attribute.dropped:
        return None
    return any(_column(session, rel, attribute.num, role, m) for m in masks)


_family("has_column_privilege", _on_column, ("_name", "_attnum"))


# --- roles ----------------------------------------------------------------------------------------------------------


def _on_role(session: Session, role: int, given: Any, text: str) -> bool | None:
    target = given if isinstance(given, int) else int(role_by_name(session, given).oid)
    return any(check(session, role, target) for check in _role_checks(text))


@lru_cache(64)
def _role_checks(text: str) -> tuple[Callable[[Session, int, int], bool], ...]:
    """What checks each of the listed privileges on a role."""
    checks: list[Callable[[Session, int, int], bool]] = []
    for word in text.split(","):
        name = word.strip().upper()
        plain = name.removesuffix(" WITH ADMIN OPTION").removesuffix(" WITH GRANT OPTION")
        if plain not in _ROLE_CHECKS:
            raise PgError("22023", f'unrecognized privilege type: "{word.strip()}"')
        checks.append(_ROLE_CHECKS[plain] if plain == name else is_admin_of_role)
    return tuple(checks)


_ROLE_CHECKS = {"MEMBER": is_member_of_role, "USAGE": has_privs_of_role, "SET": member_can_set_role}


_family("pg_has_role", _on_role)


@implements("row_security_active", context=True)
def row_security_active(call: Call, oid: int) -> bool | None:
    rel = relation_or_none(call.session, oid)
    return None if rel is None else is_active(call.session, rel)


@implements("row_security_active_name", context=True)
def row_security_active_name(call: Call, name: str) -> bool:
    return is_active(call.session, relation_named(call.session, name))


# --- access lists ---------------------------------------------------------------------------------------------------


@implements("aclexplode", context=True)
def aclexplode(call: Call, items: Any) -> list[tuple[int, int, str, bool]]:
    exploded = []
    for item in acl.parse_acl([_with_oids(call.session, text) for text in items.items]) or ():
        for name in acl.NAMES:
            if item.privileges & BIT[name]:
                exploded.append((item.grantor, item.grantee, name, bool(item.options & BIT[name])))
    return exploded


_ACL_ITEM = re.compile(r'("(?:[^"]|"")*"|[^=]*)=([^/]*)/(.*)', re.DOTALL)


def _with_oids(session: Session, text: str) -> str:
    """The text of an aclitem with OIDs, as it is stored, instead of role names."""
    parts = _ACL_ITEM.fullmatch(text)
    if parts is None:
        raise PgError("22P02", f'invalid input syntax for type aclitem: "{text}"')

    def oid(name: str) -> str:
        plain = name[1:-1].replace('""', '"') if name.startswith('"') else name
        return plain if not plain or plain.isdecimal() else str(role_by_name(session, plain).oid)

    return f"{oid(parts[1])}={parts[2]}/{oid(parts[3])}"


_DEFAULTS = {
    "r": ObjectKind.TABLE,
    "s": ObjectKind.SEQUENCE,
    "n": ObjectKind.SCHEMA,
    "d": ObjectKind.DATABASE,
    "c": ObjectKind.COLUMN,
    "f": ObjectKind.FUNCTION,
    "T": ObjectKind.TYPE,
    "l": ObjectKind.LANGUAGE,
}
# the owner's privileges on what nobody makes here: large objects, tablespaces, wrappers, servers, parameters
_OF_OTHERS = {"L": "rw", "t": "C", "F": "U", "S": "U", "p": "sA"}


@implements("acldefault_sql", context=True)
def acldefault(call: Call, kind: str, owner: int) -> Any:
    if kind in _OF_OTHERS:
        name = acl.item_text(call.session, acl.AclItem(owner, owner, 0)).partition("=")[0]
        return array_of(oids.ACLITEM, [f"{name}={_OF_OTHERS[kind]}/{name}"])
    if kind not in _DEFAULTS:
        raise PgError("XX000", f"unrecognized object type abbreviation: {kind}")
    return array_of(
        oids.ACLITEM, [acl.item_text(call.session, item) for item in acl.default_acl(_DEFAULTS[kind], owner)]
    )
