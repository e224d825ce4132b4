"""Columns of arrays and of composite types: lists and structs in the lake, or PostgreSQL's text where these cannot hold
the values.

A list has one dimension and begins at 1, and a struct's fields refuse what columns of their types refuse. A column of
arrays that is declared with several dimensions (`integer[][]`) is text from its beginning; another one becomes text
when the first value comes that is no list or struct, and its rows are rewritten once. pg_attribute.attndims tells
which: more than 1 is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import store
from pgrepl.catalog.tables import pg_attribute
from pgrepl.types.lake_structs import holder

if TYPE_CHECKING:
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session
    from pgrepl.types.lake_structs import Holds

SEVERAL = 2  # an attndims of text


def nested_columns(session: Session, rel: Relation) -> list[tuple[int, Holds]]:
    """The columns of a table that are lists or structs, by their place in rows; each with what tells whether it holds a
    value."""
    found = [(a.num, holds) for a in rel.columns if (holds := holder(a.type)) is not None]
    if not found or rel.kind != "r":
        return []
    from pgrepl.lake.table import lake_table

    table = lake_table(session, rel.oid)
    return [(number - 1, holds) for number, holds in found if table.column(number).type != "varchar"]


def keep_dimensions(session: Session, rel: Relation, rows: Iterable[Sequence[Any]]) -> None:
    """Declare the columns text that get values that they cannot hold with these rows. The table's definition must not
    be in the lake yet."""
    left = {a.num - 1: holds for a in rel.columns if a.ndims < SEVERAL and (holds := holder(a.type)) is not None}
    for row in rows if left else ():
        for index in [n for n, holds in left.items() if row[n] is not None and not holds(row[n])]:
            declare_dimensions(session, rel.oid, index + 1)
            del left[index]


def declare_dimensions(session: Session, relid: int, attnum: int) -> None:
    store.update(session, pg_attribute, {"attrelid": relid, "attnum": attnum}, attndims=SEVERAL)
