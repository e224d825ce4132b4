"""pgrepl: PostgreSQL's logical replication, in PostgreSQL's words, for tables in a lake.

`connect()` and the other names of DB-API 2.0 (PEP 249), `sync()`, `apply()`, `status()`, `publications()`, `compare()`
and `repair()` are found in pgrepl.api when they are first asked for, so that `import pgrepl` costs nothing.

For who changes it: docs/architecture.md names the rooms, and a table there, "Where do I change …?", their modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

apilevel = "2.0"
threadsafety = 1  # threads may share the module, but not connections
paramstyle = "pyformat"  # %(name)s and %s, and PostgreSQL's own $1

_HOMES = {
    "connection": ("connect", "Connection"),
    "cursor": ("Column", "Cursor"),
    "exceptions": (
        "DataError", "DatabaseError", "Diagnostic", "Error", "IntegrityError", "InterfaceError", "InternalError",
        "NotSupportedError", "OperationalError", "ProgrammingError", "Warning",
        "BINARY", "Binary", "DATETIME", "Date", "DateFromTicks", "NUMBER", "ROWID", "STRING", "Time", "TimeFromTicks",
        "Timestamp", "TimestampFromTicks",
    ),
    "replication": (
        "Progress", "Publication", "PublishedTable", "apply", "compare", "publications", "repair", "status", "sync",
    ),
    "rounds": ("SubscriptionRound",),
    "datasource": ("register",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from pgrepl.api.connection import Connection, connect
    from pgrepl.api.cursor import Column, Cursor
    from pgrepl.api.datasource import register
    from pgrepl.api.exceptions import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        DatabaseError,
        DataError,
        Date,
        DateFromTicks,
        Diagnostic,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
        Warning,
    )
    from pgrepl.api.replication import (
        Progress,
        Publication,
        PublishedTable,
        apply,
        compare,
        publications,
        repair,
        status,
        sync,
    )
    from pgrepl.api.rounds import SubscriptionRound

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Column", "Connection", "Cursor", "DataError",
    "DatabaseError", "Date", "DateFromTicks", "Diagnostic", "Error", "IntegrityError", "InterfaceError",
    "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError", "Progress", "Publication",
    "PublishedTable", "SubscriptionRound", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning",
    "__version__", "apilevel", "apply", "compare", "connect", "paramstyle", "publications", "register", "repair",
    "status", "sync", "threadsafety",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.api.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
