"""Calls and constructs as text: functions, aggregates, window functions, CASE, arrays, rows, COALESCE and its like;
SQL/JSON's expressions and JSON_TABLE (get_json_constructor, get_json_expr_options, get_json_table).
"""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.facts.namespace import routine
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import name_finds
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.analyse.targets import named_row_columns
from pgrepl.expr.print.print_expr import (
    IMPLICIT,
    operator_name,
    print_cast,
    print_const,
    print_expr,
    print_list,
    print_part,
    print_top,
    simple_quote,
)
from pgrepl.expr.print.print_query import print_direction, print_sort_expr, print_window
from pgrepl.expr.print.printer import VAR, Printer, type_with_typmod
from pgrepl.expr.tree import AggOrder, Aggref, Const, Expr, FuncExpr, NamedArg, OpExpr, Var, WindowFunc
from pgrepl.expr.walk import without_implicit_casts
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import oids
from pgrepl.types.builtin import Proc


def function_name(out: Printer, proc: Proc, args: Sequence[Expr], variadic: bool) -> str:
    """The function's name, schema-qualified when the bare name would find another function (generate_function_name)."""
    if out.in_group_by and proc.name in ("cube", "rollup"):
        return quote_qualified(proc.schema, proc.name)
    names = [arg.name for arg in args if isinstance(arg, NamedArg)]
    types = [arg.type for arg in args]
    if tuple(types) == proc.argtypes and not (names or proc.variadic) and proc.schema == "pg_catalog":
        return quote_identifier(proc.name)
    is_enough = name_finds(out.session, proc, types, names, expand_variadic=not variadic)
    return quote_qualified(None if is_enough else proc.schema, proc.name)


def _proc(oid: int, out: Printer) -> Proc:
    proc = routine(out.session, oid)
    assert proc is not None
    return proc


@print_expr.register(FuncExpr)
def _(expr: FuncExpr, out: Printer, implicit: bool) -> None:
    if expr.form is IMPLICIT and not implicit:
        print_part(expr.args[0], out, False, expr)
        return
    if expr.form in (CoercionForm.EXPLICIT_CAST, IMPLICIT):
        print_cast(expr.args[0], out, expr.type, expr.typmod, expr)
        return
    proc = _proc(expr.func, out)
    if expr.form is CoercionForm.SQL_SYNTAX and _special_syntax(proc, expr, out):
        return
    out.put(f"{function_name(out, proc, expr.args, expr.variadic)}(")
    for number, arg in enumerate(expr.args, 1):
        if number > 1:
            out.put(", ")
        if expr.variadic and number == len(expr.args):
            out.put("VARIADIC ")
        print_expr(arg, out, True)
    out.put(")")


@print_expr.register(Aggref)
def _(expr: Aggref, out: Printer, implicit: bool) -> None:
    print_aggregate(expr, out)


def print_aggregate(expr: Aggref, out: Printer, function: str = "", options: str = "") -> None:
    """Print an aggregate; one of SQL/JSON by its own name, with its clauses (get_agg_expr_helper)."""
    proc = _proc(expr.func, out)
    name = function or function_name(out, proc, (*expr.direct_args, *expr.args), expr.variadic)
    out.put(f"{name}({'DISTINCT ' if expr.distinct else ''}")
    if expr.kind != "n":
        print_list(expr.direct_args, out, True)
        out.put(") WITHIN GROUP (ORDER BY ")
        _print_order(expr.order, out)
    else:
        if expr.star:
            out.put("*")
        for number, arg in enumerate(expr.args, 1):
            if number > 1:
                out.put(" : " if function else ", ")
            if expr.variadic and number == len(expr.args):
                out.put("VARIADIC ")
            print_expr(arg, out, True)
        if expr.order:
            out.put(" ORDER BY ")
            _print_order(expr.order, out)
    out.put(options)
    _print_filter(expr.filter, out)
    out.put(")")


def _print_filter(condition: Expr | None, out: Printer) -> None:
    if condition is not None:
        out.put(") FILTER (WHERE ")
        print_expr(condition, out, False)


def _print_order(keys: Sequence[AggOrder], out: Printer) -> None:
    for number, key in enumerate(keys):
        if number:
            out.put(", ")
        print_sort_expr(key.expr, out)
        print_direction(key.expr.type, key.sortop, key.nulls_first, out)


@print_expr.register(WindowFunc)
def _(expr: WindowFunc, out: Printer, implicit: bool) -> None:
    print_window_function(expr, out)


def print_window_function(expr: WindowFunc, out: Printer, function: str = "", options: str = "") -> None:
    """A window function call as text (get_windowfunc_expr_helper)."""
    out.put(f"{function or function_name(out, _proc(expr.func, out), expr.args, False)}(")
    if expr.star:
        out.put("*")
    elif function:
        for number, arg in enumerate(expr.args):
            out.put(" : " if number else "")
            print_expr(arg, out, True)
    else:
        print_list(expr.args, out, True)
    out.put(options)
    _print_filter(expr.filter, out)
    out.put(") OVER ")
    if expr.window >= len(out.windows):
        out.put("(?)")
        return
    window = out.windows[expr.window]
    if window.name is not None:
        out.put(quote_identifier(window.name))
    else:
        print_window(window, out)


@print_expr.register(tree.GroupingFunc)
def _(expr: tree.GroupingFunc, out: Printer, implicit: bool) -> None:
    out.put("GROUPING(")
    print_list(expr.args, out, True)
    out.put(")")


def _special_syntax(proc: Proc, expr: FuncExpr, out: Printer) -> bool:
    """Print a call in its SQL syntax, if it was written so: EXTRACT(… FROM …) and its like (get_func_sql_syntax)."""
    args, name = expr.args, proc.name
    if name == "timezone":
        out.put("(")
        print_part(args[-1], out, False, expr)
        if len(args) == 1:
            out.put(" AT LOCAL)")
        else:
            out.put(" AT TIME ZONE ")
            print_part(args[0], out, False, expr)
            out.put(")")
    elif name == "overlaps":
        _print_around(out, args, "((", ", ", ") OVERLAPS (", ", ", "))")
    elif name == "extract":
        assert isinstance(args[0], Const)
        out.put(f"EXTRACT({quote_identifier(str(args[0].value))} FROM ")
        print_expr(args[1], out, False)
        out.put(")")
    elif name == "is_normalized":
        out.put("(")
        print_part(args[0], out, False, expr)
        form = f" {_constant_text(args[1])}" if len(args) == 2 else ""
        out.put(f" IS{form} NORMALIZED)")
    elif name == "xml_is_well_formed_document":
        pretty = out.style.paren
        out.put("(" if pretty else "")
        print_expr(args[0], out, False)
        out.put(") IS DOCUMENT" if pretty else " IS DOCUMENT")
    elif name == "normalize":
        form = f", {_constant_text(args[1])}" if len(args) == 2 else ""
        _print_around(out, args[:1], "NORMALIZE(", f"{form})")
    elif name == "pg_collation_for":
        _print_around(out, args, "COLLATION FOR (", ")")
    elif name == "overlay":
        words = ["OVERLAY(", " PLACING ", " FROM ", ")"] if len(args) == 3 else None
        _print_around(out, args, *(words or ["OVERLAY(", " PLACING ", " FROM ", " FOR ", ")"]))
    elif name == "position":
        _print_around(out, (args[1], args[0]), "POSITION((", ") IN (", "))")
    elif name == "substring":
        return _substring(proc, args, out)
    elif name in _TRIMS:
        characters, (string, *_) = args[1:], args
        out.put(f"TRIM({_TRIMS[name]}")
        for part in characters:
            out.put(" ")
            print_expr(part, out, False)
        _print_around(out, (string,), " FROM ", ")")
    elif name == "system_user":
        out.put("SYSTEM_USER")
    else:
        return False
    return True


_TRIMS = {"btrim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


def _substring(proc: Proc, args: Sequence[Expr], out: Printer) -> bool:
    if proc.argtypes == (oids.TEXT, oids.TEXT, oids.TEXT):
        _print_around(out, args, "SUBSTRING(", " SIMILAR ", " ESCAPE ", ")")
        return True
    if proc.argtypes[1] != oids.INT4:
        return False
    if len(args) == 2:
        _print_around(out, args, "SUBSTRING(", " FROM ", ")")
    else:
        _print_around(out, args, "SUBSTRING(", " FROM ", " FOR ", ")")
    return True


def _constant_text(expr: Expr) -> str:
    assert isinstance(expr, Const)
    return str(expr.value)


def _print_around(out: Printer, args: Sequence[Expr], *words: str) -> None:
    """Print key words and arguments in turn."""
    for word, arg in zip(words, args, strict=False):
        out.put(word)
        print_expr(arg, out, False)
    out.put(words[-1])


# --- print constructs -------------------------------------------------------------------------------------------------


@print_expr.register(tree.CaseExpr)
def _(expr: tree.CaseExpr, out: Printer, implicit: bool) -> None:
    out.keyword("CASE", 0, VAR, 0)
    if expr.arg is not None:
        out.put(" ")
        print_expr(expr.arg, out, True)
    for condition, result in expr.whens:
        if expr.arg is not None:
            condition = _compared_with(condition)
        _line(out, "WHEN ", 0)
        print_expr(condition, out, False)
        out.put(" THEN ")
        print_expr(result, out, True)
    assert expr.default is not None
    _line(out, "ELSE ", 0)
    print_expr(expr.default, out, True)
    _line(out, "END", -VAR)


def _line(out: Printer, word: str, before: int) -> None:
    if not out.style.indent:
        out.put(" ")
    out.keyword(word, before, 0, 0)


def _compared_with(condition: Expr) -> Expr:
    """The expression after WHEN in CASE x WHEN …: the right side of its comparison with x."""
    if isinstance(condition, OpExpr) and len(condition.args) == 2:
        left, right = condition.args
        if isinstance(without_implicit_casts(left), tree.CaseTestExpr):
            return right
    return condition


@print_expr.register(tree.CaseTestExpr)
def _(expr: tree.CaseTestExpr, out: Printer, implicit: bool) -> None:
    out.put("CASE_TEST_EXPR")


@print_expr.register(tree.ArrayExpr)
def _(expr: tree.ArrayExpr, out: Printer, implicit: bool) -> None:
    out.put("ARRAY[")
    print_list(expr.elements, out, True)
    out.put("]")
    if not expr.elements:
        out.put(f"::{type_with_typmod(out.session, expr.type, -1)}")


@print_expr.register(tree.RowExpr)
def _(expr: tree.RowExpr, out: Printer, implicit: bool) -> None:
    columns = named_row_columns(Scope(out.session), expr.type) if expr.type != oids.RECORD else ()
    out.put("ROW(")
    separator = ""
    for number, arg in enumerate(expr.args):
        if number < len(columns) and columns[number].dropped:
            continue
        out.put(separator)
        print_top(arg, out, True)
        separator = ", "
    for column in columns[len(expr.args) :]:
        if not column.dropped:
            out.put(f"{separator}NULL")
            separator = ", "
    out.put(")")
    if expr.form is CoercionForm.EXPLICIT_CAST:
        out.put(f"::{type_with_typmod(out.session, expr.type, -1)}")


def print_list_top(exprs: Sequence[Expr], out: Printer) -> None:
    for number, expr in enumerate(exprs):
        if number:
            out.put(", ")
        print_top(expr, out, True)


@print_expr.register(tree.RowCompareExpr)
def _(expr: tree.RowCompareExpr, out: Printer, implicit: bool) -> None:
    out.put("(ROW(")
    print_list_top(expr.left, out)
    out.put(f") {operator_name(out, expr.ops[0], expr.left[0].type, expr.right[0].type)} ROW(")
    print_list_top(expr.right, out)
    out.put("))")


@print_expr.register(tree.CoalesceExpr)
def _(expr: tree.CoalesceExpr, out: Printer, implicit: bool) -> None:
    out.put("COALESCE(")
    print_list(expr.args, out, True)
    out.put(")")


@print_expr.register(tree.MinMaxExpr)
def _(expr: tree.MinMaxExpr, out: Printer, implicit: bool) -> None:
    out.put("GREATEST(" if expr.greatest else "LEAST(")
    print_list(expr.args, out, True)
    out.put(")")


@print_expr.register(tree.SubscriptingRef)
def _(expr: tree.SubscriptingRef, out: Printer, implicit: bool) -> None:
    assert expr.container is not None
    parens = not isinstance(expr.container, (Var, tree.FieldSelect))
    out.put("(" if parens else "")
    print_expr(expr.container, out, implicit)
    out.put(")" if parens else "")
    for number, upper in enumerate(expr.upper):
        out.put("[")
        if expr.is_slice:
            lower = expr.lower[number]
            if lower is not None:
                print_expr(lower, out, False)
            out.put(":")
        if upper is not None:
            print_expr(upper, out, False)
        out.put("]")


@print_expr.register(tree.FieldSelect)
def _(expr: tree.FieldSelect, out: Printer, implicit: bool) -> None:
    arg = expr.arg
    assert arg is not None
    parens = not isinstance(arg, (tree.SubscriptingRef, tree.FieldSelect))
    out.put("(" if parens else "")
    print_expr(arg, out, True)
    out.put(")" if parens else "")
    name = expr.name
    if lookup.is_complex(arg.type):
        columns = named_row_columns(Scope(out.session), arg.type)
        if expr.fieldnum <= len(columns):
            name = columns[expr.fieldnum - 1].name
    out.put(f".{quote_identifier(name)}")


@print_expr.register(tree.NamedArg)
def _(expr: tree.NamedArg, out: Printer, implicit: bool) -> None:
    assert expr.arg is not None
    out.put(f"{quote_identifier(expr.name)} => ")
    print_expr(expr.arg, out, implicit)


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
