"""ALTER COLUMN: NOT NULL, DEFAULT, generation expressions; DROP COLUMN and DROP CONSTRAINT; what depends on a column
that changes."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog.facts.depend import dependents_of, forget_dependencies
from pgrepl.catalog.facts.objects import describe_object
from pgrepl.catalog.facts.publication import relation_publications
from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import (
    children,
    constraint_named,
    constraint_of_index,
    constraint_row,
    indexes,
    not_null_of,
)
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import (
    PG_ATTRDEF,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_PROC,
    PG_PUBLICATION_REL,
    PG_REWRITE,
    PG_TRIGGER,
    ObjectAddress,
)
from pgrepl.catalog.store.tables import pg_attrdef, pg_constraint
from pgrepl.expr.catalog_trees import default_of, index_info
from pgrepl.expr.print.definitions import constraint_definition, index_definition
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import AlterTableCmd, Expr
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.table.alter.work import (
    FOREIGN,
    TABLE,
    VIEW,
    AlteredTable,
    Pass,
    WorkQueue,
    check_target,
    column_of,
    for_children,
    only_partitioned,
)
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, set_attribute
from pgrepl.statements.table.constraints import does_not_exist, update_constraint
from pgrepl.statements.table.heap import cook_default, remove_default, store_default
from pgrepl.statements.table.partition import key_columns
from pgrepl.statements.table.relations import unplaced
from pgrepl.writing.rows_spark import NewColumnValue

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
    row = constraint_row(session, oid)
    if oid in altered.changed_constraints or row.contype == "n":  # the type does not matter to NOT NULL
        return
    altered.changed_constraints[oid] = constraint_definition(session, oid) or ""
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


# --- DEFAULT ------------------------------------------------------------------------------------------------------


def prepare_default(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "ALTER COLUMN ... SET DEFAULT", rel, TABLE + VIEW + FOREIGN)
    if recurse:
        for_children(work.session, rel, lambda child: prepare_default(work, child, cmd, False, True))
    when = Pass.ADD_OTHER if cmd.expr is not None else Pass.DROP
    work.entry(rel).add(when, partial(_change_default, name=cmd.name or "", default=cmd.expr))


def _change_default(work: WorkQueue, altered: AlteredTable, *, name: str, default: Expr | None) -> None:
    """ALTER COLUMN … SET and DROP DEFAULT (ATExecColumnDefault)."""
    session, rel = work.session, work.relation(altered)
    attribute = column_of(rel, name)
    if attribute.identity:
        raise PgError(
            "42601",
            f'column "{name}" of relation "{rel.name}" is an identity column',
            hint=None if default is not None else "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.",
        )
    if attribute.generated:
        word = "SET" if default is not None else "DROP"
        hint = f"Use ALTER TABLE ... ALTER COLUMN ... {word} EXPRESSION instead."
        raise PgError(
            "42601",
            f'column "{name}" of relation "{rel.name}" is a generated column',
            hint=hint if attribute.generated == "s" else None,
        )
    remove_default(session, rel.oid, attribute.num)
    if default is not None:
        with unplaced():
            expr = cook_default(
                session, relation(session, rel.oid), default, name, attribute.type, attribute.typmod, ""
            )
        if expr is not None:
            store_default(session, rel.oid, attribute.num, expr, "")


# --- GENERATED ALWAYS AS ------------------------------------------------------------------------------------------


def set_expression(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """ALTER COLUMN … SET EXPRESSION (ATExecSetExpression)."""
    session, rel, name, raw = work.session, work.relation(altered), cmd.name or "", cmd.expr
    assert raw is not None
    attribute = column_of(rel, name)
    if not attribute.generated:
        raise PgError("55000", f'column "{name}" of relation "{rel.name}" is not a generated column')
    if attribute.generated == "v":
        _refuse_new_expression(session, rel, attribute)
    kind = attribute.generated
    remember_dependents(work, altered, rel, attribute, type_changes=False)
    _remove_expression(session, rel.oid, attribute.num)
    with unplaced():
        expr = cook_default(session, relation(session, rel.oid), raw, name, attribute.type, attribute.typmod, kind)
    assert expr is not None
    store_default(session, rel.oid, attribute.num, expr, kind)
    if kind == "v":
        altered.verify_not_null |= attribute.notnull
        return
    stored = default_of(session, rel.oid, attribute.num)
    assert stored is not None
    altered.new_values.append(NewColumnValue(rel.oid, attribute.num, stored, generates=True))


def _refuse_new_expression(session: Session, rel: Relation, attribute: Attribute) -> None:
    where = "with check constraints" if rel.checks else "that are part of a publication"
    if rel.checks or relation_publications(session, rel.oid):
        raise PgError(
            "0A000",
            f"ALTER TABLE / SET EXPRESSION is not supported for virtual generated columns in tables {where}",
            detail=f'Column "{attribute.name}" of relation "{rel.name}" is a virtual generated column.',
        )


def _remove_expression(session: Session, relid: int, attnum: int) -> None:
    """Remove a generation expression, and first the dependency that makes it a part of its column."""
    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    if row is not None:
        forget_dependencies(session, ObjectAddress(PG_ATTRDEF, row.oid))
    remove_default(session, relid, attnum)


def prepare_drop_expression(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "ALTER COLUMN ... DROP EXPRESSION", rel, TABLE + FOREIGN)
    if recurse:
        for_children(work.session, rel, lambda child: prepare_drop_expression(work, child, cmd, False, True))
    if not recurse and not recursing and children(work.session, rel.oid):
        raise PgError("0A000", "ALTER TABLE / DROP EXPRESSION must be applied to child tables too")
    if not recursing:
        attribute = rel.attribute(cmd.name or "")
        if attribute is None:
            column_of(rel, cmd.name or "")
        elif attribute.inhcount > 0:
            raise PgError("42P16", "cannot drop generation expression from inherited column")
    step = partial(_drop_expression, name=cmd.name or "", missing_ok=cmd.missing_ok)
    work.entry(rel).add(Pass.DROP, step)


def _drop_expression(work: WorkQueue, altered: AlteredTable, *, name: str, missing_ok: bool) -> None:
    session, rel = work.session, work.relation(altered)
    attribute = column_of(rel, name)
    if attribute.generated == "v":
        raise PgError(
            "0A000",
            "ALTER TABLE / DROP EXPRESSION is not supported for virtual generated columns",
            detail=f'Column "{name}" of relation "{rel.name}" is a virtual generated column.',
        )
    if not attribute.generated:
        kind = "generated" if session.settings.release >= 18 else "stored generated"
        text = f'column "{name}" of relation "{rel.name}" is not a {kind} column'
        if not missing_ok:
            raise PgError("55000", text)
        session.notice("NOTICE", f"{text}, skipping")
        return
    set_attribute(session, rel.oid, attribute.num, attgenerated="")
    _remove_expression(session, rel.oid, attribute.num)


# --- DROP COLUMN --------------------------------------------------------------------------------------------------


def drop_column(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    session, rel, name = work.session, work.relation(altered), cmd.name or ""
    if cmd.missing_ok and rel.attribute(name) is None:
        if name not in SYSTEM_COLUMNS:
            session.notice("NOTICE", f'column "{name}" of relation "{rel.name}" does not exist, skipping')
            return
    addresses: list[ObjectAddress] = []
    _collect(work, rel, name, recurse, addresses, recursing=False)
    drop_objects(session, addresses, cascade=cmd.cascade)


def _collect(
    work: WorkQueue, rel: Relation, name: str, recurse: bool, addresses: list[ObjectAddress], *, recursing: bool
) -> None:
    """The columns to drop, those of children before their parents', as ATExecDropColumn finds them."""
    session = work.session
    if recursing:
        check_target(session, "DROP COLUMN", rel, TABLE + FOREIGN)
    attribute = column_of(rel, name, verb="drop")
    if attribute.inhcount > 0 and not recursing:
        raise PgError("42P16", f'cannot drop inherited column "{name}"')
    if attribute.num in key_columns(session, rel.oid):
        raise PgError(
            "42P16", f'cannot drop column "{name}" because it is part of the partition key of relation "{rel.name}"'
        )
    below = children(session, rel.oid)
    if below and rel.kind == "p" and not recurse:
        raise only_partitioned("drop column from")
    for oid in below:
        child = relation(session, oid)
        inherited = column_of(child, name)
        if recurse and inherited.inhcount == 1 and not inherited.is_local:
            _collect(work, child, name, True, addresses, recursing=True)
            continue
        values: dict[str, object] = {"attinhcount": inherited.inhcount - 1}
        if not recurse:
            values["attislocal"] = True
        set_attribute(session, oid, inherited.num, **values)
    addresses.append(ObjectAddress(PG_CLASS, rel.oid, attribute.num))


# --- DROP CONSTRAINT ----------------------------------------------------------------------------------------------


def drop_constraint(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    rel, name = work.relation(altered), cmd.name or ""
    row = constraint_named(work.session, rel.oid, name)
    if row is not None:
        drop_found(work, rel, row, cascade=cmd.cascade, recurse=recurse)
    elif not cmd.missing_ok:
        raise does_not_exist(name, rel.name)
    else:
        work.session.notice("NOTICE", f'constraint "{name}" of relation "{rel.name}" does not exist, skipping')


def drop_found(
    work: WorkQueue, rel: Relation, row: pg_constraint, *, cascade: bool, recurse: bool, recursing: bool = False
) -> None:
    """As dropconstraint_internal does; the children's NOT NULL is found by its column, another constraint by name."""
    session = work.session
    if recursing:
        check_target(session, "DROP CONSTRAINT", rel, TABLE + FOREIGN)
    if row.coninhcount > 0 and not recursing:
        raise PgError("42P16", f'cannot drop inherited constraint "{row.conname}" of relation "{rel.name}"')
    column = _nullable(session, rel, row) if row.contype == "n" else None
    drop_objects(session, [ObjectAddress(PG_CONSTRAINT, row.oid)], cascade=cascade)
    if row.contype not in "cn" and rel.kind == "p":
        return
    below = [] if row.connoinherit else children(session, rel.oid)
    newer = session.settings.release >= 18
    if rel.kind == "p" and below and not recurse and not newer:
        raise only_partitioned("remove constraint from")
    for oid in below:
        child = relation(session, oid)
        inherited = _inherited(session, child, row.conname, column)
        if recurse and inherited.coninhcount == 1 and not inherited.conislocal:
            drop_found(work, child, inherited, cascade=cascade, recurse=True, recursing=True)
            continue
        values: dict[str, object] = {"coninhcount": inherited.coninhcount - 1}
        if not recurse and (not newer or inherited.coninhcount == 1):
            values["conislocal"] = True
        update_constraint(session, inherited.oid, **values)


def _inherited(session: Session, child: Relation, name: str, column: str | None) -> pg_constraint:
    if column is None:
        row = constraint_named(session, child.oid, name)
    else:
        row = not_null_of(session, child, column)
    if row is None:
        raise does_not_exist(name, child.name)
    return row


def _nullable(session: Session, rel: Relation, row: pg_constraint) -> str:
    """The column of a NOT NULL constraint, which it no longer is."""
    attribute = rel.attributes[row.conkey[0] - 1]
    refuse_needed(session, rel, attribute)
    refuse_identity(rel, attribute)
    set_attribute(session, rel.oid, attribute.num, attnotnull=False)
    return attribute.name


def refuse_needed(session: Session, rel: Relation, attribute: Attribute) -> None:
    """A key or an identity needs the column to be NOT NULL."""
    for row in indexes(session, rel.oid):
        if attribute.num in row.indkey[: row.indnkeyatts]:
            if row.indisprimary:
                raise PgError("42P16", f'column "{attribute.name}" is in a primary key')
            if row.indisreplident:
                raise PgError("42P16", f'column "{attribute.name}" is in index used as replica identity')


def refuse_identity(rel: Relation, attribute: Attribute) -> None:
    if attribute.identity:
        raise PgError("42601", f'column "{attribute.name}" of relation "{rel.name}" is an identity column')
