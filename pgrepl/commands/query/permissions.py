"""Who may read what a query names: the SELECT privilege on each relation and column, as ExecCheckPermissions asks."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog import acl
from pgrepl.catalog.relation import relation
from pgrepl.catalog.roles import is_superuser
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr import tree
from pgrepl.expr.tree import Query, RteKind
from pgrepl.expr.walk import query_exprs, subqueries, walk, walk_deep
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
    for expr in query_exprs(query):
        for node in walk(expr):
            if isinstance(node, tree.SubLink) and node.query is not None:
                check(session, node.query)


def _check_level(session: Session, query: Query) -> None:
    for varno, entry in enumerate(query.rtable, 1):
        if entry.kind is not RteKind.RELATION:
            continue
        found = relation(session, entry.relid)
        hidden = _HIDDEN_COLUMNS.get((found.schema, found.name))
        if hidden is not None:
            secret = next(i for i, c in enumerate(entry.columns, 1) if c.name == hidden)
            if not _used_columns(query, varno) & {secret, 0}:
                continue
        acl.check_table_privilege(session, found, "SELECT")


def _used_columns(query: Query, varno: int) -> set[int]:
    """The columns of one relation that the query reads, 0 the whole row. That a join could give a column is no use
    of it."""
    entries = query.rtable
    bare = replace(query, rtable=tuple(replace(entry, join_vars=()) for entry in entries))
    used: set[int] = set()
    pending = [n for n, level in walk_deep(bare) if isinstance(n, tree.Var) and n.levelsup == level]
    while pending:
        node = pending.pop()
        entry = entries[node.varno - 1]
        if entry.kind is RteKind.JOIN:
            behind = entry.join_vars if node.attnum == 0 else entry.join_vars[node.attnum - 1 : node.attnum]
            pending += [n for var in behind if var is not None for n in walk(var) if isinstance(n, tree.Var)]
        elif node.varno == varno:
            used.add(node.attnum)
    return used
