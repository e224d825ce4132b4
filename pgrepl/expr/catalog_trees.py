"""What the catalog stores as trees: indexes, defaults, partition keys and bounds; what an expression depends on; and
column numbers of one table mapped to those of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.namespace import is_user_routine
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import index_row, indexes
from pgrepl.catalog.facts.sequences import identity_sequence
from pgrepl.catalog.facts.user_types import rowtype_relation, type_row
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store, tables
from pgrepl.catalog.store.system import (
    PG_CLASS,
    PG_COLLATION,
    PG_CONSTRAINT,
    PG_NAMESPACE,
    PG_OPERATOR,
    PG_PROC,
    PG_TYPE,
    ObjectAddress,
)
from pgrepl.catalog.store.tables import pg_attrdef, pg_attribute, pg_partitioned_table
from pgrepl.expr import stored, tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.print.deparse import constant_text, stored_expression_text
from pgrepl.expr.tree import CoerceToDomain, Const, Expr, NextValueExpr, Query, Rte, RteKind
from pgrepl.expr.walk import map_attnums, query_exprs, subqueries, var_attnums, walk
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import base_type, opclass_by_oid, type_by_oid
from pgrepl.types.user_types import constrained

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Attribute


def attnum_map(child: Relation, parent: Relation) -> dict[int, int]:
    """The child's column number for each of the parent's columns, as build_attrmap_by_name does."""
    numbers = {attribute.name: attribute.num for attribute in child.columns}
    return {attribute.num: numbers[attribute.name] for attribute in parent.columns}


def mapped(expr: Expr, numbers: dict[int, int], detail: str) -> Expr:
    """An expression over the parent, converted to one over the child. A whole-row reference is refused, with `detail`
    as DETAIL of the error."""
    if 0 in var_attnums(expr):
        raise PgError("0A000", "cannot convert whole-row table reference", detail=detail)
    return map_attnums(expr, numbers)


# --- references -------------------------------------------------------------------------------------------------------


_CONSTANTS = {
    oids.REGCLASS: PG_CLASS,
    oids.REGNAMESPACE: PG_NAMESPACE,
    oids.REGPROC: PG_PROC,
    oids.REGPROCEDURE: PG_PROC,
    oids.REGCOLLATION: PG_COLLATION,
    oids.REGOPER: PG_OPERATOR,
    oids.REGOPERATOR: PG_OPERATOR,
}
_OF_OPERATORS = (tree.OpExpr, tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOpExpr)
# the nodes whose type is a need of its own; any node may be of a table's row type
_TYPED = (
    tree.Const, tree.RelabelType, tree.CoerceViaIO, tree.ArrayCoerceExpr, tree.ConvertRowtypeExpr, tree.CoerceToDomain,
    tree.RowExpr, tree.FieldStore,
)  # fmt: skip


def objects_of(session: Session, queries: Iterable[Query]) -> list[ObjectAddress]:
    """The objects that queries name."""
    return distinct(address for query in queries for address in _of_query(session, query, []))


def distinct(objects: Iterable[ObjectAddress]) -> list[ObjectAddress]:
    """Each object once, in OID order; a relation is left out if columns of it are listed."""
    unique = set(objects)
    in_parts = {address._replace(subid=0) for address in unique if address.subid}
    return sorted(unique - in_parts, key=lambda a: (a.objid, a.classid, a.subid))


def _of_query(session: Session, query: Query, outer: list[list[Rte]]) -> Iterator[ObjectAddress]:
    levels = [*outer, list(query.rtable)]
    for rte in query.rtable:
        if rte.kind is RteKind.RELATION:
            yield ObjectAddress(PG_CLASS, rte.relid)
    for key in query.constraint_deps:
        yield ObjectAddress(PG_CONSTRAINT, key)
    # of a join's columns only the merged ones name anything that is not named elsewhere
    rtable = tuple(replace(rte, join_vars=rte.join_vars[: len(rte.join_using)]) for rte in query.rtable)
    for expr in query_exprs(replace(query, rtable=rtable)):
        yield from objects_of_expr(session, expr, levels)
    for inner in subqueries(query):
        yield from _of_query(session, inner, levels)


def objects_of_expr(session: Session, expr: Expr, levels: list[list[Rte]]) -> Iterator[ObjectAddress]:
    for node in walk(expr):
        if isinstance(node, tree.Var):
            yield from _of_var(node, levels)
        elif isinstance(node, tree.Const) and node.type in _CONSTANTS and node.value is not None:
            yield ObjectAddress(_CONSTANTS[node.type], int(node.value))
        elif isinstance(node, tree.NextValueExpr):
            yield ObjectAddress(PG_CLASS, node.sequence)
        elif isinstance(node, tree.SubLink) and node.query is not None:
            yield from _of_query(session, node.query, levels)
        elif isinstance(node, tree.FuncExpr) and is_user_routine(node.func):
            yield ObjectAddress(PG_PROC, node.func)
        elif isinstance(node, tree.CollateExpr):
            yield ObjectAddress(PG_COLLATION, int(node.collation))
        elif isinstance(node, _OF_OPERATORS) and node.func:
            yield ObjectAddress(PG_OPERATOR, node.op)
        elif isinstance(node, tree.FieldSelect) and node.arg is not None:
            row = rowtype_relation(session, base_type(node.arg.type))
            if row is not None:
                yield ObjectAddress(PG_CLASS, row.oid, node.fieldnum)
        if node.type >= oids.FIRST_USER_OID and (isinstance(node, _TYPED) or type_by_oid(node.type) is None):
            yield ObjectAddress(PG_TYPE, int(node.type))


def _of_var(var: tree.Var, levels: list[list[Rte]]) -> Iterator[ObjectAddress]:
    if var.levelsup >= len(levels):
        return
    rtable = levels[-1 - var.levelsup]
    rte = rtable[var.varno - 1]
    if rte.kind is RteKind.RELATION:
        # a whole row names no column; the relation is named by its range table entry
        if var.attnum:
            yield ObjectAddress(PG_CLASS, rte.relid, var.attnum)


GIST = 783


# --- index info -------------------------------------------------------------------------------------------------------


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

    @property
    def is_temporal(self) -> bool:
        """Is it one of a key WITHOUT OVERLAPS? No other GiST index is unique."""
        return self.unique and self.method == GIST


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
    row = opclass_by_oid(opclass)
    return row.family if row is not None else 0


# --- defaults ---------------------------------------------------------------------------------------------------------


def default_of(session: Session, relid: int, attnum: int) -> Expr | None:
    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    return None if row is None else stored.from_json(row.adbin, session)


def default_text(session: Session, relid: int, attnum: int, pretty: bool = False) -> str | None:
    """A column's default or generation expression as pg_get_expr prints it."""
    row = store.one(session, pg_attrdef, adrelid=relid, adnum=attnum)
    return None if row is None else stored_expression_text(session, row.adbin, relid, pretty)


def defaults_of(session: Session, relid: int) -> dict[int, Expr]:
    """The defaults and generation expressions of a relation by column number."""
    rows = store.rows(session, pg_attrdef, adrelid=relid)
    return {row.adnum: stored.from_json(row.adbin, session) for row in rows}


def column_default(session: Session, target: Relation, column: Attribute) -> Expr | None:
    """The default expression of a column, or else of its domain; None: the default is NULL (build_column_default)."""
    if column.identity:
        return NextValueExpr(column.type, sequence=identity_sequence(session, target.oid, column.num))
    if column.generated:
        return None
    if not column.has_default:
        return domain_default(session, column)
    default = default_of(session, target.oid, column.num)
    assert default is not None
    return default


def domain_default(session: Session, column: Attribute) -> Expr | None:
    kind = type_by_oid(column.type)
    if kind is None or kind.typtype != "d":
        return None
    row = type_row(session, column.type)
    if row is None or row.typdefaultbin is None:
        return None
    return CoerceToDomain(column.type, collation=column.collation, arg=stored.from_json(row.typdefaultbin, session))


def null_of(column: Attribute) -> Expr:
    """NULL as a value of the column; a domain that has constraints tests it (coerce_null_to_domain)."""
    if constrained(column.type) and not lookup.is_array(column.type):
        base, typmod = lookup.base_and_typmod(column.type, -1)
        return CoerceToDomain(column.type, collation=column.collation, arg=Const(base, typmod=typmod))
    return Const(column.type, typmod=column.typmod, collation=column.collation)


# --- partition --------------------------------------------------------------------------------------------------------


MINVALUE, VALUE, MAXVALUE = -1, 0, 1  # in sort order, as in PartitionRangeDatumKind
_KINDS = {MINVALUE: "MINVALUE", MAXVALUE: "MAXVALUE"}


@frozen
class KeyColumn:
    attnum: int  # 0: an expression
    expr: Expr | None
    opclass: int
    collation: int
    type: int
    typmod: int
    own_collation: int  # that of the column or expression; `collation` is what the key compares by


@frozen
class PartitionKey:
    strategy: str  # l, r, h
    columns: tuple[KeyColumn, ...]


@frozen
class RangeDatum:
    kind: int
    value: Const | None = None
    location: int = field(default=-1, compare=False)


@frozen
class PartitionBound:
    strategy: str
    default: bool = False
    modulus: int = 0
    remainder: int = 0
    values: tuple[Const, ...] = ()
    lower: tuple[RangeDatum, ...] = ()
    upper: tuple[RangeDatum, ...] = ()
    location: int = field(default=-1, compare=False)


def partition_key(session: Session, relid: int) -> PartitionKey | None:
    """The key of a partitioned table; None for any other relation."""
    row = store.one(session, pg_partitioned_table, partrelid=relid)
    if row is None:
        return None
    exprs = iter(row.partexprs or ())
    types = {
        a.attnum: (session.type_of(a.atttypid), a.atttypmod, session.collation_of(a.attcollation))
        for a in store.rows(session, pg_attribute, attrelid=relid)
    }
    columns = []
    for attnum, opclass, collation in zip(row.partattrs, row.partclass, row.partcollation, strict=True):
        if attnum:
            columns.append(KeyColumn(attnum, None, opclass, collation, *types[attnum]))
        else:
            expr = stored.from_json(next(exprs), session)
            columns.append(KeyColumn(0, expr, opclass, collation, expr.type, expr.typmod, expr.collation))
    return PartitionKey(row.partstrat, tuple(columns))


def bound_to_json(bound: PartitionBound) -> dict[str, Any]:
    if bound.default:
        return {"strategy": bound.strategy, "default": True}
    if bound.strategy == "h":
        return {"strategy": "h", "modulus": bound.modulus, "remainder": bound.remainder}
    if bound.strategy == "l":
        return {"strategy": "l", "values": [stored.to_json(value) for value in bound.values]}
    return {
        "strategy": "r",
        "lower": [_datum_to_json(datum) for datum in bound.lower],
        "upper": [_datum_to_json(datum) for datum in bound.upper],
    }


def _datum_to_json(datum: RangeDatum) -> Any:
    return _KINDS[datum.kind] if datum.value is None else stored.to_json(datum.value)


def bound_from_json(data: dict[str, Any], session: Session) -> PartitionBound:
    return PartitionBound(
        data["strategy"],
        data.get("default", False),
        data.get("modulus", 0),
        data.get("remainder", 0),
        tuple(_const(value, session) for value in data.get("values", ())),
        tuple(_datum_from_json(datum, session) for datum in data.get("lower", ())),
        tuple(_datum_from_json(datum, session) for datum in data.get("upper", ())),
    )


def _const(data: Any, session: Session) -> Const:
    value = stored.from_json(data, session)
    assert isinstance(value, Const)
    return value


def _datum_from_json(data: Any, session: Session) -> RangeDatum:
    if isinstance(data, str):
        return RangeDatum(MINVALUE if data == "MINVALUE" else MAXVALUE)
    return RangeDatum(VALUE, _const(data, session))


def bound_text(session: Session, bound: PartitionBound) -> str:
    """The bound as pg_get_expr(relpartbound) prints it: `FOR VALUES FROM (1) TO (10)`."""
    if bound.default:
        return "DEFAULT"
    if bound.strategy == "h":
        return f"FOR VALUES WITH (modulus {bound.modulus}, remainder {bound.remainder})"
    if bound.strategy == "l":
        return f"FOR VALUES IN ({', '.join(constant_text(session, value) for value in bound.values)})"
    return f"FOR VALUES FROM {range_text(session, bound.lower)} TO {range_text(session, bound.upper)}"


def range_text(session: Session, datums: Sequence[RangeDatum]) -> str:
    """A bound of a range partition as it is written (get_range_partbound_string)."""
    texts = (_KINDS[d.kind] if d.value is None else constant_text(session, d.value) for d in datums)
    return f"({', '.join(texts)})"
