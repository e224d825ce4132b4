"""Dependents of a column whose type or expression changes: indexes and constraints are noted for rebuilding, others are
refused (RememberAllDependentForRebuilding).
"""

from __future__ import annotations

from pgrepl.catalog import store
from pgrepl.catalog.classes import (
    PG_ATTRDEF,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_PROC,
    PG_PUBLICATION_REL,
    PG_REWRITE,
    PG_TRIGGER,
    ObjectAddress,
)
from pgrepl.catalog.constraint import constraint_of_index, constraint_row
from pgrepl.catalog.depend import dependents_of
from pgrepl.catalog.objects import describe_object
from pgrepl.catalog.relation import Attribute, Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attrdef
from pgrepl.errors import PgError
from pgrepl.expr.definitions import constraint_definition, index_definition
from pgrepl.expr.index_info import index_info
from pgrepl.statements.table.alter.work import AlteredTable, WorkQueue

_USERS = {
    PG_PROC: "by a function or procedure",
    PG_REWRITE: "by a view or rule",
    PG_PUBLICATION_REL: "by a publication WHERE clause",
    PG_TRIGGER: "in a trigger definition",
}


def remember_dependents(
    work: WorkQueue, altered: AlteredTable, rel: Relation, attribute: Attribute, *, type_changes: bool
) -> None:
    """Note the dependents to rebuild; refuse those that cannot be."""
    session = work.session
    column = ObjectAddress(PG_CLASS, rel.oid, attribute.num)
    for row in dependents_of(session, column):
        address = ObjectAddress(row.classid, row.objid, row.objsubid)
        if address.classid == PG_CLASS:
            if relation(session, address.objid).kind in ("i", "I"):
                _remember_index(session, altered, address.objid)
        elif address.classid == PG_CONSTRAINT:
            _remember_constraint(session, altered, address.objid)
        elif type_changes:
            _refuse(session, address, column, attribute.name)


def _refuse(session: Session, address: ObjectAddress, column: ObjectAddress, name: str) -> None:
    if address.classid == PG_ATTRDEF:
        default = store.one(session, pg_attrdef, oid=address.objid)
        if default is None or (default.adrelid, default.adnum) == (column.objid, column.subid):
            return
        other = relation(session, default.adrelid).attribute_by_number(default.adnum)
        assert other is not None
        raise PgError(
            "0A000",
            "cannot alter type of a column used by a generated column",
            detail=f'Column "{name}" is used by generated column "{other.name}".',
        )
    user = _USERS.get(address.classid)
    if user is not None:
        raise PgError(
            "0A000",
            f"cannot alter type of a column used {user}",
            detail=f'{describe_object(session, address)} depends on column "{name}"',
        )


def _remember_constraint(session: Session, altered: AlteredTable, oid: int) -> None:
    """Its definition is taken before any type changes."""
    if oid in altered.changed_constraints:
        return
    altered.changed_constraints[oid] = constraint_definition(session, oid) or ""
    row = constraint_row(session, oid)
    if row.contype in ("p", "u"):
        _remember_marks(session, altered, row.conindid)


def _remember_index(session: Session, altered: AlteredTable, oid: int) -> None:
    constraint = constraint_of_index(session, oid)
    if constraint:
        _remember_constraint(session, altered, constraint)
    elif oid not in altered.changed_indexes:
        altered.changed_indexes[oid] = index_definition(session, oid) or ""
        _remember_marks(session, altered, oid)


def _remember_marks(session: Session, altered: AlteredTable, index: int) -> None:
    info = index_info(session, index)
    if info.replident:
        altered.replica_identity_index = info.name
    if info.clustered:
        altered.clustered_index = info.name
