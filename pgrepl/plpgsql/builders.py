"""The registry of PL/pgSQL's builders: alias of the grammar → function, as pgrepl.sql.build has SQL's."""

from __future__ import annotations

from importlib import import_module

from pgrepl.sql.build import BUILDERS as SQL_BUILDERS
from pgrepl.sql.build import Builder, BuilderTable, common, registering

FORMS = (common,)  # importing it registers lists and constants

_BUILDERS: BuilderTable = {}
build = registering(_BUILDERS)

_FAMILIES = ("build", "build_declarations", "build_loops", "build_sql")


def builder(alias: str) -> tuple[Builder, int | tuple[int, ...]]:
    """The builder of an alias. Lists and constants are built as in SQL."""
    if not _BUILDERS:
        for family in _FAMILIES:
            import_module(f"{__package__}.{family}")
    return _BUILDERS.get(alias) or SQL_BUILDERS[alias]
