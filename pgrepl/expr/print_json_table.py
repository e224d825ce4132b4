"""JSON_TABLE as text (get_json_table)."""

from __future__ import annotations

from pgrepl.expr import tree, typefacts
from pgrepl.expr.print_expr import print_expr, simple_quote
from pgrepl.expr.print_json import print_behavior, print_options, print_path
from pgrepl.expr.printer import VAR, Printer, type_with_typmod
from pgrepl.sql.quote import quote_identifier


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
        elif value.function == "JSON_QUERY" and typefacts.category(column.type) == typefacts.STRING_CATEGORY:
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
