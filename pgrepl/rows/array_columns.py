"""Columns of arrays: lists in the lake, or PostgreSQL's text where a list cannot hold the arrays.

A list has one dimension and begins at 1. A column that is declared with several dimensions (`integer[][]`) is text from
its beginning; another one becomes text when the first array comes that is no list, and its rows are rewritten once.
pg_attribute.attndims tells which: more than 1 is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import store
from pgrepl.catalog.tables import pg_attribute
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.lake_lists import is_list

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session

SEVERAL = 2  # an attndims of text


def list_columns(session: Session, rel: Relation) -> list[int]:
    """The columns of a table that are lists, by their place in rows."""
    arrays = [a for a in rel.columns if element_type(base_type(a.type))]
    if not arrays or rel.kind != "r":
        return []
    from pgrepl.lake.table import lake_table

    table = lake_table(session, rel.oid)
    return [a.num - 1 for a in arrays if not table.column(a.num).has_dimensions]


def keep_dimensions(session: Session, rel: Relation, rows: Iterable[Sequence[Any]]) -> None:
    """Declare the columns text that get other arrays than lists with these rows. The table's definition must not be in
    the lake yet."""
    left = {a.num - 1 for a in rel.columns if element_type(base_type(a.type)) and a.ndims < SEVERAL}
    for row in rows if left else ():
        for index in [n for n in left if row[n] is not None and not is_list(row[n])]:
            declare_dimensions(session, rel.oid, index + 1)
            left.discard(index)


def declare_dimensions(session: Session, relid: int, attnum: int) -> None:
    store.update(session, pg_attribute, {"attrelid": relid, "attnum": attnum}, attndims=SEVERAL)
