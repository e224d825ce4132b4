"""Taking away tables, columns, constraints, defaults and rules when a deletion reaches them (what doDeletion does)."""

from __future__ import annotations

from pgrepl.catalog import store, tables
from pgrepl.catalog.classes import PG_ATTRDEF, PG_CLASS, PG_CONSTRAINT, PG_REWRITE, PG_TYPE, ObjectAddress
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.subscription import forget_dropped_relation
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.statements.base import removes


@removes(PG_CLASS)
def remove_class(session: Session, address: ObjectAddress) -> None:
    if address.subid:
        remove_column(session, address.objid, address.subid)
    else:
        remove_relation(session, address.objid)


@removes(PG_TYPE)
def remove_type(session: Session, address: ObjectAddress) -> None:
    """A row type has no row of its own: it goes with its table."""


def remove_relation(session: Session, oid: int) -> None:
    found = relation(session, oid)
    if found.kind in ("r", "p"):
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


def remove_column(session: Session, relid: int, attnum: int) -> None:
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


@removes(PG_CONSTRAINT)
def remove_constraint(session: Session, address: ObjectAddress) -> None:
    row = store.one(session, tables.pg_constraint, oid=address.objid)
    if row is None:
        return
    if row.contype == "c":
        checks = relation(session, row.conrelid).checks
        store.update(session, tables.pg_class, {"oid": row.conrelid}, relchecks=checks - 1)
    store.delete(session, tables.pg_constraint, oid=row.oid)


@removes(PG_ATTRDEF)
def remove_default(session: Session, address: ObjectAddress) -> None:
    row = store.one(session, tables.pg_attrdef, oid=address.objid)
    if row is None:
        return
    store.update(session, tables.pg_attribute, {"attrelid": row.adrelid, "attnum": row.adnum}, atthasdef=False)
    store.delete(session, tables.pg_attrdef, oid=row.oid)


@removes(PG_REWRITE)
def remove_rule(session: Session, address: ObjectAddress) -> None:
    store.delete(session, tables.pg_rewrite, oid=address.objid)
