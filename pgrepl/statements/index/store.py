"""A new index in the system tables, with its constraint, as index_create makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.depend import Dependency, record_dependencies, record_dependency
from pgrepl.catalog.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attribute, pg_class, pg_index, pg_inherits
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.frozen import frozen
from pgrepl.rows.requirements import Unique
from pgrepl.statements.dependencies import record_collations, record_expression_dependencies
from pgrepl.statements.index.attributes import IndexColumns
from pgrepl.statements.index.spec import IndexSpec
from pgrepl.statements.table.columns import attribute_values, column_of_type, type_storage
from pgrepl.statements.table.constraints import already_exists, store_constraint
from pgrepl.statements.table.heap import insert_class
from pgrepl.statements.table.inherit import set_has_subclass
from pgrepl.statements.table.names import constraint_on
from pgrepl.types.builtin import AccessMethod


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
    session: Session,
    rel: Relation,
    index: int,
    spec: IndexSpec,
    attnums: Sequence[int],
    name: str,
    parent: int = 0,
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
    )
    self = ObjectAddress(PG_CONSTRAINT, constraint)
    record_dependency(session, ObjectAddress(PG_CLASS, index), self, Dependency.INTERNAL)
    if parent:
        record_dependency(session, self, ObjectAddress(PG_CONSTRAINT, parent), Dependency.PARTITION_PRI)
        record_dependency(session, self, ObjectAddress(PG_CLASS, rel.oid), Dependency.PARTITION_SEC)
    return constraint
