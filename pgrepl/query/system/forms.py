"""The catalog's stored values as values of a query: lists become arrays, trees their text, moments microseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from pgrepl.catalog.acl import acl_text
from pgrepl.catalog.session import Session
from pgrepl.catalog.system import SystemRelation
from pgrepl.types import oids
from pgrepl.types.arrays import array_of, vector_of
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.text import read_text

Values = Mapping[str, Any]
"""A row before it is brought to the columns of its relation."""
Provider = Callable[[Session], Iterable[Values]]


def _moment(value: Any) -> Any:
    return read_text(value, oids.TIMESTAMPTZ) if isinstance(value, str) else value


def _tree(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


@cache
def _reader(typid: int) -> Callable[[Any], Any] | None:
    if typid == oids.TIMESTAMPTZ:
        return _moment
    if typid == oids.CHAR:
        return lambda value: value or "\0"  # a "char" always is one byte
    if typid == oids.PG_NODE_TREE:
        return _tree
    if typid == oids.INT2VECTOR:
        return lambda value: vector_of(oids.INT2, value)
    if typid == oids.OIDVECTOR:
        return lambda value: vector_of(oids.OID, value)
    kind = type_by_oid(typid)
    if kind is not None and kind.category == "A" and kind.elem:
        return lambda value: array_of(kind.elem, value)
    return None


def as_rows(session: Session, relation: SystemRelation, values: Iterable[Values]) -> Iterator[tuple[Any, ...]]:
    """Values by column name as tuples in the relation's column order."""

    def privileges(stored: Any) -> Any:
        return array_of(oids.ACLITEM, acl_text(session, stored) or [])

    columns = [
        (column.name, privileges if column.type == oids.ACLITEM_ARRAY else _reader(column.type))
        for column in relation.columns
    ]
    for value in values:
        found = []
        for name, read in columns:
            item = value.get(name)
            found.append(item if item is None or read is None else read(item))
        yield tuple(found)
