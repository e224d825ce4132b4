"""Temporary relations: a session's schema for them, ON COMMIT, and their removal at the session's end.

The schema is named after the process, `pg_temp_4711`; a further session of the same process takes `pg_temp_4711_2`. It
is created with the first temporary relation and dropped at the session's end. The relations of a killed process are
dropped when another process gets its number, as PostgreSQL does with the schema of a crashed backend.
"""

from __future__ import annotations

import itertools
from contextlib import suppress

from pgrepl.catalog import store, tables
from pgrepl.catalog.acl import ObjectKind, has_privilege
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER, PG_CLASS, ObjectAddress
from pgrepl.catalog.databases import current_database
from pgrepl.catalog.namespace import schema_or_none, temporary_schema
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.statements.deletion import drop_objects

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
    found = store.rows(session, tables.pg_class, datid=session.database_oid, relnamespace=namespace)
    addresses = [ObjectAddress(PG_CLASS, row.oid) for row in found]
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
    """DISCARD TEMP."""
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
    """As heap_truncate_check_FKs does for temporary tables."""
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
