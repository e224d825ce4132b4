"""GRANT and REVOKE of privileges on tables, columns, sequences, schemas and databases (aclchk.c)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import (
    ALL_RIGHTS,
    BIT,
    NAMES,
    Acl,
    ObjectKind,
    Owned,
    aclmask,
    object_mask,
    owner_and_acl,
    property_of,
    relation_acl,
    relation_mask,
    store_acl,
)
from pgrepl.catalog.facts.namespace import explicit_schema, schema_by_name
from pgrepl.catalog.facts.privileges import best_grantor, effective_acl, grant, revoke
from pgrepl.catalog.facts.relation import Attribute, Relation, find_relation, range_var, relation
from pgrepl.catalog.facts.roles import database_by_name, resolve_role
from pgrepl.catalog.facts.subscription import server_by_name
from pgrepl.catalog.facts.user_types import type_row
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows, update
from pgrepl.catalog.store.system import FIRST_NORMAL_OID
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AccessPriv, GrantStmt, RoutineName
from pgrepl.sql.nodes.utility import ObjectType

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

KINDS_OF_OBJECTS = {
    ObjectType.TABLE: ObjectKind.TABLE,
    ObjectType.SEQUENCE: ObjectKind.SEQUENCE,
    ObjectType.SCHEMA: ObjectKind.SCHEMA,
    ObjectType.DATABASE: ObjectKind.DATABASE,
    ObjectType.FUNCTION: ObjectKind.FUNCTION,
    ObjectType.PROCEDURE: ObjectKind.PROCEDURE,
    ObjectType.ROUTINE: ObjectKind.ROUTINE,
    ObjectType.TYPE: ObjectKind.TYPE,
    ObjectType.DOMAIN: ObjectKind.TYPE,
    ObjectType.FOREIGN_SERVER: ObjectKind.FOREIGN_SERVER,
}
_SELECT = BIT["SELECT"]
# a REVOKE on the whole relation revokes from these, too
_SYSTEM_COLUMNS = {-6: "tableoid", -5: "cmax", -4: "xmax", -3: "cmin", -2: "xmin", -1: "ctid"}


@dataclass(frozen=True, slots=True)
class InternalGrant:
    """The change that a GRANT or REVOKE makes to each object."""

    is_grant: bool
    grantees: tuple[int, ...]
    all_privileges: bool
    privileges: int
    columns: tuple[AccessPriv, ...] = ()
    option: bool = False
    cascade: bool = False


def execute_grant(stmt: GrantStmt, session: Session) -> Result:
    """GRANT and REVOKE of privileges (ExecuteGrantStmt)."""
    kind = KINDS_OF_OBJECTS.get(stmt.kind)
    if kind is None:
        raise unsupported(f"{'GRANT' if stmt.is_grant else 'REVOKE'} ON {stmt.kind.value.upper()}")
    if stmt.grantor is not None and resolve_role(session, stmt.grantor) != session.role:
        raise PgError("0A000", "grantor must be current user")
    relations, objects = _targets(session, stmt, kind)
    grantees = tuple(resolve_role(session, spec, public_ok=True) for spec in stmt.grantees)
    change = InternalGrant(
        stmt.is_grant,
        grantees,
        not stmt.privileges,
        _privileges(stmt, kind),
        tuple(p for p in stmt.privileges if p.columns),
        stmt.grant_option,
        stmt.cascade,
    )
    for oid in relations:
        grant_on_relation(session, relation(session, oid), change, kind)
    for row in objects:
        grant_on_object(session, kind, row, change)
    return Result("GRANT" if stmt.is_grant else "REVOKE")


def _targets(session: Session, stmt: GrantStmt, kind: ObjectKind) -> tuple[list[int], Sequence[Owned]]:
    if stmt.kind in _ROUTINES:
        return [], _routines(session, stmt)
    if kind is ObjectKind.TYPE:
        return [], [_type(session, stmt, name) for name in stmt.objects]
    if kind is ObjectKind.SCHEMA:
        return [], [schema_by_name(session, name[-1]) for name in stmt.objects]
    if kind is ObjectKind.DATABASE:
        return [], [database_by_name(session, name[-1]) for name in stmt.objects]
    if kind is ObjectKind.FOREIGN_SERVER:
        return [], [server_by_name(session, name[-1]) for name in stmt.objects]
    if stmt.target == "all_in_schema":
        kinds = "S" if kind is ObjectKind.SEQUENCE else "rvmfp"
        return [oid for name in stmt.objects for oid in _relations_in(session, name[-1], kinds)], []
    return [find_relation(session, range_var(name)).oid for name in stmt.objects], []


_ROUTINES = {ObjectType.FUNCTION: "faw", ObjectType.PROCEDURE: "p", ObjectType.ROUTINE: "fawp"}


def _routines(session: Session, stmt: GrantStmt) -> list[tables.pg_proc]:
    if stmt.target == "all_in_schema":
        routines: list[tables.pg_proc] = []
        for name in stmt.objects:
            namespace = explicit_schema(session, name[-1])
            listed = rows(session, tables.pg_proc, datid=session.database_oid, pronamespace=namespace)
            routines += sorted(
                (row for row in listed if row.prokind in _ROUTINES[stmt.kind]), key=lambda row: int(row.oid)
            )
        return routines
    from pgrepl.statements.routine.alter import find_routine

    return [find_routine(session, stmt.kind, name) for name in stmt.routines if isinstance(name, RoutineName)]


def _type(session: Session, stmt: GrantStmt, name: tuple[str, ...]) -> tables.pg_type:
    """The type of this name, whose privileges are its own: not those of an array."""
    from pgrepl.statements.type.domain import type_of_parts

    oid = type_of_parts(session, name)
    row = type_row(session, oid)
    if stmt.kind is ObjectType.DOMAIN and (row is None or row.typtype != "d"):
        raise PgError("42809", f'"{".".join(name)}" is not a domain')
    if row is None:
        verb = "GRANT" if stmt.is_grant else "REVOKE"
        raise unsupported(f"{verb} ON TYPE of {type_text(session, oid)}")
    if row.typelem:
        hint = "Set the privileges of the element type instead."
        raise PgError("0LP01", "cannot set privileges of array types", hint=hint)
    return row


def _relations_in(session: Session, schema: str, kinds: str) -> list[int]:
    """The relations of a schema, kind by kind (objectsInSchemaToOids)."""
    namespace = explicit_schema(session, schema)
    relations = rows(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace)
    relations.sort(key=lambda row: row.oid)
    return [row.oid for kind in kinds for row in relations if row.relkind == kind]


def _privileges(stmt: GrantStmt, kind: ObjectKind) -> int:
    """The privileges on whole objects; those on columns are kept apart."""
    allowed = ALL_RIGHTS[kind]
    word = kind.value
    if kind is ObjectKind.TABLE:
        allowed |= ALL_RIGHTS[ObjectKind.SEQUENCE]
        word = "relation"
    if kind is not ObjectKind.TABLE and any(privilege.columns for privilege in stmt.privileges):
        raise PgError("0LP01", "column privileges are only valid for relations")
    return privilege_mask([privilege for privilege in stmt.privileges if not privilege.columns], allowed, word)


def privilege_mask(privileges: Iterable[AccessPriv], allowed: int, word: str) -> int:
    """An error names the first privilege that objects of this kind do not have."""
    mask = 0
    for privilege in privileges:
        bit = _bit(privilege.name)
        if bit & ~allowed:
            raise PgError("0LP01", f"invalid privilege type {_name(bit)} for {word}")
        mask |= bit
    return mask


def _bit(name: str | None) -> int:
    """The bit of a privilege's name (string_to_privilege)."""
    assert name is not None
    bit = BIT.get(name.upper())
    if bit is None:
        raise PgError("42601", f'unrecognized privilege type "{name.lower()}"')
    return bit


def _name(bit: int) -> str:
    name = NAMES[bit.bit_length() - 1]
    return "TEMP" if name == "TEMPORARY" else name


# --- relations and their columns --------------------------------------------------------------------------------------


def grant_on_relation(
    session: Session, rel: Relation, change: InternalGrant, kind: ObjectKind = ObjectKind.TABLE
) -> None:
    """GRANT and REVOKE on relations and their columns (ExecGrant_Relation)."""
    if rel.kind in "iI":
        raise PgError("42809", f'"{rel.name}" is an index')
    if kind is ObjectKind.SEQUENCE and rel.kind != "S":
        raise PgError("42809", f'"{rel.name}" is not a sequence')
    if rel.oid < FIRST_NORMAL_OID:  # its row is in no table of the catalog
        raise unsupported(f"{'GRANT' if change.is_grant else 'REVOKE'} on a system catalog")
    privileges = _relation_privileges(session, rel, change, kind)
    old_acl = relation_acl(rel)
    per_column: dict[int, int] = {}
    if not change.is_grant:
        system = () if rel.kind == "v" else _SYSTEM_COLUMNS
        for number in (*system, *(attribute.num for attribute in rel.columns)):
            per_column[number] = privileges & ALL_RIGHTS[ObjectKind.COLUMN]
    if privileges:
        actual = ObjectKind.SEQUENCE if rel.kind == "S" else ObjectKind.TABLE
        grantor, options = best_grantor(session, session.role, privileges, old_acl, rel.owner)
        if not options and not relation_mask(session, rel, grantor, _any_right(actual)):
            raise _denied(actual, rel.name)
        allowed = _restricted(session, change, privileges, options, change.all_privileges, f'"{rel.name}"')
        new_acl = changed_acl(session, old_acl, rel.owner, grantor, allowed, change)
        update(session, tables.pg_class, {"oid": rel.oid}, relacl=store_acl(new_acl))
    for privilege in change.columns:
        _add_column_privileges(session, rel, privilege, per_column)
    for number in sorted(per_column):
        if per_column[number]:
            attribute = rel.attributes[number - 1] if number > 0 else Attribute(number, _SYSTEM_COLUMNS[number], 0, -1)
            _grant_on_column(session, rel, attribute, per_column[number], old_acl, change)


def _any_right(kind: ObjectKind) -> int:
    return ALL_RIGHTS[kind] | ALL_RIGHTS[kind] << 16


def _denied(kind: ObjectKind, name: str) -> PgError:
    return PgError("42501", f"permission denied for {kind.value} {name}")


def _relation_privileges(session: Session, rel: Relation, change: InternalGrant, kind: ObjectKind) -> int:
    is_sequence = rel.kind == "S"
    if change.all_privileges and not change.privileges:
        return ALL_RIGHTS[ObjectKind.SEQUENCE if is_sequence else ObjectKind.TABLE]
    privileges = change.privileges
    if kind is not ObjectKind.TABLE:
        return privileges
    if is_sequence and privileges & ~ALL_RIGHTS[ObjectKind.SEQUENCE]:
        session.notice(
            "WARNING", f'sequence "{rel.name}" only supports USAGE, SELECT, and UPDATE privileges', sqlstate="0LP01"
        )
        return privileges & ALL_RIGHTS[ObjectKind.SEQUENCE]
    if not is_sequence and privileges & ~ALL_RIGHTS[ObjectKind.TABLE]:
        raise PgError("0LP01", "invalid privilege type USAGE for table")
    return privileges


def _add_column_privileges(session: Session, rel: Relation, privilege: AccessPriv, per_column: dict[int, int]) -> None:
    mask = ALL_RIGHTS[ObjectKind.COLUMN] if privilege.name is None else _bit(privilege.name)
    if mask & ~ALL_RIGHTS[ObjectKind.COLUMN]:
        raise PgError("0LP01", f"invalid privilege type {_name(mask)} for column")
    if rel.kind == "S" and mask & ~_SELECT:
        session.notice("WARNING", f'sequence "{rel.name}" only supports SELECT column privileges', sqlstate="0LP01")
        mask &= _SELECT
    for name in privilege.columns:
        attribute = rel.attribute(name)
        if attribute is None and name in _SYSTEM_COLUMNS.values() and rel.kind != "v":
            raise unsupported("GRANT on a system column")
        if attribute is None:
            raise PgError("42703", f'column "{name}" of relation "{rel.name}" does not exist')
        per_column[attribute.num] = per_column.get(attribute.num, 0) | mask


def _grant_on_column(
    session: Session, rel: Relation, attribute: Attribute, privileges: int, relation_list: Acl, change: InternalGrant
) -> None:
    """GRANT and REVOKE on a column (ExecGrant_Attribute)."""
    old = effective_acl(ObjectKind.COLUMN, rel.owner, attribute.acl)
    merged = (*relation_list, *old)
    grantor, options = best_grantor(session, session.role, privileges, merged, rel.owner)
    if not options:
        anything = _any_right(ObjectKind.COLUMN)
        has = relation_mask(session, rel, grantor, anything) | aclmask(session, old, grantor, rel.owner, anything)
        if not has:
            raise PgError("42501", f'permission denied for column "{attribute.name}" of relation "{rel.name}"')
    everything = privileges == ALL_RIGHTS[ObjectKind.COLUMN]
    named = f'column "{attribute.name}" of relation "{rel.name}"'
    allowed = _restricted(session, change, privileges, options, everything, named)
    new = changed_acl(session, old, rel.owner, grantor, allowed, change)
    if new or attribute.acl is not None:
        stored = store_acl(new) if new else None
        update(session, tables.pg_attribute, {"attrelid": rel.oid, "attnum": attribute.num}, attacl=stored)


def grant_on_object(session: Session, kind: ObjectKind, row: Owned, change: InternalGrant) -> None:
    """GRANT and REVOKE on an object that is no relation (ExecGrant_common)."""
    privileges = change.privileges
    if change.all_privileges and not privileges:
        privileges = ALL_RIGHTS[kind]
    owner, stored = owner_and_acl(row)
    acl = effective_acl(kind, owner, stored)
    columns = property_of(row)
    name = getattr(row, columns.name)
    grantor, options = best_grantor(session, session.role, privileges, acl, owner)
    if not options and not object_mask(session, kind, row, grantor, _any_right(kind)):
        raise _denied(kind, name)
    allowed = _restricted(session, change, privileges, options, change.all_privileges, f'"{name}"')
    new = store_acl(changed_acl(session, acl, owner, grantor, allowed, change))
    key = {"datid": row.datid, "oid": row.oid} if isinstance(row, tables.pg_namespace) else {"oid": row.oid}
    update(session, columns.table, key, **{columns.acl: new})


# --- both -------------------------------------------------------------------------------------------------------------


def _restricted(
    session: Session, change: InternalGrant, privileges: int, options: int, everything: bool, named: str
) -> int:
    """The privileges that the grantor may grant, with a warning if some are missing (restrict_and_check_grant)."""
    allowed = privileges & options
    if allowed and (everything or allowed == privileges):
        return allowed
    amount = "not all" if allowed else "no"
    if change.is_grant:
        session.notice("WARNING", f"{amount} privileges were granted for {named}", sqlstate="01007")
    else:
        session.notice("WARNING", f"{amount} privileges could be revoked for {named}", sqlstate="01006")
    return allowed


def changed_acl(session: Session, acl: Acl, owner: int, grantor: int, privileges: int, change: InternalGrant) -> Acl:
    """A list with privileges added or taken away (merge_acl_with_grant)."""
    grantees: Iterable[int] = change.grantees
    if change.is_grant:
        return grant(session, acl, owner, grantor, tuple(grantees), privileges, option=change.option)
    return revoke(
        session, acl, owner, grantor, tuple(grantees), privileges, option_only=change.option, cascade=change.cascade
    )
