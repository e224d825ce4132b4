"""PARTITION BY: the key of a partitioned table, and the indexes and foreign keys that a partition gets from its
parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgrepl.catalog.facts.depend import Dependency, forget_dependencies, record_dependency
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraints_of
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.store.tables import pg_constraint, pg_partitioned_table
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import analyze_expr
from pgrepl.expr.analyse.casts import comparing_collation
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import scope_of_relation
from pgrepl.expr.catalog_trees import attnum_map, index_oids
from pgrepl.expr.rewrite.inline import is_immutable
from pgrepl.expr.tree import CollateExpr, Const, Expr, Var
from pgrepl.expr.walk import var_attnums
from pgrepl.ground.errors import PgError
from pgrepl.rows.requirements import NotReferenced, Requirement
from pgrepl.sql.nodes import PartitionElem, PartitionSpec
from pgrepl.statements.deletion import drop_objects
from pgrepl.statements.dependencies import record_collations, record_expression_dependencies
from pgrepl.statements.index.attributes import cloned_spec, default_opclass_oid, index_access_method, resolve_opclass
from pgrepl.statements.index.define import define_index
from pgrepl.statements.index.store import partition_index
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, check_type
from pgrepl.statements.table.constraints import set_parent_constraint
from pgrepl.statements.table.foreign import (
    KeyColumns,
    KeySide,
    KeySpec,
    attach_existing_key,
    recurse_referenced,
    recurse_referencing,
    store_key,
)
from pgrepl.statements.table.relations import unplaced
from pgrepl.statements.table.trigger import clone_triggers
from pgrepl.writing.phase3 import require


def clone_foreign_keys(
    session: Session, parent: Relation, partition: Relation, pending: list[Requirement] | None
) -> None:
    """The parent's foreign keys become the partition's, and foreign keys to the parent reach the partition, too, as
    CloneForeignKeyConstraints does. `pending` is None for a partition that is new and has no rows."""
    own = sorted(constraints_of(session, parent.oid, "f"), key=lambda row: row.conname)
    _clone_referenced(session, parent, partition)
    _clone_referencing(session, parent, partition, own, pending)


def referencing_keys(session: Session, relid: int) -> list[pg_constraint]:
    """The foreign keys that reference a table, by OID."""
    rows = store.rows(session, pg_constraint, confrelid=relid, contype="f")
    return sorted(rows, key=lambda row: row.oid)


def _spec(session: Session, rel: Relation, row: pg_constraint, numbers: tuple[int, ...], name: str | None) -> KeySpec:
    names = tuple(rel.attributes[number - 1].name for number in numbers)
    return KeySpec(
        name,
        names,
        row.confupdtype,
        row.confdeltype,
        row.confmatchtype,
        bool(row.condeferrable),
        bool(row.condeferred),
        True,
        True,
        bool(row.conenforced),
        bool(row.conperiod),
    )


def _columns(row: pg_constraint) -> KeyColumns:
    return KeyColumns(tuple(row.confkey or ()), tuple(row.conkey), tuple(row.confdelsetcols or ()))


def _topmost(rows: list[pg_constraint]) -> list[pg_constraint]:
    """The rows whose parent is not among them."""
    oids = {row.oid for row in rows}
    return [row for row in rows if row.conparentid not in oids]


def _clone_referenced(session: Session, parent: Relation, partition: Relation) -> None:
    rows = _topmost(referencing_keys(session, parent.oid))
    if not rows:
        return
    numbers = attnum_map(partition, parent)
    for row in rows:
        rel = relation(session, row.conrelid)
        columns = _columns(row)
        mapped = replace(columns, referenced=tuple(numbers[number] for number in columns.referenced))
        spec = _spec(session, rel, row, columns.referencing, row.conname)
        index = partition_index(session, partition.oid, row.conindid)
        oid, spec = store_key(session, KeySide.REFERENCED, spec, row.conname, rel, partition, index, row.oid, mapped)
        recurse_referenced(session, spec, rel, partition, index, oid, mapped)


def _clone_referencing(
    session: Session,
    parent: Relation,
    partition: Relation,
    rows: list[pg_constraint],
    pending: list[Requirement] | None,
) -> None:
    for row in rows:
        if row.confrelid == partition.oid:
            raise PgError(
                "0A000",
                f'cannot attach table "{partition.name}" as a partition because it is referenced by foreign key '
                f'"{row.conname}"',
            )
    if not rows:
        return
    numbers = attnum_map(partition, parent)
    for row in _topmost(rows):
        columns = _columns(row)
        mapped = replace(columns, referencing=tuple(numbers[number] for number in columns.referencing))
        if attach_existing_key(session, partition, row.oid, mapped, pending):
            continue
        pk_rel = relation(session, row.confrelid)
        spec = replace(_spec(session, partition, row, mapped.referencing, None), valid=bool(row.convalidated))
        oid, spec = store_key(
            session, KeySide.REFERENCING, spec, row.conname, partition, pk_rel, row.conindid, row.oid, mapped
        )
        recurse_referencing(session, spec, partition, pk_rel, row.conindid, oid, mapped, pending)


# --- detaching ----------------------------------------------------------------------------------------------------


def check_not_referenced(session: Session, partition: Relation) -> None:
    """No row of the partition may be referenced by a key to the partitioned table, as ATDetachCheckNoForeignKeyRefs
    checks."""
    for row in referencing_keys(session, partition.oid):
        if row.conparentid:
            require(session, NotReferenced(partition.oid, row.oid))


def detach_foreign_keys(session: Session, partition: Relation) -> None:
    """The partition keeps the foreign keys it got from its parent as its own; keys to the parent lose their rows for
    it."""
    own = constraints_of(session, partition.oid, "f")
    oids = {row.oid for row in own}
    for row in own:
        if not row.conparentid or row.conparentid in oids:
            continue
        set_parent_constraint(session, row.oid, 0, 0)
        pk_rel = relation(session, row.confrelid)
        columns = _columns(row)
        spec = _spec(session, partition, row, columns.referencing, row.conname)
        recurse_referenced(session, spec, partition, pk_rel, row.conindid, row.oid, columns)
    for row in referencing_keys(session, partition.oid):
        if row.conparentid:
            address = ObjectAddress(PG_CONSTRAINT, row.oid)
            set_parent_constraint(session, row.oid, 0, 0)
            forget_dependencies(session, address, refclassid=PG_CONSTRAINT, kind=Dependency.INTERNAL)
            drop_objects(session, [address], cascade=False)


# --- partition --------------------------------------------------------------------------------------------------------


MAX_KEYS = 32


@dataclass(frozen=True, slots=True)
class _Key:
    attnum: int
    expr: Expr | None
    opclass: int
    collation: int


def define_key(session: Session, rel: Relation, spec: PartitionSpec) -> None:
    """PARTITION BY of a new table: check the key and store it (DefineRelation)."""
    if len(spec.params) > MAX_KEYS:
        raise PgError("54011", f"cannot partition using more than {MAX_KEYS} columns")
    if spec.strategy == "list" and len(spec.params) != 1:
        raise PgError("42P17", 'cannot use "list" partition strategy with more than one column')
    exprs = [_analyzed(session, rel, param) for param in spec.params]
    keys = [
        _key(session, rel, spec.strategy, param, expr, number)
        for number, (param, expr) in enumerate(zip(spec.params, exprs, strict=True), 1)
    ]
    _store_key(session, rel, spec.strategy[0], keys)


def _analyzed(session: Session, rel: Relation, param: PartitionElem) -> Expr | None:
    if param.expr is None:
        return None
    with unplaced():
        return analyze_expr(param.expr, scope_of_relation(session, rel), ExprKind.PARTITION_KEY)


def _key(session: Session, rel: Relation, strategy: str, param: PartitionElem, expr: Expr | None, number: int) -> _Key:
    """One column or expression of a partition key, with its operator class and collation (ComputePartitionAttrs)."""
    if param.name is not None:
        attnum, type_, collation = _column(rel, param)
        kept = None
    else:
        assert expr is not None
        type_, collation = expr.type, expr.collation
        attnum, kept = _expression(session, rel, param, expr, number)
    if param.collation:
        collation = comparing_collation(session, param.collation)
    if lookup.is_collatable(type_):
        if not collation:
            raise PgError(
                "42P22",
                "could not determine which collation to use for partition expression",
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
    elif collation:
        raise PgError("42804", f"collations are not supported by type {lookup.type_text(session, type_)}")
    return _Key(attnum, kept, _opclass(session, strategy, param, type_), collation)


def _column(rel: Relation, param: PartitionElem) -> tuple[int, int, int]:
    attribute = rel.attribute(param.name or "")
    if attribute is None:
        if param.name in SYSTEM_COLUMNS:
            raise PgError("42P17", f'cannot use system column "{param.name}" in partition key', location=param.location)
        raise PgError("42703", f'column "{param.name}" named in partition key does not exist', location=param.location)
    if attribute.generated:
        raise _generated(attribute.name, param)
    return attribute.num, attribute.type, attribute.collation


def _generated(name: str, param: PartitionElem) -> PgError:
    return PgError(
        "42P17",
        "cannot use generated column in partition key",
        detail=f'Column "{name}" is a generated column.',
        location=param.location,
    )


def _expression(
    session: Session, rel: Relation, param: PartitionElem, expr: Expr, number: int
) -> tuple[int, Expr | None]:
    check_type(session, str(number), expr.type, expr.collation, partition_key=True)
    while isinstance(expr, CollateExpr):
        assert expr.arg is not None
        expr = expr.arg
    used = var_attnums(expr)
    if 0 in used:
        used = used - {0} | {attribute.num for attribute in rel.columns}
    for attnum in sorted(used):
        if attnum < 0:
            raise PgError("42P17", "partition key expressions cannot contain system column references")
        attribute = rel.attribute_by_number(attnum)
        if attribute is not None and attribute.generated:
            raise _generated(attribute.name, param)
    if isinstance(expr, Var) and expr.attnum > 0:
        return expr.attnum, None
    if not is_immutable(session, expr):
        raise PgError("42P17", "functions in partition key expression must be marked IMMUTABLE")
    if isinstance(expr, Const) or not used:
        raise PgError("42P17", "cannot use constant expression as partition key")
    return 0, expr


def _opclass(session: Session, strategy: str, param: PartitionElem, type_: int) -> int:
    method = index_access_method("hash" if strategy == "hash" else "btree")
    if param.opclass:
        return resolve_opclass(session, param.opclass, type_, method)
    oid = default_opclass_oid(type_, method.oid)
    if not oid:
        text = lookup.type_text(session, type_)
        raise PgError(
            "42704",
            f'data type {text} has no default operator class for access method "{method.name}"',
            hint=f"You must specify a {method.name} operator class or define a default {method.name} operator class "
            "for the data type.",
        )
    return oid


def _store_key(session: Session, rel: Relation, strategy: str, keys: Sequence[_Key]) -> None:
    """Stores the key of a partitioned table (StorePartitionKey)."""
    exprs = [key.expr for key in keys if key.expr is not None]
    store.insert(
        session,
        pg_partitioned_table,
        partrelid=rel.oid,
        partstrat=strategy,
        partnatts=len(keys),
        partdefid=0,
        partattrs=[key.attnum for key in keys],
        partclass=[key.opclass for key in keys],
        partcollation=[key.collation for key in keys],
        partexprs=[stored.to_json(expr) for expr in exprs] or None,
    )
    self = ObjectAddress(PG_CLASS, rel.oid)
    for key in keys:
        if key.attnum:
            record_dependency(session, ObjectAddress(PG_CLASS, rel.oid, key.attnum), self, Dependency.INTERNAL)
    record_collations(session, self, [key.collation for key in keys])
    for expr in exprs:
        record_expression_dependencies(session, self, expr, rel.oid, self_kind=Dependency.INTERNAL, reverse_self=True)


def key_columns(session: Session, relid: int) -> dict[int, bool]:
    """The columns a table is partitioned by, and whether an expression uses them (has_partition_attrs)."""
    row = store.one(session, pg_partitioned_table, partrelid=relid)
    if row is None:
        return {}
    columns = {attnum: False for attnum in row.partattrs if attnum}
    for data in row.partexprs or ():
        for attnum in var_attnums(stored.from_json(data, session)):
            columns.setdefault(attnum, True)
    return columns


def clone_from_parent(session: Session, table: int, parent: int) -> None:
    """A new partition gets an index for each of its parent's, its triggers, and its foreign keys."""
    for index in index_oids(session, parent):
        numbers = attnum_map(relation(session, table), relation(session, parent))
        spec, constraint = cloned_spec(session, index, numbers)
        define_index(session, table, spec, parent_index=index, parent_constraint=constraint, check_rights=False)
    clone_triggers(session, relation(session, parent), relation(session, table))
    clone_foreign_keys(session, relation(session, parent), relation(session, table), None)
