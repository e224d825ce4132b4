"""The columns and rows of a table that an initial copy takes, by the publisher's present catalog
(fetch_remote_table_info).

Filters are ORed whatever the publications publish, and void when one of them has none; only published columns are
sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.acl import has_column_privilege, has_table_privilege, permission_denied
from pgrepl.catalog.publication import PublishedTable, publication_or_none, published_table
from pgrepl.catalog.relation import Relation, find_relation
from pgrepl.errors import PgError
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import var_attnums
from pgrepl.frozen import frozen
from pgrepl.sql.nodes.expr import RangeVar

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class Uncopyable(Exception):
    """The error that a subscriber raises for a publisher's answer; the publisher itself raises none."""

    def __init__(self, error: PgError) -> None:
        super().__init__(error.message)
        self.error = error


@frozen
class CopyPlan:
    """The columns and rows of a table to copy."""

    table: Relation
    columns: tuple[int, ...]  # numbers of the table's columns
    filters: tuple[Expr, ...]  # any of them; none: all rows


def copy_plan(session: Session, schema: str, name: str, publications: Sequence[str]) -> CopyPlan:
    """The plan by the present catalog, with the privileges of the connection's role."""
    plan = published_plan(session, schema, name, publications)
    _check_readable(session, plan)
    return plan


def published_plan(session: Session, schema: str, name: str, publications: Sequence[str]) -> CopyPlan:
    """The plan of a copy, whether the role may read the table or not."""
    found = find_relation(session, RangeVar(name, schema), missing_ok=True)
    if found is None:
        raise Uncopyable(PgError("42P01", f'table "{schema}.{name}" not found on publisher'))
    published: list[PublishedTable] = []
    for publication in publications:
        if publication_or_none(session, publication) is not None:
            table = published_table(session, publication, found)
            published += [] if table is None else [table]
    lists = {frozenset(table.attrs) for table in published}
    if len(lists) > 1:
        text = f'cannot use different column lists for table "{schema}.{name}" in different publications'
        raise Uncopyable(PgError("0A000", text))
    attrs = next(iter(lists)) if lists else frozenset(c.num for c in found.columns if not c.generated)
    quals = [table.qual for table in published]
    filters = () if None in quals else tuple([from_json(qual, session) for qual in quals])
    return CopyPlan(found, tuple([c.num for c in found.columns if c.num in attrs]), filters)


def _check_readable(session: Session, plan: CopyPlan) -> None:
    if has_table_privilege(session, plan.table, "SELECT"):
        return
    needed = set(plan.columns).union(*(var_attnums(expr) for expr in plan.filters))
    if not all(has_column_privilege(session, plan.table, attnum, "SELECT") for attnum in needed if attnum > 0):
        raise permission_denied(plan.table)
