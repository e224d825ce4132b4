"""The options of the data source, and the session that they lead to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pgrepl.api.opened import OpenedSession
    from pgrepl.catalog.relation import Relation
    from pgrepl.catalog.session import Session

READING = frozenset(("table", "publication", "where", "pushdown", "partitions"))
STREAMING = frozenset(("table", "publication", "slot", "copy_data", "partitions"))
WRITING = frozenset(("table", "origin", "position"))
STREAM_WRITING = frozenset(("table", "origin", "checkpointlocation"))
_EVERYWHERE = frozenset(("catalog", "dbname", "user"))
_OF_SPARK = frozenset(("path", "outputmode", "queryname"))  # Spark adds these by itself


@frozen
class SourceOptions:
    """The options that a person has given with .option(…)."""

    given: dict[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        return cls({name.lower(): value for name, value in options.items()})

    def check(self, known: frozenset[str], what: str) -> None:
        """Raise for an option that means nothing here."""
        for name in self.given:
            if name not in known and name not in _EVERYWHERE and name not in _OF_SPARK:
                names = ", ".join(sorted(known | _EVERYWHERE))
                raise PgError("22023", f'unrecognized option "{name}" for {what}', hint=f"There are {names}.")

    def get(self, name: str) -> str | None:
        return self.given.get(name) or None

    def required(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise PgError("22023", f'the data source needs the option "{name}"', hint=f'Add .option("{name}", …).')
        return value

    def number(self, name: str) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if not value.isdigit() or int(value) < 1:
            raise PgError("22023", f'invalid value for option "{name}": "{value}"')
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = (self.get(name) or str(default)).lower()
        if value not in ("true", "false", "on", "off", "1", "0"):
            raise PgError("22023", f'invalid value for option "{name}": "{value}"', hint="Use true or false.")
        return value in ("true", "on", "1")

    @contextmanager
    def session(self) -> Iterator[OpenedSession]:
        """A session as the options say, closed at the end."""
        from pgrepl.api.opened import OpenedSession

        catalog = self.get("catalog") or os.environ.get("PGREPL_CATALOG") or "catalog.db"
        if "://" not in catalog and not os.path.exists(catalog):
            raise PgError("58P01", f'could not open catalog "{os.path.abspath(catalog)}": No such file or directory')
        opened = OpenedSession(
            catalog,
            self.get("dbname") or os.environ.get("PGDATABASE") or "postgres",
            self.get("user") or os.environ.get("PGUSER") or "postgres",
        )
        try:
            yield opened
        finally:
            opened.close()


def find_table(session: Session, name: str) -> Relation:
    """The table of an option: `orders`, `sales.orders`, with identifiers as in SQL. It must have rows of its own."""
    from pgrepl.query.system.names import relation_named

    found = relation_named(session, name)
    if found.kind not in ("r", "p"):
        raise PgError(
            "42809",
            f'"{found.name}" is not a table',
            hint="Query it instead: pgrepl.connect(…).execute(…).spark().",
        )
    if found.is_system:
        raise PgError("42809", f'"{found.name}" is a system table', hint="Query it with pgrepl.connect(…).execute(…).")
    return found
