"""DROP … CASCADE, and what it does with each object that it reaches (doDeletion): tables, columns, constraints,
defaults, rules, schemas, publications and their members, memberships of roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgrepl.catalog import classes, store, tables
from pgrepl.catalog.classes import ObjectAddress
from pgrepl.catalog.declarative import SystemRow
from pgrepl.catalog.depend import perform_deletion
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.subscription import forget_dropped_relation
from pgrepl.errors import PgError
from pgrepl.rows.in_use import check_not_in_use


def drop_objects(session: Session, addresses: Sequence[ObjectAddress], *, cascade: bool, quietly: bool = False) -> None:
    """DROP … [RESTRICT | CASCADE] of objects that the caller has found and may drop."""
    perform_deletion(session, addresses, cascade=cascade, remove=_remove_object, quietly=quietly)


def _remove_object(session: Session, address: ObjectAddress) -> None:
    removal = _REMOVALS.get(address.classid)
    if removal is None:
        raise PgError("XX000", f"unsupported object class: {address.classid}")
    removal(session, address)


def _remove_class(session: Session, address: ObjectAddress) -> None:
    if address.subid:
        _remove_column(session, address.objid, address.subid)
    else:
        _remove_relation(session, address.objid)


def _remove_type(session: Session, address: ObjectAddress) -> None:
    """Remove a type, the labels of an enum, what a range is made of. A row type of a table has no row of its own: it
    is dropped with its table."""
    row = store.one(session, tables.pg_type, oid=address.objid)
    if row is None:
        return
    if row.typtype == "e":
        store.delete(session, tables.pg_enum, enumtypid=row.oid)
    elif row.typtype == "r":
        store.delete(session, tables.pg_range, rngtypid=row.oid)
    store.delete(session, tables.pg_type, oid=row.oid)


def _remove_relation(session: Session, oid: int) -> None:
    found = relation(session, oid)
    if found.kind in "rpm":
        check_not_in_use(session, found, "DROP TABLE")
    if found.kind in ("i", "I"):
        store.delete(session, tables.pg_index, indexrelid=oid)
    if found.kind == "p":
        store.delete(session, tables.pg_partitioned_table, partrelid=oid)
    if found.is_partition and found.kind in ("r", "p"):
        _forget_default_partition(session, oid)
    if found.kind == "S":
        store.delete(session, tables.pg_sequence, seqrelid=oid)
    if found.kind in ("r", "p"):
        forget_dropped_relation(session, oid)
    store.delete(session, tables.pg_inherits, inhrelid=oid)
    store.delete(session, tables.pg_attribute, attrelid=oid)
    store.delete(session, tables.pg_class, oid=oid)


def _forget_default_partition(session: Session, oid: int) -> None:
    for row in store.rows(session, tables.pg_inherits, inhrelid=oid):
        key = store.one(session, tables.pg_partitioned_table, partrelid=row.inhparent)
        if key is not None and key.partdefid == oid:
            store.update(session, tables.pg_partitioned_table, {"partrelid": row.inhparent}, partdefid=0)


def _remove_column(session: Session, relid: int, attnum: int) -> None:
    """The column keeps its number and loses the rest, as RemoveAttributeById does."""
    store.update(
        session,
        tables.pg_attribute,
        {"attrelid": relid, "attnum": attnum},
        attname=f"........pg.dropped.{attnum}........",
        attisdropped=True,
        atttypid=0,
        attnotnull=False,
        attgenerated="",
        atthasmissing=False,
        attmissingval=None,
        attstattarget=None,
        attacl=None,
        attoptions=None,
    )


def _remove_constraint(session: Session, address: ObjectAddress) -> None:
    row = store.one(session, tables.pg_constraint, oid=address.objid)
    if row is None:
        return
    if row.contype == "c" and row.conrelid:
        checks = relation(session, row.conrelid).checks
        store.update(session, tables.pg_class, {"oid": row.conrelid}, relchecks=checks - 1)
    store.delete(session, tables.pg_trigger, tgconstraint=row.oid, tgisinternal=True)
    store.delete(session, tables.pg_constraint, oid=row.oid)


def _remove_default(session: Session, address: ObjectAddress) -> None:
    row = store.one(session, tables.pg_attrdef, oid=address.objid)
    if row is None:
        return
    store.update(session, tables.pg_attribute, {"attrelid": row.adrelid, "attnum": row.adnum}, atthasdef=False)
    store.delete(session, tables.pg_attrdef, oid=row.oid)


def _remove_row(table: type[SystemRow]) -> Callable[[Session, ObjectAddress], None]:
    """A removal that deletes only the object's own row."""

    def remove(session: Session, address: ObjectAddress) -> None:
        store.delete(session, table, oid=address.objid)

    return remove


def _remove_operator(session: Session, address: ObjectAddress) -> None:
    from pgrepl.statements.operator.links import unlink

    unlink(session, address.objid)
    store.delete(session, tables.pg_operator, oid=address.objid)


def _remove_schema(session: Session, address: ObjectAddress) -> None:
    store.delete(session, tables.pg_namespace, datid=session.database_oid, oid=address.objid)


_REMOVALS: dict[int, Callable[[Session, ObjectAddress], None]] = {
    classes.PG_CLASS: _remove_class,
    classes.PG_COLLATION: _remove_row(tables.pg_collation),
    classes.PG_CONSTRAINT: _remove_constraint,
    classes.PG_ATTRDEF: _remove_default,
    classes.PG_REWRITE: _remove_row(tables.pg_rewrite),
    classes.PG_OPERATOR: _remove_operator,
    classes.PG_PROC: _remove_row(tables.pg_proc),
    classes.PG_TRIGGER: _remove_row(tables.pg_trigger),
    classes.PG_TYPE: _remove_type,
    classes.PG_NAMESPACE: _remove_schema,
    classes.PG_DEFAULT_ACL: _remove_row(tables.pg_default_acl),
    classes.PG_PUBLICATION: _remove_row(tables.pg_publication),
    classes.PG_PUBLICATION_REL: _remove_row(tables.pg_publication_rel),
    classes.PG_PUBLICATION_NAMESPACE: _remove_row(tables.pg_publication_namespace),
    classes.PG_AUTH_MEMBERS: _remove_row(tables.pg_auth_members),
}
