"""The kinds of relations (pg_class.relkind) in messages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Relation, find_relation
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.sql.nodes.expr import RangeVar

PLURALS = {
    "r": "tables",
    "i": "indexes",
    "S": "sequences",
    "t": "TOAST tables",
    "v": "views",
    "m": "materialized views",
    "c": "composite types",
    "f": "foreign tables",
    "p": "partitioned tables",
    "I": "partitioned indexes",
}


def not_supported(kind: str) -> str:
    """The DETAIL of a statement that does not work on such a relation (errdetail_relkind_not_supported)."""
    return f"This operation is not supported for {PLURALS[kind]}."


def open_table(session: Session, name: RangeVar) -> Relation:
    """The relation of that name, which is no index or composite type (table_openrv). The error for a missing one has no
    position."""
    found = find_relation(session, replace(name, location=-1))
    if found.kind in "iIc":
        raise PgError("42809", f'cannot open relation "{found.name}"', detail=not_supported(found.kind))
    return found
