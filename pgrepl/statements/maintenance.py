"""Whose rights and which search path the functions of indexes and materialized views run with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgrepl.catalog.context import RESTRICTED_OPERATION
from pgrepl.catalog.session import Session

_SAFE_SEARCH_PATH = "pg_catalog, pg_temp"  # GUC_SAFE_SEARCH_PATH


@contextmanager
def maintaining(session: Session, owner: int) -> Iterator[None]:
    """Work with the rights of a relation's owner and a safe search path (RestrictSearchPath)."""
    settings = session.settings
    before = settings.begin()
    settings.set("search_path", _SAFE_SEARCH_PATH, local=True)
    try:
        with session.acting_as(owner, RESTRICTED_OPERATION):
            yield
    finally:
        settings.restore(before)
