"""FROM, INSERT, UPDATE, DELETE, MERGE, TRUNCATE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pgrepl.sql.building import build
from pgrepl.sql.building.expression import checked
from pgrepl.sql.building.names import Indirection, Names
from pgrepl.sql.nodes import (
    Alias,
    ColumnDefinition,
    CurrentOf,
    DeleteStmt,
    Expr,
    FromItem,
    IndexElem,
    InsertStmt,
    JoinExpr,
    JoinType,
    MergeStmt,
    MergeWhen,
    MultiAssign,
    OnConflictClause,
    RangeFunction,
    RangeSubselect,
    RangeTableSample,
    RangeVar,
    ResTarget,
    ReturningClause,
    RowVersion,
    SelectStmt,
    TruncateStmt,
    TypeName,
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
        relation.name,
        relation.schema,
        relation.catalog,
        relation.inh,
        alias,
        relation.location,
        relation.persistence,
    )


@build
def aliased_relation(location: int, relation: RangeVar, alias: Alias) -> RangeVar:
    return with_alias(relation, alias)


@build(at=2)
def tablesample(location: int, method: Names, args: list[Expr], repeatable: Expr | None) -> RangeTableSample:
    return RangeTableSample(RangeVar(""), method, tuple(args), repeatable, location)


@build
def sampled_relation(
    location: int, relation: RangeVar, alias: Alias | None, sample: RangeTableSample
) -> RangeTableSample:
    return replace(sample, relation=with_alias(relation, alias))


@build
def subquery(location: int, query: SelectStmt, alias: Alias | None) -> RangeSubselect:
    return RangeSubselect(query, alias)


@build
def lateral_subquery(location: int, query: SelectStmt, alias: Alias | None) -> RangeSubselect:
    return RangeSubselect(query, alias, True)


# ------------------------------------------------------------------------------------------------ functions


@build
def table_func_column(location: int, name: str, type_name: TypeName, collation: Names | None) -> ColumnDefinition:
    return ColumnDefinition(name, type_name, collation or (), location)


@build
def func_table(location: int, function: Expr, ordinality: bool) -> RangeFunction:
    return RangeFunction(((function, ()),), ordinality=ordinality)


@build
def rows_from(location: int, functions: list[tuple[Expr, _Columns | None]], ordinality: bool) -> RangeFunction:
    items = tuple((function, tuple(columns or ())) for function, columns in functions)
    return RangeFunction(items, ordinality=ordinality, rows_from=True)


@build
def alias_only(location: int, alias: Alias) -> _FuncAlias:
    return alias, []


@build
def columns_only(location: int, columns: _Columns) -> _FuncAlias:
    return None, columns


@build
def alias_and_columns(location: int, name: str, columns: _Columns) -> _FuncAlias:
    return Alias(name), columns


@build
def no_func_alias(location: int) -> _FuncAlias:
    return None, []


@build
def table_function(location: int, function: RangeFunction, alias: _FuncAlias, lateral: bool = False) -> RangeFunction:
    return replace(function, alias=alias[0], coldefs=tuple(alias[1]), lateral=lateral)


@build
def lateral_table_function(location: int, function: RangeFunction, alias: _FuncAlias) -> RangeFunction:
    return table_function(location, function, alias, True)


# ------------------------------------------------------------------------------------------------ joins

for _type in (JoinType.FULL, JoinType.LEFT, JoinType.RIGHT, JoinType.INNER):
    build(f"{_type.value}_join")(lambda location, *_, kind=_type: kind)


@build
def cross_join(location: int, left: FromItem, right: FromItem) -> JoinExpr:
    return JoinExpr(JoinType.CROSS, False, left, right)


@build
def join(location: int, left: FromItem, kind: JoinType, right: FromItem, qual: _JoinQual) -> JoinExpr:
    if isinstance(qual, tuple):
        columns, name = qual
        return JoinExpr(kind, False, left, right, tuple(columns), Alias(name) if name is not None else None)
    return JoinExpr(kind, False, left, right, quals=qual)


@build
def plain_join(location: int, left: FromItem, right: FromItem, qual: _JoinQual) -> JoinExpr:
    return join(location, left, JoinType.INNER, right, qual)


@build
def natural_join(location: int, left: FromItem, kind: JoinType, right: FromItem) -> JoinExpr:
    return JoinExpr(kind, True, left, right)


@build
def plain_natural_join(location: int, left: FromItem, right: FromItem) -> JoinExpr:
    return JoinExpr(JoinType.INNER, True, left, right)


@build
def aliased_join(location: int, item: JoinExpr, alias: Alias) -> JoinExpr:
    return replace(item, alias=alias)


# --- dml --------------------------------------------------------------------------------------------------------------


_Targets = list[ResTarget]

# ------------------------------------------------------------------------------------------------ relations and columns


@build
def relation_without_alias(location: int, relation: RangeVar) -> RangeVar:
    return relation


@build("relation_as", "insert_alias")
def relation_as(location: int, relation: RangeVar, name: str) -> RangeVar:
    return with_alias(relation, Alias(name))


@build
def insert_column(location: int, name: str, indirection: Indirection | None) -> ResTarget:
    return ResTarget(None, name, tuple(checked(indirection)) if indirection else (), location)


@build
def current_of(location: int, cursor: str) -> CurrentOf:
    return CurrentOf(cursor)


# ------------------------------------------------------------------------------------------------ INSERT


@build
def insert_query(location: int, query: SelectStmt) -> dict[str, Any]:
    return {"columns": (), "select": query}


@build
def insert_overriding(location: int, overriding: str, query: SelectStmt) -> dict[str, Any]:
    return {"columns": (), "select": query, "overriding": overriding.upper()}


@build
def insert_columns(location: int, columns: _Targets, query: SelectStmt) -> dict[str, Any]:
    return {"columns": tuple(columns), "select": query}


@build
def insert_columns_overriding(location: int, columns: _Targets, overriding: str, query: SelectStmt) -> dict[str, Any]:
    return {"columns": tuple(columns), "select": query, "overriding": overriding.upper()}


@build
def insert_defaults(location: int) -> dict[str, Any]:
    return {"columns": (), "select": None}


@build
def insert(
    location: int,
    with_: WithClause | None,
    relation: RangeVar,
    rest: dict[str, Any],
    on_conflict: OnConflictClause | None,
    returning: ReturningClause | None,
) -> InsertStmt:
    return InsertStmt(relation, **rest, on_conflict=on_conflict, returning=returning, with_=with_)


_ConflictTarget = tuple[list[IndexElem], "Expr | None", int]


@build
def conflict_index(location: int, elements: list[IndexElem], where: Expr | None) -> _ConflictTarget:
    return elements, where, location


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
def set_one(location: int, target: ResTarget, value: Expr) -> _Targets:
    return [replace(target, value=value)]


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
def delete(
    location: int,
    with_: WithClause | None,
    relation: RangeVar,
    using: list[FromItem],
    where: Expr | None,
    returning: ReturningClause | None,
) -> DeleteStmt:
    return DeleteStmt(relation, tuple(using), where, returning, with_)


@build
def returning(location: int, targets: _Targets) -> ReturningClause:
    return ReturningClause(tuple(targets))


@build(at=2)
def returning_with(location: int, versions: list[RowVersion], targets: _Targets) -> ReturningClause:
    return ReturningClause(tuple(targets), tuple(versions), location)


@build
def row_version(location: int, is_new: bool, alias: str) -> RowVersion:
    return RowVersion("new" if is_new else "old", alias, location)


# ------------------------------------------------------------------------------------------------ MERGE


@build
def merge(
    location: int,
    with_: WithClause | None,
    relation: RangeVar,
    source: FromItem,
    condition: Expr,
    whens: list[MergeWhen],
    returning: ReturningClause | None,
) -> MergeStmt:
    return MergeStmt(relation, source, condition, tuple(whens), returning, with_)


for _alias in ("matched", "not_matched", "not_matched_by_source"):
    build(_alias)(lambda location, match=_alias.upper().replace("_", " "): match)


@build
def merge_update(location: int, match: str, condition: Expr | None, clauses: list[_Targets]) -> MergeWhen:
    return MergeWhen(match, "UPDATE", condition, _flat(clauses))


@build
def merge_delete(location: int, match: str, condition: Expr | None) -> MergeWhen:
    return MergeWhen(match, "DELETE", condition)


@build
def merge_nothing(location: int, match: str, condition: Expr | None) -> MergeWhen:
    return MergeWhen(match, "NOTHING", condition)


@build
def merge_insert(location: int, columns: _Targets | None, overriding: str | None, values: list[Expr]) -> MergeWhen:
    return MergeWhen(
        "", "INSERT", None, tuple(columns or ()), tuple(values), overriding.upper() if overriding else None
    )


@build
def merge_insert_defaults(location: int) -> MergeWhen:
    return MergeWhen("", "INSERT")


@build
def merge_insert_when(location: int, match: str, condition: Expr | None, insert: MergeWhen) -> MergeWhen:
    return replace(insert, match=match, condition=condition)


# ------------------------------------------------------------------------------------------------ TRUNCATE


@build
def truncate(location: int, _: None, relations: list[RangeVar], restart: bool, cascade: bool) -> TruncateStmt:
    return TruncateStmt(tuple(relations), restart, cascade)
