"""Functions in FROM: ROWS FROM, unnest, column definition lists (transformRangeFunction), JSON_TABLE
(parse_jsontable.c); and `t_at(moment)`, the table t as of a time or an LSN, if there is no function of this name.

Where the table's past is kept (catalog/facts/history.py) it is a subquery over its versions, and an LSN is one of the
publisher's. Otherwise the lake's snapshots are read, as far back as they are kept, and an LSN is one of the lake's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import history
from pgrepl.catalog.facts.acl import check_table_privilege
from pgrepl.catalog.facts.namespace import routine, routines_named
from pgrepl.catalog.facts.relation import Relation, find_relation
from pgrepl.catalog.facts.relation_parts import is_active
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import column_collation, type_of_name
from pgrepl.expr.analyse.coerce import coerce_to_specific
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.json_queries import query_function
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.lookup import read_value, relation_rte
from pgrepl.expr.analyse.scope import NsItem, Scope
from pgrepl.expr.analyse.targets import column_name, function_columns
from pgrepl.expr.analyse.transform import transform
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.tree import CaseTestExpr, Column, Expr, FuncExpr, JsonTableExpr, JsonTableScan, RowExpr, Rte, RteKind
from pgrepl.expr.walk import has_vars, location_of
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql import nodes
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.parser import parse
from pgrepl.types import builtin, oids
from pgrepl.types.json import escape_json

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


MAX_COLUMNS = 1600  # MaxHeapAttributeNumber


def transform_functions(scope: Scope, item: nodes.RangeFunction) -> NsItem:
    scope.lateral_active = True
    calls: list[tuple[Expr, str, Sequence[nodes.ColumnDefinition]]] = []
    for raw, coldefs in item.functions:
        for part in _unnested(raw, coldefs):
            calls.append((_function(scope, part), column_name(part, scope), coldefs))
        if coldefs and item.coldefs:
            message = "multiple column definition lists are not allowed for the same function"
            raise PgError("42601", message, location=item.coldefs[0].location)
    scope.lateral_active = False
    calls = [(assign_collations(call), name, coldefs) for call, name, coldefs in calls]
    if item.coldefs:
        _check_coldefs(item, len(calls))
        call, name, _ = calls[0]
        calls = [(call, name, item.coldefs)]
    lateral = item.lateral or any(has_vars(call) for call, _, _ in calls)
    return scope.add_rte(_function_rte(scope, item, calls, lateral))


def _unnested(raw: nodes.Expr, coldefs: Sequence[nodes.ColumnDefinition]) -> list[nodes.Expr]:
    """unnest(a, b) is unnest(a) and unnest(b) side by side."""
    if (
        not isinstance(raw, nodes.FuncCall)
        or raw.name != ("unnest",)
        or len(raw.args) < 2
        or raw.agg_order
        or raw.agg_filter is not None
        or raw.over is not None
        or raw.star
        or raw.distinct
        or raw.variadic
        or coldefs
    ):
        return [raw]
    return [nodes.FuncCall(("pg_catalog", "unnest"), (arg,), location=raw.location) for arg in raw.args]


def _function(scope: Scope, raw: nodes.Expr) -> Expr:
    last_srf = scope.last_srf
    call = transform(scope, raw, ExprKind.FROM_FUNCTION)
    if scope.last_srf is not last_srf and scope.last_srf is not call:
        message = "set-returning functions must appear at top level of FROM"
        raise PgError("0A000", message, location=location_of(scope.last_srf))
    return call


def _check_coldefs(item: nodes.RangeFunction, count: int) -> None:
    location = item.coldefs[0].location
    if count != 1 and item.rows_from:
        raise PgError(
            "42601",
            "ROWS FROM() with multiple functions cannot have a column definition list",
            hint="Put a separate column definition list for each function inside ROWS FROM().",
            location=location,
        )
    if count != 1:
        raise PgError(
            "42601",
            "UNNEST() with multiple arguments cannot have a column definition list",
            hint="Use separate UNNEST() calls inside ROWS FROM(), and attach a column definition list to each one.",
            location=location,
        )
    if item.ordinality:
        raise PgError(
            "42601",
            "WITH ORDINALITY cannot be used with a column definition list",
            hint="Put the column definition list inside ROWS FROM().",
            location=location,
        )


def _function_rte(
    scope: Scope,
    item: nodes.RangeFunction,
    calls: Sequence[tuple[Expr, str, Sequence[nodes.ColumnDefinition]]],
    lateral: bool,
) -> Rte:
    """The range table entry of functions in FROM (addRangeTableEntryForFunction)."""
    alias = item.alias
    name = alias.name if alias is not None else calls[0][1]
    columns: list[Column] = []
    counts: list[int] = []
    for call, function, coldefs in calls:
        own = _columns(scope, call, function, coldefs, alias, len(calls))
        columns += own
        counts.append(len(own))
    if item.ordinality:
        columns.append(Column("ordinality", oids.INT8))
    names = alias.columns if alias is not None else ()
    if len(names) > len(columns):
        raise PgError(
            "42P10", f'table "{name}" has {len(columns)} columns available but {len(names)} columns specified'
        )
    columns = [replace(c, name=names[n]) if n < len(names) else c for n, c in enumerate(columns)]
    return Rte(
        RteKind.FUNCTION,
        name,
        tuple(columns),
        alias=alias.name if alias is not None else None,
        alias_columns=names,
        functions=tuple(call for call, _, _ in calls),
        function_columns=tuple(counts),
        function_coldefs=tuple(bool(coldefs) for _, _, coldefs in calls),
        ordinality=item.ordinality,
        lateral=lateral,
    )


def _columns(
    scope: Scope,
    call: Expr,
    function: str,
    coldefs: Sequence[nodes.ColumnDefinition],
    alias: nodes.Alias | None,
    count: int,
) -> list[Column]:
    """The columns that one function returns."""
    known = function_columns(scope, call)
    if known is None and isinstance(call, RowExpr):
        known = tuple(Column(n, a.type, a.typmod, a.collation) for n, a in zip(call.names, call.args, strict=True))
    if coldefs:
        _check_coldefs_wanted(call, known, coldefs[0].location)
        return _defined(scope, coldefs)
    if known is not None:
        return [c for c in known if not c.dropped]
    if call.type == oids.RECORD:
        message = 'a column definition list is required for functions returning "record"'
        raise PgError("42601", message, location=location_of(call))
    type_row = builtin.type_by_oid(call.type)
    if type_row is not None and type_row.typtype == "p" and call.type not in (oids.VOID, oids.CSTRING):
        text = lookup.type_text(scope.session, call.type)
        message = f'function "{function}" in FROM has unsupported return type {text}'
        raise PgError("42804", message, location=location_of(call))
    name = _result_name(scope, call)
    if name is None:
        name = alias.name if count == 1 and alias is not None else function
    return [Column(name, call.type, call.typmod, call.collation)]


def _check_coldefs_wanted(call: Expr, known: Sequence[Column] | None, location: int) -> None:
    if known is None and call.type == oids.RECORD:
        return
    if known is not None and call.type == oids.RECORD:
        problem = "a column definition list is redundant for a function with OUT parameters"
    elif known is not None:
        problem = "a column definition list is redundant for a function returning a named composite type"
    else:
        problem = 'a column definition list is only allowed for functions returning "record"'
    raise PgError("42601", problem, location=location)


def _defined(scope: Scope, coldefs: Sequence[nodes.ColumnDefinition]) -> list[Column]:
    if len(coldefs) > MAX_COLUMNS:
        message = f"column definition lists can have at most {MAX_COLUMNS} entries"
        raise PgError("54011", message, location=coldefs[0].location)
    columns: list[Column] = []
    for coldef in coldefs:
        if coldef.type_name.setof:
            message = f'column "{coldef.name}" cannot be declared SETOF'
            raise PgError("42P16", message, location=coldef.location)
        typoid, typmod = type_of_name(scope.session, coldef.type_name)
        collation = column_collation(scope.session, coldef.collation, coldef.location, typoid)
        if any(c.name == coldef.name for c in columns):
            raise PgError("42701", f'column name "{coldef.name}" specified more than once')
        columns.append(Column(coldef.name, typoid, typmod, collation))
    return columns


def _result_name(scope: Scope, call: Expr) -> str | None:
    """The name of a function's only OUT parameter (get_func_result_name)."""
    if not isinstance(call, FuncExpr):
        return None
    proc = routine(scope.session, call.func)
    if proc is None or proc.argmodes is None or proc.argnames is None:
        return None
    outs = [n for n, mode in enumerate(proc.argmodes) if mode in ("o", "b", "t")]
    return proc.argnames[outs[0]] or None if len(outs) == 1 else None


# --- json table -------------------------------------------------------------------------------------------------------


_FUNCTIONS = {"regular": "JSON_VALUE", "exists": "JSON_EXISTS", "formatted": "JSON_QUERY"}


def transform_json_table(scope: Scope, table: nodes.JsonTable) -> NsItem:
    if table.on_error is not None and table.on_error.kind not in ("ERROR", "EMPTY ARRAY"):
        detail = "Only EMPTY [ ARRAY ] or ERROR is allowed in the top-level ON ERROR clause."
        raise PgError("42601", "invalid ON ERROR behavior", detail=detail, location=table.on_error.location)
    saved, scope.kind = scope.kind, ExprKind.FROM_FUNCTION
    scope.lateral_active = True
    table_columns = _Columns(scope, table)
    document = query_function(
        nodes.JsonFuncExpr(
            "JSON_TABLE",
            table.context,
            _string(table.path.text, table.path.location),
            table.passing,
            on_error=table.on_error,
            location=table.location,
        ),
        scope,
    )
    table_columns.check_names(table.columns)
    scan = table_columns.scan(table_columns.root, table.columns)
    scope.lateral_active = False
    scope.kind = saved
    columns = tuple(table_columns.columns)
    expr = JsonTableExpr(
        oids.RECORD,
        location=table.location,
        document=document,
        exprs=tuple(table_columns.exprs),
        columns=columns,
        scan=scan,
    )
    alias = table.alias
    names = alias.columns if alias is not None else ()
    if len(names) > len(columns):
        message = f"JSON_TABLE function has {len(columns)} columns available but {len(names)} columns specified"
        raise PgError("42P10", message)
    return scope.add_rte(
        Rte(
            RteKind.FUNCTION,
            alias.name if alias is not None else "json_table",
            tuple(replace(c, name=names[n]) if n < len(names) else c for n, c in enumerate(columns)),
            alias=alias.name if alias is not None else None,
            alias_columns=names,
            functions=(expr,),
            function_columns=(len(columns),),
            function_coldefs=(False,),
            lateral=table.lateral or has_vars(expr),
        )
    )


def _string(text: str, location: int) -> nodes.AConst:
    return nodes.AConst(nodes.AConstKind.STRING, text, location)


def _is_composite(typoid: int) -> bool:
    """Whether JSON_QUERY makes values of the type better than JSON_VALUE (isCompositeType)."""
    typoid = lookup.base(typoid)
    if typoid in (oids.JSON, oids.JSONB, oids.RECORD) or lookup.is_array(typoid):
        return True
    known = builtin.type_by_oid(typoid)
    return known is None or known.typtype == "c"


class _Columns:
    """The columns of one JSON_TABLE: each path's own before those of its nested paths."""

    def __init__(self, scope: Scope, table: nodes.JsonTable) -> None:
        self.scope = scope
        self.passing = table.passing
        self.columns: list[Column] = []
        self.exprs: list[Expr | None] = []
        self.unnamed = 0
        self.root = self.named(table.path)
        self.names = [self.root.name]

    def named(self, path: nodes.JsonTablePath) -> nodes.JsonTablePath:
        if path.name is not None:
            return path
        name = f"json_table_path_{self.unnamed}"
        self.unnamed += 1
        return replace(path, name=name)

    def check_names(self, columns: Sequence[nodes.JsonTableColumn]) -> None:
        """Raises for a column name that JSON_TABLE has twice (CheckDuplicateColumnOrPathNames)."""
        for column in columns:
            if column.kind != "nested":
                self._add_name(column.name, column.location)
            elif column.path is not None and column.path.name is not None:
                self._add_name(column.path.name, column.path.name_location)
            self.check_names(column.columns)

    def _add_name(self, name: str, location: int) -> None:
        if name in self.names:
            message = f"duplicate JSON_TABLE column or path name: {name}"
            raise PgError("42712", message, location=location)
        self.names.append(name)

    def scan(self, path: nodes.JsonTablePath, columns: Sequence[nodes.JsonTableColumn]) -> JsonTableScan:
        first = len(self.columns)
        has_ordinality = False
        for column in columns:
            if column.kind == "ordinality":
                if has_ordinality:
                    message = "only one FOR ORDINALITY column is allowed"
                    raise PgError("42601", message, location=column.location)
                has_ordinality = True
                self._add(column.name, None)
            elif column.kind != "nested":
                self._add(column.name, self._column(column))
        last = len(self.columns)
        text: str = read_value(self.scope.session, path.text, oids.JSONPATH, -1)
        nested = []
        for column in columns:
            if column.kind == "nested":
                assert column.path is not None
                nested.append(self.scan(self.named(column.path), column.columns))
        return JsonTableScan(text, path.name or "", first, last, tuple(nested))

    def _add(self, name: str, expr: Expr | None) -> None:
        typoid, typmod = (oids.INT4, -1) if expr is None else (expr.type, expr.typmod)
        self.columns.append(Column(name, typoid, typmod, lookup.collation(typoid)))
        self.exprs.append(expr)

    def _column(self, column: nodes.JsonTableColumn) -> Expr:
        """A column's value as a function over the row's item (transformJsonTableColumn)."""
        assert column.type_name is not None
        kind = column.kind
        if kind == "regular":
            typoid, _ = type_of_name(self.scope.session, column.type_name)
            if _is_composite(typoid) or column.quotes or column.wrapper:
                kind = "formatted"
        path = column.path if column.path is not None else nodes.JsonTablePath("$." + escape_json(column.name))
        function = nodes.JsonFuncExpr(
            _FUNCTIONS[kind],
            nodes.JsonValue(_string("", -1)),
            _string(path.text, path.location),
            self.passing,
            nodes.JsonOutput(column.type_name, column.format),
            column.wrapper,
            column.quotes,
            column.on_empty,
            column.on_error,
            column.name,
            column.location,
        )
        return assign_collations(query_function(function, self.scope, CaseTestExpr(oids.JSONB)))


_SUFFIX = "_at"
_LSN = re.compile(r"\s*[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}\s*")
_TIMES = (oids.TIMESTAMPTZ, oids.TIMESTAMP, oids.DATE)


def past_of(scope: Scope, item: nodes.RangeFunction) -> nodes.RangeSubselect | NsItem | None:
    """What a call of t_at stands for; None: it is none."""
    (call, _), *others = item.functions
    if others or item.ordinality or item.coldefs or not isinstance(call, nodes.FuncCall) or len(call.args) != 1:
        return None
    *schema, name = call.name
    if len(schema) > 1 or not name.endswith(_SUFFIX) or routines_named(scope.session, name):
        return None
    wanted = nodes.RangeVar(name.removesuffix(_SUFFIX), schema[0] if schema else None)
    table = find_relation(scope.session, wanted, missing_ok=True)
    if table is None or table.kind not in ("r", "p") or table.is_system:
        return None
    scope.lateral_active = True  # as of all functions in FROM
    moment = transform(scope, call.args[0], ExprKind.FROM_FUNCTION)
    scope.lateral_active = False
    is_lsn = moment.type == oids.PG_LSN or (moment.type == oids.UNKNOWN and _looks_like_lsn(call.args[0]))
    if not is_lsn and moment.type not in (*_TIMES, oids.UNKNOWN):
        return None
    alias = item.alias or nodes.Alias(name)
    log = history.log_of(scope.session, table)
    if log is not None:
        return nodes.RangeSubselect(_versions(scope.session, table, log, call.args[0], is_lsn), alias, True)
    check_table_privilege(scope.session, table, "SELECT")
    if is_active(scope.session, table):
        raise unsupported("the past of a table with row-level security", location=call.location)
    typoid = oids.PG_LSN if is_lsn else oids.TIMESTAMPTZ
    rte = relation_rte(table, alias.name, alias.columns)
    rows = PastRows(scope.session, table, coerce_to_specific(scope, moment, typoid, name), is_lsn)
    return scope.add_rte(replace(rte, kind=RteKind.VALUES, relid=0, rows=rows))


def _looks_like_lsn(raw: Any) -> bool:
    return isinstance(raw, nodes.AConst) and isinstance(raw.value, str) and _LSN.fullmatch(raw.value) is not None


def _versions(session: Session, table: Relation, log: Relation, moment: nodes.Expr, is_lsn: bool) -> nodes.SelectStmt:
    """The versions that were valid then. What the moment names is not looked for among their columns."""
    begin, end = ("valid_from_lsn", "valid_to_lsn") if is_lsn else ("valid_from", "valid_to")
    columns = ", ".join(f"v.{quote_identifier(column.name)}" for column in table.columns)
    kind = "pg_lsn" if is_lsn else "timestamptz"
    text = (
        f"SELECT {columns} FROM ({history.versions_sql(session, table, log)}) AS v"
        f" WHERE v.{begin} <= m.at AND (v.{end} > m.at OR v.{end} IS NULL)"
    )
    (raw,) = parse(text)
    assert isinstance(raw.stmt, nodes.SelectStmt)
    at = nodes.ResTarget(nodes.TypeCast(moment, nodes.TypeName(("pg_catalog", kind))), "at")
    return replace(raw.stmt, from_=(nodes.RangeSubselect(nodes.SelectStmt((at,)), nodes.Alias("m")), *raw.stmt.from_))


class PastRows(Sequence[tuple[Any, ...]]):
    """The rows of a table as of a moment, which are read when they are wanted."""

    unstored = "a view of the past of a table without history"

    def __init__(self, session: Session, table: Relation, moment: Expr, is_lsn: bool) -> None:
        self._session = session
        self._table = table
        self._moment = moment
        self._is_lsn = is_lsn

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        moment = compile(self._moment, Context(self._session))(())
        return iter(self._session.hooks.rows_at(self._session, self._table, moment, self._is_lsn))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]
