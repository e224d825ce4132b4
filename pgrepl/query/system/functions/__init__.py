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
    from pgrepl.query.system.functions import sequences

    yield sequences.implements

    from pgrepl.query.system.functions import locks

    yield locks.implements

    from pgrepl.query.system.functions import names

    yield names.implements

    from pgrepl.query.system.functions import information_schema

    yield information_schema.implements

    from pgrepl.query.system.functions import notifications

    yield notifications.implements

    from pgrepl.query.system.functions import privileges

    yield privileges.implements

    from pgrepl.query.system.functions import definitions

    yield definitions.implements

    from pgrepl.query.system.functions import routines

    yield routines.implements

    from pgrepl.query.system.functions import snapshots

    yield snapshots.implements

    from pgrepl.query.system.functions import state

    yield state.implements

    from pgrepl.query.system.functions import statistics

    yield statistics.implements

    from pgrepl.query.system.functions import structure

    yield structure.implements

    from pgrepl.query.system.functions import transactions

    yield transactions.implements

    from pgrepl.query.system.functions import initdb

    yield initdb.implements
