"""FROM: relations, subqueries, functions, samples, joins and their aliases."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.sql.build import build
from pgrepl.sql.build.names import Names
from pgrepl.sql.nodes import (
    Alias,
    ColumnDefinition,
    Expr,
    FromItem,
    JoinExpr,
    JoinType,
    RangeFunction,
    RangeSubselect,
    RangeTableSample,
    RangeVar,
    SelectStmt,
    TypeName,
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
