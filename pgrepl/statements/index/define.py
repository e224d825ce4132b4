"""Making an index, one for each partition included (DefineIndex, index_create), and whose rights its functions run
with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pgrepl.catalog.facts.namespace import check_create
from pgrepl.catalog.facts.objects import put_comment
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_of_index, constraint_row, not_supported, primary_key
from pgrepl.catalog.session.context import RESTRICTED_OPERATION
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, ObjectAddress
from pgrepl.catalog.store.tables import pg_index
from pgrepl.expr.analyse.sorting import equality_operator
from pgrepl.expr.catalog_trees import IndexInfo, attnum_map, index_info, index_infos, partition_key, same_index
from pgrepl.expr.partition_constraint import partition_desc
from pgrepl.expr.rewrite.inline import is_immutable
from pgrepl.expr.walk import var_attnums
from pgrepl.ground.errors import PgError
from pgrepl.rows.requirements import Indexed, Unique
from pgrepl.statements.index.attributes import (
    ABILITIES,
    IndexColumns,
    IndexSpec,
    cloned_spec,
    index_access_method,
    index_columns,
)
from pgrepl.statements.index.store import IndexOrigin, attach_index, store_index
from pgrepl.statements.table import storage
from pgrepl.statements.table.names import (
    check_tablespace,
    choose_column_names,
    choose_relation_name,
    has_parent,
    name_addition,
)
from pgrepl.types.builtin import AccessMethod
from pgrepl.writing.phase3 import require

_SAFE_SEARCH_PATH = "pg_catalog, pg_temp"  # GUC_SAFE_SEARCH_PATH


@contextmanager
def maintaining(session: Session, owner: int) -> Iterator[None]:
    """Work with the rights of a relation's owner and a safe search path (RestrictSearchPath)."""
    settings = session.settings
    before = settings.begin()
    settings.set("search_path", _SAFE_SEARCH_PATH, local=True)
    try:
        with session.acting_as(owner, RESTRICTED_OPERATION):
            yield
    finally:
        settings.restore(before)


# --- define -----------------------------------------------------------------------------------------------------------


MAX_INDEX_COLUMNS = 32


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
    """Create the index; returns its OID, or 0 if IF NOT EXISTS found one of that name."""
    rel = relation(session, table)
    origin = IndexOrigin(alter_table, check_rights, parent_index, parent_constraint, unique)
    partitioned = rel.kind == "p"
    _refuse_table(session, rel, spec, origin)
    names = choose_column_names([key.column_name or key.name or "expr" for key in (*spec.keys, *spec.including)])
    name = spec.name or _choose_name(session, rel, spec, names)
    method = _method(session, spec)
    if spec.typed_where is not None and not is_immutable(session, spec.typed_where):
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
    virtual = {column.num for column in rel.columns if column.generated == "v"}
    if virtual.intersection(columns.attnums) or virtual.intersection(_used(spec, columns)):
        what = "primary keys" if spec.primary else "unique constraints" if spec.constraint else "indexes"
        raise PgError("0A000", f"{what} on virtual generated columns are not supported")
    valid = not (partitioned and not spec.recurse and partition_desc(session, table).oids)
    oid, constraint = store_index(session, rel, spec, columns, method, name, names, options, origin, valid=valid)
    if not oid:
        return 0
    if spec.comment is not None:
        put_comment(session, ObjectAddress(PG_CLASS, oid), spec.comment)
    if not partitioned:
        if spec.unique and unique is not None:
            unique.append(Unique(table, oid))
        elif spec.unique or spec.typed_where is not None or columns.exprs:
            with maintaining(session, rel.owner):
                require(session, (Unique if spec.unique else Indexed)(table, oid))
    elif spec.recurse:
        index_partitions(session, rel, oid, constraint, origin)
    return oid


def _refuse_table(session: Session, rel: Relation, spec: IndexSpec, origin: IndexOrigin) -> None:
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
        check_create(session, rel.namespace)
    check_tablespace(spec.tablespace, partitioned=rel.kind == "p")


def _choose_name(session: Session, rel: Relation, spec: IndexSpec, names: Sequence[str]) -> str:
    """The name of an index that was given none (ChooseIndexName)."""
    if spec.primary:
        return choose_relation_name(session, rel.name, None, "pkey", rel.namespace, constraint=True)
    label = "excl" if spec.cloned and spec.without_overlaps else "key" if spec.constraint else "idx"
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
    if spec.unique and not can.unique and not spec.without_overlaps:
        raise PgError("0A000", f'access method "{name}" does not support unique indexes')
    if spec.including and not can.include:
        raise PgError("0A000", f'access method "{name}" does not support included columns')
    if len(spec.keys) > 1 and not can.multicolumn:
        raise PgError("0A000", f'access method "{name}" does not support multicolumn indexes')
    return method


def check_primary_key(
    session: Session, rel: Relation, spec: IndexSpec, columns: IndexColumns, alter_table: bool
) -> None:
    """Raises for a primary key that the table cannot have (index_check_primary_key)."""
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
    """Rows with equal keys must be in one partition, where they are compared: so the key includes the partition key."""
    key = partition_key(session, rel.oid)
    assert key is not None
    kind = "PRIMARY KEY" if spec.primary else "UNIQUE"
    count = len(spec.keys)
    for column in key.columns:
        if method.name != "btree" and not spec.without_overlaps:
            raise PgError("0A000", f'cannot match partition key to an index using access method "{method.name}"')
        if not column.attnum:
            raise PgError(
                "0A000",
                f"unsupported {kind} constraint with partition key definition",
                detail=f"{kind} constraints cannot be used when partition keys include expressions.",
            )
        if spec.without_overlaps:
            _compared_equal(rel, columns.attnums[:count], column.attnum, kind)
            continue
        wanted = (column.attnum, column.collation, equality_operator(column.opclass))
        present = zip(columns.attnums[:count], columns.collations, columns.opclasses, strict=False)
        if not any((a, c, equality_operator(o)) == wanted for a, c, o in present):
            raise _lacks(rel, kind, column.attnum)


def _lacks(rel: Relation, kind: str, attnum: int) -> PgError:
    name = rel.attributes[attnum - 1].name
    return PgError(
        "0A000",
        "unique constraint on partitioned table must include all partitioning columns",
        detail=f'{kind} constraint on table "{rel.name}" lacks column "{name}" which is part of the partition key.',
    )


def _compared_equal(rel: Relation, key: Sequence[int], attnum: int, kind: str) -> None:
    """Of a key WITHOUT OVERLAPS, the last column is not compared by =, as those of a partition key have to be."""
    if attnum not in key:
        raise _lacks(rel, kind, attnum)
    if attnum == key[-1]:
        name = rel.attributes[attnum - 1].name
        message = f'cannot match partition key to index on column "{name}" using non-equal operator "&&"'
        raise PgError("0A000", message)


def _used(spec: IndexSpec, columns: IndexColumns) -> frozenset[int]:
    exprs = [*columns.exprs, *([spec.typed_where] if spec.typed_where is not None else [])]
    return frozenset(attnum for expr in exprs for attnum in var_attnums(expr))


def index_partitions(session: Session, rel: Relation, index: int, constraint: int, origin: IndexOrigin) -> None:
    """Give every partition its part of a new index, as the end of DefineIndex does."""
    parent = index_info(session, index)
    invalid = False
    for oid in partition_desc(session, rel.oid).oids:
        partition = relation(session, oid)
        numbers = attnum_map(partition, rel)
        matching = _matching(session, partition, parent, numbers, constraint)
        if matching is not None:
            attach_index(session, matching, parent, constraint)
            invalid |= not matching.valid
            continue
        spec, _ = cloned_spec(session, index, numbers)
        index_oid = define_index(
            session,
            oid,
            spec,
            alter_table=origin.alter_table,
            check_rights=origin.check_rights,
            parent_index=index,
            parent_constraint=constraint,
            unique=origin.unique,
        )
        invalid |= not index_info(session, index_oid).valid
    if invalid:
        store.update(session, pg_index, {"indexrelid": index}, indisvalid=False)


def _matching(
    session: Session, partition: Relation, parent: IndexInfo, numbers: dict[int, int], constraint: int
) -> IndexInfo | None:
    """An index of the partition that matches and has no parent yet."""
    for info in index_infos(session, partition.oid):
        if has_parent(session, info.oid) or not same_index(info, parent, numbers):
            continue
        if constraint and not constraint_of_index(session, info.oid):
            continue
        return info
    return None


def ensure_indexes(session: Session, rel: Relation, partition: Relation) -> None:
    """Give a table the indexes it lacks before it becomes a partition, as AttachPartitionEnsureIndexes does."""
    numbers = attnum_map(partition, rel)
    candidates = index_infos(session, partition.oid)
    for parent in index_infos(session, rel.oid):
        if parent.kind != "I":
            continue
        constraint = constraint_of_index(session, parent.oid)
        for info in candidates:
            if has_parent(session, info.oid) or not info.valid or not same_index(info, parent, numbers):
                continue
            own = constraint_of_index(session, info.oid)
            if constraint and (not own or not _same_kind(session, own, constraint)):
                continue
            attach_index(session, info, parent, constraint)
            break
        else:
            spec, _ = cloned_spec(session, parent.oid, numbers)
            define_index(
                session,
                partition.oid,
                spec,
                alter_table=True,
                check_rights=False,
                parent_index=parent.oid,
                parent_constraint=constraint,
            )


def _same_kind(session: Session, one: int, other: int) -> bool:
    return bool(constraint_row(session, one).contype == constraint_row(session, other).contype)
