"""FROM, INSERT, UPDATE, DELETE, MERGE, TRUNCATE."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.sql.building import build
from pgrepl.sql.building.names import Indirection
from pgrepl.sql.building.select import checked
from pgrepl.sql.nodes import (
    Alias,
    ColumnDefinition,
    Expr,
    FromItem,
    IndexElem,
    JoinExpr,
    JoinType,
    MergeWhen,
    MultiAssign,
    OnConflictClause,
    RangeFunction,
    RangeTableSample,
    RangeVar,
    ResTarget,
    ReturningClause,
    RowVersion,
    UpdateStmt,
    WithClause,
)

_Columns = list[ColumnDefinition]
_FuncAlias = tuple["Alias | None", _Columns]
_JoinQual = Expr | tuple[list[str], "str | None"]


@build
def alias(location: int, name: str, columns: list[str] | None = None) -> Alias:
    return Alias(name, tuple(columns or ()))


def with_alias(relation: RangeVar, alias: Alias | None) -> RangeVar:
    return RangeVar(
        relation.name, relation.schema, relation.catalog, relation.inh, alias, relation.location, relation.persistence
    )


@build
def aliased_relation(location: int, relation: RangeVar, alias: Alias) -> RangeVar:
    return with_alias(relation, alias)


@build
def sampled_relation(
    location: int, relation: RangeVar, alias: Alias | None, sample: RangeTableSample
) -> RangeTableSample:
    return replace(sample, relation=with_alias(relation, alias))


# ------------------------------------------------------------------------------------------------ functions


@build
def rows_from(location: int, functions: list[tuple[Expr, _Columns | None]], ordinality: bool) -> RangeFunction:
    items = tuple((function, tuple(columns or ())) for function, columns in functions)
    return RangeFunction(items, ordinality=ordinality, rows_from=True)


@build
def table_function(location: int, function: RangeFunction, alias: _FuncAlias, lateral: bool = False) -> RangeFunction:
    return replace(function, alias=alias[0], coldefs=tuple(alias[1]), lateral=lateral)


@build
def lateral_table_function(location: int, function: RangeFunction, alias: _FuncAlias) -> RangeFunction:
    return table_function(location, function, alias, True)


# ------------------------------------------------------------------------------------------------ joins


@build
def join(location: int, left: FromItem, kind: JoinType, right: FromItem, qual: _JoinQual) -> JoinExpr:
    if isinstance(qual, tuple):
        columns, name = qual
        return JoinExpr(kind, False, left, right, tuple(columns), Alias(name) if name is not None else None)
    return JoinExpr(kind, False, left, right, quals=qual)


@build
def plain_join(location: int, left: FromItem, right: FromItem, qual: _JoinQual) -> JoinExpr:
    return join(location, left, JoinType.INNER, right, qual)


# --- dml --------------------------------------------------------------------------------------------------------------


_Targets = list[ResTarget]

# ------------------------------------------------------------------------------------------------ relations and columns


@build
def relation_without_alias(location: int, relation: RangeVar) -> RangeVar:
    return relation


@build
def relation_as(location: int, relation: RangeVar, name: str) -> RangeVar:
    return with_alias(relation, Alias(name))


@build
def insert_column(location: int, name: str, indirection: Indirection | None) -> ResTarget:
    return ResTarget(None, name, tuple(checked(indirection)) if indirection else (), location)


# ------------------------------------------------------------------------------------------------ INSERT


_ConflictTarget = tuple[list[IndexElem], "Expr | None", int]


def _on_conflict(location: int, target: _ConflictTarget | str | None, do_nothing: bool) -> OnConflictClause:
    if isinstance(target, str):
        return OnConflictClause(do_nothing, constraint=target, location=location)
    elements, where, place = target or ((), None, -1)
    return OnConflictClause(do_nothing, tuple(elements), where, location=location, target_location=place)


@build
def conflict_nothing(location: int, target: _ConflictTarget | str | None) -> OnConflictClause:
    return _on_conflict(location, target, True)


@build
def conflict_update(
    location: int, target: _ConflictTarget | str | None, clauses: list[_Targets], where: Expr | None
) -> OnConflictClause:
    return replace(_on_conflict(location, target, False), targets=_flat(clauses), where=where)


# ------------------------------------------------------------------------------------------------ UPDATE, DELETE


def _flat(clauses: list[_Targets]) -> tuple[ResTarget, ...]:
    return tuple(target for targets in clauses for target in targets)


@build
def set_several(location: int, targets: _Targets, source: Expr) -> _Targets:
    """(a, b) = …: each column gets its part of the shared source."""
    count = len(targets)
    return [replace(target, value=MultiAssign(source, number, count)) for number, target in enumerate(targets, 1)]


@build
def update(
    location: int,
    with_: WithClause | None,
    relation: RangeVar,
    clauses: list[_Targets],
    from_: list[FromItem],
    where: Expr | None,
    returning: ReturningClause | None,
) -> UpdateStmt:
    return UpdateStmt(relation, _flat(clauses), tuple(from_), where, returning, with_)


@build
def row_version(location: int, is_new: bool, alias: str) -> RowVersion:
    return RowVersion("new" if is_new else "old", alias, location)


# ------------------------------------------------------------------------------------------------ MERGE


@build
def merge_update(location: int, match: str, condition: Expr | None, clauses: list[_Targets]) -> MergeWhen:
    return MergeWhen(match, "UPDATE", condition, _flat(clauses))
