"""Definitions in the stream (schema_changes = all): what a table or an enum is from a place in the order of changes on.

A lake tells them itself. A server tells them by logical messages, which the event triggers write that `pgrepl
import-schema --ddl-trigger` prints (postgres/ddl_trigger.py). Each message has the whole definition, not the statement:
what of it is new the subscriber finds by what it has followed last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from pgrepl.ground.frozen import frozen
from pgrepl.replication.wire.messages import Emitted

PREFIX = "pgrepl"  # of the logical messages; an empty one is a heartbeat (pgrepl.publisher_heartbeat)


@dataclass(frozen=True)
class ToldColumn:
    num: int
    name: str
    type: int
    typmod: int
    type_name: str
    notnull: bool
    generated: str  # s: STORED, v: VIRTUAL
    default: str | None  # or the expression of a generated column
    missing: str | None  # the value of rows that are older than the column
    not_null: str | None = None  # the name of the constraint; earlier releases do not tell it


@dataclass(frozen=True)
class ToldTable:
    """A table as it is after a statement. Dropped columns are left out."""

    oid: int
    schema: str
    name: str
    replident: str
    key: list[str]  # the columns of the primary key
    key_name: str | None
    identity: list[str]  # the columns of a replica identity index
    identity_name: str | None
    columns: list[ToldColumn]
    published: dict[str, list[str]]  # the columns that each publication publishes

    def published_columns(self, publications: Sequence[str]) -> list[ToldColumn]:
        """The columns that these publications publish."""
        listed = {name for publication in publications for name in self.published.get(publication, ())}
        return [column for column in self.columns if column.name in listed]


@dataclass(frozen=True)
class ToldEnum:
    schema: str
    name: str
    labels: list[str]


@frozen
class Told:
    """What one message tells. `dropped`: tables, by the publisher's numbers."""

    tables: tuple[ToldTable, ...] = ()
    enums: tuple[ToldEnum, ...] = ()
    dropped: tuple[int, ...] = ()

    def content(self) -> bytes:
        tables, enums = [asdict(each) for each in self.tables], [asdict(each) for each in self.enums]
        return json.dumps({"tables": tables, "enums": enums, "dropped": self.dropped}).encode()


@frozen
class PresentTables:
    """Tables as the catalog has them of a publisher that tells no definitions. `lsn`: all before it is in them.
    `dropped`: those that are gone, by the publisher's numbers."""

    lsn: int
    tables: tuple[ToldTable, ...]
    dropped: tuple[int, ...]


def told(emitted: Iterable[Emitted]) -> list[tuple[int, Told]]:
    """What these messages tell, each with the number of changes before it."""
    telling = [e for e in emitted if e.message.transactional and e.message.prefix == PREFIX and e.message.content]
    return [(each.after, _read(json.loads(each.message.content))) for each in telling]


def _read(content: Mapping[str, Any]) -> Told:
    return Told(
        tuple([table(told_table) for told_table in content.get("tables") or ()]),
        tuple([_made(ToldEnum, told_enum) for told_enum in content.get("enums") or ()]),
        tuple(content.get("dropped") or ()),
    )


def table(content: Mapping[str, Any]) -> ToldTable:
    columns = [_made(ToldColumn, column) for column in content["columns"] or ()]
    return _made(ToldTable, {**content, "columns": columns, "published": content["published"] or {}})


T = TypeVar("T", ToldTable, ToldColumn, ToldEnum)


def _made(cls: type[T], content: Mapping[str, Any]) -> T:
    """What a later release tells besides is left out."""
    return cls(**{name: content[name] for name in cls.__dataclass_fields__ if name in content})
