"""LOCK TABLE (lockcmds.c). Reading takes no lock, so that ACCESS EXCLUSIVE keeps out writers and definitions only."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog.acl import has_table_privilege, permission_denied
from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.lock_modes import RelationMode
from pgrepl.catalog.relation import Relation, find_relation, relation
from pgrepl.catalog.relkind import not_supported
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr.rewrite import view_query, view_role
from pgrepl.expr.tree import Query, RteKind, SubLink
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.query.result import Result
from pgrepl.rows.locking import lock_tables
from pgrepl.sql.nodes import LockStmt

_ANY_MODE = ("MAINTAIN", "UPDATE", "DELETE", "TRUNCATE")


def lock_table(stmt: LockStmt, session: Session) -> Result:
    """As LockTableCommand does."""
    session.transaction.require_some_block("LOCK TABLE")
    mode = RelationMode(stmt.mode)
    for name in stmt.relations:
        found = find_relation(session, replace(name, location=-1))
        if found.kind not in "rpv":
            raise PgError("42809", f'cannot lock relation "{found.name}"', detail=not_supported(found.kind))
        _check_privilege(session, found, mode, session.role)
        _lock(session, found, mode, stmt.nowait)
        if found.kind == "v":
            _lock_below(session, found, mode, stmt.nowait, frozenset())
        elif name.inh:
            _lock_children(session, found, mode, stmt.nowait)
    return Result("LOCK TABLE")


def _check_privilege(session: Session, found: Relation, mode: RelationMode, role: int) -> None:
    """As LockTableAclCheck does: one of the privileges is enough."""
    enough = list(_ANY_MODE)
    if mode <= RelationMode.ACCESS_SHARE:
        enough.append("SELECT")
    if mode <= RelationMode.ROW_EXCLUSIVE:
        enough.append("INSERT")
    if not any(has_table_privilege(session, found, privilege, role) for privilege in enough):
        raise permission_denied(found)


def _lock(session: Session, found: Relation, mode: RelationMode, nowait: bool) -> None:
    locks = session.transaction.locks
    if not locks.possible:  # one transaction at a time writes
        if mode >= RelationMode.ROW_EXCLUSIVE:
            session.transaction.require_write()
        return
    if nowait and not locks.has_relation(found.oid, mode) and not locks.relation(found.oid, mode, wait=False):
        raise PgError("55P03", f'could not obtain lock on relation "{found.name}"')
    lock_tables(session, [found.oid], mode)


def _lock_children(session: Session, found: Relation, mode: RelationMode, nowait: bool) -> None:
    for oid in inheritors(session, found.oid)[1:]:
        _lock(session, relation(session, oid), mode, nowait)


def _lock_below(session: Session, view: Relation, mode: RelationMode, nowait: bool, above: frozenset[int]) -> None:
    """Lock what a view reads, with the privileges of the view's owner or of its invoker (LockViewRecurse)."""
    role = view_role(session, view)
    for oid, inh in _named(view_query(session, view.oid)).items():
        found = relation(session, oid)
        if found.kind not in "rpv" or oid in above:
            continue
        _check_privilege(session, found, mode, role)
        _lock(session, found, mode, nowait)
        if found.kind == "v":
            _lock_below(session, found, mode, nowait, above | {view.oid})
        elif inh:
            _lock_children(session, found, mode, nowait)


def _named(query: Query) -> dict[int, bool]:
    """The relations that a query names at any depth, and whether their children count."""
    found = {rte.relid: rte.inh for rte in query.rtable if rte.kind is RteKind.RELATION}
    inner = [node.query for expr in query_exprs(query) for node in walk(expr) if isinstance(node, SubLink)]
    for below in (*subqueries(query), *inner):
        if below is not None:
            found |= _named(below)
    return found
