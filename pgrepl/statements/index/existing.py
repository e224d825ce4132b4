"""ADD CONSTRAINT … USING INDEX: whether an index can become a PRIMARY KEY or UNIQUE constraint."""

from __future__ import annotations

from typing import NoReturn

from pgrepl.catalog.constraint import constraint_of_index
from pgrepl.catalog.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr.index_info import IndexInfo, index_info
from pgrepl.expr.opclasses import BTREE
from pgrepl.sql.nodes import Constraint
from pgrepl.statements.index.opclass import default_opclass_oid

_NOT_SUCH = "Cannot create a primary key or unique constraint using such an index."


def usable_for_constraint(
    session: Session, rel: Relation, constraint: Constraint
) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """The index, its key columns and its INCLUDE columns, as transformIndexConstraint checks them."""
    name = constraint.using_index
    where = constraint.location

    def refuse(sqlstate: str, message: str, detail: str | None = None) -> NoReturn:
        raise PgError(sqlstate, message, detail=detail, location=where)

    oid = oid_in_schema(session, rel.namespace, name or "")
    if oid is None:
        refuse("42704", f'index "{name}" does not exist')
    if relation(session, oid).kind not in ("i", "I"):
        raise PgError("42809", f'"{name}" is not an index')
    if constraint_of_index(session, oid):
        refuse("55000", f'index "{name}" is already associated with a constraint')
    info = index_info(session, oid)
    if info.table != rel.oid:
        refuse("55000", f'index "{name}" does not belong to table "{rel.name}"')
    if not info.valid:
        refuse("55000", f'index "{name}" is not valid')
    if not info.unique:
        refuse("42809", f'"{name}" is not a unique index', _NOT_SUCH)
    if info.exprs:
        refuse("42809", f'index "{name}" contains expressions', _NOT_SUCH)
    if info.predicate is not None:
        refuse("42809", f'"{name}" is a partial index', _NOT_SUCH)
    if not info.immediate and not constraint.deferrable:
        refuse(
            "42809",
            f'"{name}" is a deferrable index',
            "Cannot create a non-deferrable constraint using a deferrable index.",
        )
    if info.method != BTREE:
        refuse("42809", f'index "{name}" is not a btree')
    columns: list[str] = []
    for place, attnum in enumerate(info.columns):
        attribute = rel.attribute_by_number(attnum)
        assert attribute is not None
        if place < info.key_count and not _default_order(info, place, attribute.type, attribute.collation):
            refuse(
                "42809", f'index "{name}" column number {place + 1} does not have default sorting behavior', _NOT_SUCH
            )
        columns.append(attribute.name)
    return oid, tuple(columns[: info.key_count]), tuple(columns[info.key_count :])


def _default_order(info: IndexInfo, place: int, type_: int, collation: int) -> bool:
    return (
        info.opclasses[place] == default_opclass_oid(type_, info.method)
        and info.collations[place] == collation
        and info.ordering[place] == 0
    )
