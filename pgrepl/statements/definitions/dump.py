"""A script that recreates the objects of a database: what `pgrepl dump` prints, as pg_dump would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgrepl.catalog.facts.namespace import QUALIFIED
from pgrepl.catalog.facts.publication import permanent_sequences
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.sequences import sequence_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import rows
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.sql.keywords import quote_literal
from pgrepl.statements.definitions import naming
from pgrepl.statements.definitions.definition import Definition
from pgrepl.statements.definitions.order import RoutineParts, relation_parts
from pgrepl.statements.definitions.relations import relation_facts, schema_definitions
from pgrepl.statements.definitions.replication import SPEAK_18, dump_publications, dump_subscriptions
from pgrepl.statements.definitions.routines import (
    LATE,
    collation_definitions,
    operator_definitions,
    routine_definitions,
    type_definitions,
)
from pgrepl.statements.definitions.shared import default_privilege_definitions


def dump(
    session: Session, *, schema: bool, publications: bool, subscriptions: bool, sequence_data: bool = False
) -> Iterator[str]:
    """The statements, each with its semicolon. They mean the same whatever search_path is where they are run."""
    with session.settings.during(QUALIFIED):
        if schema:
            if _has_newer_constraints(session):
                yield SPEAK_18
            yield from _schema(session)
        if sequence_data:
            yield from _values(session)
        if publications:
            yield from dump_publications(session)
        if subscriptions:
            yield from dump_subscriptions(session)


def _has_newer_constraints(session: Session) -> bool:
    """Has the database constraints that PostgreSQL 17 does not know?"""
    found = rows(session, pg_constraint, datid=session.database_oid)
    return any(row.conperiod or not row.conenforced or (row.contype == "n" and row.conrelid) for row in found)


def _schema(session: Session) -> Iterator[str]:
    types, routines = list(type_definitions(session)), RoutineParts(session)
    yield from _made([*schema_definitions(session), *collation_definitions(session)])
    yield from (text for each in types for phase, text in each.made if phase != LATE)
    yield from (text for _, text in routines.first())
    yield from (text for each in types for phase, text in each.made if phase == LATE)
    yield from (text for _, text in relation_parts(session, relation_facts(session), routines))
    yield from _made(routine_definitions(session))
    yield from _made(sorted(operator_definitions(session), key=lambda each: each.name))
    yield from _made(default_privilege_definitions(session))


def _made(definitions: Iterable[Definition]) -> Iterator[str]:
    return (text for each in definitions for _, text in each.made)


def _values(session: Session) -> Iterator[str]:
    """Set each permanent sequence to its value here: it is no part of the definition."""
    for oid in permanent_sequences(session):
        row = sequence_row(session, oid)
        name = quote_literal(naming.qualified(relation(session, oid)))
        yield f"SELECT pg_catalog.setval({name}, {row.last_value}, {'true' if row.is_called else 'false'});"
