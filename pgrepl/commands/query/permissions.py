"""Who may read what a query names: the SELECT privilege on each relation and column, as ExecCheckPermissions asks."""

from __future__ import annotations

from pgrepl.catalog import acl
from pgrepl.catalog.relation import relation
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.tree import Query, RteKind
from pgrepl.expr.walk import subqueries, walk_deep
from pgrepl.types.builtin import proc_by_oid

# pg_subscription can be read by everybody but for the connection string, which may hold a password
_HIDDEN_COLUMNS = {("pg_catalog", "pg_subscription"): "subconninfo"}

# functions whose EXECUTE initdb has revoked from PUBLIC (system_functions.sql), of those that are here
_PRIVATE_FUNCTIONS = (
    "pg_replication_origin_",
    "pg_stat_reset_subscription_stats",
    "pg_switch_wal",
)


def check_functions(session: Session, query: Query) -> None:
    """May the role execute all functions that the query calls?"""
    if is_superuser(session):
        return
    for node, _ in walk_deep(query):
        if not isinstance(node, tree.FuncExpr):
            continue
        called = proc_by_oid(node.func)
        if called is not None and called.name.startswith(_PRIVATE_FUNCTIONS):
            raise PgError("42501", f"permission denied for function {called.name}")


def check(session: Session, query: Query) -> None:
    """Of the query and all queries inside it."""
    _check_level(session, query)
    for nested in subqueries(query):
        check(session, nested)
    for node, _ in walk_deep(query):
        if isinstance(node, tree.SubLink) and node.query is not None:
            check(session, node.query)


def _check_level(session: Session, query: Query) -> None:
    for varno, entry in enumerate(query.rtable, 1):
        if entry.kind is not RteKind.RELATION:
            continue
        found = relation(session, entry.relid)
        hidden = _HIDDEN_COLUMNS.get((found.schema, found.name))
        if hidden is not None:
            used = {
                node.attnum
                for node, level in walk_deep(query)
                if isinstance(node, tree.Var) and node.varno == varno and node.levelsup == level
            }
            secret = next(i for i, c in enumerate(entry.columns, 1) if c.name == hidden)
            if not used & {secret, 0}:
                continue
        acl.check_table_privilege(session, found, "SELECT")
