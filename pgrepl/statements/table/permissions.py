"""Who may change a relation, and which relations nobody changes."""

from __future__ import annotations

from pgrepl.catalog.relation import Relation
from pgrepl.errors import PgError


def refuse_catalog(rel: Relation, name: str) -> None:
    """The system's own tables are not for changing (IsSystemClass without allow_system_table_mods)."""
    if rel.is_catalog:
        raise PgError("42501", f'permission denied: "{name}" is a system catalog')
