"""JSON_TABLE in FROM (parse_jsontable.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.json_queries import query_function
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.lookup import read_value
from pgrepl.expr.scope import NsItem, Scope
from pgrepl.expr.tree import CaseTestExpr, Column, Expr, JsonTableExpr, JsonTableScan, Rte, RteKind
from pgrepl.expr.typenames import type_of_name
from pgrepl.expr.walk import has_vars
from pgrepl.sql import nodes
from pgrepl.sql.nodes import AConst, AConstKind, JsonTableColumn, JsonTablePath
from pgrepl.types import builtin, oids
from pgrepl.types.json import escape_json

_FUNCTIONS = {"regular": "JSON_VALUE", "exists": "JSON_EXISTS", "formatted": "JSON_QUERY"}


def transform_json_table(scope: Scope, table: nodes.JsonTable) -> NsItem:
    if table.on_error is not None and table.on_error.kind not in ("ERROR", "EMPTY ARRAY"):
        detail = "Only EMPTY [ ARRAY ] or ERROR is allowed in the top-level ON ERROR clause."
        raise PgError("42601", "invalid ON ERROR behavior", detail=detail, location=table.on_error.location)
    saved, scope.kind = scope.kind, ExprKind.FROM_FUNCTION
    scope.lateral_active = True
    found = _Columns(scope, table)
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
    found.check_names(table.columns)
    scan = found.scan(found.root, table.columns)
    scope.lateral_active = False
    scope.kind = saved
    columns = tuple(found.columns)
    expr = JsonTableExpr(
        oids.RECORD,
        location=table.location,
        document=document,
        exprs=tuple(found.exprs),
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


def _string(text: str, location: int) -> AConst:
    return AConst(AConstKind.STRING, text, location)


def _is_composite(typoid: int) -> bool:
    """Whether JSON_QUERY makes values of the type better than JSON_VALUE (isCompositeType)."""
    typoid = typefacts.base(typoid)
    if typoid in (oids.JSON, oids.JSONB, oids.RECORD) or typefacts.is_array(typoid):
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

    def named(self, path: JsonTablePath) -> JsonTablePath:
        if path.name is not None:
            return path
        name = f"json_table_path_{self.unnamed}"
        self.unnamed += 1
        return replace(path, name=name)

    def check_names(self, columns: Sequence[JsonTableColumn]) -> None:
        """As CheckDuplicateColumnOrPathNames does."""
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

    def scan(self, path: JsonTablePath, columns: Sequence[JsonTableColumn]) -> JsonTableScan:
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
        self.columns.append(Column(name, typoid, typmod, typefacts.collation(typoid)))
        self.exprs.append(expr)

    def _column(self, column: JsonTableColumn) -> Expr:
        """A column's value as a function over the row's item (transformJsonTableColumn)."""
        assert column.type_name is not None
        kind = column.kind
        if kind == "regular":
            typoid, _ = type_of_name(self.scope.session, column.type_name)
            if _is_composite(typoid) or column.quotes or column.wrapper:
                kind = "formatted"
        path = column.path if column.path is not None else JsonTablePath("$." + escape_json(column.name))
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
