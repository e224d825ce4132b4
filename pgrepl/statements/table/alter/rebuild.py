"""Indexes and constraints that were made for a column's old type or expression: taken down, and made anew from their
definitions, as RememberAllDependentForRebuilding and ATPostAlterTypeCleanup do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pgrepl.catalog import store
from pgrepl.catalog.classes import (
    PG_ATTRDEF,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_PUBLICATION_REL,
    PG_REWRITE,
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
from pgrepl.sql.nodes import AlterTableStmt, Constraint, ConstrType, IndexStmt, Statement
from pgrepl.sql.parser import parse
from pgrepl.sql.quote import quote_qualified
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.index.create import index_spec
from pgrepl.statements.index.define import define_index
from pgrepl.statements.index.spec import IndexSpec
from pgrepl.statements.table.alter.add import add_check_and_recurse
from pgrepl.statements.table.alter.cluster import mark_clustered
from pgrepl.statements.table.alter.replica import mark_replica_identity
from pgrepl.statements.table.alter.work import Altered, Pass, Work
from pgrepl.statements.table.clauses import Clauses, add_constraint, make_indexes
from pgrepl.statements.table.constraints import Check, cook_check
from pgrepl.statements.table.foreign import add_foreign_key
from pgrepl.statements.table.like import comment_on, put_comment
from pgrepl.statements.table.position import unplaced


def remember_dependents(
    work: Work, altered: Altered, rel: Relation, attribute: Attribute, *, type_changes: bool
) -> None:
    """Note what must be made anew; refuse what cannot be."""
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
    user = {PG_REWRITE: "view or rule", PG_PUBLICATION_REL: "publication WHERE clause"}.get(address.classid)
    if user is not None:
        raise PgError(
            "0A000",
            f"cannot alter type of a column used by a {user}",
            detail=f'{describe_object(session, address)} depends on column "{name}"',
        )


def _remember_constraint(session: Session, altered: Altered, oid: int) -> None:
    """Its definition is taken before any type changes."""
    if oid in altered.changed_constraints:
        return
    altered.changed_constraints[oid] = constraint_definition(session, oid) or ""
    row = constraint_row(session, oid)
    if row.contype in ("p", "u"):
        _remember_marks(session, altered, row.conindid)


def _remember_index(session: Session, altered: Altered, oid: int) -> None:
    constraint = constraint_of_index(session, oid)
    if constraint:
        _remember_constraint(session, altered, constraint)
    elif oid not in altered.changed_indexes:
        altered.changed_indexes[oid] = index_definition(session, oid) or ""
        _remember_marks(session, altered, oid)


def _remember_marks(session: Session, altered: Altered, index: int) -> None:
    info = index_info(session, index)
    if info.replident:
        altered.replica_identity_index = info.name
    if info.clustered:
        altered.clustered_index = info.name


# --- making anew --------------------------------------------------------------------------------------------------


def schedule_rebuilding(work: Work, altered: Altered) -> None:
    session = work.session
    addresses: list[ObjectAddress] = []
    for oid, definition in altered.changed_constraints.items():
        addresses.append(ObjectAddress(PG_CONSTRAINT, oid))
        if constraint_row(session, oid).conislocal:
            _schedule_constraint(work, oid, definition)
    for oid, definition in altered.changed_indexes.items():
        _schedule_index(work, oid, definition)
        addresses.append(ObjectAddress(PG_CLASS, oid))
    if altered.replica_identity_index is not None:
        name = altered.replica_identity_index
        altered.add(Pass.OLD_CONSTRAINT, partial(_restore_replica_identity, name=name))
    altered.changed_constraints, altered.changed_indexes = {}, {}
    if altered.clustered_index is not None:
        altered.add(Pass.OLD_CONSTRAINT, partial(_restore_cluster, name=altered.clustered_index))
    altered.replica_identity_index = altered.clustered_index = None
    if addresses:
        drop_objects(session, addresses, cascade=False, quietly=True)


def _parsed(session: Session, text: str) -> Statement:
    """Printed and read by the same session."""
    return parse(text, rules=session.settings.string_rules)[0].stmt


def _schedule_constraint(work: Work, oid: int, definition: str) -> None:
    session = work.session
    row = constraint_row(session, oid)
    rel = relation(session, row.conrelid)
    name = quote_qualified(None, row.conname)
    table = quote_qualified(rel.schema, rel.name)
    stmt = _parsed(session, f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
    assert isinstance(stmt, AlterTableStmt)
    constraint = stmt.commands[0].constraint
    assert constraint is not None
    constraint = replace(constraint, location=-1)
    target = work.entry(rel)
    comment = comment_on(session, ObjectAddress(PG_CONSTRAINT, oid))
    if constraint.kind in (ConstrType.PRIMARY, ConstrType.UNIQUE):
        clauses = Clauses(session, rel.name, rel.namespace, rel.persistence, rel=rel)
        add_constraint(clauses, constraint)
        make_indexes(clauses)
        spec = replace(clauses.indexes[0], comment=comment_on(session, ObjectAddress(PG_CLASS, row.conindid)))
        target.add(Pass.OLD_INDEX, partial(_remake_index, spec=spec))
        when = Pass.OLD_INDEX
    elif constraint.kind is ConstrType.CHECK:
        target.add(Pass.OLD_CONSTRAINT, partial(_remake_check, constraint=constraint))
        when = Pass.OLD_CONSTRAINT
    else:
        step = partial(_remake_foreign_key, constraint=constraint, referenced=row.confrelid)
        target.add(Pass.OLD_CONSTRAINT, step)
        when = Pass.OLD_CONSTRAINT
    if comment is not None:
        target.add(when, partial(_remake_comment, name=row.conname, text=comment))


def _schedule_index(work: Work, oid: int, definition: str) -> None:
    session = work.session
    rel = relation(session, index_info(session, oid).table)
    stmt = _parsed(session, definition)
    assert isinstance(stmt, IndexStmt)
    stmt = replace(stmt, relation=replace(stmt.relation, inh=True))  # again one for each partition
    spec = replace(index_spec(session, rel, stmt), comment=comment_on(session, ObjectAddress(PG_CLASS, oid)))
    work.entry(rel).add(Pass.OLD_INDEX, partial(_remake_index, spec=spec))


def _remake_index(work: Work, altered: Altered, *, spec: IndexSpec) -> None:
    define_index(work.session, altered.oid, spec, alter_table=True, check_rights=False, unique=work.unique)


def _remake_check(work: Work, altered: Altered, *, constraint: Constraint) -> None:
    session, raw = work.session, constraint.expr
    assert raw is not None

    def cooked(target: Relation, name: str | None, *, local: bool) -> Check:
        with unplaced():
            expr = cook_check(session, target, raw)
        return Check(
            name,
            expr,
            valid=not constraint.skip_validation,
            local=local,
            inhcount=0 if local else 1,
            no_inherit=constraint.no_inherit,
        )

    rel = work.relation(altered)
    add_check_and_recurse(work, rel, constraint.name, cooked, recurse=True, merge=True)


def _remake_foreign_key(work: Work, altered: Altered, *, constraint: Constraint, referenced: int) -> None:
    add_foreign_key(
        work.session,
        work.relation(altered),
        constraint,
        recurse=True,
        valid=not constraint.skip_validation,
        validate=not constraint.skip_validation,
        pending=altered.pending,
        referenced=referenced,
    )


def _remake_comment(work: Work, altered: Altered, *, name: str, text: str) -> None:
    from pgrepl.catalog.constraint import constraint_named

    row = constraint_named(work.session, altered.oid, name)
    if row is not None:
        put_comment(work.session, ObjectAddress(PG_CONSTRAINT, row.oid), text)


def _restore_replica_identity(work: Work, altered: Altered, *, name: str) -> None:
    mark_replica_identity(work.session, work.relation(altered), "i", name)


def _restore_cluster(work: Work, altered: Altered, *, name: str) -> None:
    mark_clustered(work.session, work.relation(altered), name)
