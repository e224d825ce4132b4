"""BEGIN, COMMIT, savepoints and two-phase commit; LOCK TABLE, LISTEN and NOTIFY, cursors, CHECKPOINT.

Reading takes no lock, so that ACCESS EXCLUSIVE keeps out writers and definitions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import has_table_privilege, permission_denied
from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors, not_supported
from pgrepl.catalog.facts.roles import has_privs_of_role as may_act_as
from pgrepl.catalog.facts.roles import is_superuser, role_or_none
from pgrepl.catalog.locks.lock_table import RelationMode
from pgrepl.catalog.locks.notifications import notifications
from pgrepl.catalog.session.context import Block, refuse_in_recovery
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.catalog.store.files import sync_log
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.rewrite import folding
from pgrepl.expr.rewrite.views import view_query, view_role
from pgrepl.expr.tree import Query, RteKind, SubLink, has_modifying_cte
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.lake import prepared
from pgrepl.lake.prepared import Prepared
from pgrepl.query import run
from pgrepl.query.portal import (
    Declared,
    Portal,
    close_all,
    close_portal,
    cursor_rows,
    find_portal,
    open_portal,
    scrolls,
)
from pgrepl.query.result import NO_ORIGIN, Result, ResultColumn, listed_columns, told_columns
from pgrepl.query.rowset import LocalRows
from pgrepl.query.run import as_values, texts_for, with_table_locks
from pgrepl.query.shape import locks_rows
from pgrepl.rows.locking import lock_tables
from pgrepl.sql.nodes import CheckPointStmt, ClosePortalStmt, DeclareCursorStmt, FetchStmt, LockStmt
from pgrepl.sql.nodes.utility import TransactionKind, TransactionStmt
from pgrepl.statements.settings import set_transaction
from pgrepl.types.names import format_type

if TYPE_CHECKING:
    from pgrepl.sql.nodes import ListenStmt, NotifyStmt, UnlistenStmt


_LONGEST = 200  # bytes of an identifier, with the zero at its end (GIDSIZE)


def prepare(session: Session, gid: str) -> str:
    """As PrepareTransactionBlock; returns the command tag, which is that of a ROLLBACK if nothing is prepared."""
    transaction = session.transaction
    refuse_in_recovery(session, "PREPARE TRANSACTION")
    if transaction.block is Block.ABORTED:
        return transaction.commit_block()
    if transaction.block is Block.NONE:
        return transaction.rollback_block()
    if transaction.block is Block.IMPLICIT:
        session.notice("WARNING", "there is no transaction in progress", sqlstate="25P01")
    try:
        _check(session, gid)
        prepared.prepare(session, gid)
    except PgError:
        transaction.block = Block.NONE  # whatever is wrong, the transaction is lost
        raise
    return "PREPARE TRANSACTION"


def _check(session: Session, gid: str) -> None:
    """Raises where a transaction cannot be prepared (PrepareTransaction, MarkAsPreparing)."""
    transaction = session.transaction
    if any(portal.declared.holds and not portal.is_held for portal in transaction.portals.values()):
        raise PgError("0A000", "cannot PREPARE a transaction that has created a cursor WITH HOLD")
    if transaction.uses_temporary:
        raise PgError("0A000", "cannot PREPARE a transaction that has operated on temporary objects")
    if transaction.exported:
        raise PgError("0A000", "cannot PREPARE a transaction that has exported snapshots")
    if len(gid.encode()) >= _LONGEST:
        raise PgError("22023", f'transaction identifier "{gid}" is too long')
    prepared.check_enabled(session)
    if transaction.notifications is not None and transaction.notifications.has_pending:
        raise PgError("0A000", "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY")
    if transaction.locks.has_of_both:
        raise PgError(
            "0A000", "cannot PREPARE while holding both session-level and transaction-level locks on the same object"
        )
    if session.origin is not None:
        raise unsupported("PREPARE TRANSACTION in a session with a replication origin")
    if not transaction.can_keep_pending:
        raise unsupported("PREPARE TRANSACTION in a catalog on a PostgreSQL server")


def finish(session: Session, gid: str, *, commit: bool) -> str:
    """COMMIT PREPARED and ROLLBACK PREPARED (FinishPreparedTransaction)."""
    what = "COMMIT PREPARED" if commit else "ROLLBACK PREPARED"
    require_no_block(session, what)
    refuse_in_recovery(session, what)
    session.transaction.require_write()
    prepared.finish(session, _locked(session, gid), commit=commit)
    return what


def _locked(session: Session, gid: str) -> Prepared:
    """A prepared transaction, for who may end it (LockGXact)."""
    transaction = prepared.found(session, gid)
    if transaction is None:
        raise PgError("42704", f'prepared transaction with identifier "{gid}" does not exist')
    if session.role != transaction.owner and not is_superuser(session):
        raise PgError(
            "42501",
            "permission denied to finish prepared transaction",
            hint="Must be superuser or the user that prepared the transaction.",
        )
    if session.database_oid != transaction.database:
        raise PgError(
            "0A000",
            "prepared transaction belongs to another database",
            hint="Connect to the database where the transaction was prepared to finish it.",
        )
    return transaction


# --- transaction ------------------------------------------------------------------------------------------------------


def execute_transaction(stmt: TransactionStmt, session: Session) -> Result:
    return Result(_run(stmt, session))


def _run(stmt: TransactionStmt, session: Session) -> str:
    transaction = session.transaction
    kind = stmt.kind
    if kind in (TransactionKind.BEGIN, TransactionKind.START):
        before = transaction.block
        transaction.begin_block()
        try:
            set_transaction(session, stmt.options)
        except PgError:
            if before is not Block.EXPLICIT:
                transaction.block = before  # there is no block to leave
            raise
        return str(kind.value)
    if kind is TransactionKind.COMMIT:
        return transaction.commit_block(chain=stmt.chain)
    if kind is TransactionKind.ROLLBACK:
        return transaction.rollback_block(chain=stmt.chain)
    if kind is TransactionKind.PREPARE:
        assert stmt.gid is not None
        return prepare(session, stmt.gid)
    if kind in (TransactionKind.COMMIT_PREPARED, TransactionKind.ROLLBACK_PREPARED):
        assert stmt.gid is not None
        return finish(session, stmt.gid, commit=kind is TransactionKind.COMMIT_PREPARED)
    assert stmt.savepoint is not None
    if kind is TransactionKind.SAVEPOINT:
        transaction.savepoint(stmt.savepoint)
        return "SAVEPOINT"
    if kind is TransactionKind.RELEASE:
        transaction.release(stmt.savepoint)
        return "RELEASE"
    transaction.rollback_to(stmt.savepoint)
    return "ROLLBACK"


def checkpoint(stmt: CheckPointStmt, session: Session) -> Result:
    allowed = role_or_none(session, "pg_checkpoint")
    if allowed is None or not may_act_as(session, session.role, allowed.oid):
        raise PgError(
            "42501",
            "permission denied to execute CHECKPOINT command",
            detail='Only roles with privileges of the "pg_checkpoint" role may execute this command.',
        )
    catalog = session.catalog
    if catalog.path is not None:  # a server does so by itself
        sync_log(catalog.path)
        link = catalog.connect()
        try:
            link.execute("PRAGMA wal_checkpoint(PASSIVE)")  # pages that other connections need stay in the log
        finally:
            link.close()
    return Result("CHECKPOINT")


# --- lock -------------------------------------------------------------------------------------------------------------


_ANY_MODE = ("MAINTAIN", "UPDATE", "DELETE", "TRUNCATE")


def lock_table(stmt: LockStmt, session: Session) -> Result:
    session.transaction.require_some_block("LOCK TABLE")
    mode = RelationMode(stmt.mode)
    for name in stmt.relations:
        rel = find_relation(session, replace(name, location=-1))
        if rel.kind not in "rpv":
            raise PgError("42809", f'cannot lock relation "{rel.name}"', detail=not_supported(rel.kind))
        _check_privilege(session, rel, mode, session.role)
        _lock(session, rel, mode, stmt.nowait)
        if rel.kind == "v":
            _lock_below(session, rel, mode, stmt.nowait, frozenset())
        elif name.inh:
            _lock_children(session, rel, mode, stmt.nowait)
    return Result("LOCK TABLE")


def _check_privilege(session: Session, rel: Relation, mode: RelationMode, role: int) -> None:
    """Raise unless the role has one of the privileges that the mode asks for (LockTableAclCheck)."""
    enough = list(_ANY_MODE)
    if mode <= RelationMode.ACCESS_SHARE:
        enough.append("SELECT")
    if mode <= RelationMode.ROW_EXCLUSIVE:
        enough.append("INSERT")
    if not any(has_table_privilege(session, rel, privilege, role) for privilege in enough):
        raise permission_denied(rel)


def _lock(session: Session, rel: Relation, mode: RelationMode, nowait: bool) -> None:
    locks = session.transaction.locks
    if not locks.possible:  # one transaction at a time writes
        if mode >= RelationMode.ROW_EXCLUSIVE:
            session.transaction.require_write()
        return
    if nowait and not locks.has_relation(rel.oid, mode) and not locks.relation(rel.oid, mode, wait=False):
        raise PgError("55P03", f'could not obtain lock on relation "{rel.name}"')
    lock_tables(session, [rel.oid], mode)


def _lock_children(session: Session, rel: Relation, mode: RelationMode, nowait: bool) -> None:
    for oid in inheritors(session, rel.oid)[1:]:
        _lock(session, relation(session, oid), mode, nowait)


def _lock_below(session: Session, view: Relation, mode: RelationMode, nowait: bool, above: frozenset[int]) -> None:
    """Lock what a view reads, with the privileges of the view's owner or of its invoker (LockViewRecurse)."""
    role = view_role(session, view)
    for oid, inh in _named(view_query(session, view.oid)).items():
        rel = relation(session, oid)
        if rel.kind not in "rpv" or oid in above:
            continue
        _check_privilege(session, rel, mode, role)
        _lock(session, rel, mode, nowait)
        if rel.kind == "v":
            _lock_below(session, rel, mode, nowait, above | {view.oid})
        elif inh:
            _lock_children(session, rel, mode, nowait)


def _named(query: Query) -> dict[int, bool]:
    """The relations that a query names at any depth, and whether their children count."""
    relations = {rte.relid: rte.inh for rte in query.rtable if rte.kind is RteKind.RELATION}
    inner = [node.query for expr in query_exprs(query) for node in walk(expr) if isinstance(node, SubLink)]
    for below in (*subqueries(query), *inner):
        if below is not None:
            relations |= _named(below)
    return relations


# --- notification -----------------------------------------------------------------------------------------------------


def listen(stmt: ListenStmt, session: Session) -> Result:
    refuse_in_recovery(session, "LISTEN")
    notifications(session).listen(stmt.channel)
    return Result("LISTEN")


def unlisten(stmt: UnlistenStmt, session: Session) -> Result:
    if session.transaction.notifications is not None:
        session.transaction.notifications.unlisten(stmt.channel)
    return Result("UNLISTEN")


def notify(stmt: NotifyStmt, session: Session) -> Result:
    refuse_in_recovery(session, "NOTIFY")
    notifications(session).notify(stmt.channel, stmt.payload)
    return Result("NOTIFY")


# --- cursor -----------------------------------------------------------------------------------------------------------


def declare_cursor(stmt: DeclareCursorStmt, session: Session) -> Result:
    """DECLARE (PerformCursorOpen)."""
    query = _analyzed(session, stmt)
    folding.check(session, query)
    if not stmt.name:
        raise PgError("34000", "invalid cursor name: must not be empty")
    if not stmt.holds:
        session.transaction.require_some_block("DECLARE CURSOR")
    if stmt.name in session.transaction.portals:
        raise PgError("42P03", f'cursor "{stmt.name}" already exists')
    if locks_rows(query):
        query = with_table_locks(session, stmt.query, query)
    run.check(session, query)
    run.check_functions(session, query)
    standing, rows = cursor_rows(session, query, waits=session.parameters is None and not session.is_nested)
    shown = listed_columns(query.targets)
    origins = [column.origin for column in shown]
    declared = Declared(session.query, binary=stmt.binary, holds=stmt.holds, standing=standing, origins=origins)
    columns = [(column.name, column.type, column.typmod) for column in shown]
    open_portal(session, stmt.name, columns, rows, scrolls=scrolls(query, stmt.scroll), declared=declared)
    return Result("DECLARE CURSOR")


def _analyzed(session: Session, stmt: DeclareCursorStmt) -> Query:
    """The query of a cursor, with options that fit together (transformDeclareCursorStmt)."""
    for both, one, other in (
        (stmt.scroll_and_not, "SCROLL", "NO SCROLL"),
        (stmt.asensitive and stmt.insensitive, "ASENSITIVE", "INSENSITIVE"),
    ):
        if both:
            raise PgError("42P11", f"cannot specify both {one} and {other}")
    query = analyze_query(session, stmt.query)
    if has_modifying_cte(query.ctes):
        raise PgError("0A000", "DECLARE CURSOR must not contain data-modifying statements in WITH")
    if query.row_marks:
        words = f"FOR {query.row_marks[0].strength}"
        if stmt.holds:
            detail = "Holdable cursors must be READ ONLY."
            raise PgError("0A000", f"DECLARE CURSOR WITH HOLD ... {words} is not supported", detail=detail)
        if stmt.scroll:
            detail = "Scrollable cursors must be READ ONLY."
            raise PgError("0A000", f"DECLARE SCROLL CURSOR ... {words} is not supported", detail=detail)
        if stmt.insensitive:
            detail = "Insensitive cursors must be READ ONLY."
            raise PgError("42P11", f"DECLARE INSENSITIVE CURSOR ... {words} is not valid", detail=detail)
    return query


# --- FETCH, MOVE, CLOSE -----------------------------------------------------------------------------------------------


def fetch(stmt: FetchStmt, session: Session) -> Result:
    """FETCH and MOVE (PerformPortalFetch)."""
    if not stmt.name:
        raise PgError("34000", "invalid cursor name: must not be empty")
    portal = find_portal(session, stmt.name)
    if stmt.moves:
        if stmt.count == 0 and stmt.word != "absolute" and not portal.has_failed:
            return Result(f"MOVE {int(portal.current is not None)}")
        return Result(f"MOVE {len(portal.fetch(stmt.word, stmt.count))}")
    rows = [tuple(row) for row in portal.fetch(stmt.word, stmt.count)]
    columns = fetched_columns(session, portal)
    tag = f"FETCH {len(rows)}"
    if session.keeps_values:
        return Result(tag, columns, values=LocalRows((), rows))
    types = [column.type for column in columns]
    binary = portal.declared.binary
    if binary and not session.reads_binary:
        return Result(tag, columns, _as_bytes(rows, types))
    texts = as_values if binary and not session.result_formats else texts_for(session, types)
    return Result(tag, columns, texts(rows), binary=binary)


def _as_bytes(rows: Sequence[tuple[Any, ...]], types: Sequence[int]) -> list[tuple[str | None, ...]]:
    """The values of a BINARY cursor as a client shows them that takes them for text: up to the first zero byte."""
    from pgrepl.types.binary import sends

    shown_rows = []
    for row in rows:
        texts: list[str | None] = []
        for value, typoid in zip(row, types, strict=True):
            send = sends(typoid)
            if send is None:
                raise PgError("42883", f"no binary output function available for type {format_type(typoid)}")
            shown = None if value is None else send(value).partition(b"\0")[0].decode("utf-8", "replace")
            texts.append(shown)
        shown_rows.append(tuple(texts))
    return shown_rows


def fetched_columns(session: Session, portal: Portal) -> tuple[ResultColumn, ...]:
    origins = portal.declared.origins or repeat(NO_ORIGIN)
    columns = [ResultColumn(*column, origin) for column, origin in zip(portal.columns, origins, strict=False)]
    return told_columns(session, columns)


def close(stmt: ClosePortalStmt, session: Session) -> Result:
    if stmt.name is None:
        close_all(session)
        return Result("CLOSE CURSOR ALL")
    if not stmt.name:
        raise PgError("34000", "invalid cursor name: must not be empty")
    close_portal(session, stmt.name)
    return Result("CLOSE CURSOR")
