"""DROP … CASCADE and what it does with each object (doDeletion), OWNER TO and SET SCHEMA, and temporary relations.

The temporary schema is `pg_temp_4711`, of the process's number. Relations of a killed process are dropped when
another gets its number, as PostgreSQL does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress

from pgrepl.catalog.facts.acl import ObjectKind, check_owner, has_privilege, is_owner
from pgrepl.catalog.facts.depend import perform_deletion
from pgrepl.catalog.facts.namespace import (
    check_create,
    is_temporary,
    schema_name,
    schema_or_none,
    schema_row,
    temporary_schema,
)
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.roles import check_can_set_role, current_database, is_superuser
from pgrepl.catalog.facts.subscription import forget_dropped_relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store, system, tables
from pgrepl.catalog.store.declarative import SystemRow
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, PG_CLASS, PG_NAMESPACE, TOAST_NAMESPACE, ObjectAddress
from pgrepl.catalog.store.tables import pg_depend
from pgrepl.ground.errors import PgError
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
    rel = relation(session, oid)
    if rel.kind in "rpm":
        check_not_in_use(session, rel, "DROP TABLE")
    if rel.kind in ("i", "I"):
        store.delete(session, tables.pg_index, indexrelid=oid)
    if rel.kind == "p":
        store.delete(session, tables.pg_partitioned_table, partrelid=oid)
    if rel.is_partition and rel.kind in ("r", "p"):
        _forget_default_partition(session, oid)
    if rel.kind == "S":
        store.delete(session, tables.pg_sequence, seqrelid=oid)
    if rel.kind in ("r", "p"):
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
    for column in ("oprcom", "oprnegate"):  # no operator names one that is dropped
        where = {"datid": session.database_oid, column: address.objid}
        store.update(session, tables.pg_operator, where, **{column: 0})
    store.delete(session, tables.pg_operator, oid=address.objid)


def _remove_schema(session: Session, address: ObjectAddress) -> None:
    store.delete(session, tables.pg_namespace, datid=session.database_oid, oid=address.objid)


_REMOVALS: dict[int, Callable[[Session, ObjectAddress], None]] = {
    system.PG_CLASS: _remove_class,
    system.PG_COLLATION: _remove_row(tables.pg_collation),
    system.PG_CONSTRAINT: _remove_constraint,
    system.PG_ATTRDEF: _remove_default,
    system.PG_REWRITE: _remove_row(tables.pg_rewrite),
    system.PG_OPERATOR: _remove_operator,
    system.PG_PROC: _remove_row(tables.pg_proc),
    system.PG_TRIGGER: _remove_row(tables.pg_trigger),
    system.PG_TYPE: _remove_type,
    system.PG_NAMESPACE: _remove_schema,
    system.PG_DEFAULT_ACL: _remove_row(tables.pg_default_acl),
    system.PG_FOREIGN_SERVER: _remove_row(tables.pg_foreign_server),
    system.PG_USER_MAPPING: _remove_row(tables.pg_user_mapping),
    system.PG_PUBLICATION: _remove_row(tables.pg_publication),
    system.PG_PUBLICATION_REL: _remove_row(tables.pg_publication_rel),
    system.PG_PUBLICATION_NAMESPACE: _remove_row(tables.pg_publication_namespace),
    system.PG_AUTH_MEMBERS: _remove_row(tables.pg_auth_members),
}


# --- in schema --------------------------------------------------------------------------------------------------------


def check_may_drop(session: Session, word: str, name: str, owner: int, namespace: int) -> None:
    """The owner of the schema may drop it, too."""
    schema = schema_row(session, namespace)
    if schema is None or not is_owner(session, schema.nspowner):
        check_owner(session, word, name, owner)


def check_may_give(session: Session, word: str, name: str, owner: int, namespace: int, new_owner: int) -> None:
    """The role must own the object, and the new owner may create objects in its schema."""
    if is_superuser(session):
        return
    check_owner(session, word, name, owner)
    check_can_set_role(session, session.role, new_owner)
    check_create(session, namespace, new_owner)


def check_may_move(session: Session, before: int, namespace: int) -> None:
    """Raises for a schema into which an object cannot move (CheckSetNamespace)."""
    if is_temporary(schema_name(session, namespace)) or is_temporary(schema_name(session, before)):
        raise PgError("0A000", "cannot move objects into or out of temporary schemas")
    if TOAST_NAMESPACE in (namespace, before):
        raise PgError("0A000", "cannot move objects into or out of TOAST schema")


def depend_on_schema(session: Session, address: ObjectAddress, namespace: int) -> None:
    """The object that has moved depends on its new schema."""
    where = {
        "datid": session.database_oid, "classid": address.classid, "objid": address.objid, "objsubid": 0,
        "refclassid": PG_NAMESPACE,
    }  # fmt: skip
    store.update(session, pg_depend, where, refobjid=namespace)


# --- temporary --------------------------------------------------------------------------------------------------------


session_numbers = itertools.count(1)


def require_temporary_schema(session: Session) -> int:
    """The session's schema for temporary relations, created if needed (InitTempTableNamespace)."""
    existing = temporary_schema(session)
    session.transaction.uses_temporary = True
    database = current_database(session)
    if not has_privilege(session, ObjectKind.DATABASE, database, "TEMPORARY", session.role):
        if existing:
            raise PgError("42501", f"permission denied for schema {session.temporary_name}")
        raise PgError("42501", f'permission denied to create temporary tables in database "{database.datname}"')
    if existing:
        return existing
    if session.settings.get("transaction_read_only") == "on":
        raise PgError("25006", "cannot create temporary tables in a read-only transaction")
    first = not session.temporary_name
    if first:
        number = next(session_numbers)
        session.temporary_name = temporary_name(session) + (f"_{number}" if number > 1 else "")
    left = schema_or_none(session, session.temporary_name)
    if left is not None:
        _clear(session, left.oid)
        oid = int(left.oid)
    else:
        oid = store.new_oid(session)
        store.insert(
            session,
            tables.pg_namespace,
            datid=session.database_oid,
            oid=oid,
            nspname=session.temporary_name,
            nspowner=BOOTSTRAP_SUPERUSER,
            nspacl=None,
        )
    before, session.temporary_schema = session.temporary_schema, oid
    # a rollback frees the OID for another session's schema, which this session would take for its own, and drop
    session.transaction.undo.append(lambda: setattr(session, "temporary_schema", before))
    if first:
        session.at_close.append(lambda: _leave(session))
    return oid


def temporary_name(session: Session) -> str:
    """The name of the session's schema, or the one it is likely to get."""
    return session.temporary_name or f"pg_temp_{session.pid}"


def _clear(session: Session, namespace: int) -> None:
    relations = store.rows(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace)
    addresses = [ObjectAddress(PG_CLASS, row.oid) for row in relations]
    drop_objects(session, addresses, cascade=True, quietly=True)


def _leave(session: Session) -> None:
    """At the session's end, drop its temporary relations and their schema."""
    with suppress(PgError):  # the catalog is locked: the next process with this number drops them
        session.transaction.begin_statement()
        namespace = temporary_schema(session)
        if namespace:
            _clear(session, namespace)
            store.delete(session, tables.pg_namespace, datid=session.database_oid, oid=namespace)
        session.transaction.end_statement()


def discard_temporary(session: Session) -> None:
    namespace = temporary_schema(session)
    if namespace:
        _clear(session, namespace)


def drop_on_commit(session: Session, relid: int) -> None:
    """ON COMMIT DROP: the table is dropped when the transaction that creates it commits."""

    def drop() -> None:
        if store.one(session, tables.pg_class, oid=relid) is not None:
            drop_objects(session, [ObjectAddress(PG_CLASS, relid)], cascade=True, quietly=True)

    session.transaction.before_commit.append(drop)


def empty_on_commit(session: Session, relid: int) -> None:
    """ON COMMIT DELETE ROWS: every commit empties the table."""
    session.emptied_at_commit.append(relid)
    # a rollback frees the OID for another session's table, which keeps its rows
    session.transaction.undo.append(lambda: session.emptied_at_commit.remove(relid))
    check_at_commit(session)


def check_at_commit(session: Session) -> None:
    """Check, before this transaction commits, that no table keeps rows that reference emptied ones."""
    session.transaction.before_commit.append(lambda: _check_foreign_keys(session))


def _check_foreign_keys(session: Session) -> None:
    """A table that keeps its rows must not reference one that is emptied at COMMIT (heap_truncate_check_FKs)."""
    emptied = session.emptied_at_commit
    for relid in emptied:
        for key in store.rows(session, tables.pg_constraint, confrelid=relid, contype="f"):
            if key.conrelid not in emptied:
                names = [relation(session, oid).name for oid in (key.conrelid, relid)]
                raise PgError(
                    "0A000",
                    "unsupported ON COMMIT and foreign key combination",
                    detail=f'Table "{names[0]}" references "{names[1]}", but they do not have the same ON COMMIT '
                    "setting.",
                )
