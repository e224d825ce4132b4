"""Raw parse trees: PostgreSQL's parse nodes as frozen dataclasses.

Names follow PostgreSQL's parsenodes.h where it has one, so that a rule found there can be found here. `location` is the
0-based character offset in the statement's text (-1: nowhere). Sequences are tuples, optional parts are None.

A family is imported when the first of its names is asked for: to print an expression does not load CREATE TABLE.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgrepl.sql.nodes.expr import *  # noqa: F403
    from pgrepl.sql.nodes.json import *  # noqa: F403
    from pgrepl.sql.nodes.publication import *  # noqa: F403
    from pgrepl.sql.nodes.routine import *  # noqa: F403
    from pgrepl.sql.nodes.select import *  # noqa: F403
    from pgrepl.sql.nodes.table import *  # noqa: F403
    from pgrepl.sql.nodes.utility import *  # noqa: F403

_FAMILIES = ("expr", "select", "json", "utility", "publication", "table", "routine")


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for family in _FAMILIES:
            module = import_module(f"{__name__}.{family}")
            if hasattr(module, name):
                node_class = globals()[name] = getattr(module, name)
                return node_class
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
