"""What a lake tells of its definitions in its stream (schema_changes = all)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.namespace import QUALIFIED, schema_name
from pgrepl.catalog.facts.relation import Attribute, Relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import indexes, key_names, not_nulls, primary_key
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.expr.catalog_trees import default_text
from pgrepl.ground.errors import PgError
from pgrepl.lake import sql
from pgrepl.lake.changes.history import LogicalMessage
from pgrepl.replication.publisher.definitions import PREFIX, Told, ToldColumn, ToldEnum, ToldTable
from pgrepl.replication.publisher.lake.schema import type_name
from pgrepl.replication.publisher.lake.transactions import class_row
from pgrepl.replication.publisher.plan import send_plan

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def redefined(session: Session, start: int, end: int) -> list[tuple[int, int, bool]]:
    """The snapshots from `start` on and before `end` that changed definitions, each with the OID of a table or an
    enum: (snapshot, OID, is it an enum?). Tables are of all databases."""
    redefinitions = session.link.execute(sql.REDEFINED_BETWEEN, (start, end) * sql.REDEFINED_BETWEEN.count(">="))
    return sorted({(int(snapshot), int(oid), bool(is_enum)) for snapshot, oid, is_enum in redefinitions if oid})


def message(session: Session, names: Sequence[str], snapshot: int, oid: int, *, is_enum: bool) -> LogicalMessage | None:
    """What the stream tells of a definition that a snapshot has changed; None: nothing, as it is not published."""
    past = session.at(snapshot)
    if is_enum:
        enum = told_enum(past, one(past, tables.pg_type, oid=oid, datid=past.database_oid))
        told = None if enum is None else Told(enums=(enum,))
    elif class_row(past, oid) is None:
        was_there = class_row(session.at(snapshot - 1), oid) is not None
        told = Told(dropped=(oid,)) if was_there else None
    else:
        table = told_table(past, oid, names)
        told = None if table is None else Told((table,))
    return None if told is None else LogicalMessage(True, PREFIX, told.content(), session.database_oid)


def told_enum(past: Session, row: tables.pg_type | None) -> ToldEnum | None:
    if row is None or row.typtype != "e":
        return None
    labels = sorted(rows(past, tables.pg_enum, enumtypid=row.oid), key=lambda label: label.enumsortorder)
    return ToldEnum(schema_name(past, row.typnamespace), row.typname, [label.enumlabel for label in labels])


def told_table(past: Session, oid: int, names: Sequence[str]) -> ToldTable | None:
    """A table as of then; None: there is none, or these publications do not publish it."""
    table = relation_or_none(past, oid)
    if table is None or table.kind not in ("r", "p"):
        return None
    try:
        plan = send_plan(past, names, oid)
    except PgError:
        return None  # a change that is to be sent says why it cannot be
    if plan is None or plan.sent_as.oid != oid:
        return None
    key = primary_key(past, table)
    chosen = next((row for row in indexes(past, oid) if row.indisreplident), None)
    with past.settings.during(QUALIFIED):
        named = {number: row.conname for number, row in not_nulls(past, oid).items()}
        columns = [_column(past, table, column, named.get(column.num)) for column in table.columns]
    return ToldTable(
        oid,
        table.schema,
        table.name,
        table.replident,
        *_index(past, table, key),
        *_index(past, table, chosen),
        columns,
        {name: [column.name for column in plan.columns] for name in names},
    )


def _index(past: Session, table: Relation, index: tables.pg_index | None) -> tuple[list[str], str | None]:
    return key_names(table, index), None if index is None else relation(past, index.indexrelid).name


def _column(past: Session, table: Relation, column: Attribute, not_null: str | None) -> ToldColumn:
    default = default_text(past, table.oid, column.num) if column.has_default else None
    missing = None if column.missing is None else str(column.missing)
    return ToldColumn(
        column.num,
        column.name,
        column.type,
        column.typmod,
        type_name(past, column.type, column.typmod),
        column.notnull,
        column.generated,
        default,
        missing,
        not_null,
    )
