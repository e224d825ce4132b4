"""A published table as statements that make it at a subscriber (`pgrepl import-schema`, schema_changes).

A table comes with what replication needs of it: the published columns, NOT NULL, its primary key, its replica identity,
and its partitions where rows are published by them; and with the types of its columns. What a subscriber does without
(defaults, checks, foreign keys, other indexes) is left out. A type that cannot be made here becomes text, which takes
its values as they are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.sql.quote import quote_identifier, quote_qualified
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.lake_forms import form
from pgrepl.types.names import format_type
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.text import reader


@frozen
class RemoteType:
    """An enum, a domain or a composite type of the publisher, as it is made at a subscriber."""

    schema: str
    name: str
    made: tuple[str, ...]  # the statements
    left: tuple[str, ...] = ()  # what is not made of it

    @property
    def qualified_name(self) -> str:
        return quote_qualified(self.schema, self.name)


@frozen
class RemoteAttribute:
    """A column of the publisher's table, by its present definition."""

    num: int
    name: str
    type: int
    typmod: int
    here: str  # the type that takes its values at a subscriber
    dropped: bool = False
    missing: str | None = None  # the value of rows that are older than the column
    types: tuple[RemoteType, ...] = ()  # those that `here` needs, in the order in which they are made


@frozen
class RemoteColumn:
    """A published column."""

    num: int
    name: str
    type: int
    typmod: int
    here: str  # the type that takes its values at a subscriber
    notnull: bool
    comment: str | None = None  # the column's own type, if another takes its place
    types: tuple[RemoteType, ...] = ()  # those that `here` needs, in the order in which they are made


@frozen
class RemoteDefinition:
    """A table of the publisher, as far as it is made at a subscriber."""

    oid: int
    schema: str
    name: str
    columns: tuple[RemoteColumn, ...]
    key: tuple[str, ...]
    replident: str
    identity: tuple[str, ...]  # the columns of a replica identity index
    identity_name: str  # of that index
    partition_key: str | None
    parent: tuple[str, str] | None  # of a partition that is made as one
    bound: str | None
    left: tuple[str, ...] = ()  # what is not made of its columns, in words

    @property
    def qualified_name(self) -> str:
        return quote_qualified(self.schema, self.name)

    @property
    def types(self) -> tuple[RemoteType, ...]:
        """The types of the columns; partitions have those of their root."""
        return tuple(dict.fromkeys(each for column in self.columns for each in column.types))

    @property
    def notes(self) -> tuple[str, ...]:
        """The differences between the tables here and at the publisher, in words."""
        named = [each for each in self.columns if each.comment]
        return tuple([f"column {each.name} of table {self.qualified_name}: {each.comment}" for each in named])

    def add_column(self, column: RemoteColumn) -> str:
        """The statement that adds a column which a table here lacks."""
        return f"ALTER TABLE {self.qualified_name} ADD COLUMN {quote_identifier(column.name)} {column.here};"

    def statements(self, *, comments: bool) -> Iterator[str]:
        """The statements that make it. `comments`: with those that say where a column has another type."""
        if self.parent is not None:
            by = "" if self.partition_key is None else f" PARTITION BY {self.partition_key}"
            yield f"CREATE TABLE {self.qualified_name} PARTITION OF {quote_qualified(*self.parent)} {self.bound}{by};"
        else:
            yield _create(self, comments=comments)
        if self.replident == "f":
            yield f"ALTER TABLE {self.qualified_name} REPLICA IDENTITY FULL;"
        elif self.replident == "i" and self.identity and self.partition_key is None:
            index, listed = quote_identifier(self.identity_name), ", ".join(map(quote_identifier, self.identity))
            yield f"CREATE UNIQUE INDEX {index} ON {self.qualified_name} ({listed});"
            yield f"ALTER TABLE {self.qualified_name} REPLICA IDENTITY USING INDEX {index};"


def definition_of(found: Iterable[RemoteDefinition], schema: str, name: str) -> RemoteDefinition | None:
    """The definition of the published table itself, among those of its partitions."""
    return next((each for each in found if (each.schema, each.name) == (schema, name)), None)


def _create(table: RemoteDefinition, *, comments: bool) -> str:
    lines = []
    for column in table.columns:
        text = f"{quote_identifier(column.name)} {column.here}{' NOT NULL' if column.notnull else ''}"
        lines.append((text, column.comment if comments else None))
    if table.key:
        lines.append((f"PRIMARY KEY ({', '.join(map(quote_identifier, table.key))})", None))
    last = len(lines) - 1
    body = "".join(
        f"    {text}{',' if number < last else ''}{f'  -- {_one_line(comment)}' if comment else ''}\n"
        for number, (text, comment) in enumerate(lines)
    )
    by = "" if table.partition_key is None else f" PARTITION BY {table.partition_key}"
    return f"CREATE TABLE {table.qualified_name} (\n{body}){by};"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def is_here(typoid: int, typmod: int) -> bool:
    """Can a column here have this type of a publisher?"""
    row = type_by_oid(typoid) if typoid < FIRST_USER_OID else None
    if row is None or row.typtype == "p" or row.name.lstrip("_").startswith("reg"):
        return False  # values of regclass and similar types name objects of the server
    try:
        form(typoid, typmod)
        reader(typoid)
    except PgError:
        return False
    return True


def type_here(typoid: int, typmod: int) -> str:
    """The name of the type that takes the values of a publisher's type."""
    return format_type(typoid, typmod) if is_here(typoid, typmod) else "text"
