"""Which engine carries out a query: this process, or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.commands.query.bounds import bounds_of
from pgrepl.commands.query.tables import is_user_table, members
from pgrepl.expr import tree
from pgrepl.expr.tree import Query
from pgrepl.expr.walk import query_exprs, subqueries, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgrepl.catalog.session import Session
    from pgrepl.expr.context import Context


def runs_on_spark(session: Session, query: Query, context: Context) -> bool:
    """By `pgrepl.engine`; `auto` keeps a query here as long as it looks at few rows of user tables."""
    wanted = session.settings.get("pgrepl.engine")
    if wanted == "local" or not has_user_tables(query):
        return False
    if wanted == "spark":
        return True
    return rows_to_look_at(session, query, context) > int(session.settings.value("pgrepl.local_rows"))


def has_user_tables(query: Query) -> bool:
    """Whether rows of the lake are asked for, at any depth."""
    return any(is_user_table(entry) for level in levels(query) for entry in level.rtable)


def rows_to_look_at(session: Session, query: Query, context: Context) -> int:
    """How many rows of user tables are left once files are skipped by the query's conditions."""
    from pgrepl.lake.files import estimate
    from pgrepl.lake.table import lake_table

    total = 0
    for level in levels(query):
        tables = [(varno, entry) for varno, entry in enumerate(level.rtable, 1) if is_user_table(entry)]
        bounds = bounds_of(level, context) if tables else {}
        for varno, entry in tables:
            for member in members(session, entry.relid, entry.inh):
                below = member.bounds(bounds.get(varno, ()))
                total += estimate(session, lake_table(session, member.relation.oid), below)
    return total


def levels(query: Query) -> Iterator[Query]:
    """The query and all queries inside it."""
    yield query
    for nested in subqueries(query):
        yield from levels(nested)
    for expr in query_exprs(query):
        for node in walk(expr):
            if isinstance(node, tree.SubLink) and node.query is not None:
                yield from levels(node.query)
