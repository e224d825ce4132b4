"""Whether the current role may change a relation; system catalogs and owned sequences are refused."""

from __future__ import annotations

from pgrepl.catalog.acl import check_relation_owner
from pgrepl.catalog.depend import Dependency
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.sequences import owner_column
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.sql.nodes import ObjectType


def refuse_catalog(rel: Relation, name: str) -> None:
    """System catalogs cannot be changed (IsSystemClass without allow_system_table_mods)."""
    if rel.is_catalog:
        raise PgError("42501", f'permission denied: "{name}" is a system catalog')


_KINDS = {
    ObjectType.SEQUENCE: ("S", "a sequence"),
    ObjectType.VIEW: ("v", "a view"),
    ObjectType.MATVIEW: ("m", "a materialized view"),
    ObjectType.FOREIGN_TABLE: ("f", "a foreign table"),
    ObjectType.INDEX: ("iI", "an index"),
}


def check_alterable(session: Session, rel: Relation, kind: ObjectType, name: str, *, rename: bool = False) -> None:
    """As RangeVarCallbackForAlterRelation does: ALTER TABLE is for all kinds of relations, the others for their own."""
    check_relation_owner(session, rel)
    refuse_catalog(rel, name)
    if rename:
        from pgrepl.catalog.acl import ObjectKind, check_privilege
        from pgrepl.catalog.namespace import schema_row

        schema = schema_row(session, rel.namespace)
        assert schema is not None
        check_privilege(session, ObjectKind.SCHEMA, schema, "CREATE", rel.schema)
    if kind is ObjectType.TYPE and rel.kind != "c":
        raise PgError("42809", f'"{name}" is not a composite type')
    if kind is not ObjectType.TYPE and rel.kind == "c":
        raise PgError("42809", f'"{name}" is a composite type', hint="Use ALTER TYPE instead.")
    if kind in _KINDS and not (rename and kind is ObjectType.INDEX):
        kinds, words = _KINDS[kind]
        if rel.kind not in kinds:
            raise PgError("42809", f'"{name}" is not {words}')


def refuse_owned_sequence(session: Session, rel: Relation, message: str) -> None:
    """The sequence of a serial or identity column changes owner and schema only with its table."""
    for kind in (Dependency.AUTO, Dependency.INTERNAL):
        owner = owner_column(session, rel.oid, kind)
        if owner is not None:
            table = relation(session, owner[0]).name
            raise PgError("0A000", message, detail=f'Sequence "{rel.name}" is linked to table "{table}".')
