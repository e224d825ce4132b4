"""The types that columns of the publisher need are made here, as far as none of their names is here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pgrepl.catalog.namespace import schema_or_none
from pgrepl.expr.lookup import type_in_schema_named
from pgrepl.replication.publisher.definition import RemoteType
from pgrepl.sql.quote import quote_identifier

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def missing_types(session: Session, types: Iterable[RemoteType]) -> Iterator[str]:
    """The statements that make what is not here; each is to be run before the next is asked for."""
    for each in types:
        if schema_or_none(session, each.schema) is None:
            yield f"CREATE SCHEMA {quote_identifier(each.schema)};"
        elif type_in_schema_named(session, each.schema, each.name):
            continue
        yield from each.made
