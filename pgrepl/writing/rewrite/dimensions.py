"""A column of lists or structs becomes one of text, as a statement brings a value that is no list or struct."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pgrepl.catalog.relation import relation
from pgrepl.catalog.transaction import DimensionsNeeded
from pgrepl.errors import PgError
from pgrepl.expr.tree import Var
from pgrepl.expr.typefacts import type_text
from pgrepl.rows.array_columns import declare_dimensions
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.rows.write import define_now, next_snapshot
from pgrepl.sql.quote import quote_identifier
from pgrepl.types.builtin import base_type, element_type
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


def check_unchanged(session: Session, needed: DimensionsNeeded, begun: int) -> None:
    """Raise if a statement that is to begin anew has changed rows already, by triggers, functions or WITH.

    `begun` is the number of snapshots that the transaction had begun before it.
    """
    if session.transaction.numbering.begun == begun:
        return
    rel = relation(session, needed.relid)
    column = rel.attributes[needed.attnum - 1]
    kind = type_text(session, column.type)
    if not element_type(base_type(column.type)):
        raise PgError(
            "0A000",
            f'column "{column.name}" of relation "{rel.name}" cannot keep rows that are no struct now',
            detail="The statement has changed other rows before it came to such a row.",
            hint="Store such a row by a statement of its own before it.",
        )
    raise PgError(
        "0A000",
        f'column "{column.name}" of relation "{rel.name}" cannot become one of arrays of several dimensions now',
        detail="The statement has changed other rows before it came to such an array.",
        hint=f"Use ALTER TABLE {quote_identifier(rel.name)} ALTER COLUMN {quote_identifier(column.name)} TYPE {kind}[]"
        " before it.",
    )
