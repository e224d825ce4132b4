"""The registry of PL/pgSQL's builders: alias of the grammar → function, as pgrepl.sql.build has SQL's."""

from __future__ import annotations

from pgrepl.sql.build import BUILDERS as SQL_BUILDERS
from pgrepl.sql.build import Builder, BuilderTable, common, registering

FORMS = (common,)  # importing it registers lists and constants

_BUILDERS: BuilderTable = {}
build = registering(_BUILDERS)


def builder(alias: str) -> tuple[Builder, int | tuple[int, ...]]:
    """The builder of an alias. Lists and constants are built as in SQL."""
    return _BUILDERS.get(alias) or SQL_BUILDERS[alias]
