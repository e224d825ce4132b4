"""Indexes and constraints made anew for a column's new type (ATPostAlterTypeCleanup)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pgrepl.catalog.facts.objects import comment_on, put_comment
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.facts.relation_parts import constraint_named, constraint_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.expr.catalog_trees import index_info
from pgrepl.sql.keywords import quote_qualified
from pgrepl.sql.nodes import AlterTableStmt, Constraint, ConstrType, IndexStmt, Statement
from pgrepl.sql.parser import parse
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.index.attributes import IndexSpec
from pgrepl.statements.index.define import define_index
from pgrepl.statements.index.reindex import index_spec
from pgrepl.statements.table.alter.add import add_check_and_recurse, cook_of
from pgrepl.statements.table.alter.work import AlteredTable, Pass, WorkQueue, mark_clustered, mark_replica_identity
from pgrepl.statements.table.clauses import add_constraint, make_indexes
from pgrepl.statements.table.constraints import Clauses
from pgrepl.statements.table.foreign import add_foreign_key

# --- making anew --------------------------------------------------------------------------------------------------


def schedule_rebuilding(work: WorkQueue, altered: AlteredTable) -> None:
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
    """Parse a statement that this session has printed."""
    return parse(text, rules=session.settings.string_rules)[0].stmt


def _schedule_constraint(work: WorkQueue, oid: int, definition: str) -> None:
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
    comment = comment_on(session, PG_CONSTRAINT, oid)
    if constraint.kind in (ConstrType.PRIMARY, ConstrType.UNIQUE):
        clauses = Clauses(session, rel.name, rel.namespace, rel.persistence, rel=rel)
        add_constraint(clauses, constraint)
        make_indexes(clauses)
        spec = replace(clauses.indexes[0], comment=comment_on(session, PG_CLASS, row.conindid))
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


def _schedule_index(work: WorkQueue, oid: int, definition: str) -> None:
    session = work.session
    rel = relation(session, index_info(session, oid).table)
    stmt = _parsed(session, definition)
    assert isinstance(stmt, IndexStmt)
    stmt = replace(stmt, relation=replace(stmt.relation, inh=True))  # again one for each partition
    spec = replace(index_spec(session, rel, stmt), comment=comment_on(session, PG_CLASS, oid))
    work.entry(rel).add(Pass.OLD_INDEX, partial(_remake_index, spec=spec))


def _remake_index(work: WorkQueue, altered: AlteredTable, *, spec: IndexSpec) -> None:
    define_index(work.session, altered.oid, spec, alter_table=True, check_rights=False, unique=work.unique)


def _remake_check(work: WorkQueue, altered: AlteredTable, *, constraint: Constraint) -> None:
    rel, cooked = work.relation(altered), cook_of(work.session, constraint)
    add_check_and_recurse(work, rel, constraint.name, cooked, recurse=True, merge=True)


def _remake_foreign_key(work: WorkQueue, altered: AlteredTable, *, constraint: Constraint, referenced: int) -> None:
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


def _remake_comment(work: WorkQueue, altered: AlteredTable, *, name: str, text: str) -> None:
    row = constraint_named(work.session, altered.oid, name)
    if row is not None:
        put_comment(work.session, ObjectAddress(PG_CONSTRAINT, row.oid), text)


def _restore_replica_identity(work: WorkQueue, altered: AlteredTable, *, name: str) -> None:
    mark_replica_identity(work.session, work.relation(altered), "i", name)


def _restore_cluster(work: WorkQueue, altered: AlteredTable, *, name: str) -> None:
    mark_clustered(work.session, work.relation(altered), name)
