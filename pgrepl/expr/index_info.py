"""The definition of an index as stored in the catalog, with its expressions; and whether two indexes are equivalent."""

from __future__ import annotations

from pgrepl.catalog import tables
from pgrepl.catalog.indexes import index_row, indexes
from pgrepl.catalog.relation import relation
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import map_attnums
from pgrepl.frozen import frozen
from pgrepl.types.builtin import opclass_by_oid


@frozen
class IndexInfo:
    oid: int
    table: int
    name: str
    kind: str  # i, or I of a partitioned table
    method: int  # pg_am
    columns: tuple[int, ...]  # 0: an expression
    key_count: int
    unique: bool
    nulls_not_distinct: bool
    primary: bool
    immediate: bool
    valid: bool
    replident: bool
    clustered: bool
    is_partition: bool
    collations: tuple[int, ...]
    opclasses: tuple[int, ...]
    ordering: tuple[int, ...]  # indoption: 1 DESC, 2 NULLS FIRST
    exprs: tuple[Expr, ...]
    predicate: Expr | None
    column_names: tuple[str, ...]
    options: tuple[str, ...]


def index_info(session: Session, oid: int) -> IndexInfo:
    row = index_row(session, oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for index {oid}")
    return _info(session, row)


def index_infos(session: Session, relid: int) -> list[IndexInfo]:
    return [_info(session, row) for row in indexes(session, relid)]


def index_oids(session: Session, relid: int) -> list[int]:
    return [row.indexrelid for row in indexes(session, relid)]


def _info(session: Session, row: tables.pg_index) -> IndexInfo:
    rel = relation(session, row.indexrelid)
    return IndexInfo(
        oid=row.indexrelid,
        table=row.indrelid,
        name=rel.name,
        kind=rel.kind,
        method=rel.access_method,
        columns=tuple(row.indkey),
        key_count=row.indnkeyatts,
        unique=bool(row.indisunique),
        nulls_not_distinct=bool(row.indnullsnotdistinct),
        primary=bool(row.indisprimary),
        immediate=bool(row.indimmediate),
        valid=bool(row.indisvalid),
        replident=bool(row.indisreplident),
        clustered=bool(row.indisclustered),
        is_partition=rel.is_partition,
        collations=tuple(row.indcollation),
        opclasses=tuple(row.indclass),
        ordering=tuple(row.indoption),
        exprs=tuple(stored.from_json(data, session) for data in row.indexprs or ()),
        predicate=None if row.indpred is None else stored.from_json(row.indpred, session),
        column_names=tuple(attribute.name for attribute in rel.attributes),
        options=tuple(rel.options or ()),
    )


def same_index(child: IndexInfo, parent: IndexInfo, numbers: dict[int, int]) -> bool:
    """Whether an index of a partition can be attached to one of its parent, as CompareIndexInfo decides. `numbers`
    maps the parent's attnums to the partition's."""
    if (child.unique, child.nulls_not_distinct, child.method) != (
        parent.unique,
        parent.nulls_not_distinct,
        parent.method,
    ):
        return False
    if (len(child.columns), child.key_count) != (len(parent.columns), parent.key_count):
        return False
    for place, (own, other) in enumerate(zip(child.columns, parent.columns, strict=True)):
        if (own == 0) != (other == 0) or (other and numbers.get(other) != own):
            return False
        if place < child.key_count and (
            child.collations[place] != parent.collations[place]
            or _family(child.opclasses[place]) != _family(parent.opclasses[place])
        ):
            return False
    if child.exprs != tuple(map_attnums(expr, numbers) for expr in parent.exprs):
        return False
    predicate = None if parent.predicate is None else map_attnums(parent.predicate, numbers)
    return child.predicate == predicate


def _family(opclass: int) -> int:
    found = opclass_by_oid(opclass)
    return found.family if found is not None else 0
