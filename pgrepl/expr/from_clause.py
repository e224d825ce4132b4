"""FROM: its relations, subqueries, functions and joins become range table entries and namespace items
(parse_clause.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.catalog.relation import Relation, find_relation
from pgrepl.catalog.transition_tables import TransitionRows, TransitionTable
from pgrepl.errors import PgError, unsupported
from pgrepl.expr.coerce import coerce_to_specific
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.joins import transform_join
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.range_table import relation_rte
from pgrepl.expr.scope import (
    NsItem,
    Scope,
    WithItem,
    check_name_conflicts,
    find_cte,
    is_future_cte,
    set_lateral,
)
from pgrepl.expr.transform import transform
from pgrepl.expr.tree import Column, Join, RangeRef, Rte, RteKind, TableSample
from pgrepl.sql import nodes
from pgrepl.sql.nodes import FromItem, JoinExpr, RangeFunction, RangeSubselect, RangeTableSample, RangeVar
from pgrepl.types import builtin, oids

UNNAMED_SUBQUERY = "unnamed_subquery"


def transform_from(scope: Scope, items: Sequence[FromItem]) -> tuple[RangeRef | Join, ...]:
    """Analyse FROM as transformFromClause does: an item sees the items before it only if it is LATERAL."""
    result: list[RangeRef | Join] = []
    for item in items:
        node, _, namespace = transform_item(scope, item)
        check_name_conflicts(scope.namespace, namespace)
        set_lateral(namespace, True, True)
        result.append(node)
        scope.namespace += namespace
    set_lateral(scope.namespace, False, True)
    return tuple(result)


def transform_item(scope: Scope, item: FromItem) -> tuple[RangeRef | Join, NsItem, list[NsItem]]:
    """The join tree node of a FROM item, the columns of its `*`, and the names it adds (transformFromClauseItem)."""
    if isinstance(item, JoinExpr):
        return transform_join(scope, item, transform_item)
    if isinstance(item, RangeVar):
        added = _relation(scope, item)
    elif isinstance(item, RangeSubselect):
        added = _subselect(scope, item)
    elif isinstance(item, RangeFunction):
        from pgrepl.expr.from_functions import transform_functions

        added = transform_functions(scope, item)
    elif isinstance(item, RangeTableSample):
        added = _sampled(scope, item)
    elif isinstance(item, nodes.JsonTable):
        from pgrepl.expr.json_table import transform_json_table

        added = transform_json_table(scope, item)
    else:
        raise unsupported(getattr(item, "what", type(item).__name__), location=getattr(item, "location", None))
    return RangeRef(added.varno), added, [added]


def open_relation(scope: Scope, name: RangeVar) -> Relation:
    """The relation of a name. The error for a missing one mentions a WITH query defined later (parserOpenTable)."""
    found = find_relation(scope.session, name, missing_ok=True)
    if found is None:
        if name.schema is not None:
            raise PgError("42P01", f'relation "{name.schema}.{name.name}" does not exist', location=name.location)
        detail = hint = None
        if is_future_cte(scope, name.name):
            detail = (
                f'There is a WITH item named "{name.name}", but it cannot be referenced from this part of the query.'
            )
            hint = "Use WITH RECURSIVE, or re-order the WITH items to remove forward references."
        message = f'relation "{name.name}" does not exist'
        raise PgError("42P01", message, detail=detail, hint=hint, location=name.location)
    if found.kind in _NOT_OPENED:
        detail = f"This operation is not supported for {_NOT_OPENED[found.kind]}."
        raise PgError("42809", f'cannot open relation "{found.name}"', detail=detail, location=name.location)
    return found


_NOT_OPENED = {"i": "indexes", "I": "partitioned indexes", "c": "composite types"}


def _relation(scope: Scope, name: RangeVar) -> NsItem:
    if name.schema is None:
        cte = find_cte(scope, name.name)
        if cte is not None:
            return _cte_reference(scope, name, *cte)
        transition = scope.session.transition_tables.get(name.name)
        if transition is not None:
            return _transition_table(scope, name, transition)
    found = open_relation(scope, name)
    alias = name.alias
    rte = relation_rte(
        found,
        alias.name if alias is not None else None,
        alias.columns if alias is not None else (),
        name.inh,
    )
    return scope.add_rte(rte)


def aliased_columns(columns: Sequence[Column], alias: nodes.Alias | None, what: str, name: str) -> tuple[Column, ...]:
    """The columns, renamed by a column alias list; a list longer than the columns is an error."""
    names = alias.columns if alias is not None else ()
    if len(names) > len(columns):
        raise PgError(
            "42P10", f'{what} "{name}" has {len(columns)} columns available but {len(names)} columns specified'
        )
    return tuple(replace(c, name=names[n]) if n < len(names) else c for n, c in enumerate(columns))


def _subselect(scope: Scope, item: RangeSubselect) -> NsItem:
    assert scope.analyze_subquery is not None
    saved, scope.kind = scope.kind, ExprKind.FROM_SUBSELECT
    scope.lateral_active = item.lateral
    locked = is_locked(scope, item.alias.name if item.alias is not None else None)
    query = scope.analyze_subquery(item.subquery, scope, locked=locked)
    scope.lateral_active = False
    scope.kind = saved
    alias = item.alias
    name = alias.name if alias is not None else UNNAMED_SUBQUERY
    added = scope.add_rte(
        Rte(
            RteKind.SUBQUERY,
            name,
            aliased_columns(query.columns, alias, "table", name),
            alias=alias.name if alias is not None else None,
            alias_columns=alias.columns if alias is not None else (),
            subquery=query,
            lateral=item.lateral,
        )
    )
    added.rel_visible = alias is not None
    return added


def is_locked(scope: Scope, name: str | None) -> bool:
    """Whether FOR UPDATE applies to a relation of that alias (isLockedRefname)."""
    if scope.locked_from_parent:
        return True
    return any(not c.relations or any(r.name == name for r in c.relations) for c in scope.locking)


def _transition_table(scope: Scope, name: RangeVar, table: TransitionTable) -> NsItem:
    """As addRangeTableEntryForENR does."""
    alias = name.alias
    rte = relation_rte(
        replace(table.relation, name=table.name),
        alias.name if alias is not None else None,
        alias.columns if alias is not None else (),
    )
    return scope.add_rte(replace(rte, kind=RteKind.VALUES, relid=0, rows=TransitionRows(scope.session, table.name)))


def _cte_reference(scope: Scope, name: RangeVar, cte: WithItem, levels: int) -> NsItem:
    """As addRangeTableEntryForCTE does."""
    if cte.modify is not None and not cte.modify.returning:
        message = f'WITH query "{cte.name}" does not have a RETURNING clause'
        raise PgError("0A000", message, location=name.location)
    alias = name.alias
    refname = alias.name if alias is not None else name.name
    columns = aliased_columns(cte.columns, alias, "table", refname)
    hidden = 0
    if cte.search is not None:
        typoid = oids.RECORD if cte.search.breadth_first else oids.RECORD_ARRAY
        columns += (Column(cte.search.sequence, typoid),)
        hidden += 1
    if cte.cycle is not None:
        columns += (
            Column(cte.cycle.mark, cte.cycle.mark_type, cte.cycle.mark_value.typmod, cte.cycle.mark_value.collation),
            Column(cte.cycle.path, oids.RECORD_ARRAY),
        )
        hidden += 2
    added = scope.add_rte(
        Rte(
            RteKind.CTE,
            refname,
            columns,
            alias=alias.name if alias is not None else None,
            alias_columns=alias.columns if alias is not None else (),
            cte=name.name,
            cte_levelsup=levels,
            self_reference=cte.query is None,
        )
    )
    if levels and hidden:
        shown = len(added.columns) - hidden
        added.columns = (*added.columns[:shown], *(replace(c, expands=False) for c in added.columns[shown:]))
    return added


_SAMPLING = {"bernoulli": oids.FLOAT4, "system": oids.FLOAT4}


def _sampled(scope: Scope, item: RangeTableSample) -> NsItem:
    """TABLESAMPLE, as transformRangeTableSample does."""
    added = _relation(scope, item.relation)
    rte = added.rte
    if rte.kind is not RteKind.RELATION or rte.relkind not in "rmp":
        message = "TABLESAMPLE clause can only be applied to tables and materialized views"
        raise PgError("0A000", message, location=item.relation.location)
    method = ".".join(item.method)
    procs = [p for p in builtin.procs_by_name(item.method[-1]) if p.argtypes == (oids.INTERNAL,)]
    if not procs or item.method[-1] not in _SAMPLING:
        raise PgError("42704", f"tablesample method {method} does not exist", location=item.location)
    if len(item.args) != 1:
        message = f"tablesample method {method} requires 1 argument, not {len(item.args)}"
        raise PgError("2202H", message, location=item.location)
    args = [transform(scope, arg, ExprKind.FROM_FUNCTION) for arg in item.args]
    args = [coerce_to_specific(scope, arg, _SAMPLING[item.method[-1]], "TABLESAMPLE") for arg in args]
    repeatable = None
    if item.repeatable is not None:
        repeatable = transform(scope, item.repeatable, ExprKind.FROM_FUNCTION)
        repeatable = assign_collations(coerce_to_specific(scope, repeatable, oids.FLOAT8, "REPEATABLE"))
    sample = TableSample(procs[0].oid, tuple(assign_collations(arg) for arg in args), repeatable)
    added.rte = scope.rtable[added.varno - 1] = replace(rte, sample=sample)
    return added
