"""Virtual generated columns: no row holds them, so what stands for them is computed where they are used
(expand_virtual_generated_columns)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.expr.analyse.lookup import TABLEOID
from pgrepl.expr.catalog_trees import default_of
from pgrepl.expr.dml_tree import TARGET, Modify, map_modify
from pgrepl.expr.rewrite.dml_queries import if_there, map_level, map_query, row_versions, whole_row
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind, Var
from pgrepl.expr.walk import rewrite, varnos
from pgrepl.sql.nodes import JoinType
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


class _Columns:
    """What stands for the virtual columns of one entry of a range table. `nullable`: its rows may be those of an outer
    join, where all columns are NULL."""

    def __init__(self, session: Session, table: Relation, varno: int, *, nullable: bool = False) -> None:
        self._session = session
        self._table = table
        self._varno = varno
        self._nullable = nullable
        self._known: dict[int, Expr] = {}

    def other(self, var: Var, depth: int) -> Expr | None:
        """What a Var of the entry becomes `depth` levels below it; None: it stays."""
        if var.attnum == 0:
            row = whole_row(self._session, self._table, lambda n: self._column(n, depth))
            return self._if_there(row, depth)
        if var.attnum < 0 or self._table.attributes[var.attnum - 1].generated != "v":
            return None
        return self._if_there(self._column(var.attnum, depth), depth)

    def _column(self, attnum: int, depth: int) -> Expr:
        column = self._table.attributes[attnum - 1]
        if column.generated != "v":
            return self._var(column.type, column.typmod, column.collation, attnum, depth)
        if attnum not in self._known:
            default = default_of(self._session, self._table.oid, attnum)
            assert default is not None
            self._known[attnum] = default

        def placed(node: Expr) -> Expr | None:
            return replace(node, varno=self._varno, levelsup=depth) if isinstance(node, Var) else None

        return rewrite(self._known[attnum], placed)

    def _var(self, typoid: int, typmod: int, collation: int, attnum: int, depth: int) -> Var:
        return Var(typoid, typmod=typmod, collation=collation, varno=self._varno, attnum=attnum, levelsup=depth)

    def _if_there(self, expr: Expr, depth: int) -> Expr:
        return if_there(expr, self._var(oids.OID, -1, 0, TABLEOID, depth)) if self._nullable else expr


def _others(columns: Mapping[int, _Columns]) -> Callable[[Var, int], Expr | None]:
    """What a Var of one of these entries becomes."""
    return lambda var, depth: columns[var.varno].other(var, depth) if var.varno in columns else None


def with_virtual_columns(session: Session, query: Query) -> Query:
    """The query with the virtual columns of its own tables computed. The queries in it have been dealt with."""
    tables = {varno: table for varno, rte in enumerate(query.rtable, 1) if (table := _table(session, rte)) is not None}
    if not tables:
        return query
    nullable = {varno for item in query.from_ for varno in _nullable(item)}
    columns = {n: _Columns(session, table, n, nullable=n in nullable) for n, table in tables.items()}
    return map_query(query, _others(columns), 0)


def modify_with_virtual_columns(session: Session, modify: Modify) -> Modify:
    """The statement with the virtual columns of its target computed: of its rows, and of a conflict's proposed row."""
    target = relation(session, modify.relid)
    if not target.virtual:
        return modify
    own = {TARGET, *([modify.conflict.excluded] if modify.conflict is not None else ())}
    columns = {varno: _Columns(session, target, varno) for varno in own}
    columns |= {varno: _Columns(session, target, varno, nullable=True) for varno in row_versions(modify)}
    other = _others(columns)
    changed = map_modify(modify, lambda expr: map_level(expr, other), lambda query: map_query(query, other, 1))
    options = tuple(replace(option, expr=map_level(option.expr, other)) for option in modify.check_options)
    return replace(changed, check_options=options)


def of_rows(session: Session, expr: Expr, table: Relation, entries: Iterable[int] = (1,)) -> Expr:
    """An expression over rows of one table, such as a CHECK, with the virtual columns in it computed."""
    if not table.virtual:
        return expr
    return map_level(expr, _others({varno: _Columns(session, table, varno) for varno in entries}))


def _table(session: Session, rte: Rte) -> Relation | None:
    """The table of an entry, if it has virtual columns."""
    if rte.kind is not RteKind.RELATION or rte.relid < oids.FIRST_USER_OID:
        return None
    rel = relation(session, rte.relid)
    return rel if rel.virtual else None


def _nullable(item: RangeRef | Join) -> Iterator[int]:
    """The entries whose rows an outer join may leave out."""
    if isinstance(item, RangeRef):
        return
    if item.kind in (JoinType.RIGHT, JoinType.FULL):
        yield from varnos(item.left)
    if item.kind in (JoinType.LEFT, JoinType.FULL):
        yield from varnos(item.right)
    yield from _nullable(item.left)
    yield from _nullable(item.right)
