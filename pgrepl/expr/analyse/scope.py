"""The namespace of one query level: PostgreSQL's ParseState.

A `Scope` is a query level. It owns the range table, which grows while FROM is analysed, and the namespace: the entries
that the clause being analysed can refer to, with their names. The scope of a subquery has the outer query's scope as
its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.facts.relation import Relation
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMNS, TABLEOID, relation_rte
from pgrepl.expr.tree import CoerceToDomainValue, Column, Cte, CteCycle, CteSearch, Expr, Query, Rte, RteKind, Var
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.analyse.kinds import Variables
    from pgrepl.sql import nodes

_WITHOUT_SYSTEM_COLUMNS = frozenset("vc")  # views, composite types


@frozen
class NsColumn:
    """A column of a namespace item. varno 0: dropped."""

    varno: int
    attnum: int
    type: int
    typmod: int
    collation: int
    varno_written: int = 0  # with attnum_written: the column of a join with an alias that it is written as
    attnum_written: int = 0
    expands: bool = True  # False: `*` leaves it out


@dataclass(slots=True, eq=False)
class NsItem:
    """A namespace item: a relation that names can refer to."""

    name: str
    names: tuple[str, ...]
    rte: Rte
    varno: int
    columns: tuple[NsColumn, ...]
    rel_visible: bool = True
    cols_visible: bool = True
    lateral_only: bool = False
    lateral_ok: bool = True
    whole: bool = True  # False: the alias of JOIN … USING (…) AS alias, which has the merged columns only


@dataclass(slots=True, eq=False)
class WithItem:
    """A WITH query that names can refer to. query None: it is being analysed, so the reference is recursive."""

    name: str
    alias_columns: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    query: Query | None = None
    recursive: bool = False
    materialized: bool | None = None
    search: CteSearch | None = None
    cycle: CteCycle | None = None
    modify: Any = None  # of INSERT, UPDATE, DELETE: an expr.dml.plan.Modify

    def finished(self) -> Cte:
        assert self.query is not None
        return Cte(
            self.name,
            self.alias_columns,
            self.query,
            self.recursive,
            self.materialized,
            self.search,
            self.cycle,
            self.modify,
        )


class AnalyzeSubquery(Protocol):
    """The function that analyses a query inside a level (query.analyze_subquery)."""

    def __call__(
        self,
        stmt: nodes.SelectStmt,
        parent: Scope,
        *,
        parent_cte: WithItem | None = None,
        locked: bool = False,
        resolve_unknown: bool = True,
    ) -> Query: ...


AnalyzeModifying = Callable[["Session", "nodes.Statement", "Scope"], Any]  # of a statement in WITH: returns a Modify


@dataclass(eq=False)
class Scope:
    session: Session
    parent: Scope | None = None
    kind: ExprKind = ExprKind.OTHER
    rtable: list[Rte] = field(default_factory=list)
    namespace: list[NsItem] = field(default_factory=list)
    ctes: list[WithItem] = field(default_factory=list)
    future_ctes: tuple[str, ...] = ()  # WITH queries that come later
    parent_cte: WithItem | None = None  # the WITH query that this level is
    window_defs: list[nodes.WindowDef] = field(default_factory=list)
    locking: tuple[nodes.LockingClause, ...] = ()
    target_item: NsItem | None = None  # of UPDATE, DELETE
    next_resno: int = 1
    lateral_active: bool = False
    locked_from_parent: bool = False
    resolve_unknowns: bool = True
    analyze_subquery: AnalyzeSubquery | None = None  # None: the scope of a single expression
    analyze_modifying: AnalyzeModifying | None = None  # None in subqueries
    has_aggregates: bool = False
    has_window_functions: bool = False
    has_target_srfs: bool = False
    has_sublinks: bool = False
    last_srf: Expr | None = None
    subqueries: dict[int, Query] = field(
        default_factory=dict
    )  # by the id of the raw SubLink, to name an output column after the subquery's
    domain_value: CoerceToDomainValue | None = None  # what VALUE means in a domain's CHECK constraint
    variables: Variables | None = None  # of the routine whose statement this is

    def __post_init__(self) -> None:
        if self.variables is None and self.parent is not None:
            self.variables = self.parent.variables

    def up(self, levels: int) -> Scope:
        scope = self
        for _ in range(levels):
            assert scope.parent is not None
            scope = scope.parent
        return scope

    def rte(self, varno: int, levelsup: int = 0) -> Rte:
        return self.up(levelsup).rtable[varno - 1]

    def item(self, varno: int, levelsup: int = 0) -> NsItem:
        """The namespace item of a range table entry (GetNSItemByRangeTablePosn)."""
        return next(item for item in self.up(levelsup).namespace if item.varno == varno)

    def add_rte(self, rte: Rte) -> NsItem:
        """Append a range table entry; its item is not yet in the namespace."""
        self.rtable.append(rte)
        varno = len(self.rtable)
        return NsItem(rte.name, tuple(c.name for c in rte.columns), rte, varno, plain_columns(rte, varno))

    def show(self, item: NsItem, *, rel: bool = True, cols: bool = True) -> None:
        """Add an item to the namespace (addNSItemToQuery)."""
        item.rel_visible, item.cols_visible, item.lateral_only, item.lateral_ok = rel, cols, False, True
        self.namespace.append(item)


def plain_columns(rte: Rte, varno: int) -> tuple[NsColumn, ...]:
    return tuple(
        NsColumn(0, 0, 0, -1, 0)
        if column.dropped
        else NsColumn(varno, attnum, column.type, column.typmod, column.collation, expands=column.expands)
        for attnum, column in enumerate(rte.columns, 1)
    )


def column_var(column: NsColumn, levelsup: int, location: int) -> Var:
    return Var(
        column.type,
        typmod=column.typmod,
        collation=column.collation,
        location=location,
        varno=column.varno,
        attnum=column.attnum,
        levelsup=levelsup,
        varno_written=column.varno_written,
        attnum_written=column.attnum_written,
    )


def scope_of_relation(session: Session, relation: Relation) -> Scope:
    """The scope of expressions over one relation: CHECK, DEFAULT, index, row filter. Its columns are Var(varno=1)."""
    scope = Scope(session)
    scope.show(scope.add_rte(relation_rte(relation)), rel=True)
    return scope


def find_item(scope: Scope, schema: str | None, name: str, location: int) -> tuple[NsItem, int] | None:
    """The namespace item of a qualified name, and how many levels up it is (refnameNamespaceItem)."""
    relid = 0
    if schema is not None:
        relid = lookup.relid_in_schema(scope.session, schema, name)
        if not relid:
            return None
    levels = 0
    level: Scope | None = scope
    while level is not None:
        item = _item_of_relid(level, relid, location) if relid else _item_of_name(level, name, location)
        if item is not None:
            return item, levels
        level = level.parent
        levels += 1
    return None


def _referable(scope: Scope) -> list[NsItem]:
    return [i for i in scope.namespace if i.rel_visible and (scope.lateral_active or not i.lateral_only)]


def _item_of_name(scope: Scope, name: str, location: int) -> NsItem | None:
    result = None
    for item in _referable(scope):
        if item.name == name:
            if result is not None:
                raise PgError("42P09", f'table reference "{name}" is ambiguous', location=location)
            check_lateral_reference(scope, item, location)
            result = item
    return result


def _item_of_relid(scope: Scope, relid: int, location: int) -> NsItem | None:
    result = None
    for item in _referable(scope):
        rte = item.rte
        if rte.kind is RteKind.RELATION and rte.relid == relid and rte.alias is None:
            if result is not None:
                raise PgError("42P09", f"table reference {relid} is ambiguous", location=location)
            check_lateral_reference(scope, item, location)
            result = item
    return result


def check_lateral_reference(scope: Scope, item: NsItem, location: int) -> None:
    """Raises for a reference to an entry that LATERAL does not show (check_lateral_ref_ok)."""
    if not item.lateral_only or item.lateral_ok:
        return
    message = f'invalid reference to FROM-clause entry for table "{item.name}"'
    if scope.target_item is not None and item.rte is scope.target_item.rte:
        hint = f'There is an entry for table "{item.name}", but it cannot be referenced from this part of the query.'
        raise PgError("42P10", message, hint=hint, location=location)
    detail = "The combining JOIN type must be INNER or LEFT for a LATERAL reference."
    raise PgError("42P10", message, detail=detail, location=location)


def set_lateral(namespace: Sequence[NsItem], only: bool, ok: bool) -> None:
    for item in namespace:
        item.lateral_only, item.lateral_ok = only, ok


def check_name_conflicts(existing: list[NsItem], added: list[NsItem]) -> None:
    """Raises for two entries of one name (checkNameSpaceConflicts)."""
    for one in existing:
        if not one.rel_visible:
            continue
        for other in added:
            if not other.rel_visible or other.name != one.name:
                continue
            if _is_plain(one.rte) and _is_plain(other.rte) and one.rte.relid != other.rte.relid:
                continue
            raise PgError("42712", f'table name "{one.name}" specified more than once')


def _is_plain(rte: Rte) -> bool:
    return rte.kind is RteKind.RELATION and rte.alias is None


def match_column(rte: Rte, names: tuple[str, ...], name: str, location: int) -> int:
    """The attnum of a name in a range table entry; 0: none (scanRTEForColumn)."""
    result = 0
    for attnum, candidate in enumerate(names, 1):
        if candidate == name:
            if result:
                raise ambiguous_column(name, location)
            result = attnum
    if result or rte.kind is not RteKind.RELATION or rte.relkind in _WITHOUT_SYSTEM_COLUMNS:
        return result
    return SYSTEM_COLUMNS.get(name, (0, 0))[0]


def ambiguous_column(name: str, location: int) -> PgError:
    return PgError("42702", f'column reference "{name}" is ambiguous', location=location)


def column_of_item(scope: Scope, item: NsItem, levels: int, name: str, location: int) -> Var | None:
    """The Var of an item's column, by name (scanNSItemForColumn)."""
    attnum = match_column(item.rte, item.names, name, location)
    if attnum == 0:
        return None
    if attnum < 0:
        if attnum != TABLEOID and scope.kind is ExprKind.CHECK:
            message = f'system column "{name}" reference in check constraint is invalid'
            raise PgError("42P10", message, location=location)
        if attnum != TABLEOID and scope.kind is ExprKind.GENERATED:
            message = f'cannot use system column "{name}" in column generation expression'
            raise PgError("42P10", message, location=location)
        typoid = SYSTEM_COLUMNS[name][1]
        return Var(typoid, location=location, varno=item.varno, attnum=attnum, levelsup=levels)
    column = item.columns[attnum - 1]
    if column.varno == 0:
        raise PgError("42703", f'column "{name}" of relation "{item.name}" does not exist')
    return column_var(column, levels, location)


def column_by_name(scope: Scope, name: str, location: int, *, local_only: bool = False) -> Var | None:
    """The Var of an unqualified name (colNameToVar)."""
    result: Var | None = None
    levels = 0
    level: Scope | None = scope
    while level is not None:
        for item in level.namespace:
            if not item.cols_visible or (item.lateral_only and not level.lateral_active):
                continue
            column = column_of_item(scope, item, levels, name, location)
            if column is not None:
                if result is not None:
                    raise ambiguous_column(name, location)
                check_lateral_reference(level, item, location)
                result = column
        if result is not None or local_only:
            break
        level = level.parent
        levels += 1
    return result


def item_vars(item: NsItem, levels: int, location: int) -> list[tuple[str, Var]]:
    """The columns that `*` stands for, with their names (expandNSItemVars)."""
    return [
        (name, column_var(column, levels, location))
        for name, column in zip(item.names, item.columns, strict=True)
        if column.expands and name
    ]


def find_cte(scope: Scope, name: str) -> tuple[WithItem, int] | None:
    """The query of WITH that a name means, and how many levels outside (scanNameSpaceForCTE)."""
    levels = 0
    level: Scope | None = scope
    while level is not None:
        for cte in level.ctes:
            if cte.name == name:
                return cte, levels
        level = level.parent
        levels += 1
    return None


def is_future_cte(scope: Scope, name: str) -> bool:
    level: Scope | None = scope
    while level is not None:
        if name in level.future_ctes:
            return True
        level = level.parent
    return False


def whole_row_type(scope: Scope, rte: Rte) -> int:
    """The type of a reference to a whole row (makeWholeRowVar): the relation's row type, or RECORD."""
    if rte.kind is RteKind.RELATION:
        return lookup.row_type(scope.session, rte.relid)
    return oids.RECORD
