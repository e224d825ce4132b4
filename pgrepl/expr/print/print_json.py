"""SQL/JSON's expressions and JSON_TABLE as text (get_json_constructor, get_json_expr_options, get_json_table)."""

from __future__ import annotations

from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.print.print_calls import print_aggregate, print_window_function
from pgrepl.expr.print.print_expr import print_const, print_expr, print_part, simple_quote
from pgrepl.expr.print.printer import VAR, Printer, type_with_typmod
from pgrepl.sql.keywords import quote_identifier
from pgrepl.types import oids


@print_expr.register(tree.JsonValueExpr)
def _(expr: tree.JsonValueExpr, out: Printer, implicit: bool) -> None:
    assert expr.raw is not None
    print_expr(expr.raw, out, False)
    out.put(expr.format)


@print_expr.register(tree.JsonConstructorExpr)
def _(expr: tree.JsonConstructorExpr, out: Printer, implicit: bool) -> None:
    function = expr.function
    if isinstance(expr.aggregate, tree.Aggref):
        print_aggregate(expr.aggregate, out, function, _options(expr, out))
        return
    if isinstance(expr.aggregate, tree.WindowFunc):
        print_window_function(expr.aggregate, out, function, _options(expr, out))
        return
    out.put(f"{function}(")
    for number, arg in enumerate(expr.args):
        if number:
            out.put(" : " if function == "JSON_OBJECT" and number % 2 else ", ")
        print_expr(arg, out, True)
    out.put(_options(expr, out) + ")")


def _options(expr: tree.JsonConstructorExpr, out: Printer) -> str:
    text = ""
    if expr.absent_on_null and expr.function in ("JSON_OBJECT", "JSON_OBJECTAGG"):
        text = " ABSENT ON NULL"
    elif not expr.absent_on_null and expr.function in ("JSON_ARRAY", "JSON_ARRAYAGG"):
        text = " NULL ON NULL"
    if expr.unique:
        text += " WITH UNIQUE KEYS"
    if expr.function in ("JSON", "JSON_SCALAR"):
        return text
    return text + _returning(expr, out)


def _returning(expr: tree.JsonConstructorExpr | tree.JsonExpr, out: Printer) -> str:
    text = f" RETURNING {type_with_typmod(out.session, expr.type, expr.typmod)}"
    has_format = not (isinstance(expr, tree.JsonExpr) and expr.function == "JSON_VALUE")
    return text + (" FORMAT JSON" if has_format and expr.type == oids.JSONB and not expr.binary else "")


@print_expr.register(tree.JsonIsPredicate)
def _(expr: tree.JsonIsPredicate, out: Printer, implicit: bool) -> None:
    assert expr.arg is not None
    out.put("" if out.style.paren else "(")
    print_part(expr.arg, out, True, expr)
    out.put(" IS JSON" + (f" {expr.kind}" if expr.kind else "") + (" WITH UNIQUE KEYS" if expr.unique else ""))
    out.put("" if out.style.paren else ")")


@print_expr.register(tree.JsonExpr)
def _(expr: tree.JsonExpr, out: Printer, implicit: bool) -> None:
    assert expr.context is not None
    out.put(f"{expr.function}(")
    print_expr(expr.context, out, implicit)
    out.put(", ")
    print_path(expr, out, implicit)
    print_passing(expr, out, implicit)
    if expr.function != "JSON_EXISTS" or expr.type != oids.BOOL:
        out.put(_returning(expr, out))
    print_options(expr, out, "FALSE" if expr.function == "JSON_EXISTS" else "NULL")
    out.put(")")


def print_path(expr: tree.JsonExpr, out: Printer, implicit: bool) -> None:
    """A path with its name, where it is not the implicit one (get_json_path_spec)."""
    if isinstance(expr.path, tree.Const):
        print_const(expr.path, out, -1)
    else:
        assert expr.path is not None
        print_expr(expr.path, out, implicit)


def print_passing(expr: tree.JsonExpr, out: Printer, implicit: bool) -> None:
    for number, (arg, name) in enumerate(zip(expr.passing, expr.names, strict=True)):
        out.put(", " if number else " PASSING ")
        print_expr(arg, out, implicit)
        out.put(f" AS {quote_identifier(name)}")


def print_options(expr: tree.JsonExpr, out: Printer, otherwise: str) -> None:
    """The clauses of a JSON query function that differ from the defaults (get_json_expr_options)."""
    if expr.function == "JSON_QUERY":
        out.put(f" WITH {expr.wrapper} WRAPPER" if expr.wrapper else " WITHOUT WRAPPER")
        out.put(" OMIT QUOTES" if expr.omit_quotes else " KEEP QUOTES")
    for clause, kind, value in (("EMPTY", expr.on_empty, expr.empty_value), ("ERROR", expr.on_error, expr.error_value)):
        if kind and kind != otherwise:
            print_behavior(clause, kind, value, out)


def print_behavior(clause: str, kind: str, value: tree.Expr | None, out: Printer) -> None:
    out.put(f" {kind}")
    if kind == "DEFAULT":
        assert value is not None
        out.put(" ")
        print_expr(value, out, False)
    out.put(f" ON {clause}")


# --- print json table -------------------------------------------------------------------------------------------------


@print_expr.register(tree.JsonTableExpr)
def _(expr: tree.JsonTableExpr, out: Printer, implicit: bool) -> None:
    document, scan = expr.document, expr.scan
    assert isinstance(document, tree.JsonExpr) and document.context is not None and scan is not None
    out.put("JSON_TABLE(")
    _indent(out, VAR)
    out.keyword("", 0, 0, 0)
    print_expr(document.context, out, implicit)
    out.put(f", {simple_quote(scan.path, out)} AS {quote_identifier(scan.name)}")
    if document.passing:
        out.put(" ")
        out.keyword("PASSING ", 0, 0, 0)
        _indent(out, VAR)
        for number, (arg, name) in enumerate(zip(document.passing, document.names, strict=True)):
            out.put(", " if number else "")
            out.keyword("", 0, 0, 0)
            print_expr(arg, out, False)
            out.put(f" AS {quote_identifier(name)}")
        _indent(out, -VAR)
    _print_columns(expr, scan, out, implicit)
    if document.on_error != "EMPTY ARRAY":
        print_behavior("ERROR", document.on_error, document.error_value, out)
    _indent(out, -VAR)
    out.keyword(")", 0, 0, 0)


def _indent(out: Printer, by: int) -> None:
    if out.style.indent:
        out.indent += by


def _print_columns(expr: tree.JsonTableExpr, scan: tree.JsonTableScan, out: Printer, implicit: bool) -> None:
    out.put(" ")
    out.keyword("COLUMNS (", 0, 0, 0)
    _indent(out, VAR)
    for number in range(scan.first, scan.last):
        out.put(", " if number > scan.first else "")
        out.keyword("", 0, 0, 0)
        column, value = expr.columns[number], expr.exprs[number]
        out.put(quote_identifier(column.name) + " ")
        if value is None:
            out.put("FOR ORDINALITY")
            continue
        assert isinstance(value, tree.JsonExpr)
        out.put(type_with_typmod(out.session, column.type, column.typmod))
        if value.function == "JSON_EXISTS":
            out.put(" EXISTS")
        elif value.function == "JSON_QUERY" and lookup.category(column.type) == lookup.STRING_CATEGORY:
            out.put(" FORMAT JSON")
        out.put(" PATH ")
        print_path(value, out, implicit)
        print_options(value, out, "FALSE" if value.function == "JSON_EXISTS" else "NULL")
    comma = scan.last > scan.first
    for nested in scan.nested:
        out.put(", " if comma else " ")
        comma = True
        out.keyword("NESTED PATH ", 0, 0, 0)
        out.put(f"{simple_quote(nested.path, out)} AS {quote_identifier(nested.name)}")
        _print_columns(expr, nested, out, implicit)
    _indent(out, -VAR)
    out.keyword(")", 0, 0, 0)
