"""PARTITION BY: the key of a partitioned table; and the indexes and foreign keys that a partition gets from its
parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CLASS, ObjectAddress
from pgrepl.catalog.depend import Dependency, record_dependency
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_partitioned_table
from pgrepl.errors import PgError
from pgrepl.expr import stored, typefacts
from pgrepl.expr.analyze import analyze_expr
from pgrepl.expr.attmap import attnum_map
from pgrepl.expr.inline import is_immutable
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import scope_of_relation
from pgrepl.expr.tree import CollateExpr, Const, Expr, Var
from pgrepl.expr.typenames import comparing_collation
from pgrepl.expr.walk import var_attnums
from pgrepl.sql.nodes import PartitionElem, PartitionSpec
from pgrepl.statements.dependencies import record_collations, record_expression_dependencies
from pgrepl.statements.index.opclass import default_opclass_oid, index_access_method, resolve_opclass
from pgrepl.statements.table.columns import SYSTEM_COLUMNS, check_type
from pgrepl.statements.table.position import unplaced

MAX_KEYS = 32


@dataclass(frozen=True, slots=True)
class _Key:
    attnum: int
    expr: Expr | None
    opclass: int
    collation: int


def define_key(session: Session, rel: Relation, spec: PartitionSpec) -> None:
    """As the end of DefineRelation does for a partitioned table."""
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
    """As ComputePartitionAttrs does for one column or expression."""
    if param.name is not None:
        attnum, type_, collation = _column(rel, param)
        kept = None
    else:
        assert expr is not None
        type_, collation = expr.type, expr.collation
        attnum, kept = _expression(session, rel, param, expr, number)
    if param.collation:
        collation = comparing_collation(session, param.collation)
    if typefacts.is_collatable(type_):
        if not collation:
            raise PgError(
                "42P22",
                "could not determine which collation to use for partition expression",
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
    elif collation:
        raise PgError("42804", f"collations are not supported by type {typefacts.type_text(session, type_)}")
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
        text = typefacts.type_text(session, type_)
        raise PgError(
            "42704",
            f'data type {text} has no default operator class for access method "{method.name}"',
            hint=f"You must specify a {method.name} operator class or define a default {method.name} operator class "
            "for the data type.",
        )
    return oid


def _store_key(session: Session, rel: Relation, strategy: str, keys: Sequence[_Key]) -> None:
    """As StorePartitionKey does."""
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
    found = {attnum: False for attnum in row.partattrs if attnum}
    for data in row.partexprs or ():
        for attnum in var_attnums(stored.from_json(data, session)):
            found.setdefault(attnum, True)
    return found


def clone_from_parent(session: Session, table: int, parent: int) -> None:
    """A new partition gets an index for each of its parent's, its triggers, and its foreign keys."""
    from pgrepl.expr.index_info import index_oids
    from pgrepl.statements.index.clone import cloned_spec
    from pgrepl.statements.index.define import define_index
    from pgrepl.statements.table.foreign_partitions import clone_foreign_keys
    from pgrepl.statements.trigger.partitions import clone_triggers

    for index in index_oids(session, parent):
        numbers = attnum_map(relation(session, table), relation(session, parent))
        spec, constraint = cloned_spec(session, index, numbers)
        define_index(session, table, spec, parent_index=index, parent_constraint=constraint, check_rights=False)
    clone_triggers(session, relation(session, parent), relation(session, table))
    clone_foreign_keys(session, relation(session, parent), relation(session, table), None)
