"""Calls as text: functions, aggregates, window functions, and functions with SQL syntax of their own."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.routines import routine
from pgrepl.expr import tree
from pgrepl.expr.print_expr import IMPLICIT, print_cast, print_expr, print_list, print_part
from pgrepl.expr.printer import Printer
from pgrepl.expr.tree import AggOrder, Aggref, Const, Expr, FuncExpr, NamedArg, WindowFunc
from pgrepl.sql.nodes import CoercionForm
from pgrepl.sql.quote import quote_identifier, quote_qualified
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
    from pgrepl.expr.calls import name_finds

    found = name_finds(out.session, proc, types, names, expand_variadic=not variadic)
    return quote_qualified(None if found else proc.schema, proc.name)


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
    from pgrepl.expr.print_query import print_direction, print_sort_expr

    for number, key in enumerate(keys):
        if number:
            out.put(", ")
        print_sort_expr(key.expr, out)
        print_direction(key.expr.type, key.sortop, key.nulls_first, out)


@print_expr.register(WindowFunc)
def _(expr: WindowFunc, out: Printer, implicit: bool) -> None:
    print_window_function(expr, out)


def print_window_function(expr: WindowFunc, out: Printer, function: str = "", options: str = "") -> None:
    """As get_windowfunc_expr_helper does."""
    from pgrepl.expr.print_query import print_window

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
