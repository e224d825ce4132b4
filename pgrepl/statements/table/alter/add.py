"""ADD COLUMN and ADD CONSTRAINT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pgrepl.catalog.facts.depend import Dependency, forget_dependencies
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import children
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, ObjectAddress
from pgrepl.catalog.store.tables import pg_attribute, pg_class, pg_index
from pgrepl.expr.analyse.casts import collation_name
from pgrepl.expr.catalog_trees import default_of, domain_default, index_info, null_of
from pgrepl.expr.tree import Expr, NextValueExpr
from pgrepl.ground.errors import PgError
from pgrepl.rows.requirements import CheckHolds
from pgrepl.sql.nodes import AlterTableCmd, Constraint, ConstrType
from pgrepl.statements.dependencies import record_column_dependencies
from pgrepl.statements.index.attributes import IndexColumns, IndexSpec
from pgrepl.statements.index.define import check_primary_key, define_index
from pgrepl.statements.index.store import index_constraint
from pgrepl.statements.sequence import create_column_sequence, own_sequence
from pgrepl.statements.table.alter.constraint import (
    MUST_BE_ADDED_BELOW,
    prepare_primary_key,
    prepare_set_not_null,
    schedule_not_null,
)
from pgrepl.statements.table.alter.work import FOREIGN, TABLE, VIEW, AlteredTable, Pass, WorkQueue, check_target
from pgrepl.statements.table.clauses import add_column, add_constraint, make_indexes
from pgrepl.statements.table.columns import (
    MAX_COLUMNS,
    NewColumn,
    attribute_values,
    check_type,
    check_virtual,
    finish,
    name_is_free,
    too_many_columns,
)
from pgrepl.statements.table.constraints import Check, Clauses, add_checks, cook_check
from pgrepl.statements.table.foreign import add_foreign_key
from pgrepl.statements.table.heap import cook_default, store_default
from pgrepl.statements.table.relations import rename_relation, unplaced
from pgrepl.types.user_types import constrained
from pgrepl.writing.rows_spark import NewColumnValue


def _clauses(session: Session, rel: Relation) -> Clauses:
    return Clauses(session, rel.name, rel.namespace, rel.persistence, rel=rel, is_partitioned=rel.kind == "p")


# --- ADD COLUMN ---------------------------------------------------------------------------------------------------


def add_new_column(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """ADD COLUMN to the table that the statement names (ATExecAddColumn)."""
    session, rel = work.session, work.relation(altered)
    assert cmd.column is not None
    if rel.is_partition:
        raise PgError("42809", "cannot add column to a partition")
    if not name_is_free(session, rel, cmd.column.name, if_not_exists=cmd.missing_ok):
        return
    clauses = _clauses(session, rel)
    column = add_column(clauses, cmd.column)
    skip_validation = column.raw_default is None
    schedule(work, altered, clauses, recurse=recurse, skip_validation=skip_validation)
    if column.identity and recurse and rel.kind != "p" and children(session, rel.oid):
        raise PgError("42P16", "cannot recursively add identity column to table that has child tables")
    attach_column(work, altered, column, recurse=recurse, recursing=False)


def attach_column(work: WorkQueue, altered: AlteredTable, column: NewColumn, *, recurse: bool, recursing: bool) -> None:
    """Add an analyzed column to the table and its children."""
    session, rel = work.session, work.relation(altered)
    number = len(rel.attributes) + 1
    if number > MAX_COLUMNS:
        raise too_many_columns()
    finish(session, [column])
    check_type(session, column.name, column.type, column.collation, rowtypes=(rel.type,))
    check_virtual(column)
    store.insert(session, pg_attribute, **attribute_values(rel.oid, number, column))
    store.update(session, pg_class, {"oid": rel.oid}, relnatts=number)
    if column.raw_default is not None:
        with unplaced():
            expr = cook_default(
                session,
                relation(session, rel.oid),
                column.raw_default,
                column.name,
                column.type,
                column.typmod,
                column.generated,
            )
        if expr is not None:
            store_default(session, rel.oid, number, expr, column.generated)
    if rel.kind == "r":
        _fill(session, altered, column, number)
    record_column_dependencies(session, rel.oid, [(number, column.type, column.collation)])
    below = children(session, rel.oid)
    if below and not recurse:
        raise PgError("42P16", "column must be added to child tables too")
    for oid in below:
        child = relation(session, oid)
        inherited = replace(column, inhcount=1, is_local=False)
        _add_to_child(work, child, inherited, recurse=recurse)


def _fill(session: Session, altered: AlteredTable, column: NewColumn, number: int) -> None:
    """Note the value that the column gets in existing rows."""
    value: Expr | None = None
    if column.generated == "v":
        altered.verify_not_null |= column.not_null
        return
    if column.identity and column.identity_sequence:
        value = NextValueExpr(column.type, sequence=column.identity_sequence)
    else:
        value = default_of(session, altered.oid, number)
        if value is None and not column.generated:
            attribute = relation(session, altered.oid).attributes[number - 1]
            value = domain_default(session, attribute)
            if value is None and constrained(attribute.type):
                value = null_of(attribute)
    if value is not None:
        altered.new_values.append(NewColumnValue(altered.oid, number, value, bool(column.generated)))
    elif column.not_null:
        altered.verify_not_null = True


def _add_to_child(work: WorkQueue, child: Relation, column: NewColumn, *, recurse: bool) -> None:
    session = work.session
    check_target(session, "ADD COLUMN", child, TABLE + FOREIGN)
    existing = child.attribute(column.name)
    if existing is None:
        name_is_free(session, child, column.name)
        attach_column(work, work.entry(child), column, recurse=recurse, recursing=True)
        return
    if (existing.type, existing.typmod) != (column.type, column.typmod):
        raise PgError("42804", f'child table "{child.name}" has different type for column "{column.name}"')
    if existing.collation != column.collation:
        raise PgError(
            "42P21",
            f'child table "{child.name}" has different collation for column "{column.name}"',
            detail=f'"{collation_name(column.collation)}" versus "{collation_name(existing.collation)}"',
        )
    store.update(
        session, pg_attribute, {"attrelid": child.oid, "attnum": existing.num}, attinhcount=existing.inhcount + 1
    )
    session.notice("NOTICE", f'merging definition of column "{column.name}" for child "{child.name}"')


def add_view_column(work: WorkQueue, rel: Relation, column: NewColumn) -> None:
    """A further column of CREATE OR REPLACE VIEW."""
    check_target(work.session, "ADD COLUMN", rel, VIEW)
    name_is_free(work.session, rel, column.name)
    attach_column(work, work.entry(rel), column, recurse=True, recursing=False)


# --- ADD CONSTRAINT -----------------------------------------------------------------------------------------------


def add_new_constraint(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    clauses = _clauses(work.session, work.relation(altered))
    assert cmd.constraint is not None
    add_constraint(clauses, cmd.constraint)
    schedule(work, altered, clauses, recurse=recurse, skip_validation=cmd.constraint.kind is not ConstrType.FOREIGN)


def prepare_new_foreign_key(work: WorkQueue, rel: Relation, cmd: AlterTableCmd) -> None:
    """A foreign key of CREATE TABLE: the table is new, there is nothing to validate."""
    check_target(work.session, "ADD CONSTRAINT", rel, TABLE + FOREIGN)
    assert cmd.constraint is not None
    constraint = replace(cmd.constraint, skip_validation=False)
    step = partial(_add_foreign_key, constraint=constraint, recurse=True, skip_validation=True)
    work.entry(rel).add(Pass.ADD_OTHER, step)


def schedule(work: WorkQueue, altered: AlteredTable, clauses: Clauses, *, recurse: bool, skip_validation: bool) -> None:
    """Create the sequences now; leave indexes, NOT NULL, CHECKs and foreign keys to their passes, and the rest for the
    end, as ATParseTransformCmd does."""
    session = work.session
    make_indexes(clauses)
    for sequence in clauses.sequences:
        create_column_sequence(session, sequence)
        for column in clauses.columns:
            if sequence.identity and column.name == sequence.column:
                column.identity_sequence = sequence.oid
        altered.after.append(partial(lambda plan: own_sequence(session, plan, work.relation(altered)), sequence))
    for name in clauses.set_not_null:
        if session.settings.release >= 18:
            prepare_primary_key(work, work.relation(altered), name, recurse=recurse)
        else:
            prepare_set_not_null(work, work.relation(altered), name, recurse=recurse, recursing=False)
    for wanted in clauses.not_nulls:
        schedule_not_null(altered, wanted, recurse=recurse)
    for spec in clauses.indexes:
        when = Pass.ADD_INDEX_CONSTRAINT if spec.existing else Pass.ADD_INDEX
        altered.add(when, partial(_add_index, spec=replace(spec, recurse=recurse)))
    for check in clauses.checks:
        altered.add(Pass.ADD_OTHER, partial(_add_check, constraint=check, recurse=recurse))
    for key in clauses.foreign_keys:
        altered.add(
            Pass.ADD_OTHER, partial(_add_foreign_key, constraint=key, recurse=recurse, skip_validation=skip_validation)
        )


def _add_index(work: WorkQueue, altered: AlteredTable, *, spec: IndexSpec) -> None:
    if spec.existing:
        _use_index(work.session, work.relation(altered), spec)
    else:
        define_index(work.session, altered.oid, spec, alter_table=True, unique=work.unique)


def _use_index(session: Session, rel: Relation, spec: IndexSpec) -> None:
    """ADD CONSTRAINT … USING INDEX (ATExecAddIndexConstraint)."""
    if rel.kind == "p":
        raise PgError("0A000", "ALTER TABLE / ADD CONSTRAINT USING INDEX is not supported on partitioned tables")
    info = index_info(session, spec.existing)
    name = spec.name or info.name
    if name != info.name:
        session.notice(
            "NOTICE", f'ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index "{info.name}" to "{name}"'
        )
        rename_relation(session, relation(session, info.oid), name)
    if spec.primary:
        columns = IndexColumns(attnums=list(info.columns))
        checked = replace(spec, nulls_not_distinct=info.nulls_not_distinct)
        check_primary_key(session, rel, checked, columns, True)
    self = ObjectAddress(PG_CLASS, info.oid)
    forget_dependencies(session, self, refclassid=PG_CLASS, kind=Dependency.AUTO)
    index_constraint(session, rel, info.oid, spec, info.columns, name)
    values: dict[str, object] = {}
    if spec.primary and not info.primary:
        values["indisprimary"] = True
    if spec.deferrable and info.immediate:
        values["indimmediate"] = False
    if values:
        store.update(session, pg_index, {"indexrelid": info.oid}, **values)


def _add_foreign_key(
    work: WorkQueue, altered: AlteredTable, *, constraint: Constraint, recurse: bool, skip_validation: bool
) -> None:
    not_valid = constraint.skip_validation and not skip_validation
    add_foreign_key(
        work.session,
        work.relation(altered),
        constraint,
        recurse=recurse,
        valid=not not_valid,
        validate=not (skip_validation or not_valid),
        pending=altered.pending,
    )


def _add_check(work: WorkQueue, altered: AlteredTable, *, constraint: Constraint, recurse: bool) -> None:
    """As ATAddCheckConstraint does: children get the same constraint under the same name."""
    rel, cooked = work.relation(altered), cook_of(work.session, constraint)
    add_check_and_recurse(work, rel, constraint.name, cooked, recurse=recurse, merge=False)


Cook = Callable[..., Check]


def cook_of(session: Session, constraint: Constraint) -> Cook:
    """A function that analyzes the CHECK of a statement for each table that gets it."""
    raw = constraint.expr
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
            enforced=constraint.enforced,
        )

    return cooked


def add_check_and_recurse(
    work: WorkQueue,
    rel: Relation,
    name: str | None,
    cooked: Cook,
    *,
    recurse: bool,
    merge: bool,
    recursing: bool = False,
) -> None:
    session = work.session
    if recursing:
        check_target(session, "ADD CONSTRAINT", rel, TABLE + FOREIGN)
    check = cooked(rel, name, local=not recursing)
    added = add_checks(session, rel, [check], merge=merge or recursing)
    if not added:
        return
    name = added[0][0]
    if check.valid and check.enforced:
        work.entry(rel).pending.append(CheckHolds(rel.oid, name, check.expr))
    if check.no_inherit:
        return
    below = children(session, rel.oid)
    if below and not recurse:
        raise PgError("42P16", MUST_BE_ADDED_BELOW)
    for oid in below:
        add_check_and_recurse(work, relation(session, oid), name, cooked, recurse=recurse, merge=merge, recursing=True)
