"""ALTER COLUMN: ADD GENERATED … AS IDENTITY, SET GENERATED and sequence options, DROP IDENTITY.

Partitions share the identity of the partitioned table; ordinary children have none of their parents'.
"""

from __future__ import annotations

from functools import partial

from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.depend import Dependency, forget_dependencies
from pgrepl.catalog.inheritance import children
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.sequences import identity_sequence
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.sql.nodes import AlterSeqStmt, AlterTableCmd, RangeVar, TypeName
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.sequence import change_sequence, create_column_sequence, own_sequence
from pgrepl.statements.table.alter.attributes import set_attribute
from pgrepl.statements.table.alter.targets import FOREIGN, TABLE, VIEW, check_target, column_of, missing_column
from pgrepl.statements.table.alter.work import AlteredTable, Pass, WorkQueue
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, column_of_type
from pgrepl.statements.table.context import Clauses, add_sequence
from pgrepl.types.builtin import type_by_oid


def prepare_identity(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    """The three commands differ in their action and in the pass they run in."""
    check_target(work.session, cmd.kind.value, rel, TABLE + VIEW + FOREIGN)
    step, when = {
        "ADD_IDENTITY": (_add_identity, Pass.ADD_OTHER),
        "SET_IDENTITY": (_set_identity, Pass.MISC),
        "DROP_IDENTITY": (_drop_identity, Pass.DROP),
    }[cmd.kind.name]
    work.entry(rel).add(when, partial(step, cmd=cmd, recurse=recurse))


def _refuse_place(rel: Relation, verb: str, recurse: bool, recursing: bool, what: str) -> None:
    if rel.kind == "p" and not recurse:
        raise PgError(
            "42P16",
            f"cannot {verb} {what} of only the partitioned table",
            hint="Do not specify the ONLY keyword.",
        )
    if rel.is_partition and not recursing:
        raise PgError("42P16", f"cannot {verb} {what} of a partition")


def _partitions(session: Session, rel: Relation, recurse: bool) -> list[Relation]:
    if not recurse or rel.kind != "p":
        return []
    return [relation(session, oid) for oid in children(session, rel.oid)]


# --- ADD ----------------------------------------------------------------------------------------------------------


def _add_identity(work: WorkQueue, altered: AlteredTable, *, cmd: AlterTableCmd, recurse: bool) -> None:
    session, rel = work.session, work.relation(altered)
    name = cmd.name or ""
    assert cmd.constraint is not None
    attribute = rel.attribute(name)
    if attribute is None and name not in SYSTEM_COLUMNS:
        raise missing_column(rel, name)
    clauses = Clauses(session, rel.name, rel.namespace, rel.persistence, rel=rel)
    column = column_of_type(name, attribute.type if attribute is not None else 0, -1, 0)
    type_ = type_by_oid(column.type)
    written = TypeName(("pg_catalog", type_.name)) if type_ is not None else None
    plan = add_sequence(clauses, column, written, cmd.constraint.sequence_options, identity=True)
    create_column_sequence(session, plan)
    own_sequence(session, plan, rel)
    _mark_identity(session, rel, name, cmd.constraint.generated_when or "a", recurse=recurse)


def _mark_identity(
    session: Session, rel: Relation, name: str, identity: str, *, recurse: bool, recursing: bool = False
) -> None:
    """As ATExecAddIdentity does."""
    _refuse_place(rel, "add identity to", recurse, recursing, "a column")
    attribute = column_of(rel, name)
    what = f'column "{name}" of relation "{rel.name}"'
    if not attribute.notnull:
        raise PgError("55000", f"{what} must be declared NOT NULL before identity can be added")
    if attribute.identity:
        raise PgError("55000", f"{what} is already an identity column")
    if attribute.has_default:
        raise PgError("55000", f"{what} already has a default value")
    set_attribute(session, rel.oid, attribute.num, attidentity=identity)
    for part in _partitions(session, rel, recurse):
        _mark_identity(session, part, name, identity, recurse=recurse, recursing=True)


# --- SET ----------------------------------------------------------------------------------------------------------


def _set_identity(work: WorkQueue, altered: AlteredTable, *, cmd: AlterTableCmd, recurse: bool) -> None:
    session, rel = work.session, work.relation(altered)
    name = cmd.name or ""
    generated = [option for option in cmd.options if option.name == "generated"]
    sequence_options = tuple(option for option in cmd.options if option.name != "generated")
    attribute = rel.attribute(name)
    if attribute is None and name not in SYSTEM_COLUMNS:
        raise missing_column(rel, name)
    sequence = identity_sequence(session, rel.oid, attribute.num) if attribute is not None else 0
    if sequence:
        stmt = AlterSeqStmt(RangeVar(""), sequence_options)
        change_sequence(session, relation(session, sequence), stmt, identity=True)
    if len(generated) > 1:
        _refuse_place(rel, "change", recurse, False, "identity column")
        raise PgError("42601", "conflicting or redundant options")
    value = str(generated[0].value) if generated else None
    _change_identity(session, rel, name, value, recurse=recurse)


def _change_identity(
    session: Session, rel: Relation, name: str, identity: str | None, *, recurse: bool, recursing: bool = False
) -> None:
    """As ATExecSetIdentity does."""
    _refuse_place(rel, "change", recurse, recursing, "identity column")
    attribute = column_of(rel, name)
    if not attribute.identity:
        raise PgError("55000", f'column "{name}" of relation "{rel.name}" is not an identity column')
    if identity is None:
        return
    set_attribute(session, rel.oid, attribute.num, attidentity=identity)
    for part in _partitions(session, rel, recurse):
        _change_identity(session, part, name, identity, recurse=recurse, recursing=True)


# --- DROP ---------------------------------------------------------------------------------------------------------


def _drop_identity(work: WorkQueue, altered: AlteredTable, *, cmd: AlterTableCmd, recurse: bool) -> None:
    drop_identity(work.session, work.relation(altered), cmd.name or "", missing_ok=cmd.missing_ok, recurse=recurse)


def drop_identity(
    session: Session,
    rel: Relation,
    name: str,
    *,
    missing_ok: bool = False,
    recurse: bool = True,
    recursing: bool = False,
) -> None:
    """As ATExecDropIdentity does."""
    _refuse_place(rel, "drop identity from", recurse, recursing, "a column")
    attribute = column_of(rel, name)
    if not attribute.identity:
        text = f'column "{name}" of relation "{rel.name}" is not an identity column'
        if not missing_ok:
            raise PgError("55000", text)
        session.notice("NOTICE", f"{text}, skipping")
        return
    sequence = 0 if recursing else identity_sequence(session, rel.oid, attribute.num)
    set_attribute(session, rel.oid, attribute.num, attidentity="")
    for part in _partitions(session, rel, recurse):
        drop_identity(session, part, name, recurse=recurse, recursing=True)
    if sequence:
        address = ObjectAddress(PG_CLASS, sequence)
        forget_dependencies(session, address, refclassid=PG_CLASS, kind=Dependency.INTERNAL)
        drop_objects(session, [address], cascade=False, quietly=True)
