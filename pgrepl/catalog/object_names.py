"""Names of catalog objects for the reg* types (`'t'::regclass`), and the fields of row types.

The session's hooks resolve the names (query/system).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.catalog.context import CatalogSession
    from pgrepl.types.record import RowType


class ObjectNames:
    """The lookup of a session's TextStyle (`pgrepl.types.style.Lookup`)."""

    def __init__(self, session: CatalogSession) -> None:
        self._session = session

    def oid_of(self, typoid: int, text: str) -> int:
        return self._session.object_oid(typoid, text)

    def text_of(self, typoid: int, oid: int) -> str:
        return self._session.object_name(typoid, oid)

    def row_type(self, typoid: int) -> RowType | None:
        from pgrepl.catalog.row_types import row_type

        return row_type(self._session, typoid)
