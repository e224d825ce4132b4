"""A column of lists becomes one of arrays as text, as a statement brings an array that is no list."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog.relation import relation
from pgrepl.catalog.transaction import DimensionsNeeded
from pgrepl.expr.tree import Var
from pgrepl.rows.array_columns import declare_dimensions
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.rows.write import define_now, next_snapshot
from pgrepl.writing.rewrite.rewrite import rewrite
from pgrepl.writing.rewrite.values import NewColumnValue

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

T = TypeVar("T")


def keep_as_text(session: Session, needed: DimensionsNeeded) -> None:
    """Change the column, as ALTER TABLE changes a type; later changes of the running statement come behind it."""
    session.transaction.require_write()
    rel = relation(session, needed.relid)
    check_not_in_use(session, rel, "ALTER TABLE")
    column = rel.attributes[needed.attnum - 1]
    declare_dimensions(session, rel.oid, column.num)
    same = Var(column.type, typmod=column.typmod, collation=column.collation, attnum=column.num)
    if not rewrite(session, {rel.oid: [NewColumnValue(rel.oid, column.num, same, to_text=True)]}):
        define_now(session)
    next_snapshot(session)
