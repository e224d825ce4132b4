"""ALTER CONSTRAINT (whether a foreign key can be deferred) and VALIDATE CONSTRAINT."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog import store
from pgrepl.catalog.constraint import constraint_named, constraint_row
from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_constraint
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.rows.requirements import CheckHolds, KeysExist
from pgrepl.sql.nodes import AlterTableCmd, Constraint
from pgrepl.statements.table.alter.targets import FOREIGN, TABLE, check_target
from pgrepl.statements.table.alter.work import AlteredTable, Pass, WorkQueue
from pgrepl.statements.table.constraints import does_not_exist, update_constraint


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
    work.entry(rel).add(Pass.MISC, partial(_alter_constraint, wanted=cmd.constraint))


def _alter_constraint(work: WorkQueue, altered: AlteredTable, *, wanted: Constraint) -> None:
    """As ATExecAlterConstraint does."""
    session, rel, name = work.session, work.relation(altered), wanted.name or ""
    row = _found(session, rel, name)
    if row.contype != "f":
        raise PgError("42809", f'constraint "{name}" of relation "{rel.name}" is not a foreign key constraint')
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
    _set_deferrability(session, row, wanted)


def _set_deferrability(session: Session, row: pg_constraint, wanted: Constraint) -> None:
    if (row.condeferrable, row.condeferred) != (wanted.deferrable, wanted.initially_deferred):
        update_constraint(session, row.oid, condeferrable=wanted.deferrable, condeferred=wanted.initially_deferred)
    for part in store.rows(session, pg_constraint, conparentid=row.oid):
        _set_deferrability(session, part, wanted)


# --- VALIDATE CONSTRAINT ------------------------------------------------------------------------------------------


def prepare_validate(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "VALIDATE CONSTRAINT", rel, TABLE + FOREIGN)
    work.entry(rel).add(Pass.MISC, partial(_validate_command, name=cmd.name or "", recurse=recurse))


def _validate_command(work: WorkQueue, altered: AlteredTable, *, name: str, recurse: bool) -> None:
    _validate(work, work.relation(altered), name, recurse=recurse)


def _validate(work: WorkQueue, rel: Relation, name: str, *, recurse: bool, recursing: bool = False) -> None:
    """As ATExecValidateConstraint does: children first."""
    session = work.session
    row = _found(session, rel, name)
    if row.contype not in ("f", "c"):
        raise PgError("42809", f'constraint "{name}" of relation "{rel.name}" is not a foreign key or check constraint')
    if row.convalidated:
        return
    if row.contype == "f":
        work.entry(rel).pending.append(KeysExist(rel.oid, row.oid))
    else:
        below = inheritors(session, rel.oid)[1:] if not recursing and not row.connoinherit else []
        for oid in below:
            if not recurse:
                raise PgError("42P16", "constraint must be validated on child tables too")
            _validate(work, relation(session, oid), name, recurse=False, recursing=True)
        work.entry(rel).pending.append(CheckHolds(rel.oid, name, stored.from_json(row.conbin, session)))
    update_constraint(session, row.oid, convalidated=True)
