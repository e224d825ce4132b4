"""The statements that give a table here the columns that its publisher describes.

A column is dropped if it was fed before, and the publisher has dropped it; one that has only left the publications'
column lists stays. It is renamed, and gets another type, if it had the publisher's old name and type: what has been
declared otherwise here stays as it is, and so does a column that somebody has added, renamed or dropped here already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.relation import Attribute, Relation
from pgrepl.frozen import frozen
from pgrepl.replication.publisher.definition import RemoteAttribute, RemoteDefinition, RemoteType, type_here
from pgrepl.replication.subscriber.schema_changes.attnums import attnums
from pgrepl.replication.subscriber.schema_changes.known import KnownColumn, KnownTable
from pgrepl.replication.subscriber.schema_changes.types import missing_types
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.sql.quote import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.names import format_type
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


@frozen
class Followed:
    """The statements that the table here lacks, and what is known of the publisher's when they have run."""

    statements: tuple[str, ...]
    types: tuple[RemoteType, ...]  # those that the statements need
    known: KnownTable
    without_value: tuple[int, ...]  # the numbers of added columns whose values in older rows are not known


def defined(definition: RemoteDefinition) -> KnownTable:
    """A table as its publisher defines it now."""
    columns = [KnownColumn(each.num, each.name, each.type, each.typmod, each.here, True) for each in definition.columns]
    return KnownTable(definition.oid, tuple(columns), is_settled=False)


def copied(sent: SentRelation, definition: RemoteDefinition | None) -> KnownTable:
    """A table as it was copied. `definition`: as the publisher defined it shortly before."""
    by_name = {} if definition is None else {each.name: each for each in definition.columns}
    columns = []
    for column in sent.columns:
        there = by_name.get(column.name)
        number = column.attnum or (there.num if there is not None else 0)
        is_same = there is not None and (there.type, there.typmod) == (column.sent_as, column.sent_typmod)
        here = there.here if there is not None and is_same else type_here(column.sent_as, column.sent_typmod)
        columns.append(KnownColumn(number, column.name, column.sent_as, column.sent_typmod, here, True))
    return KnownTable(sent.relid, tuple(columns), is_settled=True)


def added(session: Session, table: Relation, altered: Relation, definition: RemoteDefinition) -> Iterator[str]:
    """The statements that add the columns which a table lacks before it is copied. `altered`: the table, or the
    partitioned one that it belongs to."""
    for column in definition.columns:
        if table.attribute(column.name) is None:
            yield from missing_types(session, column.types)
            name = quote_qualified(altered.schema, altered.name)
            yield f"ALTER TABLE {name} ADD COLUMN {quote_identifier(column.name)} {column.here}"


def followed(
    table: Relation,
    altered: Relation,
    sent: SentRelation,
    known: KnownTable | None,
    present: Sequence[RemoteAttribute],
) -> Followed:
    """`known`: the publisher's table as it was followed last; `present`: its columns now."""
    before = _numbered(known, present) if known is not None and known.relid == sent.relid else {}
    numbers = attnums(sent.columns, before, present)
    there = {each.num: each for each in present}
    found = [_described(column, number, before, there) for column, number in zip(sent.columns, numbers, strict=True)]
    left = [each for number, each in before.items() if number not in numbers]
    gone = [each for each in left if each.is_sent and _is_dropped(each, there)]
    kept = [replace(each, is_sent=False) for each in left if not _is_dropped(each, there)]
    changes = _Changes(table, quote_qualified(altered.schema, altered.name))
    changes.drop(gone)
    changes.rename([(before[each.num].name, each.name) for each in found if each.num in before])
    without_value = []
    for each in found:
        missing = _missing(there.get(each.num))
        if changes.add(each, missing) and missing is None and each.num in there:
            without_value.append(each.num)
    for each in found:
        changes.alter_type(before.get(each.num), each)
    types = tuple(dict.fromkeys(kind for each in changes.typed if each in there for kind in there[each].types))
    now = KnownTable(sent.relid, (*found, *kept), is_settled=True)
    return Followed(tuple(changes.statements), types, now, tuple(without_value))


def _numbered(known: KnownTable, present: Sequence[RemoteAttribute]) -> dict[int, KnownColumn]:
    """The known columns by number; those whose numbers are not known are found by their names."""
    unknown = [each for each in known.columns if not each.num]
    found = {each.num: each for each in known.columns if each.num}
    columns = [SentColumn(each.name, each.type, each.typmod, is_key=False) for each in unknown]
    for number, each in zip(attnums(columns, {}, present), unknown, strict=True):
        if number and number not in found:
            found[number] = replace(each, num=number)
    return found


def _described(
    column: SentColumn, number: int, before: Mapping[int, KnownColumn], there: Mapping[int, RemoteAttribute]
) -> KnownColumn:
    typoid, typmod = column.sent_as, column.sent_typmod
    here = next(
        (
            each.here
            for each in (there.get(number), before.get(number))
            if each is not None and (each.type, each.typmod) == (typoid, typmod)
        ),
        type_here(typoid, typmod),
    )
    return KnownColumn(number, column.name, typoid, typmod, here, True)


def _is_dropped(column: KnownColumn, there: Mapping[int, RemoteAttribute]) -> bool:
    """Has the publisher dropped it, or undone that it was added? If the table is gone, it has not."""
    found = there.get(column.num)
    return bool(there) and (found is None or found.dropped)


def _missing(attribute: RemoteAttribute | None) -> str | None:
    """The value that a column has in the publisher's older rows, if that is known: not if they were rewritten since."""
    return None if attribute is None or attribute.dropped else attribute.missing


class _Changes:
    """The statements so far, and the table's columns as they will be then."""

    def __init__(self, table: Relation, name: str) -> None:
        self.statements: list[str] = []
        self.typed: list[int] = []  # columns that are added, or get another type
        self._columns: dict[str, Attribute | None] = {column.name: column for column in table.columns}
        self._name = name

    def _alter(self, action: str) -> None:
        self.statements.append(f"ALTER TABLE {self._name} {action}")

    def drop(self, columns: Sequence[KnownColumn]) -> None:
        for each in columns:
            if self._columns.pop(each.name, None) is not None:
                self._alter(f"DROP COLUMN {quote_identifier(each.name)}")

    def rename(self, names: Sequence[tuple[str, str]]) -> None:
        """Rename columns, whose names may have been exchanged."""
        left = [(old, new) for old, new in names if old != new and old in self._columns]
        while left:
            free = next((each for each in left if each[1] not in self._columns), None)
            if free is None:  # a name that is not exchanged is taken: the statement says so
                free = next((each for each in left if each[1] not in dict(left)), None)
            if free is None:
                old, new = left.pop(0)
                between = next(
                    name for n in range(len(self._columns) + 1) if (name := f"{new}_{n}") not in self._columns
                )
                left.append((between, new))
                free = (old, between)
            else:
                left.remove(free)
            self._columns[free[1]] = self._columns.pop(free[0])
            self._alter(f"RENAME COLUMN {quote_identifier(free[0])} TO {quote_identifier(free[1])}")

    def add(self, column: KnownColumn, missing: str | None) -> bool:
        """Add a column if there is none of its name. A value for existing rows is a default for a moment."""
        if column.name in self._columns:
            return False
        name = quote_identifier(column.name)
        default = "" if missing is None else f" DEFAULT {quote_literal(missing)}"
        self._alter(f"ADD COLUMN {name} {column.here}{default}")
        if default:
            self._alter(f"ALTER COLUMN {name} DROP DEFAULT")
        self._columns[column.name] = None
        self.typed.append(column.num)
        return True

    def alter_type(self, before: KnownColumn | None, column: KnownColumn) -> None:
        attribute = self._columns[column.name]
        if before is None or attribute is None or before.here == column.here:
            return
        if _type_name(attribute) == before.here:
            self.typed.append(column.num)
            self._alter(f"ALTER COLUMN {quote_identifier(column.name)} TYPE {column.here}")


def _type_name(column: Attribute) -> str:
    """The name of a column's type, with its schema if it is a user's."""

    def of_user(oid: int) -> str | None:
        if not isinstance(column.type, UserType):
            return None
        row = column.type.types.row_of(oid)
        return quote_qualified(row.schema, row.name)

    return format_type(column.type, column.typmod, of_user)
