"""Making an index: PostgreSQL's DefineIndex and index_create, one index for each partition included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.catalog import store
from pgrepl.catalog.acl import Kind, check_privilege
from pgrepl.catalog.classes import PG_CLASS, PG_CONSTRAINT, ObjectAddress
from pgrepl.catalog.depend import Dependency, record_dependencies, record_dependency
from pgrepl.catalog.indexes import primary_key
from pgrepl.catalog.namespace import schema_row
from pgrepl.catalog.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.relkind import not_supported
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attribute, pg_class, pg_index, pg_inherits
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.expr.opclasses import equality_operator
from pgrepl.expr.partition import partition_key
from pgrepl.expr.partition_order import partition_desc
from pgrepl.expr.walk import contains_mutable_functions, var_attnums
from pgrepl.frozen import frozen
from pgrepl.rows.requirements import Indexed, Unique
from pgrepl.statements.index.attributes import IndexColumns, index_columns
from pgrepl.statements.index.opclass import ABILITIES, index_access_method
from pgrepl.statements.index.spec import IndexKey, IndexSpec
from pgrepl.statements.needs import record_expression_needs
from pgrepl.statements.table import storage
from pgrepl.statements.table.columns import attribute_values, column_of_type, type_storage
from pgrepl.statements.table.constraints import already_exists, store_constraint
from pgrepl.statements.table.inherit import set_has_subclass
from pgrepl.statements.table.names import choose_column_names, choose_relation_name, constraint_on, name_addition
from pgrepl.types.builtin import AccessMethod
from pgrepl.writing.rewrite.phase3 import require

MAX_INDEX_COLUMNS = 32


@frozen
class Origin:
    """Where an index comes from: by itself, or as the part of a partitioned table's index."""

    alter_table: bool = False
    check_rights: bool = True
    parent_index: int = 0
    parent_constraint: int = 0
    unique: list[Unique] | None = None  # where to note what rows must satisfy, if they cannot be asked yet


def define_index(
    session: Session,
    table: int,
    spec: IndexSpec,
    *,
    alter_table: bool = False,
    check_rights: bool = True,
    parent_index: int = 0,
    parent_constraint: int = 0,
    unique: list[Unique] | None = None,
) -> int:
    """Make the index and say its OID; 0 if IF NOT EXISTS found one of that name."""
    rel = relation(session, table)
    origin = Origin(alter_table, check_rights, parent_index, parent_constraint, unique)
    partitioned = rel.kind == "p"
    _refuse_table(session, rel, spec, origin)
    names = choose_column_names([_wanted_name(key) for key in (*spec.keys, *spec.including)])
    name = spec.name or _choose_name(session, rel, spec, names)
    method = _method(session, spec)
    if spec.typed_where is not None and contains_mutable_functions(spec.typed_where):
        raise PgError("42P17", "functions in index predicate must be marked IMMUTABLE")
    options = storage.transform(None, spec.options)
    storage.validate(options, method.name)
    columns = index_columns(session, rel, spec, method)
    if spec.primary:
        check_primary_key(session, rel, spec, columns, origin.alter_table)
    if partitioned and spec.unique:
        _must_include_partition_key(session, rel, spec, columns, method)
    if any(attnum < 0 for attnum in columns.attnums) or any(attnum < 0 for attnum in _used(spec, columns)):
        raise PgError("0A000", "index creation on system columns is not supported")
    valid = not (partitioned and not spec.recurse and partition_desc(session, table).oids)
    oid, constraint = _store(session, rel, spec, columns, method, name, names, options, origin, valid=valid)
    if not oid:
        return 0
    if spec.comment is not None:
        from pgrepl.statements.table.like import put_comment

        put_comment(session, ObjectAddress(PG_CLASS, oid), spec.comment)
    if not partitioned:
        if spec.unique and unique is not None:
            unique.append(Unique(table, oid))
        elif spec.unique:
            require(session, Unique(table, oid))
        elif spec.typed_where is not None or columns.exprs:
            require(session, Indexed(table, oid))
    elif spec.recurse:
        from pgrepl.statements.index.partition import index_partitions

        index_partitions(session, rel, oid, constraint, origin)
    return oid


def _refuse_table(session: Session, rel: Relation, spec: IndexSpec, origin: Origin) -> None:
    if not spec.keys:
        raise PgError("42P17", "must specify at least one column")
    if len(spec.keys) + len(spec.including) > MAX_INDEX_COLUMNS:
        raise PgError("54011", f"cannot use more than {MAX_INDEX_COLUMNS} columns in an index")
    if rel.kind in "iI":
        raise PgError("42809", f'cannot open relation "{rel.name}"', detail=not_supported(rel.kind))
    if rel.kind not in ("r", "m", "p"):
        raise PgError("42809", f'cannot create index on relation "{rel.name}"', detail=not_supported(rel.kind))
    if rel.kind == "p" and spec.concurrently:
        raise PgError("0A000", f'cannot create index on partitioned table "{rel.name}" concurrently')
    if origin.check_rights:
        row = schema_row(session, rel.namespace)
        assert row is not None
        check_privilege(session, Kind.SCHEMA, row, "CREATE", rel.schema)
    from pgrepl.statements.table.create import check_tablespace

    check_tablespace(spec.tablespace, partitioned=rel.kind == "p")


def _wanted_name(key: IndexKey) -> str:
    return key.column_name or key.name or "expr"


def _choose_name(session: Session, rel: Relation, spec: IndexSpec, names: Sequence[str]) -> str:
    """As ChooseIndexName does."""
    if spec.primary:
        return choose_relation_name(session, rel.name, None, "pkey", rel.namespace, constraint=True)
    label = "key" if spec.constraint else "idx"
    return choose_relation_name(
        session, rel.name, name_addition(names), label, rel.namespace, constraint=spec.constraint
    )


def _method(session: Session, spec: IndexSpec) -> AccessMethod:
    name = spec.method
    if name == "rtree":
        session.notice("NOTICE", 'substituting access method "gist" for obsolete method "rtree"')
        name = "gist"
    method = index_access_method(name)
    can = ABILITIES[method.name]
    if spec.unique and not can.unique:
        raise PgError("0A000", f'access method "{name}" does not support unique indexes')
    if spec.including and not can.include:
        raise PgError("0A000", f'access method "{name}" does not support included columns')
    if len(spec.keys) > 1 and not can.multicolumn:
        raise PgError("0A000", f'access method "{name}" does not support multicolumn indexes')
    return method


def check_primary_key(
    session: Session, rel: Relation, spec: IndexSpec, columns: IndexColumns, alter_table: bool
) -> None:
    """As index_check_primary_key does."""
    if (alter_table or rel.is_partition) and primary_key(session, rel) is not None:
        raise PgError("42P16", f'multiple primary keys for table "{rel.name}" are not allowed')
    if spec.nulls_not_distinct:
        raise PgError("42P16", "primary keys cannot use NULLS NOT DISTINCT indexes")
    for attnum in columns.attnums[: len(spec.keys)]:
        if attnum == 0:
            raise PgError("0A000", "primary keys cannot be expressions")
        attribute = rel.attribute_by_number(attnum)
        if attribute is not None and not attribute.notnull:
            raise PgError("42P16", f'primary key column "{attribute.name}" is not marked NOT NULL')


def _must_include_partition_key(
    session: Session, rel: Relation, spec: IndexSpec, columns: IndexColumns, method: AccessMethod
) -> None:
    """Rows that must differ stand in one partition only if they agree in the partition key."""
    key = partition_key(session, rel.oid)
    assert key is not None
    kind = "PRIMARY KEY" if spec.primary else "UNIQUE"
    count = len(spec.keys)
    for column in key.columns:
        if method.name != "btree":
            raise PgError("0A000", f'cannot match partition key to an index using access method "{method.name}"')
        if not column.attnum:
            raise PgError(
                "0A000",
                f"unsupported {kind} constraint with partition key definition",
                detail=f"{kind} constraints cannot be used when partition keys include expressions.",
            )
        wanted = (column.attnum, column.collation, equality_operator(column.opclass))
        present = zip(columns.attnums[:count], columns.collations, columns.opclasses, strict=False)
        if not any((a, c, equality_operator(o)) == wanted for a, c, o in present):
            attribute = rel.attribute_by_number(column.attnum)
            assert attribute is not None
            raise PgError(
                "0A000",
                "unique constraint on partitioned table must include all partitioning columns",
                detail=f'{kind} constraint on table "{rel.name}" lacks column "{attribute.name}" which is part of the '
                "partition key.",
            )


def _used(spec: IndexSpec, columns: IndexColumns) -> frozenset[int]:
    exprs = [*columns.exprs, *([spec.typed_where] if spec.typed_where is not None else [])]
    return frozenset(attnum for expr in exprs for attnum in var_attnums(expr))


def _store(
    session: Session,
    rel: Relation,
    spec: IndexSpec,
    columns: IndexColumns,
    method: AccessMethod,
    name: str,
    names: Sequence[str],
    options: list[str],
    origin: Origin,
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
    _store_class(session, rel, oid, name, method.oid, options, origin, len(columns.attnums))
    _store_columns(session, rel, oid, columns, names)
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
    for expr in (*columns.exprs, *((spec.typed_where,) if spec.typed_where is not None else ())):
        record_expression_needs(session, self, expr, rel.oid, self_kind=Dependency.AUTO)
    if not rel.has_index:
        store.update(session, pg_class, {"oid": rel.oid}, relhasindex=True)
    return oid, constraint


def tie_to_parent(session: Session, index: int, parent_index: int, table: int) -> None:
    """An index of a partition goes when the parent's index goes, or its own table."""
    self = ObjectAddress(PG_CLASS, index)
    record_dependency(session, self, ObjectAddress(PG_CLASS, parent_index), Dependency.PARTITION_PRI)
    record_dependency(session, self, ObjectAddress(PG_CLASS, table), Dependency.PARTITION_SEC)


def _store_class(
    session: Session,
    rel: Relation,
    oid: int,
    name: str,
    method: int,
    options: list[str],
    origin: Origin,
    count: int,
) -> None:
    store.insert(
        session,
        pg_class,
        datid=session.database.oid,
        oid=oid,
        relname=name,
        relnamespace=rel.namespace,
        reltype=0,
        relowner=rel.owner,
        relam=method,
        relhasindex=False,
        relpersistence=rel.persistence,
        relkind="I" if rel.kind == "p" else "i",
        relnatts=count,
        relchecks=0,
        relhassubclass=False,
        relrowsecurity=False,
        relforcerowsecurity=False,
        relreplident="n",
        relispartition=bool(origin.parent_index),
        relacl=None,
        reloptions=options or None,
        relpartbound=None,
    )


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
