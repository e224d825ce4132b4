"""Opening a session, with its hooks.

The catalog is one of the lowest floors. The functions of higher floors that a session calls
(catalog/session/session.py: `Hooks`) are imported here, each at its first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.session import Hooks, Session, SessionIdentity

if TYPE_CHECKING:
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


def _later(module: str, name: str) -> Callable[..., Any]:
    """A function that is imported at its first call."""
    return lambda *arguments: getattr(import_module(module), name)(*arguments)


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
    return next((code for family in function_families() if (code := family.get(source)) is not None), None)


def function_families() -> Iterator[Family]:
    """The families of catalog functions. A family is imported when a function is in none of those before it."""
    from pgrepl.query.system.functions import families

    yield from families()

    from pgrepl.replication import functions

    yield functions.implements

    from pgrepl.replication import decoding

    yield decoding.implements

    from pgrepl.replication import standby

    yield standby.implements


def _define(session: Session, statements: Sequence[str]) -> None:
    from pgrepl.sql.parser import parse
    from pgrepl.statements.utility import execute

    for text in statements:
        for raw in parse(text, session.report, session.settings.string_rules):
            execute(raw.stmt, session)
            session.transaction.numbering.store_snapshot()


def _check_domain(session: Session, domain: int, value: Any) -> None:
    from pgrepl.expr.evaluate import evaluate  # noqa: F401 – it knows how nodes are compiled
    from pgrepl.expr.evaluate.compiler import check_value

    check_value(domain, value, session)


def _check_domains(session: Session, domain: int, array: Any) -> None:
    from pgrepl.expr.arrow.operations import check_column
    from pgrepl.expr.evaluate.compiler import session_context

    check_column(domain, array, session_context(session))


HOOKS = Hooks(
    define_in_lake=_later("pgrepl.statements.upkeep.lake", "define"),
    adopt_from_lake=_later("pgrepl.statements.upkeep.lake", "adopt"),
    system_relations=_system_relations,
    system_rows=_system_rows,
    catalog_function=_catalog_function,
    routine=_later("pgrepl.statements.routine.call", "routine_function"),
    execute=_later("pgrepl.statements.run", "execute_nested"),
    procedure=_later("pgrepl.statements.routine.call", "prepare_call"),
    define=_define,
    object_oid=_later("pgrepl.expr.catalog_names", "oid_of"),
    object_name=_later("pgrepl.expr.catalog_names", "text_of"),
    call_trigger=_later("pgrepl.statements.routine.call", "call_trigger"),
    check_domain=_check_domain,
    check_domains=_check_domains,
    rows_at=_later("pgrepl.query.table_rows", "rows_at"),
)
