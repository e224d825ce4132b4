"""CREATE TYPE … AS ENUM, and ALTER TYPE … ADD VALUE and RENAME VALUE (pg_enum.c)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack, unpack
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.store import insert, insert_many, new_oid, update
from pgrepl.catalog.user_types import labels_of, type_row
from pgrepl.errors import PgError
from pgrepl.query.result import Result
from pgrepl.sql.nodes import AlterEnumStmt, CreateEnumStmt
from pgrepl.statements.type.create import check_name_is_free, insert_type, namespace_of_new
from pgrepl.statements.type.names import check_type_owner, type_of_parts

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def create_enum(stmt: CreateEnumStmt, session: Session) -> Result:
    """As DefineEnum."""
    namespace = namespace_of_new(session, stmt.name)
    check_name_is_free(session, namespace, stmt.name.name)
    oid = insert_type(session, namespace, stmt.name.name, typtype="e")
    if not session.transaction.savepoints:
        session.transaction.uncommitted_enums.add(oid)
    for number, label in enumerate(stmt.labels):
        _check_length(label)
        if label in stmt.labels[:number]:
            raise PgError(
                "23505",
                'duplicate key value violates unique constraint "pg_enum_typid_label_index"',
                detail=f"Key (enumtypid, enumlabel)=({oid}, {label}) already exists.",
            )
    insert_many(
        session,
        tables.pg_enum,
        [
            {
                "oid": new_oid(session), "enumtypid": oid, "enumsortorder": float(number), "enumlabel": label,
                "storedlabel": label,
            }
            for number, label in enumerate(stmt.labels, 1)
        ],
    )  # fmt: skip
    return Result("CREATE TYPE")


def alter_enum(stmt: AlterEnumStmt, session: Session) -> Result:
    """As AlterEnum."""
    oid = type_of_parts(session, stmt.name)
    row = type_row(session, oid)
    if row is None or row.typtype != "e":
        from pgrepl.expr.typefacts import type_text

        raise PgError("42809", f"{type_text(session, oid)} is not an enum")
    check_type_owner(session, row)
    if stmt.old_label is None:
        _add(session, row, stmt)
    else:
        _rename(session, row, stmt.old_label, stmt.label)
    return Result("ALTER TYPE")


def _check_length(label: str) -> None:
    if len(label.encode()) > 63:
        raise PgError("42602", f'invalid enum label "{label}"', detail="Labels must be 63 bytes or less.")


def _add(session: Session, enum: tables.pg_type, stmt: AlterEnumStmt) -> None:
    """As AddEnumLabel. The new label cannot be used before the transaction has committed, unless the type is new in it,
    too, and neither was made behind a savepoint."""
    _check_length(stmt.label)
    labels = labels_of(session, enum.oid)
    if any(label.enumlabel == stmt.label for label in labels):
        if not stmt.if_not_exists:
            raise PgError("42710", f'enum label "{stmt.label}" already exists')
        session.notice("NOTICE", f'enum label "{stmt.label}" already exists, skipping', sqlstate="42710")
        return
    place = _place(session, labels, stmt)
    oid = new_oid(session)
    stored, number = stmt.label, 0
    while stored in [label.storedlabel for label in labels]:  # a label that was renamed had this name
        number += 1
        stored = f"{stmt.label} ({number})"
    values = {"enumtypid": enum.oid, "enumsortorder": place, "enumlabel": stmt.label, "storedlabel": stored}
    insert(session, tables.pg_enum, oid=oid, **values)
    transaction = session.transaction
    if transaction.savepoints or enum.oid not in transaction.uncommitted_enums:
        session.transaction.uncommitted_labels.add(oid)


def _place(session: Session, labels: Sequence[tables.pg_enum], stmt: AlterEnumStmt) -> float:
    """The sort order of a new label, between its neighbors."""
    if stmt.neighbor is None:
        return labels[-1].enumsortorder + 1 if labels else 1.0
    found = next((n for n, label in enumerate(labels) if label.enumlabel == stmt.neighbor), None)
    if found is None:
        raise PgError("22023", f'"{stmt.neighbor}" is not an existing enum label')
    after = found if stmt.after else found - 1
    if after < 0:
        return labels[0].enumsortorder - 1
    if after == len(labels) - 1:
        return labels[-1].enumsortorder + 1
    low, high = labels[after].enumsortorder, labels[after + 1].enumsortorder
    middle: float = unpack("<f", pack("<f", (low + high) / 2))[0]
    if low < middle < high:
        return middle
    for number, label in enumerate(labels, 1):  # no number is left between them (RenumberEnumType)
        update(session, tables.pg_enum, {"oid": label.oid}, enumsortorder=float(number))
    return after + 1.5


def _rename(session: Session, enum: tables.pg_type, old: str, new: str) -> None:
    """As RenameEnumLabel."""
    _check_length(new)
    labels = labels_of(session, enum.oid)
    found = next((label for label in labels if label.enumlabel == old), None)
    if found is None:
        raise PgError("22023", f'"{old}" is not an existing enum label')
    if any(label.enumlabel == new for label in labels):
        raise PgError("42710", f'enum label "{new}" already exists')
    update(session, tables.pg_enum, {"oid": found.oid}, enumlabel=new)
