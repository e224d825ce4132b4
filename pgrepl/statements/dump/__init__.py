"""A script that recreates the objects of a database: what `pgrepl dump` prints, as pg_dump would.

`shared` gives roles, databases, settings, publications, and subscriptions with `connect = false`; `schema` gives
schemas, sequences, tables, views, constraints and indexes, each after the objects it needs, with `table` and
`naming`; `dump_values` gives the values of sequences, which are no part of their definitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.facts.namespace import QUALIFIED
from pgrepl.catalog.facts.publication import permanent_sequences
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.sequences import sequence_row
from pgrepl.catalog.session.session import Session
from pgrepl.sql.keywords import quote_literal
from pgrepl.statements.dump import naming
from pgrepl.statements.dump.schema import dump_schema
from pgrepl.statements.dump.shared import (
    SPEAK_18,
    dump_publications,
    dump_shared,
    dump_subscriptions,
    has_newer_constraints,
)


def dump(
    session: Session, *, schema: bool, publications: bool, subscriptions: bool, sequence_data: bool = False
) -> Iterator[str]:
    """The statements, each with its semicolon. They mean the same whatever search_path is where they are run."""
    with session.settings.during(QUALIFIED):
        if schema:
            if has_newer_constraints(session):
                yield SPEAK_18
            yield from dump_schema(session)
        if sequence_data:
            yield from dump_values(session)
        if publications:
            yield from dump_publications(session)
        if subscriptions:
            yield from dump_subscriptions(session)


def dump_values(session: Session) -> Iterator[str]:
    """Set each permanent sequence to its value here."""
    for oid in permanent_sequences(session):
        row = sequence_row(session, oid)
        name = quote_literal(naming.qualified(relation(session, oid)))
        yield f"SELECT pg_catalog.setval({name}, {row.last_value}, {'true' if row.is_called else 'false'});"


__all__ = ["dump", "dump_shared"]
