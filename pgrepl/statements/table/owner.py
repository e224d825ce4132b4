"""OWNER TO: a new owner for a relation, its indexes and the sequences of its columns."""

from __future__ import annotations

from pgrepl.catalog import store
from pgrepl.catalog.acl import ObjectKind, check_relation_owner, has_privilege
from pgrepl.catalog.aclchange import with_new_owner
from pgrepl.catalog.indexes import indexes
from pgrepl.catalog.namespace import schema_row
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.relkind import not_supported
from pgrepl.catalog.roles import check_can_set_role, is_superuser
from pgrepl.catalog.sequences import sequences_of
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attribute, pg_class
from pgrepl.errors import PgError
from pgrepl.statements.table.permissions import refuse_owned_sequence

_INDEX_HINT = "Change the ownership of the index's table instead."


def reassign_relation(session: Session, oid: int, new_owner: int) -> None:
    """For REASSIGN OWNED, which has checked privileges already and visits sequences and indexes by themselves."""
    change_relation_owner(session, relation(session, oid), new_owner, recursing=True)


def change_relation_owner(session: Session, rel: Relation, new_owner: int, *, recursing: bool = False) -> None:
    """As ATExecChangeOwner does."""
    if rel.kind == "i" and not recursing:
        if rel.owner != new_owner:
            session.notice("WARNING", f'cannot change owner of index "{rel.name}"', sqlstate="42809", hint=_INDEX_HINT)
        return
    if not recursing:
        _refuse_kind(session, rel, new_owner)
    if rel.owner == new_owner:
        return
    if not recursing and not is_superuser(session):
        check_relation_owner(session, rel)
        check_can_set_role(session, session.role, new_owner)
        row = schema_row(session, rel.namespace)
        assert row is not None
        if not has_privilege(session, ObjectKind.SCHEMA, row, "CREATE", new_owner):
            raise PgError("42501", f"permission denied for schema {rel.schema}")
    acl = None if rel.acl is None else with_new_owner(list(rel.acl), rel.owner, new_owner)
    store.update(session, pg_class, {"oid": rel.oid}, relowner=new_owner, relacl=acl)
    for attribute in rel.columns:
        if attribute.acl is not None:
            changed = with_new_owner(list(attribute.acl), rel.owner, new_owner)
            store.update(session, pg_attribute, {"attrelid": rel.oid, "attnum": attribute.num}, attacl=changed)
    if rel.kind in ("r", "p", "m"):
        for index in indexes(session, rel.oid):
            change_relation_owner(session, relation(session, index.indexrelid), new_owner, recursing=True)
    for sequence, _, _ in sequences_of(session, rel.oid):
        change_relation_owner(session, relation(session, sequence), new_owner, recursing=True)


def _refuse_kind(session: Session, rel: Relation, new_owner: int) -> None:
    if rel.kind == "I":
        raise PgError("42809", f'cannot change owner of index "{rel.name}"', hint=_INDEX_HINT)
    if rel.kind == "S":
        if rel.owner == new_owner:
            return
        refuse_owned_sequence(session, rel, f'cannot change owner of sequence "{rel.name}"')
    elif rel.kind not in ("r", "v", "m", "f", "p"):
        raise PgError("42809", f'cannot change owner of relation "{rel.name}"', detail=not_supported(rel.kind))
