"""The tables that records name, as plain data: kernels decide records by it without a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgrepl.errors import Declined, PgError
from pgrepl.frozen import frozen
from pgrepl.replication.publisher.files.columns import TableColumns
from pgrepl.replication.publisher.files.declared import Declarations, NotSendable

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.formats.event import ColumnTypes

Name = tuple["str | None", "str | None"]  # schema and table, as records have them
Types = Mapping[str, tuple[int, int]]


class NotByTasks(Exception):
    """Tasks of Spark cannot read the files; the message says why. This process reads them."""


@frozen
class DescribedName:
    """`types`: for the format's reader; None: there is no such table. `columns`: of the table; without it its records
    are wrong (`error`) or declined."""

    types: Types | None
    columns: TableColumns | None = None
    error: PgError | None = None
    declined: str = ""


def described(session: Session, declared: Declarations, types: ColumnTypes, name: Name) -> DescribedName:
    try:
        columns = TableColumns(declared, declared.table(*name), session)
    except Declined as reason:
        return DescribedName(types(*name), declined=str(reason))
    except NotSendable as problem:
        return DescribedName(types(*name), declined=problem.error.message)
    except PgError as error:
        return DescribedName(types(*name), error=error)
    if not columns.is_portable:
        raise NotByTasks("values whose types ask the catalog")
    return DescribedName(types(*name), columns)


class NamedTables:
    """The tables of a task's records. `unknown`: names that records have and the task was not told about."""

    def __init__(self, known: Mapping[Name, DescribedName]) -> None:
        self._known = known
        self.unknown: set[Name] = set()

    def types(self, schema: str | None, table: str | None) -> Types | None:
        """See formats.event.ColumnTypes."""
        found = self._known.get((schema, table))
        if found is None:
            self.unknown.add((schema, table))
            return None
        return found.types

    def columns(self, schema: str | None, table: str | None) -> TableColumns | None:
        """The columns of a table; None: the name is not known."""
        found = self._known.get((schema, table))
        if found is None:
            self.unknown.add((schema, table))
            return None
        if found.columns is not None:
            return found.columns
        if found.error is not None:
            raise found.error
        raise Declined(found.declined)
