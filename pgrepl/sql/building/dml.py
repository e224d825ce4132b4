"""FROM, INSERT, UPDATE, DELETE, MERGE, TRUNCATE."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.sql import nodes
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Indirection
from pgrepl.sql.building.select import checked
from pgrepl.sql.nodes import Alias, Expr

_Columns = list[nodes.ColumnDefinition]
_FuncAlias = tuple["Alias | None", _Columns]
_JoinQual = Expr | tuple[list[str], "str | None"]


@build
def alias(location: int, name: str, columns: list[str] | None = None) -> Alias:
    return Alias(name, tuple(columns or ()))


def with_alias(relation: nodes.RangeVar, alias: Alias | None) -> nodes.RangeVar:
    return nodes.RangeVar(
        relation.name, relation.schema, relation.catalog, relation.inh, alias, relation.location, relation.persistence
    )


@build
def aliased_relation(location: int, relation: nodes.RangeVar, alias: Alias) -> nodes.RangeVar:
    return with_alias(relation, alias)


@build
def sampled_relation(
    location: int, relation: nodes.RangeVar, alias: Alias | None, sample: nodes.RangeTableSample
) -> nodes.RangeTableSample:
    return replace(sample, relation=with_alias(relation, alias))


# ------------------------------------------------------------------------------------------------ functions


@build
def rows_from(location: int, functions: list[tuple[Expr, _Columns | None]], ordinality: bool) -> nodes.RangeFunction:
    items = tuple((function, tuple(columns or ())) for function, columns in functions)
    return nodes.RangeFunction(items, ordinality=ordinality, rows_from=True)


@build
def table_function(
    location: int, function: nodes.RangeFunction, alias: _FuncAlias, lateral: bool = False
) -> nodes.RangeFunction:
    return replace(function, alias=alias[0], coldefs=tuple(alias[1]), lateral=lateral)


@build
def lateral_table_function(location: int, function: nodes.RangeFunction, alias: _FuncAlias) -> nodes.RangeFunction:
    return table_function(location, function, alias, True)


# ------------------------------------------------------------------------------------------------ joins


@build
def join(
    location: int, left: nodes.FromItem, kind: nodes.JoinType, right: nodes.FromItem, qual: _JoinQual
) -> nodes.JoinExpr:
    if isinstance(qual, tuple):
        columns, name = qual
        return nodes.JoinExpr(kind, False, left, right, tuple(columns), Alias(name) if name is not None else None)
    return nodes.JoinExpr(kind, False, left, right, quals=qual)


@build
def plain_join(location: int, left: nodes.FromItem, right: nodes.FromItem, qual: _JoinQual) -> nodes.JoinExpr:
    return join(location, left, nodes.JoinType.INNER, right, qual)


# --- dml --------------------------------------------------------------------------------------------------------------


_Targets = list[nodes.ResTarget]

# ------------------------------------------------------------------------------------------------ relations and columns


@build
def relation_without_alias(location: int, relation: nodes.RangeVar) -> nodes.RangeVar:
    return relation


@build
def relation_as(location: int, relation: nodes.RangeVar, name: str) -> nodes.RangeVar:
    return with_alias(relation, Alias(name))


@build
def insert_column(location: int, name: str, indirection: Indirection | None) -> nodes.ResTarget:
    return nodes.ResTarget(None, name, tuple(checked(indirection)) if indirection else (), location)


# ------------------------------------------------------------------------------------------------ INSERT


_ConflictTarget = tuple[list[nodes.IndexElem], "Expr | None", int]


def _on_conflict(location: int, target: _ConflictTarget | str | None, do_nothing: bool) -> nodes.OnConflictClause:
    if isinstance(target, str):
        return nodes.OnConflictClause(do_nothing, constraint=target, location=location)
    elements, where, place = target or ((), None, -1)
    return nodes.OnConflictClause(do_nothing, tuple(elements), where, location=location, target_location=place)


@build
def conflict_nothing(location: int, target: _ConflictTarget | str | None) -> nodes.OnConflictClause:
    return _on_conflict(location, target, True)


@build
def conflict_update(
    location: int, target: _ConflictTarget | str | None, clauses: list[_Targets], where: Expr | None
) -> nodes.OnConflictClause:
    return replace(_on_conflict(location, target, False), targets=_flat(clauses), where=where)


# ------------------------------------------------------------------------------------------------ UPDATE, DELETE


def _flat(clauses: list[_Targets]) -> tuple[nodes.ResTarget, ...]:
    return tuple(target for targets in clauses for target in targets)


@build
def set_several(location: int, targets: _Targets, source: Expr) -> _Targets:
    """(a, b) = …: each column gets its part of the shared source."""
    count = len(targets)
    return [replace(target, value=nodes.MultiAssign(source, number, count)) for number, target in enumerate(targets, 1)]


@build
def update(
    location: int,
    with_: nodes.WithClause | None,
    relation: nodes.RangeVar,
    clauses: list[_Targets],
    from_: list[nodes.FromItem],
    where: Expr | None,
    returning: nodes.ReturningClause | None,
) -> nodes.UpdateStmt:
    return nodes.UpdateStmt(relation, _flat(clauses), tuple(from_), where, returning, with_)


@build
def row_version(location: int, is_new: bool, alias: str) -> nodes.RowVersion:
    return nodes.RowVersion("new" if is_new else "old", alias, location)


# ------------------------------------------------------------------------------------------------ MERGE


@build
def merge_update(location: int, match: str, condition: Expr | None, clauses: list[_Targets]) -> nodes.MergeWhen:
    return nodes.MergeWhen(match, "UPDATE", condition, _flat(clauses))
