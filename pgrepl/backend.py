"""Opening a session, with its hooks.

The catalog is one of the lowest floors. The functions of higher floors that a session calls
(catalog/session/session.py: `Hooks`) are imported here, each at its first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.session import Hooks, Session, SessionIdentity

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.store.connection import Catalog
    from pgrepl.catalog.store.system import SystemRelation, SystemRelations
    from pgrepl.expr.functions.registry import Family, Implementation
    from pgrepl.ground.errors import Report


def open_session(
    catalog: Catalog,
    database: str = "postgres",
    user: str = "postgres",
    *,
    on_report: Callable[[Report], None] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Session:
    """Connect as a client does, with PostgreSQL's FATAL errors. `settings` are those of the start-up packet."""
    session = Session(HOOKS, catalog, SessionIdentity(), on_report=on_report)
    session.admit(database, user, settings or {})
    return session


def _define_in_lake(session: Session) -> None:
    from pgrepl.statements.upkeep.lake import define

    define(session)


def _adopt_from_lake(session: Session) -> None:
    from pgrepl.statements.upkeep.lake import adopt

    adopt(session)


@cache
def _system_relations(release: int) -> SystemRelations:
    from pgrepl.query.system import relations

    return relations(release)


def _system_rows(session: Session, relation: SystemRelation, only: frozenset[int] | None) -> Iterable[tuple[Any, ...]]:
    from pgrepl.query.system import rows
    from pgrepl.replication.functions import PROVIDERS

    return rows(session, relation, {**PROVIDERS, **session.providers}, only)


@cache
def _catalog_function(source: str) -> Implementation | None:
    return next((found for family in function_families() if (found := family.get(source)) is not None), None)


def function_families() -> Iterator[Family]:
    """The families of catalog functions. A family is imported when a function is in none of those before it."""
    from pgrepl.query.system.functions import families

    yield from families()

    from pgrepl.replication import functions

    yield functions.implements

    from pgrepl.replication.decoding import stream as decoding

    yield decoding.implements

    from pgrepl.replication.standby import synchronize as standby

    yield standby.implements


def _define(session: Session, statements: Sequence[str]) -> None:
    from pgrepl.sql.parser import parse
    from pgrepl.statements.utility import execute

    for text in statements:
        for raw in parse(text, session.report, session.settings.string_rules):
            execute(raw.stmt, session)
            session.transaction.numbering.store_snapshot()


def _routine(session: Session, proc: Any, call: Any) -> Callable[..., Any]:
    from pgrepl.statements.routine.call import routine_function

    return routine_function(session, proc, call)


def _execute(session: Session, stmt: Any) -> Any:
    from pgrepl.statements.nested import execute_nested

    return execute_nested(session, stmt)


def _procedure(session: Session, stmt: Any) -> Any:
    from pgrepl.statements.routine.call import prepare_call

    return prepare_call(session, stmt)


def _object_oid(session: Session, typoid: int, text: str) -> int:
    from pgrepl.expr.catalog_names import oid_of

    return oid_of(session, typoid, text)


def _object_name(session: Session, typoid: int, oid: int) -> str:
    from pgrepl.expr.catalog_names import text_of

    return text_of(session, typoid, oid)


def _call_trigger(session: Session, function: int, data: Any) -> tuple[Any, ...] | None:
    from pgrepl.statements.routine.call import call_trigger

    return call_trigger(session, function, data)


def _check_domain(session: Session, domain: int, value: Any) -> None:
    from pgrepl.expr.evaluate import evaluate  # noqa: F401 – it knows how nodes are compiled
    from pgrepl.expr.evaluate.compiler import check_value

    check_value(domain, value, session)


def _check_domains(session: Session, domain: int, array: Any) -> None:
    from pgrepl.expr.arrow.documents import check_column
    from pgrepl.expr.evaluate.compiler import session_context

    check_column(domain, array, session_context(session))


def _rows_at(session: Session, table: Relation, moment: int | None, is_lsn: bool) -> Iterable[tuple[Any, ...]]:
    from pgrepl.query.past import rows_at

    return rows_at(session, table, moment, is_lsn)


HOOKS = Hooks(
    define_in_lake=_define_in_lake,
    adopt_from_lake=_adopt_from_lake,
    system_relations=_system_relations,
    system_rows=_system_rows,
    catalog_function=_catalog_function,
    routine=_routine,
    execute=_execute,
    procedure=_procedure,
    define=_define,
    object_oid=_object_oid,
    object_name=_object_name,
    call_trigger=_call_trigger,
    check_domain=_check_domain,
    check_domains=_check_domains,
    rows_at=_rows_at,
)
