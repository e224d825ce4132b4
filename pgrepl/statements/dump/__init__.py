"""A script that recreates the objects of a database: what `pgrepl dump` prints, as pg_dump would.

`shared` gives roles, databases, settings, publications, and subscriptions with `connect = false`; `schema` gives
schemas, sequences, tables, views, constraints and indexes, each after the objects it needs, with `table` and
`naming`.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.facts.namespace import QUALIFIED
from pgrepl.catalog.session.session import Session
from pgrepl.statements.dump.schema import dump_schema
from pgrepl.statements.dump.shared import dump_publications, dump_shared, dump_subscriptions


def dump(session: Session, *, schema: bool, publications: bool, subscriptions: bool) -> Iterator[str]:
    """The statements, each with its semicolon. They mean the same whatever search_path is where they are run."""
    with session.settings.during(QUALIFIED):
        if schema:
            yield from dump_schema(session)
        if publications:
            yield from dump_publications(session)
        if subscriptions:
            yield from dump_subscriptions(session)


__all__ = ["dump", "dump_shared"]
