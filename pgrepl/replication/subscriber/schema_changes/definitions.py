"""The statements that give a table or an enum here what the publisher tells of it besides columns and their types
(schema_changes = all): names, generated columns, defaults, NOT NULL, the primary key, the replica identity, labels.

What is changed is what differs from what was followed last: what somebody has declared otherwise here stays until the
publisher's changes. Statements are in groups; rows can be replicated without one that cannot be carried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.namespace import schema_or_none
from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.catalog.facts.relation_parts import constraints_of, indexes, key_names, primary_key
from pgrepl.catalog.store import store, tables
from pgrepl.expr.analyse.lookup import type_in_schema_named
from pgrepl.replication.publisher.definitions import ToldEnum, ToldTable
from pgrepl.replication.publisher.tables import RemoteAttribute, type_here
from pgrepl.replication.subscriber.schema_changes.columns import FULL, NOTHING, KnownColumn
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.oids import TEXT
from pgrepl.types.user_types import UserType

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

Group = list[str]


# --- as the stream would describe it ----------------------------------------------------------------------------------


def sent_relation(told: ToldTable, publications: Sequence[str]) -> SentRelation:
    flagged = set(told.key if told.replident == "d" else told.identity)
    columns = [
        SentColumn(
            column.name,
            TEXT,
            -1,
            told.replident == "f" or column.name in flagged,
            column.type,
            column.typmod,
            column.num,
        )
        for column in told.published_columns(publications)
    ]
    return SentRelation(told.oid, told.schema, told.name, told.replident, tuple(columns))


def attributes(
    told: ToldTable, present: Sequence[RemoteAttribute], older: Mapping[int, str]
) -> tuple[RemoteAttribute, ...]:
    """The columns as told, with what only the publisher's present catalog tells: the types that take their values here.
    `older`: the values of columns in rows that are older than they, as far as these had to be asked for."""
    now = {attribute.num: attribute for attribute in present if not attribute.dropped}
    columns = []
    for column in told.columns:
        there = now.get(column.num)
        same = there is not None and (there.type, there.typmod) == (column.type, column.typmod)
        here, types = (
            (there.here, there.types) if there is not None and same else (type_here(column.type, column.typmod), ())
        )
        missing = older.get(column.num) if column.missing is None else column.missing
        generated = (column.default or "") if column.generated else ""
        columns.append(
            RemoteAttribute(column.num, column.name, column.type, column.typmod, here, False, missing, types, generated)
        )
    return tuple(columns)


# --- tables -----------------------------------------------------------------------------------------------------------


def renaming(session: Session, table: Relation, schema: str, name: str) -> Iterator[str]:
    """The statements that give a table its publisher's name."""
    if table.schema != schema:
        if schema_or_none(session, schema) is None:
            yield f"CREATE SCHEMA {quote_identifier(schema)}"
        old = quote_qualified(table.schema, table.name)
        yield f"ALTER TABLE {old} SET SCHEMA {quote_identifier(schema)}"
    if table.name != name:
        yield f"ALTER TABLE {quote_qualified(schema, table.name)} RENAME TO {quote_identifier(name)}"


def before_columns(
    table: Relation, altered: str, before: Sequence[KnownColumn], now: Sequence[KnownColumn]
) -> Iterator[Group]:
    """What happens to generated columns before other columns change: dropped, renamed, or not generated any more."""
    there = {column.num: column for column in now}
    for old in before:
        local = table.attribute(old.name)
        if not old.generated or local is None or not local.generated:
            continue
        later, name = there.get(old.num), quote_identifier(old.name)
        if later is None:
            yield [f"ALTER TABLE {altered} DROP COLUMN {name}"]
        elif not later.generated:
            yield [f"ALTER TABLE {altered} ALTER COLUMN {name} DROP EXPRESSION"]
        elif later.name != old.name:
            yield [f"ALTER TABLE {altered} RENAME COLUMN {name} TO {quote_identifier(later.name)}"]


def besides_columns(
    session: Session,
    table: Relation,
    altered: str,
    before: Sequence[KnownColumn],
    now: Sequence[KnownColumn],
    told: ToldTable | None,
) -> Iterator[Group]:
    """All else, when the columns are there. `told`: names the indexes and constraints, if it is known."""
    was = {column.num: column for column in before}
    named = (
        {}
        if told is None or session.settings.release < 18
        else {column.num: column.not_null for column in told.columns}
    )
    if not any(column.notnull is not None for column in before):
        return  # what was different before is not told from what is new
    yield from _drop_key(session, table, altered, before, now)
    for new in now:
        yield from _column(altered, table.attribute(new.name), was.get(new.num), new, named.get(new.num))
    yield from _add_key(session, table, altered, before, now, None if told is None else told.key_name)
    yield from _identity(session, table, before, now, None if told is None else told.identity_name)


def _column(
    altered: str, local: Attribute | None, was: KnownColumn | None, now: KnownColumn, not_null: str | None
) -> Iterator[Group]:
    """`not_null`: the name of that constraint, in sessions of 18."""
    name = quote_identifier(now.name)
    if was is not None and was.notnull is None:
        return
    if now.generated:
        if local is None:
            yield [f"ALTER TABLE {altered} ADD COLUMN {name} {now.here} GENERATED ALWAYS AS {now.generated}"]
        elif was is not None and was.generated != now.generated and local.generated:
            expression = now.generated.rpartition(" ")[0]
            yield [f"ALTER TABLE {altered} ALTER COLUMN {name} SET EXPRESSION AS {expression}"]
        return
    if local is None or local.generated or not now.is_sent:
        return
    alter = f"ALTER TABLE {altered} ALTER COLUMN {name}"
    if now.default != (None if was is None else was.default):
        yield [f"{alter} DROP DEFAULT" if now.default is None else f"{alter} SET DEFAULT {now.default}"]
    if bool(now.notnull) not in (was is not None and was.notnull, local.notnull):
        if now.notnull and not_null is not None:
            yield [f"ALTER TABLE {altered} ADD CONSTRAINT {quote_identifier(not_null)} NOT NULL {name}"]
        else:
            yield [f"{alter} {'SET' if now.notnull else 'DROP'} NOT NULL"]


def _places(columns: Sequence[KnownColumn], field: str) -> list[tuple[int, int]]:
    return sorted((getattr(column, field), column.num) for column in columns if getattr(column, field) > 0)


def _names(columns: Sequence[KnownColumn], places: Sequence[tuple[int, int]]) -> list[str]:
    by_num = {column.num: column.name for column in columns}
    return [by_num[num] for _, num in places if num in by_num]


def _drop_key(
    session: Session, table: Relation, altered: str, before: Sequence[KnownColumn], now: Sequence[KnownColumn]
) -> Iterator[Group]:
    old = _places(before, "key")
    index = primary_key(session, table)
    if old == _places(now, "key") or index is None:
        return
    if sorted(key_names(table, index)) == sorted(_names(now, old)):  # else it is not the publisher's
        constraint = next(iter(constraints_of(session, table.oid, "p")), None)
        if constraint is not None:
            yield [f"ALTER TABLE {altered} DROP CONSTRAINT {quote_identifier(constraint.conname)}"]


def _add_key(
    session: Session,
    table: Relation,
    altered: str,
    before: Sequence[KnownColumn],
    now: Sequence[KnownColumn],
    name: str | None,
) -> Iterator[Group]:
    places = _places(now, "key")
    names = _names(now, places)
    index = primary_key(session, table)
    if not names or places == _places(before, "key") or any(table.attribute(column) is None for column in names):
        return
    if index is None or sorted(key_names(table, index)) != sorted(names):
        constraint = "" if name is None else f"CONSTRAINT {quote_identifier(name)} "
        yield [f"ALTER TABLE {altered} ADD {constraint}PRIMARY KEY ({', '.join(map(quote_identifier, names))})"]


def _identity(
    session: Session, table: Relation, before: Sequence[KnownColumn], now: Sequence[KnownColumn], name: str | None
) -> Iterator[Group]:
    places = _places(now, "identity")
    wholes = [{column.identity for column in columns} & {FULL, NOTHING} for columns in (before, now)]
    if wholes[0] == wholes[1] and places == _places(before, "identity"):
        return
    alter = f"ALTER TABLE {quote_qualified(table.schema, table.name)} REPLICA IDENTITY"
    if not places:
        kind = "FULL" if FULL in wholes[1] else "NOTHING" if NOTHING in wholes[1] else "DEFAULT"
        yield [f"{alter} {kind}"]
        return
    names = _names(now, places)
    if any(table.attribute(column) is None for column in names):
        return
    group = []
    index = _unique_index(session, table, names)
    if index is None:
        index = name or f"{table.name}_{'_'.join(names)}_idx"
        listed = ", ".join(map(quote_identifier, names))
        group.append(
            f"CREATE UNIQUE INDEX {quote_identifier(index)} ON {quote_qualified(table.schema, table.name)} ({listed})"
        )
    yield [*group, f"{alter} USING INDEX {quote_identifier(index)}"]


def _unique_index(session: Session, table: Relation, names: Sequence[str]) -> str | None:
    """An index of the table that can be its replica identity: unique, of these columns, without conditions."""
    for row in indexes(session, table.oid):
        usual = row.indisunique and row.indimmediate and row.indpred is None and 0 not in row.indkey
        if usual and sorted(key_names(table, row)) == sorted(names):
            index = store.one(session, tables.pg_class, oid=row.indexrelid)
            return None if index is None else index.relname
    return None


# --- enums ------------------------------------------------------------------------------------------------------------


def labels(session: Session, told: ToldEnum) -> Iterator[str]:
    """The statements that give an enum here its publisher's labels: those that are new, and those that are renamed."""
    here = labels_here(session, told.schema, told.name)
    if here is None:
        return
    alter = f"ALTER TYPE {quote_qualified(told.schema, told.name)}"
    differing = [(ours, theirs) for ours, theirs in zip(here, told.labels, strict=False) if ours != theirs]
    if len(here) == len(told.labels) and not any(theirs in here for _, theirs in differing):
        for ours, theirs in differing:
            yield f"{alter} RENAME VALUE {quote_literal(ours)} TO {quote_literal(theirs)}"
        return
    for place, label in enumerate(told.labels):
        if label not in here:
            behind = next((later for later in told.labels[place + 1 :] if later in here), None)
            where = f" AFTER {quote_literal(told.labels[place - 1])}" if place else ""
            if not place and behind is not None:
                where = f" BEFORE {quote_literal(behind)}"
            yield f"{alter} ADD VALUE {quote_literal(label)}{where}"
            here.insert(here.index(told.labels[place - 1]) + 1 if place else 0, label)


def labels_here(session: Session, schema: str, name: str) -> list[str] | None:
    """The labels of an enum; None: there is no enum of this name."""
    if schema_or_none(session, schema) is None:
        return None
    enum = type_in_schema_named(session, schema, name)
    if not isinstance(enum, UserType) or enum.row.typtype != "e":
        return None
    rows = sorted(store.rows(session, tables.pg_enum, enumtypid=enum.row.oid), key=lambda row: row.enumsortorder)
    return [row.enumlabel for row in rows]


def enums_of(table: Relation) -> Iterator[tuple[str, str]]:
    """The enums that columns of a table have, alone or in arrays."""
    for column in table.columns:
        if isinstance(column.type, UserType):
            row = column.type.row
            if row.elem and isinstance(row.elem, UserType):
                row = row.elem.row
            if row.typtype == "e":
                yield row.schema, row.name
