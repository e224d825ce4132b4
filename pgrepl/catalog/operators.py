"""Look-ups of operators: PostgreSQL's own, and those of the database's users (pg_operator).

Analysis knows an operator as `types.builtin.Operator`, whoever made it. Expressions carry the function of a user's
operator beside its OID, so that evaluation needs no look-up.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import CATALOG_NAMESPACE, FIRST_NORMAL_OID
from pgrepl.catalog.namespace import schema_name, search_path
from pgrepl.catalog.store import one, rows
from pgrepl.types import builtin
from pgrepl.types.builtin import Operator

if TYPE_CHECKING:
    from pgrepl.catalog.context import CatalogSession


def is_user_operator(oid: int) -> bool:
    return oid >= FIRST_NORMAL_OID


def operator_row(session: CatalogSession, oid: int) -> tables.pg_operator | None:
    """The row of a user's operator; None: there is none of that OID in the database."""
    return one(session, tables.pg_operator, datid=session.database_oid, oid=oid)


def operator_rows(session: CatalogSession) -> list[tables.pg_operator]:
    """The users' operators of the database in OID order."""
    return sorted(rows(session, tables.pg_operator, datid=session.database_oid), key=lambda row: int(row.oid))


def operator(session: CatalogSession, oid: int) -> Operator | None:
    """An operator by its OID."""
    if not is_user_operator(oid):
        return builtin.operator_by_oid(oid)
    row = operator_row(session, oid)
    return None if row is None else _as_operator(session, row)


def namespace_of(session: CatalogSession, oid: int) -> int:
    """The schema of an operator that exists."""
    row = operator_row(session, oid) if is_user_operator(oid) else None
    return CATALOG_NAMESPACE if row is None else row.oprnamespace


def operators_named(session: CatalogSession, name: str, namespace: int = 0) -> list[Operator]:
    """The operators of this name in one schema; or in those of search_path, in its order."""
    own = _own(session).get(name)
    if own is None:
        return builtin.operators_by_name(name) if namespace in (0, CATALOG_NAMESPACE) else []
    found: list[Operator] = []
    for each in (namespace,) if namespace else search_path(session):
        if each == CATALOG_NAMESPACE:
            found += builtin.operators_by_name(name)
        if each != session.temporary_schema or namespace:
            found += own.get(each, ())
    return found


def has_user_operators(session: CatalogSession, name: str) -> bool:
    return name in _own(session)


def is_visible(session: CatalogSession, operator: Operator) -> bool:
    """Whether the bare name finds it: another with its operands may come earlier in search_path (OperatorIsVisible)."""
    named = operators_named(session, operator.name)
    first = next((o for o in named if (o.left, o.right) == (operator.left, operator.right)), None)
    return first is not None and first.oid == operator.oid


def operator_text(session: CatalogSession, oid: int) -> str:
    """The symbol of an operator that exists, with its schema."""
    from pgrepl.sql.quote import quote_identifier

    found = operator(session, oid)
    assert found is not None
    return f"{quote_identifier(schema_name(session, namespace_of(session, oid)))}.{found.name}"


def _own(session: CatalogSession) -> dict[str, dict[int, list[Operator]]]:
    """The users' operators by name and schema."""
    known: dict[str, dict[int, list[Operator]]] | None = session.derived.get(("operators",))
    if known is None:
        known = session.derived["operators",] = defaultdict(lambda: defaultdict(list))
        for row in operator_rows(session):
            known[row.oprname][row.oprnamespace].append(_as_operator(session, row))
    return known


def _as_operator(session: CatalogSession, row: tables.pg_operator) -> Operator:
    return Operator(
        row.oid, row.oprname, row.oprkind, row.oprcanmerge, row.oprcanhash, session.type_of(row.oprleft),
        session.type_of(row.oprright), session.type_of(row.oprresult), row.oprcom, row.oprnegate, row.oprcode,
        row.oprrest, row.oprjoin,
    )  # fmt: skip
