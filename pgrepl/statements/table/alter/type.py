"""ALTER COLUMN … SET DATA TYPE: the column, its default, and the objects that depend on its old type; indexes and
constraints made anew for the new one (ATPostAlterTypeCleanup)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pgrepl.catalog.facts.depend import dependents_of, forget_dependencies
from pgrepl.catalog.facts.objects import comment_on, put_comment
from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import children, constraint_named, constraint_row
from pgrepl.catalog.facts.sequences import identity_sequence
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_ATTRDEF, PG_CLASS, PG_CONSTRAINT, PG_TYPE, ObjectAddress
from pgrepl.catalog.store.tables import pg_attrdef
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import transform
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import scope_of_relation
from pgrepl.expr.catalog_trees import attnum_map, default_of, index_info, mapped
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import without_implicit_casts
from pgrepl.ground.errors import PgError
from pgrepl.rows.checks_table import SEVERAL
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.sql.nodes import (
    AlterSeqStmt,
    AlterTableCmd,
    AlterTableStmt,
    CoercionForm,
    Constraint,
    ConstrType,
    DefElem,
    IndexStmt,
    RangeVar,
    Statement,
)
from pgrepl.sql.parser import parse
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.dependencies import record_column_dependencies
from pgrepl.statements.index.attributes import IndexSpec
from pgrepl.statements.index.define import define_index
from pgrepl.statements.index.reindex import index_spec
from pgrepl.statements.sequence import change_sequence
from pgrepl.statements.table.alter.add import add_check_and_recurse, cook_of
from pgrepl.statements.table.alter.attributes import remember_dependents
from pgrepl.statements.table.alter.work import (
    COMPOSITE,
    FOREIGN,
    TABLE,
    AlteredTable,
    Pass,
    WorkQueue,
    check_target,
    column_of,
    mark_clustered,
    mark_replica_identity,
    missing_column,
)
from pgrepl.statements.table.clauses import add_constraint, make_indexes
from pgrepl.statements.table.columns import (
    SYSTEM_COLUMNS,
    NewColumn,
    check_type,
    check_virtual,
    set_attribute,
    set_type,
    type_storage,
)
from pgrepl.statements.table.constraints import Clauses
from pgrepl.statements.table.foreign import add_foreign_key
from pgrepl.statements.table.heap import remove_default, store_default
from pgrepl.statements.table.names import inheritors_with_parents
from pgrepl.statements.table.partition import key_columns
from pgrepl.statements.type.domain import refuse_users
from pgrepl.writing.rows_spark import NewColumnValue


def refuse_used_row_type(session: Session, rel: Relation, row_type: int = 0) -> None:
    """As find_composite_type_dependencies does. Views of the type, or of views of it, count if a table has a column of
    theirs."""
    row_type = row_type or rel.type
    for row in dependents_of(session, ObjectAddress(PG_TYPE, row_type)):
        if row.classid != PG_CLASS:
            continue
        user = relation(session, row.objid)
        attribute = next((a for a in user.columns if a.num == row.objsubid or a.type == row_type), None)
        if attribute is None:
            continue
        if user.kind in "rmp":
            raise PgError(
                "0A000",
                f'cannot alter table "{rel.name}" because column "{user.name}.{attribute.name}" uses its row type',
            )
        if user.type:
            refuse_used_row_type(session, rel, user.type)


# --- type -------------------------------------------------------------------------------------------------------------


def prepare_type(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    """USING is analyzed here: it sees the columns as they were before any change (ATPrepAlterColumnType)."""
    check_target(work.session, "ALTER COLUMN ... SET DATA TYPE", rel, TABLE + FOREIGN + COMPOSITE)
    using = None
    if cmd.expr is not None:
        using = transform(scope_of_relation(work.session, rel), cmd.expr, ExprKind.USING)
    _prepare(work, rel, cmd, using, recurse=recurse, recursing=recursing)


def _prepare(
    work: WorkQueue, rel: Relation, cmd: AlterTableCmd, using: Expr | None, *, recurse: bool, recursing: bool
) -> None:
    session, name = work.session, cmd.name or ""
    _change_identity_type(session, rel, cmd)
    attribute = column_of(rel, name)
    if attribute.generated and using is not None:
        raise PgError(
            "42611",
            "cannot specify USING when altering type of generated column",
            detail=f'Column "{name}" is a generated column.',
        )
    if attribute.inhcount > 0 and not recursing:
        raise PgError("42P16", f'cannot alter inherited column "{name}"')
    if attribute.num in key_columns(session, rel.oid):
        raise PgError(
            "42P16", f'cannot alter column "{name}" because it is part of the partition key of relation "{rel.name}"'
        )
    target = _target(session, cmd)
    check_type(session, name, target.type, target.collation, rowtypes=(rel.type,))
    check_virtual(replace(target, generated=attribute.generated))
    altered = work.entry(rel)
    if rel.kind == "c":
        refuse_users(session, rel.type, rel.name)
    else:
        converted = _converted(session, rel, attribute, target, using)
        to_text = attribute.ndims < SEVERAL <= target.ndims
        if attribute.generated != "v":
            altered.new_values.append(NewColumnValue(rel.oid, attribute.num, converted, to_text=to_text))
    if rel.kind == "p":
        refuse_used_row_type(session, rel)
    altered.add(Pass.ALTER_TYPE, partial(_alter_type, name=name, target=target))
    if recurse:
        _prepare_children(work, rel, cmd, using)
    elif not recursing and children(session, rel.oid):
        raise PgError("42P16", f'type of inherited column "{name}" must be changed in child tables too')


def _change_identity_type(session: Session, rel: Relation, cmd: AlterTableCmd) -> None:
    """Change the sequence of an identity column to the column's new type."""
    if rel.is_partition:
        return
    name = cmd.name or ""
    attribute = rel.attribute(name)
    if attribute is None:
        if name in SYSTEM_COLUMNS:
            return
        raise missing_column(rel, name)
    if attribute.identity:
        assert cmd.column is not None and cmd.column.type_name is not None
        sequence = identity_sequence(session, rel.oid, attribute.num)
        bare = replace(cmd.column.type_name, typmods=())
        stmt = AlterSeqStmt(RangeVar(""), (DefElem("as", bare),))
        change_sequence(session, relation(session, sequence), stmt, identity=True)


def _target(session: Session, cmd: AlterTableCmd) -> NewColumn:
    assert cmd.column is not None and cmd.column.type_name is not None
    target = NewColumn(cmd.name or "")
    type_name = replace(cmd.column.type_name, location=-1)
    set_type(session, target, type_name, cmd.column.collation, -1)
    return target


def _converted(session: Session, rel: Relation, attribute: Attribute, target: NewColumn, using: Expr | None) -> Expr:
    """The expression that converts old values to the new type."""
    expr: Expr = using or Var(
        attribute.type, typmod=attribute.typmod, collation=attribute.collation, attnum=attribute.num
    )
    typed = coerce_to_target(
        scope_of_relation(session, rel),
        expr,
        expr.type,
        target.type,
        target.typmod,
        Context.ASSIGNMENT,
        CoercionForm.IMPLICIT_CAST,
        -1,
    )
    if typed is not None:
        return assign_collations(typed)
    type_ = lookup.type_text(session, target.type)
    if using is not None:
        raise PgError(
            "42804",
            f'result of USING clause for column "{attribute.name}" cannot be cast automatically to type {type_}',
            hint="You might need to add an explicit cast.",
        )
    full = lookup.type_text(session, target.type, target.typmod)
    raise PgError(
        "42804",
        f'column "{attribute.name}" cannot be cast automatically to type {type_}',
        hint=None
        if attribute.generated
        else f'You might need to specify "USING {quote_identifier(attribute.name)}::{full}".',
    )


def _prepare_children(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, using: Expr | None) -> None:
    session, name = work.session, cmd.name or ""
    for oid, parents in inheritors_with_parents(session, rel.oid).items():
        if oid == rel.oid:
            continue
        child = relation(session, oid)
        attribute = child.attribute(name)
        if attribute is None:
            raise missing_column(child, name)
        if attribute.inhcount > parents:
            raise PgError("42P16", f'cannot alter inherited column "{name}" of relation "{child.name}"')
        moved = using
        if using is not None:
            detail = "USING expression contains a whole-row table reference."
            moved = mapped(using, attnum_map(child, rel), detail)
        check_target(session, "ALTER COLUMN ... SET DATA TYPE", child, TABLE + FOREIGN)
        _prepare(work, child, cmd, moved, recurse=False, recursing=True)


def _alter_type(work: WorkQueue, altered: AlteredTable, *, name: str, target: NewColumn) -> None:
    """ALTER COLUMN … TYPE (ATExecAlterColumnType)."""
    session, rel = work.session, work.relation(altered)
    attribute = column_of(rel, name)
    old = altered.before.attribute_by_number(attribute.num)
    if old is not None and (attribute.type, attribute.typmod) != (old.type, old.typmod):
        raise PgError("0A000", f'cannot alter type of column "{name}" twice')
    default = _converted_default(session, rel, attribute, target)
    remember_dependents(work, altered, rel, attribute, type_changes=True)
    forget_dependencies(session, ObjectAddress(PG_CLASS, rel.oid, attribute.num))
    set_attribute(
        session,
        rel.oid,
        attribute.num,
        atttypid=target.type,
        atttypmod=target.typmod,
        attcollation=target.collation,
        attndims=target.ndims,
        attstorage=type_storage(target.type),
        attcompression="",
    )
    record_column_dependencies(session, rel.oid, [(attribute.num, target.type, target.collation)])
    if default is not None:
        if attribute.generated:
            row = store.one(session, pg_attrdef, adrelid=rel.oid, adnum=attribute.num)
            if row is not None:
                forget_dependencies(session, ObjectAddress(PG_ATTRDEF, row.oid))
        remove_default(session, rel.oid, attribute.num)
        store_default(session, rel.oid, attribute.num, default, attribute.generated)


def _converted_default(session: Session, rel: Relation, attribute: Attribute, target: NewColumn) -> Expr | None:
    """The default, without its implicit casts, converted to the new type."""
    default = default_of(session, rel.oid, attribute.num) if attribute.has_default else None
    if default is None:
        return None
    default = without_implicit_casts(default)
    typed = coerce_to_target(
        scope_of_relation(session, rel),
        default,
        default.type,
        target.type,
        target.typmod,
        Context.ASSIGNMENT,
        CoercionForm.IMPLICIT_CAST,
        -1,
    )
    if typed is not None:
        return assign_collations(typed)
    what = "generation expression" if attribute.generated else "default"
    type_ = lookup.type_text(session, target.type)
    raise PgError("42804", f'{what} for column "{attribute.name}" cannot be cast automatically to type {type_}')


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
