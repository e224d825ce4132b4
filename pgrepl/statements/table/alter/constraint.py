"""ALTER CONSTRAINT and VALIDATE CONSTRAINT."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_named, constraint_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.expr import stored
from pgrepl.ground.errors import PgError
from pgrepl.rows.requirements import CheckHolds, KeysExist
from pgrepl.sql.location import refuse_newer
from pgrepl.sql.nodes import AlterTableCmd, Constraint
from pgrepl.statements.table.alter.not_null import change_inheritance, to_validate, validate
from pgrepl.statements.table.alter.work import TABLE, AlteredTable, Pass, WorkQueue, check_target
from pgrepl.statements.table.constraints import does_not_exist, update_constraint

_INHERITANCE = frozenset({"INHERIT", "NO INHERIT"})
_ENFORCEMENT = frozenset({"ENFORCED", "NOT ENFORCED"})


def _found(session: Session, rel: Relation, name: str) -> pg_constraint:
    row = constraint_named(session, rel.oid, name)
    if row is None:
        raise does_not_exist(name, rel.name)
    return row


# --- ALTER CONSTRAINT ---------------------------------------------------------------------------------------------


def prepare_alter_constraint(
    work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool
) -> None:
    check_target(work.session, "ALTER CONSTRAINT", rel, TABLE)
    assert cmd.constraint is not None
    wanted, session = cmd.constraint, work.session
    newer = session.settings.release >= 18
    if not newer:
        refuse_newer(session.query, wanted.newer)
    elif not recurse and rel.kind == "p":
        raise PgError(
            "42P16", "constraint must be altered in child tables too", hint="Do not specify the ONLY keyword."
        )
    work.entry(rel).add(Pass.MISC, partial(_alter_constraint, wanted=wanted))


def _alter_constraint(work: WorkQueue, altered: AlteredTable, *, wanted: Constraint) -> None:
    """ALTER CONSTRAINT (ATExecAlterConstraint)."""
    session, rel, name = work.session, work.relation(altered), wanted.name or ""
    row = _found(session, rel, name)
    inherits, enforced = wanted.attributes & _INHERITANCE, wanted.attributes & _ENFORCEMENT
    if row.contype != "f" and (wanted.attributes - _INHERITANCE - _ENFORCEMENT or session.settings.release < 18):
        raise PgError("42809", f'constraint "{name}" of relation "{rel.name}" is not a foreign key constraint')
    if row.contype != "f" and enforced:
        raise PgError("42809", f'cannot alter enforceability of constraint "{name}" of relation "{rel.name}"')
    if row.contype != "n" and inherits:
        raise PgError("42809", f'constraint "{name}" of relation "{rel.name}" is not a not-null constraint')
    if wanted.no_inherit and row.coninhcount > 0:
        raise PgError("42P16", f'cannot alter inherited constraint "{name}" on relation "{rel.name}"')
    if row.conparentid:
        top = constraint_row(session, row.conparentid)
        while top.conparentid:
            top = constraint_row(session, top.conparentid)
        table = relation(session, top.conrelid).name
        raise PgError(
            "XX000",
            f'cannot alter constraint "{name}" on relation "{rel.name}"',
            detail=f'Constraint "{name}" is derived from constraint "{top.conname}" of relation "{table}".',
            hint="You may alter the constraint it derives from instead.",
        )
    if enforced and bool(row.conenforced) != wanted.enforced:
        _set_enforceability(work, row, wanted)
    if row.contype == "f" and (not wanted.attributes or wanted.attributes - _INHERITANCE - _ENFORCEMENT):
        _set_deferrability(session, row, wanted)
    if inherits:
        change_inheritance(work, rel, row, no_inherit=wanted.no_inherit)


def _set_enforceability(work: WorkQueue, row: pg_constraint, wanted: Constraint) -> None:
    """Rows are checked once the key is enforced again (ATExecAlterConstrEnforceability)."""
    rel = relation(work.session, row.conrelid)
    update_constraint(work.session, row.oid, conenforced=wanted.enforced, convalidated=wanted.enforced)
    parent = constraint_row(work.session, row.conparentid) if row.conparentid else None
    if wanted.enforced and rel.kind == "r" and (parent is None or parent.conrelid != row.conrelid):
        work.entry(rel).pending.append(KeysExist(rel.oid, row.oid))
    for part in store.rows(work.session, pg_constraint, conparentid=row.oid):
        _set_enforceability(work, part, wanted)


def _set_deferrability(session: Session, row: pg_constraint, wanted: Constraint) -> None:
    if (row.condeferrable, row.condeferred) != (wanted.deferrable, wanted.initially_deferred):
        update_constraint(session, row.oid, condeferrable=wanted.deferrable, condeferred=wanted.initially_deferred)
    for part in store.rows(session, pg_constraint, conparentid=row.oid):
        _set_deferrability(session, part, wanted)


# --- VALIDATE CONSTRAINT ------------------------------------------------------------------------------------------


def validate_constraint(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """As ATExecValidateConstraint does: children first."""
    rel, name = work.relation(altered), cmd.name or ""
    row = _to_validate(work.session, rel, name)
    if row.convalidated:
        return
    if row.contype == "n":
        validate(work, rel, row, recurse=recurse)
        return
    for table in to_validate(work.session, rel, row, recurse=recurse) if row.contype == "c" else [rel]:
        row = _to_validate(work.session, table, name)
        if row.convalidated:
            continue
        if row.contype == "f":
            work.entry(table).pending.append(KeysExist(table.oid, row.oid))
        else:
            condition = stored.from_json(row.conbin, work.session)
            work.entry(table).pending.append(CheckHolds(table.oid, name, condition))
        update_constraint(work.session, row.oid, convalidated=True)


def _to_validate(session: Session, rel: Relation, name: str) -> pg_constraint:
    row = _found(session, rel, name)
    if not row.conenforced:
        raise PgError("42809", "cannot validate NOT ENFORCED constraint")
    newer = session.settings.release >= 18
    if row.contype not in ("f", "c", "n") or (row.contype == "n" and not newer):
        if newer:
            raise PgError(
                "42809",
                f'cannot validate constraint "{name}" of relation "{rel.name}"',
                detail="This operation is not supported for this type of constraint.",
            )
        raise PgError("42809", f'constraint "{name}" of relation "{rel.name}" is not a foreign key or check constraint')
    return row
