"""The SELECT privilege on each relation and column that a query reads (ExecCheckPermissions)."""

from __future__ import annotations

from pgrepl.catalog import acl
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.rewrite import view_query, view_role
from pgrepl.expr.tree import Query, RteKind
from pgrepl.expr.walk import query_exprs, subqueries, walk, walk_deep
from pgrepl.query.columns import used_columns
from pgrepl.types.builtin import Proc, proc_by_oid

# PUBLIC can read pg_subscription, but not the connection string, which may hold a password
_HIDDEN_COLUMNS = {("pg_catalog", "pg_subscription"): "subconninfo"}

# the functions of pgrepl whose EXECUTE privilege initdb revokes from PUBLIC (system_functions.sql), by prefix
_PRIVATE_FUNCTIONS = (
    "pg_log_standby_snapshot",
    "pg_reload_conf",
    "pg_replication_origin_",
    "pg_stat_have_stats",
    "pg_stat_reset",
    "pg_switch_wal",
)


def is_public(proc: Proc) -> bool:
    """Whether PUBLIC may execute a built-in function."""
    return not proc.name.startswith(_PRIVATE_FUNCTIONS)


def check_functions(session: Session, query: Query) -> None:
    """Check that the role may execute all functions that the query calls."""
    if is_superuser(session):
        return
    for node, _ in walk_deep(query):
        if not isinstance(node, tree.FuncExpr):
            continue
        called = proc_by_oid(node.func)
        if called is not None and not is_public(called):
            raise PgError("42501", f"permission denied for function {called.name}")


def check(session: Session, query: Query, role: int | None = None, *, reads: bool = True) -> None:
    """Check the query and all its subqueries. A view's own tables are read with its owner's privileges. `reads`: the
    query is carried out, so that its materialized views must have been populated."""
    who = session.role if role is None else role
    _check_level(session, query, who, reads)
    for nested in subqueries(query):
        check(session, nested, who, reads=reads)
    for expr in query_exprs(query):
        for node in walk(expr):
            if isinstance(node, tree.SubLink) and node.query is not None:
                check(session, node.query, who, reads=reads)


def _check_level(session: Session, query: Query, role: int, reads: bool) -> None:
    """Check first the relations that the query itself names, then those of its views."""
    named = [relation(session, rte.relid) for rte in query.rtable if rte.kind is RteKind.RELATION]
    views = [(v, view_query(session, v.oid)) for v in named if v.kind == "v" and not v.is_system]
    check_named(session, query, role)
    if reads:
        for found in named:
            _check_populated(found)
    for view, behind in views:
        check(session, behind, view_role(session, view), reads=reads)


def _check_populated(found: Relation) -> None:
    """As ExecOpenScanRelation does."""
    if not found.populated:
        raise PgError(
            "55000",
            f'materialized view "{found.name}" has not been populated',
            hint="Use the REFRESH MATERIALIZED VIEW command.",
        )


def check_named(session: Session, query: Query, role: int) -> None:
    """Check the relations in the query's own FROM."""
    used: dict[int, frozenset[int]] | None = None
    for varno, entry in enumerate(query.rtable, 1):
        if entry.kind is not RteKind.RELATION:
            continue
        found = relation(session, entry.relid)
        hidden = _HIDDEN_COLUMNS.get((found.schema, found.name))
        if hidden is not None:
            secret = next(i for i, c in enumerate(entry.columns, 1) if c.name == hidden)
            if not used_columns(query).get(varno, frozenset()) & {secret, 0}:
                continue
        if not acl.has_table_privilege(session, found, "SELECT", role):
            used = used_columns(query) if used is None else used
            if not _may_read(session, found, used.get(varno, frozenset()), role):
                raise acl.permission_denied(found)
        if any(mark.varno == varno for mark in query.row_marks):
            _check_may_lock(session, found, role)
            if found.kind == "m":  # as CheckValidRowMarkRel does
                raise PgError("42809", f'cannot lock rows in materialized view "{found.name}"')


def _check_may_lock(session: Session, found: Relation, role: int) -> None:
    """Locking clauses need the UPDATE privilege, at least on some column (ACL_SELECT_FOR_UPDATE)."""
    if acl.has_table_privilege(session, found, "UPDATE", role):
        return
    if not any(acl.has_column_privilege(session, found, a.num, "UPDATE", role) for a in found.columns):
        raise acl.permission_denied(found)


def _may_read(session: Session, found: Relation, used: frozenset[int], role: int) -> bool:
    """Whether privileges on columns suffice: on each that is read; on any at all when none is (SELECT count(*))."""
    columns = [a.num for a in found.columns]
    if not used:
        return any(acl.has_column_privilege(session, found, number, "SELECT", role) for number in columns)
    wanted = {*used, *columns} - {0} if 0 in used else used
    return all(acl.has_column_privilege(session, found, number, "SELECT", role) for number in wanted)
