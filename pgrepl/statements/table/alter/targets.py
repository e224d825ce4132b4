"""The relations that an action of ALTER TABLE may change: by kind and owner, but no system catalogs."""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.catalog.acl import check_relation_owner
from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Attribute, Relation, oid_in_schema, relation
from pgrepl.catalog.relkind import not_supported
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr.index_info import IndexInfo, index_info
from pgrepl.statements.table.columns import SYSTEM_COLUMNS
from pgrepl.statements.table.permissions import refuse_catalog

TABLE = "rp"
VIEW = "v"
MATVIEW = "m"
INDEX = "i"
PARTITIONED_INDEX = "I"
SEQUENCE = "S"
FOREIGN = "f"
COMPOSITE = "c"


def check_target(session: Session, action: str, rel: Relation, kinds: str) -> None:
    """As ATSimplePermissions does; `kinds` are relkinds."""
    if rel.kind not in kinds:
        raise PgError(
            "42809",
            f'ALTER action {action} cannot be performed on relation "{rel.name}"',
            detail=not_supported(rel.kind),
        )
    check_relation_owner(session, rel)
    refuse_catalog(rel, rel.name)


def for_children(session: Session, rel: Relation, action: Callable[[Relation], None]) -> None:
    """Apply an action to all relations that inherit from this one, at any depth (ATSimpleRecursion)."""
    if rel.has_subclass:
        for oid in inheritors(session, rel.oid)[1:]:
            action(relation(session, oid))


def column_of(rel: Relation, name: str, *, verb: str = "alter") -> Attribute:
    """The column of this name; system columns cannot be changed."""
    found = rel.attribute(name)
    if found is None:
        if name in SYSTEM_COLUMNS:
            raise PgError("0A000", f'cannot {verb} system column "{name}"')
        raise missing_column(rel, name)
    return found


def missing_column(rel: Relation, name: str) -> PgError:
    return PgError("42703", f'column "{name}" of relation "{rel.name}" does not exist')


def index_of(session: Session, rel: Relation, name: str) -> IndexInfo:
    """The index of a table that CLUSTER ON or REPLICA IDENTITY USING INDEX names."""
    oid = oid_in_schema(session, rel.namespace, name)
    if oid is None:
        raise PgError("42704", f'index "{name}" for table "{rel.name}" does not exist')
    if relation(session, oid).kind not in ("i", "I"):
        raise PgError("42809", f'"{name}" is not an index')
    info = index_info(session, oid)
    if info.table != rel.oid:
        raise PgError("42809", f'"{name}" is not an index for table "{rel.name}"')
    return info
