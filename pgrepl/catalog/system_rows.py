"""Where the rows of system catalogs and views come from.

What fills them lives higher up (a view such as pg_publication_tables needs expressions); it registers itself here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import system

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Rows = Callable[["Session"], Iterable[tuple[Any, ...]]]
"""A row has a Python value for each column."""
Values = Mapping[str, Any]
"""A row before it is brought to the columns of its relation."""
Provider = Callable[["Session"], Iterable[Values]]

_rows: dict[int, Rows] = {}
_provided: dict[str, Provider] = {}


def register(relation: system.SystemRelation, rows: Rows) -> None:
    system.register(relation)
    _rows[relation.oid] = rows


def rows(session: Session, relation: system.SystemRelation) -> Iterable[tuple[Any, ...]]:
    return _rows[relation.oid](session)


def provide(providers: Mapping[str, Provider]) -> None:
    """Say where the rows of relations of pg_catalog come from."""
    _provided.update(providers)


def provider(name: str) -> Provider | None:
    return _provided.get(name)
