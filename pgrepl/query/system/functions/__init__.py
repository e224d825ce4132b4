"""Functions that only the catalog can answer: pg_get_expr, obj_description, has_table_privilege, current_schemas …

Each module is a family (expr/functions/registry.py) of functions, registered by their prosrc in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgrepl.expr.functions.registry import Family


def families() -> Iterator[Family]:
    """All families. Each is imported only when the iteration reaches it."""
    from pgrepl.query.system.functions import relations

    yield relations.implements

    from pgrepl.query.system.functions import activity

    yield activity.implements

    from pgrepl.query.system.functions import names

    yield names.implements

    from pgrepl.query.system.functions import definitions

    yield definitions.implements

    from pgrepl.query.system.functions import privileges

    yield privileges.implements

    from pgrepl.query.system.functions import state

    yield state.implements
