"""The statements that give a table here the columns that its publisher describes, and the types that these need.

A column is dropped if it was fed before, and the publisher has dropped it; it is renamed or gets another type if it
had the publisher's old name and type. What somebody has declared otherwise here stays. A server does not tell attnums
with its stream: columns are aligned by present names, by the names of last time, and between these by types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.namespace import schema_or_none
from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.catalog.facts.subscription import ALL
from pgrepl.catalog.session.transaction import LockNeeded
from pgrepl.catalog.store import store, tables
from pgrepl.expr.analyse.lookup import type_in_schema_named
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.commit import LockedByOthers
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.definitions import ToldColumn, ToldTable
from pgrepl.replication.publisher.protocol import PublisherCatalog
from pgrepl.replication.publisher.tables import RemoteAttribute, RemoteDefinition, RemoteType, type_here
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.names import format_type
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def missing_types(session: Session, types: Iterable[RemoteType]) -> Iterator[str]:
    """The statements that make what is not here; each is to be run before the next is asked for."""
    for remote in types:
        if schema_or_none(session, remote.schema) is None:
            yield f"CREATE SCHEMA {quote_identifier(remote.schema)};"
        elif type_in_schema_named(session, remote.schema, remote.name):
            continue
        yield from remote.made


# --- known ------------------------------------------------------------------------------------------------------------


@frozen
class KnownColumn:
    num: int  # 0: not known
    name: str
    type: int
    typmod: int
    here: str  # the type that takes its values here
    is_sent: bool  # not sent: it has left the publications' column lists, or is generated
    # as the stream has told it (publisher/definitions.py); None: it has not
    notnull: bool | None = None
    default: str | None = None
    generated: str = ""  # the kind and the expression of a generated column that is not sent
    key: int = 0  # its place in the primary key; 0: it is none of it
    identity: int = 0  # its place in the index of the replica identity; FULL, NOTHING


@frozen
class KnownTable:
    """`is_settled`: the table here has these columns. Before that they are only known."""

    relid: int  # the publisher's; 0: not known
    columns: tuple[KnownColumn, ...]
    is_settled: bool

    @property
    def is_told(self) -> bool:
        """Is known what only definitions in the stream tell?"""
        return any(column.notnull is not None for column in self.columns)

    def with_told(self, told: ToldTable | None) -> KnownTable:
        """The same columns, with what the stream tells of them."""
        return replace(self, columns=told_columns(self.columns, told, {}))

    def is_as(self, sent: SentRelation) -> bool:
        """Is the table here as the stream describes it?"""
        if not self.is_settled or self.relid != sent.relid:
            return False
        if self.is_told and heard(self.columns, sent) != self.columns:
            return False
        ours = [column for column in self.columns if column.is_sent]
        return len(ours) == len(sent.columns) and all(
            (one.name, one.type, one.typmod) == (other.name, other.sent_as, other.sent_typmod)
            and (one.num == other.attnum or not other.attnum)
            for one, other in zip(ours, sent.columns, strict=True)
        )


FULL, NOTHING = -1, -2  # replica identities, in place of a place in an index


def _whole(replident: str, *, has_index: bool) -> int:
    """FULL or NOTHING; 0: it is the primary key, or an index that is there."""
    return {"f": FULL, "n": NOTHING}.get(replident, 0 if replident == "d" or has_index else NOTHING)


def heard(columns: tuple[KnownColumn, ...], sent: SentRelation) -> tuple[KnownColumn, ...]:
    """The columns with the primary key or replica identity that the stream describes a relation with; as they are if
    they have it."""
    flagged = [column.name for column in sent.columns if column.is_key]
    whole = _whole(sent.replident, has_index=bool(flagged))
    if whole or sent.replident == "d":
        columns = tuple([replace(column, identity=whole) for column in columns])
    if whole:
        return columns
    field = "key" if sent.replident == "d" else "identity"
    if {column.name for column in columns if column.is_sent and getattr(column, field) > 0} == set(flagged):
        return columns
    places = {name: place for place, name in enumerate(flagged, 1)}
    if field == "key":
        return tuple([replace(column, key=places.get(column.name, 0)) for column in columns])
    return tuple([replace(column, identity=places.get(column.name, 0)) for column in columns])


def known_table(session: Session, subid: int, relid: int) -> KnownTable | None:
    """The table as it is known at its publisher; None: nothing is known yet."""
    row = store.one(session, tables.pgrepl_subscription_schema, srsubid=subid, srrelid=relid)
    if row is None:
        return None
    columns = tuple([KnownColumn(*values) for values in row.remote_columns])
    return KnownTable(row.remote_relid, columns, bool(row.is_settled))


def remember(session: Session, subid: int, relid: int, known: KnownTable) -> None:
    store.delete(session, tables.pgrepl_subscription_schema, srsubid=subid, srrelid=relid)
    store.insert(
        session,
        tables.pgrepl_subscription_schema,
        srsubid=subid,
        srrelid=relid,
        remote_relid=known.relid,
        remote_columns=_stored(known.columns),
        is_settled=known.is_settled,
    )


def _stored(columns: Sequence[KnownColumn]) -> list[list[object]]:
    return [
        [column.num, column.name, column.type, column.typmod, column.here, column.is_sent]
        + (
            []
            if column.notnull is None
            else [column.notnull, column.default, column.generated, column.key, column.identity]
        )
        for column in columns
    ]


# --- attnums ----------------------------------------------------------------------------------------------------------


_NAMED, _KNOWN, _ADDED = 100, 3, 2  # for an equal name, the type that it was followed with, a new column
_LEFT_OUT, _IMPOSSIBLE = -20, -(1 << 30)


def attnums(
    columns: Sequence[SentColumn], known: Mapping[int, KnownColumn], present: Sequence[RemoteAttribute]
) -> list[int]:
    """The number of each column; 0: it cannot be told. `known`: as followed last, by number."""
    if all(column.attnum for column in columns):
        return [column.attnum for column in columns]
    named = _by_name(columns, known, present)
    return named if named is not None else _aligned(columns, known, present)


def _by_name(
    columns: Sequence[SentColumn], known: Mapping[int, KnownColumn], present: Sequence[RemoteAttribute]
) -> list[int] | None:
    """The usual case: all columns have their present names, and those that were followed kept theirs."""
    numbers = {attribute.name: attribute.num for attribute in present if not attribute.dropped}
    chosen = [numbers.get(column.name, 0) for column in columns]
    if 0 in chosen or chosen != sorted(chosen):
        return None
    before = {column.name: column.num for column in known.values() if column.is_sent}
    is_sure = all(before.get(column.name, number) == number for column, number in zip(columns, chosen, strict=True))
    return chosen if is_sure else None


def _aligned(
    columns: Sequence[SentColumn], known: Mapping[int, KnownColumn], present: Sequence[RemoteAttribute]
) -> list[int]:
    """The numbers that rise from column to column and agree best with what is known, the lowest of several. If the
    table is gone, columns keep the numbers of their names."""
    if len(present) < len(columns):
        before = {column.name: column.num for column in known.values()}
        return [before.get(column.name, 0) for column in columns]
    width, count = len(present), len(columns)
    best = [[0] * (width + 1)]  # best[n][m]: n columns among the first m attributes
    passing = [
        [_passed(attribute, known, is_behind=number == count) for attribute in present] for number in range(count + 1)
    ]
    for place in range(width):
        best[0][place + 1] = best[0][place] + passing[0][place]
    for number, column in enumerate(columns, 1):
        row = [_IMPOSSIBLE] * (width + 1)
        for place in range(number - 1, width):
            taken = best[number - 1][place] + _agreement(column, present[place], known)
            row[place + 1] = max(taken, row[place] + passing[number][place])
        best.append(row)
    places = [0] * count
    place = width
    for number in range(count, 0, -1):
        while best[number][place] == best[number][place - 1] + passing[number][place - 1]:
            place -= 1
        places[number - 1] = place
        place -= 1
    return places


def _passed(attribute: RemoteAttribute, known: Mapping[int, KnownColumn], *, is_behind: bool) -> int:
    """For an attribute that is not described. One that is there now was there already, if one behind it was: unless a
    column list leaves it out. `is_behind`: none behind it is described."""
    before = known.get(attribute.num)
    if attribute.dropped or _is_never_sent(attribute, before):
        return 0
    return _LEFT_OUT if not is_behind or (before is not None and before.is_sent) else 0


def _agreement(column: SentColumn, attribute: RemoteAttribute, known: Mapping[int, KnownColumn]) -> int:
    before = known.get(attribute.num)
    if before is None and attribute.dropped:
        return _ADDED  # and dropped since
    if _is_never_sent(attribute, before) and attribute.name != column.name:
        return _LEFT_OUT
    score = 0
    if not attribute.dropped:
        score += 1 + _NAMED * (attribute.name == column.name) + (attribute.type == column.sent_as)
    if before is not None:
        score += 1 + _NAMED * (before.name == column.name) + _KNOWN * (before.type == column.sent_as)
    return score


def _is_never_sent(attribute: RemoteAttribute, before: KnownColumn | None) -> bool:
    """A generated column is sent only if it is published, and then it mostly has been before."""
    return bool(attribute.generated) and (before is None or not before.is_sent)


# --- columns ----------------------------------------------------------------------------------------------------------


@frozen
class Followed:
    """The statements that the table here lacks, and what is known of the publisher's when they have run."""

    statements: tuple[str, ...]
    computed: Mapping[str, Sequence[str]]  # instead of some of these: those that compute a column for older rows, too
    types: tuple[RemoteType, ...]  # those that the statements need
    known: KnownTable
    without_value: tuple[int, ...]  # the numbers of added columns whose values in older rows are not known


def described(
    subscription: tables.pg_subscription, publisher: PublisherCatalog, schema: str, name: str
) -> list[RemoteDefinition]:
    """The tables that are needed for a published one, with what the stream tells of them if that is followed."""
    names = subscription.subpublications
    definitions = publisher.definitions(schema, name, names)
    if subscription.subschemachanges == ALL:
        return [replace(table, told=publisher.told_table(table.oid, None, names)) for table in definitions]
    return definitions


def told_columns(
    columns: Sequence[KnownColumn], told: ToldTable | None, here: Mapping[int, str]
) -> tuple[KnownColumn, ...]:
    """The columns with what the stream tells of them, and the generated ones that are not sent. `here`: the types that
    take values here."""
    if told is None:
        return tuple(columns)
    whole = _whole(told.replident, has_index=bool(told.identity))
    key, identity = ({name: place for place, name in enumerate(names, 1)} for names in (told.key, told.identity))
    by_num, by_name = ({getattr(column, by): column for column in told.columns} for by in ("num", "name"))
    all_columns = []
    for column in columns:
        there = by_num.get(column.num) if column.num else by_name.get(column.name)
        all_columns.append(column if there is None else _told(column, there, key, identity, whole))
    sent = {column.num for column in all_columns if column.is_sent}
    rest = {column.num for column in told.columns if column.generated} - sent
    left = [column for column in all_columns if column.num not in rest]
    new = [KnownColumn(e.num, e.name, e.type, e.typmod, here.get(e.num, e.type_name), False) for e in told.columns]
    return (*left, *[_told(column, by_num[column.num], key, identity, whole) for column in new if column.num in rest])


def present_columns(known: Sequence[KnownColumn], told: ToldTable, here: Mapping[int, str]) -> tuple[KnownColumn, ...]:
    """The columns as they are told now, without dropped ones that are not sent. `here`: see told_columns."""
    there = {column.num for column in told.columns}
    return told_columns([column for column in known if column.is_sent or column.num in there], told, here)


def loosened(columns: Sequence[KnownColumn], told: ToldTable) -> tuple[KnownColumn, ...]:
    """The columns, but where the publisher's present ones let more rows in: without NOT NULL, and without a primary key
    that finds no rows, as whole rows are sent."""
    by_num = {column.num: column for column in told.columns}
    key = [column.name for column in sorted(columns, key=lambda column: column.key) if column.key]
    is_free = told.replident == "f" and told.key != key and all(column.identity == FULL for column in columns)
    loosened_columns = []
    for column in columns:
        there = by_num.get(column.num)
        if there is not None and column.notnull and not there.notnull and (is_free or not column.key):
            column = replace(column, notnull=False)
        loosened_columns.append(replace(column, key=0) if is_free else column)
    return tuple(loosened_columns)


def has_columns(known: KnownTable, told: ToldTable, publications: Sequence[str]) -> bool:
    """Does the publisher's table have the columns that the stream has described?"""
    there = {(column.num, column.name, column.type, column.typmod) for column in told.published_columns(publications)}
    return there == {
        (column.num, column.name, column.type, column.typmod) for column in known.columns if column.is_sent
    }


def kept_told(columns: Sequence[KnownColumn], before: Sequence[KnownColumn]) -> tuple[KnownColumn, ...]:
    """Columns as the stream describes them, with what it has told of them before."""
    was = {column.num: column for column in before}
    kept = [
        column
        if (old := was.get(column.num)) is None
        else replace(
            column,
            notnull=old.notnull,
            default=old.default,
            generated="" if column.is_sent else old.generated,
            key=old.key,
            identity=old.identity,
        )
        for column in columns
    ]
    return tuple([column if column.notnull is not None else replace(column, notnull=False) for column in kept])


def _told(
    column: KnownColumn, told: ToldColumn, key: Mapping[str, int], identity: Mapping[str, int], whole: int
) -> KnownColumn:
    kind = {"s": "STORED", "v": "VIRTUAL"}.get(told.generated)
    return replace(
        column,
        num=told.num,
        notnull=told.notnull,
        default=told.default if kind is None else None,
        generated=f"({told.default}) {kind}" if kind is not None and not column.is_sent else "",
        key=key.get(told.name, 0),
        identity=whole or identity.get(told.name, 0),
    )


def defined(definition: RemoteDefinition) -> KnownTable:
    """A table as its publisher defines it now."""
    columns = [
        KnownColumn(column.num, column.name, column.type, column.typmod, column.here, True)
        for column in definition.columns
    ]
    return KnownTable(definition.oid, tuple(columns), is_settled=False).with_told(definition.told)


def copied(sent: SentRelation, definition: RemoteDefinition | None) -> KnownTable:
    """A table as it was copied. `definition`: as the publisher defined it shortly before."""
    by_name = {} if definition is None else {column.name: column for column in definition.columns}
    columns = []
    for column in sent.columns:
        there = by_name.get(column.name)
        number = column.attnum or (there.num if there is not None else 0)
        is_same = there is not None and (there.type, there.typmod) == (column.sent_as, column.sent_typmod)
        here = there.here if there is not None and is_same else type_here(column.sent_as, column.sent_typmod)
        columns.append(KnownColumn(number, column.name, column.sent_as, column.sent_typmod, here, True))
    known = KnownTable(sent.relid, tuple(columns), is_settled=True)
    return known if definition is None else known.with_told(definition.told)


def added(session: Session, table: Relation, altered: Relation, definition: RemoteDefinition) -> Iterator[str]:
    """The statements that add the columns which a table lacks before it is copied. `altered`: the table, or the
    partitioned one that it belongs to."""
    for column in definition.columns:
        if table.attribute(column.name) is None:
            yield from missing_types(session, column.types)
            name = quote_qualified(altered.schema, altered.name)
            yield f"ALTER TABLE {name} ADD COLUMN {quote_identifier(column.name)} {column.here}"


def followed(
    table: Relation, altered: Relation, sent: SentRelation, known: KnownTable | None, present: Sequence[RemoteAttribute]
) -> Followed:
    """`known`: the publisher's table as it was followed last; `present`: its columns now."""
    before = _numbered(known, present) if known is not None and known.relid == sent.relid else {}
    numbers = attnums(sent.columns, before, present)
    there = {attribute.num: attribute for attribute in present}
    columns = [_described(column, number, before, there) for column, number in zip(sent.columns, numbers, strict=True)]
    left = [column for number, column in before.items() if number not in numbers]
    gone = [column for column in left if column.is_sent and _is_dropped(column, there)]
    kept = [replace(column, is_sent=False) for column in left if not _is_dropped(column, there)]
    changes = _Changes(table, quote_qualified(altered.schema, altered.name))
    changes.drop(gone)
    changes.rename([(before[column.num].name, column.name) for column in columns if column.num in before])
    without_value = []
    for column in columns:
        missing, expression = _missing(there.get(column.num))
        if changes.add(column, missing, expression) and missing is None and not expression and column.num in there:
            without_value.append(column.num)
    for column in columns:
        changes.alter_type(before.get(column.num), column)
    types = tuple(dict.fromkeys(kind for num in changes.typed if num in there for kind in there[num].types))
    now = KnownTable(sent.relid, (*columns, *kept), is_settled=True)
    return Followed(tuple(changes.statements), changes.computed, types, now, tuple(without_value))


def _numbered(known: KnownTable, present: Sequence[RemoteAttribute]) -> dict[int, KnownColumn]:
    """The known columns by number; those whose numbers are not known are found by their names."""
    unknown = [column for column in known.columns if not column.num]
    by_num = {column.num: column for column in known.columns if column.num}
    columns = [SentColumn(column.name, column.type, column.typmod, is_key=False) for column in unknown]
    for number, column in zip(attnums(columns, {}, present), unknown, strict=True):
        if number and number not in by_num:
            by_num[number] = replace(column, num=number)
    return by_num


def _described(
    column: SentColumn, number: int, before: Mapping[int, KnownColumn], there: Mapping[int, RemoteAttribute]
) -> KnownColumn:
    typoid, typmod = column.sent_as, column.sent_typmod
    here = next(
        (
            column_there.here
            for column_there in (before.get(number), there.get(number))
            if column_there is not None and (column_there.type, column_there.typmod) == (typoid, typmod)
        ),
        type_here(typoid, typmod),
    )
    return KnownColumn(number, column.name, typoid, typmod, here, True)


def _is_dropped(column: KnownColumn, there: Mapping[int, RemoteAttribute]) -> bool:
    """Has the publisher dropped it, or undone that it was added? If the table is gone, it has not."""
    attribute = there.get(column.num)
    return bool(there) and (attribute is None or attribute.dropped)


def _missing(attribute: RemoteAttribute | None) -> tuple[str | None, str]:
    """The value that a column has in the publisher's older rows, if that is known: not if they were rewritten since.
    Or the expression that gives it."""
    return (None, "") if attribute is None or attribute.dropped else (attribute.missing, attribute.generated)


class _Changes:
    """The statements so far, and the table's columns as they will be then."""

    def __init__(self, table: Relation, name: str) -> None:
        self.statements: list[str] = []
        self.computed: dict[str, list[str]] = {}
        self.typed: list[int] = []  # columns that are added, or get another type
        self._columns: dict[str, Attribute | None] = {column.name: column for column in table.columns}
        self._name = name

    def _alter(self, action: str) -> None:
        self.statements.append(f"ALTER TABLE {self._name} {action}")

    def drop(self, columns: Sequence[KnownColumn]) -> None:
        for column in columns:
            if self._columns.pop(column.name, None) is not None:
                self._alter(f"DROP COLUMN {quote_identifier(column.name)}")

    def rename(self, names: Sequence[tuple[str, str]]) -> None:
        """Rename columns, whose names may have been exchanged."""
        left = [(old, new) for old, new in names if old != new and old in self._columns]
        while left:
            free = next((pair for pair in left if pair[1] not in self._columns), None)
            if free is None:  # a name that is not exchanged is taken: the statement says so
                free = next((pair for pair in left if pair[1] not in dict(left)), None)
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

    def add(self, column: KnownColumn, missing: str | None, expression: str) -> bool:
        """Add a column if there is none of its name. A value for existing rows is a default for a moment, or their
        expression."""
        if column.name in self._columns:
            return False
        name = quote_identifier(column.name)
        default = "" if missing is None else f" DEFAULT {quote_literal(missing)}"
        self._alter(f"ADD COLUMN {name} {column.here}{default}")
        if default:
            self._alter(f"ALTER COLUMN {name} DROP DEFAULT")
        elif expression:
            added = self.statements[-1]
            drop = f"ALTER TABLE {self._name} ALTER COLUMN {name} DROP EXPRESSION"
            self.computed[added] = [f"{added} GENERATED ALWAYS AS ({expression}) STORED", drop]
        self._columns[column.name] = None
        self.typed.append(column.num)
        return True

    def alter_type(self, before: KnownColumn | None, column: KnownColumn) -> None:
        attribute = self._columns[column.name]
        if before is None or attribute is None or before.here == column.here:
            return
        if type_name(attribute) == before.here:
            self.typed.append(column.num)
            self._alter(f"ALTER COLUMN {quote_identifier(column.name)} TYPE {column.here}")


def type_name(column: Attribute) -> str:
    """The name of a column's type, with its schema if it is a user's."""

    def of_user(oid: int) -> str | None:
        if not isinstance(column.type, UserType):
            return None
        row = column.type.types.row_of(oid)
        return quote_qualified(row.schema, row.name)

    return format_type(column.type, column.typmod, of_user)


# --- define -----------------------------------------------------------------------------------------------------------


def define(session: Session, subscription: tables.pg_subscription, statements: Iterable[str], log: ServerLog) -> None:
    """Carry out statements, which the log names. LockedByOthers: others use the table."""
    for statement in statements:
        try:
            session.define([statement])
        except LockNeeded as needed:
            raise LockedByOthers(needed.wanted) from None
        worker = f'logical replication worker for subscription "{subscription.subname}"'
        log.log(f"{worker} follows its publisher: {_on_one_line(statement)}")


def attempt(
    session: Session, subscription: tables.pg_subscription, groups: Iterable[Sequence[str]], log: ServerLog
) -> bool:
    """Carry out groups of statements; a warning says which could not be. Could all be?"""
    could = True
    for group in groups:
        session.transaction.begin_subtransaction()
        try:
            define(session, subscription, group, log)
        except PgError as error:
            session.transaction.rollback_subtransaction()
            worker = f'logical replication worker for subscription "{subscription.subname}"'
            text = "; ".join(map(_on_one_line, group))
            log.warning(f"{worker} does not follow its publisher: {text}", detail=error.message)
            could = False
        else:
            session.transaction.release_subtransaction()
    return could


def _on_one_line(statement: str) -> str:
    return " ".join(line.strip() for line in statement.rstrip(";").splitlines())
