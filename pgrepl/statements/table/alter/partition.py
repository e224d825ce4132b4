"""ATTACH and DETACH PARTITION of tables and indexes, INHERIT and NO INHERIT."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog.facts.publication import excepting_publications, publication_name
from pgrepl.catalog.facts.relation import Relation, find_relation, relation
from pgrepl.catalog.facts.relation_parts import (
    children,
    constraint_of_index,
    constraints_of,
    inheritors,
    not_nulls,
    open_table,
    parents,
)
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, ObjectAddress
from pgrepl.catalog.store.tables import pg_class, pg_constraint, pg_depend, pg_inherits, pg_partitioned_table
from pgrepl.expr import stored
from pgrepl.expr.catalog_trees import IndexInfo, PartitionBound, attnum_map, index_info, index_infos, same_index
from pgrepl.expr.partition_constraint import partition_constraint, partition_desc
from pgrepl.expr.print.deparse import expression_text
from pgrepl.expr.tree import BoolExpr, Var
from pgrepl.ground.errors import PgError
from pgrepl.lake.define.columns import first_to_renumber
from pgrepl.rows.requirements import DefaultPartition, InPartition
from pgrepl.sql.nodes import AlterTableCmd, BoolOp, PartitionBoundSpec, RangeVar
from pgrepl.statements.index.define import ensure_indexes
from pgrepl.statements.index.store import attach_index, partition_index, set_parent_index, validate_partitioned
from pgrepl.statements.table.alter.add import add_check_and_recurse
from pgrepl.statements.table.alter.options import drop_identity
from pgrepl.statements.table.alter.work import FOREIGN, TABLE, AlteredTable, Pass, WorkQueue, check_target
from pgrepl.statements.table.bounds import check_bound, store_bound, transform_bound
from pgrepl.statements.table.columns import set_attribute
from pgrepl.statements.table.constraints import Check, set_parent_constraint, update_constraint
from pgrepl.statements.table.names import child_dependency, has_parent, partition_parent, store_inheritance
from pgrepl.statements.table.not_null import lose_parent
from pgrepl.statements.table.partition import check_not_referenced, clone_foreign_keys, detach_foreign_keys
from pgrepl.statements.table.relations import unplaced_name
from pgrepl.statements.table.trigger import clone_triggers, drop_cloned_triggers, refuse_transition_tables
from pgrepl.types.oids import BOOL
from pgrepl.writing.rows_spark import NewColumnValue


def prepare_inherit(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    check_target(work.session, "INHERIT", rel, TABLE + FOREIGN)
    if rel.is_partition:
        raise PgError("42809", "cannot change inheritance of a partition")
    if rel.kind == "p":
        raise PgError("42809", "cannot change inheritance of partitioned table")
    assert cmd.relation is not None
    work.entry(rel).add(Pass.MISC, partial(_inherit, name=cmd.relation))


def _inherit(work: WorkQueue, altered: AlteredTable, *, name: RangeVar) -> None:
    """ALTER TABLE … INHERIT (ATExecAddInherit)."""
    session, child = work.session, work.relation(altered)
    parent = open_table(session, unplaced_name(name))
    check_target(session, "INHERIT", parent, TABLE + FOREIGN)
    if parent.persistence == "t" and child.persistence != "t":
        raise PgError("42809", f'cannot inherit from temporary relation "{parent.name}"')
    if parent.kind == "p":
        raise PgError("42809", f'cannot inherit from partitioned table "{name.name}"')
    if parent.is_partition:
        raise PgError("42809", "cannot inherit from a partition")
    if parent.oid in inheritors(session, child.oid):
        raise circular(name.name, child.name)
    refuse_transition_tables(session, child, "an inheritance child", "in inheritance hierarchies")
    create_inheritance(session, child, parent, is_partition=False)


def circular(parent: str, child: str) -> PgError:
    return PgError("42P07", "circular inheritance not allowed", detail=f'"{parent}" is already a child of "{child}".')


def create_inheritance(session: Session, child: Relation, parent: Relation, *, is_partition: bool) -> None:
    """Makes a table the child of another, once their columns agree (CreateInheritance)."""
    rows = store.rows(session, pg_inherits, inhrelid=child.oid)
    if any(row.inhparent == parent.oid for row in rows):
        raise PgError("42P07", f'relation "{parent.name}" would be inherited from more than once')
    _merge_columns(session, child, parent, is_partition=is_partition)
    _merge_checks(session, child, parent)
    _merge_not_nulls(session, child, parent)
    number = max((row.inhseqno for row in rows), default=0) + 1
    store_inheritance(session, child.oid, parent, number, is_partition=parent.kind == "p")


def _merge_columns(session: Session, child: Relation, parent: Relation, *, is_partition: bool) -> None:
    """Ties a child's columns to its parent's, which they must match (MergeAttributesIntoExisting)."""
    named = not_nulls(session, parent.oid)
    for wanted in parent.columns:
        name = wanted.name
        own = child.attribute(name)
        if own is None:
            raise PgError("42804", f'child table is missing column "{name}"')
        if (wanted.type, wanted.typmod) != (own.type, own.typmod):
            raise PgError("42804", f'child table "{child.name}" has different type for column "{name}"')
        if wanted.collation != own.collation:
            raise PgError("42P21", f'child table "{child.name}" has different collation for column "{name}"')
        row = named.get(wanted.num)
        if wanted.notnull and not own.notnull and not (row is not None and row.connoinherit):
            table = f'table "{child.name}"' if session.settings.release >= 18 else "table"
            raise PgError("42804", f'column "{name}" in child {table} must be marked NOT NULL')
        if wanted.generated and not own.generated:
            raise PgError("42804", f'column "{name}" in child table must be a generated column')
        if own.generated and not wanted.generated:
            raise PgError("42804", f'column "{name}" in child table must not be a generated column')
        if own.generated != wanted.generated:
            kinds = {"s": "STORED", "v": "VIRTUAL"}
            raise PgError(
                "42804",
                f'column "{name}" inherits from generated column of different kind',
                detail=f"Parent column is {kinds[wanted.generated]}, child column is {kinds[own.generated]}.",
            )
        values: dict[str, object] = {"attinhcount": own.inhcount + 1}
        if is_partition:
            values["attidentity"] = wanted.identity
        if parent.kind == "p":
            values["attislocal"] = False
        set_attribute(session, child.oid, own.num, **values)


def _merge_checks(session: Session, child: Relation, parent: Relation) -> None:
    """Ties a child's CHECKs to its parent's, which they must match (MergeConstraintsIntoExisting)."""
    own = {row.conname: row for row in constraints_of(session, child.oid, "c")}
    for wanted in constraints_of(session, parent.oid, "c"):
        if wanted.connoinherit:
            continue
        name = wanted.conname
        row = own.get(name)
        if row is None:
            raise PgError("42804", f'child table is missing constraint "{name}"')
        if _text(session, row, child) != _text(session, wanted, parent):
            raise PgError("42804", f'child table "{child.name}" has different definition for check constraint "{name}"')
        if row.connoinherit:
            raise PgError(
                "42P17", f'constraint "{name}" conflicts with non-inherited constraint on child table "{child.name}"'
            )
        if wanted.convalidated and row.conenforced and not row.convalidated:
            raise PgError(
                "42P17", f'constraint "{name}" conflicts with NOT VALID constraint on child table "{child.name}"'
            )
        if wanted.conenforced and not row.conenforced:
            raise PgError(
                "42P17", f'constraint "{name}" conflicts with NOT ENFORCED constraint on child table "{child.name}"'
            )
        _tie(session, row, parent)


def _merge_not_nulls(session: Session, child: Relation, parent: Relation) -> None:
    """Ties a child's NOT NULL constraints to its parent's, by their columns."""
    own = not_nulls(session, child.oid)
    for number, wanted in not_nulls(session, parent.oid).items():
        attribute = child.attribute(parent.attributes[number - 1].name)
        row = None if attribute is None else own.get(attribute.num)
        if wanted.connoinherit or row is None:
            continue
        what = "non-inherited" if row.connoinherit else "NOT VALID"
        if row.connoinherit or (wanted.convalidated and not row.convalidated):
            text = f'constraint "{row.conname}" conflicts with {what} constraint on child table "{child.name}"'
            raise PgError("42P17", text)
        _tie(session, row, parent)


def _tie(session: Session, row: pg_constraint, parent: Relation) -> None:
    local = {"conislocal": False} if parent.kind == "p" else {}
    update_constraint(session, row.oid, coninhcount=row.coninhcount + 1, **local)


def _text(session: Session, row: pg_constraint, rel: Relation) -> str:
    """Two CHECKs are the same if they print the same, whatever the columns' numbers."""
    return expression_text(session, stored.from_json(row.conbin, session), rel)


# --- NO INHERIT ---------------------------------------------------------------------------------------------------


def inherit_no_more(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    session, child = work.session, work.relation(altered)
    if child.is_partition:
        raise PgError("42809", "cannot change inheritance of a partition")
    assert cmd.relation is not None
    parent = open_table(session, unplaced_name(cmd.relation))
    remove_inheritance(session, child, parent)


def remove_inheritance(session: Session, child: Relation, parent: Relation) -> None:
    """As RemoveInheritance does: what the child had from this parent becomes its own."""
    is_partition = parent.kind == "p"
    if not store.delete(session, pg_inherits, inhrelid=child.oid, inhparent=parent.oid):
        if is_partition:
            text = f'relation "{child.name}" is not a partition of relation "{parent.name}"'
        else:
            text = f'relation "{parent.name}" is not a parent of relation "{child.name}"'
        raise PgError("42P01", text)
    names = {attribute.name for attribute in parent.columns}
    for own in child.columns:
        if own.inhcount > 0 and own.name in names:
            values: dict[str, object] = {"attinhcount": own.inhcount - 1}
            if own.inhcount == 1:
                values["attislocal"] = True
            set_attribute(session, child.oid, own.num, **values)
    names = {row.conname for row in constraints_of(session, parent.oid, "c")}
    for row in constraints_of(session, child.oid, "c"):
        if row.conname not in names:
            continue
        if row.coninhcount <= 0:
            raise PgError("XX000", f'relation {child.oid} has non-inherited constraint "{row.conname}"')
        changed: dict[str, object] = {"coninhcount": row.coninhcount - 1}
        if row.coninhcount == 1:
            changed["conislocal"] = True
        update_constraint(session, row.oid, **changed)
    above = not_nulls(session, parent.oid)
    columns = {parent.attributes[number - 1].name for number, row in above.items() if not row.connoinherit}
    for number, row in not_nulls(session, child.oid).items():
        if row.coninhcount > 0 and child.attributes[number - 1].name in columns:
            lose_parent(session, row)
    _forget_parent(session, child, parent, is_partition=is_partition)


def _forget_parent(session: Session, child: Relation, parent: Relation, *, is_partition: bool) -> None:
    self, other = ObjectAddress(PG_CLASS, child.oid), ObjectAddress(PG_CLASS, parent.oid)
    store.delete(
        session,
        pg_depend,
        datid=session.database_oid,
        classid=self.classid,
        objid=self.objid,
        objsubid=0,
        refclassid=other.classid,
        refobjid=other.objid,
        refobjsubid=0,
        deptype=child_dependency(is_partition).value,
    )


# --- ATTACH -------------------------------------------------------------------------------------------------------


def attach(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    session, rel = work.session, work.relation(altered)
    assert cmd.relation is not None
    bound = _bound(session, rel, cmd.bound)
    if rel.kind == "I":
        _attach_index(session, rel, cmd.relation)
    else:
        assert bound is not None
        _attach_table(work, rel, cmd.relation, bound)


def _bound(session: Session, rel: Relation, spec: PartitionBoundSpec | None) -> PartitionBound | None:
    """The bound that ATTACH PARTITION gives (transformPartitionCmd)."""
    if rel.kind == "p":
        return None if spec is None else transform_bound(session, rel, spec, rel)
    if rel.kind == "I":
        if spec is not None:
            raise PgError("42P17", f'"{rel.name}" is not a partitioned table')
        return None
    what = "index" if rel.kind == "i" else "table"
    raise PgError("42P17", f'{what} "{rel.name}" is not partitioned')


def _attach_table(work: WorkQueue, rel: Relation, name: RangeVar, bound: PartitionBound) -> None:
    """ATTACH PARTITION of a table (ATExecAttachPartition)."""
    session = work.session
    child = open_table(session, unplaced_name(name))
    _refuse_partition(session, rel, child)
    refuse_transition_tables(session, child, "a partition", "on partitions")
    default = check_bound(session, child.name, rel, bound)
    create_inheritance(session, child, rel, is_partition=True)
    store_bound(session, child.oid, rel, bound)
    ensure_indexes(session, rel, relation(session, child.oid))
    clone_triggers(session, rel, relation(session, child.oid))
    _renumber_columns(work, child)
    pending = work.entry(child).pending
    clone_foreign_keys(session, rel, relation(session, child.oid), pending)
    pending.append(InPartition(child.oid, rel.oid, bound))
    if default:
        work.entry(relation(session, default)).pending.append(DefaultPartition(default, rel.oid, bound))


def _renumber_columns(work: WorkQueue, child: Relation) -> None:
    """Have the columns of new leaves get the ids of those in other leaves; rows that are there are written anew."""
    session = work.session
    for leaf in (relation(session, oid) for oid in inheritors(session, child.oid)):
        attnum = first_to_renumber(session, leaf.oid)
        if attnum is not None:
            column = leaf.attributes[attnum - 1]
            value = Var(column.type, typmod=column.typmod, collation=column.collation, attnum=attnum)
            work.entry(leaf).new_values.append(NewColumnValue(leaf.oid, attnum, value, renumbers=True))


def _refuse_partition(session: Session, rel: Relation, child: Relation) -> None:
    check_target(session, "ATTACH PARTITION", child, TABLE + FOREIGN)
    if child.is_partition:
        raise PgError("42809", f'"{child.name}" is already a partition')
    excepting = [f'"{publication_name(session, oid)}"' for oid in excepting_publications(session, child)]
    if excepting:
        many = "s" if len(excepting) > 1 else ""
        raise PgError(
            "55000",
            f'cannot attach table "{child.name}" as partition because it is referenced in '
            f"publication{many} {', '.join(excepting)} EXCEPT clause",
            detail="The publication EXCEPT clause cannot contain tables that are partitions.",
            hint="Change the publication's EXCEPT clause using ALTER PUBLICATION ... SET ALL TABLES.",
        )
    if parents(session, child.oid):
        raise PgError("42809", "cannot attach inheritance child as partition")
    if child.kind == "r" and children(session, child.oid):
        raise PgError("42809", "cannot attach inheritance parent as partition")
    if rel.oid in inheritors(session, child.oid):
        raise circular(rel.name, child.name)
    if rel.persistence != "t" and child.persistence == "t":
        raise PgError("42809", f'cannot attach a temporary relation as partition of permanent relation "{rel.name}"')
    if rel.persistence == "t" and child.persistence != "t":
        raise PgError("42809", f'cannot attach a permanent relation as partition of temporary relation "{rel.name}"')
    for attribute in child.columns:
        if attribute.identity:
            raise PgError(
                "55000",
                f'table "{child.name}" being attached contains an identity column "{attribute.name}"',
                detail="The new partition may not contain an identity column.",
            )
        if rel.attribute(attribute.name) is None:
            raise PgError(
                "42804",
                f'table "{child.name}" contains column "{attribute.name}" not found in parent "{rel.name}"',
                detail="The new partition may contain only the columns present in parent.",
            )


# --- ALTER INDEX … ATTACH PARTITION -------------------------------------------------------------------------------


def _attach_index(session: Session, parent: Relation, name: RangeVar) -> None:
    """ATTACH PARTITION of an index (ATExecAttachPartitionIdx)."""
    rel = find_relation(session, unplaced_name(name))
    if rel.kind not in ("i", "I"):
        raise PgError("42P17", f'"{name.name}" is not an index')
    index, whole = index_info(session, rel.oid), index_info(session, parent.oid)
    if index.is_partition and partition_parent(session, index.oid) == whole.oid:
        if not whole.valid:
            validate_partitioned(session, whole.oid)
        return
    _refuse_index(session, index, whole)
    attach_index(session, index, whole, constraint_of_index(session, whole.oid))
    validate_partitioned(session, whole.oid)


def _refuse_index(session: Session, index: IndexInfo, whole: IndexInfo) -> None:
    table, parent = relation(session, index.table), relation(session, whole.table)

    def refuse(sqlstate: str, detail: str) -> PgError:
        return PgError(
            sqlstate, f'cannot attach index "{index.name}" as a partition of index "{whole.name}"', detail=detail
        )

    if partition_index(session, table.oid, whole.oid):
        raise refuse("55000", f'Another index is already attached for partition "{table.name}".')
    if index.is_partition:
        raise refuse("55000", f'Index "{index.name}" is already attached to another index.')
    if table.oid not in partition_desc(session, parent.oid).oids:
        raise refuse("55000", f'Index "{index.name}" is not an index on any partition of table "{parent.name}".')
    if not same_index(index, whole, attnum_map(table, parent)):
        raise refuse("42P17", "The index definitions do not match.")
    if constraint_of_index(session, whole.oid) and not constraint_of_index(session, index.oid):
        raise refuse(
            "42P17",
            f'The index "{whole.name}" belongs to a constraint in table "{parent.name}" but no constraint exists for '
            f'index "{index.name}".',
        )


# --- DETACH -------------------------------------------------------------------------------------------------------


def detach_partition(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    session, rel = work.session, work.relation(altered)
    _bound(session, rel, None)
    default = partition_desc(session, rel.oid).default
    if default and cmd.concurrently:
        raise PgError("55000", "cannot detach partitions concurrently when a default partition exists")
    assert cmd.relation is not None
    child = open_table(session, unplaced_name(cmd.relation))
    if cmd.concurrently and parents(session, child.oid) == [rel.oid] and child.bound is not None:
        _keep_bound_as_check(work, rel, child)
    remove_inheritance(session, relation(session, child.oid), rel)
    check_not_referenced(session, child)
    _finish(session, rel, relation(session, child.oid), default)


def _keep_bound_as_check(work: WorkQueue, rel: Relation, child: Relation) -> None:
    """DETACH … CONCURRENTLY replaces the bound with an equal CHECK (DetachAddConstraintIfNeeded)."""
    session = work.session
    if partition_desc(session, rel.oid).key.strategy == "h":
        return
    parts = partition_constraint(session, child.oid)
    if not parts:
        return
    expr = parts[0] if len(parts) == 1 else BoolExpr(BOOL, op=BoolOp.AND, args=tuple(parts))

    def cooked(target: Relation, name: str | None, *, local: bool) -> Check:
        return Check(name, expr, local=local, inhcount=0 if local else 1)

    add_check_and_recurse(work, child, None, cooked, recurse=True, merge=True)


def detach(session: Session, rel: Relation, child: Relation) -> None:
    """Make a partition a table of its own, even if foreign keys reference its rows."""
    default = partition_desc(session, rel.oid).default
    remove_inheritance(session, child, rel)
    _finish(session, rel, relation(session, child.oid), default)


def _finish(session: Session, rel: Relation, child: Relation, default: int) -> None:
    """What is left when a partition has been detached (DetachPartitionFinalize)."""
    drop_cloned_triggers(session, child)
    detach_foreign_keys(session, child)
    for info in index_infos(session, child.oid):
        if not has_parent(session, info.oid):
            continue
        parent_index = partition_parent(session, info.oid)
        set_parent_index(session, info, 0)
        own = constraint_of_index(session, info.oid)
        if own and constraint_of_index(session, parent_index):
            set_parent_constraint(session, own, 0, 0)
    store.update(session, pg_class, {"oid": child.oid}, relpartbound=None, relispartition=False)
    for attribute in child.columns:
        if attribute.identity:
            drop_identity(session, relation(session, child.oid), attribute.name, recursing=True)
    if child.oid == default:
        store.update(session, pg_partitioned_table, {"partrelid": rel.oid}, partdefid=0)


def finish_detaching(work: WorkQueue, altered: AlteredTable, cmd: AlterTableCmd, recurse: bool) -> None:
    """No detach is ever left half done, so there is none to finish."""
    session, rel = work.session, work.relation(altered)
    assert cmd.relation is not None
    child = open_table(session, unplaced_name(cmd.relation))
    if store.one(session, pg_inherits, inhrelid=child.oid, inhparent=rel.oid) is None:
        if rel.kind == "p":
            raise PgError("42P01", f'relation "{child.name}" is not a partition of relation "{rel.name}"')
        raise PgError("42P01", f'relation "{rel.name}" is not a parent of relation "{child.name}"')
    raise PgError(
        "55000", f'cannot complete detaching partition "{child.name}"', detail="There's no pending concurrent detach."
    )
