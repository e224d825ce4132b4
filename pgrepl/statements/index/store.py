"""A new index in the system tables with its constraint (index_create), ADD CONSTRAINT … USING INDEX, and indexes of
partitioned tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from pgrepl.catalog.facts.depend import Dependency, forget_dependencies, record_dependencies, record_dependency
from pgrepl.catalog.facts.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.facts.relation_parts import children, constraint_of_index, index_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.store.tables import pg_attribute, pg_class, pg_index, pg_inherits
from pgrepl.expr import stored
from pgrepl.expr.analyse.sorting import BTREE
from pgrepl.expr.catalog_trees import IndexInfo, index_info, index_infos
from pgrepl.expr.partition_constraint import partition_desc
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.rows.requirements import Unique
from pgrepl.sql.nodes import Constraint
from pgrepl.statements.dependencies import record_collations, record_expression_dependencies
from pgrepl.statements.index.attributes import IndexColumns, IndexSpec, default_opclass_oid
from pgrepl.statements.table.columns import attribute_values, column_of_type, type_storage
from pgrepl.statements.table.constraints import already_exists, set_parent_constraint, store_constraint
from pgrepl.statements.table.heap import insert_class
from pgrepl.statements.table.names import constraint_on, partition_parent, set_has_subclass
from pgrepl.types.builtin import AccessMethod

_NOT_SUCH = "Cannot create a primary key or unique constraint using such an index."


def usable_for_constraint(
    session: Session, rel: Relation, constraint: Constraint
) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """The index, its key columns and its INCLUDE columns, as transformIndexConstraint checks them."""
    name = constraint.using_index
    where = constraint.location

    def refuse(sqlstate: str, message: str, detail: str | None = None) -> NoReturn:
        raise PgError(sqlstate, message, detail=detail, location=where)

    oid = oid_in_schema(session, rel.namespace, name or "")
    if oid is None:
        refuse("42704", f'index "{name}" does not exist')
    if relation(session, oid).kind not in ("i", "I"):
        raise PgError("42809", f'"{name}" is not an index')
    if constraint_of_index(session, oid):
        refuse("55000", f'index "{name}" is already associated with a constraint')
    info = index_info(session, oid)
    if info.table != rel.oid:
        refuse("55000", f'index "{name}" does not belong to table "{rel.name}"')
    if not info.valid:
        refuse("55000", f'index "{name}" is not valid')
    if not info.unique:
        refuse("42809", f'"{name}" is not a unique index', _NOT_SUCH)
    if info.exprs:
        refuse("42809", f'index "{name}" contains expressions', _NOT_SUCH)
    if info.predicate is not None:
        refuse("42809", f'"{name}" is a partial index', _NOT_SUCH)
    if not info.immediate and not constraint.deferrable:
        refuse(
            "42809",
            f'"{name}" is a deferrable index',
            "Cannot create a non-deferrable constraint using a deferrable index.",
        )
    if info.method != BTREE:
        refuse("42809", f'index "{name}" is not a btree')
    columns: list[str] = []
    for place, attnum in enumerate(info.columns):
        attribute = rel.attribute_by_number(attnum)
        assert attribute is not None
        if place < info.key_count and not _default_order(info, place, attribute.type, attribute.collation):
            refuse(
                "42809", f'index "{name}" column number {place + 1} does not have default sorting behavior', _NOT_SUCH
            )
        columns.append(attribute.name)
    return oid, tuple(columns[: info.key_count]), tuple(columns[info.key_count :])


def _default_order(info: IndexInfo, place: int, type_: int, collation: int) -> bool:
    return (
        info.opclasses[place] == default_opclass_oid(type_, info.method)
        and info.collations[place] == collation
        and info.ordering[place] == 0
    )


# --- store ------------------------------------------------------------------------------------------------------------


@frozen
class IndexOrigin:
    """The origin of an index: a statement, or the index of a partitioned table."""

    alter_table: bool = False
    check_rights: bool = True
    parent_index: int = 0
    parent_constraint: int = 0
    unique: list[Unique] | None = None  # collects requirements, if the rows cannot be checked yet


def store_index(
    session: Session,
    rel: Relation,
    spec: IndexSpec,
    columns: IndexColumns,
    method: AccessMethod,
    name: str,
    names: Sequence[str],
    options: list[str],
    origin: IndexOrigin,
    *,
    valid: bool,
) -> tuple[int, int]:
    """Rows of a new index and of its constraint, as index_create makes them; their OIDs."""
    if rel.is_catalog:
        raise PgError("0A000", "user-defined indexes on system catalog tables are not supported")
    if oid_in_schema(session, rel.namespace, name) is not None:
        if spec.if_not_exists:
            session.notice("NOTICE", f'relation "{name}" already exists, skipping', sqlstate="42P07")
            return 0, 0
        raise PgError("42P07", f'relation "{name}" already exists')
    if spec.constraint and constraint_on(session, rel.oid, name):
        raise already_exists(name, rel.name)
    oid = store.new_oid(session)
    insert_class(
        session,
        oid,
        relname=name,
        relnamespace=rel.namespace,
        relowner=rel.owner,
        relam=method.oid,
        relpersistence=rel.persistence,
        relkind="I" if rel.kind == "p" else "i",
        relnatts=len(columns.attnums),
        relispartition=bool(origin.parent_index),
        reloptions=options or None,
    )
    _store_columns(session, rel, oid, columns, names)
    _insert_index(session, rel, oid, spec, columns, valid=valid)
    self = ObjectAddress(PG_CLASS, oid)
    if origin.parent_index:
        store.insert(
            session, pg_inherits, inhrelid=oid, inhparent=origin.parent_index, inhseqno=1, inhdetachpending=False
        )
        set_has_subclass(session, relation(session, origin.parent_index))
    constraint = 0
    if spec.constraint:
        constraint = index_constraint(session, rel, oid, spec, columns.attnums, name, origin.parent_constraint)
    else:
        simple = [ObjectAddress(PG_CLASS, rel.oid, attnum) for attnum in columns.attnums if attnum]
        record_dependencies(session, self, simple or [ObjectAddress(PG_CLASS, rel.oid)], Dependency.AUTO)
    if origin.parent_index:
        tie_to_parent(session, oid, origin.parent_index, rel.oid)
    record_collations(session, self, columns.collations[: len(spec.keys)])
    for expr in (*columns.exprs, *((spec.typed_where,) if spec.typed_where is not None else ())):
        record_expression_dependencies(session, self, expr, rel.oid, self_kind=Dependency.AUTO)
    if not rel.has_index:
        store.update(session, pg_class, {"oid": rel.oid}, relhasindex=True)
    return oid, constraint


def _insert_index(
    session: Session, rel: Relation, oid: int, spec: IndexSpec, columns: IndexColumns, *, valid: bool
) -> None:
    """The row in pg_index (UpdateIndexRelation)."""
    store.insert(
        session,
        pg_index,
        indexrelid=oid,
        indrelid=rel.oid,
        indnatts=len(columns.attnums),
        indnkeyatts=len(spec.keys),
        indisunique=spec.unique,
        indnullsnotdistinct=spec.nulls_not_distinct,
        indisprimary=spec.primary,
        indisexclusion=False,
        indimmediate=not spec.deferrable,
        indisclustered=False,
        indisvalid=valid,
        indisready=True,
        indislive=True,
        indisreplident=False,
        indkey=list(columns.attnums),
        indcollation=list(columns.collations),
        indclass=list(columns.opclasses),
        indoption=list(columns.ordering),
        indexprs=[stored.to_json(expr) for expr in columns.exprs] or None,
        indpred=None if spec.typed_where is None else stored.to_json(spec.typed_where),
    )


def tie_to_parent(session: Session, index: int, parent_index: int, table: int) -> None:
    """An index of a partition is dropped with the parent's index, or with its own table."""
    self = ObjectAddress(PG_CLASS, index)
    record_dependency(session, self, ObjectAddress(PG_CLASS, parent_index), Dependency.PARTITION_PRI)
    record_dependency(session, self, ObjectAddress(PG_CLASS, table), Dependency.PARTITION_SEC)


def _store_columns(session: Session, rel: Relation, oid: int, columns: IndexColumns, names: Sequence[str]) -> None:
    """As ConstructTupleDescriptor does: a column of the index is of the type its operator class stores."""
    values = []
    for place, name in enumerate(names):
        attribute = rel.attribute_by_number(columns.attnums[place])
        type_ = columns.stored_types[place]
        column = column_of_type(name, type_, columns.typmods[place], columns.collations[place])
        if attribute is not None and type_ == attribute.type:
            column = replace(column, storage=attribute.storage, compression=attribute.compression)
            column.ndims = attribute.ndims
        else:
            column.storage = type_storage(type_)
        options = columns.options[place] if place < len(columns.options) else []
        values.append({**attribute_values(oid, place + 1, column), "attoptions": options or None})
    store.insert_many(session, pg_attribute, values)


def index_constraint(
    session: Session, rel: Relation, index: int, spec: IndexSpec, attnums: Sequence[int], name: str, parent: int = 0
) -> int:
    """PRIMARY KEY or UNIQUE over an index, as index_constraint_create makes it."""
    constraint = store_constraint(
        session,
        rel,
        name,
        "p" if spec.primary else "u",
        columns=attnums,
        key_columns=len(spec.keys),
        deferrable=spec.deferrable,
        deferred=spec.initially_deferred,
        parent=parent,
        index=index,
        local=not parent,
        inhcount=1 if parent else 0,
        no_inherit=not parent,
        period=spec.without_overlaps,
    )
    self = ObjectAddress(PG_CONSTRAINT, constraint)
    record_dependency(session, ObjectAddress(PG_CLASS, index), self, Dependency.INTERNAL)
    if parent:
        record_dependency(session, self, ObjectAddress(PG_CONSTRAINT, parent), Dependency.PARTITION_PRI)
        record_dependency(session, self, ObjectAddress(PG_CLASS, rel.oid), Dependency.PARTITION_SEC)
    return constraint


# --- partition --------------------------------------------------------------------------------------------------------


def attach_index(session: Session, index: IndexInfo, parent: IndexInfo, constraint: int) -> None:
    """Attach an index, and its constraint if the parent's has one, to the parent's index."""
    set_parent_index(session, index, parent.oid)
    if constraint:
        own = constraint_of_index(session, index.oid)
        set_parent_constraint(session, own, constraint, index.table)


def set_parent_index(session: Session, index: IndexInfo, parent: int) -> None:
    """Make an index a partition of another one; parent 0 detaches it (IndexSetParentIndex)."""
    self = ObjectAddress(PG_CLASS, index.oid)
    store.update(session, pg_class, {"oid": index.oid}, relispartition=bool(parent))
    if parent:
        store.insert(session, pg_inherits, inhrelid=index.oid, inhparent=parent, inhseqno=1, inhdetachpending=False)
        set_has_subclass(session, relation(session, parent))
        tie_to_parent(session, index.oid, parent, index.table)
        return
    store.delete(session, pg_inherits, inhrelid=index.oid)
    forget_dependencies(session, self, refclassid=PG_CLASS, kind=Dependency.PARTITION_PRI)
    forget_dependencies(session, self, refclassid=PG_CLASS, kind=Dependency.PARTITION_SEC)


def validate_partitioned(session: Session, index: int) -> None:
    """A partitioned index is valid once every partition has its part, as validatePartitionedIndex does."""
    row = index_row(session, index)
    assert row is not None
    parts = [index_row(session, child) for child in children(session, index)]
    valid = sum(part is not None and bool(part.indisvalid) for part in parts)
    if valid != len(partition_desc(session, row.indrelid).oids):
        return
    store.update(session, pg_index, {"indexrelid": index}, indisvalid=True)
    if relation(session, index).is_partition:
        validate_partitioned(session, partition_parent(session, index))


def partition_index(session: Session, partition: int, parent_index: int) -> int:
    """The partition's part of an index, 0 if it has none (index_get_partition)."""
    for info in index_infos(session, partition):
        if info.is_partition and partition_parent(session, info.oid) == parent_index:
            return info.oid
    return 0
